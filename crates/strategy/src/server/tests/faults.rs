//! Members that are late, lost, back, too few, or wrong.

use super::*;

fn patient(straggler_s: f64) -> Rule {
    Rule { straggler: Some(seconds(straggler_s)), ..sync_rule() }
}

#[test]
fn a_straggler_is_left_behind_once() {
    let mut bench = Bench::started(patient(5.0), 3, 100);
    assert_eq!(bench.server.next_deadline(), None, "nobody waits");
    bench.push(1.0, 1, 1, "0.0", &[]);
    bench.push(2.0, 3, 3, "0.2", &[]);
    assert_eq!(bench.server.next_deadline(), Some(seconds(6.0)));
    bench.check(5.9, Event::Tick, &[]);
    bench.check(
        6.0,
        Event::Tick,
        &[
            "late 2: is late, round 1 goes on without it: no push for 6.0 s",
            "apply [1#1-0 3#3-0] v1",
            "release 1#4 v1 [0.3]",
            "release 3#5 v1 [0.4]",
        ],
    );
    bench.push(7.0, 1, 4, "0.3", &[]);
    bench.push(7.1, 3, 5, "0.4", &["apply [1#4-0 3#5-0] v2", "release 1#6 v2 [0.5]", "release 3#7 v2 [0.6]"]);
    bench.push(
        8.0,
        2,
        2,
        "0.1",
        &["discard 2#2 late: is 2 versions behind; at most 0 are taken", "release 2#8 v2 [0.1]"],
    );
}

#[test]
fn lost_while_it_computes() {
    let mut bench = Bench::started(sync_rule(), 3, 4);
    bench.push(1.0, 1, 1, "0.0", &[]);
    bench.push(1.0, 3, 3, "0.2", &[]);
    bench.lose(6.0, 2, &["apply [1#1-0 3#3-0] v1", "release 1#4 v1 [0.1]", "release 3#5 v1 [0.3]"]);
    bench.push(6.5, 2, 2, "0.1", &["discard 2#2: is not a member"]);
    bench.lose(6.6, 2, &[]);
    bench.push(7.0, 1, 4, "0.1", &[]);
    bench.push(7.1, 3, 5, "0.3", &["apply [1#4-0 3#5-0] v2", "epoch 0", "finished"]);
}

#[test]
fn a_push_outlives_its_member() {
    let mut bench = Bench::started(sync_rule(), 2, 3);
    bench.push(1.0, 1, 1, "0.0", &[]);
    bench.lose(1.5, 1, &[]);
    bench.join(1.6, 1, &["release 1#3 v0 [0.2]"]);
    bench.push(1.7, 1, 1, "0.0", &["discard 1#1: answers order 1; its order is 3"]);
    bench.push(1.8, 2, 2, "0.1", &[]);
    bench.push(2.0, 1, 3, "0.2", &["apply [1#1-0 1#3-0 2#2-0] v1", "epoch 0", "finished"]);
}

#[test]
fn who_comes_back_goes_on_where_the_others_are() {
    let mut bench = Bench::started(sync_rule(), 2, 100);
    bench.lose(0.5, 2, &[]);
    for (order, unit) in [(1, "0.0"), (3, "0.1")] {
        bench.server.on(
            Event::Pushed { member: 1, order, done: units(unit), unused: Vec::new(), empty: false },
            seconds(1.0),
        );
    }
    bench.join(2.0, 2, &["release 2#5 v2 [0.3]"]);
}

#[test]
fn units_that_come_back_wake_the_idle() {
    let mut bench = Bench::started(sync_rule(), 3, 2);
    assert_eq!(
        bench.server.members().map(|(id, m)| (id, m.units.len())).collect::<Vec<_>>(),
        [(1, 1), (2, 1), (3, 0)]
    );
    bench.lose(1.0, 1, &["release 3#3 v0 [0.0]"]);
}

#[test]
fn too_few_members_wait() {
    let mut bench = Bench::new(Rule { min_members: 2, ..sync_rule() }, 100, 1);
    bench.join(0.0, 1, &[]);
    bench.check(0.0, Event::Start, &["waiting: 1 of at least 2 members are there"]);
    bench.check(0.5, Event::Tick, &[]);
    bench.join(1.0, 2, &["release 1#1 v0 [0.0]", "release 2#2 v0 [0.1]"]);
    bench.lose(2.0, 1, &["waiting: 1 of at least 2 members are there"]);
    bench.push(3.0, 2, 2, "0.1", &[]);
    bench.lose(4.0, 2, &["waiting: 0 of at least 2 members are there"]);
    bench.join(5.0, 3, &["waiting: 1 of at least 2 members are there"]);
    bench.join(6.0, 4, &["apply [2#2-0] v1", "release 3#3 v1 [0.0]", "release 4#4 v1 [0.2]"]);
}

#[test]
fn more_than_enough_after_a_pause_is_late() {
    let mut bench = Bench::started(Rule { take: Some(1), min_members: 3, ..sync_rule() }, 3, 100);
    bench.server.on(Event::Lost { member: 3 }, seconds(1.0));
    bench.push(2.0, 2, 2, "0.1", &[]);
    bench.push(2.1, 1, 1, "0.0", &[]);
    bench.join(
        3.0,
        3,
        &[
            "apply [2#2-0] v1",
            "discard 1#1 late: is 1 version behind; at most 0 are taken",
            "release 1#4 v1 [0.0]",
            "release 2#5 v1 [0.2]",
            "release 3#6 v1 [0.3]",
        ],
    );
}

#[test]
fn wrong_answers_count_nothing() {
    let mut bench = Bench::started(sync_rule(), 2, 100);
    bench.push(1.0, 9, 1, "0.0", &["discard 9#1: is not a member"]);
    bench.push(1.0, 1, 2, "0.0", &["discard 1#2: answers order 2; its order is 1"]);
    bench.push(1.0, 2, 2, "0.1", &[]);
    bench.push(1.0, 2, 2, "0.1", &["discard 2#2: answers order 2; it has no order to answer"]);
    // The order is over: nobody waits for a better answer, and another does the unit.
    bench.push(
        1.0,
        1,
        1,
        "0.5",
        &[
            "discard 1#1: it names unit 5 of epoch 0, which it does not hold",
            "apply [2#2-0] v1",
            "release 1#3 v1 [0.0]",
            "release 2#4 v1 [0.2]",
        ],
    );
    bench.push(2.0, 1, 3, "0.0 0.0", &["discard 1#3: it names 2 units and holds 1"]);
}

#[test]
fn a_relay_without_workers_is_not_asked_in_circles() {
    let mut bench = Bench::new(sync_rule(), 4, 1);
    bench.check(0.0, Event::Joined { member: 1, lease: 2 }, &[]);
    bench.check(0.0, Event::Start, &["release 1#1 v0 [0.0 0.1]"]);
    bench.answer(1.0, 1, 1, "", "0.0 0.1", &["discard 1#1: hands back what it was to do"]);
    bench.check(2.0, Event::Lease { member: 1, lease: 0 }, &["waiting: 0 of at least 1 members are there"]);
    bench.check(3.0, Event::Lease { member: 1, lease: 1 }, &["release 1#2 v0 [0.0]"]);
}

/// The rule says "wait until the update cannot hurt", sync says "wait for all": with a bound of 0 they are one.
#[test]
fn a_bound_of_zero_is_sync() {
    let arrivals = [[3, 1, 2], [1, 2, 3], [2, 3, 1], [3, 2, 1]];
    let mut bench = Bench::started(async_rule(0), 3, 100);
    for (round, arrival) in (1..).zip(arrivals) {
        let mut updates = Vec::new();
        for (place, member) in arrival.into_iter().enumerate() {
            let (_, at) = bench.server.members().find(|(id, _)| *id == member).unwrap();
            let Standing::Running { order, version } = at.standing else { panic!("{at:?}") };
            assert_eq!(version, round - 1);
            let done = at.units.clone();
            let pushed = Event::Pushed { member, order, done, unused: Vec::new(), empty: false };
            let actions = bench.server.on(pushed, seconds(1.0));
            assert_eq!(actions.is_empty(), place < 2, "only the last push moves anything");
            updates.extend(actions.into_iter().filter_map(|action| match action {
                Action::Apply { pushes, version, .. } => Some((pushes, version)),
                _ => None,
            }));
        }
        assert_eq!(updates.len(), 1);
        let (pushes, version) = &updates[0];
        assert_eq!(*version, round);
        assert_eq!(pushes.iter().map(|push| push.member).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(pushes.iter().all(|push| push.staleness == 0));
    }
}

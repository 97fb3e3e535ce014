//! Undisturbed runs: sync, backup workers, async.

use super::*;

#[test]
fn sync_waits_for_all_and_deals_in_order_of_id() {
    let mut bench = Bench::new(sync_rule(), 4, 2);
    for member in [7, 3, 5] {
        bench.join(0.0, member, &[]);
    }
    bench.check(0.0, Event::Start, &["release 3#1 v0 [0.0]", "release 5#2 v0 [0.1]", "release 7#3 v0 [0.2]"]);
    bench.push(1.0, 7, 3, "0.2", &[]);
    bench.push(1.1, 3, 1, "0.0", &[]);
    bench.push(
        1.2,
        5,
        2,
        "0.1",
        &[
            "apply [3#1-0 5#2-0 7#3-0] v1",
            "release 3#4 v1 [0.3]",
            "release 5#5 v1 [1.0]",
            "release 7#6 v1 [1.1]",
        ],
    );
    bench.push(2.0, 3, 4, "0.3", &[]);
    bench.push(2.1, 5, 5, "1.0", &[]);
    bench.push(
        2.2,
        7,
        6,
        "1.1",
        &["apply [3#4-0 5#5-0 7#6-0] v2", "epoch 0", "release 3#7 v2 [1.2]", "release 5#8 v2 [1.3]"],
    );
    bench.push(3.0, 5, 8, "1.3", &[]);
    bench.push(3.1, 3, 7, "1.2", &["apply [3#7-0 5#8-0] v3", "epoch 1", "finished"]);
    bench.push(3.2, 3, 7, "1.2", &[]);
    bench.check(4.0, Event::Tick, &[]);
}

#[test]
fn the_member_of_rank_k_always_gets_unit_round_times_n_plus_k() {
    for count in 1..=4 {
        let ids: Vec<u64> = (0..count).map(|k| 10 + 7 * k).collect();
        let mut server = Server::new(sync_rule(), Deck::new(1000, None), 0);
        for &member in ids.iter().rev() {
            server.on(Event::Joined { member, lease: 1 }, Duration::ZERO);
        }
        let mut actions = server.on(Event::Start, Duration::ZERO);
        for round in 0..5 {
            let releases: Vec<_> = actions
                .into_iter()
                .filter_map(|action| match action {
                    Action::Release { member, order, units, .. } => Some((member, order, units)),
                    _ => None,
                })
                .collect();
            for (k, (member, _, units)) in releases.iter().enumerate() {
                assert_eq!((*member, units.len()), (ids[k], 1));
                assert_eq!(u64::from(units[0].index), round * count + k as u64);
            }
            assert_eq!(releases.len() as u64, count);
            actions = Vec::new();
            // The last shall be first: arrival changes nothing.
            for (member, order, done) in releases.into_iter().rev() {
                let pushed = Event::Pushed { member, order, done, unused: Vec::new(), empty: false };
                actions = server.on(pushed, Duration::ZERO);
            }
        }
    }
}

#[test]
fn backup_workers_take_the_first_two_of_three() {
    let mut bench = Bench::started(Rule { take: Some(2), ..sync_rule() }, 3, 100);
    bench.push(1.0, 3, 3, "0.2", &[]);
    bench.push(1.1, 2, 2, "0.1", &["apply [2#2-0 3#3-0] v1", "release 2#4 v1 [0.3]", "release 3#5 v1 [0.4]"]);
    bench.push(
        1.2,
        1,
        1,
        "0.0",
        &["discard 1#1 late: is 1 version behind; at most 0 are taken", "release 1#6 v1 [0.0]"],
    );
    bench.push(2.0, 2, 4, "0.3", &[]);
    bench.push(2.1, 1, 6, "0.0", &["apply [1#6-0 2#4-0] v2", "release 1#7 v2 [0.5]", "release 2#8 v2 [0.6]"]);
}

#[test]
fn backup_workers_do_not_wait_for_more_than_there_are() {
    let mut bench = Bench::started(Rule { take: Some(2), ..sync_rule() }, 2, 100);
    bench.lose(0.5, 2, &[]);
    bench.push(1.0, 1, 1, "0.0", &["apply [1#1-0] v1", "release 1#3 v1 [0.1]"]);
}

/// Member 1 is fast, member 2 does not answer: how many updates does member 1 get alone?
#[test]
fn async_runs_ahead_as_far_as_the_bound() {
    let check = |bound: u64| {
        let mut bench = Bench::started(async_rule(bound), 2, 100);
        let mut order = 1;
        for version in 0..bound {
            let unit = if version == 0 { "0.0".to_owned() } else { format!("0.{}", version + 1) };
            let next = if version == 0 { 3 } else { order + 1 };
            let apply = format!("apply [1#{order}-0] v{}", version + 1);
            let release = format!("release 1#{next} v{} [0.{}]", version + 1, version + 2);
            bench.push(1.0, 1, order, &unit, &[&apply, &release]);
            order = next;
        }
        let unit = if bound == 0 { "0.0".to_owned() } else { format!("0.{}", bound + 1) };
        bench.push(1.0, 1, order, &unit, &[]);
        let actions = bench.server.on(
            Event::Pushed { member: 2, order: 2, done: units("0.1"), unused: Vec::new(), empty: false },
            seconds(2.0),
        );
        let apply = format!("apply [1#{order}-0 2#2-{bound}] v{}", bound + 1);
        assert_eq!(line(actions[0].clone()), apply);
    };
    for bound in [0, 1, 2, 8] {
        check(bound);
    }
}

#[test]
fn a_bound_on_updates_ends_the_run() {
    let mut bench = Bench::started(Rule { max_updates: Some(1), ..async_rule(8) }, 2, 100);
    bench.push(1.0, 1, 1, "0.0", &["apply [1#1-0] v1", "finished"]);
    bench.push(1.1, 2, 2, "0.1", &[]);
    assert!(bench.server.is_finished());
}

#[test]
fn a_run_that_is_over_ends_at_its_start() {
    let mut server = Server::new(sync_rule(), Deck::resume(4, Some(1), 4, &[]), 9);
    let lines: Vec<_> = server.on(Event::Start, Duration::ZERO).into_iter().map(line).collect();
    assert_eq!(lines, ["finished"]);
}

#[test]
fn a_lease_is_topped_up() {
    let mut bench = Bench::new(async_rule(8), 6, 1);
    bench.check(0.0, Event::Joined { member: 1, lease: 4 }, &[]);
    bench.check(0.0, Event::Start, &["release 1#1 v0 [0.0 0.1 0.2 0.3]"]);
    bench.push(1.0, 1, 1, "0.1 0.2", &["apply [1#1-0] v1", "release 1#2 v1 [0.4 0.5]"]);
    // Nothing new is there for it, but what it still holds needs an order to answer.
    bench.push(2.0, 1, 2, "0.0", &["apply [1#2-0] v2", "release 1#3 v2 []"]);
    bench.answer(3.0, 1, 3, "0.4 0.5", "0.3", &["apply [1#3-0] v3", "release 1#4 v3 [0.3]"]);
    bench.push(4.0, 1, 4, "0.3", &["apply [1#4-0] v4", "epoch 0", "finished"]);
}

#[test]
fn an_empty_push_counts_like_any_other() {
    let mut bench = Bench::started(sync_rule(), 2, 2);
    bench.push(1.0, 2, 2, "0.1", &[]);
    let pushed = Event::Pushed { member: 1, order: 1, done: units("0.0"), unused: Vec::new(), empty: true };
    let actions = bench.server.on(pushed, seconds(1.1));
    let Action::Apply { pushes, .. } = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(pushes.iter().map(|push| push.empty).collect::<Vec<_>>(), [true, false]);
    assert_eq!(actions[1], Action::EpochDone(0));
}

#[test]
fn workers_do_several_units_by_themselves_from_some_update_on() {
    let rule = Rule { pace: Pace { after: 1, steps: 3 }, ..sync_rule() };
    let mut bench = Bench::new(rule, 100, 1);
    bench.check(0.0, Event::Joined { member: 1, lease: 1 }, &[]);
    bench.check(0.0, Event::Joined { member: 2, lease: 2 }, &[]);
    bench.check(0.0, Event::Start, &["release 1#1 v0 [0.0]", "release 2#2 v0 [0.1 0.2]"]);
    bench.push(1.0, 1, 1, "0.0", &[]);
    bench.push(
        1.0,
        2,
        2,
        "0.1 0.2",
        &[
            "apply [1#1-0 2#2-0] v1",
            "release 1#3 v1 [0.3 0.6 0.9]",
            "release 2#4 v1 [0.4 0.5 0.7 0.8 0.10 0.11]",
        ],
    );
    bench.lose(2.0, 2, &[]);
    // What nobody did comes first. A change holds for nobody who is at work.
    bench.check(2.0, Event::Paced { pace: Pace { after: 0, steps: 2 } }, &[]);
    bench.push(3.0, 1, 3, "0.3 0.6 0.9", &["apply [1#3-0] v2", "release 1#5 v2 [0.4 0.5]"]);
    assert_eq!((bench.server.steps_on(1), bench.server.steps_on(2)), (1, 2));
}

use super::*;

/// A relay whose answers are read as lines of text; units are of epoch 0.
struct Bench(Relay);

fn units(indices: &[u32]) -> Vec<Unit> {
    indices.iter().map(|&index| Unit { epoch: 0, index }).collect()
}

fn line(action: Action) -> String {
    let indices = |units: &[Unit]| units.iter().map(|unit| unit.index).collect::<Vec<_>>();
    let words = |units: &[Unit]| indices(units).iter().map(u32::to_string).collect::<Vec<_>>().join("+");
    match action {
        Action::Release { worker, order, version, units } => {
            format!("release {worker}#{order} v{version} {}", words(&units))
        }
        Action::Accumulate { worker, order } => format!("add {worker}#{order}"),
        Action::PushUp { order, shares, done, unused, oldest } => {
            assert_eq!(done, shares.iter().flat_map(|share| share.units.clone()).collect::<Vec<_>>());
            let part = |share: &Share| format!("{}#{}={}", share.worker, share.order, words(&share.units));
            let shares = shares.iter().map(part).collect::<Vec<_>>().join(" ");
            format!("up {order} [{shares}] unused {:?} of v{oldest}", indices(&unused))
        }
        Action::Offer { lease } => format!("offer {lease}"),
        Action::Discard { worker, order, reason } => format!("discard {worker}#{order}: {reason}"),
        Action::Forget { reason } => format!("forget: {reason}"),
    }
}

impl Bench {
    /// A relay with workers 1 to `workers`.
    fn new(is_async: bool, workers: u64) -> Self {
        let mut relay = Relay::new(Rule { is_async, workers: workers as usize });
        for worker in 1..=workers {
            relay.on(Event::Joined { worker });
        }
        Self(relay)
    }

    fn check(&mut self, event: Event, expect: &[&str]) {
        let told = format!("{event:?}");
        let lines: Vec<String> = self.0.on(event).into_iter().map(line).collect();
        assert_eq!(lines, expect, "{told}");
    }

    fn order(&mut self, order: u64, version: u64, indices: &[u32], expect: &[&str]) {
        self.check(Event::Order { order, version, units: units(indices), steps: 1 }, expect);
    }

    fn push(&mut self, worker: u64, order: u64, index: u32, expect: &[&str]) {
        self.push_all(worker, order, &[index], expect);
    }

    fn push_all(&mut self, worker: u64, order: u64, indices: &[u32], expect: &[&str]) {
        self.check(Event::Pushed { worker, order, units: units(indices) }, expect);
    }
}

#[test]
fn sync_sums_up_in_order_of_id() {
    let mut bench = Bench::new(false, 2);
    assert_eq!(bench.0.lease(), 2);
    bench.order(7, 3, &[4, 5], &["release 1#1 v3 4", "release 2#2 v3 5"]);
    bench.push(2, 2, 5, &[]);
    bench.push(1, 1, 4, &["up 7 [1#1=4 2#2=5] unused [] of v3"]);
}

#[test]
fn sync_with_more_units_than_workers_goes_on_until_all_are_done() {
    let mut bench = Bench::new(false, 2);
    bench.order(7, 0, &[0, 1, 2], &["release 1#1 v0 0", "release 2#2 v0 1"]);
    bench.push(2, 2, 1, &["release 2#3 v0 2"]);
    bench.push(1, 1, 0, &[]);
    bench.push(2, 3, 2, &["up 7 [1#1=0 2#2=1 2#3=2] unused [] of v0"]);
}

#[test]
fn workers_do_several_units_by_themselves() {
    let mut bench = Bench::new(false, 2);
    let order = Event::Order { order: 7, version: 3, units: units(&[0, 1, 4, 5, 8, 9]), steps: 3 };
    bench.check(order, &["release 1#1 v3 0+4+8", "release 2#2 v3 1+5+9"]);
    bench.push_all(2, 2, &[1, 5, 9], &[]);
    // Another does what a lost one was to do.
    bench.check(Event::Lost { worker: 1 }, &["offer 1", "release 2#3 v3 0+4+8"]);
    let wrong = "discard 2#3: names unit 0 of epoch 0 and 1 more; its order was unit 0 of epoch 0 and 2 more";
    bench.push_all(2, 3, &[0, 4], &[wrong, "release 2#4 v3 0+4+8"]);
    bench.push_all(2, 4, &[0, 4, 8], &["up 7 [2#2=1+5+9 2#4=0+4+8] unused [] of v3"]);
    // The last order of a run may be short.
    let order = Event::Order { order: 8, version: 4, units: units(&[12, 13]), steps: 3 };
    bench.check(order, &["release 2#5 v4 12+13"]);
}

#[test]
fn sync_redoes_the_unit_of_a_lost_worker() {
    let mut bench = Bench::new(false, 2);
    bench.order(7, 0, &[0, 1], &["release 1#1 v0 0", "release 2#2 v0 1"]);
    bench.push(1, 1, 0, &[]);
    bench.check(Event::Lost { worker: 2 }, &["offer 1", "release 1#3 v0 1"]);
    bench.push(2, 2, 1, &["discard 2#2: is not a worker of this relay"]);
    bench.push(1, 3, 1, &["up 7 [1#1=0 1#3=1] unused [] of v0"]);
}

#[test]
fn sync_without_workers_answers_at_once() {
    let mut bench = Bench::new(false, 2);
    bench.order(7, 0, &[0, 1], &["release 1#1 v0 0", "release 2#2 v0 1"]);
    bench.push(1, 1, 0, &[]);
    bench.check(Event::Lost { worker: 1 }, &["offer 1"]);
    bench.check(Event::Lost { worker: 2 }, &["offer 0", "up 7 [1#1=0] unused [1] of v0"]);
    bench.order(8, 1, &[2], &["up 8 [] unused [2] of v1"]);
    bench.check(Event::Joined { worker: 3 }, &["offer 1"]);
    bench.order(9, 1, &[2], &["release 3#3 v1 2"]);
}

#[test]
fn async_never_waits_while_there_is_stock() {
    let mut bench = Bench::new(true, 2);
    assert_eq!(bench.0.lease(), 4);
    bench.order(7, 0, &[0, 1, 2, 3], &["release 1#1 v0 0", "release 2#2 v0 1"]);
    bench.push(1, 1, 0, &["add 1#1", "release 1#3 v0 2"]);
    bench.push(1, 3, 2, &["add 1#3", "release 1#4 v0 3", "up 7 [1#1=0 1#3=2] unused [] of v0"]);
    // The parent has not answered yet: the sum goes on, and the stock runs out.
    bench.push(2, 2, 1, &["add 2#2"]);
    bench.order(8, 1, &[4, 5], &["release 2#5 v1 4"]);
    bench.push(1, 4, 3, &["add 1#4", "release 1#6 v1 5", "up 8 [2#2=1 1#4=3] unused [] of v0"]);
    bench.order(9, 2, &[], &[]);
    bench.push(2, 5, 4, &["add 2#5"]);
    bench.push(1, 6, 5, &["add 1#6", "up 9 [2#5=4 1#6=5] unused [] of v1"]);
}

#[test]
fn async_answers_with_what_can_still_come() {
    let mut bench = Bench::new(true, 3);
    bench.order(7, 0, &[0], &["release 1#1 v0 0"]);
    bench.push(1, 1, 0, &["add 1#1", "up 7 [1#1=0] unused [] of v0"]);
    bench.order(8, 1, &[1, 2], &["release 1#2 v1 1", "release 2#3 v1 2"]);
    bench.push(1, 2, 1, &["add 1#2"]);
    bench.check(Event::Lost { worker: 2 }, &["offer 4", "release 1#4 v1 2"]);
    bench.push(1, 4, 2, &["add 1#4", "up 8 [1#2=1 1#4=2] unused [] of v1"]);
}

#[test]
fn async_gives_back_what_is_left_when_the_last_worker_goes() {
    let mut bench = Bench::new(true, 1);
    bench.order(7, 0, &[0, 1, 2], &["release 1#1 v0 0"]);
    bench.push(1, 1, 0, &["add 1#1", "release 1#2 v0 1", "up 7 [1#1=0] unused [] of v0"]);
    bench.check(Event::Lost { worker: 1 }, &["offer 0"]);
    bench.order(8, 1, &[], &["up 8 [] unused [1, 2] of v1"]);
}

#[test]
fn an_order_that_was_not_answered_is_void_when_another_comes() {
    for is_async in [false, true] {
        let mut bench = Bench::new(is_async, 2);
        bench.order(7, 0, &[0, 1], &["release 1#1 v0 0", "release 2#2 v0 1"]);
        bench.0.on(Event::Pushed { worker: 1, order: 1, units: units(&[0]) });
        bench.order(
            8,
            5,
            &[2],
            &["forget: the parent gave another order before this one was answered", "release 1#3 v5 2"],
        );
        bench.push(2, 2, 1, &["discard 2#2: answers order 2; it has no order to answer"]);
        bench.push(1, 1, 0, &["discard 1#1: answers order 1; its order is 3"]);
        let actions = bench.0.on(Event::Pushed { worker: 1, order: 3, units: units(&[2]) });
        let Some(Action::PushUp { order: 8, done, .. }) = actions.last() else { panic!("{actions:?}") };
        assert_eq!(*done, units(&[2]), "nothing of the order that is void");
    }
}

#[test]
fn a_wrong_unit_is_dropped_and_done_again() {
    let mut bench = Bench::new(false, 1);
    bench.order(7, 0, &[0], &["release 1#1 v0 0"]);
    bench.push(
        1,
        1,
        9,
        &["discard 1#1: names unit 9 of epoch 0; its order was unit 0 of epoch 0", "release 1#2 v0 0"],
    );
}

use std::time::Duration;

use super::*;

mod faults;
mod rounds;

/// A server whose answers are read as lines of text.
struct Bench {
    server: Server,
}

fn sync_rule() -> Rule {
    Rule {
        max_staleness: 0,
        take: None,
        straggler: None,
        min_members: 1,
        max_updates: None,
        pace: Pace::UNIT,
    }
}

fn async_rule(max_staleness: u64) -> Rule {
    Rule { max_staleness, ..sync_rule() }
}

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

/// "0.3" is unit 3 of epoch 0.
fn units(text: &str) -> Vec<Unit> {
    let unit = |word: &str| {
        let (epoch, index) = word.split_once('.').unwrap();
        Unit { epoch: epoch.parse().unwrap(), index: index.parse().unwrap() }
    };
    text.split_whitespace().map(unit).collect()
}

fn line(action: Action) -> String {
    match action {
        Action::Apply { pushes, version, .. } => {
            let part = |push: &Contribution| format!("{}#{}-{}", push.member, push.order, push.staleness);
            format!("apply [{}] v{version}", pushes.iter().map(part).collect::<Vec<_>>().join(" "))
        }
        Action::Release { member, order, version, units } => {
            let part = |unit: &Unit| format!("{}.{}", unit.epoch, unit.index);
            let units = units.iter().map(part).collect::<Vec<_>>().join(" ");
            format!("release {member}#{order} v{version} [{units}]")
        }
        Action::Discard { member, order, late, reason } => {
            format!("discard {member}#{order}{}: {reason}", if late { " late" } else { "" })
        }
        Action::Late { member, reason } => format!("late {member}: {reason}"),
        Action::EpochDone(epoch) => format!("epoch {epoch}"),
        Action::Waiting { reason } => format!("waiting: {reason}"),
        Action::Finished => "finished".to_owned(),
    }
}

impl Bench {
    fn new(rule: Rule, units_per_epoch: u32, epochs: u64) -> Self {
        Self { server: Server::new(rule, Deck::new(units_per_epoch, Some(epochs)), 0) }
    }

    /// A server with members 1 to `count`, one unit each, that has started at 0 s.
    fn started(rule: Rule, count: u64, units_per_epoch: u32) -> Self {
        let mut bench = Self::new(rule, units_per_epoch, 1);
        for member in 1..=count {
            bench.check(0.0, Event::Joined { member, lease: 1 }, &[]);
        }
        bench.server.on(Event::Start, Duration::ZERO);
        bench
    }

    fn check(&mut self, now: f64, event: Event, expect: &[&str]) {
        let told = format!("{event:?} at {now} s");
        let lines: Vec<String> = self.server.on(event, seconds(now)).into_iter().map(line).collect();
        assert_eq!(lines, expect, "{told}");
    }

    fn push(&mut self, now: f64, member: u64, order: u64, done: &str, expect: &[&str]) {
        self.answer(now, member, order, done, "", expect);
    }

    fn answer(&mut self, now: f64, member: u64, order: u64, done: &str, unused: &str, expect: &[&str]) {
        let (done, unused) = (units(done), units(unused));
        self.check(now, Event::Pushed { member, order, done, unused, empty: false }, expect);
    }

    fn lose(&mut self, now: f64, member: u64, expect: &[&str]) {
        self.check(now, Event::Lost { member }, expect);
    }

    fn join(&mut self, now: f64, member: u64, expect: &[&str]) {
        self.check(now, Event::Joined { member, lease: 1 }, expect);
    }
}

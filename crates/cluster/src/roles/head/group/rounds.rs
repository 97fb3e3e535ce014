//! What the members of a group say of their rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use bonfire_learn::Tally;
use bonfire_report as report;
use bonfire_run::run_file::{Compression, LocalSteps, ReduceOp, Settings, Topology};
use bonfire_strategy::choice::{self, Freedom, Measured, Way};
use bonfire_strategy::group;
use bonfire_wire::proto;

use super::{AHEAD, Leading, plan_of};
use crate::roles::head::balance::Told;

#[derive(Default)]
pub(crate) struct Round {
    pub tally: Tally,
    /// Of the first member that said it.
    pub digest: Option<u64>,
    /// How many members have told of it.
    told: usize,
}

/// What the first rounds of a group took, until enough was measured.
#[derive(Debug)]
pub(crate) struct FirstRounds {
    /// The round before them all.
    begin: u64,
    /// When the first word of one came.
    since: Option<Duration>,
    rounds: BTreeMap<u64, Vec<Took>>,
    /// The least that a member has told.
    latency_s: Option<f64>,
    is_over: bool,
}

/// What a round took one member.
#[derive(Clone, Copy, Debug)]
struct Took {
    compute_s: f64,
    exchange_s: f64,
    sent_bytes: u64,
}

/// So many rounds are looked at, the ones that warm up included.
const ROUNDS: usize = 13;

/// And so many at most where the head waits for a state, which would be lost with a group that forms anew.
const MOST_ROUNDS: usize = 50;

/// So many of them warm up; of fewer rounds a third does.
const WARM_UP: usize = 3;

/// Fewer rounds do if they take so long.
const LONG: Duration = Duration::from_secs(5);
const FEW_ROUNDS: usize = 3;

impl FirstRounds {
    /// Those after a round.
    pub(crate) fn after(begin: u64) -> Self {
        Self { begin, since: None, rounds: BTreeMap::new(), latency_s: None, is_over: false }
    }

    /// The group was formed anew after a round. What others took before is no measure for it.
    pub(crate) fn begin_again(&mut self, begin: u64) {
        *self = Self { is_over: self.is_over, ..Self::after(begin) };
    }

    /// Takes what a member says of a round. Once, when all of so many members have said enough, this round included:
    /// what a round takes. While the head is busy with a state that waits a little.
    pub(crate) fn take(
        &mut self,
        done: &proto::GroupRound,
        members: usize,
        now: Duration,
        is_busy: bool,
    ) -> Option<Measured> {
        if self.is_over || done.round <= self.begin || done.sent_bytes == 0 {
            return None;
        }
        let &proto::GroupRound { compute_s, exchange_s, sent_bytes, .. } = done;
        if let Some(latency_s) = done.latency_s {
            self.latency_s = Some(self.latency_s.map_or(latency_s, |least| least.min(latency_s)));
        }
        let since = *self.since.get_or_insert(now);
        self.rounds.entry(done.round).or_default().push(Took { compute_s, exchange_s, sent_bytes });
        // What one member says may come later than what another does.
        let whole: Vec<&[Took]> =
            self.rounds.values().map(Vec::as_slice).filter(|round| round.len() == members).collect();
        let enough = match now.saturating_sub(since) < LONG {
            _ if is_busy => MOST_ROUNDS,
            true => ROUNDS,
            false => FEW_ROUNDS,
        };
        let is_told_by_all = self.rounds.get(&done.round).is_some_and(|round| round.len() == members);
        if whole.len() < enough || !is_told_by_all {
            return None;
        }
        let measured = self.measured(&whole, members);
        self.is_over = true;
        Some(measured)
    }

    /// The medians over the rounds after those that warm up.
    fn measured(&self, rounds: &[&[Took]], members: usize) -> Measured {
        let warm_up = WARM_UP.min(rounds.len() / 3);
        let over = |of: &dyn Fn(&[Took]) -> f64| {
            median(rounds.iter().skip(warm_up).map(|round| of(round)).collect())
        };
        Measured {
            compute_s: over(&|round| round.iter().map(|took| took.compute_s).fold(0.0, f64::max)),
            // Others have waited for those that compute longer.
            exchange_s: over(&|round| round.iter().map(|took| took.exchange_s).fold(f64::MAX, f64::min)),
            sent_bytes: over(&|round| {
                round.iter().map(|took| took.sent_bytes as f64).sum::<f64>() / members as f64
            }),
            latency_s: self.latency_s.unwrap_or(0.0),
            members,
            is_one_machine: false,
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What a run with these settings, which may do so many steps between two exchanges, could do about a slow wire.
fn freedom(settings: &Settings, most_steps: u64) -> Freedom {
    let is_mean = matches!(settings.topology, Topology::Allreduce { op: ReduceOp::Mean, .. });
    let is_free = is_mean && !settings.topology.uses_mpi();
    Freedom {
        compression: is_free && settings.file.compression == Compression::None,
        steps: is_free && settings.file.local_steps.steps() == 1,
        most_steps,
    }
}

/// Where the time goes and what would help, if the wire takes more than a third of it.
fn advice(measured: &Measured, freedom: Freedom) -> Option<String> {
    if !choice::is_wire_bound(measured) {
        return None;
    }
    let choice = choice::choose(measured, freedom);
    let Way { int8, steps } = choice.way;
    let keys = [
        int8.then(|| "`compression: int8`".to_owned()),
        (steps > 1).then(|| format!("`local_steps: {steps}`")),
    ];
    let keys: Vec<String> = keys.into_iter().flatten().collect();
    if keys.is_empty() {
        return Some(choice.reason);
    }
    let before = measured.compute_s + measured.exchange_s;
    let times = before / (measured.compute_s + choice.exchange_s);
    Some(format!("{}, {times:.1} times as fast; to have that: {}", choice.reason, keys.join(" and ")))
}

impl Leading<'_, '_> {
    /// A member has done a round.
    pub(super) fn done(&mut self, node: u64, done: &proto::GroupRound) -> Result<()> {
        let tally = done.tally.unwrap_or_default();
        let view = self.view.as_ref().filter(|view| view.generation == done.generation);
        let Some(members) = view.map(|view| view.members.len()) else { return Ok(()) };
        if done.round > self.head.run.progress.round.saturating_add(AHEAD) {
            return Ok(());
        }
        self.head.stats.pushed(node, tally.samples, done.compute_s);
        // Around a group everybody receives as much as it sends.
        self.head.stats.aside(node, done.sent_bytes, done.sent_bytes);
        if tally.samples > 0 || done.compute_s > 0.0 {
            self.add(done.round, &tally);
        }
        let is_told_by_all = self.told(node, done, tally) == members;
        if let Some(digest) = done.digest {
            self.compare(node, done.round, digest);
        }
        let is_busy = self.due.is_some() || self.fetch.is_some() || self.teaches;
        let measured = self.first_rounds.take(done, members, self.head.now(), is_busy);
        self.decide(group::Event::Done { member: node, generation: done.generation, round: done.round })?;
        match measured.map(|measured| Measured { is_one_machine: self.is_one_machine(), ..measured }) {
            // All have done this round and none can have done another: the best time to stop.
            Some(measured) if self.is_open() => self.choose(&measured)?,
            Some(measured) => self.advise(&measured),
            None => {}
        }
        if is_told_by_all { self.reshare(done.round) } else { Ok(()) }
    }

    /// Takes what a member tells of a round after the group was formed. How many have told of it.
    fn told(&mut self, node: u64, done: &proto::GroupRound, tally: proto::Tally) -> usize {
        if self.view.as_ref().is_none_or(|view| done.round <= view.round) {
            return 0;
        }
        let &proto::GroupRound { busy_s, compute_s, most_samples, .. } = done;
        self.head.took(node, done.round, &Told { tally, busy_s, compute_s, most_samples });
        let round = self.rounds.entry(done.round).or_default();
        round.told += 1;
        round.told
    }

    /// All have done a round. If that makes other shares, the members stop, and go on with them. While the head waits
    /// for a state, which would be lost with a group that forms anew, that waits too.
    fn reshare(&mut self, round: u64) -> Result<()> {
        let Some(view) = &self.view else { return Ok(()) };
        let ended = plan_of(&self.head.run.job.schedule).epoch_done(view, round);
        self.ended += usize::from(ended.is_some());
        let is_busy = self.due.is_some() || self.fetch.is_some() || self.choosing.is_some() || self.teaches;
        let is_over = self.finished || self.stopping || self.head.exit.is_some();
        if is_busy || is_over || !self.head.rebalance(round, std::mem::take(&mut self.ended)) {
            return Ok(());
        }
        self.reshares = true;
        self.decide(group::Event::Changed { pace: None })
    }

    /// Says where the time goes and what would help.
    fn advise(&mut self, measured: &Measured) {
        let settings = &self.head.run.job.settings;
        let is_decided =
            settings.file.compression == Compression::Auto || settings.file.local_steps == LocalSteps::Auto;
        let advice = advice(measured, freedom(settings, self.most_steps()));
        if let Some(message) = advice.filter(|_| !is_decided && !measured.is_one_machine) {
            self.head.run.tell(report::Event::Noted { message });
        }
    }

    /// All members must have the same parameters. One that differs computes wrongly: bad memory does that to old
    /// machines.
    fn compare(&mut self, node: u64, round: u64, digest: u64) {
        let first = *self.rounds.entry(round).or_default().digest.get_or_insert(digest);
        if first != digest {
            let name = self.head.name(node);
            let message =
                format!("{name} has other parameters than another member of the group after round {round}");
            self.head.run.tell(report::Event::Warned { message });
        }
    }

    fn add(&mut self, round: u64, tally: &proto::Tally) {
        let round = self.rounds.entry(round).or_default();
        round.tally.loss += tally.loss;
        round.tally.weight += tally.weight;
        round.tally.answers = round.tally.answers.saturating_add(tally.answers);
        round.tally.correct = round.tally.correct.saturating_add(tally.correct);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_run::run_file::Overrides;

    fn told(rounds: u64, exchange_s: f64) -> Option<Measured> {
        let mut first = FirstRounds::after(100);
        for round in 101..=100 + rounds {
            for member in 0..3 {
                // The first member is slow: the others wait for it. A round now and then takes longer.
                let hiccup = if round == 107 { 5.0 } else { 0.0 };
                let waited = if member == 0 { 0.0 } else { 0.2 };
                let done = proto::GroupRound {
                    round,
                    compute_s: 0.4 - waited + hiccup,
                    exchange_s: exchange_s + waited,
                    sent_bytes: 1_000_000,
                    ..proto::GroupRound::default()
                };
                if let Some(measured) = first.take(&done, 3, Duration::ZERO, false) {
                    return Some(measured);
                }
            }
        }
        None
    }

    #[test]
    fn the_wait_for_a_slow_member_is_not_the_wire() {
        assert_eq!(told(12, 0.5), None, "not yet");
        let expect = Measured {
            compute_s: 0.4,
            exchange_s: 0.5,
            latency_s: 0.0,
            sent_bytes: 1e6,
            members: 3,
            is_one_machine: false,
        };
        assert_eq!(told(13, 0.5), Some(expect));
    }

    /// Rounds of so many seconds each of two members; what comes of which round.
    fn long_rounds(seconds: u64, latency_s: f64, is_busy: bool) -> Option<(u64, Measured)> {
        let mut first = FirstRounds::after(0);
        first.begin_again(20);
        for round in 21..=80 {
            for member in 0..2 {
                let warm_up = if round == 21 { 9.0 } else { 0.0 };
                let done = proto::GroupRound {
                    round,
                    compute_s: 0.5,
                    exchange_s: seconds as f64 - 0.5 + warm_up,
                    sent_bytes: 1_000_000,
                    latency_s: (round == 23).then_some(latency_s + f64::from(member)),
                    ..proto::GroupRound::default()
                };
                let now = Duration::from_secs((round - 20) * seconds);
                if let Some(measured) = first.take(&done, 2, now, is_busy) {
                    assert_eq!(member, 1, "all have told");
                    assert_eq!(first.take(&done, 2, now, is_busy), None, "once");
                    return Some((round, measured));
                }
            }
        }
        None
    }

    #[test]
    fn fewer_rounds_do_if_they_are_long() {
        let check = |seconds, is_busy, expect: u64| {
            let (round, measured) = long_rounds(seconds, 0.25, is_busy).expect("enough rounds");
            assert_eq!(round, expect, "of {seconds} s");
            assert_eq!((measured.compute_s, measured.exchange_s), (0.5, seconds as f64 - 0.5));
            assert_eq!(measured.latency_s, 0.25, "of the one that waited least");
        };
        check(1, false, 26);
        check(3, false, 23);
        check(60, false, 23);
        check(3, true, 70);
    }

    #[test]
    fn who_waits_for_the_wire_is_told_so() {
        let settings = |rest: &str| {
            let text = format!("{{arch: allreduce, allreduce: {{num_workers: 3{rest}}}}}");
            Settings::read("run.yml", &text, &Overrides::default(), 1).expect("a run file")
        };
        let check = |exchange_s: f64, rest: &str, expect: Option<&str>| {
            let measured = told(13, exchange_s).expect("enough rounds");
            assert_eq!(advice(&measured, freedom(&settings(rest), 50)).as_deref(), expect, "{rest}");
        };
        check(0.1, "", None);
        let wire = "the wire takes 1600 ms of 2000 ms: 1.0 MB at 5 Mbit/s";
        let advice = "int8 and 16 local steps: 25 ms, 4.7 times as fast; \
                      to have that: `compression: int8` and `local_steps: 16`";
        check(1.6, "", Some(&format!("{wire}; {advice}")));
        check(1.6, ", op: adasum", Some(wire));
    }
}

//! What the members of a group say of their rounds.

use std::collections::BTreeMap;

use anyhow::Result;
use bonfire_learn::Tally;
use bonfire_report as report;
use bonfire_run::run_file::{Compression, ReduceOp, Settings, Topology};
use bonfire_strategy::choice::{self, Freedom, Measured, Way};
use bonfire_strategy::group;
use bonfire_wire::proto;

use super::{AHEAD, Leading};

#[derive(Default)]
pub(crate) struct Round {
    pub tally: Tally,
    /// Of the first member that said it.
    pub digest: Option<u64>,
}

/// What the first rounds of this process took, from the third to the twelfth: the ones before warm up.
#[derive(Debug)]
pub(crate) struct FirstRounds {
    /// The round before them all.
    begin: u64,
    rounds: BTreeMap<u64, Vec<Took>>,
    is_over: bool,
}

/// What a round took one member.
#[derive(Clone, Copy, Debug)]
struct Took {
    compute_s: f64,
    exchange_s: f64,
    sent_bytes: u64,
}

/// Which rounds are measured, counted from the first one.
const MEASURED: std::ops::RangeInclusive<u64> = 3..=12;

/// With fewer of them nothing can be said.
const ENOUGH: usize = 5;

impl FirstRounds {
    /// Those after a round.
    pub(crate) fn after(begin: u64) -> Self {
        Self { begin, rounds: BTreeMap::new(), is_over: false }
    }

    /// Takes what a member says of a round. Once, when a later one comes: what a round of so many members takes.
    pub(crate) fn take(&mut self, done: &proto::GroupRound, members: usize) -> Option<Measured> {
        if self.is_over {
            return None;
        }
        let number = done.round.saturating_sub(self.begin);
        if number > *MEASURED.end() {
            self.is_over = true;
            return self.measured(members);
        }
        if MEASURED.contains(&number) && done.sent_bytes > 0 {
            let &proto::GroupRound { compute_s, exchange_s, sent_bytes, .. } = done;
            self.rounds.entry(number).or_default().push(Took { compute_s, exchange_s, sent_bytes });
        }
        None
    }

    /// The medians of the rounds that all members have told of.
    fn measured(&self, members: usize) -> Option<Measured> {
        let whole: Vec<&Vec<Took>> = self.rounds.values().filter(|round| round.len() == members).collect();
        if whole.len() < ENOUGH {
            return None;
        }
        let over = |of: &dyn Fn(&[Took]) -> f64| median(whole.iter().map(|round| of(round)).collect());
        Some(Measured {
            compute_s: over(&|round| round.iter().map(|took| took.compute_s).fold(0.0, f64::max)),
            // Others have waited for those that compute longer.
            exchange_s: over(&|round| round.iter().map(|took| took.exchange_s).fold(f64::MAX, f64::min)),
            sent_bytes: over(&|round| {
                round.iter().map(|took| took.sent_bytes as f64).sum::<f64>() / members as f64
            }),
            members,
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What a run with these settings, whose epochs have so many rounds of a batch a worker, could do about a slow wire.
fn freedom(settings: &Settings, rounds_per_epoch: u64) -> Freedom {
    let is_mean = matches!(settings.topology, Topology::Allreduce { op: ReduceOp::Mean, .. });
    let is_free = is_mean && !settings.topology.uses_mpi();
    Freedom {
        compression: is_free && settings.file.compression == Compression::None,
        steps: is_free && settings.file.local_steps.steps() == 1,
        most_steps: rounds_per_epoch,
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
        if let Some(digest) = done.digest {
            self.compare(node, done.round, digest);
        }
        if let Some(measured) = self.first_rounds.take(done, members) {
            let job = &self.head.run.job;
            let freedom = freedom(&job.settings, job.schedule.rounds_per_epoch);
            if let Some(message) = advice(&measured, freedom) {
                self.head.run.tell(report::Event::Noted { message });
            }
        }
        self.decide(group::Event::Done { member: node, generation: done.generation, round: done.round })
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
                if let Some(measured) = first.take(&done, 3) {
                    return Some(measured);
                }
            }
        }
        None
    }

    #[test]
    fn the_wait_for_a_slow_member_is_not_the_wire() {
        assert_eq!(told(12, 0.5), None, "not yet");
        let expect = Measured { compute_s: 0.4, exchange_s: 0.5, sent_bytes: 1e6, members: 3 };
        assert_eq!(told(13, 0.5), Some(expect));
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

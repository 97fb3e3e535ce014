//! What the members of a group say of their rounds.

use anyhow::Result;
use bonfire_learn::Tally;
use bonfire_report as report;
use bonfire_strategy::choice::Measured;
use bonfire_strategy::group;
use bonfire_wire::proto;

use super::{AHEAD, Leading, plan_of};
use crate::roles::head::balance::Told;
use crate::roles::head::first_rounds::RoundTook;

#[derive(Default)]
pub(crate) struct Round {
    pub tally: Tally,
    /// Of the first member that said it.
    pub digest: Option<u64>,
    /// How many members have told of it.
    told: usize,
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
        if let Some(latency_s) = done.latency_s {
            self.first_rounds.latency(latency_s);
        }
        let &proto::GroupRound { compute_s, exchange_s, sent_bytes, .. } = done;
        let (samples, all_samples) = (tally.samples, tally.samples);
        let took = RoundTook { compute_s, exchange_s, sent_bytes, samples, all_samples };
        let measured = self.first_rounds.take(done.round, took, members, (self.head.now(), is_busy));
        self.decide(group::Event::Done { member: node, generation: done.generation, round: done.round })?;
        match measured.map(|measured| Measured { is_one_machine: self.is_one_machine(), ..measured }) {
            // All have done this round and none can have done another: the best time to stop.
            Some(measured) if self.is_open() => self.choose(&measured)?,
            Some(measured) => self.head.advise(&measured),
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

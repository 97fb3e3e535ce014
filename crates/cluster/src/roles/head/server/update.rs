//! An update of the parameters, and how the members come by it.

use bonfire_run::replica::StepSize;
use bonfire_run::schedule::RunSchedule;
use bonfire_strategy::Unit;
use bonfire_strategy::server::Contribution;
use bonfire_wire::proto;

use super::super::super::feed::{Entry, Order};
use super::Serving;
use bonfire_exchange::collector::{Answer, Summed};
use bonfire_exchange::state::Moments;

/// Who tells its moments with an answer.
pub(super) struct Asked {
    pub(super) answer: Answer,
    moments: Moments,
}

impl Serving<'_, '_> {
    /// The step of an update; smaller for stale gradients, if the run file says so.
    pub(super) fn step(&self, pushes: &[Contribution]) -> StepSize {
        let step = self.head.run.job.schedule.step(self.head.run.progress.units);
        let staleness: u64 = pushes.iter().map(|push| push.staleness).sum();
        let mean = staleness as f64 / pushes.len().max(1) as f64;
        let damped = f64::from(step.lr) * (1.0 + mean).powf(-self.rule.damping);
        StepSize { lr: if self.rule.damping > 0.0 { damped as f32 } else { step.lr }, ..step }
    }

    pub(super) fn update(&mut self, answers: &[Answer], version: u64, step: StepSize) {
        let (collector, job) = (&mut self.collector, &mut self.head.run.job);
        let summed = collector.finish(answers, self.exact);
        let sum = &collector.total;
        if let Some(stamps) = &mut self.stamps {
            stamps.stamp(sum, version);
        }
        let is_apart = self.server.steps_on(version - 1) > 1;
        let sum = std::slice::from_ref(sum);
        job.pool.install(|| match is_apart {
            true => job.replica.step_together(sum),
            false => job.replica.step(sum, step),
        });
        if let Some(Asked { answer, moments }) = self.asked.take()
            && answers.contains(&answer)
        {
            moments.give(&mut job.replica);
        }
        if is_apart != (self.server.steps_on(version) > 1) {
            // What was lost is of another kind.
            collector.reset();
        }
        self.digest = self.head.registry.compares(version).then(|| job.replica.digest());
        self.exact = is_exact(&job.schedule, version + 1);
        if self.rule.max_staleness == 0 {
            let state_bytes = job.replica.parameters.len() * 4 * (1 + job.replica.optimizer.moments().len());
            let Summed { attempt, weight, parcels, .. } = summed;
            let news = if is_apart { proto::News::Together } else { proto::News::Update };
            let (lr, digest) = (step.lr, self.digest);
            let entry = Entry { from: version - 1, to: version, news, lr, weight, parcels, attempt, digest };
            self.feed.add(entry, state_bytes);
        }
    }

    /// Whether the one who is to give this answer tells the moments of its optimiser, which the checkpoint after it
    /// will have: those of the head do not follow what workers learn by themselves.
    fn ask_for_moments(&mut self, answer: Answer) -> bool {
        let replica = &self.head.run.job.replica;
        let is_asked = self.asked.is_none() && !replica.optimizer.moments().is_empty();
        if is_asked {
            self.asked = Some(Asked { answer, moments: Moments::like(replica) });
        }
        is_asked
    }

    /// Takes a piece of them.
    pub(super) fn take_moments(&mut self, node: u64, state: &proto::State, payload: &[u8]) {
        if let Some(asked) = self.asked.as_mut().filter(|asked| asked.answer.0 == node) {
            asked.moments.take(state, payload);
        }
    }

    /// Sends a member to work, with what is new to it. One that is gone is heard of in the mail.
    pub(super) fn release(&mut self, member: u64, number: u64, version: u64, units: Vec<Unit>) {
        self.orders.insert(member, number);
        if let Some(awaited) = &mut self.awaited {
            awaited.insert(member, number);
        }
        let cuts = units.iter().map(|unit| self.cuts.get(unit).cloned()).collect();
        let steps = self.server.steps_on(version);
        let schedule = &self.head.run.job.schedule;
        let is_last = version + 1 == schedule.updates();
        let is_kept = self.exact || ends_with_checkpoint(schedule, version + 1, is_last);
        let order = Order {
            number,
            version,
            units,
            cuts,
            steps,
            int8: schedule.int8,
            exact: self.exact,
            moments: is_kept && steps > 1 && self.ask_for_moments((member, number)),
            digest: self.digest,
        };
        let has = self.feed.has(member);
        if self.rule.max_staleness == 0 || has == Some(version) {
            return self.feed.order(member, order);
        }
        let parameters = &self.head.run.job.replica.parameters;
        let parcels = match (&mut self.stamps, has) {
            (Some(stamps), Some(has)) => self.parameters.changes(parameters, &stamps.since(has)),
            _ => match &self.packed {
                Some((packed, parcels)) if *packed == version => parcels.clone(),
                _ => self.packed.insert((version, self.parameters.all(parameters))).1.clone(),
            },
        };
        let entry = Entry {
            from: has.unwrap_or(0),
            to: version,
            news: proto::News::Parameters,
            lr: 0.0,
            weight: 0.0,
            parcels,
            attempt: 0,
            digest: self.digest,
        };
        self.feed.order_with(member, &entry, order);
    }
}

/// Whether nothing is rounded in the update to a version: if a checkpoint is due after it from which the run goes on,
/// because checkpoints do not have what rounding has lost, or if what is summed changes then. Epochs are counted as
/// they come where nobody is lost.
pub(super) fn is_exact(schedule: &RunSchedule, version: u64) -> bool {
    ends_with_checkpoint(schedule, version, false) || schedule.changes_after(version)
}

fn ends_with_checkpoint(schedule: &RunSchedule, version: u64, is_last: bool) -> bool {
    let epoch = schedule.epoch_ended_by(version);
    schedule.due(version, epoch.as_slice(), is_last).checkpoint
}

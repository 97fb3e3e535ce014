//! What follows from a run's settings and the number of its samples alone: every node can tell it without asking.

use std::collections::BTreeMap;

use bonfire_data::Cut;
use bonfire_learn::schedule::SchedulePosition;
use serde::{Deserialize, Serialize};

use crate::loader::Sharing;
use crate::replica::StepSize;
use crate::run_file::{Compression, Every, LocalSteps, Settings, Span, Topology};

/// The schedule of a run.
#[derive(Clone, Debug)]
pub struct RunSchedule {
    settings: Settings,
    /// To train on.
    samples: usize,
    /// Into how many rounds of one batch a worker an epoch is cut.
    pub rounds_per_epoch: u64,
    /// How many updates an epoch has. Asynchronous ones are more and smaller than rounds, those of several local steps
    /// are fewer; where updates grow with what has come in, this is an estimate.
    pub updates_per_epoch: u64,
    /// Over all workers.
    pub round_size: usize,
    /// How many updates come of one batch of every worker.
    updates_per_round: u64,
    pub pace: Pace,
    /// Whether values travel in int8 because that was chosen for a run that left it open.
    pub int8: bool,
}

/// How many batches a worker trains on by itself in a round: one up to a round, and so many from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub after: u64,
    pub steps: u64,
}

/// How members exchange from some time on, where a run leaves that open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    pub int8: bool,
    /// How many batches a worker trains on by itself in a round.
    pub steps: u64,
    /// One up to this round.
    pub after: u64,
}

/// What is to be done after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub evaluation: bool,
    pub checkpoint: bool,
}

impl RunSchedule {
    pub fn of(settings: &Settings, samples: usize) -> Self {
        let Sharing { round_size, rounds_per_epoch, .. } = Sharing::of(settings, samples, 1);
        let updates_per_round = updates_per_round(&settings.topology);
        let pace = Pace::of(settings, rounds_per_epoch);
        let updates_per_epoch = rounds_per_epoch.saturating_mul(updates_per_round).div_ceil(pace.steps);
        Self {
            settings: settings.clone(),
            samples,
            rounds_per_epoch,
            updates_per_epoch,
            round_size,
            updates_per_round,
            pace,
            int8: false,
        }
    }

    /// How many members of a group work in a round, if not all do, and what chance decides by who these are.
    pub fn turns(&self) -> Option<(u64, u64)> {
        let file = &self.settings.file;
        file.clients_per_round.map(|clients| (clients as u64, file.seed))
    }

    /// How many samples there are to train on.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Takes what was chosen, as far as the settings leave it open.
    pub fn settle(&mut self, chosen: Chosen) {
        let file = &self.settings.file;
        self.int8 = chosen.int8 && file.compression == Compression::Auto;
        if file.local_steps == LocalSteps::Auto {
            let steps = chosen.steps.clamp(1, self.rounds_per_epoch.max(1));
            self.pace = Pace { after: chosen.after, steps };
            let batches = self.rounds_per_epoch.saturating_mul(self.updates_per_round);
            self.updates_per_epoch = batches.div_ceil(steps);
        }
    }

    /// How many batches of one worker each an epoch has.
    pub fn units_per_epoch(&self) -> u64 {
        self.rounds_per_epoch.saturating_mul(self.settings.workers as u64)
    }

    /// How many batches of one worker each are planned, if epochs end the run. More than can be counted are never done.
    pub fn units(&self) -> Option<u64> {
        let (epochs, _) = self.ends();
        epochs.map(|epochs| epochs.saturating_mul(self.units_per_epoch()))
    }

    /// How many samples the first `units` batches of one worker each have.
    pub fn samples_of(&self, units: u64) -> u64 {
        let workers = self.settings.workers as u64;
        let (epochs, within) = (units / self.units_per_epoch(), units % self.units_per_epoch());
        let (rounds, slots) = (within / workers, within % workers);
        let before = rounds * self.round_size as u64;
        // Dealt out like cards: the first workers may have one more.
        let round = (self.samples as u64 - before).min(self.round_size as u64);
        let share = slots * (round / workers) + slots.min(round % workers);
        epochs.saturating_mul(self.samples as u64).saturating_add(before + share)
    }

    /// How many samples a batch of one worker has, given by its place in its epoch; if it is a part of several, how
    /// many that part has.
    pub fn samples_in(&self, index: u32, cut: Option<&Cut>) -> u64 {
        let between = |from: u64, to: u64| self.samples_of(to) - self.samples_of(from);
        match cut {
            Some(cut) => {
                let first = u64::from(cut.first);
                let samples = between(first, first + cut.shares.len() as u64);
                cut.counts(samples as usize).get(cut.place as usize).map_or(0, |count| *count as u64)
            }
            None => between(u64::from(index), u64::from(index) + 1),
        }
    }

    /// How many samples of which epochs some batches have, each given by its epoch and its place there.
    pub fn samples_by_epoch(&self, units: impl IntoIterator<Item = (u64, u32)>) -> Vec<(u64, u64)> {
        let mut samples = BTreeMap::new();
        for (epoch, index) in units {
            // The same in every epoch.
            let place = u64::from(index);
            *samples.entry(epoch).or_default() += self.samples_of(place + 1) - self.samples_of(place);
        }
        samples.into_iter().collect()
    }

    /// The last epoch, counted from 1, that an update ends where nobody is lost; none if it ends none.
    pub fn epoch_ended_by(&self, update: u64) -> Option<u64> {
        let epochs = |updates| self.pace.batches(updates) / self.rounds_per_epoch;
        let ended = epochs(update);
        (ended > epochs(update.saturating_sub(1))).then_some(ended)
    }

    /// Whether an update is the last one by gradients: from then on workers train by themselves.
    pub fn changes_after(&self, update: u64) -> bool {
        self.pace.steps > 1 && update == self.pace.after
    }

    /// Updates planned in all.
    pub fn updates(&self) -> u64 {
        match self.settings.length {
            Span::Epochs(epochs) => {
                let batches = epochs.saturating_mul(self.rounds_per_epoch * self.updates_per_round);
                self.pace.rounds(batches)
            }
            Span::Rounds(rounds) => rounds,
        }
    }

    /// How many epochs so many updates are.
    pub fn epochs(&self, updates: u64) -> f64 {
        let per_epoch = self.rounds_per_epoch * self.updates_per_round;
        let all = self.settings.file.epochs.map_or(u64::MAX, |epochs| epochs.saturating_mul(per_epoch));
        // The last round may have fewer.
        self.pace.batches(updates).min(all) as f64 / per_epoch as f64
    }

    /// Planned epochs, and the number of updates after which the run ends before.
    pub fn ends(&self) -> (Option<u64>, Option<u64>) {
        match self.settings.length {
            Span::Epochs(epochs) => (Some(epochs), None),
            Span::Rounds(rounds) => (None, Some(rounds)),
        }
    }

    /// How large a step is after so many batches of one worker each.
    pub fn step(&self, units: u64) -> StepSize {
        let file = &self.settings.file;
        let rounds = match self.settings.length {
            Span::Epochs(epochs) => epochs.saturating_mul(self.rounds_per_epoch),
            Span::Rounds(updates) => self.pace.batches(updates) / self.updates_per_round,
        };
        let place = SchedulePosition {
            round: units / self.settings.workers as u64,
            rounds,
            rounds_per_epoch: self.rounds_per_epoch,
            warmup: file.warmup.map_or(0, |warmup| warmup.rounds(self.rounds_per_epoch)),
        };
        StepSize { lr: file.schedule.lr(file.optimizer.lr(), place), clip: file.clip_norm }
    }

    /// What is due after round `round`, which ended some epochs, counted from 1, and may be the last.
    pub fn due(&self, round: u64, ended: &[u64], is_last: bool) -> Due {
        let is_due = |every: Span| match every {
            _ if is_last => true,
            Span::Epochs(epochs) => ended.iter().any(|epoch| epoch.is_multiple_of(epochs)),
            Span::Rounds(rounds) => round.is_multiple_of(rounds),
        };
        let file = &self.settings.file;
        let checkpoint = match file.checkpoint_every {
            Every::Span(every) => is_due(every),
            Every::Never => false,
        };
        Due { evaluation: is_due(file.eval_every), checkpoint }
    }
}

impl Pace {
    /// What the settings ask for. A round is never longer than an epoch.
    fn of(settings: &Settings, rounds_per_epoch: u64) -> Self {
        let steps = settings.file.local_steps.steps().clamp(1, rounds_per_epoch.max(1));
        let after = match settings.file.local_steps {
            LocalSteps::Always(_) | LocalSteps::Auto => 0,
            LocalSteps::After(later) => later.after.rounds(rounds_per_epoch),
        };
        Self { after, steps }
    }

    /// How many batches a worker has in a round, if all have as many.
    pub fn steps_in(self, round: u64) -> u64 {
        if round > self.after { self.steps } else { 1 }
    }

    /// How many batches a worker has after so many rounds.
    fn batches(self, rounds: u64) -> u64 {
        let later = rounds.saturating_sub(self.after);
        rounds.min(self.after).saturating_add(later.saturating_mul(self.steps))
    }

    /// How many rounds it takes until a worker has so many batches.
    fn rounds(self, batches: u64) -> u64 {
        batches.min(self.after) + batches.saturating_sub(self.after).div_ceil(self.steps)
    }
}

/// How many updates come of one batch of every worker.
fn updates_per_round(topology: &Topology) -> u64 {
    match topology {
        Topology::Flat { rule, workers, .. } if rule.max_staleness > 0 => *workers as u64,
        Topology::Hierarchical { rule, relays } if rule.max_staleness > 0 => relays.len() as u64,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::Overrides;

    fn schedule(text: &str, samples: usize) -> RunSchedule {
        let settings = Settings::read("run.yml", text, &Overrides::default(), 1).expect("a run file");
        RunSchedule::of(&settings, samples)
    }

    #[test]
    fn every_batch_has_its_samples() {
        let text = "{arch: allreduce, allreduce: {num_workers: 3}, batch_size: 4, epochs: 2}";
        // Seven rounds of twelve samples, and one of six.
        let schedule = schedule(text, 90);
        let check = |units, expect| assert_eq!(schedule.samples_of(units), expect, "{units} units");
        check(0, 0);
        check(1, 4);
        check(3, 12);
        check(21, 84);
        check(22, 86);
        check(24, 90);
        check(25, 94);
        check(48, 180);
    }

    #[test]
    fn local_steps_make_rounds_fewer() {
        let check = |rest: &str, expect: (u64, u64, u64)| {
            let text = format!("{{arch: allreduce, allreduce: {{num_workers: 2}}, batch_size: 4, {rest}}}");
            let settings = Settings::read("run.yml", &text, &Overrides::default(), 1).expect("a run file");
            // Ten rounds of eight samples.
            let schedule = RunSchedule::of(&settings, 80);
            assert_eq!(
                (schedule.pace.steps, schedule.updates_per_epoch, schedule.updates()),
                expect,
                "{rest}"
            );
            assert_eq!(schedule.epochs(0), 0.0);
            schedule
        };
        check("epochs: 3", (1, 10, 30));
        check("epochs: 3, local_steps: 4", (4, 3, 8));
        let schedule = check("epochs: 3, local_steps: {after: 10 rounds, steps: 4}", (4, 3, 15));
        assert_eq!((schedule.epochs(10), schedule.epochs(15)), (1.0, 3.0));
        check("epochs: 3, local_steps: {after: 1 epoch, steps: 4}", (4, 3, 15));
        assert_eq!(
            [5, 10, 12, 13, 15].map(|update| schedule.epoch_ended_by(update)),
            [None, Some(1), None, Some(2), Some(3)]
        );
        assert_eq!([9, 10, 11].map(|update| schedule.changes_after(update)), [false, true, false]);
        check("epochs: 3, local_steps: 100", (10, 1, 3));
        check("num_server_rounds: 7, local_steps: 4", (4, 3, 7));
    }

    #[test]
    fn what_is_chosen_takes_the_place_of_what_was_left_open() {
        let check = |rest: &str, expect: (bool, u64, u64, u64)| {
            let text = format!("{{arch: allreduce, allreduce: {{num_workers: 2}}, batch_size: 4, {rest}}}");
            let mut schedule = schedule(&text, 80);
            assert_eq!((schedule.int8, schedule.updates()), (false, 30), "{rest}");
            schedule.settle(Chosen { int8: true, steps: 4, after: 10 });
            let found = (schedule.int8, schedule.pace.steps, schedule.updates_per_epoch, schedule.updates());
            assert_eq!(found, expect, "{rest}");
            schedule
        };
        check("epochs: 3, compression: auto", (true, 1, 10, 30));
        let schedule = check("epochs: 3, compression: auto, local_steps: auto", (true, 4, 3, 15));
        assert_eq!((schedule.epochs(10), schedule.epochs(15)), (1.0, 3.0));
        check("epochs: 3, compression: f16, local_steps: auto", (false, 4, 3, 15));
        check("epochs: 3", (false, 1, 10, 30));
    }

    /// 2⁶² epochs of four batches each are 2⁶⁴, which is 0 for who counts in 64 bits.
    #[test]
    fn a_length_beyond_all_counting_is_no_short_one() {
        let check = |length: &str| {
            let text = format!("{{workers: 2, batch_size: 4, schedule: cosine, {length}}}");
            let schedule = schedule(&text, 16);
            let rates = [0, 2, 1_000_000].map(|units| schedule.step(units).lr);
            assert_eq!(rates, [0.001; 3], "{length}");
            assert_eq!(schedule.samples_of(u64::MAX), u64::MAX, "{length}");
            assert_eq!(
                schedule.samples_by_epoch([(u64::MAX, 0), (u64::MAX, 3)]),
                [(u64::MAX, 8)],
                "{length}"
            );
        };
        for length in ["epochs: 4611686018427387904", "num_server_rounds: 9223372036854775808"] {
            check(length);
        }
        assert_eq!(
            schedule("{workers: 2, batch_size: 4, epochs: 4611686018427387904}", 16).units(),
            Some(u64::MAX)
        );
    }
}

//! A run from its first round, or its newest checkpoint, to its last: its events, its files, and its loop on one
//! machine.

mod beginning;
mod board;
mod measuring;
mod summing_up;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bonfire_learn::Tally;
use bonfire_report::{EnergyMeter, Event, Exit, Log, Phase, RunFolder, Summary, Watts};

use crate::checkpoint::{self, Progress, Snapshot};
use crate::job::Job;
use crate::run_file::{Every, Span};
use crate::schedule::{Chosen, Due};
pub use measuring::Evaluated;
use watch::RunWatch;

/// A run under way.
#[derive(Debug)]
pub struct Run {
    pub job: Job,
    folder: RunFolder,
    log: Log,
    pub progress: Progress,
    /// Goes on with what an earlier process began.
    pub is_resumed: bool,
    /// What the nodes sent and received, if there are any.
    pub traffic: Option<NodeTraffic>,
    /// Writes `state.json` while training goes on.
    state: Option<JoinHandle<()>>,
    started: Instant,
    /// When the program began to load what the run needs.
    began: Instant,
    first_step_s: Option<f64>,
    /// Samples that this process trained on.
    samples: u64,
    evaluated: Option<Evaluated>,
    /// What the best parameters are worth on the test half, if that was kept for the end.
    tested: Option<Evaluated>,
    window: Window,
    epoch_started: Instant,
    /// How long the epoch was held up by evaluations and checkpoints.
    epoch_paused_s: f64,
    /// Of this machine, where it is the only one and tells.
    energy: Option<EnergyMeter>,
    watch: RunWatch,
    /// Why the newest checkpoint could not be written, if it could not.
    unsaved: Option<String>,
}

/// What went over the wire.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeTraffic {
    pub nodes: usize,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Gradients that came too late and were dropped.
    pub late: u64,
    /// The share of the time that the head was at work while others waited.
    pub head_share: f64,
}

/// What one update was made of.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    pub tally: &'a Tally,
    /// How many samples of which epochs.
    pub samples: &'a [(u64, u64)],
    /// Batches of one worker each.
    pub units: u64,
    pub lr: f32,
}

/// What happened since the last progress event.
#[derive(Debug)]
struct Window {
    since: Instant,
    samples: u64,
    tally: Tally,
}

/// Whether nothing is left to do. Where the number of updates is not known beforehand, the batches say.
fn is_done(job: &Job, progress: &Progress) -> bool {
    match job.settings.length {
        Span::Rounds(rounds) => progress.round >= rounds,
        Span::Epochs(_) => job.schedule.units().is_some_and(|units| progress.units >= units),
    }
}

/// How a run that has come so far is to end at once, if it is.
fn planned_end(job: &Job, progress: &Progress) -> Option<Exit> {
    if is_done(job, progress) {
        return Some(Exit::Done);
    }
    let (best, target) = (progress.best_accuracy, job.settings.file.target_accuracy);
    if progress.target_reached_round.is_some()
        && best.zip(target).is_some_and(|(best, target)| best >= target)
    {
        return Some(Exit::TargetReached);
    }
    measuring::is_out_of_patience(job, progress).then_some(Exit::StoppedEarly)
}

/// How often progress is told at first, and later at most: the log of a long run stays small.
const PROGRESS_S: (f64, f64) = (0.2, 10.0);

impl Run {
    /// Where the run is written.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How many times the training data were gone through.
    pub fn epochs(&self) -> f64 {
        self.progress.samples as f64 / self.job.dataset.train.len() as f64
    }

    /// Counts from now on what energy this machine takes, if it can be told: by these watts, or by what the run file
    /// says of machines, or by meters.
    pub fn meter_energy(&mut self, watts: Option<Watts>) {
        let given = watts.or(self.job.settings.file.watts);
        self.energy = EnergyMeter::start(Path::new("/"), given, Instant::now());
    }

    pub fn tell(&mut self, event: Event) {
        self.log.record(Instant::now(), event);
    }

    /// Takes what was chosen for a run that left open how its members exchange; it is in the checkpoints from now on.
    pub fn settle(&mut self, chosen: Chosen, reason: String) {
        self.job.schedule.settle(chosen);
        self.progress.chosen = Some(chosen);
        let Chosen { int8, steps, after } = chosen;
        let (round, rounds) = (self.progress.round, self.job.schedule.updates());
        self.tell(Event::Chosen { round, int8, local_steps: steps, after, rounds, reason });
    }

    /// Trains with the workers of this process, which share its memory and are in step, until the plan is done, the
    /// target is reached, `stop` is set or the loss is lost.
    pub fn finish(self, stop: &AtomicBool) -> Result<Summary> {
        self.finish_by(|run| {
            let trained = run.train(stop);
            run.sample_crew(Instant::now());
            trained
        })
    }

    /// The same by another way to train. Whatever happens, the summary is written; a failure is returned behind it.
    pub fn finish_by(mut self, train: impl FnOnce(&mut Self) -> Result<Exit>) -> Result<Summary> {
        let trained = match self.nothing_left() {
            Some(exit) => Ok(exit),
            None => train(&mut self),
        };
        self.end(trained)
    }

    /// How a run ends that was resumed after its last round, measured once more. One that is to begin is measured
    /// first, if that was asked for.
    pub fn nothing_left(&mut self) -> Option<Exit> {
        let Some(exit) = planned_end(&self.job, &self.progress) else { return self.measure_start() };
        self.evaluate();
        Some(exit)
    }

    /// Writes the summary of a run that came to this end.
    pub fn end(mut self, trained: Result<Exit>) -> Result<Summary> {
        let mut trained = trained;
        if matches!(trained, Ok(Exit::Done | Exit::TargetReached | Exit::StoppedEarly)) {
            self.test();
            trained = self.check_data().and(trained);
        }
        let exit = *trained.as_ref().unwrap_or(&Exit::Failed);
        let energy = self.energy.as_mut().and_then(|meter| meter.joules(Instant::now()));
        let summary = self.summary(exit, energy);
        let mut written = self.folder.write_summary(&summary).map_err(anyhow::Error::from);
        if self.state.take().is_some_and(|state| state.join().is_err()) {
            written = written.and(Err(anyhow::anyhow!("the thread that writes state.json broke off")));
        }
        self.tell(Event::Ended { summary: Box::new(summary.clone()) });
        self.write_report();
        trained?;
        if let Some(reason) = self.unsaved {
            bail!("the run is over, but its last parameters could not be saved: {reason}");
        }
        written.context("the run is over, but its summary could not be saved")?;
        Ok(summary)
    }

    fn train(&mut self, stop: &AtomicBool) -> Result<Exit> {
        while self.progress.round < self.job.schedule.updates() {
            let number = self.progress.round;
            let before =
                (number % self.job.schedule.rounds_per_epoch) as usize * self.job.schedule.round_size;
            let samples = self.job.schedule.round_size.min(self.job.dataset.train.len() - before) as u64;
            let samples = &[(number / self.job.schedule.rounds_per_epoch, samples)];
            let (lr, units) = (self.job.round(number).step.lr, self.job.settings.workers as u64);
            let tally = self.job.train_round(number);
            self.count(Update { tally: &tally, samples, units, lr })?;
            let round = self.progress.round;
            let epoch = round
                .is_multiple_of(self.job.schedule.rounds_per_epoch)
                .then(|| round / self.job.schedule.rounds_per_epoch);
            if let Some(exit) = self.after_round(epoch) {
                return Ok(exit);
            }
            self.sample_crew_if_due();
            if stop.load(Ordering::Relaxed) && self.progress.round < self.job.schedule.updates() {
                return Ok(self.interrupt());
            }
        }
        Ok(Exit::Done)
    }

    /// Ends a run at the user's wish, so that it can go on later.
    pub fn interrupt(&mut self) -> Exit {
        self.checkpoint();
        self.tell(Event::Interrupted { round: self.progress.round });
        Exit::Interrupted
    }

    /// Adds the numbers of an update to the sums.
    pub fn count(&mut self, update: Update<'_>) -> Result<()> {
        self.check_data()?;
        let Update { tally, samples, units, lr } = update;
        let progress = &mut self.progress;
        progress.ledger.count(tally, samples);
        let samples: u64 = samples.iter().map(|(_, samples)| samples).sum();
        progress.round += 1;
        progress.optimizer_steps = self.job.replica.optimizer.steps();
        progress.units += units;
        progress.samples += samples;
        self.samples += samples;
        self.window.samples += samples;
        self.window.tally.add(tally);
        self.first_step_s.get_or_insert_with(|| self.began.elapsed().as_secs_f64());
        if !tally.loss.is_finite() {
            bail!(
                "the loss is no longer a number in round {}: \
                 a smaller learning rate (now {lr}) or `clip_norm: 1.0` may help",
                self.progress.round,
            );
        }
        self.tell_progress(lr);
        Ok(())
    }

    /// Fails if a sample to train on cannot be had here either: another machine, which has the same, could not read it.
    pub fn look_at(&self, sample: u64) -> Result<()> {
        self.job.dataset.train.look_at(usize::try_from(sample).unwrap_or(usize::MAX));
        self.check_data()
    }

    /// Fails if a sample that was wanted could not be had: what was learnt since is worth nothing.
    fn check_data(&self) -> Result<()> {
        let Job { dataset, held_out, .. } = &self.job;
        let halves = [Some(&dataset.train), Some(&dataset.test), held_out.as_ref()];
        match halves.into_iter().flatten().find_map(|half| half.failure()) {
            Some((_, error)) => bail!("{error}; the run can go on from its newest checkpoint: --resume"),
            None => Ok(()),
        }
    }

    fn tell_progress(&mut self, lr: f32) {
        let now = Instant::now();
        let (least, most) = PROGRESS_S;
        let every = (now.duration_since(self.started).as_secs_f64() / 500.0).clamp(least, most);
        let seconds = now.duration_since(self.window.since).as_secs_f64();
        if seconds < every {
            return;
        }
        if let Some(meter) = &mut self.energy {
            meter.look(now);
        }
        let event = Event::Progress {
            round: self.progress.round,
            epoch: self.epochs(),
            loss: self.window.tally.mean_loss(),
            accuracy: self.window.tally.accuracy(),
            lr: f64::from(lr),
            samples: self.progress.samples,
            samples_per_s: self.window.samples as f64 / seconds,
        };
        self.log.record(now, event);
        self.window = Window { since: now, samples: 0, tally: Tally::default() };
    }

    pub fn is_last_round(&self) -> bool {
        is_done(&self.job, &self.progress)
    }

    /// Does what is due after a round, given which epoch it ended, if one: says so, evaluates, saves. Some if the run
    /// is to end before its time.
    pub fn after_round(&mut self, epoch: Option<u64>) -> Option<Exit> {
        let due = self.after_update(epoch.as_slice());
        self.carry_out(due)
    }

    /// Evaluates and saves here and now. Some if the run is to end before its time.
    pub fn carry_out(&mut self, due: Due) -> Option<Exit> {
        let paused = Instant::now();
        let end = if due.evaluation { self.evaluate() } else { None };
        if due.evaluation {
            self.keep_histograms();
        }
        // After the evaluation, so that what it found is in the checkpoint.
        if due.checkpoint || (end.is_some() && self.saves()) {
            self.checkpoint();
        }
        self.pause(paused.elapsed());
        end.filter(|_| !self.is_last_round())
    }

    /// Whether checkpoints are wanted at all.
    pub fn saves(&self) -> bool {
        self.job.settings.file.checkpoint_every != Every::Never
    }

    /// Ends the epochs that ended, counted from 1; says what is due.
    pub fn after_update(&mut self, epochs: &[u64]) -> Due {
        epochs.iter().for_each(|&epoch| self.end_epoch(epoch));
        self.job.schedule.due(self.progress.round, epochs, self.is_last_round())
    }

    /// Time that does not count as training.
    fn pause(&mut self, time: Duration) {
        self.epoch_paused_s += time.as_secs_f64();
        self.window.since += time;
    }

    fn end_epoch(&mut self, epoch: u64) {
        let progress = &mut self.progress;
        let sums = progress.ledger.end(epoch - 1);
        progress.train_loss = Some(sums.mean_loss());
        let event = Event::EpochEnded {
            epoch,
            round: progress.round,
            loss: sums.mean_loss(),
            accuracy: sums.accuracy(),
            samples: sums.samples,
            seconds: self.epoch_started.elapsed().as_secs_f64() - self.epoch_paused_s,
        };
        self.tell(event);
        self.epoch_started = Instant::now();
        self.epoch_paused_s = 0.0;
    }

    /// Writes a checkpoint. One that cannot be written costs the checkpoint, not the run.
    pub fn checkpoint(&mut self) {
        let started = Instant::now();
        let round = self.progress.round;
        let written = self.write_checkpoint();
        self.watch.add(Phase::Checkpoint, started.elapsed());
        match written {
            Ok((path, bytes)) => {
                let file: PathBuf =
                    path.strip_prefix(self.folder.path()).map_or(path.clone(), Path::to_path_buf);
                let seconds = started.elapsed().as_secs_f64();
                self.tell(Event::Checkpointed { round, file: file.display().to_string(), bytes, seconds });
                if self.unsaved.take().is_some() {
                    let message = format!("checkpoints can be written again, that of round {round} is");
                    self.tell(Event::Noted { message });
                }
            }
            Err(error) => {
                let message = format!("no checkpoint of round {round}: {error:#}; the run goes on");
                if self.unsaved.replace(format!("{error:#}")).is_none() {
                    self.tell(Event::Warned { message });
                }
            }
        }
    }

    /// Writes a checkpoint, in a folder that can be resumed: the user may have removed it while the run went on.
    fn write_checkpoint(&self) -> Result<(PathBuf, u64)> {
        let replica = &self.job.replica;
        let snapshot = Snapshot {
            layout: self.job.layout(),
            parameters: &replica.parameters,
            moments: replica.optimizer.moments(),
            velocity: replica.velocity(),
            progress: &self.progress,
        };
        let keep = self.job.settings.file.keep_checkpoints;
        let written = checkpoint::write(&self.folder.checkpoints(), snapshot, keep)?;
        checkpoint::best::settle(&self.folder.checkpoints())?;
        if !self.folder.run_file().exists() {
            beginning::prepare(&self.folder, &self.job, &self.job.settings.to_yaml()?)?;
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Scale;
    use crate::run_file::{Overrides, Settings};

    /// 2⁶² epochs of four batches each are 2⁶⁴, which is 0 for who counts in 64 bits.
    #[test]
    fn a_run_of_very_many_epochs_is_not_done_at_once() {
        let text = "{data: {name: digits, train: 16, test: 2}, workers: 2, batch_size: 4, epochs: 4611686018427387904}";
        let settings = Settings::read("run.yml", text, &Overrides::default(), 1).expect("a run file");
        let job = Job::prepare(settings, Scale::Threads).expect("a job");
        assert_eq!(job.schedule.units_per_epoch(), 4);
        assert!(!is_done(&job, &Progress::default()));
    }
}

//! A run on this machine from its first round, or its newest checkpoint, to its last: the loop, its events, its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bonfire_learn::Tally;
use bonfire_report::{
    Event, Exit, Log, RunFolder, Summary, View, peak_rss_mb, read_events, write_atomically,
};

use crate::checkpoint::{self, Checkpoint, Progress, Snapshot};
use crate::job::Job;
use crate::run_file::Span;
use crate::state;

/// A run under way.
#[derive(Debug)]
pub struct Run {
    job: Job,
    folder: RunFolder,
    log: Log,
    progress: Progress,
    /// Writes `state.json` while training goes on.
    state: Option<JoinHandle<()>>,
    started: Instant,
    /// When the program began to load what the run needs.
    began: Instant,
    first_step_s: Option<f64>,
    /// Samples that this process trained on.
    samples: u64,
    evaluated: Option<Evaluated>,
    window: Window,
    epoch_started: Instant,
    /// How long the epoch was held up by evaluations and checkpoints.
    epoch_paused_s: f64,
    warned_of_checkpoints: bool,
}

/// The last evaluation.
#[derive(Clone, Copy, Debug)]
struct Evaluated {
    loss: f64,
    accuracy: f64,
    macro_f1: Option<f64>,
}

/// What happened since the last progress event.
#[derive(Debug)]
struct Window {
    since: Instant,
    samples: u64,
    tally: Tally,
}

/// How a run that has come so far is to end at once, if it is.
fn planned_end(job: &Job, progress: &Progress) -> Option<Exit> {
    if progress.round >= job.rounds {
        return Some(Exit::Done);
    }
    let (best, target) = (progress.best_accuracy?, job.settings.file.target_accuracy?);
    (progress.target_reached_round.is_some() && best >= target).then_some(Exit::TargetReached)
}

/// A run that is done has nothing left to do, unless it was killed before it could say so.
fn refuse_if_complete(job: &Job, folder: &RunFolder, progress: &Progress) -> Result<()> {
    let Some(end) = planned_end(job, progress) else { return Ok(()) };
    let events = read_events(&folder.events())?;
    if !events.last().is_some_and(|last| matches!(last.event, Event::Ended { .. })) {
        return Ok(());
    }
    let path = folder.path().display();
    if end == Exit::Done {
        let key = match job.settings.length {
            Span::Epochs(_) => "epochs",
            Span::Rounds(_) => "num_server_rounds",
        };
        bail!("{path}: the run is complete, all {} rounds are done; to go on: --set {key}=N", job.rounds);
    }
    let round = progress.target_reached_round.unwrap_or(progress.round);
    bail!("{path}: the run reached its target in round {round}; to go on: --set target_accuracy=");
}

/// How often progress is told at first, and later at most: the log of a long run stays small.
const PROGRESS_S: (f64, f64) = (0.2, 10.0);

impl Run {
    /// Starts a new run in a folder that must be new or empty.
    pub fn create(job: Job, path: &Path, views: Vec<View>, began: Instant) -> Result<Self> {
        let yaml = job.settings.to_yaml()?;
        let folder = RunFolder::create(path)?;
        if let Err(error) = write_atomically(&folder.run_file(), yaml.as_bytes()) {
            // The first error is the one to tell of.
            let _ = folder.remove_if_unstarted();
            return Err(error.into());
        }
        if let Some(vocabulary) = &job.dataset.vocabulary {
            vocabulary.save(&folder.path().join("vocabulary.txt"))?;
        }
        Self::start(job, folder, views, Progress::default(), began)
    }

    /// Goes on with the run of a folder from its newest whole checkpoint, or from the beginning if it has none.
    pub fn resume(mut job: Job, folder: RunFolder, views: Vec<View>, began: Instant) -> Result<Self> {
        let (found, skipped) = checkpoint::newest_whole(&folder.checkpoints(), job.head.layout())?;
        let file = found.as_ref().map(|checkpoint| checkpoint.file.clone());
        let mut progress = Progress::default();
        if let Some(Checkpoint { parameters, moments, progress: found, file }) = found {
            if !job.head.optimizer.restore(found.optimizer_steps, moments) {
                bail!("{}: it is of another optimiser", file.display());
            }
            job.head.parameters = parameters;
            progress = found;
        }
        refuse_if_complete(&job, &folder, &progress)?;
        write_atomically(&folder.run_file(), job.settings.to_yaml()?.as_bytes())?;
        let mut run = Self::start(job, folder, views, progress, began)?;
        for reason in skipped {
            run.tell(Event::Warned { message: format!("passed over {reason}") });
        }
        let (round, epoch) = (run.progress.round, run.job.epochs(run.progress.round));
        let checkpoint = file.map_or_else(|| "the beginning".to_owned(), |file| file.display().to_string());
        run.tell(Event::Resumed { round, epoch, checkpoint });
        Ok(run)
    }

    fn start(
        job: Job,
        folder: RunFolder,
        views: Vec<View>,
        progress: Progress,
        began: Instant,
    ) -> Result<Self> {
        let started = Instant::now();
        let log = Log::open(&folder, started, views)?;
        let state = state::write_in_background(folder.state(), Arc::clone(&job.dataset))
            .context("cannot start a thread")?;
        let mut run = Self {
            job,
            folder,
            log,
            progress,
            state: Some(state),
            started,
            began,
            first_step_s: None,
            samples: 0,
            evaluated: None,
            window: Window { since: started, samples: 0, tally: Tally::default() },
            epoch_started: started,
            epoch_paused_s: 0.0,
            warned_of_checkpoints: false,
        };
        run.announce();
        Ok(run)
    }

    fn announce(&mut self) {
        self.tell(self.job.started());
        for message in self.job.settings.notes.clone() {
            self.tell(Event::Noted { message });
        }
    }

    fn tell(&mut self, event: Event) {
        self.log.record(Instant::now(), event);
    }

    /// Trains until the plan is done, the target is reached, `stop` is set or the loss is lost. Whatever happens, the
    /// summary is written; a failure is returned behind it.
    pub fn finish(mut self, stop: &AtomicBool) -> Result<Summary> {
        let trained = self.train(stop);
        let exit = *trained.as_ref().unwrap_or(&Exit::Failed);
        let summary = self.summary(exit);
        let mut written = self.folder.write_summary(&summary).map_err(anyhow::Error::from);
        if self.state.take().is_some_and(|state| state.join().is_err()) {
            written = written.and(Err(anyhow::anyhow!("the thread that writes state.json broke off")));
        }
        self.tell(Event::Ended { summary: summary.clone() });
        trained?;
        written?;
        Ok(summary)
    }

    fn train(&mut self, stop: &AtomicBool) -> Result<Exit> {
        if let Some(exit) = planned_end(&self.job, &self.progress) {
            self.evaluate();
            return Ok(exit);
        }
        while self.progress.round < self.job.rounds {
            self.round()?;
            let exit = self.after_round()?;
            if let Some(exit) = exit {
                return Ok(exit);
            }
            if stop.load(Ordering::Relaxed) && self.progress.round < self.job.rounds {
                self.checkpoint();
                self.tell(Event::Interrupted { round: self.progress.round });
                return Ok(Exit::Interrupted);
            }
        }
        Ok(Exit::Done)
    }

    /// One round, and its numbers into the sums.
    fn round(&mut self) -> Result<()> {
        let round = self.job.round(self.progress.round);
        let before = (self.progress.round % self.job.rounds_per_epoch) as usize * self.job.round_size;
        let samples = self.job.round_size.min(self.job.dataset.train.len() - before) as u64;
        let (pool, head, train) = (&self.job.pool, &mut self.job.head, &self.job.dataset.train);
        let tally = pool.install(|| head.round(train, round));
        self.progress.round += 1;
        self.progress.optimizer_steps = self.job.head.optimizer.steps();
        self.progress.samples += samples;
        self.progress.epoch_samples += samples;
        self.progress.epoch_loss += tally.loss;
        self.progress.epoch_answers += tally.answers;
        self.progress.epoch_correct += tally.correct;
        self.samples += samples;
        self.window.samples += samples;
        self.window.tally.add(&tally);
        self.first_step_s.get_or_insert_with(|| self.began.elapsed().as_secs_f64());
        if !tally.loss.is_finite() {
            bail!(
                "the loss is no longer a number in round {}: a smaller learning rate (now {}) or `clip_norm: 1.0` may help",
                self.progress.round,
                round.lr
            );
        }
        self.tell_progress(round.lr);
        Ok(())
    }

    fn tell_progress(&mut self, lr: f32) {
        let now = Instant::now();
        let (least, most) = PROGRESS_S;
        let every = (now.duration_since(self.started).as_secs_f64() / 500.0).clamp(least, most);
        let seconds = now.duration_since(self.window.since).as_secs_f64();
        if seconds < every {
            return;
        }
        let event = Event::Progress {
            round: self.progress.round,
            epoch: self.job.epochs(self.progress.round),
            loss: self.window.tally.mean_loss(),
            accuracy: self.window.tally.accuracy(),
            lr: f64::from(lr),
            samples: self.progress.samples,
            samples_per_s: self.window.samples as f64 / seconds,
        };
        self.log.record(now, event);
        self.window = Window { since: now, samples: 0, tally: Tally::default() };
    }

    /// What is due after a round: the end of an epoch, an evaluation, a checkpoint. Some if the run is to end.
    fn after_round(&mut self) -> Result<Option<Exit>> {
        let (round, per_epoch) = (self.progress.round, self.job.rounds_per_epoch);
        let is_last = round == self.job.rounds;
        let due = |every: Span| is_last || round % every.rounds(per_epoch) == 0;
        let (eval, save) =
            (due(self.job.settings.file.eval_every), due(self.job.settings.file.checkpoint_every));
        if round % per_epoch == 0 {
            self.end_epoch();
        }
        let paused = Instant::now();
        let reached = eval && self.evaluate();
        // After the evaluation, so that what it found is in the checkpoint.
        if save || reached {
            self.checkpoint();
        }
        if eval || save {
            let seconds = paused.elapsed().as_secs_f64();
            self.epoch_paused_s += seconds;
            self.window.since += paused.elapsed();
        }
        Ok((reached && !is_last).then_some(Exit::TargetReached))
    }

    fn end_epoch(&mut self) {
        let progress = &mut self.progress;
        let (loss, answers) = (progress.epoch_loss, progress.epoch_answers as f64);
        progress.train_loss = Some(loss / answers);
        let event = Event::EpochEnded {
            epoch: progress.round / self.job.rounds_per_epoch,
            round: progress.round,
            loss: loss / answers,
            accuracy: progress.epoch_correct as f64 / answers,
            samples: progress.epoch_samples,
            seconds: self.epoch_started.elapsed().as_secs_f64() - self.epoch_paused_s,
        };
        (progress.epoch_loss, progress.epoch_answers, progress.epoch_correct, progress.epoch_samples) =
            (0.0, 0, 0, 0);
        self.tell(event);
        self.epoch_started = Instant::now();
        self.epoch_paused_s = 0.0;
    }

    /// Measures on held-out data; true if that reached the target.
    fn evaluate(&mut self) -> bool {
        let started = Instant::now();
        let (pool, head, test) = (&self.job.pool, &mut self.job.head, &self.job.dataset.test);
        let tally = pool.install(|| head.evaluate(test));
        let (round, accuracy) = (self.progress.round, tally.accuracy());
        let evaluated = Evaluated { loss: tally.mean_loss(), accuracy, macro_f1: tally.macro_f1() };
        self.evaluated = Some(evaluated);
        self.progress.best_accuracy =
            Some(self.progress.best_accuracy.map_or(accuracy, |best| best.max(accuracy)));
        self.tell(Event::Evaluated {
            round,
            epoch: self.job.epochs(round),
            loss: evaluated.loss,
            accuracy,
            macro_f1: evaluated.macro_f1,
            samples: self.job.dataset.test.len() as u64,
            seconds: started.elapsed().as_secs_f64(),
        });
        match self.job.settings.file.target_accuracy {
            Some(target) if accuracy >= target => {
                self.progress.target_reached_round.get_or_insert(round);
                self.tell(Event::TargetReached { round, accuracy, target });
                true
            }
            _ => false,
        }
    }

    /// Writes a checkpoint. One that cannot be written costs the checkpoint, not the run.
    fn checkpoint(&mut self) {
        let started = Instant::now();
        let head = &self.job.head;
        let snapshot = Snapshot {
            layout: head.layout(),
            parameters: &head.parameters,
            moments: head.optimizer.moments(),
            progress: &self.progress,
        };
        let written =
            checkpoint::write(&self.folder.checkpoints(), snapshot, self.job.settings.file.keep_checkpoints);
        let round = self.progress.round;
        match written {
            Ok((path, bytes)) => {
                let file: PathBuf =
                    path.strip_prefix(self.folder.path()).map_or(path.clone(), Path::to_path_buf);
                let seconds = started.elapsed().as_secs_f64();
                self.tell(Event::Checkpointed { round, file: file.display().to_string(), bytes, seconds });
                self.warned_of_checkpoints = false;
            }
            Err(error) if !self.warned_of_checkpoints => {
                let message = format!("no checkpoint of round {round}: {error:#}; the run goes on");
                self.tell(Event::Warned { message });
                self.warned_of_checkpoints = true;
            }
            Err(_) => {}
        }
    }

    fn summary(&self, exit: Exit) -> Summary {
        let seconds = self.started.elapsed().as_secs_f64();
        let progress = &self.progress;
        let under_way = progress.epoch_loss / progress.epoch_answers as f64;
        Summary {
            name: self.job.settings.file.name.clone(),
            model: self.job.model_name.clone(),
            data: self.job.dataset.name.clone(),
            workers: self.job.settings.workers,
            exit,
            rounds: progress.round,
            epochs: self.job.epochs(progress.round),
            samples: progress.samples,
            seconds,
            samples_per_s: self.samples as f64 / seconds,
            train_loss: progress.train_loss.filter(|_| exit != Exit::Failed).unwrap_or(under_way),
            eval_loss: self.evaluated.map(|evaluated| evaluated.loss),
            accuracy: self.evaluated.map(|evaluated| evaluated.accuracy),
            best_accuracy: progress.best_accuracy,
            macro_f1: self.evaluated.and_then(|evaluated| evaluated.macro_f1),
            target_reached_round: progress.target_reached_round,
            peak_rss_mb: peak_rss_mb(),
            first_step_s: self.first_step_s,
        }
    }
}

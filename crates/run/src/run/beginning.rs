//! How a run begins, goes on from a checkpoint, and is taken back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};
use bonfire_data::Dataset;
use bonfire_learn::Tally;
use bonfire_report::{Event, Exit, Log, RunFolder, TensorBoard, View, read_events, write_atomically};

use super::watch::RunWatch;
use super::{Run, Window, board, planned_end};
use crate::checkpoint::{self, Checkpoint, Progress, best};
use crate::job::{Job, Scale};
use crate::replica::Replica;
use crate::run_file::{Span, agreed};
use crate::state;

impl Run {
    /// Starts a new run in a folder that must be new or empty.
    pub fn create(job: Job, path: &Path, views: Vec<View>, began: Instant) -> Result<Self> {
        let yaml = job.settings.to_yaml()?;
        let folder = RunFolder::create(path)?;
        if let Err(error) = prepare(&folder, &job, &yaml) {
            // The first error is the one to tell of.
            let _ = folder.remove_if_unstarted();
            return Err(error);
        }
        let run = Self::start(job, folder, views, Progress::default(), began)?;
        if run.log.failed_writes() > 0 {
            let events = run.folder.events();
            let _ = run.folder.remove_if_unstarted();
            bail!("{}: the first event of the run could not be written", events.display());
        }
        Ok(run)
    }

    /// Goes on with the run of a folder from its newest whole checkpoint, or from the beginning if it has none.
    pub fn resume(mut job: Job, folder: RunFolder, views: Vec<View>, began: Instant) -> Result<Self> {
        let Restored { progress, from, skipped } = restore(&mut job, &folder)?;
        refuse_if_complete(&job, &folder, &progress)?;
        let lost = rounds_told(&folder).saturating_sub(progress.round);
        write_atomically(&folder.run_file(), job.settings.to_yaml()?.as_bytes())?;
        let mut run = Self::start(job, folder, views, progress, began)?;
        run.is_resumed = true;
        for reason in skipped {
            run.tell(Event::Warned { message: format!("passed over {reason}") });
        }
        let (round, epoch) = (run.progress.round, run.epochs());
        run.tell(Event::Resumed { round, epoch, checkpoint: from });
        if lost > 0 {
            let message = format!("the last {lost} rounds before that were not saved, and are done again");
            run.tell(Event::Noted { message });
        }
        Ok(run)
    }

    /// Goes on from the newest checkpoint because newer parameters are lost.
    pub fn go_back(&mut self, reason: &str) -> Result<()> {
        let before = self.progress.round;
        let Restored { progress, from, .. } = restore(&mut self.job, &self.folder)?;
        // What was chosen since then stays.
        let chosen = progress.chosen.or(self.progress.chosen);
        self.progress = Progress { chosen, ..progress };
        let lost = before.saturating_sub(self.progress.round);
        let message = format!("{reason}; back to {from}, {lost} rounds are done again");
        self.tell(Event::Warned { message });
        Ok(())
    }

    fn start(
        job: Job,
        folder: RunFolder,
        mut views: Vec<View>,
        progress: Progress,
        began: Instant,
    ) -> Result<Self> {
        let started = Instant::now();
        views.push(View::TensorBoard(Box::new(TensorBoard::new(board::facts(&job), SystemTime::now()))));
        let log = Log::open(&folder, started, views)?;
        let mut run = Self {
            job,
            folder,
            log,
            progress,
            is_resumed: false,
            traffic: None,
            state: None,
            started,
            began,
            first_step_s: None,
            samples: 0,
            evaluated: None,
            tested: None,
            window: Window { since: started, samples: 0, tally: Tally::default() },
            epoch_started: started,
            epoch_paused_s: 0.0,
            energy: None,
            watch: RunWatch::start(started),
            unsaved: None,
        };
        if !run.job.settings.is_to_agree() {
            run.announce();
        }
        Ok(run)
    }

    /// Takes the words, classes and scales that the owners of the data have agreed on: only now the run has its model.
    pub fn agree(&mut self, form: Dataset) -> Result<()> {
        agreed::keep(&form, &self.folder)?;
        let mut settings = self.job.settings.clone();
        settings.form = Some(Arc::new(form));
        self.job = Job::prepare(settings, Scale::Nodes)?;
        save_words(&self.folder, &self.job)?;
        self.log.describe(&board::facts(&self.job));
        self.announce();
        self.describe()
    }

    /// Writes what it takes to make the run again, beside the training.
    pub fn describe(&mut self) -> Result<()> {
        let (dataset, held_out) = (Arc::clone(&self.job.dataset), self.job.held_out.clone());
        if let Some(former) = self.state.take() {
            let _ = former.join();
        }
        let state = state::write_in_background(self.folder.state(), dataset, held_out);
        self.state = Some(state.context("cannot start a thread")?);
        Ok(())
    }

    /// Takes a new run back that cannot begin after all: nothing of it is left behind.
    pub fn abandon(mut self) {
        if self.is_resumed {
            return;
        }
        if let Some(state) = self.state.take() {
            let _ = state.join();
        }
        // What cannot be removed is for the user to find; why the run cannot begin is what is told.
        let _ = std::fs::write(self.folder.events(), "");
        let _ = self.folder.remove_if_unstarted();
    }

    fn announce(&mut self) {
        self.tell(self.job.started());
    }
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
        bail!(
            "{path}: the run is complete, all {} rounds are done; to go on: --set {key}=N",
            job.schedule.updates()
        );
    }
    if end == Exit::StoppedEarly {
        bail!(
            "{path}: the run stopped early in round {}, after {} evaluations without a better one; to go on: \
             --set patience=N",
            progress.round,
            progress.since_best
        );
    }
    let round = progress.target_reached_round.unwrap_or(progress.round);
    bail!("{path}: the run reached its target in round {round}; to go on: --set target_accuracy=");
}

/// The last round that the log of a run speaks of.
fn rounds_told(folder: &RunFolder) -> u64 {
    let events = read_events(&folder.events()).unwrap_or_default();
    let round = |event: &Event| match event {
        Event::Progress { round, .. } | Event::EpochEnded { round, .. } | Event::Nodes { round, .. } => {
            *round
        }
        _ => 0,
    };
    events.iter().map(|stamped| round(&stamped.event)).max().unwrap_or(0)
}

/// Writes into a new folder what must be there before the first event.
pub(super) fn prepare(folder: &RunFolder, job: &Job, yaml: &str) -> Result<()> {
    write_atomically(&folder.run_file(), yaml.as_bytes())?;
    save_words(folder, job)
}

fn save_words(folder: &RunFolder, job: &Job) -> Result<()> {
    if let Some(vocabulary) = &job.dataset.vocabulary {
        vocabulary.save(&folder.vocabulary())?;
    }
    Ok(())
}

/// What a run folder had to give.
struct Restored {
    progress: Progress,
    /// The checkpoint, in words.
    from: String,
    /// Why newer ones were passed over.
    skipped: Vec<String>,
}

/// Brings a job to the newest whole checkpoint of a folder, or to the beginning if there is none.
fn restore(job: &mut Job, folder: &RunFolder) -> Result<Restored> {
    let (found, skipped) = checkpoint::newest_whole(&folder.checkpoints(), job.layout())?;
    let Some(Checkpoint { parameters, moments, velocity, mut progress, file }) = found else {
        job.replica = Replica::of(&job.settings, job.layout());
        best::restore(&folder.checkpoints(), None)?;
        return Ok(Restored { progress: Progress::default(), from: "the beginning".to_owned(), skipped });
    };
    if !job.replica.restore(progress.optimizer_steps, moments, velocity) {
        bail!("{}: it is of another optimiser", file.display());
    }
    job.replica.parameters = parameters;
    if let Some(chosen) = progress.chosen {
        job.schedule.settle(chosen);
    }
    if progress.units == 0 {
        // Written before units were counted, when all workers were in step.
        progress.units = progress.round * job.settings.workers as u64;
    }
    let mut skipped = skipped;
    if !best::restore(&folder.checkpoints(), progress.best.as_ref())? {
        skipped.push(format!(
            "the best parameters so far, which are gone from {}",
            folder.checkpoints().display()
        ));
        (progress.best, progress.since_best) = (None, 0);
    }
    Ok(Restored { progress, from: file.display().to_string(), skipped })
}

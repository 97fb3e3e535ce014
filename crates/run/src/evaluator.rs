//! The evaluator: measures the checkpoints of a run, also while it goes on, from another process.
//!
//! It takes checkpoints as they appear, in whatever order and distance, and holds each file open from the moment it
//! sees it, so that one which the run removes meanwhile is still measured. It ends when the run has, or after a
//! silence.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bonfire_report::{Event, RunFolder, read_events};
use serde::Serialize;

use crate::checkpoint;
use crate::job::{Job, Scale};
use crate::run_file::{LocalSteps, Settings};

/// How one checkpoint did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub round: u64,
    pub epoch: f64,
    pub file: PathBuf,
    /// What it was measured on: `validation` of a run that is judged by it, otherwise `test`.
    pub part: &'static str,
    pub loss: f64,
    pub accuracy: f64,
    pub macro_f1: Option<f64>,
    pub samples: usize,
    pub seconds: f64,
}

/// What the evaluator has to say.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Finding {
    Measured(Measured),
    /// A checkpoint that cannot be measured, and why.
    Missed {
        round: u64,
        reason: String,
    },
}

/// Measures the checkpoints of one run folder.
#[derive(Debug)]
pub struct Evaluator {
    folder: RunFolder,
    job: Job,
    seen: BTreeSet<u64>,
}

/// How often a watcher looks.
const LOOK: Duration = Duration::from_millis(100);

/// Waits for a run that may not have started, but for no longer than `patience`. False if `stop` was set before it did.
pub fn await_run(path: &Path, patience: Duration, stop: &AtomicBool) -> Result<bool> {
    let started = Instant::now();
    loop {
        match RunFolder::open(path) {
            Ok(_) => return Ok(true),
            Err(error) if started.elapsed() >= patience => return Err(error.into()),
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(false),
            Err(_) => thread::sleep(LOOK),
        }
    }
}

impl Evaluator {
    /// Loads what the run of a folder was trained on.
    pub fn open(path: &Path, cores: usize) -> Result<Self> {
        let folder = RunFolder::open(path)?;
        // As many workers as the run has, each with the same part of the test data: sums of floating-point numbers
        // depend on their order, and these shall be the run's own.
        let settings = Settings::of_run(&folder, cores)?;
        Ok(Self { folder, job: Job::prepare(settings, Scale::Threads)?, seen: BTreeSet::new() })
    }

    /// Measures every checkpoint that is there, oldest first.
    pub fn measure_all(&mut self, tell: &mut dyn FnMut(Finding)) -> Result<()> {
        if self.look(tell)? == 0 && self.seen.is_empty() {
            bail!("{}: there is no checkpoint yet; --watch waits for them", self.folder.path().display());
        }
        Ok(())
    }

    /// Measures every checkpoint that is there or appears, until the run has ended, or nothing was heard of it for
    /// `patience`, or `stop` is set.
    pub fn watch(
        &mut self,
        patience: Duration,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Finding),
    ) -> Result<()> {
        let (mut heard, mut log_len) = (Instant::now(), 0);
        while !stop.load(Ordering::Relaxed) {
            // The end is asked for before the look, so that nothing appears between the last look and the end.
            let ended = self.has_ended(&mut log_len, &mut heard)?;
            if self.look(tell)? > 0 {
                heard = Instant::now();
            }
            if ended {
                return self.report_missed(tell);
            }
            if heard.elapsed() > patience {
                let path = self.folder.path().display();
                bail!("{path}: nothing was heard of the run for {} s; it may have died", patience.as_secs());
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Measures the checkpoints that were not seen before; returns how many there were.
    fn look(&mut self, tell: &mut dyn FnMut(Finding)) -> Result<usize> {
        let mut files = checkpoint::list(&self.folder.checkpoints())?;
        files.retain(|(round, _)| self.seen.insert(*round));
        // All are opened before the first is measured: an open file stays when the run removes its name.
        let opened: Vec<_> =
            files.into_iter().map(|(round, path)| (round, File::open(&path), path)).collect();
        let count = opened.len();
        for (round, file, path) in opened {
            let read = file.and_then(|mut file| {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map(|_| bytes)
            });
            match read {
                Ok(bytes) => tell(self.measure(round, &path, &bytes)?),
                Err(error) => tell(Finding::Missed { round, reason: error.to_string() }),
            }
        }
        Ok(count)
    }

    fn measure(&mut self, round: u64, path: &Path, bytes: &[u8]) -> Result<Finding> {
        let started = Instant::now();
        let parameters = match checkpoint::parameters_from_bytes(self.job.layout(), bytes) {
            Ok(parameters) => parameters,
            // One that a crash or a full disk cut short is no reason to leave the others unmeasured.
            Err(reason) if !checkpoint::is_whole(bytes) => {
                return Ok(Finding::Missed { round, reason: format!("{reason:#}") });
            }
            Err(reason) => return Err(reason.context(format!("{}", path.display()))),
        };
        self.learn_chosen(path);
        let tally = self.job.evaluate(&parameters);
        Ok(Finding::Measured(Measured {
            round,
            epoch: self.job.epochs(round),
            file: path.to_owned(),
            part: if self.job.held_out.is_some() { "validation" } else { "test" },
            loss: tally.mean_loss(),
            accuracy: tally.accuracy(),
            macro_f1: tally.macro_f1(),
            samples: self.job.dataset.test.len(),
            seconds: started.elapsed().as_secs_f64(),
        }))
    }

    /// How long rounds are may have been chosen on the way.
    fn learn_chosen(&mut self, checkpoint: &Path) {
        if self.job.settings.file.local_steps == LocalSteps::Auto
            && let Some(chosen) = checkpoint::progress_of(checkpoint).and_then(|progress| progress.chosen)
        {
            self.job.schedule.settle(chosen);
        }
    }

    /// Whether the run's log has come to an end; a log that grew is a sign of life.
    fn has_ended(&self, log_len: &mut u64, heard: &mut Instant) -> Result<bool> {
        let path = self.folder.events();
        let len = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if len == *log_len {
            return Ok(false);
        }
        (*log_len, *heard) = (len, Instant::now());
        let events = read_events(&path)?;
        Ok(events.last().is_some_and(|stamped| matches!(stamped.event, Event::Ended { .. })))
    }

    /// Says which checkpoints the run wrote and removed before they could be opened.
    fn report_missed(&mut self, tell: &mut dyn FnMut(Finding)) -> Result<()> {
        for stamped in read_events(&self.folder.events())? {
            if let Event::Checkpointed { round, .. } = stamped.event
                && self.seen.insert(round)
            {
                let reason = "the run removed it first; a larger keep_checkpoints keeps more".to_owned();
                tell(Finding::Missed { round, reason });
            }
        }
        Ok(())
    }
}

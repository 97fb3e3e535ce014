//! The runs of a sweep, some of them side by side, until all have ended.

use std::collections::VecDeque;
use std::fs;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bonfire_report::number;
use bonfire_run::sweep::{Ended, RunEnd};

use super::super::WRONG_INPUT;
use super::child::SweepChild;
use super::folder::SweepFolder;
use crate::terminal::say;

/// How often is looked whether a run has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How often evaluations are read.
const READ: Duration = Duration::from_millis(200);

/// How long runs that were asked to stop may take for their checkpoints.
const FAREWELL: Duration = Duration::from_secs(60);

/// How a sweep came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolEnd {
    Done,
    Interrupted,
}

#[derive(Debug)]
pub(super) struct Pool<'a> {
    folder: &'a SweepFolder,
    quiet: bool,
    ended: Vec<Option<Ended>>,
    /// The evaluations of those that this process saw to their end.
    costs: Vec<Vec<f64>>,
    waiting: VecDeque<usize>,
    running: Vec<SweepChild>,
    started: Instant,
    /// How many this process has seen to their end.
    seen: usize,
}

impl<'a> Pool<'a> {
    pub(super) fn new(folder: &'a SweepFolder, quiet: bool) -> Result<Self> {
        let sweep = &folder.record.sweep;
        let ended: Vec<Option<Ended>> = sweep.runs.iter().map(|run| folder.ended(&run.name)).collect();
        let waiting: VecDeque<usize> = (0..ended.len()).filter(|&run| ended[run].is_none()).collect();
        let (costs, running) = (vec![Vec::new(); ended.len()], Vec::new());
        let pool = Self { folder, quiet, ended, costs, waiting, running, started: Instant::now(), seen: 0 };
        let runs = number::of(sweep.runs.len() as u64, "run");
        let settings = sweep.settings.len();
        let left = match pool.waiting.len() {
            left if left == sweep.runs.len() => String::new(),
            left => format!(", {left} left"),
        };
        pool.say(&format!("{runs} of {settings} settings{left}, {} side by side", sweep.jobs));
        Ok(pool)
    }

    pub(super) fn ended(&self) -> &[Option<Ended>] {
        &self.ended
    }

    /// Lets all runs come to their end, or all that have begun to a checkpoint if `stop` is set.
    pub(super) fn finish(&mut self, stop: &AtomicBool) -> Result<PoolEnd> {
        let mut read = Instant::now();
        while !(self.waiting.is_empty() && self.running.is_empty()) {
            if stop.load(Ordering::Relaxed) {
                self.wind_down();
                return Ok(PoolEnd::Interrupted);
            }
            while self.running.len() < self.folder.record.sweep.jobs
                && let Some(run) = self.waiting.pop_front()
            {
                self.running.push(SweepChild::start(self.folder, run)?);
            }
            if read.elapsed() >= READ {
                self.stop_hopeless()?;
                read = Instant::now();
            }
            self.take_ended()?;
            thread::sleep(LOOK);
        }
        Ok(PoolEnd::Done)
    }

    fn take_ended(&mut self) -> Result<()> {
        let mut place = 0;
        while place < self.running.len() {
            match self.running[place].ended()? {
                Some(status) => {
                    let child = self.running.swap_remove(place);
                    self.take(child, status)?;
                }
                None => place += 1,
            }
        }
        Ok(())
    }

    /// Takes a run that has ended.
    fn take(&mut self, mut child: SweepChild, status: ExitStatus) -> Result<()> {
        let sweep = &self.folder.record.sweep;
        let run = &sweep.runs[child.number];
        if status.code() == Some(i32::from(WRONG_INPUT)) {
            bail!("{}: {}", run.name, self.last_word(&run.name));
        }
        child.look(sweep.best_by);
        self.costs[child.number] = std::mem::take(&mut child.costs);
        let ended = match self.folder.ended(&run.name) {
            Some(ended) => ended,
            // It was killed by somebody, or could not begin.
            None => Ended { end: RunEnd::Failed, summary: None },
        };
        self.seen += 1;
        let figure = ended.summary.as_ref().and_then(|summary| sweep.best_by.of(summary));
        let figure = figure.map_or(String::new(), |value| {
            format!("  {} {}", sweep.best_by.title(), sweep.best_by.show(value))
        });
        let how = match ended.end {
            RunEnd::Done => String::new(),
            RunEnd::Stopped => "  stopped: worse than the median".to_owned(),
            RunEnd::Failed => format!("  failed: {}", self.last_word(&run.name)),
        };
        let time = number::seconds(child.started.elapsed().as_secs_f64());
        self.ended[child.number] = Some(ended);
        let (done, all) = (self.ended.iter().flatten().count(), self.ended.len());
        let left = number::seconds(self.seconds_left());
        let left = if done < all { format!(", {left} left") } else { String::new() };
        self.say(&format!(
            "[{done:>width$}/{all}] {}{figure}{how}  in {time}{left}",
            run.name,
            width = all.to_string().len()
        ));
        Ok(())
    }

    /// By how long the others took.
    fn seconds_left(&self) -> f64 {
        let left = (self.waiting.len() + self.running.len()) as f64;
        self.started.elapsed().as_secs_f64() / self.seen.max(1) as f64 * left
    }

    fn last_word(&self, name: &str) -> String {
        let said = fs::read_to_string(self.folder.said(name)).unwrap_or_default();
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        last.trim_start_matches("error: ").to_owned()
    }

    /// Asks those to stop that are not worth going on with, if the sweep says so.
    fn stop_hopeless(&mut self) -> Result<()> {
        let sweep = &self.folder.record.sweep;
        let Some(rule) = sweep.median_stop else { return Ok(()) };
        for child in &mut self.running {
            child.look(sweep.best_by);
            self.costs[child.number].clone_from(&child.costs);
        }
        for child in &mut self.running {
            let others = self.costs.iter().enumerate().filter(|(run, _)| *run != child.number);
            let others = others.map(|(_, costs)| costs.as_slice());
            if !child.is_stopping && rule.is_hopeless(&child.costs, others) {
                let mark = self.folder.stopped_mark(&sweep.runs[child.number].name);
                fs::write(&mark, "").with_context(|| format!("{}", mark.display()))?;
                child.stop();
            }
        }
        Ok(())
    }

    /// Waits until all have written their checkpoints, but not for ever.
    fn wind_down(&mut self) {
        self.say("stopping; runs that have begun write checkpoints");
        self.running.iter_mut().for_each(SweepChild::stop);
        let deadline = Instant::now() + FAREWELL;
        while !self.running.is_empty() && Instant::now() < deadline {
            self.running.retain_mut(|child| matches!(child.ended(), Ok(None)));
            thread::sleep(LOOK);
        }
        // Those that are left are ended as they are dropped, and go on from an earlier checkpoint.
        self.running.clear();
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }
}

//! Where the time of a run goes, and what its machine does meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use bonfire_report::{EnergyBook, Event, MachineWatch, Phase, Phases, SampleLine, TimeBook, write_report};

use super::Run;

/// How often it is told at first, and later at most: the log of a long run stays small.
const EVERY_S: (f64, f64) = (1.0, 10.0);

/// What is counted between two events.
#[derive(Debug)]
pub(super) struct RunWatch {
    started: Instant,
    since: Instant,
    machine: MachineWatch,
    /// What all wait for while it is done: evaluations and checkpoints.
    phases: Phases,
    book: TimeBook,
    pub energy: EnergyBook,
}

impl RunWatch {
    pub(super) fn start(now: Instant) -> Self {
        Self {
            started: now,
            since: now,
            machine: MachineWatch::start(Path::new("/"), now),
            phases: Phases::default(),
            book: TimeBook::default(),
            energy: EnergyBook::default(),
        }
    }

    /// An evaluation or a checkpoint took so long.
    pub(super) fn add(&mut self, phase: Phase, time: Duration) {
        self.phases.add(phase, time);
    }

    /// Where the time went so far.
    pub(super) fn sentence(&self) -> Option<String> {
        self.book.sentence()
    }

    fn is_due(&self, now: Instant) -> bool {
        let (least, most) = EVERY_S;
        let every = (now.duration_since(self.started).as_secs_f64() / 500.0).clamp(least, most);
        now.duration_since(self.since).as_secs_f64() >= every
    }
}

impl Run {
    /// Tells what nodes did since this was last told, and this process with them.
    pub fn sample(&mut self, now: Instant, mut lines: Vec<SampleLine>) {
        let seconds = now.duration_since(self.watch.since).as_secs_f64();
        let machine = Some(self.watch.machine.look(now, self.energy.as_mut()));
        let phases = self.watch.phases.take();
        lines.push(SampleLine { node: None, name: "run".to_owned(), phases, machine });
        let event = Event::Sampled { round: self.progress.round, seconds, lines };
        self.watch.since = now;
        self.watch.book.count(&event);
        self.watch.energy.count(&event);
        self.log.record(now, event);
    }

    /// Writes the page with charts, unless it is not wanted. One that cannot be written costs itself: `bonfire report`
    /// says why.
    pub(super) fn write_report(&self) {
        if self.job.settings.file.report {
            let _ = write_report(&self.folder);
        }
    }

    /// The same of workers that share this process's memory, if it is time.
    pub(super) fn sample_crew_if_due(&mut self) {
        let now = Instant::now();
        if self.watch.is_due(now) {
            self.sample_crew(now);
        }
    }

    pub(super) fn sample_crew(&mut self, now: Instant) {
        let phases = self.job.take_phases().into_iter().enumerate();
        let line =
            |(i, phases)| SampleLine { node: None, name: format!("worker {i}"), phases, machine: None };
        let lines = phases.map(line).collect();
        self.sample(now, lines);
    }
}

//! Where time goes: phases of work, summed up, and the sentence that says it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::{Event, SampleLine};

/// What a worker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Has its batch laid out, or waits for that.
    Data,
    Forward,
    Backward,
    /// Turns a gradient into what travels, and hands it to the network, which never makes it wait.
    Encode,
    /// Waits for the sum: for others, or for the wire.
    Wait,
    /// Steps by it.
    Apply,
    Evaluate,
    Checkpoint,
}

impl Phase {
    pub const ALL: [Self; 8] = [
        Self::Data,
        Self::Forward,
        Self::Backward,
        Self::Encode,
        Self::Wait,
        Self::Apply,
        Self::Evaluate,
        Self::Checkpoint,
    ];

    /// As it is called in logs and charts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Encode => "encode",
            Self::Wait => "wait",
            Self::Apply => "apply",
            Self::Evaluate => "evaluate",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// Seconds by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, f64>", into = "BTreeMap<&'static str, f64>")]
pub struct Phases([f64; Phase::ALL.len()]);

impl Phases {
    #[must_use]
    pub fn get(&self, phase: Phase) -> f64 {
        self.0[phase as usize]
    }

    pub fn add(&mut self, phase: Phase, time: Duration) {
        self.0[phase as usize] += time.as_secs_f64();
    }

    /// Adds seconds; those that are no time are left out.
    pub fn add_s(&mut self, phase: Phase, seconds: f64) {
        if seconds.is_finite() && seconds > 0.0 {
            self.0[phase as usize] += seconds;
        }
    }

    pub fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, seconds)| *sum += seconds);
    }

    #[must_use]
    pub fn times(mut self, factor: f64) -> Self {
        self.0.iter_mut().for_each(|seconds| *seconds *= factor);
        self
    }

    /// What was counted so far; counting begins anew.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Which part of all the time a phase took.
    #[must_use]
    pub fn share(&self, phase: Phase) -> f64 {
        let all: f64 = self.0.iter().sum();
        if all > 0.0 { self.get(phase) / all } else { 0.0 }
    }

    /// Those that took any time.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, f64)> {
        let seconds = self.0;
        Phase::ALL
            .into_iter()
            .map(move |phase| (phase, seconds[phase as usize]))
            .filter(|(_, time)| *time > 0.0)
    }

    /// Whose phases these are computes gradients.
    #[must_use]
    pub fn trains(&self) -> bool {
        self.get(Phase::Backward) > 0.0
    }

    /// What is not waiting: work of this worker.
    fn busy(&self) -> f64 {
        self.0.iter().sum::<f64>() - self.get(Phase::Wait)
    }
}

/// Phases of another version are left out.
impl From<BTreeMap<String, f64>> for Phases {
    fn from(map: BTreeMap<String, f64>) -> Self {
        let mut phases = Self::default();
        for phase in Phase::ALL {
            phases.add_s(phase, map.get(phase.name()).copied().unwrap_or(0.0));
        }
        phases
    }
}

/// To a tenth of a millisecond.
impl From<Phases> for BTreeMap<&'static str, f64> {
    fn from(phases: Phases) -> Self {
        let rounded = phases.iter().map(|(phase, seconds)| (phase.name(), (seconds * 1e4).round() / 1e4));
        rounded.filter(|(_, seconds)| *seconds > 0.0).collect()
    }
}

/// Sums up where the time of a run goes.
#[derive(Clone, Debug, Default)]
pub struct TimeBook {
    /// By the names of workers and machines.
    lines: BTreeMap<String, Phases>,
}

/// What is less than this share of the time is not worth a word.
const LEAST_SHARE: f64 = 0.005;

impl TimeBook {
    pub fn count(&mut self, event: &Event) {
        if let Event::Sampled { lines, .. } = event {
            for SampleLine { name, phases, .. } in lines {
                self.lines.entry(name.clone()).or_default().add_all(phases);
            }
        }
    }

    /// `62 % computing, 31 % waiting for pi3, 7 % wire`: of the time of those who train, on average.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let workers: Vec<&Phases> = self.lines.values().filter(|phases| phases.trains()).collect();
        let aside = self.lines.values().filter(|phases| !phases.trains());
        let aside = aside.fold(Phases::default(), |mut sum, phases| {
            sum.add_all(phases);
            sum
        });
        let count = workers.len() as f64;
        let mean = |seconds: &dyn Fn(&Phases) -> f64| {
            workers.iter().map(|phases| seconds(phases)).sum::<f64>() / count
        };
        let of = |wanted: &[Phase]| mean(&|phases| wanted.iter().map(|phase| phases.get(*phase)).sum());
        let slowest = self
            .lines
            .iter()
            .filter(|(_, phases)| phases.trains())
            .max_by(|(_, a), (_, b)| a.busy().total_cmp(&b.busy()));
        let (slowest, most) = slowest.map(|(name, phases)| (name, phases.busy()))?;
        let computing = of(&[Phase::Data, Phase::Forward, Phase::Backward, Phase::Apply]);
        let late = mean(&|phases| phases.get(Phase::Wait).min(most - phases.busy()));
        let wire = of(&[Phase::Wait, Phase::Encode]) - late;
        let is_wired = workers.iter().any(|phases| phases.get(Phase::Encode) > 0.0);
        let parts = [
            ("computing".to_owned(), computing),
            (format!("waiting for {slowest}"), late),
            (if is_wired { "wire" } else { "waiting for each other" }.to_owned(), wire),
            ("evaluating".to_owned(), aside.get(Phase::Evaluate)),
            ("saving".to_owned(), aside.get(Phase::Checkpoint)),
        ];
        let all: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
        let told = parts.iter().filter(|(_, seconds)| all > 0.0 && seconds / all >= LEAST_SHARE);
        let told: Vec<String> =
            told.map(|(what, seconds)| format!("{:.0} % {what}", seconds / all * 100.0)).collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, phases: &[(Phase, f64)]) -> SampleLine {
        let mut sum = Phases::default();
        phases.iter().for_each(|&(phase, seconds)| sum.add_s(phase, seconds));
        SampleLine { node: None, name: name.to_owned(), phases: sum, machine: None }
    }

    fn sentence(lines: Vec<SampleLine>) -> Option<String> {
        let mut book = TimeBook::default();
        book.count(&Event::Sampled { round: 1, seconds: 10.0, lines });
        book.sentence()
    }

    #[test]
    fn says_who_is_waited_for() {
        use Phase::{Apply, Backward, Encode, Forward, Wait};
        let fast =
            |name| line(name, &[(Forward, 1.5), (Backward, 2.5), (Apply, 0.5), (Encode, 0.5), (Wait, 5.0)]);
        let slow = line("pi3", &[(Forward, 3.0), (Backward, 6.0), (Apply, 0.5), (Encode, 0.5)]);
        let text = sentence(vec![fast("pi1"), fast("pi2"), slow]);
        assert_eq!(text.as_deref(), Some("62 % computing, 33 % waiting for pi3, 5 % wire"));
    }

    #[test]
    fn says_what_held_all_up() {
        use Phase::{Backward, Checkpoint, Evaluate, Wait};
        let worker = |name, wait| line(name, &[(Backward, 8.0), (Wait, wait)]);
        let run = line("run", &[(Evaluate, 1.0), (Checkpoint, 0.5)]);
        let text = sentence(vec![worker("worker 0", 0.5), worker("worker 1", 0.5), run]);
        let expect = "80 % computing, 5 % waiting for each other, 10 % evaluating, 5 % saving";
        assert_eq!(text.as_deref(), Some(expect));
        assert_eq!(sentence(Vec::new()), None);
    }

    #[test]
    fn json_has_what_took_time() {
        let phases = line("a", &[(Phase::Forward, 0.123_456), (Phase::Wait, 1e-9)]).phases;
        assert_eq!(serde_json::to_string(&phases).unwrap(), r#"{"forward":0.1235}"#);
        let newer: Phases = serde_json::from_str(r#"{"forward":1.0,"dream":2.0}"#).unwrap();
        assert_eq!(newer.iter().collect::<Vec<_>>(), [(Phase::Forward, 1.0)]);
    }
}

//! A change of shares, and its reason in words.

/// How the shares of workers change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Of all workers.
    pub moves: Vec<Move>,
    pub why: Why,
    /// Who has a grain only and is the last one nevertheless.
    pub held: Option<Held>,
}

/// A worker that has as little as pays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub worker: u64,
    pub samples: u32,
    /// What its rounds would take without a sample.
    pub resting_s: f64,
}

/// What becomes of a worker's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    pub worker: u64,
    /// In samples.
    pub before: u32,
    pub now: u32,
    /// What its rounds took, the median; 0 of one that rested.
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Its rounds took another time than the others'.
    Apart,
    /// Even so many samples would take this worker so long; the others do without it in less.
    TooSlow { worker: u64, samples: u32, seconds: f64, others_s: f64 },
    /// It has rested for long.
    Again { worker: u64, rounds: u64 },
    /// With the shares before it rounds were shorter.
    NoGain { seconds: f64, before_s: f64 },
}

impl Change {
    /// Why, given what the workers are called.
    pub fn reason(&self, name: impl Fn(u64) -> String) -> String {
        let mut text = match self.why {
            Why::TooSlow { worker, samples, seconds, others_s } => format!(
                "{} rests: {samples} samples would take it {}, the others do without it in {}",
                name(worker),
                milliseconds(seconds, " ms"),
                milliseconds(others_s, "")
            ),
            Why::Again { worker, rounds } => {
                format!("{} is tried again after {rounds} rounds of rest", name(worker))
            }
            Why::NoGain { seconds, before_s } => format!(
                "back to what they were: rounds took {} since the last change, and {} before it",
                milliseconds(seconds, " ms"),
                milliseconds(before_s, "")
            ),
            Why::Apart => self.apart(&name),
        };
        if let Some(Held { worker, samples, resting_s }) = self.held {
            let (name, resting) = (name(worker), milliseconds(resting_s, " ms"));
            text.push_str(&format!(
                "; {name} is held at {samples} samples and still the last: without any it would take {resting}"
            ));
        }
        text
    }

    /// Who is too slow: it rests, or has as little as pays.
    pub fn too_slow(&self) -> Option<u64> {
        match self.why {
            Why::TooSlow { worker, .. } => Some(worker),
            Why::Apart | Why::Again { .. } | Why::NoGain { .. } => self.held.map(|held| held.worker),
        }
    }

    /// Of who moves farthest: of two alike, who is slower.
    fn apart(&self, name: &impl Fn(u64) -> String) -> String {
        let far = |it: &&Move| (it.before.abs_diff(it.now), it.before > it.now);
        let Some(chief) = self.moves.iter().max_by_key(far) else { return String::new() };
        let others = self.moves.iter().filter(|it| it.worker != chief.worker && it.seconds > 0.0);
        let others_s = super::cost::median(others.map(|it| it.seconds));
        let all = |of: fn(&Move) -> u32| f64::from(self.moves.iter().map(of).sum::<u32>().max(1));
        format!(
            "{} takes {:.0} % instead of {:.0} %: its rounds took {}, the others' {}",
            name(chief.worker),
            100.0 * f64::from(chief.now) / all(|it| it.now),
            100.0 * f64::from(chief.before) / all(|it| it.before),
            milliseconds(chief.seconds, " ms"),
            milliseconds(others_s, "")
        )
    }
}

fn milliseconds(seconds: f64, unit: &str) -> String {
    let ms = seconds * 1e3;
    if ms < 10.0 { format!("{ms:.1}{unit}") } else { format!("{ms:.0}{unit}") }
}

//! What a plan has to know of a host: what its processor takes for the work of a run, and what its link carries.
//!
//! Work is counted in seconds of one core, and how many cores it can use at a time. So it says the same of a host that
//! is alone on its machine and of one that shares it: how long something takes there is up to the simulated processor.

use bonfire_report::{EnergyLabel, Watts};
use bonfire_run::run_file::Compression;
use bonfire_yaml::{Tree, YamlError, to_yaml};
use serde::{Deserialize, Serialize};

use crate::bench::trial::TrialRound;

/// All that is known of a pool of hosts, for one model and its data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The model and the data that it was measured with.
    pub of: String,
    pub hosts: Vec<HostFigures>,
    /// Rounds of all hosts together that these figures were held against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
}

/// Real rounds of all hosts, and the same in the simulated world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    pub compression: String,
    pub real: TrialRound,
    pub simulated: TrialRound,
}

/// A host in figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFigures {
    pub name: String,
    /// Hosts of the same machine share its cores.
    pub machine: String,
    /// Of the machine.
    pub cores: usize,
    /// How many cores' time the host gets at most; and if it is held back to that, for how long at a time: in between
    /// it has all the cores that it wants.
    pub allowance: f64,
    #[serde(default)]
    pub hold_s: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    pub work: WorkFigures,
    pub link: LinkFigures,
    #[serde(default)]
    pub in_rounds: InRounds,
}

impl HostFigures {
    /// How many cores it has at most at a time.
    pub(super) fn at_a_time(&self) -> f64 {
        if self.hold_s > 0.0 { self.cores as f64 } else { self.allowance }
    }
}

/// What a host takes, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    pub watts: Watts,
    pub label: EnergyLabel,
}

/// Some work: how many seconds of a core it takes, and on how many cores at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    pub core_s: f64,
    pub width: f64,
}

/// A training step's gradient, of one batch on so many threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFigures {
    pub threads: usize,
    pub batch: usize,
    pub work: Work,
    /// From which place of the gradient on it is settled, after which part of the work. Empty where several copies of
    /// the model compute: then nothing is settled before the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settled: Vec<(usize, f64)>,
    /// How single steps differ, as parts of their mean, the shortest first.
    pub spread: Vec<f64>,
}

/// What a processor takes for the work of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkFigures {
    pub steps: Vec<StepFigures>,
    /// The optimiser's step.
    pub update: Work,
    /// The step that all make together after local steps, with what it takes to say how far a member went.
    pub together: Work,
    pub codecs: Vec<CodecFigures>,
    /// Until a thread that sleeps is at work for another.
    pub hop_s: f64,
    /// What a process that trains takes at its most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<f64>,
    /// How many times as long as alone its parts take in a round, by how many workers the machine has: they share
    /// caches and what cores have in common.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crowds: Vec<(usize, f64)>,
    /// Factors of rank 2: before, between and after their two exchanges.
    pub factors: [Work; 3],
    /// What a round of a run on one machine takes, in seconds, if that was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_s: Option<f64>,
}

/// What only real rounds tell of a host: where values travel as they are, where they are as small as in `int8`, and
/// where factors of low rank do, if that was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InRounds {
    pub large: Beside,
    pub small: Beside,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factors: Option<Beside>,
}

/// How a host and its link do in rounds, beside what each does alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// How many times as long work takes: at most as long as alone, for what is more goes with frames.
    pub work: f64,
    /// Seconds of a core that every frame takes of who computes, beside reading and summing it: it is woken for it, and
    /// finds caches full of something else.
    pub take_s: f64,
    /// How many times as much as of a stream a link carries of an exchange.
    pub carries: f64,
    /// Seconds by which a frame is later than one that travels alone.
    #[serde(default)]
    pub late_s: f64,
}

impl Default for Beside {
    fn default() -> Self {
        Self { work: 1.0, take_s: 0.0, carries: 1.0, late_s: 0.0 }
    }
}

impl InRounds {
    /// By the number of a way that was tried.
    pub(crate) fn by_way(&mut self, way: usize) -> &mut Beside {
        match way {
            0 => &mut self.large,
            1 => &mut self.small,
            _ => self.factors.get_or_insert(self.small),
        }
    }

    /// On a processor so many times as fast.
    pub(crate) fn at(self, speed: f64) -> Self {
        let at = |beside: Beside| Beside {
            take_s: beside.take_s / speed,
            late_s: beside.late_s / speed,
            ..beside
        };
        Self { large: at(self.large), small: at(self.small), factors: self.factors.map(at) }
    }

    /// In rounds where values travel so. Those of half the size are in the middle of both.
    pub(crate) fn of(&self, compression: Compression) -> Beside {
        let Self { large, small, factors } = *self;
        match compression {
            Compression::None | Compression::Lossless => large,
            Compression::F16 => Beside {
                work: (large.work * small.work).sqrt(),
                take_s: f64::midpoint(large.take_s, small.take_s),
                carries: (large.carries * small.carries).sqrt(),
                late_s: f64::midpoint(large.late_s, small.late_s),
            },
            Compression::PowerSgd(_) => factors.unwrap_or(small),
            Compression::Int8 | Compression::TopK(_) | Compression::Auto => small,
        }
    }
}

/// Seconds of a core for every float that travels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodecFigures {
    /// The compression that it is of.
    pub name: String,
    /// From a gradient into a payload.
    pub encode_s: f64,
    /// From a payload into a sum.
    pub add_s: f64,
    /// From a payload in the place of what was there.
    pub replace_s: f64,
    /// What a frame takes beside its values, in rounds.
    #[serde(skip)]
    pub take_s: f64,
}

/// What a host's link carries, each way, with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkFigures {
    /// Bytes a second, while as many go the other way.
    pub up: f64,
    pub down: f64,
    /// Bytes that an idle link takes at once.
    pub burst: f64,
    /// From one process to another, half of there and back.
    pub latency_s: f64,
    /// Seconds of a core for a frame that finds the threads of the wire asleep, on its way out or in.
    #[serde(default)]
    pub wake_s: f64,
    /// Seconds that a core rests for each end of a frame although there is something to do: who is woken for it runs
    /// late. By real rounds alone.
    #[serde(default)]
    pub rest_s: f64,
    /// Seconds of a core for a frame and for each of its bytes.
    pub send: FrameFigures,
    pub receive: FrameFigures,
}

/// What the wire's threads take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameFigures {
    pub frame_s: f64,
    pub byte_s: f64,
}

impl Pool {
    /// As it is saved.
    pub fn to_yaml(&self) -> Result<String, YamlError> {
        to_yaml(self)
    }

    /// Figures that were saved, for a run of the same model and data.
    pub fn read(origin: &str, text: &str, of: &str) -> Result<Self, YamlError> {
        let tree = Tree::parse(origin, text)?;
        let pool: Self = tree.read()?;
        if pool.of != of {
            return Err(tree.wrong("of", format!("was measured with {}, and this run is {of}", pool.of)));
        }
        if pool.hosts.is_empty() {
            return Err(tree.wrong("hosts", "has no hosts"));
        }
        for (place, host) in pool.hosts.iter().enumerate() {
            let wrong = |key: &str, rule: &str| tree.wrong(&format!("hosts[{place}].{key}"), rule);
            if let Some((key, rule)) = host.power.and_then(|power| power.watts.check().err()) {
                return Err(wrong(&format!("power.watts.{key}"), &rule));
            }
            let above_0 = [
                ("cores", host.cores as f64),
                ("allowance", host.allowance),
                ("link.up", host.link.up),
                ("link.down", host.link.down),
            ];
            if let Some((key, _)) = above_0.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
                return Err(wrong(key, "must be above 0"));
            }
            if !(host.hold_s >= 0.0 && host.hold_s.is_finite()) {
                return Err(wrong("hold_s", "must be 0 or more"));
            }
            if host.work.steps.is_empty() {
                return Err(wrong("work.steps", "must have a step that was measured"));
            }
        }
        Ok(pool)
    }
}

impl Work {
    /// On a processor so many times as fast.
    pub(crate) fn at(self, speed: f64) -> Self {
        Self { core_s: self.core_s / speed, ..self }
    }

    /// How long it takes where nobody else is.
    pub fn alone_s(self) -> f64 {
        self.core_s / self.width.max(1e-9)
    }
}

impl WorkFigures {
    /// The same work on a processor so many times as fast.
    pub(crate) fn at(&self, speed: f64) -> Self {
        let mut there = self.clone();
        there.steps.iter_mut().for_each(|step| step.work = step.work.at(speed));
        there.codecs.iter_mut().for_each(|codec| codec.slow_down(speed));
        there.factors = self.factors.map(|work| work.at(speed));
        (there.update, there.together) = (self.update.at(speed), self.together.at(speed));
        there.hop_s /= speed;
        there.alone_s = self.alone_s.map(|alone_s| alone_s / speed);
        there
    }

    /// How many times as long work takes where a machine has so many workers: on the line between the two numbers
    /// beside it that were measured.
    pub(crate) fn crowd(&self, workers: usize) -> f64 {
        let above = self.crowds.iter().position(|(count, _)| *count >= workers);
        let Some(above) = above else { return self.crowds.last().map_or(1.0, |(_, times)| *times) };
        let (high, times) = self.crowds[above];
        let Some(&(low, fewer)) = above.checked_sub(1).and_then(|place| self.crowds.get(place)) else {
            return times;
        };
        fewer + (times - fewer) * (workers - low) as f64 / (high - low).max(1) as f64
    }

    /// The work of a batch on so many threads, on the line between the two sizes beside it that were measured.
    pub fn step(&self, threads: usize, batch: usize) -> Work {
        let nearest = |step: &&StepFigures| step.threads.abs_diff(threads);
        let Some(measured) = self.steps.iter().min_by_key(nearest).map(|step| step.threads) else {
            return Work::default();
        };
        let mut steps: Vec<&StepFigures> =
            self.steps.iter().filter(|step| step.threads == measured).collect();
        steps.sort_by_key(|step| step.batch);
        let above = steps.iter().position(|step| step.batch >= batch).unwrap_or(steps.len() - 1).max(1);
        let (Some(low), Some(high)) = (steps.get(above - 1), steps.get(above)) else {
            return steps[0].work.at(steps[0].batch as f64 / batch.max(1) as f64);
        };
        let place = (batch as f64 - low.batch as f64) / (high.batch as f64 - low.batch as f64).max(1.0);
        let between = |low: f64, high: f64| low + place * (high - low);
        let core_s = between(low.work.core_s, high.work.core_s).max(low.work.core_s * 1e-3);
        Work { core_s, width: if place < 0.5 { low.work.width } else { high.work.width } }
    }

    /// What is measured of a step beside its work: that of the nearest size.
    pub fn like(&self, threads: usize, batch: usize) -> Option<&StepFigures> {
        self.steps.iter().min_by_key(|step| (step.threads.abs_diff(threads), step.batch.abs_diff(batch)))
    }

    /// What a codec takes; that of values as they are where it was not measured.
    pub(crate) fn codec(&self, name: &str) -> CodecFigures {
        let found = self.codecs.iter().find(|codec| codec.name == name).or(self.codecs.first());
        found.cloned().unwrap_or_default()
    }
}

impl CodecFigures {
    fn slow_down(&mut self, speed: f64) {
        for seconds in [&mut self.encode_s, &mut self.add_s, &mut self.replace_s] {
            *seconds /= speed;
        }
    }
}

impl FrameFigures {
    pub(crate) fn at(self, speed: f64) -> Self {
        Self { frame_s: self.frame_s / speed, byte_s: self.byte_s / speed }
    }

    pub(crate) fn of(self, bytes: f64) -> f64 {
        self.frame_s + self.byte_s * bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(sizes: &[(usize, usize, f64)]) -> WorkFigures {
        let step = |&(threads, batch, core_s): &(usize, usize, f64)| StepFigures {
            threads,
            batch,
            work: Work { core_s, width: threads as f64 },
            settled: Vec::new(),
            spread: vec![1.0],
        };
        let none = Work::default();
        WorkFigures {
            steps: sizes.iter().map(step).collect(),
            update: none,
            together: none,
            codecs: Vec::new(),
            hop_s: 0.0,
            memory_mb: None,
            crowds: Vec::new(),
            factors: [none; 3],
            alone_s: None,
        }
    }

    #[test]
    fn workers_that_share_a_machine_crowd_it() {
        let mut figures = figures(&[(1, 16, 2.0)]);
        assert_eq!(figures.crowd(3), 1.0);
        figures.crowds = vec![(1, 1.0), (2, 1.25), (4, 1.5)];
        assert_eq!([1, 2, 3, 4, 9].map(|workers| figures.crowd(workers)), [1.0, 1.25, 1.375, 1.5, 1.5]);
    }

    #[test]
    fn a_batch_between_two_that_were_measured_is_on_their_line() {
        let figures = figures(&[(1, 16, 2.0), (1, 32, 3.0), (1, 64, 5.0), (2, 32, 3.5)]);
        let check = |threads, batch, expect: f64| {
            let found = figures.step(threads, batch).core_s;
            assert!((found - expect).abs() < 1e-9, "{batch} on {threads}: {found}");
        };
        check(1, 16, 2.0);
        check(1, 24, 2.5);
        check(1, 32, 3.0);
        check(1, 48, 4.0);
        check(1, 64, 5.0);
        check(1, 128, 9.0);
        check(1, 8, 1.5);
        check(2, 32, 3.5);
        check(8, 64, 7.0);
    }
}

//! How the learning rate changes.

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The rule: the value of `schedule` in a run file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// The optimiser's rate throughout.
    #[default]
    Constant,
    /// Half a cosine from the optimiser's rate down to `final_lr` at the end of the run.
    Cosine(Cosine),
    /// One rate after the other; the last holds to the end.
    Steps(Vec<RateStep>),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cosine {
    pub final_lr: f32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    pub epochs: u64,
    pub lr: f32,
}

/// `constant`, `cosine`, `{cosine: {final_lr: …}}`, or a list of steps.
impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScheduleVisitor)
    }
}

struct ScheduleVisitor;

impl<'de> Visitor<'de> for ScheduleVisitor {
    type Value = Schedule;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("constant, cosine, or a list such as [{epochs: 10, lr: 0.01}]")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Schedule, E> {
        match name {
            "constant" => Ok(Schedule::Constant),
            "cosine" => Ok(Schedule::Cosine(Cosine::default())),
            _ => Err(E::unknown_variant(name, &["constant", "cosine", "steps"])),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Schedule, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Schedule::Steps)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Schedule, A::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Named {
            Cosine(Cosine),
            Steps(Vec<RateStep>),
        }
        Named::deserialize(MapAccessDeserializer::new(map)).map(|named| match named {
            Named::Cosine(cosine) => Schedule::Cosine(cosine),
            Named::Steps(steps) => Schedule::Steps(steps),
        })
    }
}

/// Where in a run a round is.
#[derive(Clone, Copy, Debug)]
pub struct SchedulePosition {
    /// From 0.
    pub round: u64,
    /// Of the whole run.
    pub rounds: u64,
    pub rounds_per_epoch: u64,
    /// How many rounds the rate grows linearly from 0 before the rule holds.
    pub warmup: u64,
}

impl Schedule {
    /// The rate of a round; `base` is the optimiser's.
    pub fn lr(&self, base: f32, position: SchedulePosition) -> f32 {
        let lr = match self {
            Self::Constant => base,
            Self::Cosine(Cosine { final_lr }) => {
                let rounds = position.rounds.saturating_sub(position.warmup).max(1);
                let done = position.round.saturating_sub(position.warmup) as f64 / rounds as f64;
                let share = 0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos());
                final_lr + (base - final_lr) * share as f32
            }
            Self::Steps(steps) => {
                let epoch = position.round / position.rounds_per_epoch.max(1);
                let mut end = 0;
                let current = steps.iter().find(|step| {
                    end += step.epochs;
                    epoch < end
                });
                current.or(steps.last()).map_or(base, |step| step.lr)
            }
        };
        if position.round < position.warmup {
            lr * ((position.round + 1) as f32 / position.warmup as f32)
        } else {
            lr
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let check = |json: &str, expect: Schedule| {
            assert_eq!(serde_json::from_str::<Schedule>(json).expect(json), expect);
            let written = serde_json::to_string(&expect).expect(json);
            assert_eq!(serde_json::from_str::<Schedule>(&written).expect(&written), expect);
        };
        check("\"constant\"", Schedule::Constant);
        check("\"cosine\"", Schedule::Cosine(Cosine::default()));
        check("{\"cosine\": {\"final_lr\": 0.1}}", Schedule::Cosine(Cosine { final_lr: 0.1 }));
        check("[{\"epochs\": 3, \"lr\": 0.1}]", Schedule::Steps(vec![RateStep { epochs: 3, lr: 0.1 }]));
        assert!(serde_json::from_str::<Schedule>("\"linear\"").is_err());
    }

    #[test]
    fn rates() {
        let steps = Schedule::Steps(vec![RateStep { epochs: 2, lr: 0.1 }, RateStep { epochs: 1, lr: 0.01 }]);
        let cosine = Schedule::Cosine(Cosine { final_lr: 0.0 });
        let check = |schedule: &Schedule, round, warmup, expect: f32| {
            let lr = schedule.lr(1.0, SchedulePosition { round, rounds: 100, rounds_per_epoch: 10, warmup });
            assert!((lr - expect).abs() < 1e-6, "{schedule:?} in round {round}: {lr}, not {expect}");
        };
        check(&Schedule::Constant, 99, 0, 1.0);
        check(&Schedule::Constant, 0, 4, 0.25);
        check(&Schedule::Constant, 3, 4, 1.0);
        check(&steps, 0, 0, 0.1);
        check(&steps, 19, 0, 0.1);
        check(&steps, 20, 0, 0.01);
        check(&steps, 99, 0, 0.01);
        check(&steps, 0, 10, 0.01);
        check(&cosine, 0, 0, 1.0);
        check(&cosine, 50, 0, 0.5);
        check(&cosine, 100, 0, 0.0);
        check(&cosine, 20, 20, 1.0);
        check(&cosine, 60, 20, 0.5);
        check(&Schedule::Cosine(Cosine { final_lr: 0.5 }), 100, 0, 0.5);
    }
}

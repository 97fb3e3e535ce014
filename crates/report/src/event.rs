use serde::{Deserialize, Serialize};

use crate::float;
use crate::summary::Summary;

/// An event and when it happened: one line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamped {
    /// Seconds since the run, or this resume of it, started. So it falls back to zero where a run was resumed.
    pub at_s: f64,
    #[serde(flatten)]
    pub event: Event,
}

/// What can happen in a run.
///
/// Accuracies and F1 are fractions of one; rounds and samples count from the beginning of the run, also after a
/// resume; a fractional `epoch` is the number of passes over the training data so far, so 1.5 is the middle of the
/// second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first event of a run, written again by each resume so that every part of the log can be read alone.
    Started {
        name: String,
        model: String,
        parameters: usize,
        data: String,
        train_samples: usize,
        test_samples: usize,
        workers: usize,
        /// Per worker.
        batch_size: usize,
        rounds_per_epoch: u64,
        /// Planned in all, those before a resume included.
        rounds: u64,
        /// Planned, unless the plan was given in rounds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epochs: Option<u64>,
        seed: u64,
    },
    /// Training goes on from a checkpoint.
    Resumed {
        round: u64,
        #[serde(deserialize_with = "float::number")]
        epoch: f64,
        /// The file it goes on from.
        checkpoint: String,
    },
    /// Some rounds are done. Loss and accuracy are those of the rounds since the last such event.
    Progress {
        round: u64,
        #[serde(deserialize_with = "float::number")]
        epoch: f64,
        #[serde(deserialize_with = "float::number")]
        loss: f64,
        #[serde(deserialize_with = "float::number")]
        accuracy: f64,
        #[serde(deserialize_with = "float::number")]
        lr: f64,
        /// So far in all.
        samples: u64,
        #[serde(deserialize_with = "float::number")]
        samples_per_s: f64,
    },
    /// Every training sample was seen once more.
    EpochEnded {
        /// Counted from 1.
        epoch: u64,
        round: u64,
        #[serde(deserialize_with = "float::number")]
        loss: f64,
        #[serde(deserialize_with = "float::number")]
        accuracy: f64,
        /// Of this epoch.
        samples: u64,
        /// Of this epoch, without evaluations.
        #[serde(deserialize_with = "float::number")]
        seconds: f64,
    },
    /// The parameters of `round` were measured on held-out data.
    Evaluated {
        round: u64,
        #[serde(deserialize_with = "float::number")]
        epoch: f64,
        #[serde(deserialize_with = "float::number")]
        loss: f64,
        #[serde(deserialize_with = "float::number")]
        accuracy: f64,
        #[serde(default, deserialize_with = "float::measured", skip_serializing_if = "Option::is_none")]
        macro_f1: Option<f64>,
        samples: u64,
        #[serde(deserialize_with = "float::number")]
        seconds: f64,
    },
    /// The parameters of `round` are in `file`.
    Checkpointed {
        round: u64,
        file: String,
        bytes: u64,
        #[serde(deserialize_with = "float::number")]
        seconds: f64,
    },
    /// An evaluation reached the accuracy at which the run may stop.
    TargetReached {
        round: u64,
        #[serde(deserialize_with = "float::number")]
        accuracy: f64,
        #[serde(deserialize_with = "float::number")]
        target: f64,
    },
    /// Something the user should know.
    Noted { message: String },
    /// Something the user may want to do something about.
    Warned { message: String },
    /// The user asked to stop.
    Interrupted { round: u64 },
    /// The last event of a run.
    Ended { summary: Summary },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn through_json(stamped: &Stamped) -> Stamped {
        serde_json::from_str(&serde_json::to_string(stamped).unwrap()).unwrap()
    }

    #[test]
    fn every_event_survives_json() {
        for event in sample::events() {
            let stamped = Stamped { at_s: 1.5, event };
            assert_eq!(through_json(&stamped), stamped);
        }
    }

    #[test]
    fn is_one_flat_object() {
        let check = |event, expect: &str| {
            assert_eq!(serde_json::to_string(&Stamped { at_s: 0.25, event }).unwrap(), expect);
        };
        check(Event::Interrupted { round: 7 }, r#"{"at_s":0.25,"event":"interrupted","round":7}"#);
        check(
            Event::Noted { message: "two\nlines".into() },
            r#"{"at_s":0.25,"event":"noted","message":"two\nlines"}"#,
        );
        check(
            Event::TargetReached { round: 7, accuracy: 0.5, target: f64::NAN },
            r#"{"at_s":0.25,"event":"target_reached","round":7,"accuracy":0.5,"target":null}"#,
        );
    }

    #[test]
    fn a_diverged_loss_survives_json() {
        for loss in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let evaluated = Event::Evaluated {
                round: 3,
                epoch: 1.5,
                loss,
                accuracy: 0.1,
                macro_f1: Some(loss),
                samples: 10,
                seconds: 0.5,
            };
            let back = through_json(&Stamped { at_s: 2.0, event: evaluated }).event;
            let Event::Evaluated { round: 3, loss, macro_f1: Some(macro_f1), .. } = back else {
                panic!("{back:?}")
            };
            assert!(loss.is_nan() && macro_f1.is_nan());
        }
    }
}

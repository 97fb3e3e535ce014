use serde::{Deserialize, Serialize};

use crate::float;
use crate::machine::MachineSample;
use crate::phases::Phases;
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
        /// Of a run that is judged by validation: these are what its evaluations measure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        validation_samples: Option<usize>,
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
    /// No evaluation was better than an earlier one for as long as the run was to be patient.
    StoppedEarly {
        round: u64,
        best_round: u64,
        /// Since then.
        evaluations: u64,
    },
    /// The best parameters, of `round`, were measured on the test half, which nothing else was measured on.
    Tested {
        round: u64,
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
    /// The head waits for nodes. Written when what is missing changes.
    Waiting {
        joined: usize,
        wanted: usize,
        /// In words: `2 workers, 1 evaluator`.
        missing: String,
        /// Seconds left until the run is given up.
        #[serde(deserialize_with = "float::number")]
        deadline_s: f64,
    },
    /// A node takes part.
    NodeJoined {
        node: u64,
        name: String,
        /// `worker 3`, `relay 0`, `evaluator`, `ring member 2`.
        role: String,
        address: String,
        cores: u32,
        threads: u32,
    },
    /// A node that was lost takes part again, under the name it had.
    NodeBack {
        node: u64,
        name: String,
        round: u64,
        /// Rounds that were done without it.
        missed: u64,
    },
    /// A node no longer takes part, and what follows from it.
    NodeLost {
        node: u64,
        name: String,
        role: String,
        /// In which it was lost.
        round: u64,
        /// `silent for 5.0 s`, `the connection closed`.
        reason: String,
        /// `round 118 goes on without it`.
        consequence: String,
    },
    /// A node that is slow, or whose gradient came too late and was dropped.
    NodeLate { node: u64, name: String, round: u64, reason: String },
    /// Asynchronous updates in the order in which they were applied.
    Updates {
        /// The version that the first of them made.
        first: u64,
        /// For update `first` + i the nodes whose gradients it is made of.
        by: Vec<Vec<u64>>,
        /// For update `first` + i how stale they were.
        staleness: Vec<u64>,
    },
    /// What every node did since the last such event.
    Nodes { round: u64, nodes: Vec<NodeLine> },
    /// Where time went, and what machines did, since the last such event.
    Sampled {
        round: u64,
        #[serde(deserialize_with = "float::number")]
        seconds: f64,
        lines: Vec<SampleLine>,
    },
    /// How the members of a group exchange from now on, in a run that left that open.
    Chosen {
        round: u64,
        /// Values travel rounded to int8; otherwise as the run file says, or as they are.
        int8: bool,
        /// Batches that a member trains on by itself in a round,
        local_steps: u64,
        /// after this one.
        after: u64,
        /// Planned in all, now.
        rounds: u64,
        /// In words: `the wire takes 641 ms of 680 ms: 7.9 MB at 98 Mbit/s; int8 and 8 local steps: 20 ms`.
        reason: String,
    },
    /// How large a part of every round each worker computes from now on.
    Shares {
        /// After which it holds.
        round: u64,
        shares: Vec<ShareLine>,
        /// In words: `pi3 takes 18 % instead of 25 %: its rounds took 310 ms, the others' 205`.
        reason: String,
    },
    /// Something the user should know.
    Noted { message: String },
    /// Something the user may want to do something about.
    Warned { message: String },
    /// The user asked to stop.
    Interrupted { round: u64 },
    /// The last event of a run.
    Ended { summary: Box<Summary> },
}

/// What a node did since the last [`Event::Nodes`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeLine {
    pub node: u64,
    pub name: String,
    pub role: String,
    #[serde(deserialize_with = "float::number")]
    pub samples_per_s: f64,
    /// The share of the time it waited for others, 0 to 1.
    #[serde(default, deserialize_with = "float::measured", skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// The mean, of one that works asynchronously.
    #[serde(default, deserialize_with = "float::measured", skip_serializing_if = "Option::is_none")]
    pub staleness: Option<f64>,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Gradients of it that came too late and were dropped.
    pub late: u64,
}

/// A worker of an [`Event::Shares`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareLine {
    pub node: u64,
    pub name: String,
    /// Of a round of all workers.
    pub samples: u32,
}

/// A worker or a machine of an [`Event::Sampled`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleLine {
    /// Of a node, its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u64>,
    /// A node's, `worker 3` of a process, or `run`: what all wait for while it is done.
    pub name: String,
    /// Seconds of this time.
    pub phases: Phases,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineSample>,
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

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::energy::{EnergyLabel, HostEnergy};
use crate::float;

/// A run in a few numbers: the last event of the log, and `summary.json`.
///
/// Accuracies are fractions of one. The JSON always has every key, so that whoever reads many summaries need not ask
/// which are there: a number that was not measured is `None` and `null`, and so is one that diverged, for which JSON
/// has no word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub name: String,
    pub model: String,
    pub data: String,
    pub workers: usize,
    pub exit: Exit,
    /// Updates of the parameters, those before a resume included.
    pub rounds: u64,
    /// Passes over the training data, for instance 2.5.
    #[serde(deserialize_with = "float::number")]
    pub epochs: f64,
    /// Training samples seen.
    pub samples: u64,
    /// Wall-clock time of this process's part of the run.
    #[serde(deserialize_with = "float::number")]
    pub seconds: f64,
    #[serde(deserialize_with = "float::number")]
    pub samples_per_s: f64,
    /// The mean loss over the last epoch, or over what there was of it.
    #[serde(deserialize_with = "float::number")]
    pub train_loss: f64,
    pub eval_loss: Option<f64>,
    pub accuracy: Option<f64>,
    pub best_accuracy: Option<f64>,
    pub macro_f1: Option<f64>,
    /// Of a number that is learned: the root of the mean squared error, the mean absolute one, and which part of the
    /// variance is explained.
    pub rmse: Option<f64>,
    pub mae: Option<f64>,
    pub r2: Option<f64>,
    /// How often the right class was among the five most likely; of more than five classes.
    pub top5_accuracy: Option<f64>,
    /// Of the best evaluation of a run that is judged by validation. What was measured is then the test half.
    pub validation_loss: Option<f64>,
    pub validation_accuracy: Option<f64>,
    /// Which the parameters are of that were tested.
    pub best_round: Option<u64>,
    /// How each class was recognised.
    pub classes: Option<Vec<ClassLine>>,
    /// Answers by class: a row for each right class, in it a number for each given one.
    pub confusion: Option<Vec<Vec<u64>>>,
    pub target_reached_round: Option<u64>,
    pub peak_rss_mb: Option<f64>,
    /// From the start of the program, loading included, to the end of its first round.
    pub first_step_s: Option<f64>,
    /// How many nodes took part.
    pub nodes: Option<usize>,
    /// By all nodes together, to one another.
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    /// Gradients that came too late and were dropped.
    pub late: Option<u64>,
    /// The share of the time that the head was at work while its nodes waited.
    pub head_share: Option<f64>,
    /// The energy of the machine, or of all hosts together, during this process's part of the run, in watt hours.
    pub wh: Option<f64>,
    /// Of that, while workers waited for others or for the wire.
    pub waiting_wh: Option<f64>,
    /// Of a run on several machines: of each.
    pub hosts_wh: Option<BTreeMap<String, HostEnergy>>,
    pub wh_per_1000_samples: Option<f64>,
    /// Where that figure comes from.
    pub energy: Option<EnergyLabel>,
    /// Where the time went, in words: `62 % computing, 31 % waiting for pi3, 7 % wire`.
    pub time: Option<String>,
}

/// How a class was recognised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassLine {
    pub name: String,
    /// How many answers should have been this class.
    pub count: u64,
    /// Which part of the answers that were this class were right.
    pub precision: Option<f64>,
    /// Which part of this class was answered so.
    pub recall: Option<f64>,
    pub f1: Option<f64>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// All planned rounds were done.
    Done,
    /// The target accuracy was reached before that.
    TargetReached,
    /// No evaluation was better than an earlier one for long enough.
    StoppedEarly,
    /// The user stopped it; a checkpoint is there to go on from.
    Interrupted,
    /// It could not go on.
    Failed,
}

impl Exit {
    /// As people read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::TargetReached => "target reached",
            Self::StoppedEarly => "stopped early",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn through_json(summary: &Summary) -> Summary {
        serde_json::from_str(&serde_json::to_string(summary).unwrap()).unwrap()
    }

    #[test]
    fn survives_json() {
        for exit in [Exit::Done, Exit::TargetReached, Exit::StoppedEarly, Exit::Interrupted, Exit::Failed] {
            let summary = Summary { exit, ..sample::summary() };
            assert_eq!(through_json(&summary), summary);
        }
        assert_eq!(serde_json::to_string(&Exit::TargetReached).unwrap(), "\"target_reached\"");
    }

    #[test]
    fn every_key_is_there_also_without_a_number() {
        let eval_loss = Some(f64::INFINITY);
        let summary = Summary { train_loss: f64::NAN, eval_loss, ..sample::bare_summary() };
        let json = serde_json::to_value(&summary).unwrap();
        let measured = ["train_loss", "eval_loss", "accuracy", "best_accuracy", "macro_f1"];
        let counted = ["target_reached_round", "nodes", "sent_bytes", "received_bytes", "late", "head_share"];
        let energy = ["wh", "waiting_wh", "hosts_wh", "wh_per_1000_samples", "energy", "time"];
        let validated = ["validation_loss", "validation_accuracy", "best_round"];
        let told_apart = ["top5_accuracy", "classes", "confusion", "rmse", "mae", "r2"];
        let groups = measured.into_iter().chain(counted).chain(energy);
        for key in groups.chain(validated).chain(told_apart) {
            assert_eq!(json.get(key), Some(&serde_json::Value::Null), "{key}");
        }
        let keys = |summary: &Summary| -> Vec<String> {
            serde_json::to_value(summary).unwrap().as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(&summary), keys(&sample::summary()));
        let back = through_json(&summary);
        assert!(back.train_loss.is_nan());
        assert_eq!((back.eval_loss, back.accuracy, back.samples), (None, None, summary.samples));
    }

    #[test]
    fn a_summary_of_fewer_numbers_is_read() {
        let mut json = serde_json::to_value(sample::summary()).unwrap();
        let newer =
            ["first_step_s", "macro_f1", "nodes", "sent_bytes", "received_bytes", "late", "head_share"];
        let newest =
            ["wh", "wh_per_1000_samples", "energy", "time", "top5_accuracy", "validation_loss", "hosts_wh"];
        let latest =
            ["validation_accuracy", "best_round", "classes", "confusion", "rmse", "mae", "r2", "waiting_wh"];
        let is_old = |key: &str| !newer.contains(&key) && !newest.contains(&key) && !latest.contains(&key);
        json.as_object_mut().unwrap().retain(|key, _| is_old(key));
        let back: Summary = serde_json::from_value(json).unwrap();
        let Summary { eval_loss, accuracy, best_accuracy, peak_rss_mb, .. } = sample::summary();
        let alone = Summary { eval_loss, accuracy, best_accuracy, peak_rss_mb, ..sample::bare_summary() };
        assert_eq!(back, alone);
    }
}

use serde::{Deserialize, Serialize};

use crate::float;

/// A run in a few numbers: the last event of the log, and `summary.json`.
///
/// Accuracies are fractions of one. A number that was not measured is `None` and absent from the JSON; one that
/// diverged is NaN and `null` there.
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
    #[serde(default, deserialize_with = "float::measured", skip_serializing_if = "Option::is_none")]
    pub eval_loss: Option<f64>,
    #[serde(default, deserialize_with = "float::measured", skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    #[serde(default, deserialize_with = "float::measured", skip_serializing_if = "Option::is_none")]
    pub best_accuracy: Option<f64>,
    #[serde(default, deserialize_with = "float::measured", skip_serializing_if = "Option::is_none")]
    pub macro_f1: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_reached_round: Option<u64>,
    #[serde(default, deserialize_with = "float::measured", skip_serializing_if = "Option::is_none")]
    pub peak_rss_mb: Option<f64>,
    /// From the start of the process to the end of its first round.
    #[serde(default, deserialize_with = "float::measured", skip_serializing_if = "Option::is_none")]
    pub first_step_s: Option<f64>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// All planned rounds were done.
    Done,
    /// The target accuracy was reached before that.
    TargetReached,
    /// The user stopped it; a checkpoint is there to go on from.
    Interrupted,
    /// It could not go on.
    Failed,
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
        for exit in [Exit::Done, Exit::TargetReached, Exit::Interrupted, Exit::Failed] {
            let summary = Summary { exit, ..sample::summary() };
            assert_eq!(through_json(&summary), summary);
        }
        assert_eq!(serde_json::to_string(&Exit::TargetReached).unwrap(), "\"target_reached\"");
    }

    #[test]
    fn tells_diverged_from_not_measured() {
        let summary = Summary {
            train_loss: f64::NAN,
            eval_loss: Some(f64::INFINITY),
            accuracy: None,
            macro_f1: None,
            ..sample::summary()
        };
        let back = through_json(&summary);
        assert!(back.train_loss.is_nan());
        assert!(back.eval_loss.is_some_and(f64::is_nan));
        assert_eq!(back.accuracy, None);
        assert_eq!(back.macro_f1, None);
        assert_eq!(back.samples, summary.samples);
    }
}

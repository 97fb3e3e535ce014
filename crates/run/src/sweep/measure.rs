use std::fmt;

use bonfire_report::{Summary, number};
use serde::{Deserialize, Serialize};

/// A figure of a run, by which runs are compared: a key of its summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    ValidationLoss,
    ValidationAccuracy,
    EvalLoss,
    Accuracy,
    TrainLoss,
    Seconds,
    SamplesPerS,
}

impl Measure {
    pub const ALL: [Self; 7] = [
        Self::ValidationLoss,
        Self::ValidationAccuracy,
        Self::EvalLoss,
        Self::Accuracy,
        Self::TrainLoss,
        Self::Seconds,
        Self::SamplesPerS,
    ];

    /// What the best is chosen by if nobody says.
    pub(super) fn usual(is_validated: bool) -> Self {
        if is_validated { Self::ValidationLoss } else { Self::EvalLoss }
    }

    /// As a key.
    pub fn name(self) -> &'static str {
        match self {
            Self::ValidationLoss => "validation_loss",
            Self::ValidationAccuracy => "validation_accuracy",
            Self::EvalLoss => "eval_loss",
            Self::Accuracy => "accuracy",
            Self::TrainLoss => "train_loss",
            Self::Seconds => "seconds",
            Self::SamplesPerS => "samples_per_s",
        }
    }

    /// As the head of a column.
    pub fn title(self) -> &'static str {
        match self {
            Self::ValidationLoss => "valid loss",
            Self::ValidationAccuracy => "valid acc",
            Self::EvalLoss => "test loss",
            Self::Accuracy => "test acc",
            Self::TrainLoss => "train loss",
            Self::Seconds => "seconds",
            Self::SamplesPerS => "samples/s",
        }
    }

    /// What it is of a run, if it was measured.
    pub fn of(self, summary: &Summary) -> Option<f64> {
        let value = match self {
            Self::ValidationLoss => summary.validation_loss,
            Self::ValidationAccuracy => summary.validation_accuracy,
            Self::EvalLoss => summary.eval_loss,
            Self::Accuracy => summary.accuracy,
            Self::TrainLoss => Some(summary.train_loss),
            Self::Seconds => Some(summary.seconds),
            Self::SamplesPerS => Some(summary.samples_per_s),
        };
        value.filter(|value| value.is_finite())
    }

    pub(super) fn is_of_validation(self) -> bool {
        matches!(self, Self::ValidationLoss | Self::ValidationAccuracy)
    }

    pub(super) fn is_of_test(self) -> bool {
        matches!(self, Self::EvalLoss | Self::Accuracy)
    }

    /// Whether more is better.
    pub fn is_larger_better(self) -> bool {
        matches!(self, Self::ValidationAccuracy | Self::Accuracy | Self::SamplesPerS)
    }

    /// Smaller is better of what this returns.
    pub fn cost(self, value: f64) -> f64 {
        if self.is_larger_better() { -value } else { value }
    }

    /// The cost of an evaluation on the way, by its loss and accuracy.
    pub fn cost_on_the_way(self, loss: f64, accuracy: f64) -> f64 {
        match self {
            Self::ValidationAccuracy | Self::Accuracy => -accuracy,
            _ => loss,
        }
    }

    /// As people read it.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::ValidationAccuracy | Self::Accuracy => number::percent(value),
            Self::SamplesPerS => number::rate(value),
            Self::Seconds => format!("{value:.1}"),
            Self::ValidationLoss | Self::EvalLoss | Self::TrainLoss => number::decimal(value),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

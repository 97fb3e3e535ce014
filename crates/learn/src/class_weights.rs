//! The weights of classes in a loss.

use crate::error::{Error, Result};

/// A weight for every class: the loss of an answer counts as much as the class that would be right, and a mean is over
/// all weights, as PyTorch's `CrossEntropyLoss(weight=…)` takes it.
///
/// Only the ratios of the weights matter then, so the largest is made 1: a gradient weighs no more than it has answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassWeights(Vec<f32>);

impl ClassWeights {
    /// One number a class. A class of weight 0 is not learnt, but still counted among the right and wrong answers.
    pub fn new(weights: &[f32]) -> Result<Self> {
        let rule = "must be one number a class, none of them negative and not all of them 0";
        let largest = weights.iter().copied().fold(0.0, f32::max);
        if largest == 0.0 || weights.iter().any(|weight| !weight.is_finite() || *weight < 0.0) {
            return Err(Error::new(format!("{rule}; they are {weights:?}")));
        }
        // In double precision, so that the smallest numbers are not lost.
        let ratio = |weight: &f32| (f64::from(*weight) / f64::from(largest)) as f32;
        Ok(Self(weights.iter().map(ratio).collect()))
    }

    /// Whether they are as many as a model has classes.
    pub(crate) fn check(&self, classes: usize) -> Result<()> {
        if self.0.len() == classes {
            return Ok(());
        }
        let numbers = if self.0.len() == 1 { "number" } else { "numbers" };
        let message = format!("has {} {numbers}, but the model tells {classes} classes apart", self.0.len());
        Err(Error::new(format!("{message}: give one number a class")))
    }

    /// The weight of a class; 1 if no weights were given.
    #[inline(always)]
    pub(crate) fn of(&self, class: usize) -> f32 {
        if self.0.is_empty() { 1.0 } else { self.0[class] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ratios_count() {
        let check = |weights: &[f32], expect: &[f32]| {
            let weights = ClassWeights::new(weights).expect("weights");
            let found: Vec<f32> = (0..expect.len()).map(|class| weights.of(class)).collect();
            assert_eq!(found, expect);
        };
        check(&[1.0, 1.0], &[1.0, 1.0]);
        check(&[1.0, 4.0, 0.0], &[0.25, 1.0, 0.0]);
        check(&[1e38, 2e38], &[0.5, 1.0]);
        check(&[1e-45, 0.0], &[1.0, 0.0]);
        assert_eq!(ClassWeights::default().of(7), 1.0);
    }

    #[test]
    fn wrong_weights_say_what_would_be_right() {
        let check = |weights: &[f32], expect: &str| {
            let error =
                ClassWeights::new(weights).and_then(|weights| weights.check(3)).unwrap_err().to_string();
            assert_eq!(error, expect);
        };
        let rule = "must be one number a class, none of them negative and not all of them 0; they are";
        check(&[], &format!("{rule} []"));
        check(&[0.0, 0.0, 0.0], &format!("{rule} [0.0, 0.0, 0.0]"));
        check(&[1.0, -1.0, 1.0], &format!("{rule} [1.0, -1.0, 1.0]"));
        check(&[1.0, f32::NAN, 1.0], &format!("{rule} [1.0, NaN, 1.0]"));
        check(&[1.0, f32::INFINITY, 1.0], &format!("{rule} [1.0, inf, 1.0]"));
        check(&[1.0], "has 1 number, but the model tells 3 classes apart: give one number a class");
        check(&[1.0; 4], "has 4 numbers, but the model tells 3 classes apart: give one number a class");
    }
}

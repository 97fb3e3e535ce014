//! The part of the data that a run is judged by while it trains, so that the test half is looked at once.

use std::fmt;
use std::sync::Arc;

use bonfire_learn::random::Random;
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::{Dataset, Images, Samples, Source};

/// Which samples these are: the value of the key `validation` of a run file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Validation {
    /// This part of the training half, drawn by the seed of the run.
    Part(f64),
    /// The part that the data have of their own, called `dev`.
    Dev,
}

/// The word for [`Validation::Dev`].
const DEV: &str = "dev";

impl Dataset {
    /// Lets validation take the place of the test half. Returns the test half, for the end of the run.
    pub fn hold_out(&mut self, validation: Validation, seed: u64) -> Result<Arc<Samples>> {
        let part = match (validation, self.dev.take()) {
            (Validation::Dev, Some(dev)) => dev,
            (Validation::Dev, None) => {
                let message = format!(
                    "{} has no part of its own called dev; 0.1 takes a tenth of the training half",
                    self.name
                );
                return Err(Error::mismatch(message));
            }
            (Validation::Part(part), _) => {
                let (kept, held) = draw(self.train.len(), part, seed)?;
                let held = self.train.choose(&held).unaugmented();
                self.train = Arc::new(self.train.choose(&kept));
                Arc::new(held)
            }
        };
        Ok(std::mem::replace(&mut self.test, part))
    }
}

impl Source {
    /// The training half of this source, to validate on, in the form of others.
    pub(crate) fn validation_in_form(&self, form: &Dataset) -> Result<Arc<Samples>> {
        let train = self.load_in_form(form)?.train;
        Ok(Arc::new(Arc::unwrap_or_clone(train).unaugmented()))
    }
}

/// Which of so many samples are trained on, and which are held back, each in their order.
fn draw(samples: usize, part: f64, seed: u64) -> Result<(Vec<u32>, Vec<u32>)> {
    let count = (samples as f64 * part).round() as usize;
    if count == 0 || count >= samples {
        let what = if count == 0 { "none to validate by" } else { "none to train on" };
        return Err(Error::mismatch(format!("{part} of {samples} training samples leaves {what}")));
    }
    let mut numbers: Vec<u32> = (0..samples as u32).collect();
    Random::at(seed, &[0x7A11]).shuffle(&mut numbers);
    let mut kept = numbers.split_off(count);
    kept.sort_unstable();
    numbers.sort_unstable();
    Ok((kept, numbers))
}

impl Samples {
    /// Those of the given numbers, which grow.
    fn choose(&self, numbers: &[u32]) -> Self {
        match self {
            Self::Images(images) => Self::Images(images.choose(numbers)),
            Self::Sentences(_) | Self::Texts(_) => {
                let numbers: Vec<usize> = numbers.iter().map(|&number| number as usize).collect();
                self.some(&numbers)
            }
        }
    }

    /// The same, never changed by chance.
    fn unaugmented(self) -> Self {
        match self {
            Self::Images(images) => Self::Images(Images { augment: None, ..images }),
            Self::Sentences(_) | Self::Texts(_) => self,
        }
    }
}

impl Serialize for Validation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Part(part) => serializer.serialize_f64(*part),
            Self::Dev => serializer.serialize_str(DEV),
        }
    }
}

impl<'de> Deserialize<'de> for Validation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartOrName)
    }
}

struct PartOrName;

impl Visitor<'_> for PartOrName {
    type Value = Validation;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of the training half such as 0.1, or dev")
    }

    fn visit_f64<E>(self, part: f64) -> Result<Validation, E> {
        Ok(Validation::Part(part))
    }

    fn visit_u64<E>(self, part: u64) -> Result<Validation, E> {
        Ok(Validation::Part(part as f64))
    }

    fn visit_i64<E>(self, part: i64) -> Result<Validation, E> {
        Ok(Validation::Part(part as f64))
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Validation, E> {
        match name {
            DEV => Ok(Validation::Dev),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(name), &self)),
        }
    }
}

#[cfg(test)]
mod tests;

//! To which part a text belongs, by the text alone: not by order, files or machines.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A part of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Train,
    Validation,
    Test,
}

impl Part {
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// How texts are split.
#[derive(Clone, Debug)]
pub struct Split {
    /// The hash after the seed and a zero byte, which every text goes on from.
    begun: Sha256,
    test: f64,
    /// Of the test and validation parts together.
    held_back: f64,
}

impl Split {
    pub fn new(seed: u64, test: f64, validation: f64) -> Result<Self> {
        for (name, share) in [("test", test), ("validation", validation)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::mismatch(format!("{name} is {share}, expected a share from 0 to 1")));
            }
        }
        let held_back = test + validation;
        if held_back >= 1.0 {
            let message =
                format!("test and validation are {held_back} of all, which leaves nothing to train on");
            return Err(Error::mismatch(message));
        }
        let mut begun = Sha256::new();
        begun.update(seed.to_string().as_bytes());
        begun.update([0]);
        Ok(Self { begun, test, held_back })
    }

    /// The part of a cleaned text.
    pub fn part(&self, text: &[u8]) -> Part {
        let mut hash = self.begun.clone();
        hash.update(text);
        let digest: [u8; 32] = hash.finalize().into();
        let first = digest.iter().take(8).fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
        // A power of two divides without rounding.
        let share = first as f64 / 2f64.powi(64);
        if share < self.test {
            Part::Test
        } else if share < self.held_back {
            Part::Validation
        } else {
            Part::Train
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares that Python computes: `int.from_bytes(sha256(b"1234\0" + text).digest()[:8], "big") / 2**64`.
    #[test]
    fn the_part_is_that_of_the_hash() {
        let check = |text: &str, share: f64| {
            let part = |test, validation| Split::new(1234, test, validation).unwrap().part(text.as_bytes());
            assert_eq!(part(share + 1e-9, 0.0), Part::Test, "{text}");
            assert_eq!(part(share - 1e-9, 1e-8), Part::Validation, "{text}");
            assert_eq!(part(share - 1e-9, 0.0), Part::Train, "{text}");
        };
        check("good", 0.1070805087063042);
        check("great little thing", 0.8636396151385868);
    }

    #[test]
    fn a_tenth_is_a_tenth() {
        let split = Split::new(7, 0.1, 0.1).unwrap();
        let count = |part| (0..5000).filter(|i| split.part(format!("text {i}").as_bytes()) == part).count();
        assert!((450..550).contains(&count(Part::Test)), "{}", count(Part::Test));
        assert!((450..550).contains(&count(Part::Validation)));
        let none = Split::new(7, 0.0, 0.0).unwrap();
        assert!((0..100).all(|i| none.part(format!("text {i}").as_bytes()) == Part::Train));
    }

    #[test]
    fn shares_that_leave_nothing_are_refused() {
        let check = |test, validation, expect: &str| {
            let error = Split::new(1, test, validation).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(1.5, 0.1, "test is 1.5, expected a share from 0 to 1");
        check(0.1, -0.1, "validation is -0.1");
        check(f64::NAN, 0.1, "test is NaN");
        check(0.5, 0.5, "leaves nothing to train on");
    }
}

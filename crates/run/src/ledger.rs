//! What was counted of each epoch. Where workers are apart, the next epoch begins before the last one ends.

use std::collections::BTreeMap;

use bonfire_learn::tally::{Tally, mean_loss};
use serde::{Deserialize, Serialize};

/// The sums of the epochs that have begun and not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    epochs: BTreeMap<u64, Sums>,
}

/// The sums of one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    pub loss: f64,
    pub weight: f64,
    pub answers: u64,
    pub correct: u64,
    pub samples: u64,
}

impl Ledger {
    /// Counts an update whose samples are of these epochs. What is known of the update as a whole is shared out by
    /// them.
    pub fn count(&mut self, tally: &Tally, samples: &[(u64, u64)]) {
        let all: u64 = samples.iter().map(|(_, samples)| samples).sum();
        let mut before = 0;
        for &(epoch, samples) in samples {
            let after = before + samples;
            // So that the parts of a whole number are whole, and together all of it.
            let part = |count: u64| count * after / all.max(1) - count * before / all.max(1);
            let sums = self.epochs.entry(epoch).or_default();
            let share = samples as f64 / all.max(1) as f64;
            sums.loss += tally.loss * share;
            sums.weight += tally.weight * share;
            sums.answers += part(tally.answers);
            sums.correct += part(tally.correct);
            sums.samples += samples;
            before = after;
        }
    }

    /// Ends an epoch.
    pub fn end(&mut self, epoch: u64) -> Sums {
        self.epochs.remove(&epoch).unwrap_or_default()
    }

    /// The mean loss of what has not ended.
    pub fn mean_loss(&self) -> f64 {
        let mut all = Sums::default();
        for sums in self.epochs.values() {
            all.loss += sums.loss;
            all.weight += sums.weight;
            all.answers += sums.answers;
        }
        all.mean_loss()
    }
}

impl Sums {
    pub fn mean_loss(&self) -> f64 {
        mean_loss(self.loss, self.weight, self.answers)
    }

    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.answers as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_of_two_epochs_is_shared_out() {
        let mut ledger = Ledger::default();
        let mut tally = Tally::default();
        (tally.loss, tally.weight, tally.answers, tally.correct) = (10.0, 3.5, 7, 3);
        ledger.count(&tally, &[(0, 4)]);
        ledger.count(&tally, &[(0, 3), (1, 1)]);
        let (first, second) = (ledger.end(0), ledger.end(1));
        assert_eq!((first.samples, second.samples), (7, 1));
        assert_eq!((first.answers + second.answers, first.correct + second.correct), (14, 6));
        assert_eq!((first.loss, second.loss), (17.5, 2.5));
        assert_eq!((first.weight, second.weight), (6.125, 0.875));
        assert_eq!(ledger, Ledger::default());
    }
}

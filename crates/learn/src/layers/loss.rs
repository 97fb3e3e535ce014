//! Losses: the end of the way forward and the start of the way back.

use crate::kernels::loss;
use crate::tape::{Tape, Var};

impl Tape<'_> {
    /// Softmax and cross-entropy of a row of scores for every target of the batch.
    pub fn cross_entropy(&mut self, scores: Var) {
        let (_, classes) = self.rows(scores);
        self.lose(scores, |tape, slope| {
            loss::cross_entropy(slope, &tape.batch.targets, classes, tape.tally())
        });
    }

    /// Binary cross-entropy of one score for every target of the batch. Targets from `positive_from` on are class 1, whose
    /// losses are scaled by `positive_weight`.
    pub fn binary_cross_entropy(&mut self, scores: Var, positive_from: u32, positive_weight: f32) {
        self.lose(scores, |tape, slope| {
            loss::binary_cross_entropy(
                slope,
                &tape.batch.targets,
                positive_from,
                positive_weight,
                tape.tally(),
            );
        });
    }

    /// Lets `kernel` turn a copy of the scores into slopes.
    fn lose(&mut self, scores: Var, kernel: impl FnOnce(&mut Self, &mut [f32])) {
        let len = self.value(scores).len();
        let mut slope = self.pool().take(len);
        slope.copy_from_slice(self.value(scores));
        let before = self.tally().answers;
        kernel(self, &mut slope);
        let answers = self.tally().answers - before;
        if self.is_training() {
            self.gradient().weight += answers as f64;
            self.add_slope(scores, slope);
        } else {
            self.pool().give(slope);
        }
    }
}

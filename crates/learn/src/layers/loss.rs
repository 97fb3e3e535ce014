//! Losses: the end of the forward pass and the start of the backward pass.

use crate::kernels::loss;
use crate::tape::{Tape, Var};

impl Tape<'_> {
    /// Softmax and cross-entropy of a row of scores for every target of the batch. The classes weigh what the model was
    /// told.
    pub fn cross_entropy(&mut self, scores: Var) {
        let (_, classes) = self.rows(&scores);
        self.compute_loss(scores, |tape, scores| {
            let weights = tape.class_weights();
            loss::cross_entropy(scores, &tape.batch.targets, classes, weights, tape.tally());
        });
    }

    /// Binary cross-entropy of one score for every target of the batch. Targets from `positive_from` on are class 1,
    /// whose losses are scaled by `positive_weight`.
    pub fn binary_cross_entropy(&mut self, scores: Var, positive_from: u32, positive_weight: f32) {
        self.compute_loss(scores, |tape, scores| {
            let weights = tape.class_weights();
            loss::binary_cross_entropy(
                scores,
                &tape.batch.targets,
                positive_from,
                positive_weight,
                weights,
                tape.tally(),
            );
        });
    }

    /// The squared error of one score for every target of the batch, which are numbers.
    pub fn squared_error(&mut self, scores: Var) {
        self.compute_loss(scores, |tape, scores| {
            loss::squared_error(scores, &tape.batch.targets, tape.tally());
        });
    }

    /// Lets `kernel` turn a copy of the scores into their gradient.
    fn compute_loss(&mut self, scores: Var, kernel: impl FnOnce(&mut Self, &mut [f32])) {
        self.tell_scores(&scores);
        let len = self.value(&scores).len();
        let mut gradient = self.pool().take(len);
        gradient.copy_from_slice(self.value(&scores));
        let before = self.tally().weight;
        kernel(self, &mut gradient);
        let weight = self.tally().weight - before;
        if self.is_training() {
            self.gradient().weight += weight;
            self.add_upstream(&scores, gradient);
        } else {
            self.pool().give(gradient);
        }
    }
}

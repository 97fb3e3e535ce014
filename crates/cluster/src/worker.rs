//! One worker: its share of every round, and the gradient of that share.

use bonfire_learn::data::{Batch, Samples};
use bonfire_learn::random::mix;
use bonfire_learn::{Gradient, Model, Tally};

use crate::loader::Shares;

/// A worker with its own copy of the model's memory, so that workers share nothing while they compute.
pub struct Worker {
    number: usize,
    model: Box<dyn Model>,
    share: Vec<u32>,
    batch: Batch,
    /// The answers of the last round.
    tally: Tally,
}

impl Worker {
    pub fn new(number: usize, model: Box<dyn Model>) -> Self {
        Self { number, model, share: Vec::new(), batch: Batch::default(), tally: Tally::default() }
    }

    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// What was right and wrong in the last round.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Loads this worker's share of a round.
    pub fn load(&mut self, samples: &Samples, shares: &Shares) {
        shares.fill(samples, self.number, &mut self.share, &mut self.batch);
    }

    /// Takes a batch that was made elsewhere, and leaves the one before it in its place.
    pub fn exchange(&mut self, batch: &mut Batch) {
        std::mem::swap(&mut self.batch, batch);
    }

    /// Computes the gradient of the loaded share. `seed` is the round's; each worker makes its own of it.
    pub fn compute(&mut self, parameters: &[f32], seed: u64, gradient: &mut Gradient) {
        self.tally = Tally::default();
        let seed = mix(seed ^ mix(self.number as u64 + 1));
        self.model.gradient(parameters, &self.batch, seed, gradient, &mut self.tally);
    }

    /// Measures this worker's part of the samples: every `workers`-th batch.
    pub fn evaluate(
        &mut self,
        parameters: &[f32],
        samples: &Samples,
        order: &[u32],
        workers: usize,
    ) -> Tally {
        let mut tally = Tally::with_confusion(self.model.classes());
        for numbers in order.chunks(EVAL_BATCH).skip(self.number).step_by(workers) {
            self.batch.fill(samples, numbers);
            self.model.evaluate(parameters, &self.batch, &mut tally);
        }
        tally
    }
}

/// How many samples are measured at a time.
const EVAL_BATCH: usize = 64;

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker {} with {} parameters", self.number, self.model.layout().len())
    }
}

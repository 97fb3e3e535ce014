//! One worker: its share of a round, and the gradient of that share.

use bonfire_learn::data::{Batch, Samples};
use bonfire_learn::random::mix;
use bonfire_learn::sum::sum;
use bonfire_learn::{Gradient, Layout, Model, Tally};
use rayon::prelude::*;

use crate::loader::Shares;

/// A worker with one hand a thread. Hands share nothing while they compute; their gradients are added in their order, so
/// the number of hands is part of what a run computes, and who runs them is not.
#[derive(Debug)]
pub struct Worker {
    hands: Vec<Hand>,
    /// The answers of the last round.
    tally: Tally,
}

/// A thread's part: a model's memory, and a batch.
pub struct Hand {
    model: Box<dyn Model>,
    share: Vec<u32>,
    batch: Batch,
    /// None where a worker has one hand only, which computes straight into the worker's.
    gradient: Option<Gradient>,
    tally: Tally,
}

/// What chance depends on: the round's seed, and whose share it is.
#[derive(Clone, Copy, Debug)]
pub struct Luck {
    pub seed: u64,
    pub slot: usize,
}

impl Worker {
    /// A worker with a hand for each of some equal models.
    pub fn new(models: Vec<Box<dyn Model>>) -> Self {
        assert!(!models.is_empty(), "a worker has at least one hand");
        let single = models.len() == 1;
        let hand = |model: Box<dyn Model>| {
            let gradient = (!single).then(|| Gradient::new(model.layout()));
            Hand { model, share: Vec::new(), batch: Batch::default(), gradient, tally: Tally::default() }
        };
        Self { hands: models.into_iter().map(hand).collect(), tally: Tally::default() }
    }

    pub fn layout(&self) -> &Layout {
        self.hands[0].model.layout()
    }

    pub fn hands(&mut self) -> &mut [Hand] {
        &mut self.hands
    }

    /// What was right and wrong in the last round.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How many samples the loaded share has.
    pub fn samples(&self) -> usize {
        self.hands.iter().map(|hand| hand.batch.samples).sum()
    }

    /// Loads the share of a slot of the round that `shares` is at.
    pub fn load(&mut self, samples: &Samples, shares: &Shares, slot: usize) {
        self.hands.par_iter_mut().with_max_len(1).enumerate().for_each(|(i, hand)| {
            shares.fill(samples, (slot, i), &mut hand.share, &mut hand.batch);
        });
    }

    /// Computes the gradient of the loaded share.
    pub fn compute(&mut self, parameters: &[f32], luck: Luck, gradient: &mut Gradient) {
        let seed = mix(luck.seed ^ mix(luck.slot as u64 + 1));
        if let [hand] = self.hands.as_mut_slice() {
            hand.compute(parameters, seed, gradient);
        } else {
            self.hands.par_iter_mut().with_max_len(1).enumerate().for_each(|(i, hand)| {
                if let Some(mut own) = hand.gradient.take() {
                    hand.compute(parameters, mix(seed ^ ((i as u64) << 32)), &mut own);
                    hand.gradient = Some(own);
                }
            });
            let parts: Vec<&Gradient> = self.hands.iter().flat_map(|hand| &hand.gradient).collect();
            sum(self.hands[0].model.layout(), &parts, gradient);
        }
        self.tally = Tally::default();
        for hand in &self.hands {
            self.tally.add(&hand.tally);
        }
    }
}

impl Hand {
    /// Takes a batch that was made elsewhere, and leaves the one before it in its place.
    pub fn exchange(&mut self, batch: &mut Batch) {
        std::mem::swap(&mut self.batch, batch);
    }

    pub fn classes(&self) -> usize {
        self.model.classes()
    }

    fn compute(&mut self, parameters: &[f32], seed: u64, gradient: &mut Gradient) {
        self.tally = Tally::default();
        self.model.gradient(parameters, &self.batch, seed, gradient, &mut self.tally);
    }

    /// Measures part `number` of `parts` of the samples: every so many-th batch.
    pub fn evaluate(
        &mut self,
        parameters: &[f32],
        samples: &Samples,
        order: &[u32],
        (number, parts): (usize, usize),
    ) -> Tally {
        let mut tally = Tally::with_confusion(self.model.classes());
        for numbers in order.chunks(EVAL_BATCH).skip(number).step_by(parts) {
            self.batch.fill(samples, numbers);
            self.model.evaluate(parameters, &self.batch, &mut tally);
        }
        tally
    }
}

/// How many samples are measured at a time.
const EVAL_BATCH: usize = 64;

impl std::fmt::Debug for Hand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hand with {} parameters", self.model.layout().len())
    }
}

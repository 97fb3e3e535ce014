//! What everything above sees of a model.

use crate::batch::Batch;
use crate::class_weights::ClassWeights;
use crate::error::Result;
use crate::gradient::Gradient;
use crate::layout::Layout;
use crate::tally::Tally;
use crate::tape::{Settled, Tape, Workspace};

/// A model with the memory for one worker to use it. Parameters are not part of it: they are given to each call.
pub trait Model: Send {
    fn layout(&self) -> &Layout;

    /// How many classes the model tells apart; none, if it gives a number.
    fn classes(&self) -> usize;

    /// Whether the threads of a worker should share the model's products rather than the samples of its batch. They
    /// should if the weights outnumber everything else: otherwise every thread would read all weights for a few
    /// samples.
    fn shares_products(&self) -> bool {
        false
    }

    /// From now on, weighs the losses of the classes differently; an error unless there is one weight for each class.
    fn weigh_classes(&mut self, weights: &ClassWeights) -> Result<()>;

    /// Replaces `gradient` by that of a batch, and adds the batch's answers to `tally`. Chance, such as dropout,
    /// depends on `seed` alone.
    fn gradient(
        &mut self,
        parameters: &[f32],
        batch: &Batch,
        seed: u64,
        gradient: &mut Gradient,
        tally: &mut Tally,
    ) {
        self.gradient_by_layers(parameters, batch, seed, gradient, tally, &mut |_, _| ());
    }

    /// The same. `settled` hears once that the forward pass is over and nothing is settled yet, then after every layer
    /// from where on the gradient will not change any more; its weight is known from then on.
    fn gradient_by_layers(
        &mut self,
        parameters: &[f32],
        batch: &Batch,
        seed: u64,
        gradient: &mut Gradient,
        tally: &mut Tally,
        settled: &mut Settled<'_>,
    );

    /// Adds the answers for a batch to `tally`.
    fn evaluate(&mut self, parameters: &[f32], batch: &Batch, tally: &mut Tally);

    /// Replaces `scores` by those of a batch, before any softmax: a row for every target, of a score for each class or
    /// of one that decides between two. The targets themselves do not matter.
    fn scores(&mut self, parameters: &[f32], batch: &Batch, scores: &mut Vec<f32>);
}

/// A model described by its forward pass; the backward pass follows from its layers.
pub trait Network: Send {
    /// Computes scores from the tape's batch, and ends with a loss.
    fn forward(&self, tape: &mut Tape<'_>);

    /// How many classes the network tells apart.
    fn classes(&self) -> usize;

    /// See [`Model::shares_products`].
    fn shares_products(&self) -> bool {
        false
    }
}

/// The [`Model`] of a [`Network`].
#[derive(Debug)]
pub struct Net<N> {
    network: N,
    layout: Layout,
    weights: ClassWeights,
    work: Workspace,
}

impl<N: Network> Net<N> {
    /// Builds a network, whose layers add their tensors to the layout.
    pub fn new(build: impl FnOnce(&mut Layout) -> N) -> Self {
        let mut layout = Layout::default();
        let network = build(&mut layout);
        Self { network, layout, weights: ClassWeights::default(), work: Workspace::default() }
    }
}

impl<N: Network> Model for Net<N> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn classes(&self) -> usize {
        self.network.classes()
    }

    fn shares_products(&self) -> bool {
        self.network.shares_products()
    }

    fn weigh_classes(&mut self, weights: &ClassWeights) -> Result<()> {
        weights.check(self.classes())?;
        self.weights = weights.clone();
        Ok(())
    }

    fn gradient_by_layers(
        &mut self,
        parameters: &[f32],
        batch: &Batch,
        seed: u64,
        gradient: &mut Gradient,
        tally: &mut Tally,
        settled: &mut Settled<'_>,
    ) {
        gradient.clear();
        let mut tape =
            Tape::training(&mut self.work, &self.weights, parameters, batch, seed, gradient, tally);
        // In the last round of an epoch a worker may have no samples.
        if batch.samples > 0 {
            self.network.forward(&mut tape);
        }
        tape.finish(settled);
    }

    fn evaluate(&mut self, parameters: &[f32], batch: &Batch, tally: &mut Tally) {
        let mut tape = Tape::evaluating(&mut self.work, &self.weights, parameters, batch, tally);
        if batch.samples > 0 {
            self.network.forward(&mut tape);
        }
        tape.finish(&mut |_, _| ());
    }

    fn scores(&mut self, parameters: &[f32], batch: &Batch, scores: &mut Vec<f32>) {
        scores.clear();
        let mut tally = Tally::default();
        let mut tape = Tape::evaluating(&mut self.work, &self.weights, parameters, batch, &mut tally);
        tape.keep_scores(scores);
        if batch.samples > 0 {
            self.network.forward(&mut tape);
        }
        tape.finish(&mut |_, _| ());
    }
}

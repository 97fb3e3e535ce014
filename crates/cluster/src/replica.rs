//! The parameters and their optimiser: what every node that applies updates has a copy of.

use bonfire_learn::sum::Addend;
use bonfire_learn::{Layout, Optimizer, OptimizerSpec};

/// Parameters and optimiser. Replicas that began alike and applied the same updates are equal bit for bit.
#[derive(Debug)]
pub struct Replica {
    pub parameters: Vec<f32>,
    pub optimizer: Optimizer,
}

/// How large a step is.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub lr: f32,
    /// A mean gradient longer than this is shortened to it.
    pub clip: Option<f32>,
}

impl Replica {
    /// As it is before the first round.
    pub fn new(layout: &Layout, optimizer: OptimizerSpec, seed: u64) -> Self {
        Self { parameters: layout.initial(seed), optimizer: Optimizer::new(optimizer, layout) }
    }

    /// One update by the mean of some gradients, which are added in their order.
    pub fn step<A: Addend>(&mut self, gradients: &[A], step: Step) {
        self.optimizer.step(&mut self.parameters, gradients, step.lr, step.clip);
    }
}

//! The parameters and their optimiser: what every node that applies updates has a copy of.

use std::borrow::Borrow;

use bonfire_learn::random::mix;
use bonfire_learn::{Gradient, Layout, Optimizer, OptimizerSpec};

use crate::run_file::Settings;

/// Parameters and optimiser. Replicas that began alike and applied the same updates are equal bit for bit.
#[derive(Debug)]
pub struct Replica {
    pub parameters: Vec<f32>,
    pub optimizer: Optimizer,
    /// What all workers step by together, where each trains by itself between two exchanges. Then only the parameters
    /// and this are equal.
    pub outer: Option<Optimizer>,
}

/// How large a step is.
#[derive(Clone, Copy, Debug)]
pub struct StepSize {
    pub lr: f32,
    /// A mean gradient longer than this is shortened to it.
    pub clip: Option<f32>,
}

impl Replica {
    /// As it is before the first round.
    pub fn new(layout: &Layout, optimizer: OptimizerSpec, seed: u64) -> Self {
        Self { parameters: layout.initial(seed), optimizer: Optimizer::new(optimizer, layout), outer: None }
    }

    /// The same for a run with these settings.
    pub fn of(settings: &Settings, layout: &Layout) -> Self {
        let outer = settings.outer.clone().map(|sgd| Optimizer::new(OptimizerSpec::Sgd(sgd), layout));
        Self { outer, ..Self::new(layout, settings.file.optimizer.clone(), settings.file.seed) }
    }

    /// What is remembered beside the parameters: the optimiser's moments, then the velocity of the outer step.
    pub fn memory(&self) -> impl Iterator<Item = &Vec<f32>> {
        self.optimizer.moments().iter().chain(self.velocity())
    }

    /// The velocity of the outer step, if it has a momentum.
    pub fn velocity(&self) -> Option<&Vec<f32>> {
        self.outer.as_ref().and_then(|outer| outer.moments().first())
    }

    /// What is remembered, to be replaced piece by piece by that of another after so many updates.
    pub fn restore_part(&mut self, steps: u64) -> impl Iterator<Item = &mut Vec<f32>> {
        let outer = self.outer.iter_mut().flat_map(|outer| outer.restore_part(0));
        self.optimizer.restore_part(steps).iter_mut().chain(outer)
    }

    /// Goes on from a checkpoint; false if it is of another optimiser or model. One that has no velocity of the outer
    /// step is of a time before it; one that has it and is not asked for it is no worse.
    #[must_use]
    pub fn restore(&mut self, steps: u64, moments: Vec<Vec<f32>>, velocity: Option<Vec<f32>>) -> bool {
        let Some(outer) = &mut self.outer else { return self.optimizer.restore(steps, moments) };
        let len = self.parameters.len();
        let velocity = velocity.unwrap_or_else(|| vec![0.0; len]);
        let velocities = if outer.moments().is_empty() { Vec::new() } else { vec![velocity] };
        self.optimizer.restore(steps, moments) && outer.restore(0, velocities)
    }

    /// A number that differs, as good as always, where parameters differ in a bit. Fast, and no secret.
    pub fn digest(&self) -> u64 {
        let mut lanes = [0u64; 8];
        for chunk in self.parameters.chunks(lanes.len()) {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane = (*lane ^ u64::from(value.to_bits())).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            }
        }
        lanes.into_iter().fold(0, |digest, lane| mix(digest ^ lane))
    }

    /// One update of the first `len` parameters alone: the others are yet to come from elsewhere.
    pub fn step_first<G: Borrow<Gradient> + Sync>(&mut self, len: usize, gradients: &[G], step: StepSize) {
        self.optimizer.step_first(len, &mut self.parameters, gradients, step.lr, step.clip);
    }

    /// One step by how far all workers went on the mean, each by itself.
    pub fn step_together<G: Borrow<Gradient> + Sync>(&mut self, gradients: &[G]) {
        self.step_together_first(self.parameters.len(), gradients);
    }

    /// The same of the first `len` parameters alone.
    pub fn step_together_first<G: Borrow<Gradient> + Sync>(&mut self, len: usize, gradients: &[G]) {
        if let Some(outer) = &mut self.outer {
            let lr = outer.lr();
            outer.step_first(len, &mut self.parameters, gradients, lr, None);
        }
    }

    /// One update by the mean of some gradients, which are added in their order.
    pub fn step<G: Borrow<Gradient> + Sync>(&mut self, gradients: &[G], step: StepSize) {
        self.optimizer.step(&mut self.parameters, gradients, step.lr, step.clip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::layout::Init;

    #[test]
    fn a_digest_sees_every_bit() {
        let mut layout = Layout::default();
        layout.vector("all".into(), 1003, Init::Uniform(1.0));
        let mut replica = Replica::new(&layout, OptimizerSpec::default(), 1);
        let digest = replica.digest();
        assert_eq!(digest, Replica::new(&layout, OptimizerSpec::default(), 1).digest());
        for place in [0, 7, 8, 500, 1002] {
            let value = replica.parameters[place];
            replica.parameters[place] = f32::from_bits(value.to_bits() ^ 1);
            assert_ne!(replica.digest(), digest, "parameter {place}");
            replica.parameters[place] = value;
        }
        replica.parameters.swap(3, 4);
        assert_ne!(replica.digest(), digest, "two that changed places");
    }
}

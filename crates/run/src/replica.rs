//! The parameters and their optimiser: what every node that applies updates has a copy of.

use bonfire_learn::random::mix;
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
pub struct StepSize {
    pub lr: f32,
    /// A mean gradient longer than this is shortened to it.
    pub clip: Option<f32>,
}

impl Replica {
    /// As it is before the first round.
    pub fn new(layout: &Layout, optimizer: OptimizerSpec, seed: u64) -> Self {
        Self { parameters: layout.initial(seed), optimizer: Optimizer::new(optimizer, layout) }
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

    /// One update by the mean of some gradients, which are added in their order.
    pub fn step<A: Addend>(&mut self, gradients: &[A], step: StepSize) {
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

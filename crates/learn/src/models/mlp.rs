use serde::{Deserialize, Serialize};

use super::check_sizes;
use crate::error::Result;
use crate::layers::{Activation, Linear};
use crate::layout::Layout;
use crate::model::{Model, Net, Network};
use crate::tape::Tape;

/// Linear layers with ReLU between. Without hidden layers, a linear model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The outputs of the hidden layers.
    pub hidden: Vec<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { hidden: vec![1024, 512, 256, 128, 64, 32] }
    }
}

impl Options {
    pub fn build(&self, name: &str, image: [usize; 3], classes: usize) -> Result<Box<dyn Model>> {
        check_sizes(name, &[("hidden", &self.hidden)])?;
        Ok(Box::new(Net::new(|layout| Mlp::new(layout, &self.hidden, image, classes))))
    }
}

#[derive(Debug)]
struct Mlp {
    layers: Vec<Linear>,
    classes: usize,
}

impl Mlp {
    fn new(layout: &mut Layout, hidden: &[usize], image: [usize; 3], classes: usize) -> Self {
        let outputs: Vec<usize> = hidden.iter().copied().chain([classes]).collect();
        let mut layers = vec![Linear::of_image(layout, "fc1", image, outputs[0])];
        for (i, sizes) in outputs.windows(2).enumerate() {
            layers.push(Linear::new(layout, &format!("fc{}", i + 2), sizes[0], sizes[1]));
        }
        Self { layers, classes }
    }
}

impl Network for Mlp {
    fn forward(&self, tape: &mut Tape<'_>) {
        let mut x = tape.images();
        for (i, layer) in self.layers.iter().enumerate() {
            let is_last = i + 1 == self.layers.len();
            x = layer.forward(tape, x, if is_last { Activation::None } else { Activation::Relu });
        }
        tape.cross_entropy(x);
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn shares_products(&self) -> bool {
        self.layers.iter().any(Linear::is_large)
    }
}

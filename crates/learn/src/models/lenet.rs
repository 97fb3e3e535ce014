use serde::{Deserialize, Serialize};

use super::{check_sizes, side_behind};
use crate::error::Result;
use crate::layers::{Activation, Conv2d, Linear};
use crate::layout::Layout;
use crate::model::{Model, Net, Network};
use crate::tape::Tape;

/// The wider LeNet of the parameter-server papers: two convolutions with largest values between, two linear layers with
/// nothing between. 431,080 parameters on 28×28.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The outputs of the two convolutions.
    pub channels: [usize; 2],
    /// The side of the convolutions' kernels.
    pub kernel: usize,
    /// The outputs of the hidden linear layer.
    pub hidden: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { channels: [20, 50], kernel: 5, hidden: 500 }
    }
}

impl Options {
    pub fn build(&self, name: &str, image: [usize; 3], classes: usize) -> Result<Box<dyn Model>> {
        let Self { channels, kernel, hidden } = *self;
        check_sizes(name, &[("channels", &channels), ("kernel", &[kernel]), ("hidden", &[hidden])])?;
        let rest = side_behind(name, image, kernel)?;
        Ok(Box::new(Net::new(|layout| Lenet::new(layout, self, image[2], rest, classes))))
    }
}

#[derive(Debug)]
struct Lenet {
    conv1: Conv2d,
    conv2: Conv2d,
    fc1: Linear,
    fc2: Linear,
    classes: usize,
}

impl Lenet {
    fn new(layout: &mut Layout, options: &Options, inputs: usize, rest: [usize; 2], classes: usize) -> Self {
        let Options { channels: [c1, c2], kernel, hidden } = *options;
        Self {
            conv1: Conv2d::new(layout, "conv1", inputs, c1, kernel),
            conv2: Conv2d::new(layout, "conv2", c1, c2, kernel),
            fc1: Linear::of_image(layout, "fc1", [rest[0], rest[1], c2], hidden),
            fc2: Linear::new(layout, "fc2", hidden, classes),
            classes,
        }
    }
}

impl Network for Lenet {
    fn forward(&self, tape: &mut Tape<'_>) {
        // The original takes the largest value first and then ReLU. That is the same, slopes included: where the largest
        // is not above zero nothing flows back either way.
        let x = tape.images_in_lanes();
        let x = self.conv1.forward(tape, x, Activation::Relu);
        let x = tape.max_pool(x, 2);
        let x = self.conv2.forward(tape, x, Activation::Relu);
        let x = tape.max_pool(x, 2);
        let x = self.fc1.forward(tape, x, Activation::None);
        let scores = self.fc2.forward(tape, x, Activation::None);
        tape.cross_entropy(scores);
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

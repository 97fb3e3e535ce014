use serde::{Deserialize, Serialize};

use super::{check_sizes, size_behind_convs};
use crate::error::Result;
use crate::layers::{Activation, Conv2d, Linear};
use crate::layout::Layout;
use crate::model::{Model, Net, Network};
use crate::tape::Tape;

/// LeNet-5: two convolutions with averages between, three linear layers. 44,426 parameters on 28×28.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The outputs of the two convolutions.
    pub channels: [usize; 2],
    /// The side of the convolutions' kernels.
    pub kernel: usize,
    /// The outputs of the two hidden linear layers.
    pub hidden: [usize; 2],
}

impl Default for Options {
    fn default() -> Self {
        Self { channels: [6, 16], kernel: 5, hidden: [120, 84] }
    }
}

impl Options {
    pub fn build(&self, name: &str, image: [usize; 3], classes: usize) -> Result<Box<dyn Model>> {
        let Self { channels, kernel, hidden } = *self;
        check_sizes(name, &[("channels", &channels), ("kernel", &[kernel]), ("hidden", &hidden)])?;
        let rest = size_behind_convs(name, image, kernel)?;
        Ok(Box::new(Net::new(|layout| Lenet5::new(layout, self, image[2], rest, classes))))
    }
}

#[derive(Debug)]
struct Lenet5 {
    conv1: Conv2d,
    conv2: Conv2d,
    fc1: Linear,
    fc2: Linear,
    fc3: Linear,
    classes: usize,
}

impl Lenet5 {
    fn new(layout: &mut Layout, options: &Options, inputs: usize, rest: [usize; 2], classes: usize) -> Self {
        let Options { channels: [c1, c2], kernel, hidden: [h1, h2] } = *options;
        Self {
            conv1: Conv2d::new(layout, "conv1", inputs, c1, kernel),
            conv2: Conv2d::new(layout, "conv2", c1, c2, kernel),
            fc1: Linear::of_image(layout, "fc1", [rest[0], rest[1], c2], h1),
            fc2: Linear::new(layout, "fc2", h1, h2),
            fc3: Linear::new(layout, "fc3", h2, classes),
            classes,
        }
    }
}

impl Network for Lenet5 {
    fn forward(&self, tape: &mut Tape<'_>) {
        let x = tape.images_in_lanes();
        let x = self.conv1.forward(tape, x, Activation::Tanh);
        let x = tape.average_pool(x, 2);
        let x = self.conv2.forward(tape, x, Activation::Tanh);
        let x = tape.average_pool(x, 2);
        let x = self.fc1.forward(tape, x, Activation::Tanh);
        let x = self.fc2.forward(tape, x, Activation::Relu);
        let scores = self.fc3.forward(tape, x, Activation::None);
        tape.cross_entropy(scores);
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

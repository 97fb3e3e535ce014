use serde::{Deserialize, Serialize};

use super::{check_sizes, size_behind_convs};
use crate::error::Result;
use crate::layers::{Activation, Conv2d, Linear};
use crate::layout::Layout;
use crate::model::{Model, Net, Network};
use crate::tape::Tape;

/// Two convolutions with max pooling behind each, and two linear layers.
///
/// `lenet` is the wider LeNet of the parameter-server papers, with no activation between its linear layers: 431,080
/// parameters on 28×28.
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

/// The same for `cnn`, a small net that learns in seconds, with ReLU between its linear layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CnnOptions {
    /// The outputs of the two convolutions.
    pub channels: [usize; 2],
    /// The side of the convolutions' kernels.
    pub kernel: usize,
    /// The outputs of the hidden linear layer.
    pub hidden: usize,
}

impl Default for CnnOptions {
    fn default() -> Self {
        Self { channels: [6, 16], kernel: 5, hidden: 64 }
    }
}

impl Options {
    pub fn build(&self, name: &str, image: [usize; 3], classes: usize) -> Result<Box<dyn Model>> {
        build(name, self, Activation::None, image, classes)
    }
}

impl CnnOptions {
    pub fn build(&self, name: &str, image: [usize; 3], classes: usize) -> Result<Box<dyn Model>> {
        let Self { channels, kernel, hidden } = *self;
        build(name, &Options { channels, kernel, hidden }, Activation::Relu, image, classes)
    }
}

/// `between` is the activation between the linear layers.
fn build(
    name: &str,
    options: &Options,
    between: Activation,
    image: [usize; 3],
    classes: usize,
) -> Result<Box<dyn Model>> {
    let Options { channels, kernel, hidden } = *options;
    check_sizes(name, &[("channels", &channels), ("kernel", &[kernel]), ("hidden", &[hidden])])?;
    let rest = size_behind_convs(name, image, kernel)?;
    Ok(Box::new(Net::new(|layout| Lenet::new(layout, options, between, image[2], rest, classes))))
}

#[derive(Debug)]
struct Lenet {
    conv1: Conv2d,
    conv2: Conv2d,
    fc1: Linear,
    fc2: Linear,
    between: Activation,
    classes: usize,
}

impl Lenet {
    fn new(
        layout: &mut Layout,
        options: &Options,
        between: Activation,
        inputs: usize,
        rest: [usize; 2],
        classes: usize,
    ) -> Self {
        let Options { channels: [c1, c2], kernel, hidden } = *options;
        Self {
            conv1: Conv2d::new(layout, "conv1", inputs, c1, kernel),
            conv2: Conv2d::new(layout, "conv2", c1, c2, kernel),
            fc1: Linear::of_image(layout, "fc1", [rest[0], rest[1], c2], hidden),
            fc2: Linear::new(layout, "fc2", hidden, classes),
            between,
            classes,
        }
    }
}

impl Network for Lenet {
    fn forward(&self, tape: &mut Tape<'_>) {
        // The original LeNet pools first and then applies ReLU. That is the same, gradients included: where the largest
        // value is not above zero, nothing flows back either way.
        let x = tape.images_in_lanes();
        let x = self.conv1.forward(tape, x, Activation::Relu);
        let x = tape.max_pool(x, 2);
        let x = self.conv2.forward(tape, x, Activation::Relu);
        let x = tape.max_pool(x, 2);
        let x = self.fc1.forward(tape, x, self.between);
        let scores = self.fc2.forward(tape, x, Activation::None);
        tape.cross_entropy(scores);
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

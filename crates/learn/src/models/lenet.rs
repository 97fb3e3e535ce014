use serde::{Deserialize, Serialize};

use super::{check_kernel, check_sizes, conv2d, linear};
use crate::error::Result;
use crate::layer_list::{ConvOptions, LayerItem, LayerList, LayerSpec, LinearOptions, PoolOptions};
use crate::layers::Function;

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
    pub(super) fn layers(&self, name: &str, image: [usize; 3]) -> Result<LayerList> {
        layers(name, self, None, image)
    }
}

impl CnnOptions {
    pub(super) fn layers(&self, name: &str, image: [usize; 3]) -> Result<LayerList> {
        let Self { channels, kernel, hidden } = *self;
        layers(name, &Options { channels, kernel, hidden }, Some(Function::Relu), image)
    }
}

/// `between` is what is between the linear layers.
fn layers(name: &str, options: &Options, between: Option<Function>, image: [usize; 3]) -> Result<LayerList> {
    let Options { channels, kernel, hidden } = *options;
    check_sizes(name, &[("channels", &channels), ("kernel", &[kernel]), ("hidden", &[hidden])])?;
    check_kernel(name, image, kernel)?;
    let [c1, c2] = channels;
    // The original LeNet pools first and then applies ReLU. That is the same, gradients included: where the largest
    // value is not above zero, nothing flows back either way.
    let convolutions = [
        conv2d("conv1", ConvOptions::new(c1, kernel)),
        Function::Relu.into(),
        LayerSpec::MaxPool2d(PoolOptions::new(2)).into(),
        conv2d("conv2", ConvOptions::new(c2, kernel)),
        Function::Relu.into(),
        LayerSpec::MaxPool2d(PoolOptions::new(2)).into(),
        LayerSpec::Flatten.into(),
        linear("fc1", LinearOptions::new(hidden)),
    ];
    let rest = between.map(LayerItem::from).into_iter().chain([linear("fc2", LinearOptions::classes())]);
    Ok(LayerList::new(convolutions.into_iter().chain(rest)))
}

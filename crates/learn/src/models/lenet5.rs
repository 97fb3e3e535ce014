use serde::{Deserialize, Serialize};

use super::{check_kernel, check_sizes, conv2d, linear};
use crate::error::Result;
use crate::layer_list::{ConvOptions, LayerList, LayerSpec, LinearOptions, PoolOptions};
use crate::layers::Function;

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
    pub(super) fn layers(&self, name: &str, image: [usize; 3]) -> Result<LayerList> {
        let Self { channels, kernel, hidden } = *self;
        check_sizes(name, &[("channels", &channels), ("kernel", &[kernel]), ("hidden", &hidden)])?;
        check_kernel(name, image, kernel)?;
        let ([c1, c2], [h1, h2]) = (channels, hidden);
        Ok(LayerList::new([
            conv2d("conv1", ConvOptions::new(c1, kernel)),
            Function::Tanh.into(),
            LayerSpec::AvgPool2d(PoolOptions::new(2)).into(),
            conv2d("conv2", ConvOptions::new(c2, kernel)),
            Function::Tanh.into(),
            LayerSpec::AvgPool2d(PoolOptions::new(2)).into(),
            LayerSpec::Flatten.into(),
            linear("fc1", LinearOptions::new(h1)),
            Function::Tanh.into(),
            linear("fc2", LinearOptions::new(h2)),
            Function::Relu.into(),
            linear("fc3", LinearOptions::classes()),
        ]))
    }
}

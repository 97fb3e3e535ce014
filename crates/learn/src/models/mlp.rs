use serde::{Deserialize, Serialize};

use super::{check_sizes, linear};
use crate::error::Result;
use crate::layer_list::{LayerItem, LayerList, LayerSpec, LinearOptions};
use crate::layers::Function;

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
    pub(super) fn layers(&self, name: &str, _: [usize; 3]) -> Result<LayerList> {
        check_sizes(name, &[("hidden", &self.hidden)])?;
        let mut layers = vec![LayerItem::from(LayerSpec::Flatten)];
        for (i, &outputs) in self.hidden.iter().enumerate() {
            layers.push(linear(&format!("fc{}", i + 1), LinearOptions::new(outputs)));
            layers.push(Function::Relu.into());
        }
        layers.push(linear(&format!("fc{}", self.hidden.len() + 1), LinearOptions::classes()));
        Ok(LayerList(layers))
    }
}

//! A model as a list of layers: what `model: {layers: […]}` of a run file holds, and what the models that have a name
//! are made of.
//!
//! Read in this order: [`LayerList`] and [`LayerItem`] (what is written; `options` has what each layer takes),
//! [`Flow`] (what goes from one layer to the next), [`LayerPlan`] (the same with every size known, or why it does not
//! fit), `net` (the plan as a [`Network`](crate::Network), with everything fused that can be), [`pytorch`] (the plan as
//! a module).
//!
//! ```
//! use bonfire_learn::layer_list::{LayerList, LayerPlan};
//! use bonfire_learn::Shape;
//!
//! let list: LayerList = serde_json::from_str(r#"["flatten", {"linear": 32}, "relu", {"linear": "classes"}]"#)?;
//! let shape = Shape::Images { height: 28, width: 28, channels: 1, classes: 10 };
//! let plan = LayerPlan::of(&list, &shape)?;
//! assert_eq!(plan.parameters(), 784 * 32 + 32 + 32 * 10 + 10);
//! assert_eq!(plan.build().layout().tensors()[0].name, "1.weight");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fit;
mod flow;
mod item;
mod lanes;
mod net;
mod options;
mod plan;
mod planner;
pub mod pytorch;
mod read;
mod size;

#[cfg(test)]
mod tests;

pub use flow::Flow;
pub use item::{InitSpec, LayerItem, LayerSpec};
pub use options::{
    BinaryOptions, ConvOptions, EmbeddingOptions, LinearOptions, NormOptions, Outputs, PoolOptions,
    RecurrentOptions, Repeat, ResidualOptions, Shortcut, Sides, SpatialPadding,
};
pub use plan::{Head, LayerKind, LayerPlan, PlannedLayer, PlannedShortcut};

use serde::{Deserialize, Serialize};

/// Layers, from the first to the last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerList(pub Vec<LayerItem>);

impl LayerList {
    pub fn new(items: impl IntoIterator<Item = LayerItem>) -> Self {
        Self(items.into_iter().collect())
    }
}

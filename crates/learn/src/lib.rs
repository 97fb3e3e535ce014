//! Learning on one machine: models and optimisers over flat slices of floats. Knows no network and no files of data.
//!
//! Read in this order: [`layout`] (named tensors in one flat vector), [`Batch`] (what goes into a model), [`Model`]
//! (what everything above sees), [`Tape`] and [`layers`] (how a model computes its gradient), [`kernels`] (the loops),
//! [`layer_list`] and [`models`] (models as data, and those that have a name), [`optim`] (the update).
//!
//! ```
//! use bonfire_learn::{Batch, Gradient, ModelSpec, Optimizer, OptimizerSpec, Shape, Tally};
//!
//! let shape = Shape::Images { height: 28, width: 28, channels: 1, classes: 10 };
//! let mut model = ModelSpec::default().build(&shape)?;
//! let batch = Batch::random(&shape, 32, 0, 1);
//! let mut parameters = model.layout().initial(1234);
//! let mut gradient = Gradient::new(model.layout());
//! let mut optimizer = Optimizer::new(OptimizerSpec::default(), model.layout());
//! let mut losses = Vec::new();
//! for step in 0..10 {
//!     let mut tally = Tally::default();
//!     model.gradient(&parameters, &batch, step, &mut gradient, &mut tally);
//!     optimizer.step(&mut parameters, std::slice::from_ref(&gradient), 0.001, None);
//!     losses.push(tally.mean_loss());
//! }
//! assert!(losses[9] < losses[0]);
//! # Ok::<(), bonfire_learn::Error>(())
//! ```

mod batch;
mod buffer;
mod class_weights;
mod error;
mod factors;
mod gradient;
pub mod huge_pages;
pub mod kernels;
pub mod layer_list;
pub mod layers;
pub mod layout;
mod model;
pub mod models;
pub mod optim;
pub mod random;
pub mod schedule;
pub mod sum;
pub mod tally;
mod tape;
pub mod torch_file;

#[cfg(test)]
mod oracle;

pub use batch::{Batch, IGNORED, Inputs, PADDING, Shape};
pub use class_weights::ClassWeights;
pub use error::{Error, Result};
pub use gradient::Gradient;
pub use layout::Layout;
pub use model::{Model, Net, Network};
pub use models::ModelSpec;
pub use optim::{Optimizer, OptimizerSpec, SgdOptions};
pub use schedule::Schedule;
pub use tally::Tally;
pub use tape::{Settled, Tape, Var};

#[cfg(test)]
#[global_allocator]
static COUNTING: bonfire_spoil::Counting = bonfire_spoil::Counting;

//! The models that have a name. Each file holds one: its options, its layers and its way forward.
//!
//! To add one: write the file, and add it to [`ModelSpec`] and its `match`.

pub mod lenet5;
pub mod mlp;
pub mod sentiment;
pub mod tagger;

use serde::{Deserialize, Serialize};

use crate::data::Shape;
use crate::error::{Error, Result};
use crate::model::Model;

/// A model by name, with its options: the value of `model` in a run file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelSpec {
    Lenet5(lenet5::Options),
    Mlp(mlp::Options),
    Sentiment(sentiment::Options),
    Tagger(tagger::Options),
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self::Lenet5(lenet5::Options::default())
    }
}

impl ModelSpec {
    /// The names of all models.
    pub const NAMES: [&'static str; 4] = ["lenet5", "mlp", "sentiment", "tagger"];

    pub fn name(&self) -> &'static str {
        match self {
            Self::Lenet5(_) => "lenet5",
            Self::Mlp(_) => "mlp",
            Self::Sentiment(_) => "sentiment",
            Self::Tagger(_) => "tagger",
        }
    }

    /// Builds the model for data of a shape, or says why the two do not fit.
    pub fn build(&self, shape: &Shape) -> Result<Box<dyn Model>> {
        match (self, shape) {
            (Self::Lenet5(options), &Shape::Images { height, width, channels, classes }) => {
                options.build([height, width, channels], classes)
            }
            (Self::Mlp(options), &Shape::Images { height, width, channels, classes }) => {
                options.build([height, width, channels], classes)
            }
            (Self::Tagger(options), &Shape::Tagging { words, tags }) => options.build(words, tags),
            (Self::Sentiment(options), &Shape::Texts { words, classes }) => options.build(words, classes),
            (model, shape) => {
                let (wants, has) = (model.wants(), describe(shape));
                let name = model.name();
                Err(Error::Mismatch(format!("model {name} is for {wants}, but the data are {has}")))
            }
        }
    }

    fn wants(&self) -> &'static str {
        match self {
            Self::Lenet5(_) | Self::Mlp(_) => "images (digits, fashion-mnist, …)",
            Self::Sentiment(_) => "texts with one label each (reviews, …)",
            Self::Tagger(_) => "sentences with one tag a word (grammar, …)",
        }
    }
}

fn describe(shape: &Shape) -> &'static str {
    match shape {
        Shape::Images { .. } => "images",
        Shape::Tagging { .. } => "sentences with one tag a word",
        Shape::Texts { .. } => "texts with one label each",
    }
}

/// An option that is out of its range.
fn wrong_option(model: &str, option: &str, rule: &str) -> Error {
    Error::Mismatch(format!("model {model}: {option} must be {rule}"))
}

/// A rate of dropout.
fn check_dropout(model: &str, rate: f32) -> Result<()> {
    if (0.0..1.0).contains(&rate) { Ok(()) } else { Err(wrong_option(model, "dropout", "from 0 to below 1")) }
}

/// Sizes that must not be 0.
fn check_sizes(model: &str, sizes: &[(&str, usize)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some((option, _)) => Err(wrong_option(model, option, "at least 1")),
        None => Ok(()),
    }
}

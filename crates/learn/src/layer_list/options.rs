//! What each layer takes, under PyTorch's names and with its defaults. Where one number says it all, it may stand
//! alone.

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

use super::LayerList;
use super::item::LayerItem;
use super::read::ShortForm;
use crate::layers::Function;

/// How many outputs a layer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    Number(usize),
    /// As many as the data have classes; one, if a single score decides between two.
    Classes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvOptions {
    #[serde(alias = "out_channels")]
    pub out: Outputs,
    #[serde(alias = "kernel_size")]
    pub kernel: usize,
    #[serde(default = "one")]
    pub stride: usize,
    #[serde(default)]
    pub padding: SpatialPadding,
    #[serde(default = "yes")]
    pub bias: bool,
}

/// How many zeros lie around an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpatialPadding {
    Number(usize),
    /// So many that the image keeps its size.
    Same,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NormOptions {
    pub eps: f32,
    pub momentum: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolOptions {
    #[serde(alias = "kernel_size")]
    pub kernel: usize,
    /// As far as the kernel reaches, unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<usize>,
    #[serde(default)]
    pub padding: usize,
}

/// Height and width of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides(pub [usize; 2]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearOptions {
    #[serde(alias = "out_features")]
    pub out: Outputs,
    #[serde(default = "yes")]
    pub bias: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingOptions {
    /// How many numbers stand for a word.
    #[serde(alias = "embedding_dim")]
    pub dim: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecurrentOptions {
    /// The size of the state.
    #[serde(alias = "hidden_size")]
    pub hidden: usize,
    #[serde(default = "one", alias = "num_layers")]
    pub layers: usize,
    #[serde(default)]
    pub bidirectional: bool,
    /// Between the layers.
    #[serde(default)]
    pub dropout: f32,
}

/// Layers whose result is added to what they began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualOptions {
    pub layers: LayerList,
    /// What becomes of the input before it is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downsample: Option<Shortcut>,
    /// What becomes of the sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Function>,
}

/// The way around the layers of a residual block.
#[derive(Clone, Debug, PartialEq)]
pub enum Shortcut {
    /// Every second place of every second row, with channels of zeros on both sides: no parameters.
    Subsample,
    Layers(LayerList),
}

/// The same layers several times, one behind the other, each time with weights of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    pub times: usize,
    pub layers: LayerList,
}

/// One score decides between two classes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BinaryOptions {
    /// The first class of the data that counts as positive: 1 of two, four stars of five.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positive_from: Option<u32>,
    /// How much the loss of a positive sample counts.
    pub positive_weight: f32,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

impl ConvOptions {
    /// With a bias, a stride of 1 and no padding.
    pub fn new(outputs: usize, kernel: usize) -> Self {
        let padding = SpatialPadding::default();
        Self { out: Outputs::Number(outputs), kernel, stride: 1, padding, bias: true }
    }
}

impl LinearOptions {
    pub fn new(outputs: usize) -> Self {
        Self { out: Outputs::Number(outputs), bias: true }
    }

    /// As many outputs as there are classes.
    pub fn classes() -> Self {
        Self { out: Outputs::Classes, bias: true }
    }
}

impl PoolOptions {
    /// Squares of a side, beside each other.
    pub fn new(kernel: usize) -> Self {
        Self { kernel, stride: None, padding: 0 }
    }
}

impl Default for SpatialPadding {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl Default for NormOptions {
    fn default() -> Self {
        Self { eps: 1e-5, momentum: 0.1 }
    }
}

impl Default for BinaryOptions {
    fn default() -> Self {
        Self { positive_from: None, positive_weight: 1.0 }
    }
}

impl ShortForm for ConvOptions {
    const EXPECTED: &'static str = "options such as {out: 32, kernel: 3}";
}

impl ShortForm for NormOptions {
    const EXPECTED: &'static str = "nothing, or options such as {eps: 0.001}";

    fn of_nothing() -> Option<Self> {
        Some(Self::default())
    }
}

impl ShortForm for PoolOptions {
    const EXPECTED: &'static str = "the side of a window, or options such as {kernel: 3, stride: 2}";

    fn of_number(number: f64) -> Option<Self> {
        Some(Self::new(whole(number)?))
    }
}

impl ShortForm for LinearOptions {
    const EXPECTED: &'static str = "the number of outputs, `classes`, or options such as {out: 10}";

    fn of_number(number: f64) -> Option<Self> {
        Some(Self::new(whole(number)?))
    }

    fn of_text(text: &str) -> Option<Self> {
        (text == "classes").then(Self::classes)
    }
}

impl ShortForm for EmbeddingOptions {
    const EXPECTED: &'static str = "how many numbers stand for a word, or {dim: 100}";

    fn of_number(number: f64) -> Option<Self> {
        Some(Self { dim: whole(number)? })
    }
}

impl ShortForm for RecurrentOptions {
    const EXPECTED: &'static str = "the size of the state, or options such as {hidden: 128, layers: 2}";

    fn of_number(number: f64) -> Option<Self> {
        Some(Self { hidden: whole(number)?, layers: 1, bidirectional: false, dropout: 0.0 })
    }
}

impl ShortForm for ResidualOptions {
    const EXPECTED: &'static str = "a list of layers, or {layers: […], downsample: […], activation: relu}";

    fn of_list(items: Vec<LayerItem>) -> Option<Self> {
        Some(Self { layers: LayerList(items), downsample: None, activation: None })
    }
}

impl ShortForm for Repeat {
    const EXPECTED: &'static str = "{times: 3, layers: […]}";
}

impl ShortForm for BinaryOptions {
    const EXPECTED: &'static str = "nothing, or options such as {positive_from: 3}";

    fn of_nothing() -> Option<Self> {
        Some(Self::default())
    }
}

/// A whole number that is not negative.
pub(super) fn whole(number: f64) -> Option<usize> {
    (number >= 0.0 && number.fract() == 0.0 && number <= f64::from(u32::MAX)).then_some(number as usize)
}

/// A number, or one word.
struct NumberOr {
    word: &'static str,
    expected: &'static str,
}

impl Visitor<'_> for NumberOr {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        usize::try_from(number).map(Some).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if text == self.word {
            Ok(None)
        } else {
            Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }
    }
}

impl<'de> Deserialize<'de> for Outputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = NumberOr { word: "classes", expected: "a number of outputs, or `classes`" };
        Ok(deserializer.deserialize_any(visitor)?.map_or(Self::Classes, Self::Number))
    }
}

impl Serialize for Outputs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number as u64),
            Self::Classes => serializer.serialize_str("classes"),
        }
    }
}

impl<'de> Deserialize<'de> for SpatialPadding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let visitor = NumberOr { word: "same", expected: "a number of places, or `same`" };
        Ok(deserializer.deserialize_any(visitor)?.map_or(Self::Same, Self::Number))
    }
}

impl Serialize for SpatialPadding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number as u64),
            Self::Same => serializer.serialize_str("same"),
        }
    }
}

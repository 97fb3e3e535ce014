use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::LayerList;
use super::options::{
    BinaryOptions, ConvOptions, EmbeddingOptions, LinearOptions, NormOptions, PoolOptions, RecurrentOptions,
    Repeat, ResidualOptions, Sides,
};
use crate::layers::{Cell, Function};

/// A layer of a list, with what it is called.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerItem {
    pub layer: LayerSpec,
    /// Otherwise it is called by its number in the list, as in PyTorch's `nn.Sequential`.
    pub name: Option<String>,
    /// How its weights begin, if not as PyTorch's do.
    pub init: Option<InitSpec>,
    /// What it is called in files of others. Only models that have a name themselves say so.
    pub alias: Option<String>,
}

/// A layer as it is written: sizes that follow from its input are left out.
#[derive(Clone, Debug, PartialEq)]
pub enum LayerSpec {
    Conv2d(ConvOptions),
    BatchNorm(NormOptions),
    Function(Function),
    MaxPool2d(PoolOptions),
    AvgPool2d(PoolOptions),
    AdaptiveAvgPool2d(Sides),
    AdaptiveMaxPool2d(Sides),
    /// The mean of every channel.
    GlobalAvgPool,
    Flatten,
    Dropout(f32),
    Linear(LinearOptions),
    Embedding(EmbeddingOptions),
    Gru(RecurrentOptions),
    Lstm(RecurrentOptions),
    /// The features of a text's last real word.
    LastWord,
    /// The features behind the padding of the batch.
    LastStep,
    Residual(ResidualOptions),
    /// Layers that have a number, or name, together.
    Sequential(LayerList),
    Repeat(Repeat),
    /// The end: a score for every class.
    Softmax,
    /// The end: one score.
    Binary(BinaryOptions),
}

/// How weights begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitSpec {
    /// Normal numbers of this deviation.
    Normal(f32),
    /// Uniform numbers up to this bound on both sides of 0.
    Uniform(f32),
}

impl LayerItem {
    pub fn new(layer: LayerSpec) -> Self {
        Self { layer, name: None, init: None, alias: None }
    }

    pub fn named(name: impl Into<String>, layer: LayerSpec) -> Self {
        Self { name: Some(name.into()), ..Self::new(layer) }
    }
}

impl From<LayerSpec> for LayerItem {
    fn from(layer: LayerSpec) -> Self {
        Self::new(layer)
    }
}

impl From<Function> for LayerItem {
    fn from(function: Function) -> Self {
        Self::new(LayerSpec::Function(function))
    }
}

impl LayerSpec {
    pub fn recurrent(cell: Cell, options: RecurrentOptions) -> Self {
        match cell {
            Cell::Gru => Self::Gru(options),
            Cell::Lstm => Self::Lstm(options),
        }
    }

    /// What it is called in a run file.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Conv2d(_) => "conv2d",
            Self::BatchNorm(_) => "batch_norm",
            Self::Function(function) => function.name(),
            Self::MaxPool2d(_) => "max_pool2d",
            Self::AvgPool2d(_) => "avg_pool2d",
            Self::AdaptiveAvgPool2d(_) => "adaptive_avg_pool2d",
            Self::AdaptiveMaxPool2d(_) => "adaptive_max_pool2d",
            Self::GlobalAvgPool => "global_avg_pool",
            Self::Flatten => "flatten",
            Self::Dropout(_) => "dropout",
            Self::Linear(_) => "linear",
            Self::Embedding(_) => "embedding",
            Self::Gru(_) => "gru",
            Self::Lstm(_) => "lstm",
            Self::LastWord => "last_word",
            Self::LastStep => "last_step",
            Self::Residual(_) => "residual",
            Self::Sequential(_) => "sequential",
            Self::Repeat(_) => "repeat",
            Self::Softmax => "softmax",
            Self::Binary(_) => "binary",
        }
    }

    /// Whether its name says it all.
    fn has_options(&self) -> bool {
        match self {
            Self::Function(function) => matches!(function, Function::LeakyRelu(_) | Function::Elu(_)),
            Self::BatchNorm(options) => *options != NormOptions::default(),
            Self::Binary(options) => *options != BinaryOptions::default(),
            Self::GlobalAvgPool | Self::Flatten | Self::LastWord | Self::LastStep | Self::Softmax => false,
            _ => true,
        }
    }

    fn serialize_entry<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let key = self.key();
        match self {
            Self::Conv2d(options) => map.serialize_entry(key, options),
            Self::BatchNorm(options) => map.serialize_entry(key, options),
            Self::Function(Function::LeakyRelu(number) | Function::Elu(number)) | Self::Dropout(number) => {
                map.serialize_entry(key, number)
            }
            Self::Function(_)
            | Self::GlobalAvgPool
            | Self::Flatten
            | Self::LastWord
            | Self::LastStep
            | Self::Softmax => map.serialize_entry(key, &()),
            Self::MaxPool2d(options) | Self::AvgPool2d(options) => map.serialize_entry(key, options),
            Self::AdaptiveAvgPool2d(sides) | Self::AdaptiveMaxPool2d(sides) => {
                map.serialize_entry(key, sides)
            }
            Self::Linear(LinearOptions { out, bias: true }) => map.serialize_entry(key, out),
            Self::Linear(options) => map.serialize_entry(key, options),
            Self::Embedding(options) => map.serialize_entry(key, &options.dim),
            Self::Gru(options) | Self::Lstm(options) => map.serialize_entry(key, options),
            Self::Residual(options) => map.serialize_entry(key, options),
            Self::Sequential(layers) => map.serialize_entry(key, layers),
            Self::Repeat(repeat) => map.serialize_entry(key, repeat),
            Self::Binary(options) => map.serialize_entry(key, options),
        }
    }
}

impl Serialize for LayerItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.name.is_none() && self.init.is_none() && !self.layer.has_options() {
            return serializer.serialize_str(self.layer.key());
        }
        let mut map = serializer.serialize_map(None)?;
        self.layer.serialize_entry(&mut map)?;
        if let Some(name) = &self.name {
            map.serialize_entry("name", name)?;
        }
        if let Some(init) = &self.init {
            map.serialize_entry("init", init)?;
        }
        map.end()
    }
}

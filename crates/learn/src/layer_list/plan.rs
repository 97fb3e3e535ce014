use super::flow::Flow;
use super::item::{InitSpec, LayerItem, LayerSpec};
use super::{BinaryOptions, LayerList, net, planner};
use crate::batch::Shape;
use crate::error::{Error, Result};
use crate::layers::{Function, PoolWindow, Stack};
use crate::model::Model;

/// A list of layers for data of a shape: every size is known, and everything fits.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerPlan {
    pub shape: Shape,
    pub layers: Vec<PlannedLayer>,
    pub head: Head,
}

/// A layer with its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedLayer {
    /// Under which its weights are, with the names of the parts that it is in: `features.0`.
    pub name: String,
    /// What it is called in a run file.
    pub key: &'static str,
    pub kind: LayerKind,
    pub input: Flow,
    pub output: Flow,
    pub init: Option<InitSpec>,
    /// What it is called in files of others.
    pub alias: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum LayerKind {
    Conv2d {
        inputs: usize,
        outputs: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        bias: bool,
    },
    /// `image` is what the input was before it was flattened.
    BatchNorm {
        channels: usize,
        image: Option<[usize; 3]>,
        eps: f32,
        momentum: f32,
    },
    Function(Function),
    MaxPool2d(PoolWindow),
    AvgPool2d(PoolWindow),
    AdaptiveAvgPool2d([usize; 2]),
    AdaptiveMaxPool2d([usize; 2]),
    GlobalAvgPool,
    Flatten,
    Dropout(f32),
    /// `image` is what the input was before it was flattened.
    Linear {
        inputs: usize,
        outputs: usize,
        image: Option<[usize; 3]>,
        bias: bool,
    },
    Embedding {
        words: usize,
        dim: usize,
    },
    Recurrent {
        inputs: usize,
        stack: Stack,
    },
    LastWord,
    LastStep,
    Residual {
        layers: Vec<PlannedLayer>,
        shortcut: PlannedShortcut,
        activation: Option<Function>,
    },
    Sequential(Vec<PlannedLayer>),
}

/// The way around the layers of a residual block.
#[derive(Clone, Debug, PartialEq)]
pub enum PlannedShortcut {
    Same,
    /// To so many channels.
    Subsample(usize),
    Layers(Vec<PlannedLayer>),
}

/// What the scores are compared with the labels by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Head {
    /// A score for every class.
    CrossEntropy,
    /// One score; classes from `positive_from` on are positive.
    Binary { positive_from: u32, positive_weight: f32 },
    /// One score, which is the number.
    SquaredError,
}

/// The most parameters: a typing error must not fill the memory.
const MOST_PARAMETERS: usize = 1 << 29;

/// The labels of reviews, and the first of those that count as good unless told otherwise.
const STARS: usize = 5;
const FOUR_STARS: u32 = 3;

impl LayerPlan {
    /// Finds out the sizes of all layers, or what does not fit.
    pub fn of(list: &LayerList, shape: &Shape) -> Result<Self> {
        let (count, head) = split_head(&list.0, shape)?;
        let (layers, flow) = planner::layers(&list.0[..count], shape, head)?;
        let plan = Self { shape: shape.clone(), layers, head };
        plan.check_scores(flow, count)?;
        match plan.parameters() {
            found if found > MOST_PARAMETERS => {
                let message = format!("the model has {found} parameters, more than {MOST_PARAMETERS}");
                Err(Error::at("layers", message))
            }
            _ => Ok(plan),
        }
    }

    /// The model.
    pub fn build(&self) -> Box<dyn Model> {
        Box::new(net::build(self))
    }

    /// What comes out of the last layer.
    pub fn output(&self) -> Flow {
        self.layers.last().map_or_else(|| Flow::of(&self.shape), |layer| layer.output)
    }

    /// How many classes the model tells apart; none, if it gives a number.
    pub fn classes(&self) -> usize {
        match self.head {
            Head::Binary { .. } => 2,
            Head::SquaredError => 0,
            Head::CrossEntropy => classes(&self.shape),
        }
    }

    /// How many parameters the layers have; statistics do not count.
    pub fn parameters(&self) -> usize {
        sum(&self.layers, PlannedLayer::parameters)
    }

    /// How many operations with floats the forward pass of a sample takes, or that of a word of a text.
    pub fn flops(&self) -> usize {
        sum(&self.layers, PlannedLayer::flops)
    }

    /// Whether what comes out can be compared with the labels.
    fn check_scores(&self, flow: Flow, items: usize) -> Result<()> {
        let wants = match self.head {
            Head::Binary { .. } | Head::SquaredError => 1,
            Head::CrossEntropy => classes(&self.shape),
        };
        let end = match self.head {
            Head::SquaredError => "end with `linear: 1`",
            _ => "end with `linear: classes`",
        };
        let is_tagging = matches!(self.shape, Shape::Tagging { .. });
        let (fits, hint) = match flow {
            Flow::Sequence(features) if is_tagging => (features == wants, end),
            Flow::Rows { features, .. } | Flow::Table(features) if !is_tagging => (features == wants, end),
            Flow::Sequence(_) => (false, "put `last_word` before the last `linear`"),
            Flow::Images(_) if self.head == Head::SquaredError => {
                (false, "end with `flatten` and `linear: 1`")
            }
            Flow::Images(_) => (false, "end with `flatten` and `linear: classes`"),
            _ if is_tagging => (false, "every word needs its own scores: leave out `last_word`"),
            _ => (false, end),
        };
        if fits {
            return Ok(());
        }
        let expected = if is_tagging { format!("(words, {wants})") } else { format!("({wants})") };
        let message = format!("the layers end with {flow}, but the data need {expected}: {hint}");
        Err(Error::at(format!("layers[{}]", items.max(1) - 1), message))
    }
}

/// How many of the items are layers, and what the last one says about the loss.
fn split_head(items: &[LayerItem], shape: &Shape) -> Result<(usize, Head)> {
    let Some(last) = items.last() else {
        return Err(Error::at("layers", "the list has no layer: `linear: classes` is the least"));
    };
    let before = items.len() - 1;
    if classes(shape) == 0 {
        let key = last.layer.key();
        return match last.layer {
            LayerSpec::Binary(_) | LayerSpec::Softmax => {
                let message =
                    format!("the data have a number to learn, no classes: end with `linear: 1`, not `{key}`");
                Err(Error::at(format!("layers[{before}]"), message))
            }
            _ => Ok((items.len(), Head::SquaredError)),
        };
    }
    let LayerSpec::Binary(options) = &last.layer else {
        let layers = if last.layer == LayerSpec::Softmax { before } else { items.len() };
        return Ok((layers, Head::CrossEntropy));
    };
    let wrong = |message: String| Err(Error::at(format!("layers[{before}].binary"), message));
    let usual = if classes(shape) == STARS { FOUR_STARS } else { 1 };
    let &BinaryOptions { positive_from, positive_weight } = options;
    let positive_from = positive_from.unwrap_or(usual);
    if positive_from == 0 || positive_from as usize >= classes(shape) {
        return wrong(format!("positive_from must be from 1 to {}", classes(shape).max(2) - 1));
    }
    if !(positive_weight > 0.0 && positive_weight.is_finite()) {
        return wrong("positive_weight must be above 0".to_owned());
    }
    Ok((before, Head::Binary { positive_from, positive_weight }))
}

pub(super) fn classes(shape: &Shape) -> usize {
    match *shape {
        Shape::Images { classes, .. } | Shape::Texts { classes, .. } => classes,
        Shape::Tagging { tags, .. } => tags,
    }
}

fn sum(layers: &[PlannedLayer], of: impl Fn(&PlannedLayer) -> usize) -> usize {
    layers.iter().map(of).fold(0, usize::saturating_add)
}

//! What each layer makes of its input, or why it cannot.

use super::flow::Flow;
use super::item::LayerSpec;
use super::options::{
    ConvOptions, LinearOptions, NormOptions, Outputs, PoolOptions, RecurrentOptions, Sides, SpatialPadding,
};
use super::plan::{Head, LayerKind, classes};
use crate::batch::Shape;
use crate::layers::{Cell, Function, PoolWindow, Stack};

/// The largest size of a layer: a typing error must not fill the memory.
const MOST: usize = 65_536;

/// The largest side of a kernel.
const MOST_KERNEL: usize = 255;

/// The largest side of an adaptive result.
const MOST_SIDE: usize = 1024;

/// The most numbers that a layer may give for a sample.
const MOST_NUMBERS: usize = 1 << 28;

type Fitted = Result<(LayerKind, Flow), String>;

/// What all layers of a model have to know.
pub(super) struct Fit<'s> {
    pub(super) shape: &'s Shape,
    pub(super) head: Head,
}

impl Fit<'_> {
    /// A layer with its sizes, and what comes out of it.
    pub(super) fn layer(&self, layer: &LayerSpec, input: Flow) -> Fitted {
        let (kind, output) = match layer {
            LayerSpec::Conv2d(options) => self.conv(options, input),
            LayerSpec::BatchNorm(options) => norm(options, input),
            LayerSpec::Function(function) => pointwise(layer.key(), input, function_kind(*function)?),
            LayerSpec::MaxPool2d(options) => pool(layer.key(), options, input, LayerKind::MaxPool2d),
            LayerSpec::AvgPool2d(options) => pool(layer.key(), options, input, LayerKind::AvgPool2d),
            LayerSpec::AdaptiveAvgPool2d(sides) => {
                adaptive(layer.key(), *sides, input, LayerKind::AdaptiveAvgPool2d)
            }
            LayerSpec::AdaptiveMaxPool2d(sides) => {
                adaptive(layer.key(), *sides, input, LayerKind::AdaptiveMaxPool2d)
            }
            LayerSpec::GlobalAvgPool => global_average(input),
            LayerSpec::Flatten => flatten(input),
            LayerSpec::Dropout(rate) if (0.0..1.0).contains(rate) => {
                pointwise(layer.key(), input, LayerKind::Dropout(*rate))
            }
            LayerSpec::Dropout(_) => Err("dropout must be from 0 to below 1".to_owned()),
            LayerSpec::Linear(options) => self.linear(options, input),
            LayerSpec::Embedding(options) => self.embedding(options.dim, input),
            LayerSpec::Gru(options) => recurrent(Cell::Gru, options, input),
            LayerSpec::Lstm(options) => recurrent(Cell::Lstm, options, input),
            LayerSpec::LastWord => one_word(layer.key(), LayerKind::LastWord, input),
            LayerSpec::LastStep => one_word(layer.key(), LayerKind::LastStep, input),
            LayerSpec::Softmax | LayerSpec::Binary(_) => {
                Err(format!("{} can only be the last of all layers", layer.key()))
            }
            LayerSpec::Residual(_) | LayerSpec::Sequential(_) | LayerSpec::Repeat(_) => {
                unreachable!("the planner goes into lists")
            }
        }?;
        if output.numbers() > MOST_NUMBERS {
            return Err(format!("{} gives {output}, more than {MOST_NUMBERS} numbers", layer.key()));
        }
        Ok((kind, output))
    }

    fn outputs(&self, outputs: Outputs) -> Result<usize, String> {
        match outputs {
            Outputs::Number(number) => size("out", number),
            Outputs::Classes => Ok(match self.head {
                Head::Binary { .. } | Head::SquaredError => 1,
                Head::CrossEntropy => classes(self.shape),
            }),
        }
    }

    fn conv(&self, options: &ConvOptions, input: Flow) -> Fitted {
        let Some([height, width, inputs]) = input.image() else {
            return Err(takes("conv2d", "images (channels, height, width)", input, ""));
        };
        let &ConvOptions { out, kernel, stride, padding, bias } = options;
        let outputs = self.outputs(out)?;
        let kernel = within("kernel", kernel, 1, MOST_KERNEL)?;
        let stride = within("stride", stride, 1, MOST_KERNEL)?;
        let padding = match padding {
            SpatialPadding::Number(padding) => within("padding", padding, 0, kernel - 1)?,
            SpatialPadding::Same if stride == 1 && kernel % 2 == 1 => kernel / 2,
            SpatialPadding::Same => {
                return Err("padding: same needs an odd kernel and a stride of 1".to_owned());
            }
        };
        let window = PoolWindow { kernel, stride, padding };
        let [rows, columns] = window_results("conv2d", &window, [height, width], input)?;
        let kind = LayerKind::Conv2d { inputs, outputs, kernel, stride, padding, bias };
        Ok((kind, Flow::Images([rows, columns, outputs])))
    }

    fn linear(&self, options: &LinearOptions, input: Flow) -> Fitted {
        let outputs = self.outputs(options.out)?;
        let kind = |inputs, image| LayerKind::Linear { inputs, outputs, image, bias: options.bias };
        let rows = Flow::Rows { features: outputs, image: None };
        match input {
            Flow::Table(inputs) => Ok((kind(inputs, None), rows)),
            Flow::Rows { features, image } => Ok((kind(features, image), rows)),
            Flow::Sequence(features) => Ok((kind(features, None), Flow::Sequence(outputs))),
            Flow::Images(_) => Err(takes("linear", "rows of features", input, ": put `flatten` before it")),
            Flow::Words => Err(takes("linear", "rows of features", input, ": put `embedding` before it")),
        }
    }

    fn embedding(&self, dim: usize, input: Flow) -> Fitted {
        let dim = size("dim", dim)?;
        match (input, self.shape) {
            (Flow::Words, &(Shape::Tagging { words, .. } | Shape::Texts { words, .. })) => {
                Ok((LayerKind::Embedding { words, dim }, Flow::Sequence(dim)))
            }
            _ => Err(takes("embedding", "words", input, "")),
        }
    }
}

/// The same message for every layer that does not fit.
fn takes(layer: &str, wants: &str, input: Flow, hint: &str) -> String {
    format!("{layer} takes {wants}, but its input is {input}{hint}")
}

fn within(option: &str, value: usize, least: usize, most: usize) -> Result<usize, String> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(if least == most {
        format!("{option} must be {least}")
    } else {
        format!("{option} must be from {least} to {most}")
    })
}

fn size(option: &str, value: usize) -> Result<usize, String> {
    within(option, value, 1, MOST)
}

fn function_kind(function: Function) -> Result<LayerKind, String> {
    match function {
        Function::LeakyRelu(slope) if !(slope > 0.0 && slope < 1.0) => {
            Err("leaky_relu must be above 0 and below 1: the slope of what is negative".to_owned())
        }
        Function::Elu(alpha) if !(alpha > 0.0 && alpha.is_finite()) => Err("elu must be above 0".to_owned()),
        function => Ok(LayerKind::Function(function)),
    }
}

fn pointwise(layer: &str, input: Flow, kind: LayerKind) -> Fitted {
    match input {
        Flow::Words => Err(takes(layer, "numbers", input, ": put `embedding` before it")),
        _ => Ok((kind, input)),
    }
}

fn norm(options: &NormOptions, input: Flow) -> Fitted {
    let &NormOptions { eps, momentum } = options;
    if !(eps > 0.0 && eps.is_finite()) {
        return Err("eps must be above 0".to_owned());
    }
    if !(0.0..=1.0).contains(&momentum) {
        return Err("momentum must be from 0 to 1".to_owned());
    }
    let (channels, image) = match input {
        Flow::Images([.., channels]) | Flow::Table(channels) => (channels, None),
        Flow::Rows { features, image } => (features, image),
        Flow::Sequence(_) | Flow::Words => {
            return Err(takes("batch_norm", "images or rows of features", input, ""));
        }
    };
    Ok((LayerKind::BatchNorm { channels, image, eps, momentum }, input))
}

/// How many windows there are along both sides.
fn window_results(
    layer: &str,
    window: &PoolWindow,
    sides: [usize; 2],
    input: Flow,
) -> Result<[usize; 2], String> {
    let results = sides.map(|side| window.results(side));
    match results {
        [Some(rows), Some(columns)] => Ok([rows, columns]),
        _ => {
            let least = window.kernel - 2 * window.padding.min(window.kernel / 2);
            let wants = format!("images of at least {least}×{least}");
            Err(takes(layer, &wants, input, " (channels, height, width)"))
        }
    }
}

fn pool(layer: &str, options: &PoolOptions, input: Flow, kind: fn(PoolWindow) -> LayerKind) -> Fitted {
    let Some([height, width, channels]) = input.image() else {
        return Err(takes(layer, "images (channels, height, width)", input, ""));
    };
    let kernel = within("kernel", options.kernel, 1, MOST_KERNEL)?;
    let stride = within("stride", options.stride.unwrap_or(kernel), 1, MOST_KERNEL)?;
    let padding = within("padding", options.padding, 0, kernel / 2)?;
    let window = PoolWindow { kernel, stride, padding };
    let [rows, columns] = window_results(layer, &window, [height, width], input)?;
    Ok((kind(window), Flow::Images([rows, columns, channels])))
}

fn adaptive(layer: &str, sides: Sides, input: Flow, kind: fn([usize; 2]) -> LayerKind) -> Fitted {
    let Some([.., channels]) = input.image() else {
        return Err(takes(layer, "images (channels, height, width)", input, ""));
    };
    let [rows, columns] = sides.0;
    let rows = within("height", rows, 1, MOST_SIDE)?;
    let columns = within("width", columns, 1, MOST_SIDE)?;
    Ok((kind([rows, columns]), Flow::Images([rows, columns, channels])))
}

fn global_average(input: Flow) -> Fitted {
    match input.image() {
        Some([.., features]) => Ok((LayerKind::GlobalAvgPool, Flow::Rows { features, image: None })),
        None => Err(takes("global_avg_pool", "images (channels, height, width)", input, "")),
    }
}

fn flatten(input: Flow) -> Fitted {
    let output = match input {
        Flow::Images(size) => Flow::Rows { features: input.numbers(), image: Some(size) },
        Flow::Table(features) => Flow::Rows { features, image: Some([1, 1, features]) },
        Flow::Rows { .. } => input,
        Flow::Words | Flow::Sequence(_) => {
            return Err(takes("flatten", "images", input, ": `last_word` makes one row of a text"));
        }
    };
    Ok((LayerKind::Flatten, output))
}

fn recurrent(cell: Cell, options: &RecurrentOptions, input: Flow) -> Fitted {
    let layer = if cell == Cell::Gru { "gru" } else { "lstm" };
    let Flow::Sequence(inputs) = input else {
        let hint = if input == Flow::Words { ": put `embedding` before it" } else { "" };
        return Err(takes(layer, "features for every word", input, hint));
    };
    let &RecurrentOptions { hidden, layers, bidirectional, dropout } = options;
    let hidden = size("hidden", hidden)?;
    let layers = within("layers", layers, 1, 100)?;
    if !(0.0..1.0).contains(&dropout) {
        return Err("dropout must be from 0 to below 1".to_owned());
    }
    let stack = Stack { cell, hidden, layers, bidirectional, dropout };
    Ok((LayerKind::Recurrent { inputs, stack }, Flow::Sequence(stack.outputs())))
}

fn one_word(layer: &str, kind: LayerKind, input: Flow) -> Fitted {
    match input {
        Flow::Sequence(features) => Ok((kind, Flow::Rows { features, image: None })),
        _ => Err(takes(layer, "features for every word", input, "")),
    }
}

//! A plan as a network. A function behind a layer that takes an activation becomes part of it, and so does the sum of a
//! residual block that ends with a batch norm.

use super::plan::{Head, LayerKind, LayerPlan, PlannedLayer, PlannedShortcut};
use super::{Flow, lanes};
use crate::layers::{Activation, BatchNorm, Conv2d, Embedding, Function, Linear, PoolWindow, Recurrent};
use crate::layout::Layout;
use crate::model::{Net, Network};
use crate::tape::{Tape, Var};

/// The model of a plan.
pub(super) fn build(plan: &LayerPlan) -> Net<LayeredNet> {
    Net::new(|layout| LayeredNet {
        steps: steps(layout, &plan.layers),
        entry: match Flow::of(&plan.shape) {
            Flow::Words => Entry::Words,
            _ if lanes::suit(&plan.layers) => Entry::Lanes,
            _ => Entry::Images,
        },
        head: plan.head,
        classes: plan.classes(),
    })
}

#[derive(Debug)]
pub(super) struct LayeredNet {
    steps: Vec<Step>,
    entry: Entry,
    head: Head,
    classes: usize,
}

/// How the samples enter.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// By the embedding, which is the first layer.
    Words,
    Images,
    Lanes,
}

/// Layers with what is fused into them.
#[derive(Debug)]
enum Step {
    Conv(Conv2d, Activation),
    Linear(Linear, Activation),
    /// The activation is none or ReLU.
    Norm(BatchNorm, Activation),
    Function(Function),
    MaxPool(PoolWindow),
    AvgPool(PoolWindow),
    AdaptiveAvg([usize; 2]),
    AdaptiveMax([usize; 2]),
    Dropout(f32),
    Embedding(Embedding),
    Recurrent(Recurrent),
    LastWord,
    BehindPadding,
    Residual(Residual),
}

#[derive(Debug)]
struct Residual {
    steps: Vec<Step>,
    shortcut: Bypass,
    /// Whether the last step, a batch norm, adds the shortcut.
    is_fused: bool,
}

#[derive(Debug)]
enum Bypass {
    Same,
    Subsample(usize),
    Steps(Vec<Step>),
}

fn steps(layout: &mut Layout, layers: &[PlannedLayer]) -> Vec<Step> {
    let mut steps = Vec::new();
    add_layers(layout, layers, &mut steps);
    steps
}

fn add_layers(layout: &mut Layout, layers: &[PlannedLayer], steps: &mut Vec<Step>) {
    for layer in layers {
        let first = layout.tensors().len();
        add_layer(layout, layer, steps);
        if let Some(init) = layer.init {
            layout.init_from(first, init);
        }
        if let Some(alias) = &layer.alias {
            layout.alias(&layer.name, alias);
        }
    }
}

fn add_layer(layout: &mut Layout, layer: &PlannedLayer, steps: &mut Vec<Step>) {
    let name = &layer.name;
    let step = match &layer.kind {
        &LayerKind::Conv2d { inputs, outputs, kernel, stride, padding, bias } => {
            let make = if bias { Conv2d::new } else { Conv2d::without_bias };
            let conv = make(layout, name, inputs, outputs, kernel).stride(stride).padding(padding);
            Step::Conv(conv, Activation::None)
        }
        &LayerKind::BatchNorm { channels, image, eps, momentum } => {
            let norm = match image {
                Some(image) => BatchNorm::of_image(layout, name, image),
                None => BatchNorm::new(layout, name, channels),
            };
            Step::Norm(norm.epsilon(eps).momentum(momentum), Activation::None)
        }
        LayerKind::Function(function) => return add_function(steps, *function),
        LayerKind::MaxPool2d(window) => Step::MaxPool(*window),
        LayerKind::AvgPool2d(window) => Step::AvgPool(*window),
        LayerKind::AdaptiveAvgPool2d(sides) => Step::AdaptiveAvg(*sides),
        LayerKind::AdaptiveMaxPool2d(sides) => Step::AdaptiveMax(*sides),
        LayerKind::GlobalAvgPool => Step::AdaptiveAvg([1, 1]),
        // A linear layer takes an image as it lies in memory.
        LayerKind::Flatten => return,
        LayerKind::Dropout(rate) => Step::Dropout(*rate),
        &LayerKind::Linear { inputs, outputs, image, bias } => {
            let linear = match (bias, image) {
                (false, image) => Linear::without_bias(layout, name, inputs, image, outputs),
                (true, Some(image)) => Linear::of_image(layout, name, image, outputs),
                (true, None) => Linear::new(layout, name, inputs, outputs),
            };
            Step::Linear(linear, Activation::None)
        }
        LayerKind::Embedding { words, dim } => Step::Embedding(Embedding::new(layout, name, *words, *dim)),
        LayerKind::Recurrent { inputs, stack } => {
            Step::Recurrent(Recurrent::new(layout, name, *inputs, stack))
        }
        LayerKind::LastWord => Step::LastWord,
        LayerKind::LastStep => Step::BehindPadding,
        LayerKind::Sequential(layers) => return add_layers(layout, layers, steps),
        LayerKind::Residual { layers, shortcut, activation } => {
            steps.push(Step::Residual(residual(layout, layers, shortcut)));
            return activation.iter().for_each(|function| add_function(steps, *function));
        }
    };
    steps.push(step);
}

fn residual(layout: &mut Layout, layers: &[PlannedLayer], shortcut: &PlannedShortcut) -> Residual {
    let steps = steps(layout, layers);
    let is_fused = matches!(steps.last(), Some(Step::Norm(_, Activation::None)));
    let shortcut = match shortcut {
        PlannedShortcut::Same => Bypass::Same,
        PlannedShortcut::Subsample(channels) => Bypass::Subsample(*channels),
        PlannedShortcut::Layers(layers) => Bypass::Steps(self::steps(layout, layers)),
    };
    Residual { steps, shortcut, is_fused }
}

/// A function as part of the last step, or else as a step of its own.
fn add_function(steps: &mut Vec<Step>, function: Function) {
    let activation = match function {
        Function::Relu => Activation::Relu,
        Function::Tanh => Activation::Tanh,
        _ => Activation::None,
    };
    if let Some(Step::Conv(_, open) | Step::Linear(_, open)) = steps.last_mut()
        && *open == Activation::None
        && activation != Activation::None
    {
        *open = activation;
        return;
    }
    let norm = match steps.last_mut() {
        Some(Step::Residual(block)) if block.is_fused => block.steps.last_mut(),
        Some(Step::Residual(_)) => None,
        last => last,
    };
    if let Some(Step::Norm(_, open @ Activation::None)) = norm
        && activation == Activation::Relu
    {
        *open = activation;
        return;
    }
    steps.push(Step::Function(function));
}

impl Network for LayeredNet {
    fn forward(&self, tape: &mut Tape<'_>) {
        let (x, rest) = match (self.entry, self.steps.as_slice()) {
            (Entry::Words, [Step::Embedding(embedding), rest @ ..]) => (embedding.forward(tape), rest),
            (Entry::Words, _) => unreachable!("only an embedding takes words"),
            (Entry::Images, steps) => (tape.images(), steps),
            (Entry::Lanes, steps) => (tape.images_in_lanes(), steps),
        };
        let scores = run(rest, tape, x, None);
        match self.head {
            Head::CrossEntropy => tape.cross_entropy(scores),
            Head::SquaredError => tape.squared_error(scores),
            Head::Binary { positive_from, positive_weight } => {
                tape.binary_cross_entropy(scores, positive_from, positive_weight);
            }
        }
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn shares_products(&self) -> bool {
        let is_plain = |step: &Step| {
            matches!(step, Step::Linear(..) | Step::Norm(..) | Step::Function(_) | Step::Dropout(_))
        };
        let is_large = |step: &Step| matches!(step, Step::Linear(linear, _) if linear.is_large());
        self.steps.iter().all(is_plain) && self.steps.iter().any(is_large)
    }
}

/// Applies the steps; the last one, a batch norm, adds `residual` if there is one.
fn run(steps: &[Step], tape: &mut Tape<'_>, mut x: Var, mut residual: Option<Var>) -> Var {
    for (i, step) in steps.iter().enumerate() {
        x = match step {
            Step::Conv(conv, activation) => conv.forward(tape, x, *activation),
            Step::Linear(linear, activation) => linear.forward(tape, x, *activation),
            Step::Norm(norm, activation) => {
                let residual = if i + 1 == steps.len() { residual.take() } else { None };
                norm.forward(tape, x, residual, *activation)
            }
            Step::Function(function) => tape.function(x, *function),
            Step::MaxPool(window) => tape.max_pool_by(x, *window),
            Step::AvgPool(window) => tape.average_pool_by(x, *window),
            Step::AdaptiveAvg(sides) => tape.adaptive_average_pool(x, *sides),
            Step::AdaptiveMax(sides) => tape.adaptive_max_pool(x, *sides),
            Step::Dropout(rate) => tape.dropout(x, *rate),
            Step::Embedding(_) => unreachable!("words are only the input"),
            Step::Recurrent(recurrent) => recurrent.forward(tape, x),
            Step::LastWord => tape.last_word(x),
            Step::BehindPadding => tape.last_step(x),
            Step::Residual(block) => block.forward(tape, x),
        };
    }
    x
}

impl Residual {
    fn forward(&self, tape: &mut Tape<'_>, x: Var) -> Var {
        let around = match &self.shortcut {
            Bypass::Same => x.clone(),
            Bypass::Subsample(channels) => tape.subsample(x.clone(), *channels),
            Bypass::Steps(steps) => run(steps, tape, x.clone(), None),
        };
        if self.is_fused {
            return run(&self.steps, tape, x, Some(around));
        }
        let y = run(&self.steps, tape, x, None);
        tape.sum(y, around)
    }
}

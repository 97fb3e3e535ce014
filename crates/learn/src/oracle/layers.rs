//! Chains of layers, to test layers that no model has, or that no model uses in every way.

use serde::Deserialize;

use crate::layers::{Activation, BatchNorm, Conv2d, Linear};
use crate::{Layout, Model, Net, Network, Tape, Var};

/// Layers as the fixture lists them.
#[derive(Deserialize)]
pub(super) struct Layers {
    /// Whether samples are innermost in memory.
    lanes: bool,
    steps: Vec<LayerSpec>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LayerSpec {
    Conv(ConvSpec),
    Linear(LinearSpec),
    Norm(usize),
    Average(usize),
    Max(usize),
    AdaptiveAverage([usize; 2]),
    AdaptiveMax([usize; 2]),
    #[serde(rename = "thin_out")]
    Subsample(usize),
}

#[derive(Clone, Deserialize)]
struct ConvSpec {
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    bias: bool,
    activation: ActivationSpec,
}

#[derive(Clone, Deserialize)]
struct LinearSpec {
    height: usize,
    width: usize,
    channels: usize,
    outputs: usize,
    activation: ActivationSpec,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActivationSpec {
    None,
    Relu,
    Tanh,
}

impl From<ActivationSpec> for Activation {
    fn from(spec: ActivationSpec) -> Self {
        match spec {
            ActivationSpec::None => Self::None,
            ActivationSpec::Relu => Self::Relu,
            ActivationSpec::Tanh => Self::Tanh,
        }
    }
}

impl Layers {
    pub(super) fn build(&self) -> Box<dyn Model> {
        let Some(&LayerSpec::Linear(LinearSpec { outputs: classes, .. })) = self.steps.last() else {
            unreachable!("the last layer gives the scores");
        };
        Box::new(Net::new(|layout| {
            let stages = self.steps.iter().enumerate().map(|(i, step)| step.build(layout, i)).collect();
            LayerChain { lanes: self.lanes, stages, classes }
        }))
    }
}

/// The forward pass of one layer.
type LayerForward = Box<dyn Fn(&mut Tape<'_>, Var) -> Var + Send>;

impl LayerSpec {
    fn build(&self, layout: &mut Layout, number: usize) -> LayerForward {
        let name = format!("layer{number}");
        match self.clone() {
            Self::Conv(ConvSpec { inputs, outputs, kernel, stride, padding, bias, activation }) => {
                let make = if bias { Conv2d::new } else { Conv2d::without_bias };
                let conv = make(layout, &name, inputs, outputs, kernel).stride(stride).padding(padding);
                Box::new(move |tape, x| conv.forward(tape, x, activation.into()))
            }
            Self::Linear(LinearSpec { height, width, channels, outputs, activation }) => {
                let linear = Linear::of_image(layout, &name, [height, width, channels], outputs);
                Box::new(move |tape, x| linear.forward(tape, x, activation.into()))
            }
            Self::Norm(channels) => {
                let norm = BatchNorm::new(layout, &name, channels);
                Box::new(move |tape, x| norm.forward(tape, x, None, Activation::None))
            }
            Self::Average(size) => Box::new(move |tape, x| tape.average_pool(x, size)),
            Self::Max(size) => Box::new(move |tape, x| tape.max_pool(x, size)),
            Self::AdaptiveAverage(to) => Box::new(move |tape, x| tape.adaptive_average_pool(x, to)),
            Self::AdaptiveMax(to) => Box::new(move |tape, x| tape.adaptive_max_pool(x, to)),
            Self::Subsample(channels) => Box::new(move |tape, x| tape.subsample(x, channels)),
        }
    }
}

struct LayerChain {
    lanes: bool,
    stages: Vec<LayerForward>,
    classes: usize,
}

impl Network for LayerChain {
    fn forward(&self, tape: &mut Tape<'_>) {
        let x = if self.lanes { tape.images_in_lanes() } else { tape.images() };
        let scores = self.stages.iter().fold(x, |x, stage| stage(tape, x));
        tape.cross_entropy(scores);
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

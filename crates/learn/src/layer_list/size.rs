//! How large the layers of a plan are: parameters, and operations.

use super::flow::Flow;
use super::plan::{LayerKind, PlannedLayer, PlannedShortcut};
use crate::layers::{Cell, Stack};

impl PlannedLayer {
    /// How many parameters the layer has, those of its parts included; statistics do not count.
    pub fn parameters(&self) -> usize {
        match &self.kind {
            LayerKind::Conv2d { inputs, outputs, kernel, bias, .. } => {
                product(&[*inputs, *outputs, *kernel, *kernel]) + if *bias { *outputs } else { 0 }
            }
            LayerKind::BatchNorm { channels, .. } => 2 * channels,
            LayerKind::Linear { inputs, outputs, bias, .. } => {
                product(&[*inputs, *outputs]).saturating_add(if *bias { *outputs } else { 0 })
            }
            LayerKind::Embedding { words, dim } => product(&[*words, *dim]),
            LayerKind::Recurrent { inputs, stack } => over_directions(*inputs, stack, |inputs, gates| {
                product(&[gates, inputs + stack.hidden]).saturating_add(2 * gates)
            }),
            _ => sum_of_parts(self, Self::parameters),
        }
    }

    /// How many operations with floats the forward pass takes for a sample, or for a word of a text: two for every
    /// product that is added, one for every number that a layer without weights touches.
    pub fn flops(&self) -> usize {
        let (inputs_read, given) = (self.input.numbers(), self.output.numbers());
        match &self.kind {
            LayerKind::Conv2d { inputs, kernel, bias, .. } => {
                product(&[given, 2 * inputs * kernel * kernel]).saturating_add(if *bias { given } else { 0 })
            }
            LayerKind::Linear { inputs, bias, .. } => {
                product(&[given, 2 * inputs]).saturating_add(if *bias { given } else { 0 })
            }
            LayerKind::BatchNorm { .. } => 2 * given,
            LayerKind::Recurrent { inputs, stack } => {
                over_directions(*inputs, stack, |inputs, gates| product(&[2 * gates, inputs + stack.hidden]))
            }
            LayerKind::MaxPool2d(window) | LayerKind::AvgPool2d(window) => {
                product(&[given, window.kernel * window.kernel])
            }
            LayerKind::AdaptiveAvgPool2d(_) | LayerKind::AdaptiveMaxPool2d(_) | LayerKind::GlobalAvgPool => {
                inputs_read
            }
            LayerKind::Function(_) => given,
            LayerKind::Residual { activation, .. } => {
                let sum = given + if activation.is_some() { given } else { 0 };
                sum_of_parts(self, Self::flops).saturating_add(sum)
            }
            LayerKind::Sequential(_) => sum_of_parts(self, Self::flops),
            LayerKind::Flatten
            | LayerKind::Dropout(_)
            | LayerKind::Embedding { .. }
            | LayerKind::LastWord
            | LayerKind::LastStep => 0,
        }
    }

    /// The layers inside, those on the way around a residual block last.
    pub fn parts(&self) -> impl Iterator<Item = &PlannedLayer> {
        let (inner, around): (&[_], &[_]) = match &self.kind {
            LayerKind::Sequential(layers) => (layers, &[]),
            LayerKind::Residual { layers, shortcut: PlannedShortcut::Layers(around), .. } => (layers, around),
            LayerKind::Residual { layers, .. } => (layers, &[]),
            _ => (&[], &[]),
        };
        inner.iter().chain(around)
    }

    /// Whether it gives something for every word.
    pub fn is_per_word(&self) -> bool {
        matches!(self.output, Flow::Sequence(_) | Flow::Words)
    }
}

fn product(factors: &[usize]) -> usize {
    factors.iter().fold(1, |product, factor| product.saturating_mul(*factor))
}

fn sum_of_parts(layer: &PlannedLayer, of: impl Fn(&PlannedLayer) -> usize) -> usize {
    layer.parts().map(of).fold(0, usize::saturating_add)
}

/// The sum over the directions of all layers of a stack, of which each has so many inputs and gates.
fn over_directions(inputs: usize, stack: &Stack, of: impl Fn(usize, usize) -> usize) -> usize {
    let directions = if stack.bidirectional { 2 } else { 1 };
    let gates = stack.hidden * if stack.cell == Cell::Gru { 3 } else { 4 };
    let layer = |i: usize| of(if i == 0 { inputs } else { stack.outputs() }, gates);
    (0..stack.layers).map(|i| directions * layer(i)).fold(0, usize::saturating_add)
}

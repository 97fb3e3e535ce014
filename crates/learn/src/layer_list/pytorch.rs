//! A plan as Python: the module that computes the same, with the same names of weights.

use std::fmt::Write;

use super::flow::Flow;
use super::plan::{Head, LayerKind, LayerPlan, PlannedLayer, PlannedShortcut};
use crate::layers::{Cell, Function, PoolWindow, Stack};

/// The module as a file of Python that defines `model`.
pub fn module(plan: &LayerPlan) -> String {
    let text = Flow::of(&plan.shape) == Flow::Words;
    let writer = Writer { text };
    let body = writer.container("Sequential", &plan.layers, &[], 0);
    let mut file = String::new();
    if body.contains("OrderedDict(") {
        file.push_str("from collections import OrderedDict\n\n");
    }
    file.push_str("import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n");
    if text {
        file.push_str(LENGTHS);
    }
    for (class, definition) in CLASSES {
        if body.contains(&format!("{class}(")) {
            file.push_str(definition);
        }
    }
    if body.contains("Residual(") {
        file.push_str(if text { RESIDUAL_OF_WORDS } else { RESIDUAL });
    }
    let _ = write!(file, "\n\nmodel = {body}\n{}", loss(plan));
    file
}

/// How the loss is taken, as a comment.
fn loss(plan: &LayerPlan) -> String {
    match plan.head {
        Head::CrossEntropy if matches!(plan.output(), Flow::Sequence(_)) => {
            "# loss: nn.CrossEntropyLoss()(scores.flatten(0, 1), tags.flatten()), without padding\n"
                .to_owned()
        }
        Head::CrossEntropy => "# loss: nn.CrossEntropyLoss()(scores, labels)\n".to_owned(),
        Head::SquaredError => "# loss: nn.MSELoss()(scores[:, 0], values)\n".to_owned(),
        Head::Binary { positive_from, positive_weight } => format!(
            "# loss: F.binary_cross_entropy_with_logits(scores[:, 0], (labels >= {positive_from}).float(), \
             pos_weight=torch.tensor({positive_weight:?}))\n"
        ),
    }
}

/// Texts end at different words. Layers that have to know where are told.
const LENGTHS: &str = r#"from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def apply(layer, x, lengths):
    return layer(x, lengths) if getattr(layer, "takes_lengths", False) else layer(x)


class Sequential(nn.Sequential):
    takes_lengths = True

    def forward(self, x, lengths=None):
        if lengths is None:  # x is (texts, words), and 0 is padding
            lengths = (x != 0).sum(1)
        for layer in self:
            x = apply(layer, x, lengths)
        return x
"#;

/// Classes that a module may use, with their names.
const CLASSES: &[(&str, &str)] = &[
    (
        "GRU",
        r#"

class GRU(nn.GRU):
    takes_lengths = True

    def forward(self, x, lengths):
        if not self.bidirectional:
            return super().forward(x)[0]
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(super().forward(packed)[0], batch_first=True, total_length=x.shape[1])[0]
"#,
    ),
    (
        "LSTM",
        r#"

class LSTM(nn.LSTM):
    takes_lengths = True

    def forward(self, x, lengths):
        if not self.bidirectional:
            return super().forward(x)[0]
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(super().forward(packed)[0], batch_first=True, total_length=x.shape[1])[0]
"#,
    ),
    (
        "LastWord",
        r#"

class LastWord(nn.Module):
    takes_lengths = True

    def forward(self, x, lengths):
        return x[torch.arange(len(x)), lengths - 1]
"#,
    ),
    (
        "LastStep",
        r#"

class LastStep(nn.Module):
    def forward(self, x):
        return x[:, -1]
"#,
    ),
    (
        "GlobalAvgPool",
        r#"

class GlobalAvgPool(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))
"#,
    ),
    (
        "Subsample",
        r#"

class Subsample(nn.Module):
    """Every second place of every second row, with channels of zeros on both sides."""

    def __init__(self, channels):
        super().__init__()
        self.channels = channels

    def forward(self, x):
        more = self.channels - x.shape[1]
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, more // 2, more - more // 2))
"#,
    ),
];

const RESIDUAL: &str = r#"

class Residual(nn.Sequential):
    """Layers whose result is added to what they began with."""

    def __init__(self, *layers, downsample=None, activation=None):
        super().__init__(*layers)
        self.downsample, self.activation = downsample, activation

    def forward(self, x):
        y = x
        for name, layer in self.named_children():
            if name != "downsample":
                y = layer(y)
        y = y + (x if self.downsample is None else self.downsample(x))
        return y if self.activation is None else self.activation(y)
"#;

const RESIDUAL_OF_WORDS: &str = r#"

class Residual(nn.Sequential):
    """Layers whose result is added to what they began with."""

    takes_lengths = True

    def __init__(self, *layers, downsample=None, activation=None):
        super().__init__(*layers)
        self.downsample, self.activation = downsample, activation

    def forward(self, x, lengths):
        y = x
        for name, layer in self.named_children():
            if name != "downsample":
                y = apply(layer, y, lengths)
        y = y + (x if self.downsample is None else apply(self.downsample, x, lengths))
        return y if self.activation is None else self.activation(y)
"#;

struct Writer {
    /// Whether the model reads texts.
    text: bool,
}

impl Writer {
    /// A class of layers with its arguments behind them; `indent` is that of its first line.
    fn container(&self, class: &str, layers: &[PlannedLayer], more: &[String], indent: usize) -> String {
        let class = if class == "Sequential" && !self.text { "nn.Sequential" } else { class };
        let is_numbered = layers.iter().enumerate().all(|(i, layer)| local_name(layer) == i.to_string());
        let inner = if is_numbered { indent + 4 } else { indent + 8 };
        let margin = " ".repeat(inner);
        let mut lines = String::new();
        for layer in layers {
            let layer_text = self.layer(layer, inner);
            let _ = match is_numbered {
                true => writeln!(lines, "{margin}{layer_text},"),
                false => writeln!(lines, "{margin}(\"{}\", {layer_text}),", local_name(layer)),
            };
        }
        let end = " ".repeat(indent);
        let more: String = more.iter().map(|argument| format!("{end}    {argument},\n")).collect();
        if is_numbered {
            return format!("{class}(\n{lines}{more}{end})");
        }
        format!("{class}(\n{end}    OrderedDict([\n{lines}{end}    ]),\n{more}{end})")
    }

    fn layer(&self, layer: &PlannedLayer, indent: usize) -> String {
        match &layer.kind {
            LayerKind::Conv2d { inputs, outputs, kernel, stride, padding, bias } => {
                let mut options = String::new();
                for (name, value, default) in [("stride", stride, 1), ("padding", padding, 0)] {
                    if *value != default {
                        let _ = write!(options, ", {name}={value}");
                    }
                }
                format!("nn.Conv2d({inputs}, {outputs}, {kernel}{options}{})", without_bias(*bias))
            }
            LayerKind::BatchNorm { channels, eps, momentum, .. } => {
                let sides = if matches!(layer.input, Flow::Images(_)) { 2 } else { 1 };
                let mut options = String::new();
                for (name, value, default) in [("eps", eps, 1e-5), ("momentum", momentum, 0.1)] {
                    if *value != default {
                        let _ = write!(options, ", {name}={value:?}");
                    }
                }
                format!("nn.BatchNorm{sides}d({channels}{options})")
            }
            LayerKind::Function(function) => function_module(*function),
            LayerKind::MaxPool2d(window) => format!("nn.MaxPool2d({})", window_options(window)),
            LayerKind::AvgPool2d(window) => format!("nn.AvgPool2d({})", window_options(window)),
            LayerKind::AdaptiveAvgPool2d([a, b]) => format!("nn.AdaptiveAvgPool2d(({a}, {b}))"),
            LayerKind::AdaptiveMaxPool2d([a, b]) => format!("nn.AdaptiveMaxPool2d(({a}, {b}))"),
            LayerKind::GlobalAvgPool => "GlobalAvgPool()".to_owned(),
            LayerKind::Flatten => "nn.Flatten()".to_owned(),
            LayerKind::Dropout(rate) => format!("nn.Dropout({rate:?})"),
            LayerKind::Linear { inputs, outputs, bias, .. } => {
                format!("nn.Linear({inputs}, {outputs}{})", without_bias(*bias))
            }
            LayerKind::Embedding { words, dim } => format!("nn.Embedding({words}, {dim}, padding_idx=0)"),
            LayerKind::Recurrent { inputs, stack } => recurrent(*inputs, stack),
            LayerKind::LastWord => "LastWord()".to_owned(),
            LayerKind::LastStep => "LastStep()".to_owned(),
            LayerKind::Sequential(layers) => self.container("Sequential", layers, &[], indent),
            LayerKind::Residual { layers, shortcut, activation } => {
                let around = match shortcut {
                    PlannedShortcut::Same => None,
                    PlannedShortcut::Subsample(channels) => Some(format!("Subsample({channels})")),
                    PlannedShortcut::Layers(layers) => {
                        Some(self.container("Sequential", layers, &[], indent + 4))
                    }
                };
                let around = around.map(|around| format!("downsample={around}"));
                let activation = activation.map(|function| format!("activation={}", functional(function)));
                let more: Vec<String> = around.into_iter().chain(activation).collect();
                self.container("Residual", layers, &more, indent)
            }
        }
    }
}

/// A layer's name in its own list.
fn local_name(layer: &PlannedLayer) -> &str {
    layer.name.rsplit('.').next().unwrap_or_default()
}

fn without_bias(bias: bool) -> &'static str {
    if bias { "" } else { ", bias=False" }
}

fn window_options(window: &PoolWindow) -> String {
    let PoolWindow { kernel, stride, padding } = window;
    match (stride == kernel, padding) {
        (true, 0) => kernel.to_string(),
        (_, 0) => format!("{kernel}, stride={stride}"),
        _ => format!("{kernel}, stride={stride}, padding={padding}"),
    }
}

fn recurrent(inputs: usize, stack: &Stack) -> String {
    let &Stack { cell, hidden, layers, bidirectional, dropout } = stack;
    let class = if cell == Cell::Gru { "GRU" } else { "LSTM" };
    let mut options = String::new();
    if layers > 1 {
        let _ = write!(options, ", num_layers={layers}");
    }
    if bidirectional {
        options.push_str(", bidirectional=True");
    }
    if dropout > 0.0 {
        let _ = write!(options, ", dropout={dropout:?}");
    }
    format!("{class}({inputs}, {hidden}{options}, batch_first=True)")
}

fn function_module(function: Function) -> String {
    match function {
        Function::Relu => "nn.ReLU()".to_owned(),
        Function::Tanh => "nn.Tanh()".to_owned(),
        Function::Sigmoid => "nn.Sigmoid()".to_owned(),
        Function::Gelu => "nn.GELU()".to_owned(),
        Function::Silu => "nn.SiLU()".to_owned(),
        Function::LeakyRelu(slope) => format!("nn.LeakyReLU({slope:?})"),
        Function::Elu(alpha) => format!("nn.ELU({alpha:?})"),
    }
}

fn functional(function: Function) -> String {
    match function {
        Function::Tanh | Function::Sigmoid => format!("torch.{}", function.name()),
        Function::LeakyRelu(slope) => format!("lambda x: F.leaky_relu(x, {slope:?})"),
        Function::Elu(alpha) => format!("lambda x: F.elu(x, {alpha:?})"),
        function => format!("F.{}", function.name()),
    }
}

//! What TensorBoard is told of a run beside its events.

use std::time::Instant;

use bonfire_learn::Layout;
use bonfire_learn::layout::TensorKind;
use bonfire_report::{GraphLayer, HostFacts, TensorBoardFacts};
use serde_json::Value;

use super::Run;
use crate::job::Job;

pub(super) fn facts(job: &Job) -> TensorBoardFacts {
    let mut hyperparameters = Vec::new();
    if let Ok(file) = serde_json::to_value(&job.settings.file) {
        flatten("", &file, &mut hyperparameters);
    }
    let host = HostFacts::collect(None).hostname;
    TensorBoardFacts { hyperparameters, layers: layers(job.layout()), host }
}

impl Run {
    /// Keeps how the weights are spread, if that was asked for.
    pub(super) fn keep_histograms(&mut self) {
        if !self.job.settings.file.histograms {
            return;
        }
        let parameters = &self.job.replica.parameters;
        let tensors = self.job.layout().tensors().iter();
        let values: Vec<(String, Vec<f32>)> =
            tensors.map(|tensor| (tensor.name.clone(), parameters[tensor.range.clone()].to_vec())).collect();
        self.log.histograms(Instant::now(), self.progress.round, &values);
    }
}

/// `{optimizer: {adam: {lr: 0.001}}}` becomes `optimizer.adam.lr`.
fn flatten(path: &str, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(keys) if !keys.is_empty() => {
            for (key, value) in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, found);
            }
        }
        Value::Null => {}
        Value::Object(_) => found.push((path.to_owned(), Value::Bool(true))),
        _ => found.push((path.to_owned(), value.clone())),
    }
}

/// The layers that have tensors, in the order of these.
fn layers(layout: &Layout) -> Vec<GraphLayer> {
    let mut layers: Vec<GraphLayer> = Vec::new();
    for tensor in layout.tensors() {
        let (layer, own) = tensor.name.rsplit_once('.').unwrap_or((&tensor.name, "weight"));
        if layers.last().is_none_or(|last| last.name != layer) {
            let (kind, output) = described(own, &tensor.shape, tensor.kind);
            let (name, kind) = (layer.to_owned(), kind.to_owned());
            layers.push(GraphLayer { name, kind, tensors: Vec::new(), output });
        }
        if let Some(last) = layers.last_mut() {
            last.tensors.push((own.to_owned(), tensor.shape.clone()));
        }
    }
    layers
}

/// What a layer does and hands on, by its first tensor: batches come first, then channels.
fn described(tensor: &str, shape: &[usize], kind: TensorKind) -> (&'static str, Vec<Option<usize>>) {
    match (kind, shape) {
        (TensorKind::Rows { width }, _) => ("Embedding", vec![None, None, Some(width)]),
        // Of a recurrent layer, where four gates lie one below the other.
        (_, [gates, _]) if tensor.starts_with("weight_ih") => ("Lstm", vec![None, None, Some(gates / 4)]),
        (_, [outputs, _]) => ("Linear", vec![None, Some(*outputs)]),
        (_, [outputs, _, _, _]) => ("Conv2d", vec![None, Some(*outputs), None, None]),
        (_, [channels]) => ("Norm", vec![None, Some(*channels), None, None]),
        _ => ("Layer", vec![None]),
    }
}

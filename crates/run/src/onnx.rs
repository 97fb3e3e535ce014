//! A trained model as ONNX, which many programs run. The batch may be of any size, and texts of any length.
//!
//! The input is what the model trains on: images `(batch, channels, height, width)`, scaled and normalised as the data
//! are; rows `(batch, columns)`; numbers of words `(batch, words)`, with 0 behind the end of shorter texts. The output
//! are scores, before softmax.

mod graph;
mod proto;
mod words;

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use bonfire_learn::Layout;
use bonfire_learn::layer_list::{Flow, LayerPlan};
use bonfire_report::{RunFolder, write_atomically};
use prost::Message;

use crate::interchange;
use crate::job;
use crate::run_file::Settings;
use graph::Graph;
use proto::{Dimension, GraphProto, ModelProto, OnnxShape, OperatorSetId, TensorType, TypeProto, ValueInfo};

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedOnnx {
    pub round: u64,
    pub nodes: usize,
    pub parameters: usize,
}

/// The version of the operators, and of the file.
const OPERATORS: i64 = 17;
const IR_VERSION: i64 = 8;

pub(crate) const FLOAT: i32 = 1;
pub(crate) const INT64: i32 = 7;

/// Writes the best checkpoint of a run, or that of a round, into a new file.
pub fn export(run_dir: &Path, round: Option<u64>, out: &Path) -> Result<ExportedOnnx> {
    ensure!(!out.exists(), "{}: is there already; choose another name with -o", out.display());
    let folder = RunFolder::open(run_dir)?;
    let settings = Settings::of_run(&folder, 1)?;
    let plan = job::plan(&settings)?;
    let model = plan.build();
    let name = settings.file.model.name();
    let (round, parameters) = interchange::parameters(&folder, round, model.layout(), name)?;
    let bytes = encode(&plan, model.layout(), &parameters).map_err(|message| anyhow!(message))?;
    write_atomically(out, &bytes.0)?;
    Ok(ExportedOnnx { round, nodes: bytes.1, parameters: plan.parameters() })
}

/// The bytes of a file, and how many nodes it has.
fn encode(plan: &LayerPlan, layout: &Layout, parameters: &[f32]) -> Result<(Vec<u8>, usize), String> {
    let mut graph = Graph::new(layout, parameters);
    let flow = Flow::of(&plan.shape);
    let input = if flow == Flow::Words { "words" } else { "input" };
    if flow == Flow::Words {
        graph.find_lengths(input);
    }
    let last = graph.layers(&plan.layers, input.to_owned())?;
    graph.node("Identity", &[&last], "scores", Vec::new());
    let nodes = graph.nodes.len();
    let (input_type, output_type) = (if flow == Flow::Words { INT64 } else { FLOAT }, FLOAT);
    let model = ModelProto {
        ir_version: IR_VERSION,
        producer_name: "bonfire".to_owned(),
        producer_version: env!("CARGO_PKG_VERSION").to_owned(),
        graph: Some(GraphProto {
            node: graph.nodes,
            name: "model".to_owned(),
            initializer: graph.tensors,
            input: vec![value(input, input_type, &sizes(flow))],
            output: vec![value("scores", output_type, &sizes(plan.output()))],
        }),
        opset_import: vec![OperatorSetId { domain: String::new(), version: OPERATORS }],
    };
    Ok((model.encode_to_vec(), nodes))
}

/// The sizes of a value behind the batch; none where it is known only later.
fn sizes(flow: Flow) -> Vec<Option<usize>> {
    match flow {
        Flow::Words => vec![None],
        Flow::Images([height, width, channels]) => vec![Some(channels), Some(height), Some(width)],
        Flow::Table(features) | Flow::Rows { features, .. } => vec![Some(features)],
        Flow::Sequence(features) => vec![None, Some(features)],
    }
}

fn value(name: &str, elem_type: i32, sizes: &[Option<usize>]) -> ValueInfo {
    let named = |name: &str| Dimension { value: None, name: Some(name.to_owned()) };
    let known = |size: &Option<usize>| match size {
        Some(size) => Dimension { value: Some(*size as i64), name: None },
        None => named("words"),
    };
    let dim = std::iter::once(named("batch")).chain(sizes.iter().map(known)).collect();
    let tensor = TensorType { elem_type, shape: Some(OnnxShape { dim }) };
    ValueInfo { name: name.to_owned(), kind: Some(TypeProto { tensor: Some(tensor) }) }
}

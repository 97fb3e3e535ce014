//! The model as TensorBoard draws it: layers one after the other, their tensors beside them.

use std::collections::HashMap;

use super::proto::{AttributeValue, Dimension, GraphDef, NodeDef, ShapeList, TensorShape, VersionDef};

/// A layer of a model, in the order of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphLayer {
    /// Groups are parted by dots: `layer1.0.conv1`.
    pub name: String,
    /// What it does, as far as its tensors tell.
    pub kind: String,
    /// Of its tensors: the name within the layer, and the shape.
    pub tensors: Vec<(String, Vec<usize>)>,
    /// Of what it hands on; `None` where it depends on the data.
    pub output: Vec<Option<usize>>,
}

/// What TensorFlow's graphs of these years say.
const PRODUCER: i32 = 1286;

pub(super) fn graph(layers: &[GraphLayer]) -> GraphDef {
    let unknown = vec![None];
    let mut nodes = vec![node("input", "Placeholder", Vec::new(), &unknown)];
    let mut before = "input".to_owned();
    for layer in layers {
        let group = layer.name.replace('.', "/");
        let mut inputs = vec![before];
        for (tensor, shape) in &layer.tensors {
            let name = format!("{group}/{tensor}");
            let shape: Vec<Option<usize>> = shape.iter().copied().map(Some).collect();
            nodes.push(node(&name, "Parameter", Vec::new(), &shape));
            inputs.push(name);
        }
        before = format!("{group}/{}", layer.kind);
        nodes.push(node(&before, &layer.kind, inputs, &layer.output));
    }
    nodes.push(node("loss", "CrossEntropy", vec![before], &[]));
    GraphDef { nodes, versions: Some(VersionDef { producer: PRODUCER }) }
}

fn node(name: &str, op: &str, inputs: Vec<String>, shape: &[Option<usize>]) -> NodeDef {
    let size = |size: &Option<usize>| Dimension { size: size.map_or(-1, |size| size as i64) };
    let shape = TensorShape { dimensions: shape.iter().map(size).collect() };
    let shapes = AttributeValue { list: Some(ShapeList { shapes: vec![shape] }) };
    NodeDef {
        name: name.to_owned(),
        op: op.to_owned(),
        inputs,
        device: String::new(),
        attributes: HashMap::from([("_output_shapes".to_owned(), shapes)]),
    }
}

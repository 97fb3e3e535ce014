use bonfire_learn::Layout;
use bonfire_learn::layer_list::{Flow, LayerKind, PlannedLayer, PlannedShortcut};
use bonfire_learn::layers::{Function, PoolWindow};

use super::proto::{AttributeProto, NodeProto, TensorProto};
use super::{FLOAT, INT64};

/// Nodes and tensors, as they are added.
pub(super) struct Graph<'a> {
    layout: &'a Layout,
    parameters: &'a [f32],
    pub(super) nodes: Vec<NodeProto>,
    pub(super) tensors: Vec<TensorProto>,
}

pub(super) fn int(name: &str, i: usize) -> AttributeProto {
    AttributeProto { name: name.to_owned(), i: i as i64, kind: 2, ..AttributeProto::default() }
}

pub(super) fn ints(name: &str, ints: &[usize]) -> AttributeProto {
    let ints = ints.iter().map(|&int| int as i64).collect();
    AttributeProto { name: name.to_owned(), ints, kind: 7, ..AttributeProto::default() }
}

pub(super) fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.to_owned(), f, kind: 1, ..AttributeProto::default() }
}

pub(super) fn string(name: &str, s: &str) -> AttributeProto {
    AttributeProto { name: name.to_owned(), s: s.as_bytes().to_vec(), kind: 3, ..AttributeProto::default() }
}

impl<'a> Graph<'a> {
    pub(super) fn new(layout: &'a Layout, parameters: &'a [f32]) -> Self {
        Self { layout, parameters, nodes: Vec::new(), tensors: Vec::new() }
    }

    /// Adds a node with one output, and gives that back.
    pub(super) fn node(
        &mut self,
        op: &str,
        inputs: &[&str],
        output: &str,
        attribute: Vec<AttributeProto>,
    ) -> String {
        self.nodes.push(NodeProto {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.to_owned()],
            name: format!("{output}.{op}"),
            op_type: op.to_owned(),
            attribute,
        });
        output.to_owned()
    }

    pub(super) fn floats(&mut self, name: &str, dims: &[usize], values: &[f32]) -> String {
        let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, dims, FLOAT, raw_data)
    }

    pub(super) fn whole(&mut self, name: &str, values: &[i64]) -> String {
        let raw_data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, &[values.len()], INT64, raw_data)
    }

    fn tensor(&mut self, name: &str, dims: &[usize], data_type: i32, raw_data: Vec<u8>) -> String {
        if self.tensors.iter().all(|tensor| tensor.name != name) {
            let dims = dims.iter().map(|&size| size as i64).collect();
            self.tensors.push(TensorProto { dims, data_type, name: name.to_owned(), raw_data });
        }
        name.to_owned()
    }

    /// A tensor of the model in PyTorch's order: its shape and values.
    pub(super) fn weight(&self, name: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let tensor = self.layout.tensors().iter().find(|tensor| tensor.name == name)?;
        Some((tensor.shape.clone(), tensor.to_torch(self.parameters)))
    }

    /// Puts a tensor of the model into the graph as it is, if the model has it.
    fn own(&mut self, name: &str) -> Option<String> {
        let (shape, values) = self.weight(name)?;
        Some(self.floats(name, &shape, &values))
    }

    pub(super) fn layers(&mut self, layers: &[PlannedLayer], mut x: String) -> Result<String, String> {
        for layer in layers {
            x = self.layer(layer, x)?;
        }
        Ok(x)
    }

    fn layer(&mut self, layer: &PlannedLayer, x: String) -> Result<String, String> {
        let name = &layer.name;
        let output = format!("{name}/out");
        Ok(match &layer.kind {
            LayerKind::Conv2d { kernel, stride, padding, .. } => {
                let weights = [self.own(&format!("{name}.weight")), self.own(&format!("{name}.bias"))];
                let inputs: Vec<&str> =
                    std::iter::once(x.as_str()).chain(weights.iter().flatten().map(String::as_str)).collect();
                let attributes =
                    window_attributes(&PoolWindow { kernel: *kernel, stride: *stride, padding: *padding });
                self.node("Conv", &inputs, &output, attributes)
            }
            LayerKind::BatchNorm { eps, .. } => {
                let parts = ["weight", "bias", "running_mean", "running_var"];
                let parts: Vec<String> =
                    parts.iter().filter_map(|part| self.own(&format!("{name}.{part}"))).collect();
                let inputs: Vec<&str> =
                    std::iter::once(x.as_str()).chain(parts.iter().map(String::as_str)).collect();
                self.node("BatchNormalization", &inputs, &output, vec![float("epsilon", *eps)])
            }
            LayerKind::Function(function) => self.function(*function, &x, &output),
            LayerKind::MaxPool2d(window) => self.node("MaxPool", &[&x], &output, window_attributes(window)),
            LayerKind::AvgPool2d(window) => {
                let mut attributes = window_attributes(window);
                attributes.push(int("count_include_pad", 1));
                self.node("AveragePool", &[&x], &output, attributes)
            }
            LayerKind::AdaptiveAvgPool2d(sides) => self.adaptive_average(layer.input, *sides, &x, &output),
            LayerKind::AdaptiveMaxPool2d(sides) => self.adaptive_max(layer, *sides, &x, &output)?,
            LayerKind::GlobalAvgPool => {
                let pooled = self.node("GlobalAveragePool", &[&x], &format!("{name}/pooled"), Vec::new());
                self.node("Flatten", &[&pooled], &output, vec![int("axis", 1)])
            }
            LayerKind::Flatten => self.node("Flatten", &[&x], &output, vec![int("axis", 1)]),
            // Nothing is dropped where nothing is learned.
            LayerKind::Dropout(_) => x,
            LayerKind::Linear { .. } => self.linear(layer, &x, &output),
            LayerKind::Embedding { .. } => match self.own(&format!("{name}.weight")) {
                Some(table) => self.node("Gather", &[&table, &x], &output, Vec::new()),
                None => return Err(format!("{name} has no table")),
            },
            LayerKind::Recurrent { stack, .. } => self.recurrent(name, stack, x)?,
            LayerKind::LastWord => self.last_word(&x, &output),
            LayerKind::LastStep => self.last_step(&x, &output),
            LayerKind::Sequential(layers) => self.layers(layers, x)?,
            LayerKind::Residual { layers, shortcut, activation } => {
                let inner = self.layers(layers, x.clone())?;
                let around = match shortcut {
                    PlannedShortcut::Same => x,
                    PlannedShortcut::Layers(layers) => self.layers(layers, x)?,
                    PlannedShortcut::Subsample(channels) => self.subsample(layer.input, *channels, &x, name),
                };
                let sum = self.node("Add", &[&inner, &around], &format!("{name}/sum"), Vec::new());
                match activation {
                    Some(function) => self.function(*function, &sum, &output),
                    None => sum,
                }
            }
        })
    }

    fn function(&mut self, function: Function, x: &str, output: &str) -> String {
        match function {
            Function::Relu => self.node("Relu", &[x], output, Vec::new()),
            Function::Tanh => self.node("Tanh", &[x], output, Vec::new()),
            Function::Sigmoid => self.node("Sigmoid", &[x], output, Vec::new()),
            Function::LeakyRelu(slope) => self.node("LeakyRelu", &[x], output, vec![float("alpha", slope)]),
            Function::Elu(alpha) => self.node("Elu", &[x], output, vec![float("alpha", alpha)]),
            Function::Silu => {
                let gate = self.node("Sigmoid", &[x], &format!("{output}/gate"), Vec::new());
                self.node("Mul", &[x, &gate], output, Vec::new())
            }
            // These operators have no Gelu yet: x · (1 + erf(x / √2)) / 2.
            Function::Gelu => {
                let scale = self.floats("const/root_half", &[], &[std::f32::consts::FRAC_1_SQRT_2]);
                let (one, half) =
                    (self.floats("const/one", &[], &[1.0]), self.floats("const/half", &[], &[0.5]));
                let scaled = self.node("Mul", &[x, &scale], &format!("{output}/scaled"), Vec::new());
                let erf = self.node("Erf", &[&scaled], &format!("{output}/erf"), Vec::new());
                let raised = self.node("Add", &[&erf, &one], &format!("{output}/raised"), Vec::new());
                let halved = self.node("Mul", &[&raised, &half], &format!("{output}/halved"), Vec::new());
                self.node("Mul", &[x, &halved], output, Vec::new())
            }
        }
    }

    fn linear(&mut self, layer: &PlannedLayer, x: &str, output: &str) -> String {
        let name = &layer.name;
        let bias = self.own(&format!("{name}.bias"));
        let weight = self.weight(&format!("{name}.weight"));
        let (shape, values) = weight.unwrap_or_default();
        let [outputs, inputs] = [0, 1].map(|i| shape.get(i).copied().unwrap_or(0));
        let mut turned = vec![0.0; values.len()];
        for (i, value) in values.iter().enumerate() {
            turned[i % inputs.max(1) * outputs + i / inputs.max(1)] = *value;
        }
        let weight = self.floats(&format!("{name}.weight"), &[inputs, outputs], &turned);
        match bias {
            None => self.node("MatMul", &[x, &weight], output, Vec::new()),
            Some(bias) => {
                let product = self.node("MatMul", &[x, &weight], &format!("{name}/product"), Vec::new());
                self.node("Add", &[&product, &bias], output, Vec::new())
            }
        }
    }

    /// The mean over windows is one over rows, and then one over columns: two products.
    fn adaptive_average(
        &mut self,
        input: Flow,
        [rows, columns]: [usize; 2],
        x: &str,
        output: &str,
    ) -> String {
        let [height, width] = image(input);
        if [rows, columns] == [1, 1] {
            return self.node("GlobalAveragePool", &[x], output, Vec::new());
        }
        let down = self.floats(&format!("{output}/rows"), &[rows, height], &means(height, rows));
        let mut across = vec![0.0; width * columns];
        for (i, share) in means(width, columns).into_iter().enumerate() {
            across[i % width * columns + i / width] = share;
        }
        let across = self.floats(&format!("{output}/columns"), &[width, columns], &across);
        let lower = self.node("MatMul", &[&down, x], &format!("{output}/lower"), Vec::new());
        self.node("MatMul", &[&lower, &across], output, Vec::new())
    }

    fn adaptive_max(
        &mut self,
        layer: &PlannedLayer,
        [rows, columns]: [usize; 2],
        x: &str,
        output: &str,
    ) -> Result<String, String> {
        let [height, width] = image(layer.input);
        if height % rows != 0 || width % columns != 0 {
            return Err(format!(
                "{}: adaptive_max_pool2d of {height}×{width} to {rows}×{columns} has windows of unequal size, \
                 for which ONNX has no form",
                layer.name
            ));
        }
        let sides = [height / rows, width / columns];
        let attributes = vec![ints("kernel_shape", &sides), ints("strides", &sides)];
        Ok(self.node("MaxPool", &[x], output, attributes))
    }

    /// Every second place, with channels of zeros on both sides.
    fn subsample(&mut self, input: Flow, channels: usize, x: &str, name: &str) -> String {
        let inputs = if let Flow::Images([.., inputs]) = input { inputs } else { channels };
        let whole: [(&str, &[i64]); 4] =
            [("starts", &[0, 0]), ("ends", &[i64::MAX, i64::MAX]), ("axes", &[2, 3]), ("steps", &[2, 2])];
        let parts = whole.map(|(part, values)| self.whole(&format!("const/half_{part}"), values));
        let [starts, ends, axes, steps] = &parts;
        let half = self.node("Slice", &[x, starts, ends, axes, steps], &format!("{name}/half"), Vec::new());
        let before = (channels - inputs) / 2;
        let after = channels - inputs - before;
        let pads = [0, before as i64, 0, 0, 0, after as i64, 0, 0];
        let pads = self.whole(&format!("{name}/pads"), &pads);
        self.node("Pad", &[&half, &pads], &format!("{name}/around"), Vec::new())
    }
}

fn image(flow: Flow) -> [usize; 2] {
    match flow {
        Flow::Images([height, width, _]) => [height, width],
        _ => [1, 1],
    }
}

fn window_attributes(window: &PoolWindow) -> Vec<AttributeProto> {
    let PoolWindow { kernel, stride, padding } = *window;
    vec![ints("kernel_shape", &[kernel; 2]), ints("strides", &[stride; 2]), ints("pads", &[padding; 4])]
}

/// Which share each place of a side has in each of its means.
fn means(side: usize, results: usize) -> Vec<f32> {
    let mut shares = vec![0.0; side * results];
    for result in 0..results {
        let (start, end) = (result * side / results, ((result + 1) * side).div_ceil(results));
        shares[result * side + start..result * side + end].fill(1.0 / (end - start) as f32);
    }
    shares
}

use super::{Activation, LayerRecord};
use crate::kernels::lanes::lanes;
use crate::kernels::matmul::{Matrix, matmul_shared};
use crate::kernels::pointwise::{activate, activation_backward, bias_activation, column_sums};
use crate::layout::{Init, Layout, MemoryOrder, Slot};
use crate::tape::{MemoryFormat, Tape, Var};

/// The order of a weight of `(outputs, inputs)`.
fn plain(inputs: usize, outputs: usize) -> MemoryOrder {
    MemoryOrder::permuted(&[outputs, inputs], &[1, 0])
}

/// The same for the inputs of a whole image.
fn of_image([height, width, channels]: [usize; 3], outputs: usize) -> MemoryOrder {
    MemoryOrder::permuted(&[outputs, channels, height, width], &[2, 3, 1, 0])
}

/// `y = activation(x · weight + bias)`. In memory the weight is `(inputs, outputs)`.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Slot,
    bias: Option<Slot>,
    inputs: usize,
    outputs: usize,
}

impl Linear {
    pub fn new(layout: &mut Layout, name: &str, inputs: usize, outputs: usize) -> Self {
        Self::ordered(layout, name, [inputs, outputs], plain(inputs, outputs), true)
    }

    /// A layer that takes a whole image of `(height, width, channels)` at once, as PyTorch would after `flatten`.
    pub fn of_image(layout: &mut Layout, name: &str, size: [usize; 3], outputs: usize) -> Self {
        Self::ordered(layout, name, [size.iter().product(), outputs], of_image(size, outputs), true)
    }

    /// Without a bias; of an image if there is one.
    pub fn without_bias(
        layout: &mut Layout,
        name: &str,
        inputs: usize,
        image: Option<[usize; 3]>,
        outputs: usize,
    ) -> Self {
        let order = image.map_or_else(|| plain(inputs, outputs), |size| of_image(size, outputs));
        Self::ordered(layout, name, [inputs, outputs], order, false)
    }

    fn ordered(
        layout: &mut Layout,
        name: &str,
        [inputs, outputs]: [usize; 2],
        order: MemoryOrder,
        has_bias: bool,
    ) -> Self {
        let init = Init::Uniform(1.0 / (inputs as f32).sqrt());
        let weight = layout.dense(format!("{name}.weight"), &[outputs, inputs], order, init);
        let bias = has_bias
            .then(|| layout.dense(format!("{name}.bias"), &[outputs], MemoryOrder::plain(&[outputs]), init));
        Self { weight, bias, inputs, outputs }
    }

    /// Whether the layer's products of a batch are large enough to be shared among threads.
    pub fn is_large(&self) -> bool {
        self.inputs * self.outputs >= 1 << 18
    }

    /// Applies the layer to every row; an image counts as one row if the layer takes a whole one.
    pub fn forward(&self, tape: &mut Tape<'_>, x: Var, activation: Activation) -> Var {
        let [a, b, c, features] = tape.dims(&x);
        let dims = if features == self.inputs { [a, b, c, self.outputs] } else { [a, 1, 1, self.outputs] };
        let rows = dims[0] * dims[1] * dims[2];
        let mut data = tape.pool().take(rows * self.outputs);
        let weight = Matrix::new(tape.parameters(&self.weight), self.inputs, self.outputs);
        matmul_shared(&mut data, self.outputs, self.inputs(tape, &x, rows), weight, false);
        match &self.bias {
            Some(bias) => bias_activation(&mut data, tape.parameters(bias), activation),
            None => activate(&mut data, activation),
        }
        let y = tape.push(data, dims, true);
        tape.record(LayerRecord::Linear(Multiplied { layer: self.clone(), x, y: y.clone(), activation }));
        y
    }

    /// The input as a matrix of `(rows, inputs)`.
    fn inputs<'a>(&self, tape: &'a Tape<'_>, x: &Var, rows: usize) -> Matrix<'a> {
        match tape.format(x) {
            MemoryFormat::Rows => Matrix::new(tape.value(x), rows, self.inputs),
            MemoryFormat::Lanes => {
                Matrix::strided(tape.value(x), self.inputs, rows, lanes(rows)).transposed()
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Multiplied {
    layer: Linear,
    x: Var,
    y: Var,
    activation: Activation,
}

impl Multiplied {
    pub(super) fn slots(&self) -> [&Slot; 2] {
        [&self.layer.weight, self.layer.bias.as_ref().unwrap_or(&self.layer.weight)]
    }

    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(mut dy) = tape.take_upstream(&self.y) else { return };
        let Linear { weight, bias, inputs, outputs } = &self.layer;
        activation_backward(&mut dy, tape.value(&self.y), self.activation);
        let (rows, format) = (dy.len() / outputs, tape.format(&self.x));
        let upstream = Matrix::new(&dy, rows, *outputs);

        let (gradient, x) = tape.gradient_and_value(&self.x);
        let x = match format {
            MemoryFormat::Rows => Matrix::new(x, rows, *inputs).transposed(),
            MemoryFormat::Lanes => Matrix::strided(x, *inputs, rows, lanes(rows)),
        };
        gradient.add_product(weight, x, upstream);
        if let Some(bias) = bias {
            let (db, add) = gradient.dense(bias);
            column_sums(&dy, db, add);
        }

        if tape.requires_grad(&self.x) {
            let len = tape.value(&self.x).len();
            let mut dx = tape.pool().take(len);
            let weight = Matrix::new(tape.parameters(weight), *inputs, *outputs);
            match format {
                MemoryFormat::Rows => matmul_shared(&mut dx, *inputs, upstream, weight.transposed(), false),
                MemoryFormat::Lanes => {
                    let lanes = lanes(rows);
                    matmul_shared(&mut dx, lanes, weight, upstream.transposed(), false);
                    // Nothing comes from lanes without a sample.
                    dx.chunks_exact_mut(lanes).for_each(|lane| lane[rows..].fill(0.0));
                }
            }
            tape.add_upstream(&self.x, dx);
        }
        tape.pool().give(dy);
    }
}

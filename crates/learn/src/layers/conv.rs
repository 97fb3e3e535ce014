use super::{Activation, Record};
use crate::kernels::convolve::Convolution;
use crate::kernels::pointwise::{activation_slope, bias_activation, column_sums};
use crate::layout::{Init, Layout, Order, Slot};
use crate::tape::{Tape, Var};

/// A convolution with bias and activation. In memory the weight is `(height, width, inputs, outputs)`.
#[derive(Clone, Debug)]
pub struct Conv2d {
    weight: Slot,
    bias: Slot,
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
}

impl Conv2d {
    /// With a stride of 1 and no padding.
    pub fn new(layout: &mut Layout, name: &str, inputs: usize, outputs: usize, kernel: usize) -> Self {
        let shape = [outputs, inputs, kernel, kernel];
        let init = Init::Uniform(1.0 / ((inputs * kernel * kernel) as f32).sqrt());
        let order = Order::permuted(&shape, &[2, 3, 1, 0]);
        let weight = layout.dense(format!("{name}.weight"), &shape, order, init);
        let bias = layout.dense(format!("{name}.bias"), &[outputs], Order::plain(&[outputs]), init);
        Self { weight, bias, inputs, outputs, kernel, stride: 1, padding: 0 }
    }

    pub fn stride(self, stride: usize) -> Self {
        assert!(stride > 0, "a stride of 0 goes nowhere");
        Self { stride, ..self }
    }

    pub fn padding(self, padding: usize) -> Self {
        Self { padding, ..self }
    }

    /// Images must be at least as large as the kernel.
    pub fn forward(&self, tape: &mut Tape<'_>, x: Var, activation: Activation) -> Var {
        let [images, height, width, inputs] = tape.dims(x);
        assert_eq!(inputs, self.inputs, "the image's channels are the convolution's inputs");
        let sizes = Convolution {
            images,
            height,
            width,
            inputs,
            outputs: self.outputs,
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
        };
        let mut data = tape.pool().take(sizes.positions() * self.outputs);
        let mut scratch = tape.pool().take(sizes.scratch());
        sizes.forward(tape.value(x), tape.parameters(&self.weight), &mut data, &mut scratch);
        tape.pool().give(scratch);
        bias_activation(&mut data, tape.parameters(&self.bias), activation);
        let y = tape.push(data, [images, sizes.out_height(), sizes.out_width(), self.outputs], true);
        let (weight, bias) = (self.weight.clone(), self.bias.clone());
        tape.record(Record::Conv(Convolved { weight, bias, sizes, x, y, activation }));
        y
    }
}

#[derive(Debug)]
pub(crate) struct Convolved {
    weight: Slot,
    bias: Slot,
    sizes: Convolution,
    x: Var,
    y: Var,
    activation: Activation,
}

impl Convolved {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(mut dy) = tape.take_slope(self.y) else { return };
        activation_slope(&mut dy, tape.value(self.y), self.activation);
        let mut scratch = tape.pool().take(self.sizes.scratch());

        let (gradient, x) = tape.gradient_and_value(self.x);
        let (dw, add) = gradient.dense(&self.weight);
        self.sizes.weight_slope(x, &dy, dw, add, &mut scratch);
        let (db, add) = gradient.dense(&self.bias);
        column_sums(&dy, db, add);

        if tape.wants_slope(self.x) {
            let len = tape.value(self.x).len();
            let mut dx = tape.pool().take(len);
            self.sizes.input_slope(tape.parameters(&self.weight), &dy, &mut dx, &mut scratch);
            tape.add_slope(self.x, dx);
        }
        tape.pool().give(scratch);
        tape.pool().give(dy);
    }
}

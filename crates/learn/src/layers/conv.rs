use super::{Activation, LayerRecord};
use crate::kernels::convolve::Convolution;
use crate::kernels::lanes::{LaneConvolution, lanes};
use crate::kernels::pointwise::{activate, activation_backward, bias_activation, column_sums, lane_sums};
use crate::layout::{Init, Layout, MemoryOrder, Slot};
use crate::tape::{MemoryFormat, Tape, Var};

/// A convolution, with a bias unless a batch norm follows, and an activation. In memory the weight is
/// `(height, width, inputs, outputs)`.
#[derive(Clone, Debug)]
pub struct Conv2d {
    weight: Slot,
    bias: Option<Slot>,
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
}

impl Conv2d {
    /// With a bias, a stride of 1 and no padding.
    pub fn new(layout: &mut Layout, name: &str, inputs: usize, outputs: usize, kernel: usize) -> Self {
        let conv = Self::without_bias(layout, name, inputs, outputs, kernel);
        let init = Init::Uniform(1.0 / ((inputs * kernel * kernel) as f32).sqrt());
        let bias = layout.dense(format!("{name}.bias"), &[outputs], MemoryOrder::plain(&[outputs]), init);
        Self { bias: Some(bias), ..conv }
    }

    /// Without a bias, with a stride of 1 and no padding.
    pub fn without_bias(
        layout: &mut Layout,
        name: &str,
        inputs: usize,
        outputs: usize,
        kernel: usize,
    ) -> Self {
        let shape = [outputs, inputs, kernel, kernel];
        let init = Init::Uniform(1.0 / ((inputs * kernel * kernel) as f32).sqrt());
        let order = MemoryOrder::permuted(&shape, &[2, 3, 1, 0]);
        let weight = layout.dense(format!("{name}.weight"), &shape, order, init);
        Self { weight, bias: None, inputs, outputs, kernel, stride: 1, padding: 0 }
    }

    pub fn stride(self, stride: usize) -> Self {
        assert!(stride > 0, "a stride of 0 goes nowhere");
        Self { stride, ..self }
    }

    pub fn padding(self, padding: usize) -> Self {
        assert!(padding < self.kernel, "a kernel that lies wholly in the padding sees nothing");
        Self { padding, ..self }
    }

    /// Images must be at least as large as the kernel. With samples in the lanes there is no stride and no padding.
    pub fn forward(&self, tape: &mut Tape<'_>, x: Var, activation: Activation) -> Var {
        let [images, height, width, inputs] = tape.dims(&x);
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
        let dims = [images, sizes.out_height(), sizes.out_width(), self.outputs];
        let format = tape.format(&x);
        let weight = tape.parameters(&self.weight);
        let bias = self.bias.as_ref().map_or(&[][..], |bias| tape.parameters(bias));
        let mut data = tape.pool().take(crate::tape::len_in_format(dims, format));
        match format {
            MemoryFormat::Rows => {
                let mut scratch = tape.pool().take(sizes.forward_scratch());
                sizes.forward(tape.value(&x), weight, &mut data, &mut scratch);
                tape.pool().give(scratch);
                if bias.is_empty() {
                    activate(&mut data, activation);
                } else {
                    bias_activation(&mut data, bias, activation);
                }
            }
            MemoryFormat::Lanes => {
                in_lanes(&sizes).forward(tape.value(&x), weight, bias, &mut data);
                activate(&mut data, activation);
            }
        }
        let y = tape.push_in_format(data, dims, format, true);
        let (weight, bias) = (self.weight.clone(), self.bias.clone());
        tape.record(LayerRecord::Conv(Convolved { weight, bias, sizes, x, y: y.clone(), activation }));
        y
    }
}

/// The same convolution with samples in the lanes.
fn in_lanes(sizes: &Convolution) -> LaneConvolution {
    let &Convolution { images, height, width, inputs, outputs, kernel, stride, padding } = sizes;
    assert!(stride == 1 && padding == 0, "with samples in the lanes there is no stride and no padding");
    LaneConvolution { height, width, inputs, outputs, kernel, padding, room: 0, lanes: lanes(images) }
}

#[derive(Debug)]
pub(crate) struct Convolved {
    weight: Slot,
    bias: Option<Slot>,
    sizes: Convolution,
    x: Var,
    y: Var,
    activation: Activation,
}

impl Convolved {
    pub(super) fn slots(&self) -> [&Slot; 2] {
        [&self.weight, self.bias.as_ref().unwrap_or(&self.weight)]
    }

    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(mut dy) = tape.take_upstream(&self.y) else { return };
        activation_backward(&mut dy, tape.value(&self.y), self.activation);
        match tape.format(&self.x) {
            MemoryFormat::Rows => self.backward_in_rows(tape, &dy),
            MemoryFormat::Lanes => self.backward_in_lanes(tape, &dy),
        }
        tape.pool().give(dy);
    }

    fn backward_in_rows(&self, tape: &mut Tape<'_>, dy: &[f32]) {
        let mut scratch = tape.pool().take(self.sizes.scratch());
        let (gradient, x) = tape.gradient_and_value(&self.x);
        let (dw, add) = gradient.dense(&self.weight);
        self.sizes.weight_gradient(x, dy, dw, add, &mut scratch);
        if let Some(bias) = &self.bias {
            let (db, add) = gradient.dense(bias);
            column_sums(dy, db, add);
        }
        if tape.requires_grad(&self.x) {
            let len = tape.value(&self.x).len();
            let mut dx = tape.pool().take(len);
            self.sizes.input_gradient(tape.parameters(&self.weight), dy, &mut dx, &mut scratch);
            tape.add_upstream(&self.x, dx);
        }
        tape.pool().give(scratch);
    }

    fn backward_in_lanes(&self, tape: &mut Tape<'_>, dy: &[f32]) {
        let sizes = in_lanes(&self.sizes);
        let (gradient, x) = tape.gradient_and_value(&self.x);
        let (dw, add) = gradient.dense(&self.weight);
        sizes.weight_gradient(x, dy, dw, add);
        if let Some(bias) = &self.bias {
            let (db, add) = gradient.dense(bias);
            lane_sums(dy, sizes.lanes, db, add);
        }
        if tape.requires_grad(&self.x) {
            let (len, [wide, flipped]) = (tape.value(&self.x).len(), sizes.scratch());
            let mut dx = tape.pool().take(len);
            let mut scratch = [tape.pool().take(wide), tape.pool().take(flipped)];
            let [wide, flipped] = &mut scratch;
            sizes.input_gradient(tape.parameters(&self.weight), dy, &mut dx, [wide, flipped]);
            scratch.into_iter().for_each(|buffer| tape.pool().give(buffer));
            tape.add_upstream(&self.x, dx);
        }
    }
}

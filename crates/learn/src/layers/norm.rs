use super::{Activation, LayerRecord};
use crate::buffer::{FloatBuffer, FloatPool};
use crate::kernels::norm;
use crate::kernels::pointwise::activation_backward;
use crate::layout::{Init, Layout, MemoryOrder, Slot};
use crate::tape::{MemoryFormat, Tape, Var};

/// Batch norm, with what usually follows it: a residual that is added, and ReLU.
///
/// While training, each worker norms by the statistics of its own samples, as PyTorch's DDP does; the running ones, by
/// which evaluations norm, are averaged between workers.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    weight: Slot,
    bias: Slot,
    mean: Slot,
    variance: Slot,
    channels: usize,
    epsilon: f32,
    /// How much a batch moves the running statistics.
    momentum: f32,
}

impl BatchNorm {
    pub fn new(layout: &mut Layout, name: &str, channels: usize) -> Self {
        Self::ordered(layout, name, channels, &MemoryOrder::plain(&[channels]))
    }

    /// A norm of every number of an image of `(height, width, channels)`, as PyTorch's is after `flatten`.
    pub fn of_image(layout: &mut Layout, name: &str, [height, width, channels]: [usize; 3]) -> Self {
        let order = MemoryOrder::permuted(&[channels, height, width], &[1, 2, 0]);
        Self::ordered(layout, name, height * width * channels, &order)
    }

    fn ordered(layout: &mut Layout, name: &str, channels: usize, order: &MemoryOrder) -> Self {
        let mut parameter = |part: &str, value| {
            layout.dense(format!("{name}.{part}"), &[channels], order.clone(), Init::Constant(value))
        };
        let (weight, bias) = (parameter("weight", 1.0), parameter("bias", 0.0));
        let mut statistic = |part: &str, value| {
            layout.buffer_in_order(format!("{name}.{part}"), channels, order.clone(), Init::Constant(value))
        };
        let (mean, variance) = (statistic("running_mean", 0.0), statistic("running_var", 1.0));
        Self { weight, bias, mean, variance, channels, epsilon: 1e-5, momentum: 0.1 }
    }

    pub fn epsilon(self, epsilon: f32) -> Self {
        Self { epsilon, ..self }
    }

    /// How much a batch moves the running statistics.
    pub fn momentum(self, momentum: f32) -> Self {
        Self { momentum, ..self }
    }

    /// `activation(norm(x) + residual)`; the activation is none or ReLU.
    pub fn forward(&self, tape: &mut Tape<'_>, x: Var, residual: Option<Var>, activation: Activation) -> Var {
        assert!(activation != Activation::Tanh, "a batch norm is followed by ReLU or nothing");
        assert_eq!(tape.format(&x), MemoryFormat::Rows, "samples in the lanes have no batch norm");
        let (channels, len) = (self.channels, tape.value(&x).len());
        let pool = tape.pool();
        let mut saved = SavedStatistics {
            mean: pool.take(channels),
            inverse: pool.take(channels),
            scale: pool.take(channels),
        };
        let (mut shift, mut data) = (pool.take(channels), pool.take(len));
        if tape.is_training() {
            norm::statistics(tape.value(&x), &mut saved.mean, &mut saved.inverse);
            self.update_running(tape, &saved.mean, &saved.inverse, len / channels);
        } else {
            saved.mean.copy_from_slice(tape.parameters(&self.mean));
            saved.inverse.copy_from_slice(tape.parameters(&self.variance));
        }
        let (weight, bias) = (tape.parameters(&self.weight), tape.parameters(&self.bias));
        for i in 0..channels {
            saved.inverse[i] = 1.0 / (saved.inverse[i] + self.epsilon).sqrt();
            saved.scale[i] = weight[i] * saved.inverse[i];
            shift[i] = bias[i] - saved.mean[i] * saved.scale[i];
        }
        let floor = if activation == Activation::Relu { 0.0 } else { f32::MIN };
        let other = residual.as_ref().map(|residual| tape.value(residual));
        norm::apply(tape.value(&x), other, &mut data, &saved.scale, &shift, floor);
        tape.pool().give(shift);
        let dims = tape.dims(&x);
        let y = tape.push(data, dims, true);
        tape.record(LayerRecord::Norm(Normed {
            layer: self.clone(),
            x,
            y: y.clone(),
            residual,
            activation,
            saved,
        }));
        y
    }

    /// The running statistics travel with the gradient: what a worker found, to be averaged.
    fn update_running(&self, tape: &mut Tape<'_>, mean: &[f32], variance: &[f32], rows: usize) {
        let unbiased = rows as f32 / (rows.max(2) - 1) as f32;
        for (slot, found, factor) in [(&self.mean, mean, 1.0), (&self.variance, variance, unbiased)] {
            let running = tape.parameters(slot);
            let (values, _) = tape.gradient().dense(slot);
            for ((value, running), found) in values.iter_mut().zip(running).zip(found) {
                *value = (1.0 - self.momentum) * running + self.momentum * factor * found;
            }
        }
    }
}

/// What the backward pass needs: of every channel the mean, one over the deviation, and that times the weight.
#[derive(Debug)]
struct SavedStatistics {
    mean: FloatBuffer,
    inverse: FloatBuffer,
    scale: FloatBuffer,
}

#[derive(Debug)]
pub(crate) struct Normed {
    layer: BatchNorm,
    x: Var,
    y: Var,
    residual: Option<Var>,
    activation: Activation,
    saved: SavedStatistics,
}

impl Normed {
    pub(super) fn slots(&self) -> [&Slot; 4] {
        let BatchNorm { weight, bias, mean, variance, .. } = &self.layer;
        [weight, bias, mean, variance]
    }

    pub(super) fn recycle(self, pool: &mut FloatPool) {
        let SavedStatistics { mean, inverse, scale } = self.saved;
        [mean, inverse, scale].into_iter().for_each(|buffer| pool.give(buffer));
    }

    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(mut dy) = tape.take_upstream(&self.y) else { return };
        activation_backward(&mut dy, tape.value(&self.y), self.activation);
        let SavedStatistics { mean, inverse, scale } = &self.saved;
        let channels = self.layer.channels;
        let rows = (dy.len() / channels) as f32;
        let pool = tape.pool();
        let (mut sums, mut products) = (pool.take(channels), pool.take(channels));
        norm::gradient_sums(tape.value(&self.x), &dy, &mut sums, &mut products);
        // Σ dy · x̂, from Σ dy · x.
        for i in 0..channels {
            products[i] = (products[i] - mean[i] * sums[i]) * inverse[i];
        }
        self.parameter_gradients(tape, &sums, &products);

        if tape.requires_grad(&self.x) {
            // dx = scale · (dy − Σdy / n − x̂ · Σ(dy · x̂) / n), with x̂ = (x − mean) · inverse.
            let (mut b, mut c, mut dx) = {
                let pool = tape.pool();
                (pool.take(channels), pool.take(channels), pool.take(dy.len()))
            };
            for i in 0..channels {
                b[i] = -scale[i] * inverse[i] * products[i] / rows;
                c[i] = -scale[i] * sums[i] / rows - b[i] * mean[i];
            }
            norm::input_gradient(tape.value(&self.x), &dy, &mut dx, [scale, &b, &c]);
            tape.add_upstream(&self.x, dx);
            tape.pool().give(b);
            tape.pool().give(c);
        }
        tape.pool().give(sums);
        tape.pool().give(products);
        match &self.residual {
            Some(residual) if tape.requires_grad(residual) => tape.add_upstream(residual, dy),
            _ => tape.pool().give(dy),
        }
    }

    fn parameter_gradients(&self, tape: &mut Tape<'_>, sums: &[f32], products: &[f32]) {
        for (slot, found) in [(&self.layer.weight, products), (&self.layer.bias, sums)] {
            let (values, add) = tape.gradient().dense(slot);
            for (value, found) in values.iter_mut().zip(found) {
                *value = if add { *value } else { 0.0 } + found;
            }
        }
    }
}

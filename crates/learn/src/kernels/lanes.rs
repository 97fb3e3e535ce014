//! Convolutions with the samples innermost: `(H, W, C, L)`, where L is the number of samples rounded up to full
//! registers.
//!
//! Channels-last fills registers with channels, and small nets have few: six of sixteen lanes. With samples in the
//! lanes every lane is used whatever the number of channels, and no patches are copied: a weight meets a register of
//! samples.

use pulp::{Simd, WithSimd};

use super::LANES;
use super::instructions::{mul_add, simd};
#[cfg(target_arch = "arm")]
use super::neon32::{self, TileSums};

/// How many lanes the samples take.
pub(crate) fn lanes(samples: usize) -> usize {
    samples.next_multiple_of(LANES)
}

/// The sizes of a convolution of stride 1. Rows above and below the image count as zero; columns beside it must be
/// there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneConvolution {
    pub height: usize,
    pub width: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub kernel: usize,
    /// How many rows above and below the image the kernel reaches.
    pub padding: usize,
    /// How many columns at either side of the image are zero, so that taps which meet nothing else can be left out.
    pub room: usize,
    pub lanes: usize,
}

/// How many outputs and columns a block sums at once; smaller blocks for the rest. Every pair is compiled for
/// every instruction set, so there are few.
const OUTPUTS: [usize; 4] = [6, 4, 2, 1];
const COLUMNS: [usize; 3] = [4, 2, 1];

/// The same for gradients of weights: outputs and neighbouring weights. Kernels are often three or five
/// wide.
const GRADIENT_OUTPUTS: [usize; 3] = [4, 2, 1];
const GRADIENT_COLUMNS: [usize; 3] = [5, 3, 1];

/// How many sums a block may have, so that they and a few operands fill the registers: machines have 16 or 32.
const fn most_sums<S: Simd>() -> usize {
    S::REGISTER_COUNT * 3 / 4
}

impl LaneConvolution {
    pub(crate) fn out_height(&self) -> usize {
        self.height + 2 * self.padding + 1 - self.kernel
    }

    pub(crate) fn out_width(&self) -> usize {
        self.width + 1 - self.kernel
    }

    /// `y = x * w + bias`, with weights `(K, K, in, out)`; an empty bias is none.
    pub(crate) fn forward(&self, x: &[f32], weights: &[f32], bias: &[f32], y: &mut [f32]) {
        assert_eq!(
            x.len(),
            self.height * self.width * self.inputs * self.lanes,
            "the image has another size"
        );
        assert_eq!(weights.len(), self.kernel * self.kernel * self.inputs * self.outputs, "weights");
        assert_eq!(y.len(), self.out_height() * self.out_width() * self.outputs * self.lanes, "the result");
        assert!(bias.is_empty() || bias.len() == self.outputs, "a bias for every output");
        simd(Forward { sizes: *self, x, weights, bias, y });
    }

    /// How much scratch memory [`input_gradient`](Self::input_gradient) wants: for the gradient of `y` with room beside
    /// it, and the weights flipped.
    pub(crate) fn scratch(&self) -> [usize; 2] {
        let width = self.out_width() + 2 * (self.kernel - 1);
        let wide = self.out_height() * width * self.outputs * self.lanes;
        [wide, self.kernel * self.kernel * self.inputs * self.outputs]
    }

    /// The gradient of `x`, from that of `y`: a convolution with the weights flipped. Gradients of columns beside
    /// the image are computed too.
    pub(crate) fn input_gradient(
        &self,
        weights: &[f32],
        dy: &[f32],
        dx: &mut [f32],
        scratch: [&mut [f32]; 2],
    ) {
        let [wide, flipped] = scratch;
        let (room, pixel) = (self.kernel - 1, self.outputs * self.lanes);
        let row = self.out_width() * pixel;
        for (wide, dy) in wide.chunks_exact_mut(row + 2 * room * pixel).zip(dy.chunks_exact(row)) {
            wide[..room * pixel].fill(0.0);
            wide[room * pixel..room * pixel + row].copy_from_slice(dy);
            wide[room * pixel + row..].fill(0.0);
        }
        let taps = self.kernel * self.kernel;
        for tap in 0..taps {
            let from =
                &weights[(taps - 1 - tap) * self.inputs * self.outputs..][..self.inputs * self.outputs];
            let to = &mut flipped[tap * self.inputs * self.outputs..][..self.inputs * self.outputs];
            for (input, from) in from.chunks_exact(self.outputs).enumerate() {
                for (output, weight) in from.iter().enumerate() {
                    to[output * self.inputs + input] = *weight;
                }
            }
        }
        let back = Self {
            height: self.out_height(),
            width: self.out_width() + 2 * room,
            inputs: self.outputs,
            outputs: self.inputs,
            kernel: self.kernel,
            padding: room - self.padding,
            room,
            lanes: self.lanes,
        };
        back.forward(wide, flipped, &[], dx);
    }

    /// The gradient of the weights, from that of `y`.
    pub(crate) fn weight_gradient(&self, x: &[f32], dy: &[f32], dw: &mut [f32], add: bool) {
        assert_eq!(
            x.len(),
            self.height * self.width * self.inputs * self.lanes,
            "the image has another size"
        );
        assert_eq!(dw.len(), self.kernel * self.kernel * self.inputs * self.outputs, "weights");
        assert_eq!(dy.len(), self.out_height() * self.out_width() * self.outputs * self.lanes, "the result");
        if !add {
            dw.fill(0.0);
        }
        simd(WeightGradient { sizes: *self, x, dy, dw });
    }

    /// The columns of the kernel that meet more than zeros at some of `count` output columns.
    fn kernel_columns(&self, column: usize, count: usize) -> std::ops::Range<usize> {
        let first = self.room.saturating_sub(column + count - 1).min(self.kernel);
        first..(self.width - self.room - column.min(self.width - self.room)).clamp(first, self.kernel)
    }

    /// The rows of the kernel that meet the image at output row `y`.
    fn kernel_rows(&self, y: usize) -> std::ops::Range<usize> {
        let first = self.padding.saturating_sub(y);
        first..(self.height + self.padding - y).min(self.kernel).max(first)
    }
}

/// Cuts `total` into blocks of some sizes, of which the last is 1, the largest first, but none above `most`: their
/// starts and sizes.
#[inline(always)]
fn blocks<const N: usize>(
    total: usize,
    sizes: [usize; N],
    most: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let size = sizes.into_iter().find(|&size| size <= most && start + size <= total)?;
        start += size;
        Some((start - size, size))
    })
}

struct Forward<'a> {
    sizes: LaneConvolution,
    x: &'a [f32],
    weights: &'a [f32],
    bias: &'a [f32],
    y: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (x, _) = S::as_simd_f32s(self.x);
        let (y, _) = S::as_mut_simd_f32s(self.y);
        let (registers, most) = (self.sizes.lanes / S::F32_LANES, most_sums::<S>());
        for lane in 0..registers {
            for row in 0..self.sizes.out_height() {
                for (column, columns) in blocks(self.sizes.out_width(), COLUMNS, most / OUTPUTS[0]) {
                    for (output, outputs) in blocks(self.sizes.outputs, OUTPUTS, most / columns) {
                        let (sizes, weights, bias) = (self.sizes, self.weights, self.bias);
                        let block = LaneBlock { sizes, weights, bias, registers, lane, row, column, output };
                        match columns {
                            4 => block.of_columns::<S, 4>(simd, x, y, outputs),
                            2 => block.of_columns::<S, 2>(simd, x, y, outputs),
                            _ => block.of_columns::<S, 1>(simd, x, y, outputs),
                        }
                    }
                }
            }
        }
    }
}

/// Some outputs at some columns of one row, for one register of samples.
struct LaneBlock<'a> {
    sizes: LaneConvolution,
    weights: &'a [f32],
    bias: &'a [f32],
    registers: usize,
    lane: usize,
    row: usize,
    column: usize,
    output: usize,
}

impl LaneBlock<'_> {
    #[inline(always)]
    fn of_columns<S: Simd, const C: usize>(&self, simd: S, x: &[S::f32s], y: &mut [S::f32s], outputs: usize) {
        match outputs {
            6 => self.run::<S, C, 6>(simd, x, y),
            4 => self.run::<S, C, 4>(simd, x, y),
            2 => self.run::<S, C, 2>(simd, x, y),
            _ => self.run::<S, C, 1>(simd, x, y),
        }
    }

    #[inline(always)]
    fn run<S: Simd, const C: usize, const O: usize>(&self, simd: S, x: &[S::f32s], y: &mut [S::f32s]) {
        let LaneConvolution { width, inputs, outputs, kernel, padding, .. } = self.sizes;
        let bias = |o: usize| self.bias.get(self.output + o).copied().unwrap_or(0.0);
        let mut sums: [[S::f32s; C]; O] = std::array::from_fn(|o| [simd.splat_f32s(bias(o)); C]);
        let (pixel, taps) = (inputs * self.registers, kernel * inputs);
        let columns = self.sizes.kernel_columns(self.column, C);
        let (first, end) = (columns.start * inputs, columns.end * inputs);
        for ky in self.sizes.kernel_rows(self.row) {
            // The inputs of neighbouring columns lie in a row: one loop runs over both.
            let start = ((self.row + ky - padding) * width + self.column) * pixel + self.lane;
            let x = &x[start..start + (C - 1) * pixel + (taps - 1) * self.registers + 1];
            let weights = &self.weights[ky * taps * outputs..(ky + 1) * taps * outputs];
            #[cfg(target_arch = "arm")]
            if first < end && neon32::is_for(O, C) {
                let tile = TileSums {
                    depth: end - first,
                    rows: weights[first * outputs + self.output..].as_ptr(),
                    row: 1,
                    row_step: outputs,
                    across: x[first * self.registers..].as_ptr().cast(),
                    column: pixel * S::F32_LANES,
                    column_step: self.registers * S::F32_LANES,
                };
                // SAFETY: as below; the largest output of a block is below `outputs`.
                unsafe { tile.add_to(simd, &mut sums) };
                continue;
            }
            for (tap, weights) in weights.chunks_exact(outputs).enumerate().take(end).skip(first) {
                let weights = &weights[self.output..self.output + O];
                // SAFETY: `tap < taps` and `c < C`, and `x` was cut above to end behind the largest of both.
                let values: [S::f32s; C] =
                    std::array::from_fn(|c| unsafe { *x.get_unchecked(c * pixel + tap * self.registers) });
                for o in 0..O {
                    let weight = simd.splat_f32s(weights[o]);
                    for c in 0..C {
                        sums[o][c] = mul_add(simd, weight, values[c], sums[o][c]);
                    }
                }
            }
        }
        let at = self.row * self.sizes.out_width() + self.column;
        for (o, sums) in sums.iter().enumerate() {
            for (c, sum) in sums.iter().enumerate() {
                y[((at + c) * outputs + self.output + o) * self.registers + self.lane] = *sum;
            }
        }
    }
}

struct WeightGradient<'a> {
    sizes: LaneConvolution,
    x: &'a [f32],
    dy: &'a [f32],
    dw: &'a mut [f32],
}

impl WithSimd for WeightGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (x, _) = S::as_simd_f32s(self.x);
        let (dy, _) = S::as_simd_f32s(self.dy);
        let LaneConvolution { inputs, outputs, kernel, lanes, .. } = self.sizes;
        let registers = lanes / S::F32_LANES;
        for ky in 0..kernel {
            for (kx, columns) in blocks(kernel, GRADIENT_COLUMNS, kernel) {
                for (output, count) in blocks(outputs, GRADIENT_OUTPUTS, most_sums::<S>() / columns) {
                    for input in 0..inputs {
                        let taps = Taps { sizes: self.sizes, registers, ky, kx, input, output };
                        let dw = &mut self.dw[((ky * kernel + kx) * inputs + input) * outputs + output..];
                        match columns {
                            5 => taps.of_columns::<S, 5>(simd, x, dy, dw, count),
                            3 => taps.of_columns::<S, 3>(simd, x, dy, dw, count),
                            _ => taps.of_columns::<S, 1>(simd, x, dy, dw, count),
                        }
                    }
                }
            }
        }
    }
}

/// Some neighbouring weights of one input, for some outputs.
struct Taps {
    sizes: LaneConvolution,
    registers: usize,
    ky: usize,
    kx: usize,
    input: usize,
    output: usize,
}

impl Taps {
    #[inline(always)]
    fn of_columns<S: Simd, const C: usize>(
        &self,
        simd: S,
        x: &[S::f32s],
        dy: &[S::f32s],
        dw: &mut [f32],
        outputs: usize,
    ) {
        match outputs {
            4 => self.run::<S, C, 4>(simd, x, dy, dw),
            2 => self.run::<S, C, 2>(simd, x, dy, dw),
            _ => self.run::<S, C, 1>(simd, x, dy, dw),
        }
    }

    #[inline(always)]
    fn run<S: Simd, const C: usize, const O: usize>(
        &self,
        simd: S,
        x: &[S::f32s],
        dy: &[S::f32s],
        dw: &mut [f32],
    ) {
        let LaneConvolution { height, width, inputs, outputs, padding, .. } = self.sizes;
        let (registers, out_width) = (self.registers, self.sizes.out_width());
        let mut sums = [[simd.splat_f32s(0.0); C]; O];
        let (x_step, dy_step) = (inputs * registers, outputs * registers);
        for row in padding.saturating_sub(self.ky)..self.sizes.out_height().min(height + padding - self.ky) {
            let start = ((row + self.ky - padding) * width + self.kx) * x_step + self.input * registers;
            let x = &x[start..start + (out_width + C - 2) * x_step + registers];
            let start = row * out_width * dy_step + self.output * registers;
            let dy = &dy[start..start + (out_width - 1) * dy_step + O * registers];
            for column in 0..out_width {
                for lane in 0..registers {
                    let (x_at, dy_at) = (column * x_step + lane, column * dy_step + lane);
                    // SAFETY: `column < out_width`, `lane < registers`, `c < C` and `o < O`, and both slices were cut
                    // above to end behind the largest of them.
                    let values: [S::f32s; C] =
                        std::array::from_fn(|c| unsafe { *x.get_unchecked(x_at + c * x_step) });
                    for o in 0..O {
                        // SAFETY: as above.
                        let upstream = unsafe { *dy.get_unchecked(dy_at + o * registers) };
                        for c in 0..C {
                            sums[o][c] = mul_add(simd, upstream, values[c], sums[o][c]);
                        }
                    }
                }
            }
        }
        for (o, sums) in sums.iter().enumerate() {
            for (c, sum) in sums.iter().enumerate() {
                dw[c * inputs * outputs + o] += simd.reduce_sum_f32s(*sum);
            }
        }
    }
}

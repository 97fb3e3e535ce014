//! Convolutions over channels-last images: patches in a row, then one matrix product.

use super::matmul::{Matrix, matmul};
use super::pointwise::transpose;
use super::{vectorized, winograd};

/// The sizes of a convolution. Images are `(N, H, W, C)`, weights `(K, K, in, out)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Convolution {
    pub images: usize,
    pub height: usize,
    pub width: usize,
    pub inputs: usize,
    pub outputs: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
}

/// About how many floats of patches are made at a time: what stays in the second-level cache.
const BLOCK: usize = 1 << 18;

impl Convolution {
    pub(crate) fn out_height(&self) -> usize {
        (self.height + 2 * self.padding - self.kernel) / self.stride + 1
    }

    pub(crate) fn out_width(&self) -> usize {
        (self.width + 2 * self.padding - self.kernel) / self.stride + 1
    }

    /// How many output positions there are in all images.
    pub(crate) fn positions(&self) -> usize {
        self.images * self.out_height() * self.out_width()
    }

    /// How many floats one output position sees.
    pub(crate) fn patch(&self) -> usize {
        self.kernel * self.kernel * self.inputs
    }

    /// How many positions are handled at a time, and so how large `patches` must be.
    fn block(&self) -> usize {
        (BLOCK / self.patch()).max(64).min(self.positions())
    }

    /// The length of the scratch memory that [`forward`](Self::forward) wants.
    pub(crate) fn forward_scratch(&self) -> usize {
        if winograd::fits(self) { winograd::scratch(self) } else { self.block() * self.patch() }
    }

    /// The length of the scratch memory that is enough for all functions below.
    pub(crate) fn scratch(&self) -> usize {
        let own = self.forward_scratch();
        match self.flipped() {
            Some(flipped) => own.max(flipped.forward_scratch() + self.patch() * self.outputs),
            None => own,
        }
    }

    fn blocks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (positions, block) = (self.positions(), self.block());
        (0..positions).step_by(block.max(1)).map(move |start| (start, block.min(positions - start)))
    }

    /// Whether every position sees one place alone: then the image is its own patches.
    fn is_direct(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.padding == 0
    }

    /// The convolution that leads from the gradient of `y` to that of `x`, with the weights flipped. Only without a
    /// stride, and only where the image is not much larger than the result: it computes as much as the image is large.
    fn flipped(&self) -> Option<Self> {
        let larger = 4 * self.height * self.width > 5 * self.out_height() * self.out_width();
        (self.stride == 1 && !larger && !self.is_direct()).then(|| Self {
            images: self.images,
            height: self.out_height(),
            width: self.out_width(),
            inputs: self.outputs,
            outputs: self.inputs,
            kernel: self.kernel,
            stride: 1,
            padding: self.kernel - 1 - self.padding,
        })
    }

    /// `y = x * w`.
    pub(crate) fn forward(&self, x: &[f32], weights: &[f32], y: &mut [f32], scratch: &mut [f32]) {
        if winograd::fits(self) {
            return winograd::forward(self, x, weights, y, scratch);
        }
        let (patch, outputs) = (self.patch(), self.outputs);
        let weights = Matrix::new(weights, patch, outputs);
        if self.is_direct() {
            return matmul(y, outputs, Matrix::new(x, self.positions(), patch), weights, false);
        }
        for (start, count) in self.blocks() {
            let patches = &mut scratch[..count * patch];
            self.gather(x, patches, start);
            let patches = Matrix::new(patches, count, patch);
            matmul(&mut y[start * outputs..(start + count) * outputs], outputs, patches, weights, false);
        }
    }

    /// The gradient of the weights, from that of `y`.
    pub(crate) fn weight_gradient(
        &self,
        x: &[f32],
        dy: &[f32],
        dw: &mut [f32],
        add: bool,
        scratch: &mut [f32],
    ) {
        if winograd::fits(self) {
            return winograd::weight_gradient(self, x, dy, dw, add, scratch);
        }
        let (patch, outputs) = (self.patch(), self.outputs);
        if self.is_direct() {
            let x = Matrix::new(x, self.positions(), patch).transposed();
            return matmul(dw, outputs, x, Matrix::new(dy, self.positions(), outputs), add);
        }
        for (start, count) in self.blocks() {
            let patches = &mut scratch[..count * patch];
            self.gather(x, patches, start);
            let dy = Matrix::new(&dy[start * outputs..], count, outputs);
            matmul(dw, outputs, Matrix::new(patches, count, patch).transposed(), dy, add || start > 0);
        }
    }

    /// The gradient of `x`, from that of `y`.
    pub(crate) fn input_gradient(&self, weights: &[f32], dy: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
        let (patch, outputs) = (self.patch(), self.outputs);
        if let Some(convolution) = self.flipped() {
            let (flipped, scratch) = scratch.split_at_mut(patch * outputs);
            self.flip(weights, flipped);
            return convolution.forward(dy, flipped, dx, scratch);
        }
        let weights = Matrix::new(weights, patch, outputs).transposed();
        if self.is_direct() {
            return matmul(dx, patch, Matrix::new(dy, self.positions(), outputs), weights, false);
        }
        dx.fill(0.0);
        for (start, count) in self.blocks() {
            let patches = &mut scratch[..count * patch];
            matmul(patches, patch, Matrix::new(&dy[start * outputs..], count, outputs), weights, false);
            self.scatter(patches, dx, start);
        }
    }

    /// Rotates the kernel by 180° and exchanges inputs and outputs.
    fn flip(&self, weights: &[f32], flipped: &mut [f32]) {
        let pairs = self.inputs * self.outputs;
        let taps = weights.chunks_exact(pairs).rev().zip(flipped.chunks_exact_mut(pairs));
        for (weights, flipped) in taps {
            transpose(weights, self.outputs, flipped, self.inputs);
        }
    }

    /// For every output position from `start` on and every row of its patch: where the row's part that lies inside
    /// the image begins in the image, where in the patches, and how long it is.
    #[inline(always)]
    fn for_each_row(&self, start: usize, count: usize, mut row: impl FnMut(PatchRow)) {
        let (out_width, out_height) = (self.out_width(), self.out_height());
        let (mut ox, mut oy) = (start % out_width, start / out_width % out_height);
        let mut image = start / (out_width * out_height);
        let row_len = self.kernel * self.inputs;
        for position in 0..count {
            let left = (ox * self.stride) as isize - self.padding as isize;
            let first = (-left).clamp(0, self.kernel as isize) as usize;
            let end = (self.width as isize - left).clamp(first as isize, self.kernel as isize) as usize;
            for ky in 0..self.kernel {
                let y = (oy * self.stride + ky) as isize - self.padding as isize;
                let patch = position * self.kernel * row_len + ky * row_len;
                let inside = (0..self.height as isize).contains(&y) && end > first;
                let source = if inside {
                    let x = (left + first as isize) as usize;
                    ((image * self.height + y as usize) * self.width + x) * self.inputs
                } else {
                    0
                };
                let len = if inside { (end - first) * self.inputs } else { 0 };
                row(PatchRow {
                    source,
                    patch,
                    before: if inside { first * self.inputs } else { 0 },
                    len,
                    row_len,
                });
            }
            ox += 1;
            if ox == out_width {
                (ox, oy) = (0, oy + 1);
                if oy == out_height {
                    (oy, image) = (0, image + 1);
                }
            }
        }
    }

    /// Lays the patches of the positions from `start` on in a row; what lies outside the image is zero.
    fn gather(&self, x: &[f32], patches: &mut [f32], start: usize) {
        let count = patches.len() / self.patch();
        vectorized(
            #[inline(always)]
            || {
                self.for_each_row(
                    start,
                    count,
                    #[inline(always)]
                    |row| {
                        let out = &mut patches[row.patch..row.patch + row.row_len];
                        if row.len == row.row_len {
                            copy_short(out, &x[row.source..row.source + row.len]);
                        } else {
                            out[..row.before].fill(0.0);
                            out[row.before..row.before + row.len]
                                .copy_from_slice(&x[row.source..row.source + row.len]);
                            out[row.before + row.len..].fill(0.0);
                        }
                    },
                );
            },
        );
    }

    /// Adds the patches of the positions from `start` on to where they came from.
    fn scatter(&self, patches: &[f32], dx: &mut [f32], start: usize) {
        let count = patches.len() / self.patch();
        vectorized(
            #[inline(always)]
            || {
                self.for_each_row(
                    start,
                    count,
                    #[inline(always)]
                    |row| {
                        let from = &patches[row.patch + row.before..row.patch + row.before + row.len];
                        for (dx, part) in dx[row.source..row.source + row.len].iter_mut().zip(from) {
                            *dx += part;
                        }
                    },
                );
            },
        );
    }
}

/// One row of a patch and its part inside the image.
struct PatchRow {
    source: usize,
    patch: usize,
    before: usize,
    len: usize,
    row_len: usize,
}

/// A copy of a few floats without the call that `copy_from_slice` becomes.
#[inline(always)]
fn copy_short(out: &mut [f32], from: &[f32]) {
    if out.len() >= 32 {
        out.copy_from_slice(from);
    } else {
        for (out, from) in out.iter_mut().zip(from) {
            *out = *from;
        }
    }
}

#[cfg(test)]
mod tests;

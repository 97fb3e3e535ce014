//! Sums of gradients: of the threads of a worker, of the workers of a round. They are added in the order in which they
//! are given, so that the same gradients give the same bits wherever they are summed.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use crate::buffer::{FloatBuffer, FloatPool};
use crate::gradient::Gradient;
use crate::kernels::pointwise::add;
use crate::kernels::update::{sum_of, sum_of_squares};
use crate::layout::{Layout, TensorKind};
use crate::optim::RowRule;

/// The gradients of a sum, whatever they lie in. Not generic: what sums and updates is compiled once, here, and not
/// again in every crate that asks for it.
#[derive(Clone, Copy)]
pub(crate) struct Addends<'a> {
    pub count: usize,
    pub get: &'a (dyn Fn(usize) -> &'a Gradient + Sync),
}

/// What a sum does to some values.
pub(crate) enum Change<'a> {
    /// They follow their gradient.
    Gradient(&'a [f32]),
    /// They are replaced: a statistic.
    Value(&'a [f32]),
}

/// Gradients that are summed in one pass over memory.
pub(crate) struct Summed<'l, 'a> {
    pub layout: &'l Layout,
    pub addends: Addends<'a>,
    /// Which rows of a table are visited.
    pub rows: RowRule,
}

/// How much is summed at a time, on the stack: it stays in the first-level cache.
const CHUNK: usize = 1024;

/// How much one task sums. Fixed, so that nothing depends on the number of threads; enough for products of some rows.
pub(crate) const BLOCK: usize = 1 << 15;

thread_local! {
    /// Where a thread multiplies a block of a product.
    static PRODUCT: RefCell<FloatBuffer> = RefCell::new(FloatPool::default().take(BLOCK));
}

/// Replaces `sum` by the sum of some gradients; of a statistic it holds the mean.
pub fn sum<G: Borrow<Gradient> + Sync>(layout: &Layout, gradients: &[G], sum: &mut Gradient) {
    let get = |i: usize| gradients[i].borrow();
    sum_all(layout, Addends { count: gradients.len(), get: &get }, sum);
}

fn sum_all(layout: &Layout, addends: Addends<'_>, sum: &mut Gradient) {
    let summed = Summed { layout, addends, rows: RowRule::Touched };
    sum.clear();
    sum.weight = addends.weight();
    for (number, tensor) in layout.tensors().iter().enumerate() {
        match tensor.kind {
            TensorKind::Rows { .. } => {
                for row in
                    summed.nonempty().filter_map(|addend| addend.rows(number)).flat_map(|rows| &rows.touched)
                {
                    sum.touch(number, *row);
                }
            }
            TensorKind::Dense | TensorKind::Buffer => {
                sum.write(number);
            }
        }
    }
    if sum.weight == 0.0 {
        sum.finish();
        return;
    }
    sum.values.par_chunks_mut(BLOCK).enumerate().for_each(|(i, values)| {
        let start = i * BLOCK;
        summed.for_each_chunk(start, values.len(), |at, change| {
            let (Change::Gradient(part) | Change::Value(part)) = change;
            values[at - start..at - start + part.len()].copy_from_slice(part);
        });
    });
}

impl<'a> Addends<'a> {
    fn all(self) -> impl Iterator<Item = &'a Gradient> + Clone {
        (0..self.count).map(self.get)
    }

    pub(crate) fn weight(self) -> f64 {
        self.all().map(|addend| addend.weight).sum()
    }
}

impl<'a> Summed<'_, 'a> {
    /// The addends that hold anything.
    fn nonempty(&self) -> impl Iterator<Item = &'a Gradient> + Clone + use<'a> {
        self.addends.all().filter(|addend| addend.weight > 0.0)
    }

    /// The length of the sum.
    pub(crate) fn norm(&self, squares: &mut Vec<f64>) -> f64 {
        let blocks = self.layout.len().div_ceil(BLOCK);
        let block = |i: usize| {
            let start = i * BLOCK;
            let mut sum = 0.0;
            self.for_each_chunk(start, BLOCK.min(self.layout.len() - start), |_, change| {
                if let Change::Gradient(gradient) = change {
                    sum += sum_of_squares(gradient);
                }
            });
            sum
        };
        (0..blocks).into_par_iter().map(block).collect_into_vec(squares);
        squares.iter().sum::<f64>().sqrt()
    }

    /// Calls `each` with a place in the flat vector and the change from there on, for every place of the block that
    /// this sum changes.
    pub(crate) fn for_each_chunk(&self, start: usize, len: usize, mut each: impl FnMut(usize, Change<'_>)) {
        let end = start + len;
        let mut sum = [0.0; CHUNK];
        let tensors = self.layout.tensors();
        let first = tensors.partition_point(|tensor| tensor.range.end <= start);
        for (number, tensor) in tensors.iter().enumerate().skip(first) {
            if tensor.range.start >= end {
                break;
            }
            let range = tensor.range.start.max(start)..tensor.range.end.min(end);
            match tensor.kind {
                TensorKind::Dense if self.nonempty().any(|addend| addend.factors(number).is_some()) => {
                    self.for_product(number, tensor.range.start, range, &mut each);
                }
                TensorKind::Dense => {
                    for at in range.clone().step_by(CHUNK) {
                        let part = at..range.end.min(at + CHUNK);
                        let parts = self.nonempty().map(|addend| &addend.values[part.clone()]);
                        each(at, Change::Gradient(sum_of(parts, &mut sum[..part.len()])));
                    }
                }
                TensorKind::Buffer => {
                    for at in range.clone().step_by(CHUNK) {
                        let part = at..range.end.min(at + CHUNK);
                        let mean = &mut sum[..part.len()];
                        self.mean_value(part, mean);
                        each(at, Change::Value(mean));
                    }
                }
                TensorKind::Rows { width } => {
                    let row_at = |at: usize| (at - tensor.range.start) / width;
                    for row in row_at(range.start)..=row_at(range.end - 1) {
                        let row_start = tensor.range.start + row * width;
                        let inside = row_start.max(range.start)..(row_start + width).min(range.end);
                        self.for_row((number, row as u32), row_start, inside, &mut sum, &mut each);
                    }
                }
            }
        }
    }

    /// A part of a tensor, which starts at `start`, of which at least one addend is a product.
    fn for_product(
        &self,
        tensor: usize,
        start: usize,
        range: Range<usize>,
        each: &mut impl FnMut(usize, Change<'_>),
    ) {
        PRODUCT.with_borrow_mut(|product| {
            let sum = &mut product[..range.len()];
            for (i, addend) in self.nonempty().enumerate() {
                match addend.factors(tensor) {
                    Some(factors) => factors.multiply(range.start - start..range.end - start, sum, i > 0),
                    None if i == 0 => sum.copy_from_slice(&addend.values[range.clone()]),
                    None => add(sum, &addend.values[range.clone()]),
                }
            }
            each(range.start, Change::Gradient(sum));
        });
    }

    /// The mean of what the workers found of a statistic, by how much each of them saw.
    fn mean_value(&self, range: Range<usize>, mean: &mut [f32]) {
        let weight = self.addends.weight();
        mean.fill(0.0);
        for addend in self.nonempty() {
            let share = (addend.weight / weight) as f32;
            for (mean, value) in mean.iter_mut().zip(&addend.values[range.clone()]) {
                *mean += share * value;
            }
        }
    }

    /// One row of a table, which starts at `row_start`, or what of it lies in `inside`.
    fn for_row(
        &self,
        (tensor, row): (usize, u32),
        row_start: usize,
        inside: Range<usize>,
        sum: &mut [f32; CHUNK],
        each: &mut impl FnMut(usize, Change<'_>),
    ) {
        let touching = || self.nonempty().filter_map(|addend| addend.row(tensor, row));
        if self.rows == RowRule::Touched && touching().next().is_none() {
            return;
        }
        for at in inside.clone().step_by(CHUNK) {
            let part = at..inside.end.min(at + CHUNK);
            let parts = touching().map(|values| &values[part.start - row_start..part.end - row_start]);
            each(at, Change::Gradient(sum_of(parts, &mut sum[..part.len()])));
        }
    }
}

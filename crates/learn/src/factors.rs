//! The gradient of a linear layer's weights before it is multiplied out: the layer's inputs, and the gradient of its
//! outputs.
//!
//! The weights of a large layer outnumber a batch's activations by far. An update of them need not write
//! their gradient to memory and read it again: the update multiplies the factors a block at a time, while the block is
//! in the cache, and what it gets is the same to the bit.

use std::ops::Range;

use crate::kernels::matmul::{DEPTH, Matrix, matmul};

/// Two matrices that stand for their product.
#[derive(Clone, Debug, Default)]
pub(crate) struct Factors {
    /// `(samples, inputs)`: the first matrix, transposed.
    inputs: Vec<f32>,
    /// `(samples, outputs)`: the second.
    upstream: Vec<f32>,
    /// Samples, inputs and outputs.
    sizes: [usize; 3],
}

/// How far apart rows of `columns` floats are kept: a cache line more than they are long. Rows a multiple of 4 KiB
/// apart would displace each other in the first-level cache.
fn stride(columns: usize) -> usize {
    columns + 16
}

/// The fewest values of a product that is kept in factors.
const LEAST: usize = 1 << 16;

impl Factors {
    /// Whether factors are worth keeping: if they are small beside their product. Sums longer than [`DEPTH`] are
    /// written in between, and added to another product they would not come out the same.
    pub(crate) fn are_worthwhile(a: Matrix<'_>, b: Matrix<'_>) -> bool {
        let (inputs, samples, outputs) = (a.rows(), a.columns(), b.columns());
        let is_small = 2 * samples * (inputs + outputs) < inputs * outputs;
        is_small && samples <= DEPTH && inputs * outputs >= LEAST
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sizes[0] == 0
    }

    /// Forgets the factors, and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.sizes[0] = 0;
    }

    /// Keeps copies of two matrices.
    pub(crate) fn keep(&mut self, a: Matrix<'_>, b: Matrix<'_>) {
        self.sizes = [a.columns(), a.rows(), b.columns()];
        a.transposed().copy_to(&mut self.inputs, stride(a.rows()));
        b.copy_to(&mut self.upstream, stride(b.columns()));
    }

    /// Computes some of the product's values, which lie in the order of its rows, or adds them to what is there.
    pub(crate) fn multiply(&self, range: Range<usize>, values: &mut [f32], add: bool) {
        assert_eq!(values.len(), range.len(), "a place for every value");
        let [samples, inputs, outputs] = self.sizes;
        let inputs = Matrix::strided(&self.inputs, samples, inputs, stride(inputs)).transposed();
        let upstream = Matrix::strided(&self.upstream, samples, outputs, stride(outputs));
        let (mut at, mut values) = (range.start, values);
        while at < range.end {
            // As many whole rows as there are, or what there is of one.
            let (row, column) = (at / outputs, at % outputs);
            let rows = if column == 0 { ((range.end - at) / outputs).max(1) } else { 1 };
            let columns = column..outputs.min(column + (range.end - at));
            let (part, rest) = values.split_at_mut(rows * columns.len());
            matmul(
                part,
                columns.len(),
                inputs.part(row..row + rows, 0..samples),
                upstream.part(0..samples, columns),
                add,
            );
            at += part.len();
            values = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn any_part_of_a_product_comes_out_the_same() {
        let mut random = Random::new(3);
        let (samples, inputs, outputs) = (9, 300, 301);
        let mut floats = |n: usize| -> Vec<f32> { (0..n).map(|_| random.between(-1.0, 1.0)).collect() };
        let (x, dy) = (floats(samples * inputs), floats(samples * outputs));
        let a = Matrix::new(&x, samples, inputs).transposed();
        let b = Matrix::new(&dy, samples, outputs);
        let mut whole = vec![1.0; inputs * outputs];
        matmul(&mut whole, outputs, a, b, true);
        assert!(Factors::are_worthwhile(a, b));
        let mut factors = Factors::default();
        factors.keep(b.transposed(), a.transposed());
        factors.keep(a, b);
        for range in [0..1, 5..200, 300..302, 0..301, 100..1000, 602..1505, 89_000..90_300, 0..90_300] {
            let mut part = vec![1.0; range.len()];
            factors.multiply(range.clone(), &mut part, true);
            assert_eq!(part, whole[range.clone()], "{range:?}");
        }
        factors.clear();
        assert!(factors.is_empty());
    }
}

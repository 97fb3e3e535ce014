//! Matrix products.
//!
//! A product is computed in tiles that fit the registers. The right matrix is read in panels as wide as a tile; where
//! it is used often enough, or cannot be read in full registers, a block of it is first copied into panels that lie in
//! a row. A left matrix whose columns lie in a row is copied too. What is copied stays in the second-level cache.

mod matrix_mut;
mod panel;
mod tile;

use std::cell::RefCell;
use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::LANES;
use super::instructions::simd;
use crate::buffer::{FloatBuffer, FloatPool};
use matrix_mut::MatrixMut;
use panel::widths;
use tile::{Tiles, most_rows};

/// A matrix in a slice, with any distance between rows and between columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows without gaps between them.
    pub(crate) fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(data, rows, columns, columns)
    }

    /// Rows that start every `stride` floats.
    pub(crate) fn strided(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        if rows > 0 && columns > 0 {
            let needed = (rows - 1) * stride + columns;
            assert!(
                needed <= data.len(),
                "a {rows}×{columns} matrix needs {needed} floats, got {}",
                data.len()
            );
        }
        Self { data, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// Rows and columns exchanged.
    pub(crate) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    pub(crate) fn rows(self) -> usize {
        self.rows
    }

    pub(crate) fn columns(self) -> usize {
        self.columns
    }

    /// Some rows of some columns.
    pub(crate) fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(rows.end <= self.rows && columns.end <= self.columns, "a part lies within the whole");
        let data =
            if rows.is_empty() || columns.is_empty() { &[] } else { self.from(rows.start, columns.start) };
        Self { data, rows: rows.len(), columns: columns.len(), ..self }
    }

    /// Writes the matrix row by row, on all threads of the pool, with rows that start every `stride` floats.
    pub(crate) fn copy_to(self, to: &mut Vec<f32>, stride: usize) {
        to.resize(self.rows * stride, 0.0);
        to.par_chunks_exact_mut(stride).with_min_len(16).enumerate().for_each(|(i, row)| {
            let (row, from) = (&mut row[..self.columns], self.from(i, 0));
            if self.column_stride == 1 {
                row.copy_from_slice(&from[..self.columns]);
            } else {
                row.iter_mut()
                    .zip(from.iter().step_by(self.column_stride))
                    .for_each(|(to, from)| *to = *from);
            }
        });
    }

    /// Everything from one place on.
    #[inline(always)]
    fn from(self, row: usize, column: usize) -> &'a [f32] {
        &self.data[row * self.row_stride + column * self.column_stride..]
    }
}

/// How many products are summed in registers before a tile is written.
pub(crate) const DEPTH: usize = 256;

/// The columns of the right matrix, and the rows of the left, that are handled at a time.
const COLUMNS: usize = 768;
const ROWS: usize = 192;

/// A right matrix is worth copying into panels if the product has more than `FEW_ROWS` rows and the matrix more than
/// `FEW_FLOATS` floats; a left one whose columns lie in a row, if the product has more than `FEW_REGISTERS` registers
/// of columns.
const FEW_ROWS: usize = 64;
const FEW_FLOATS: usize = 1 << 14;
const FEW_REGISTERS: usize = 6;

/// What a thread copies blocks into, kept from product to product.
struct BlockCopies {
    left: FloatBuffer,
    right: FloatBuffer,
}

thread_local! {
    static BLOCKS: RefCell<BlockCopies> = RefCell::new(BlockCopies {
        left: FloatPool::default().take(ROWS * DEPTH),
        // The last panel may reach beyond the last column.
        right: FloatPool::default().take((COLUMNS + panel::WIDEST) * DEPTH),
    });
}

/// `c = a · b`, or `c += a · b` with `add`. The rows of `c` start every `stride` floats.
pub(crate) fn matmul(c: &mut [f32], stride: usize, a: Matrix<'_>, b: Matrix<'_>, add: bool) {
    let c = MatrixMut::of(c, stride, a, b);
    Product { c, a, b, add }.compute();
}

/// The same with the columns of a large product shared out among the threads of the pool. No bit depends on their
/// number.
pub(crate) fn matmul_shared(c: &mut [f32], stride: usize, a: Matrix<'_>, b: Matrix<'_>, add: bool) {
    let c = MatrixMut::of(c, stride, a, b);
    let threads = rayon::current_num_threads();
    // Two parts a thread, so that one which is held up leaves work to the others.
    let most = if threads == 1 { 1 } else { 2 * threads };
    Product { c, a, b, add }.share((a.rows * a.columns * b.columns / SHARE).min(most));
}

/// How many multiplications are worth another thread: some hundredths of a millisecond.
const SHARE: usize = 1 << 19;

struct Product<'a> {
    c: MatrixMut<'a>,
    a: Matrix<'a>,
    b: Matrix<'a>,
    add: bool,
}

impl Product<'_> {
    /// Computes the product on this thread.
    fn compute(self) {
        BLOCKS.with_borrow_mut(|blocks| simd(OnThread { product: self, blocks }));
    }

    /// Computes the product in `parts` parts, on as many threads as are free.
    fn share(self, parts: usize) {
        let Self { c, a, b, add } = self;
        let (some, panels) = (parts / 2, b.columns / panel::WIDEST);
        if some == 0 || panels < parts {
            return Self { c, a, b, add }.compute();
        }
        let middle = b.columns * some / parts / LANES * LANES;
        let (left, right) = c.split(middle);
        let (b_left, b_right) = (b.part(0..b.rows, 0..middle), b.part(0..b.rows, middle..b.columns));
        rayon::join(
            || Product { c: left, a, b: b_left, add }.share(some),
            || Product { c: right, a, b: b_right, add }.share(parts - some),
        );
    }
}

/// A product on one thread, with what it copies blocks into.
struct OnThread<'a> {
    product: Product<'a>,
    blocks: &'a mut BlockCopies,
}

impl WithSimd for OnThread<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { product: Product { mut c, a, b, add }, blocks } = self;
        let (m, n, k) = (a.rows, b.columns, a.columns);
        if m == 0 || n == 0 {
            return;
        }
        if k == 0 && !add {
            c.clear();
        }
        let full = n.is_multiple_of(S::F32_LANES);
        let copies_right = b.column_stride != 1 || !full || (m > FEW_ROWS && k * n > FEW_FLOATS);
        let copies_left = a.column_stride != 1 && n > FEW_REGISTERS * S::F32_LANES;
        for k0 in (0..k).step_by(DEPTH) {
            let depth = (k0, DEPTH.min(k - k0));
            for n0 in (0..n).step_by(COLUMNS) {
                let columns = (n0, COLUMNS.min(n - n0));
                if copies_right {
                    panel::copy_right(simd, &mut blocks.right, b, depth, columns);
                }
                for m0 in (0..m).step_by(ROWS) {
                    let rows = (m0, ROWS.min(m - m0));
                    if copies_left {
                        panel::copy_left(&mut blocks.left, a, rows, depth);
                    }
                    let left = copies_left.then_some(&blocks.left[..]);
                    let right = copies_right.then_some(&blocks.right[..]);
                    ProductBlock { a, b, left, right, rows, columns, depth, add: add || k0 > 0 }
                        .compute(simd, &mut c);
                }
            }
        }
    }
}

/// A part of a product: where it starts and how far it reaches, and copies of its matrices where there are any.
struct ProductBlock<'a> {
    a: Matrix<'a>,
    b: Matrix<'a>,
    left: Option<&'a [f32]>,
    right: Option<&'a [f32]>,
    rows: (usize, usize),
    columns: (usize, usize),
    depth: (usize, usize),
    add: bool,
}

impl ProductBlock<'_> {
    #[inline(always)]
    fn compute<S: Simd>(&self, simd: S, c: &mut MatrixMut<'_>) {
        let ((m0, rows), (n0, columns), (k0, depth)) = (self.rows, self.columns, self.depth);
        let mut column = 0;
        for width in widths::<S>(columns) {
            let floats = width * S::F32_LANES;
            // Of a matrix that is read where it lies, the next panel is fetched while this one is used.
            let (b, b_step, ahead) = match self.right {
                Some(right) => (&right[column * depth..], floats, 0),
                None => (self.b.from(k0, n0 + column), self.b.row_stride, floats),
            };
            let across = n0 + column..n0 + columns.min(column + floats);
            // Tiles of rows that are as even as can be: none is left with a single row.
            let tiles = rows.div_ceil(most_rows::<S>(width));
            let (size, larger) = (rows / tiles, rows % tiles);
            let mut row = 0;
            for (size, count) in [(size + 1, larger), (size, tiles - larger)] {
                if count == 0 {
                    continue;
                }
                let (a, a_row, a_step) = match self.left {
                    Some(left) => (&left[row..], 1, rows),
                    None => (self.a.from(m0 + row, k0), self.a.row_stride, self.a.column_stride),
                };
                let c = c.part(m0 + row..m0 + row + size * count, across.clone());
                Tiles { depth, a, a_row, a_step, b, b_step, ahead, c, add: self.add }.sum(simd, size, width);
                row += size * count;
            }
            column += floats;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn naive(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
        let at = |m: &Matrix<'_>, i: usize, j: usize| m.data[i * m.row_stride + j * m.column_stride];
        let mut c = Vec::new();
        for i in 0..a.rows {
            for j in 0..b.columns {
                c.push((0..a.columns).map(|k| at(&a, i, k) * at(&b, k, j)).sum());
            }
        }
        c
    }

    #[test]
    fn products_equal_the_definition() {
        let mut random = Random::new(5);
        let sizes = [
            [1, 1, 1],
            [3, 5, 7],
            [17, 6, 25],
            [32, 120, 256],
            [64, 1, 33],
            [1, 40, 9],
            [5, 5, 0],
            [40, 64, 300],
            [13, 112, 40],
            [200, 97, 31],
            [60, 800, 20],
            [390, 33, 260],
            [70, 401, 300],
            // A single row of the right matrix, which may lie in memory as a column.
            [3, 10, 1],
            [3, 14, 1],
            [3, 30, 1],
            [3, 60, 1],
        ];
        for [m, n, k] in sizes {
            let mut floats = |n: usize| -> Vec<f32> { (0..n).map(|_| random.between(-1.0, 1.0)).collect() };
            let (a, b) = (floats(m * k), floats(k * n));
            for (left, right) in [(false, false), (true, false), (false, true), (true, true)] {
                let a = if left { Matrix::new(&a, k, m).transposed() } else { Matrix::new(&a, m, k) };
                let b = if right { Matrix::new(&b, n, k).transposed() } else { Matrix::new(&b, k, n) };
                let expect = naive(a, b);
                let stride = n + 3;
                let mut c = vec![1.0; m * stride];
                matmul(&mut c, stride, a, b, true);
                matmul_shared(&mut c, stride, a, b, false);
                matmul(&mut c, stride, a, b, true);
                for i in 0..m {
                    for j in 0..n {
                        let (got, want) = (c[i * stride + j], 2.0 * expect[i * n + j]);
                        assert!((got - want).abs() < 1e-4, "{m}×{n}×{k} at {i},{j}: {got}, not {want}");
                    }
                    assert!(
                        c[i * stride + n..(i + 1) * stride].iter().all(|&x| x == 1.0),
                        "wrote between rows"
                    );
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "needs 6 floats")]
    fn a_matrix_beyond_its_slice_is_refused() {
        Matrix::new(&[0.0; 5], 2, 3);
    }
}

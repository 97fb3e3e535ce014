//! Matrix products, on the `gemm` crate's kernels.

use gemm_common::Parallelism;

/// A matrix in a slice: rows and columns at any distance.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows in a row.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(data, rows, columns, columns)
    }

    /// Rows that start every `stride` floats.
    pub fn strided(data: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
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
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// `c = a · b`, or `c += a · b` with `add`. The rows of `c` start every `stride` floats.
pub fn matmul(c: &mut [f32], stride: usize, a: Matrix<'_>, b: Matrix<'_>, add: bool) {
    let (m, n, k) = (a.rows, b.columns, a.columns);
    assert_eq!(k, b.rows, "a {m}×{k} matrix cannot multiply one of {} rows", b.rows);
    if m == 0 || n == 0 {
        return;
    }
    assert!(n <= stride && (m - 1) * stride + n <= c.len(), "the product {m}×{n} does not fit");
    // The kernels want the destination's rows to be adjacent, ours are its columns: so the transposed product,
    // cᵀ = bᵀ · aᵀ, is computed.
    let multiply = gemm_f32::gemm::f32::get_gemm_fn();
    // SAFETY: `a` and `b` were checked to lie within their slices when they were made (a transposed matrix covers
    // the same floats), and `c` is checked above; `c` is borrowed mutably, so it overlaps neither.
    unsafe {
        multiply(
            n,
            m,
            k,
            c.as_mut_ptr(),
            stride as isize,
            1,
            add,
            b.data.as_ptr(),
            b.row_stride as isize,
            b.column_stride as isize,
            a.data.as_ptr(),
            a.row_stride as isize,
            a.column_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
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
        for (m, n, k) in
            [(1, 1, 1), (3, 5, 7), (17, 6, 25), (32, 120, 256), (64, 1, 33), (1, 40, 9), (5, 5, 0)]
        {
            let mut floats = |n: usize| -> Vec<f32> { (0..n).map(|_| random.between(-1.0, 1.0)).collect() };
            let (a, b) = (floats(m * k), floats(k * n));
            for (left, right) in [(false, false), (true, false), (false, true), (true, true)] {
                let a = if left { Matrix::new(&a, k, m).transposed() } else { Matrix::new(&a, m, k) };
                let b = if right { Matrix::new(&b, n, k).transposed() } else { Matrix::new(&b, k, n) };
                let expect = naive(a, b);
                let stride = n + 3;
                let mut c = vec![1.0; m * stride];
                matmul(&mut c, stride, a, b, true);
                matmul(&mut c, stride, a, b, false);
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

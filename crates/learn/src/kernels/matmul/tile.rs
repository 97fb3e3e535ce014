//! The innermost loops of a product: tiles whose sums stay in registers.

use pulp::{Simd, WithSimd};

use super::matrix_mut::MatrixMut;
use crate::kernels::LANES;
use crate::kernels::instructions::{factor, mul_add, prefetch};
#[cfg(target_arch = "arm")]
use crate::kernels::neon32::{self, TileSums};

/// Tiles of equal size, one below the other: some columns of a product, and the part of its sums that `depth` gives.
pub(super) struct Tiles<'a> {
    pub depth: usize,
    /// The left matrix from the first row on: its rows start every `a_row` floats, its columns every `a_step`.
    pub a: &'a [f32],
    pub a_row: usize,
    pub a_step: usize,
    /// The right matrix from the first column on, in full registers; its rows start every `b_step` floats.
    pub b: &'a [f32],
    pub b_step: usize,
    /// How many floats further the panel lies that is wanted next.
    pub ahead: usize,
    /// The place of all tiles.
    pub c: MatrixMut<'a>,
    /// Whether to add to what is there.
    pub add: bool,
}

/// How many rows a tile that is `width` registers wide can have: its sums, one row of the right matrix and a float of
/// the left fill the machine's registers.
#[inline(always)]
pub(super) fn most_rows<S: Simd>(width: usize) -> usize {
    match (width, S::REGISTER_COUNT >= 32) {
        (1, _) | (2, true) => 12,
        (_, true) => 8,
        (2, false) => 6,
        (_, false) => 4,
    }
}

/// Calls [`Tiles::sum_sized`] with numbers that the compiler knows.
macro_rules! sized {
    ($tiles:ident, $simd:ident, $rows:ident, $width:literal, $($count:literal)*) => {
        match $rows {
            $($count => $simd.vectorize(OfSize::<$count, $width>($tiles)),)*
            _ => unreachable!("a tile of {} rows and {} registers", $rows, $width),
        }
    };
}

/// Tiles of `M` rows and `V` registers of columns.
struct OfSize<'a, const M: usize, const V: usize>(Tiles<'a>);

impl<const M: usize, const V: usize> WithSimd for OfSize<'_, M, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.0.sum_sized::<S, M, V>(simd);
    }
}

impl Tiles<'_> {
    /// Computes tiles of `rows` rows and `width` registers of columns.
    #[inline(always)]
    pub(super) fn sum<S: Simd>(self, simd: S, rows: usize, width: usize) {
        // As `most_rows` says: other sizes would only make the program larger.
        match (width, S::REGISTER_COUNT >= 32) {
            (1, _) => sized!(self, simd, rows, 1, 1 2 3 4 5 6 7 8 9 10 11 12),
            (2, true) => sized!(self, simd, rows, 2, 1 2 3 4 5 6 7 8 9 10 11 12),
            (2, false) => sized!(self, simd, rows, 2, 1 2 3 4 5 6),
            (_, true) => sized!(self, simd, rows, 3, 1 2 3 4 5 6 7 8),
            (_, false) => sized!(self, simd, rows, 3, 1 2 3 4),
        }
    }

    #[inline(always)]
    fn sum_sized<S: Simd, const M: usize, const V: usize>(self, simd: S) {
        let Tiles { depth, a, a_row, a_step, b, b_step, ahead, mut c, add } = self;
        let (lanes, rows, columns) = (S::F32_LANES, c.rows(), c.columns());
        assert!(rows > 0 && rows.is_multiple_of(M) && depth > 0, "tiles of {M} rows");
        assert!((rows - 1) * a_row + (depth - 1) * a_step < a.len(), "the left matrix is too short");
        assert!((depth - 1) * b_step + V * lanes <= b.len(), "the right matrix is too short");
        assert!((V - 1) * lanes < columns && columns <= V * lanes, "columns that fill the registers");
        let (c, stride) = c.floats();
        for first in (0..rows).step_by(M) {
            let mut sums = [[simd.splat_f32s(0.0); V]; M];
            #[cfg(target_arch = "arm")]
            if neon32::is_for(M, V) {
                let (rows, across) = (a[first * a_row..].as_ptr(), b.as_ptr());
                let (column, column_step) = (lanes, b_step);
                let tile =
                    TileSums { depth, rows, row: a_row, row_step: a_step, across, column, column_step };
                // SAFETY: what a tile reads lies within `a` and `b`, as asserted above, and `c` takes it as below.
                unsafe {
                    tile.add_to(simd, &mut sums);
                    store(simd, sums, c.add(first * stride), stride, columns, add);
                }
                continue;
            }
            // Each tile fetches one of the lines of every row.
            let next = b.as_ptr().wrapping_add(ahead + first / M % V * LANES);
            for k in 0..depth {
                let (a_at, b_at) = (first * a_row + k * a_step, k * b_step);
                prefetch(next.wrapping_add(b_at));
                // SAFETY: rows below `rows` and steps below `depth` lie within `a` and `b`, as asserted above.
                unsafe {
                    let b: [S::f32s; V] = std::array::from_fn(
                        #[inline(always)]
                        |v| b.as_ptr().add(b_at + v * lanes).cast::<S::f32s>().read_unaligned(),
                    );
                    for i in 0..M {
                        let a = simd.splat_f32s(factor(a.as_ptr().add(a_at), i * a_row));
                        for v in 0..V {
                            sums[i][v] = mul_add(simd, a, b[v], sums[i][v]);
                        }
                    }
                }
            }
            // SAFETY: `c` may write to `columns` floats of each of its rows, of which these are some.
            unsafe { store(simd, sums, c.add(first * stride), stride, columns, add) };
        }
    }
}

/// Writes or adds a tile's sums to where they belong. Of the last register of a row, only what lies within `columns`
/// counts. Loops are short and many so that the compiler unrolls each: an array that it cannot unroll leaves the
/// registers.
///
/// # Safety
/// `M` rows of `columns` floats, `stride` apart, must lie in what `c` may write to.
#[inline(always)]
unsafe fn store<S: Simd, const M: usize, const V: usize>(
    simd: S,
    mut sums: [[S::f32s; V]; M],
    c: *mut f32,
    stride: usize,
    columns: usize,
    add: bool,
) {
    let (lanes, last) = (S::F32_LANES, V - 1);
    let is_full = columns == V * lanes;
    let mask = simd.mask_between_m32s(0, (columns - last * lanes) as u32);
    // SAFETY: all places are within the first `columns` floats of the first `M` rows, the masked ones by their mask.
    unsafe {
        let at = |i: usize, v: usize| c.add(i * stride + v * lanes);
        if add {
            for i in 0..M {
                for v in 0..last {
                    sums[i][v] = simd.add_f32s(at(i, v).cast::<S::f32s>().read_unaligned(), sums[i][v]);
                }
            }
            if is_full {
                for i in 0..M {
                    let before = at(i, last).cast::<S::f32s>().read_unaligned();
                    sums[i][last] = simd.add_f32s(before, sums[i][last]);
                }
            } else {
                for i in 0..M {
                    sums[i][last] = simd.add_f32s(simd.mask_load_ptr_f32s(mask, at(i, last)), sums[i][last]);
                }
            }
        }
        for i in 0..M {
            for v in 0..last {
                at(i, v).cast::<S::f32s>().write_unaligned(sums[i][v]);
            }
        }
        if is_full {
            for i in 0..M {
                at(i, last).cast::<S::f32s>().write_unaligned(sums[i][last]);
            }
        } else {
            for i in 0..M {
                simd.mask_store_ptr_f32s(mask, at(i, last), sums[i][last]);
            }
        }
    }
}

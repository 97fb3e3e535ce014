//! Copies of parts of a matrix, in the order in which tiles read them.

use pulp::Simd;

use super::Matrix;

/// The most floats a panel is wide: three registers of sixteen.
pub(super) const WIDEST: usize = 48;

/// The most registers across. ARM of 32 bits has a kernel for two, in which as many sums fit the registers.
const MOST_REGISTERS: usize = if cfg!(target_arch = "arm") { 2 } else { 3 };

/// The widths, in registers, of the panels that the columns are cut into: three, but two and two rather than three
/// and one.
#[inline(always)]
pub(super) fn widths<S: Simd>(columns: usize) -> impl Iterator<Item = usize> {
    let mut registers = columns.div_ceil(S::F32_LANES);
    std::iter::from_fn(
        #[inline(always)]
        move || {
            let width = match registers {
                0 => return None,
                1 => 1,
                2 | 4 => 2,
                _ => MOST_REGISTERS,
            };
            registers -= width;
            Some(width)
        },
    )
}

/// Copies some rows of a left matrix whose columns lie in a row, one column after the other. Pairs are where something
/// starts and how far it reaches.
#[inline(always)]
pub(super) fn copy_left(
    to: &mut [f32],
    a: Matrix<'_>,
    (row, rows): (usize, usize),
    (k0, depth): (usize, usize),
) {
    for (k, to) in to.chunks_exact_mut(rows).take(depth).enumerate() {
        to.copy_from_slice(&a.from(row, k0 + k)[..rows]);
    }
}

/// Copies a block of a right matrix into panels, one behind the other, each row by row. What lies beyond the last
/// column is zero.
#[inline(always)]
pub(super) fn copy_right<S: Simd>(
    _: S,
    to: &mut [f32],
    b: Matrix<'_>,
    (k0, depth): (usize, usize),
    (first, columns): (usize, usize),
) {
    let mut column = 0;
    for width in widths::<S>(columns) {
        let width = width * S::F32_LANES;
        let panel = &mut to[column * depth..(column + width) * depth];
        let (first, columns) = (first + column, width.min(columns - column));
        match (b.column_stride, width / S::F32_LANES) {
            (1, 1) if columns == width => copy_registers::<S, 1>(panel, b, k0, first),
            (1, 2) if columns == width => copy_registers::<S, 2>(panel, b, k0, first),
            (1, 3) if columns == width => copy_registers::<S, 3>(panel, b, k0, first),
            (1, _) => {
                for (k, row) in panel.chunks_exact_mut(width).enumerate() {
                    let (row, beyond) = row.split_at_mut(columns);
                    for (to, from) in row.iter_mut().zip(b.from(k0 + k, first)) {
                        *to = *from;
                    }
                    beyond.fill(0.0);
                }
            }
            _ => transpose(panel, width, b, k0, (first, columns)),
        }
        column += width;
    }
}

/// Copies rows of `V` full registers.
#[inline(always)]
fn copy_registers<S: Simd, const V: usize>(panel: &mut [f32], b: Matrix<'_>, k0: usize, column: usize) {
    // A row may be longer than the distance to the next: that of a single row may be anything.
    for (k, to) in panel.chunks_exact_mut(V * S::F32_LANES).enumerate() {
        let from = b.from(k0 + k, column);
        for v in 0..V {
            let register = v * S::F32_LANES..(v + 1) * S::F32_LANES;
            to[register.clone()].copy_from_slice(&from[register]);
        }
    }
}

/// The side of the squares in which a matrix is transposed.
const SIDE: usize = 16;

/// Copies columns that lie in a row of their own into the rows of a panel.
#[inline(always)]
fn transpose(panel: &mut [f32], width: usize, b: Matrix<'_>, k0: usize, (first, columns): (usize, usize)) {
    let depth = panel.len() / width;
    let (in_squares, squares) = (depth - depth % SIDE, columns - columns % SIDE);
    for column in (0..squares).step_by(SIDE) {
        for k in (0..in_squares).step_by(SIDE) {
            let mut square = [[0.0; SIDE]; SIDE];
            for (i, line) in square.iter_mut().enumerate() {
                line.copy_from_slice(&b.from(k0 + k, first + column + i)[..SIDE]);
            }
            for i in 0..SIDE {
                let row = &mut panel[(k + i) * width + column..][..SIDE];
                for j in 0..SIDE {
                    row[j] = square[j][i];
                }
            }
        }
    }
    for (k, row) in panel.chunks_exact_mut(width).enumerate() {
        let from = if k < in_squares { squares } else { 0 };
        for column in from..columns {
            row[column] = b.from(k0 + k, first + column)[0];
        }
        row[columns..].fill(0.0);
    }
}

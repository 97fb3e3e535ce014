//! A matrix and its two factors of low rank.
//!
//! `M` is `(rows, columns)` and its left factor `P` is `(rows, rank)`, both row by row. The right factor `Q` is
//! `(columns, rank)`. It lies in panels of [`PANEL`] columns, in each of which the columns of one rank are next to each
//! other: `(panel, rank, column)`. So every loop runs over memory that lies in a row, and rows of `M` and panels of `Q`
//! can be computed apart.
//!
//! All sums are in an order of their own, which is the same on every machine and with any number of threads.

use super::vectorized;

/// The largest rank of factors.
pub const MOST_RANK: usize = 64;

/// How many columns of the matrix a panel has.
pub const PANEL: usize = 256;

/// How many sums a product of two vectors has.
const SUMS: usize = 32;

/// A column of the left factor of which so little is left beside the ones before it is nothing but rounding.
const LEAST: f64 = 1e-5;

/// The sizes of a matrix of any number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowRank {
    pub columns: usize,
    pub rank: usize,
}

impl LowRank {
    /// Adds what was lost before to some rows of `M`, and computes those of `P = M Q`.
    pub fn project(self, m: &mut [f32], lost: &[f32], q: &[f32], p: &mut [f32]) {
        let Self { columns, rank } = self;
        vectorized(
            #[inline(always)]
            || {
                for (m, lost) in m.iter_mut().zip(lost) {
                    *m += lost;
                }
                p.fill(0.0);
                for (panel, q) in q.chunks(PANEL * rank).enumerate() {
                    let width = q.len() / rank;
                    for (m, p) in m.chunks(columns).zip(p.chunks_mut(rank)) {
                        let m = &m[panel * PANEL..][..width];
                        for (p, q) in p.iter_mut().zip(q.chunks(width)) {
                            *p += product(m, q);
                        }
                    }
                }
            },
        );
    }

    /// Computes a panel of `Q = Mᵀ P`, from all rows of both.
    pub fn project_back(self, m: &[f32], p: &[f32], panel: usize, q: &mut [f32]) {
        let Self { columns, rank } = self;
        let (width, start) = (q.len() / rank, panel * PANEL);
        vectorized(
            #[inline(always)]
            || {
                q.fill(0.0);
                for (m, p) in m.chunks(4 * columns).zip(p.chunks(4 * rank)) {
                    let row = |row: usize| &m[row * columns + start..][..width];
                    if p.len() == 4 * rank {
                        let rows = [row(0), row(1), row(2), row(3)];
                        for (r, q) in q.chunks_mut(width).enumerate() {
                            add_four(rows, [p[r], p[rank + r], p[2 * rank + r], p[3 * rank + r]], q);
                        }
                        continue;
                    }
                    for (i, p) in p.chunks(rank).enumerate() {
                        for (p, q) in p.iter().zip(q.chunks_mut(width)) {
                            add(row(i), *p, q);
                        }
                    }
                }
            },
        );
    }

    /// Computes some rows of `P Qᵀ`.
    pub fn expand(self, p: &[f32], q: &[f32], m: &mut [f32]) {
        self.each_piece(
            p,
            q,
            #[inline(always)]
            |at, product| m[at..at + product.len()].copy_from_slice(product),
        );
    }

    /// Computes what some rows of `M` have beyond `P Qᵀ`.
    pub fn subtract(self, p: &[f32], q: &[f32], m: &[f32], lost: &mut [f32]) {
        self.each_piece(
            p,
            q,
            #[inline(always)]
            |at, product| {
                let (m, lost) = (&m[at..at + product.len()], &mut lost[at..at + product.len()]);
                for ((lost, m), product) in lost.iter_mut().zip(m).zip(product) {
                    *lost = m - product;
                }
            },
        );
    }

    /// Calls `each` with all of `P Qᵀ`, a panel of a row at a time, and its place.
    #[inline(always)]
    fn each_piece(self, p: &[f32], q: &[f32], mut each: impl FnMut(usize, &[f32])) {
        let Self { columns, rank } = self;
        vectorized(
            #[inline(always)]
            || {
                let mut sum = [0.0; PANEL];
                for (panel, q) in q.chunks(PANEL * rank).enumerate() {
                    let width = q.len() / rank;
                    for (row, p) in p.chunks(rank).enumerate() {
                        let sum = &mut sum[..width];
                        for (k, (p, q)) in p.chunks(2).zip(q.chunks(2 * width)).enumerate() {
                            let (first, second) = q.split_at(width);
                            match (p, k) {
                                (&[a, b], 0) => set_two([first, second], [a, b], sum),
                                (&[a, b], _) => add_two([first, second], [a, b], sum),
                                (_, 0) => set_two([first, first], [p[0], 0.0], sum),
                                _ => add(first, p[0], sum),
                            }
                        }
                        each(row * columns + panel * PANEL, sum);
                    }
                }
            },
        );
    }

    /// Takes `initial` for the columns of `Q` that are nothing but zeros: nothing would ever come of them.
    pub fn replace_zeros(self, q: &mut [f32], initial: &[f32]) {
        let size = PANEL * self.rank;
        for r in 0..self.rank {
            let column = |panel: &[f32]| {
                let width = panel.len() / self.rank;
                r * width..(r + 1) * width
            };
            if q.chunks(size).any(|panel| panel[column(panel)].iter().any(|value| *value != 0.0)) {
                continue;
            }
            for (panel, initial) in q.chunks_mut(size).zip(initial.chunks(size)) {
                panel[column(initial)].copy_from_slice(&initial[column(initial)]);
            }
        }
    }
}

/// Makes the columns of a left factor orthogonal to each other and of length 1. One that has nothing of its own becomes
/// zeros. What is no number stays none: it must not go unnoticed.
pub fn orthonormalize(p: &mut [f32], rank: usize) {
    // Once more, because of what rounding has left of nearly parallel columns.
    for _ in 0..2 {
        let mut before = [0.0f64; MOST_RANK];
        for row in p.chunks(rank) {
            for (before, value) in before.iter_mut().zip(row) {
                *before += f64::from(*value) * f64::from(*value);
            }
        }
        for c in 0..rank {
            let along = products(p, rank, c);
            let length = along[c].sqrt();
            if length.is_finite() && length <= LEAST * before[c].sqrt() {
                p.chunks_mut(rank).for_each(|row| row[c] = 0.0);
                continue;
            }
            for row in p.chunks_mut(rank) {
                let unit = f64::from(row[c]) / length;
                row[c] = unit as f32;
                for (value, along) in row[c + 1..].iter_mut().zip(&along[c + 1..]) {
                    *value = (f64::from(*value) - along / length * unit) as f32;
                }
            }
        }
    }
}

/// The products of a column with itself and those behind it.
fn products(p: &[f32], rank: usize, c: usize) -> [f64; MOST_RANK] {
    let mut sums = [0.0; MOST_RANK];
    for row in p.chunks(rank) {
        let of = f64::from(row[c]);
        for (sum, value) in sums[c..].iter_mut().zip(&row[c..]) {
            *sum += of * f64::from(*value);
        }
    }
    sums
}

#[inline(always)]
fn product(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; SUMS];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<SUMS>(), b.as_chunks::<SUMS>());
    for (a, b) in a.iter().zip(b) {
        for i in 0..SUMS {
            sums[i] += a[i] * b[i];
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
        *sum += a * b;
    }
    let mut half = SUMS / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0]
}

#[inline(always)]
fn add(values: &[f32], times: f32, sum: &mut [f32]) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum += times * value;
    }
}

#[inline(always)]
fn set_two([a, b]: [&[f32]; 2], times: [f32; 2], sum: &mut [f32]) {
    for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
        *sum = times[0] * a + times[1] * b;
    }
}

#[inline(always)]
fn add_two([a, b]: [&[f32]; 2], times: [f32; 2], sum: &mut [f32]) {
    for ((sum, a), b) in sum.iter_mut().zip(a).zip(b) {
        *sum += times[0] * a + times[1] * b;
    }
}

#[inline(always)]
fn add_four([a, b, c, d]: [&[f32]; 4], times: [f32; 4], sum: &mut [f32]) {
    let all = sum.iter_mut().zip(a).zip(b).zip(c).zip(d);
    for ((((sum, a), b), c), d) in all {
        *sum += (times[0] * a + times[1] * b) + (times[2] * c + times[3] * d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn floats(random: &mut Random, count: usize) -> Vec<f32> {
        (0..count).map(|_| random.between(-1.0, 1.0)).collect()
    }

    /// A right factor as the definition has it: `(columns, rank)`, row by row.
    fn plain(q: &[f32], LowRank { columns, rank }: LowRank) -> Vec<f32> {
        let mut plain = vec![0.0; q.len()];
        for (panel, q) in q.chunks(PANEL * rank).enumerate() {
            let width = q.len() / rank;
            for (at, value) in q.iter().enumerate() {
                plain[(panel * PANEL + at % width) * rank + at / width] = *value;
            }
        }
        assert_eq!(plain.len(), columns * rank);
        plain
    }

    #[test]
    fn products_equal_the_definition() {
        let mut random = Random::new(7);
        for (rows, columns, rank) in [(1, 1, 1), (5, 40, 2), (37, 300, 3), (130, 257, 5), (8, 700, 64)] {
            let low = LowRank { columns, rank };
            let (m, lost) = (floats(&mut random, rows * columns), floats(&mut random, rows * columns));
            let q = floats(&mut random, columns * rank);
            let (mut sum, mut p) = (m.clone(), vec![f32::NAN; rows * rank]);
            low.project(&mut sum, &lost, &q, &mut p);
            let q_plain = plain(&q, low);
            let near =
                |found: f32, expect: f32| assert!((found - expect).abs() < 1e-3, "{found} for {expect}");
            for (i, sum) in sum.iter().enumerate() {
                assert_eq!(*sum, m[i] + lost[i]);
            }
            for (i, found) in p.iter().enumerate() {
                let (row, r) = (i / rank, i % rank);
                near(*found, (0..columns).map(|j| sum[row * columns + j] * q_plain[j * rank + r]).sum());
            }
            let mut back = vec![f32::NAN; columns * rank];
            for (panel, back) in back.chunks_mut(PANEL * rank).enumerate() {
                low.project_back(&m, &p, panel, back);
            }
            for (i, found) in plain(&back, low).iter().enumerate() {
                let (column, r) = (i / rank, i % rank);
                let expect: f32 = (0..rows).map(|row| m[row * columns + column] * p[row * rank + r]).sum();
                assert!((found - expect).abs() < 1e-5 * (rows * columns) as f32, "{found} for {expect}");
            }
            let (mut product, mut rest) = (vec![f32::NAN; m.len()], vec![f32::NAN; m.len()]);
            low.expand(&p, &q, &mut product);
            low.subtract(&p, &q, &m, &mut rest);
            for (i, found) in product.iter().enumerate() {
                let (row, column) = (i / columns, i % columns);
                near(*found, (0..rank).map(|r| p[row * rank + r] * q_plain[column * rank + r]).sum());
                near(rest[i], m[i] - found);
            }
        }
    }

    #[test]
    fn columns_become_orthonormal_and_those_that_depend_on_others_zero() {
        let mut random = Random::new(3);
        let (rows, rank) = (300, 6);
        let mut p = floats(&mut random, rows * rank);
        for row in p.chunks_mut(rank) {
            // Nearly parallel; a sum of two others; nothing at all.
            row[1] = row[0] + 1e-3 * row[1];
            row[3] = row[0] - 2.0 * row[2];
            row[4] = 0.0;
        }
        orthonormalize(&mut p, rank);
        for c in 0..rank {
            let along = products(&p, rank, c);
            for (k, along) in along.iter().enumerate().take(rank).skip(c) {
                let expect = if k == c && c != 3 && c != 4 { 1.0 } else { 0.0 };
                assert!((along - expect).abs() < 1e-5, "{along} for columns {c} and {k}");
            }
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        for wrong in [f32::NAN, f32::INFINITY] {
            let mut p = vec![1.0, 2.0, wrong, 4.0, 5.0, 7.0];
            orthonormalize(&mut p, 2);
            assert!(p.iter().any(|value| value.is_nan()), "{p:?}");
        }
    }

    #[test]
    fn columns_of_zeros_begin_again() {
        let low = LowRank { columns: PANEL + 2, rank: 2 };
        let initial: Vec<f32> = (0..low.columns * 2).map(|i| 1.0 + i as f32).collect();
        let mut q = vec![0.0; initial.len()];
        // In the last panel, of the second column.
        *q.last_mut().expect("values") = 9.0;
        let mut expect = q.clone();
        expect[..PANEL].copy_from_slice(&initial[..PANEL]);
        expect[2 * PANEL..2 * PANEL + 2].copy_from_slice(&initial[2 * PANEL..2 * PANEL + 2]);
        low.replace_zeros(&mut q, &initial);
        assert_eq!(q, expect);
    }
}

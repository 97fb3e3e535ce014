//! Functions of one value, and sums over rows and columns.

use super::{LANES, vectorized};
use crate::random::mix;

/// What a layer does to its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    None,
    Relu,
    Tanh,
}

/// eˣ to about 2 units in the last place, by range reduction to ±ln 2 / 2 and a polynomial.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5 · 2²³ rounds to a whole number and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    // ln 2 in two parts, of which the first times n is exact.
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let p = p * (r * r) + r + 1.0;
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    2.0 / (1.0 + exp(-2.0 * x)) - 1.0
}

/// `y[r] = activation(y[r] + bias)` for every row.
pub(crate) fn bias_activation(y: &mut [f32], bias: &[f32], activation: Activation) {
    #[inline(always)]
    fn rows(y: &mut [f32], bias: &[f32], f: impl Fn(f32) -> f32) {
        for row in y.chunks_exact_mut(bias.len()) {
            for (y, bias) in row.iter_mut().zip(bias) {
                *y = f(*y + bias);
            }
        }
    }
    vectorized(
        #[inline(always)]
        || match activation {
            Activation::None => rows(
                y,
                bias,
                #[inline(always)]
                |x| x,
            ),
            Activation::Relu => rows(
                y,
                bias,
                #[inline(always)]
                |x| x.max(0.0),
            ),
            Activation::Tanh => {
                // Rows are often narrower than a register, the whole is not.
                rows(
                    y,
                    bias,
                    #[inline(always)]
                    |x| x,
                );
                for y in y.iter_mut() {
                    *y = tanh(*y);
                }
            }
        },
    );
}

/// `y = activation(y)`.
pub(crate) fn activate(y: &mut [f32], activation: Activation) {
    vectorized(
        #[inline(always)]
        || match activation {
            Activation::None => {}
            Activation::Relu => y.iter_mut().for_each(|y| *y = y.max(0.0)),
            Activation::Tanh => y.iter_mut().for_each(|y| *y = tanh(*y)),
        },
    );
}

/// `dy *= activation'`, told from the activation's result `y`.
pub(crate) fn activation_backward(dy: &mut [f32], y: &[f32], activation: Activation) {
    vectorized(
        #[inline(always)]
        || match activation {
            Activation::None => {}
            Activation::Relu => {
                for (dy, y) in dy.iter_mut().zip(y) {
                    *dy = if *y > 0.0 { *dy } else { 0.0 };
                }
            }
            Activation::Tanh => {
                for (dy, y) in dy.iter_mut().zip(y) {
                    *dy *= 1.0 - y * y;
                }
            }
        },
    );
}

/// `a += b`.
pub(crate) fn add(a: &mut [f32], b: &[f32]) {
    vectorized(
        #[inline(always)]
        || {
            for (a, b) in a.iter_mut().zip(b) {
                *a += b;
            }
        },
    );
}

/// The sum over rows, added to `out` or replacing it.
pub(crate) fn column_sums(rows: &[f32], out: &mut [f32], add: bool) {
    column_sums_strided(rows, out.len(), out, add);
}

/// The same over the first columns of rows that start every `stride` floats.
pub(crate) fn column_sums_strided(rows: &[f32], stride: usize, out: &mut [f32], add: bool) {
    if !add {
        out.fill(0.0);
    }
    vectorized(
        #[inline(always)]
        || {
            for row in rows.chunks(stride) {
                for (out, x) in out.iter_mut().zip(row) {
                    *out += x;
                }
            }
        },
    );
}

/// The sums over samples and places of values with the samples innermost, `(places, out, lanes)`.
pub(crate) fn lane_sums(values: &[f32], lanes: usize, out: &mut [f32], add: bool) {
    let channels = out.len();
    for (channel, out) in out.iter_mut().enumerate() {
        let mut sums = [0.0; LANES];
        vectorized(
            #[inline(always)]
            || {
                for place in values.chunks_exact(channels * lanes) {
                    for part in place[channel * lanes..(channel + 1) * lanes].chunks_exact(LANES) {
                        for (sum, x) in sums.iter_mut().zip(part) {
                            *sum += x;
                        }
                    }
                }
            },
        );
        *out = if add { *out } else { 0.0 } + sums.iter().sum::<f32>();
    }
}

/// `out` `(columns, stride)` from `matrix` `(rows, columns)`: rows become the first columns, the rest is zero.
pub(crate) fn transpose(matrix: &[f32], columns: usize, out: &mut [f32], stride: usize) {
    const TILE: usize = 16;
    let rows = matrix.len() / columns.max(1);
    assert!(rows <= stride && columns * stride <= out.len(), "the transposed matrix does not fit");
    for start in (0..rows).step_by(TILE) {
        let end = rows.min(start + TILE);
        for (column, out) in out.chunks_exact_mut(stride).enumerate().take(columns) {
            for (row, out) in out[start..end].iter_mut().enumerate() {
                *out = matrix[(start + row) * columns + column];
            }
        }
    }
    if rows < stride {
        out.chunks_exact_mut(stride).for_each(|row| row[rows..].fill(0.0));
    }
}

/// Copies `row` into every row of `out`.
pub(crate) fn fill_rows(out: &mut [f32], row: &[f32]) {
    for out in out.chunks_exact_mut(row.len()) {
        out.copy_from_slice(row);
    }
}

/// `y = x` where chance keeps it, scaled so that the mean stays, and 0 elsewhere. The same seed chooses the same
/// places, so the backward pass needs no mask.
pub(crate) fn dropout(x: &[f32], y: &mut [f32], rate: f32, seed: u64) {
    let seed = mix(seed) as u32;
    let threshold = (f64::from(rate) * f64::from(u32::MAX)) as u32;
    let scale = 1.0 / (1.0 - rate);
    vectorized(
        #[inline(always)]
        || {
            for (i, (x, y)) in x.iter().zip(y).enumerate() {
                *y = if scramble(i as u32 ^ seed) >= threshold { *x * scale } else { 0.0 };
            }
        },
    );
}

/// 32 bits of chance from a counter, in operations that vector units have.
#[inline(always)]
fn scramble(mut bits: u32) -> u32 {
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x21F0_AAAD);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x735A_2D97);
    bits ^ (bits >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_agree_with_the_standard_library() {
        for i in -20_000..=20_000 {
            let x = i as f32 * 0.004;
            let (got, want) = (exp(x), f64::from(x).exp());
            assert!((f64::from(got) - want).abs() <= 4e-7 * want, "exp({x}) = {got}, not {want}");
            let (got, want) = (sigmoid(x), 1.0 / (1.0 + f64::from(-x).exp()));
            assert!((f64::from(got) - want).abs() <= 2e-7, "sigmoid({x}) = {got}, not {want}");
            let (got, want) = (tanh(x), f64::from(x).tanh());
            assert!((f64::from(got) - want).abs() <= 3e-7, "tanh({x}) = {got}, not {want}");
        }
        assert!(exp(f32::NAN).is_nan());
        assert_eq!(tanh(1e30), 1.0);
        assert!(sigmoid(-1e30) < 1e-37);
    }

    #[test]
    fn dropout_keeps_the_mean_and_repeats() {
        let x = vec![1.0; 100_000];
        let (mut a, mut b) = (x.clone(), x.clone());
        dropout(&x, &mut a, 0.25, 1);
        dropout(&x, &mut b, 0.25, 1);
        assert_eq!(a, b);
        let kept = a.iter().filter(|&&y| y != 0.0).count();
        assert!((74_000..76_000).contains(&kept), "{kept} of 100,000 kept");
        assert!((a.iter().sum::<f32>() / 100_000.0 - 1.0).abs() < 0.02);
        dropout(&x, &mut b, 0.25, 2);
        assert_ne!(a, b);
    }
}

//! Batch norm over rows of channels.

use super::vectorized;

/// How many channels are summed at a time, in double precision.
const CHANNELS: usize = 64;

/// How many rows are summed in single precision before their sum goes into the double one.
const ROWS: usize = 32;

/// Sums two functions of every value, `f(row, channel)`, over all rows, and calls `each` with the sums of every
/// channel.
#[inline(always)]
fn channel_sums(
    rows: usize,
    channels: usize,
    f: impl Fn(usize) -> [f32; 2],
    mut each: impl FnMut(usize, f64, f64),
) {
    for start in (0..channels).step_by(CHANNELS) {
        let count = CHANNELS.min(channels - start);
        let mut sums = [[0.0f64; CHANNELS]; 2];
        for block in (0..rows).step_by(ROWS) {
            let mut part = [[0.0f32; CHANNELS]; 2];
            for row in block..rows.min(block + ROWS) {
                for channel in 0..count {
                    let [a, b] = f(row * channels + start + channel);
                    part[0][channel] += a;
                    part[1][channel] += b;
                }
            }
            for (sums, part) in sums.iter_mut().zip(part) {
                for (sum, part) in sums.iter_mut().zip(part) {
                    *sum += f64::from(part);
                }
            }
        }
        for channel in 0..count {
            each(start + channel, sums[0][channel], sums[1][channel]);
        }
    }
}

/// The mean and the variance of every channel.
pub(crate) fn statistics(x: &[f32], mean: &mut [f32], variance: &mut [f32]) {
    let channels = mean.len();
    let rows = x.len() / channels;
    vectorized(
        #[inline(always)]
        || {
            channel_sums(
                rows,
                channels,
                #[inline(always)]
                |i| [x[i], x[i] * x[i]],
                #[inline(always)]
                |channel, sum, squares| {
                    let m = sum / rows as f64;
                    mean[channel] = m as f32;
                    variance[channel] = (squares / rows as f64 - m * m).max(0.0) as f32;
                },
            );
        },
    );
}

/// `y = x · scale + shift (+ residual)`, and not below `floor`.
pub(crate) fn apply(
    x: &[f32],
    residual: Option<&[f32]>,
    y: &mut [f32],
    scale: &[f32],
    shift: &[f32],
    floor: f32,
) {
    let channels = scale.len();
    vectorized(
        #[inline(always)]
        || {
            let rows = x.chunks_exact(channels).zip(y.chunks_exact_mut(channels));
            match residual {
                None => {
                    for (x, y) in rows {
                        for (((y, x), a), b) in y.iter_mut().zip(x).zip(scale).zip(shift) {
                            *y = (x * a + b).max(floor);
                        }
                    }
                }
                Some(residual) => {
                    for ((x, y), r) in rows.zip(residual.chunks_exact(channels)) {
                        for ((((y, x), r), a), b) in y.iter_mut().zip(x).zip(r).zip(scale).zip(shift) {
                            *y = (x * a + b + r).max(floor);
                        }
                    }
                }
            }
        },
    );
}

/// The sums of every channel's upstream gradients, and of these times the channel's values.
pub(crate) fn gradient_sums(x: &[f32], dy: &[f32], sums: &mut [f32], products: &mut [f32]) {
    let channels = sums.len();
    vectorized(
        #[inline(always)]
        || {
            channel_sums(
                x.len() / channels,
                channels,
                #[inline(always)]
                |i| [dy[i], dy[i] * x[i]],
                #[inline(always)]
                |channel, sum, product| {
                    sums[channel] = sum as f32;
                    products[channel] = product as f32;
                },
            );
        },
    );
}

/// `dx = dy · a + x · b + c`.
pub(crate) fn input_gradient(x: &[f32], dy: &[f32], dx: &mut [f32], [a, b, c]: [&[f32]; 3]) {
    let channels = a.len();
    vectorized(
        #[inline(always)]
        || {
            let rows =
                x.chunks_exact(channels).zip(dy.chunks_exact(channels)).zip(dx.chunks_exact_mut(channels));
            for ((x, dy), dx) in rows {
                for (((((dx, x), dy), a), b), c) in dx.iter_mut().zip(x).zip(dy).zip(a).zip(b).zip(c) {
                    *dx = dy * a + x * b + c;
                }
            }
        },
    );
}

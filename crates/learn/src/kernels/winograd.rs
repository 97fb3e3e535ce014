//! Winograd's F(2×2, 3×3): a 3×3 convolution of stride 1 with 16 multiplications for four results instead of 36.
//!
//! Images are cut into tiles of 2×2 results, each of which sees 4×4 inputs. Tiles, weights and gradients are
//! transformed into 16 planes, between which the convolution is one matrix product a plane. Channels lie innermost, in
//! full registers.

use super::convolve::Convolution;
use super::matmul::{Matrix, matmul};
use super::{LANES, Lanes, load, vectorized};

/// About how many floats of transformed tiles are made at a time: what stays in the second-level cache.
const BLOCK: usize = 500_000;

/// The planes of a transformed tile.
const PLANES: usize = 16;

/// Whether a convolution has the form that this is for.
pub(crate) fn fits(sizes: &Convolution) -> bool {
    let Convolution { height, width, inputs, outputs, kernel, stride, padding, .. } = *sizes;
    let even = height.is_multiple_of(2) && width.is_multiple_of(2);
    let full = inputs.is_multiple_of(LANES) && outputs.is_multiple_of(LANES);
    kernel == 3 && stride == 1 && padding == 1 && even && full
}

/// How much scratch memory is wanted: for the transformed weights, and for a block of tiles of inputs and results.
pub(crate) fn scratch(sizes: &Convolution) -> usize {
    let channels = sizes.inputs + sizes.outputs;
    PLANES * (sizes.inputs * sizes.outputs + block(sizes) * channels)
}

/// How many tiles there are, and how many are handled at a time.
fn tiles(sizes: &Convolution) -> usize {
    sizes.images * sizes.height / 2 * sizes.width / 2
}

fn block(sizes: &Convolution) -> usize {
    (BLOCK / (PLANES * (sizes.inputs + sizes.outputs))).next_multiple_of(16).max(128).min(tiles(sizes))
}

fn blocks(sizes: &Convolution) -> impl Iterator<Item = (usize, usize)> + use<> {
    let (tiles, block) = (tiles(sizes), block(sizes).max(1));
    (0..tiles).step_by(block).map(move |start| (start, block.min(tiles - start)))
}

/// `y = x * w`.
pub(crate) fn forward(sizes: &Convolution, x: &[f32], weights: &[f32], y: &mut [f32], scratch: &mut [f32]) {
    let (inputs, outputs) = (sizes.inputs, sizes.outputs);
    let (planes, scratch) = scratch.split_at_mut(PLANES * inputs * outputs);
    transform_weights(weights, planes);
    let (seen, results) = scratch.split_at_mut(PLANES * block(sizes) * inputs);
    for (start, count) in blocks(sizes) {
        transform_inputs(sizes, x, &mut seen[..PLANES * count * inputs], start);
        for plane in 0..PLANES {
            let a = Matrix::new(&seen[plane * count * inputs..], count, inputs);
            let b = Matrix::new(&planes[plane * inputs * outputs..], inputs, outputs);
            matmul(
                &mut results[plane * count * outputs..(plane + 1) * count * outputs],
                outputs,
                a,
                b,
                false,
            );
        }
        transform_results(sizes, &results[..PLANES * count * outputs], y, start);
    }
}

/// The gradient of the weights, from that of `y`.
pub(crate) fn weight_gradient(
    sizes: &Convolution,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    add: bool,
    scratch: &mut [f32],
) {
    let (inputs, outputs) = (sizes.inputs, sizes.outputs);
    let (planes, scratch) = scratch.split_at_mut(PLANES * inputs * outputs);
    let (seen, upstream) = scratch.split_at_mut(PLANES * block(sizes) * inputs);
    for (start, count) in blocks(sizes) {
        transform_inputs(sizes, x, &mut seen[..PLANES * count * inputs], start);
        transform_upstream(sizes, dy, &mut upstream[..PLANES * count * outputs], start);
        for plane in 0..PLANES {
            let a = Matrix::new(&seen[plane * count * inputs..], count, inputs).transposed();
            let b = Matrix::new(&upstream[plane * count * outputs..], count, outputs);
            let sum = &mut planes[plane * inputs * outputs..(plane + 1) * inputs * outputs];
            matmul(sum, outputs, a, b, start > 0);
        }
    }
    transform_weight_gradients(planes, dw, add);
}

#[inline(always)]
fn plus(a: Lanes, b: Lanes) -> Lanes {
    let mut sum = a;
    sum.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    sum
}

#[inline(always)]
fn minus(a: Lanes, b: Lanes) -> Lanes {
    let mut difference = a;
    difference.iter_mut().zip(b).for_each(|(a, b)| *a -= b);
    difference
}

#[inline(always)]
fn half(a: Lanes) -> Lanes {
    a.map(|a| 0.5 * a)
}

const ZERO: Lanes = [0.0; LANES];

#[inline(always)]
fn store(to: &mut [f32], lanes: Lanes) {
    to[..LANES].copy_from_slice(&lanes);
}

/// Calls `each` with the number of every tile of a block and where its image, row and column of results start.
#[inline(always)]
fn for_each_tile(sizes: &Convolution, start: usize, count: usize, mut each: impl FnMut(usize, [usize; 3])) {
    let (rows, columns) = (sizes.height / 2, sizes.width / 2);
    for i in 0..count {
        let tile = start + i;
        each(i, [tile / columns / rows, tile / columns % rows * 2, tile % columns * 2]);
    }
}

/// `seen[plane][tile][channel]` = Bᵀ d B of the 4×4 inputs d of each tile; outside the image they are zero.
fn transform_inputs(sizes: &Convolution, x: &[f32], seen: &mut [f32], start: usize) {
    let (height, width, channels) = (sizes.height, sizes.width, sizes.inputs);
    let count = seen.len() / PLANES / channels;
    let plane = count * channels;
    vectorized(
        #[inline(always)]
        || {
            for_each_tile(
                sizes,
                start,
                count,
                #[inline(always)]
                |tile, [image, top, left]| {
                    let place = |row: usize, column: usize| {
                        let (row, column) = ((top + row).wrapping_sub(1), (left + column).wrapping_sub(1));
                        (row < height && column < width)
                            .then(|| ((image * height + row) * width + column) * channels)
                    };
                    // Plain loops here and below: `array::from_fn` may stay a call, compiled as baseline code.
                    let mut places = [[None; 4]; 4];
                    for (row, places) in places.iter_mut().enumerate() {
                        for (column, it) in places.iter_mut().enumerate() {
                            *it = place(row, column);
                        }
                    }
                    for channel in (0..channels).step_by(LANES) {
                        let at = |row: usize, column: usize| match places[row][column] {
                            Some(place) => load(&x[place + channel..]),
                            None => ZERO,
                        };
                        let mut rows = [[ZERO; 4]; 4];
                        for column in 0..4 {
                            let d = [at(0, column), at(1, column), at(2, column), at(3, column)];
                            rows[0][column] = minus(d[0], d[2]);
                            rows[1][column] = plus(d[1], d[2]);
                            rows[2][column] = minus(d[2], d[1]);
                            rows[3][column] = minus(d[1], d[3]);
                        }
                        for (i, d) in rows.into_iter().enumerate() {
                            let to = 4 * i * plane + tile * channels + channel;
                            store(&mut seen[to..], minus(d[0], d[2]));
                            store(&mut seen[to + plane..], plus(d[1], d[2]));
                            store(&mut seen[to + 2 * plane..], minus(d[2], d[1]));
                            store(&mut seen[to + 3 * plane..], minus(d[1], d[3]));
                        }
                    }
                },
            );
        },
    );
}

/// The 2×2 results of each tile: Aᵀ m A of its planes m.
fn transform_results(sizes: &Convolution, results: &[f32], y: &mut [f32], start: usize) {
    let (height, width, channels) = (sizes.height, sizes.width, sizes.outputs);
    let count = results.len() / PLANES / channels;
    let plane = count * channels;
    vectorized(
        #[inline(always)]
        || {
            for_each_tile(
                sizes,
                start,
                count,
                #[inline(always)]
                |tile, [image, top, left]| {
                    let place = ((image * height + top) * width + left) * channels;
                    for channel in (0..channels).step_by(LANES) {
                        let mut rows = [[ZERO; 4]; 2];
                        for column in 0..4 {
                            let from = column * plane + tile * channels + channel;
                            let at = |row: usize| load(&results[from + 4 * row * plane..]);
                            let m = [at(0), at(1), at(2), at(3)];
                            rows[0][column] = plus(plus(m[0], m[1]), m[2]);
                            rows[1][column] = minus(minus(m[1], m[2]), m[3]);
                        }
                        for (row, m) in rows.into_iter().enumerate() {
                            let to = place + row * width * channels + channel;
                            store(&mut y[to..], plus(plus(m[0], m[1]), m[2]));
                            store(&mut y[to + channels..], minus(minus(m[1], m[2]), m[3]));
                        }
                    }
                },
            );
        },
    );
}

/// `upstream[plane][tile][channel]` = A dy Aᵀ of the 2×2 gradients of each tile's results.
fn transform_upstream(sizes: &Convolution, dy: &[f32], upstream: &mut [f32], start: usize) {
    let (height, width, channels) = (sizes.height, sizes.width, sizes.outputs);
    let count = upstream.len() / PLANES / channels;
    let plane = count * channels;
    vectorized(
        #[inline(always)]
        || {
            for_each_tile(
                sizes,
                start,
                count,
                #[inline(always)]
                |tile, [image, top, left]| {
                    let place = ((image * height + top) * width + left) * channels;
                    for channel in (0..channels).step_by(LANES) {
                        let at = |row: usize, column: usize| {
                            load(&dy[place + (row * width + column) * channels + channel..])
                        };
                        let (a, b, c, d) = (at(0, 0), at(0, 1), at(1, 0), at(1, 1));
                        let rows = [
                            [a, b],
                            [plus(a, c), plus(b, d)],
                            [minus(a, c), minus(b, d)],
                            [minus(ZERO, c), minus(ZERO, d)],
                        ];
                        for (i, [left, right]) in rows.into_iter().enumerate() {
                            let to = 4 * i * plane + tile * channels + channel;
                            store(&mut upstream[to..], left);
                            store(&mut upstream[to + plane..], plus(left, right));
                            store(&mut upstream[to + 2 * plane..], minus(left, right));
                            store(&mut upstream[to + 3 * plane..], minus(ZERO, right));
                        }
                    }
                },
            );
        },
    );
}

/// `planes[plane][i]` = G w Gᵀ of the 3×3 weights w between every input and output.
fn transform_weights(weights: &[f32], planes: &mut [f32]) {
    let pairs = weights.len() / 9;
    vectorized(
        #[inline(always)]
        || {
            for pair in (0..pairs).step_by(LANES) {
                let at = |tap: usize| load(&weights[tap * pairs + pair..]);
                let mut rows = [[ZERO; 3]; 4];
                for column in 0..3 {
                    let [a, b, c, d] = spread([at(column), at(3 + column), at(6 + column)]);
                    (rows[0][column], rows[1][column], rows[2][column], rows[3][column]) = (a, b, c, d);
                }
                for (i, row) in rows.into_iter().enumerate() {
                    for (j, lanes) in spread(row).into_iter().enumerate() {
                        store(&mut planes[(4 * i + j) * pairs + pair..], lanes);
                    }
                }
            }
        },
    );
}

/// G of three weights.
#[inline(always)]
fn spread([a, b, c]: [Lanes; 3]) -> [Lanes; 4] {
    let sum = plus(a, c);
    [a, half(plus(sum, b)), half(minus(sum, b)), c]
}

/// The gradients of the weights, Gᵀ u G of the gradients u of their planes.
fn transform_weight_gradients(planes: &[f32], dw: &mut [f32], add: bool) {
    let pairs = dw.len() / 9;
    vectorized(
        #[inline(always)]
        || {
            for pair in (0..pairs).step_by(LANES) {
                let at = |plane: usize| load(&planes[plane * pairs + pair..]);
                let mut rows = [[ZERO; 4]; 3];
                for column in 0..4 {
                    let [a, b, c] = gather([at(column), at(4 + column), at(8 + column), at(12 + column)]);
                    (rows[0][column], rows[1][column], rows[2][column]) = (a, b, c);
                }
                for (i, row) in rows.into_iter().enumerate() {
                    for (j, lanes) in gather(row).into_iter().enumerate() {
                        let to = &mut dw[(3 * i + j) * pairs + pair..];
                        let before = if add { load(to) } else { ZERO };
                        store(to, plus(before, lanes));
                    }
                }
            }
        },
    );
}

/// Gᵀ of four gradients.
#[inline(always)]
fn gather([a, b, c, d]: [Lanes; 4]) -> [Lanes; 3] {
    let sum = half(plus(b, c));
    [plus(a, sum), half(minus(b, c)), plus(sum, d)]
}

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

/// The array of what an expression makes of each number, written out. A loop, or `array::from_fn`, is unrolled too late
/// where all crates are linked as one: what it indexes is then in memory, not in registers.
macro_rules! each {
    ([$($number:literal)*], $i:ident => $make:expr) => {
        [$({ let $i: usize = $number; $make }),*]
    };
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
    let mut half = a;
    half.iter_mut().for_each(|a| *a *= 0.5);
    half
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
                    let places = each!([0 1 2 3], row => {
                        let row = (top + row).wrapping_sub(1);
                        each!([0 1 2 3], column => {
                            let column = (left + column).wrapping_sub(1);
                            let is_inside = row < height && column < width;
                            is_inside.then(|| ((image * height + row) * width + column) * channels)
                        })
                    });
                    for channel in (0..channels).step_by(LANES) {
                        let columns = each!([0 1 2 3], column => {
                            spread_inputs(each!([0 1 2 3], row => match places[row][column] {
                                Some(place) => load(&x[place + channel..]),
                                None => ZERO,
                            }))
                        });
                        each!([0 1 2 3], i => {
                            let lanes = spread_inputs(each!([0 1 2 3], column => columns[column][i]));
                            let to = 4 * i * plane + tile * channels + channel;
                            each!([0 1 2 3], j => store(&mut seen[to + j * plane..], lanes[j]))
                        });
                    }
                },
            );
        },
    );
}

/// Bᵀ of four inputs.
#[inline(always)]
fn spread_inputs([a, b, c, d]: [Lanes; 4]) -> [Lanes; 4] {
    [minus(a, c), plus(b, c), minus(c, b), minus(b, d)]
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
                        let columns = each!([0 1 2 3], column => {
                            let from = column * plane + tile * channels + channel;
                            gather_results(each!([0 1 2 3], row => load(&results[from + 4 * row * plane..])))
                        });
                        each!([0 1], i => {
                            let row = each!([0 1 2 3], column => columns[column][i]);
                            let [left, right] = gather_results(row);
                            let to = place + i * width * channels + channel;
                            store(&mut y[to..], left);
                            store(&mut y[to + channels..], right);
                        });
                    }
                },
            );
        },
    );
}

/// Aᵀ of four values.
#[inline(always)]
fn gather_results([a, b, c, d]: [Lanes; 4]) -> [Lanes; 2] {
    [plus(plus(a, b), c), minus(minus(b, c), d)]
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
                        let columns = each!([0 1], column => {
                            let from = place + column * channels + channel;
                            spread_upstream([load(&dy[from..]), load(&dy[from + width * channels..])])
                        });
                        each!([0 1 2 3], i => {
                            let lanes = spread_upstream([columns[0][i], columns[1][i]]);
                            let to = 4 * i * plane + tile * channels + channel;
                            each!([0 1 2 3], j => store(&mut upstream[to + j * plane..], lanes[j]))
                        });
                    }
                },
            );
        },
    );
}

/// A of two gradients.
#[inline(always)]
fn spread_upstream([a, b]: [Lanes; 2]) -> [Lanes; 4] {
    [a, plus(a, b), minus(a, b), minus(ZERO, b)]
}

/// `planes[plane][i]` = G w Gᵀ of the 3×3 weights w between every input and output.
fn transform_weights(weights: &[f32], planes: &mut [f32]) {
    let pairs = weights.len() / 9;
    vectorized(
        #[inline(always)]
        || {
            for pair in (0..pairs).step_by(LANES) {
                let columns = each!([0 1 2], column => {
                    spread(each!([0 1 2], row => load(&weights[(3 * row + column) * pairs + pair..])))
                });
                each!([0 1 2 3], i => {
                    let lanes = spread(each!([0 1 2], column => columns[column][i]));
                    each!([0 1 2 3], j => store(&mut planes[(4 * i + j) * pairs + pair..], lanes[j]))
                });
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
                let columns = each!([0 1 2 3], column => {
                    gather(each!([0 1 2 3], row => load(&planes[(4 * row + column) * pairs + pair..])))
                });
                each!([0 1 2], i => {
                    let lanes = gather(each!([0 1 2 3], column => columns[column][i]));
                    each!([0 1 2], j => {
                        let to = &mut dw[(3 * i + j) * pairs + pair..];
                        let before = if add { load(to) } else { ZERO };
                        store(to, plus(before, lanes[j]));
                    })
                });
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

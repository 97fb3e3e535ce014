//! Pooling over squares of `size`×`size` places of images `(N, H, W, C)`; a rest at the edge is left out.

pub(crate) mod adaptive;

use super::vectorized;

/// A square that moves over an image, and over the zeros around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolWindow {
    /// The side of the square.
    pub kernel: usize,
    /// How far it moves.
    pub stride: usize,
    /// How far the zeros reach.
    pub padding: usize,
}

impl PoolWindow {
    /// How many places it has along a side; none if it does not fit.
    pub fn results(&self, side: usize) -> Option<usize> {
        (side + 2 * self.padding).checked_sub(self.kernel).map(|rest| rest / self.stride + 1)
    }
}

/// Calls `each` with the number of every result and where the corner of its square is, in places of the input.
#[inline(always)]
fn for_each_square(
    results: usize,
    height: usize,
    width: usize,
    size: usize,
    mut each: impl FnMut(usize, usize),
) {
    let (rows, columns) = (height / size, width / size);
    for at in 0..results {
        let (column, row, image) = (at % columns, at / columns % rows, at / columns / rows);
        each(at, (image * height + row * size) * width + column * size);
    }
}

/// The means.
pub(crate) fn average(x: &[f32], y: &mut [f32], [height, width, channels]: [usize; 3], size: usize) {
    let scale = 1.0 / (size * size) as f32;
    vectorized(
        #[inline(always)]
        || {
            for_each_square(
                y.len() / channels,
                height,
                width,
                size,
                #[inline(always)]
                |at, corner| {
                    let y = &mut y[at * channels..(at + 1) * channels];
                    if size == 2 {
                        let (a, b) = x[corner * channels..(corner + 2) * channels].split_at(channels);
                        let (c, d) = x[(corner + width) * channels..(corner + width + 2) * channels]
                            .split_at(channels);
                        for ((((y, a), b), c), d) in y.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                            *y = (a + b + c + d) * scale;
                        }
                        return;
                    }
                    y.fill(0.0);
                    for place in places(corner, width, size) {
                        for (y, x) in y.iter_mut().zip(&x[place * channels..(place + 1) * channels]) {
                            *y += x;
                        }
                    }
                    y.iter_mut().for_each(|y| *y *= scale);
                },
            );
        },
    );
}

/// The gradient of what was averaged.
pub(crate) fn average_backward(
    dy: &[f32],
    dx: &mut [f32],
    [height, width, channels]: [usize; 3],
    size: usize,
) {
    let scale = 1.0 / (size * size) as f32;
    fill_rest(dx, height, width, size);
    vectorized(
        #[inline(always)]
        || {
            for_each_square(
                dy.len() / channels,
                height,
                width,
                size,
                #[inline(always)]
                |at, corner| {
                    let dy = &dy[at * channels..(at + 1) * channels];
                    for place in places(corner, width, size) {
                        for (dx, dy) in dx[place * channels..(place + 1) * channels].iter_mut().zip(dy) {
                            *dx = dy * scale;
                        }
                    }
                },
            );
        },
    );
}

/// The largest values.
pub(crate) fn max(x: &[f32], y: &mut [f32], [height, width, channels]: [usize; 3], size: usize) {
    vectorized(
        #[inline(always)]
        || {
            for_each_square(
                y.len() / channels,
                height,
                width,
                size,
                #[inline(always)]
                |at, corner| {
                    let y = &mut y[at * channels..(at + 1) * channels];
                    y.copy_from_slice(&x[corner * channels..(corner + 1) * channels]);
                    for place in places(corner, width, size).skip(1) {
                        for (y, x) in y.iter_mut().zip(&x[place * channels..(place + 1) * channels]) {
                            *y = if *x > *y { *x } else { *y };
                        }
                    }
                },
            );
        },
    );
}

/// The gradient of what the largest was taken of: it goes to the first place that holds it.
pub(crate) fn max_backward(
    x: &[f32],
    y: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    [height, width, channels]: [usize; 3],
    size: usize,
) {
    fill_rest(dx, height, width, size);
    vectorized(
        #[inline(always)]
        || {
            for_each_square(
                dy.len() / channels,
                height,
                width,
                size,
                #[inline(always)]
                |at, corner| {
                    let (y, dy) =
                        (&y[at * channels..(at + 1) * channels], &dy[at * channels..(at + 1) * channels]);
                    // The last place holds what no earlier one has taken.
                    let last = corner + (size - 1) * width + size - 1;
                    let (before, rest) = dx.split_at_mut(last * channels);
                    let left = &mut rest[..channels];
                    left.copy_from_slice(dy);
                    for place in places(corner, width, size).take(size * size - 1) {
                        let range = place * channels..(place + 1) * channels;
                        let taking =
                            before[range.clone()].iter_mut().zip(left.iter_mut()).zip(&x[range]).zip(y);
                        for (((dx, left), x), y) in taking {
                            let takes = *x == *y;
                            *dx = if takes { *left } else { 0.0 };
                            *left = if takes { 0.0 } else { *left };
                        }
                    }
                },
            );
        },
    );
}

/// The places of a square.
#[inline(always)]
fn places(corner: usize, width: usize, size: usize) -> impl Iterator<Item = usize> {
    (0..size * size).map(move |i| corner + i / size * width + i % size)
}

/// Places that belong to no square have no gradient.
fn fill_rest(dx: &mut [f32], height: usize, width: usize, size: usize) {
    if !height.is_multiple_of(size) || !width.is_multiple_of(size) {
        dx.fill(0.0);
    }
}

//! Pooling of images `(N, H, W, C)` to a given number of places. Each place of the result has a window of the image,
//! where PyTorch has it; windows overlap where sides do not divide, and repeat where the result is the larger one.

use std::ops::Range;

use crate::kernels::vectorized;

/// Height and width of an image, and how many floats a place has.
pub(crate) type Image = [usize; 3];

/// The window of place `i` of `results` along a side.
#[inline(always)]
fn window(i: usize, results: usize, side: usize) -> Range<usize> {
    i * side / results..((i + 1) * side).div_ceil(results)
}

/// Calls `each` with where every result of `floats` lies, and with the rows and columns of its window; rows are counted
/// over all images. `each` must be an `#[inline(always)]` closure, which runs vectorised.
#[inline(always)]
fn for_each_window(
    floats: usize,
    [height, width, channels]: Image,
    [rows, columns]: [usize; 2],
    mut each: impl FnMut(Range<usize>, Range<usize>, Range<usize>),
) {
    vectorized(
        #[inline(always)]
        || {
            for at in 0..floats / channels {
                let (column, row, image) = (at % columns, at / columns % rows, at / columns / rows);
                let Range { start, end } = window(row, rows, height);
                let down = image * height + start..image * height + end;
                each(at * channels..(at + 1) * channels, down, window(column, columns, width));
            }
        },
    );
}

/// Where the floats of a window's places are, row by row.
#[inline(always)]
fn places(
    [_, width, channels]: Image,
    rows: Range<usize>,
    columns: Range<usize>,
) -> impl Iterator<Item = Range<usize>> {
    rows.flat_map(move |row| {
        columns.clone().map(move |column| {
            let place = row * width + column;
            place * channels..(place + 1) * channels
        })
    })
}

/// The means of the windows.
pub(crate) fn average(x: &[f32], y: &mut [f32], image: Image, results: [usize; 2]) {
    for_each_window(
        y.len(),
        image,
        results,
        #[inline(always)]
        |at, rows, columns| {
            let (y, scale) = (&mut y[at], 1.0 / (rows.len() * columns.len()) as f32);
            y.fill(0.0);
            for place in places(image, rows, columns) {
                for (y, x) in y.iter_mut().zip(&x[place]) {
                    *y += x;
                }
            }
            y.iter_mut().for_each(|y| *y *= scale);
        },
    );
}

/// The gradient of what was averaged.
pub(crate) fn average_backward(dy: &[f32], dx: &mut [f32], image: Image, results: [usize; 2]) {
    dx.fill(0.0);
    for_each_window(
        dy.len(),
        image,
        results,
        #[inline(always)]
        |at, rows, columns| {
            let (dy, scale) = (&dy[at], 1.0 / (rows.len() * columns.len()) as f32);
            for place in places(image, rows, columns) {
                for (dx, dy) in dx[place].iter_mut().zip(dy) {
                    *dx += dy * scale;
                }
            }
        },
    );
}

/// The largest values of the windows.
pub(crate) fn max(x: &[f32], y: &mut [f32], image: Image, results: [usize; 2]) {
    for_each_window(
        y.len(),
        image,
        results,
        #[inline(always)]
        |at, rows, columns| {
            let y = &mut y[at];
            y.fill(f32::NEG_INFINITY);
            for place in places(image, rows, columns) {
                for (y, x) in y.iter_mut().zip(&x[place]) {
                    *y = if *x > *y { *x } else { *y };
                }
            }
        },
    );
}

/// The gradient of what the largest was taken of: it goes to the first place of the window that holds it, and is taken
/// out of `dy`.
pub(crate) fn max_backward(
    x: &[f32],
    y: &[f32],
    dy: &mut [f32],
    dx: &mut [f32],
    image: Image,
    results: [usize; 2],
) {
    dx.fill(0.0);
    for_each_window(
        dy.len(),
        image,
        results,
        #[inline(always)]
        |at, rows, columns| {
            let (y, left) = (&y[at.clone()], &mut dy[at]);
            for place in places(image, rows, columns) {
                let taking = dx[place.clone()].iter_mut().zip(left.iter_mut()).zip(&x[place]).zip(y);
                for (((dx, left), x), y) in taking {
                    let takes = *x == *y;
                    *dx += if takes { *left } else { 0.0 };
                    *left = if takes { 0.0 } else { *left };
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_a_side() {
        let check = |side: usize, results: usize, expect: &[(usize, usize)]| {
            let windows: Vec<_> = (0..results)
                .map(|i| window(i, results, side))
                .map(|window| (window.start, window.end))
                .collect();
            assert_eq!(windows, expect, "{side} to {results}");
        };
        check(4, 2, &[(0, 2), (2, 4)]);
        check(5, 1, &[(0, 5)]);
        check(5, 2, &[(0, 3), (2, 5)]);
        check(7, 3, &[(0, 3), (2, 5), (4, 7)]);
        check(2, 3, &[(0, 1), (0, 2), (1, 2)]);
        check(1, 3, &[(0, 1), (0, 1), (0, 1)]);
    }

    /// A gradient that several windows give to one place is summed, and equal values leave it to the first.
    #[test]
    fn the_first_largest_gets_the_gradients() {
        let (x, image, results) = ([1.0, 1.0, 3.0, 2.0, 3.0], [1, 5, 1], [1, 2]);
        let (mut y, mut dx) = ([0.0; 2], [9.0; 5]);
        max(&x, &mut y, image, results);
        assert_eq!(y, [3.0, 3.0]);
        max_backward(&x, &y, &mut [1.0, 10.0], &mut dx, image, results);
        assert_eq!(dx, [0.0, 0.0, 11.0, 0.0, 0.0]);
    }
}

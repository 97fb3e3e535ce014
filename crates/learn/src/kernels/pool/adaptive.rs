//! Pooling of images `(N, H, W, C)` by windows that may overlap: those of a square that moves, or as many as the result
//! shall have places. Then each place of the result has a window where PyTorch has it; windows overlap where sides do
//! not divide, and repeat where the result is the larger one.

use std::ops::Range;

use super::PoolWindow;
use crate::kernels::vectorized;

/// Height and width of an image, and how many floats a place has.
pub(crate) type Image = [usize; 3];

/// Which places of an image each result sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolWindows {
    /// How many rows and columns of results there are.
    pub(crate) results: [usize; 2],
    /// The square that moves; none if the image is shared out.
    pub(crate) square: Option<PoolWindow>,
}

impl PoolWindows {
    /// The window of place `i` of `results` along a side. What lies outside the image is not part of it.
    #[inline(always)]
    fn along(&self, i: usize, results: usize, side: usize) -> Range<usize> {
        match self.square {
            None => i * side / results..((i + 1) * side).div_ceil(results),
            Some(PoolWindow { kernel, stride, padding }) => {
                (i * stride).saturating_sub(padding)..(i * stride + kernel - padding).min(side)
            }
        }
    }

    /// What a sum over a window is scaled by to be its mean. The zeros around an image count, as in PyTorch.
    #[inline(always)]
    fn scale(&self, rows: &Range<usize>, columns: &Range<usize>) -> f32 {
        let places = match self.square {
            None => rows.len() * columns.len(),
            Some(PoolWindow { kernel, .. }) => kernel * kernel,
        };
        1.0 / places as f32
    }
}

/// Calls `each` with where every result of `floats` lies, and with the rows and columns of its window; rows are counted
/// over all images. `each` must be an `#[inline(always)]` closure, which runs vectorised.
#[inline(always)]
fn for_each_window(
    floats: usize,
    [height, width, channels]: Image,
    windows: PoolWindows,
    mut each: impl FnMut(Range<usize>, Range<usize>, Range<usize>),
) {
    let [rows, columns] = windows.results;
    vectorized(
        #[inline(always)]
        || {
            for at in 0..floats / channels {
                let (column, row, image) = (at % columns, at / columns % rows, at / columns / rows);
                let Range { start, end } = windows.along(row, rows, height);
                let down = image * height + start..image * height + end;
                each(at * channels..(at + 1) * channels, down, windows.along(column, columns, width));
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
pub(crate) fn average(x: &[f32], y: &mut [f32], image: Image, windows: PoolWindows) {
    for_each_window(
        y.len(),
        image,
        windows,
        #[inline(always)]
        |at, rows, columns| {
            let (y, scale) = (&mut y[at], windows.scale(&rows, &columns));
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
pub(crate) fn average_backward(dy: &[f32], dx: &mut [f32], image: Image, windows: PoolWindows) {
    dx.fill(0.0);
    for_each_window(
        dy.len(),
        image,
        windows,
        #[inline(always)]
        |at, rows, columns| {
            let (dy, scale) = (&dy[at], windows.scale(&rows, &columns));
            for place in places(image, rows, columns) {
                for (dx, dy) in dx[place].iter_mut().zip(dy) {
                    *dx += dy * scale;
                }
            }
        },
    );
}

/// The largest values of the windows.
pub(crate) fn max(x: &[f32], y: &mut [f32], image: Image, windows: PoolWindows) {
    for_each_window(
        y.len(),
        image,
        windows,
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
    windows: PoolWindows,
) {
    dx.fill(0.0);
    for_each_window(
        dy.len(),
        image,
        windows,
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
            let windows = PoolWindows { results: [results; 2], square: None };
            let windows: Vec<_> = (0..results)
                .map(|i| windows.along(i, results, side))
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

    #[test]
    fn squares_move_and_end_at_the_edge() {
        let check = |side: usize, [kernel, stride, padding]: [usize; 3], expect: &[(usize, usize)]| {
            let square = PoolWindow { kernel, stride, padding };
            let results = square.results(side).expect("it fits");
            let windows = PoolWindows { results: [results; 2], square: Some(square) };
            let found: Vec<_> = (0..results).map(|i| windows.along(i, results, side)).collect();
            let found: Vec<_> = found.iter().map(|window| (window.start, window.end)).collect();
            assert_eq!(found, expect, "{square:?} on {side}");
        };
        check(7, [3, 2, 0], &[(0, 3), (2, 5), (4, 7)]);
        check(6, [3, 2, 1], &[(0, 2), (1, 4), (3, 6)]);
        check(3, [2, 1, 1], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        assert_eq!(PoolWindow { kernel: 4, stride: 1, padding: 0 }.results(3), None);
    }

    /// A gradient that several windows give to one place is summed, and equal values leave it to the first.
    #[test]
    fn the_first_largest_gets_the_gradients() {
        let windows = PoolWindows { results: [1, 2], square: None };
        let (x, image) = ([1.0, 1.0, 3.0, 2.0, 3.0], [1, 5, 1]);
        let (mut y, mut dx) = ([0.0; 2], [9.0; 5]);
        max(&x, &mut y, image, windows);
        assert_eq!(y, [3.0, 3.0]);
        max_backward(&x, &y, &mut [1.0, 10.0], &mut dx, image, windows);
        assert_eq!(dx, [0.0, 0.0, 11.0, 0.0, 0.0]);
    }
}

//! Every way to convolve against the definition, in double precision.

use super::*;
use crate::random::Random;

/// Calls `each` with the places of every image value, weight and result that meet.
fn for_each_product(sizes: &Convolution, mut each: impl FnMut(usize, usize, usize)) {
    let &Convolution { images, height, width, inputs, outputs, kernel, stride, padding } = sizes;
    let (out_height, out_width) = (sizes.out_height(), sizes.out_width());
    for position in 0..images * out_height * out_width {
        let (column, row) = (position % out_width, position / out_width % out_height);
        let image = position / out_width / out_height;
        for tap in 0..kernel * kernel {
            let (y, x) = (row * stride + tap / kernel, column * stride + tap % kernel);
            if y < padding || y >= height + padding || x < padding || x >= width + padding {
                continue;
            }
            let place = (image * height + y - padding) * width + x - padding;
            for pair in 0..inputs * outputs {
                let (input, output) = (pair / outputs, pair % outputs);
                each(place * inputs + input, tap * inputs * outputs + pair, position * outputs + output);
            }
        }
    }
}

fn check_close(what: &str, sizes: &Convolution, got: &[f32], expect: &[f64]) {
    let size = expect.iter().fold(1.0f64, |size, value| size.max(value.abs()));
    for (i, (&got, expect)) in got.iter().zip(expect).enumerate() {
        let off = (f64::from(got) - expect).abs();
        assert!(off < 1e-5 * size, "{what}[{i}] of {sizes:?} is {got}, not {expect}");
    }
}

fn check(images: usize, [height, width]: [usize; 2], [inputs, outputs]: [usize; 2], form: [usize; 3]) {
    let [kernel, stride, padding] = form;
    let sizes = Convolution { images, height, width, inputs, outputs, kernel, stride, padding };
    let mut random = Random::new(1);
    let mut some = |len: usize| -> Vec<f32> { (0..len).map(|_| random.between(-1.0, 1.0)).collect() };
    let (x, w) = (some(images * height * width * inputs), some(kernel * kernel * inputs * outputs));
    let dy = some(sizes.positions() * outputs);
    let (mut y, mut dw, mut dx) = (vec![0.0; dy.len()], vec![0.0; w.len()], vec![0.0; x.len()]);
    for_each_product(&sizes, |i, j, k| {
        y[k] += f64::from(x[i]) * f64::from(w[j]);
        dw[j] += f64::from(x[i]) * f64::from(dy[k]);
        dx[i] += f64::from(w[j]) * f64::from(dy[k]);
    });

    // Remains of earlier uses must not show.
    let remains = |len: usize| vec![9.0f32; len];
    let mut scratch = remains(sizes.scratch());
    let mut got = remains(y.len());
    sizes.forward(&x, &w, &mut got, &mut scratch);
    check_close("y", &sizes, &got, &y);
    let mut got = remains(w.len());
    sizes.weight_gradient(&x, &dy, &mut got, false, &mut scratch);
    check_close("dw", &sizes, &got, &dw);
    sizes.weight_gradient(&x, &dy, &mut got, true, &mut scratch);
    check_close("2 dw", &sizes, &got, &dw.iter().map(|dw| 2.0 * dw).collect::<Vec<_>>());
    let mut got = remains(x.len());
    sizes.input_gradient(&w, &dy, &mut got, &mut scratch);
    check_close("dx", &sizes, &got, &dx);
}

#[test]
fn convolutions_compute_what_the_definition_says() {
    // Patches: plain, odd, strided, padded; a kernel of even size; padding as wide as it may be.
    check(3, [7, 5], [2, 3], [3, 1, 0]);
    check(3, [7, 5], [3, 2], [3, 1, 1]);
    check(2, [7, 6], [3, 4], [3, 2, 1]);
    check(2, [8, 9], [2, 5], [5, 1, 2]);
    check(1, [6, 6], [1, 1], [2, 2, 1]);
    check(2, [3, 4], [2, 2], [3, 1, 2]);
    check(2, [9, 8], [2, 17], [5, 3, 0]);
    check(1, [5, 5], [2, 3], [5, 1, 0]);
    // Patches in several blocks.
    check(2, [40, 40], [20, 3], [3, 1, 1]);
    check(2, [61, 61], [20, 3], [3, 2, 1]);
    // One place alone.
    check(3, [5, 4], [7, 6], [1, 1, 0]);
    check(3, [5, 4], [7, 6], [1, 2, 0]);
    // Winograd: one tile, a few, several blocks with a rest; odd images and half registers are not for it.
    check(1, [2, 2], [16, 16], [3, 1, 1]);
    check(3, [4, 6], [16, 32], [3, 1, 1]);
    check(9, [32, 32], [16, 16], [3, 1, 1]);
    check(5, [16, 16], [80, 48], [3, 1, 1]);
    check(2, [5, 6], [16, 16], [3, 1, 1]);
    check(2, [6, 6], [16, 24], [3, 1, 1]);
}

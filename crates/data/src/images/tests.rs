use super::*;
use crate::augment::Padding;

/// Two images of 2 x 3 with two channels; the second has 100 more everywhere.
fn sample(format: PixelFormat) -> Images {
    let size = [2, 3, 2];
    let strides = format.strides(size);
    let mut bytes = vec![0; 24];
    for image in 0..2 {
        for (y, x, c) in (0..12).map(|i| (i / 6, i / 2 % 3, i % 2)) {
            let place = y * strides[0] + x * strides[1] + c * strides[2];
            bytes[image * 12 + place] = (100 * image + 10 * y + 2 * x + c) as u8;
        }
    }
    let pixels = Pixels::new(bytes, 0, 0, format);
    Images { height: 2, width: 3, channels: 2, pixels, labels: vec![0, 1], ..Images::default() }
}

fn drawn(images: &Images, number: u32, seed: Option<EpochSeed>) -> Vec<f32> {
    let mut out = vec![f32::NAN; images.values()];
    images.draw(number, seed, &mut out);
    out
}

#[test]
fn every_form_draws_the_same_image() {
    let expect = [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15].map(|byte| (100.0 + byte as f32) * (1.0 / 255.0));
    for format in [PixelFormat::Rows, PixelFormat::Planes, PixelFormat::Columns] {
        assert_eq!(drawn(&sample(format), 1, None), expect, "{format:?}");
    }
    let values = [1.5, -2.0, 0.0, 7.0];
    let pixels = Pixels::of_floats(&values);
    let table = Images { height: 1, width: 1, channels: 2, pixels, labels: vec![0, 0], ..Images::default() };
    assert_eq!(drawn(&table, 0, None), values[..2]);
    assert_eq!(drawn(&table, 1, None), values[2..]);
}

#[test]
fn normal_values_have_mean_0_and_deviation_1() {
    for format in [PixelFormat::Rows, PixelFormat::Planes, PixelFormat::Columns] {
        let mut images = sample(format);
        let moments = images.moments();
        images.normalize(&moments);
        let all: Vec<f32> = (0..2).flat_map(|number| drawn(&images, number, None)).collect();
        for channel in 0..2 {
            let values: Vec<f32> = all.iter().skip(channel).step_by(2).copied().collect();
            let mean = values.iter().sum::<f32>() / 12.0;
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / 12.0;
            assert!(mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-5, "{format:?}: {mean} {variance}");
        }
    }
}

#[test]
fn moments_keep_their_precision_far_from_zero() {
    // A column of seconds since 1970, and one that never changes.
    let values = [1.6e9, 7.0, 1.6e9 + 256.0, 7.0];
    let pixels = Pixels::of_floats(&values);
    let table = Images { height: 1, width: 1, channels: 2, pixels, labels: vec![0, 0], ..Images::default() };
    let moments = table.moments();
    assert_eq!((moments.mean, moments.deviation), (vec![1.6e9 + 128.0, 7.0], vec![128.0, 1.0]));
}

#[test]
fn augmented_images_are_views_of_the_image_and_nothing_else() {
    let seed = EpochSeed { seed: 7, epoch: 3 };
    for (format, fill) in [
        (PixelFormat::Rows, Padding::Zero),
        (PixelFormat::Planes, Padding::Zero),
        (PixelFormat::Planes, Padding::Reflect),
    ] {
        let mut images = sample(format);
        images.augment = Some(Augment { pad: 1, flip: true, fill });
        for number in 0..2 {
            let plain = drawn(&images, number, None);
            let seen = drawn(&images, number, Some(seed));
            assert_eq!(seen, drawn(&images, number, Some(seed)));
            let crop = images.augment.unwrap().crop(seed, number);
            for (i, &value) in seen.iter().enumerate() {
                let source = crop.row(i / 6, 2).zip(crop.column(i / 2 % 3, 3));
                let expect = source.map_or(0.0, |(y, x)| plain[y * 6 + x * 2 + i % 2]);
                assert_eq!(value, expect, "{format:?} {fill:?} {i}");
            }
        }
    }
}

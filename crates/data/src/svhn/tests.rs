use super::*;
use crate::Samples;
use crate::mat::tests::{array_of_bytes, array_of_doubles, file_of};
use bonfire_learn::Shape;
use std::fs;

/// A file of so many images: image `n` has `10 y + 2 x + c + n` everywhere, for images of 2 x 3 with 2 channels.
fn content(labels: &[f64], packed: bool) -> Vec<u8> {
    let count = labels.len() as u32;
    let mut bytes = Vec::new();
    for n in 0..count {
        for (c, x, y) in (0..12).map(|i| (i / 6, i / 2 % 3, i % 2)) {
            bytes.push((10 * y + 2 * x + c + n) as u8);
        }
    }
    let images = array_of_bytes("X", &[2, 3, 2, count], &bytes);
    file_of(&[images, array_of_doubles("y", &[count, 1], labels)], packed)
}

#[test]
fn both_halves_and_the_extra_file_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, labels: &[f64], packed| {
        fs::write(folder.path().join(name), content(labels, packed)).unwrap();
    };
    write("train_32x32.mat", &[10.0, 1.0], true);
    write("test_32x32.mat", &[9.0], false);
    let check = |train: Option<usize>, expect: &[u8]| {
        let source = Source { train, ..Source::new(folder.path().to_str().unwrap()) };
        let dataset = source.load().unwrap();
        assert_eq!(dataset.shape, Shape::Images { height: 2, width: 3, channels: 2, classes: 10 });
        let Samples::Images(train) = &*dataset.train else { panic!("not images") };
        assert_eq!(train.labels, expect);
        let mut image = vec![0.0; 12];
        train.draw(1, None, &mut image);
        assert_eq!(image[(3 + 2) * 2 + 1], (10.0 + 4.0 + 1.0 + 1.0) / 255.0);
    };
    check(None, &[0, 1]);
    write("extra_32x32.mat", &[5.0, 6.0], true);
    check(None, &[0, 1, 5, 6]);
    check(Some(3), &[0, 1, 5]);
    // Not even looked at, where it is not needed.
    fs::write(folder.path().join("extra_32x32.mat"), "damaged").unwrap();
    check(Some(2), &[0, 1]);
}

#[test]
fn wrong_arrays_are_refused_with_a_reason() {
    let check = |arrays: &[Vec<u8>], expect: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train_32x32.mat");
        fs::write(&path, file_of(arrays, true)).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    let images = || array_of_bytes("X", &[1, 1, 3, 2], &[0; 6]);
    check(&[images()], "holds no array y");
    check(&[images(), array_of_doubles("y", &[1], &[1.0])], "y has 1 labels for the 2 images");
    check(&[images(), array_of_doubles("y", &[2], &[1.0, 11.0])], "label 2 of y is 11, expected 1 to 10");
    check(&[images(), array_of_doubles("y", &[2], &[1.5, 1.0])], "label 1 of y is 1.5");
    let labels = || array_of_doubles("y", &[2], &[1.0, 2.0]);
    check(&[array_of_bytes("X", &[3, 2], &[0; 6]), labels()], "X has 2 dimensions, expected 4");
    check(
        &[array_of_bytes("X", &[0, 1, 3, 2], &[]), labels()],
        "X has the sizes [0, 1, 3, 2], it must hold images",
    );
    check(&[array_of_doubles("X", &[1, 1, 1, 2], &[0.0; 2]), labels()], "expected bytes");
}

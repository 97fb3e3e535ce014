use super::*;
use crate::{EpochSeed, Samples};
use bonfire_learn::Shape;
use std::fs;

/// A record whose image is red everywhere, has its row number as green and its column as blue.
fn record(labels: &[u8], red: u8) -> Vec<u8> {
    let plane = |value: &dyn Fn(u8, u8) -> u8| -> Vec<u8> {
        (0..32).flat_map(|y| (0..32).map(move |x| (y, x))).map(|(y, x)| value(y, x)).collect()
    };
    [labels, &plane(&|_, _| red), &plane(&|y, _| y), &plane(&|_, x| x)].concat()
}

fn write(folder: &Path, name: &str, records: &[Vec<u8>]) {
    file::create(&folder.join(name), |out| out.write_all(&records.concat())).unwrap();
}

fn images(samples: &Samples) -> &Images {
    let Samples::Images(images) = samples else { panic!("not images") };
    images
}

fn load_folder(folder: &Path) -> Result<Dataset> {
    Source::new(folder.to_str().unwrap()).load()
}

#[test]
fn the_ten_classes_are_read_from_several_files() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "data_batch_1.bin", &[record(&[3], 100), record(&[9], 101)]);
    write(folder.path(), "data_batch_2.bin.gz", &[record(&[0], 102)]);
    write(folder.path(), "data_batch_4.bin", &[record(&[0], 103)]);
    write(folder.path(), "test_batch.bin", &[record(&[5], 104)]);
    fs::write(folder.path().join("batches.meta.txt"), "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n").unwrap();
    let dataset = load_folder(folder.path()).unwrap();
    assert_eq!(dataset.shape, Shape::Images { height: 32, width: 32, channels: 3, classes: 10 });
    assert_eq!(dataset.classes[3], "d");
    // The third part is not there, so the fourth belongs to something else.
    assert_eq!(images(&dataset.train).labels, [3, 9, 0]);
    assert_eq!(images(&dataset.test).labels, [5]);
    let mut image = vec![0.0; 3072];
    images(&dataset.train).draw(2, None, &mut image);
    assert_eq!(image[(7 * 32 + 9) * 3..][..3], [102.0, 7.0, 9.0].map(|byte: f32| byte * (1.0 / 255.0)));
}

#[test]
fn the_hundred_classes_and_their_groups_are_read() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "train.bin", &[record(&[19, 99], 1), record(&[2, 50], 1)]);
    write(folder.path(), "test.bin", &[record(&[7, 8], 1)]);
    let check = |labels: CifarLabels, classes: usize, expect: [u8; 2]| {
        let source = Source { labels, ..Source::new(folder.path().to_str().unwrap()) };
        let dataset = source.load().unwrap();
        assert_eq!((dataset.classes.len(), &images(&dataset.train).labels[..]), (classes, &expect[..]));
    };
    check(CifarLabels::Fine, 100, [99, 50]);
    check(CifarLabels::Coarse, 20, [19, 2]);
}

#[test]
fn a_large_file_is_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let records: Vec<Vec<u8>> = (0..400).map(|i| record(&[(i % 10) as u8], i as u8)).collect();
    write(folder.path(), "data_batch_1.bin", &records);
    write(folder.path(), "test_batch.bin", &records[..1]);
    let source = Source { train: Some(390), ..Source::new(folder.path().to_str().unwrap()) };
    let dataset = source.load().unwrap();
    let train = images(&dataset.train);
    assert!(train.pixels.is_in_files() && !images(&dataset.test).pixels.is_in_files());
    assert_eq!(train.labels.len(), 390);
    let mut image = vec![0.0; 3072];
    train.draw(389, Some(EpochSeed { seed: 1, epoch: 1 }), &mut image);
    assert_eq!(image[0], f32::from(389u16 as u8) * (1.0 / 255.0));
}

#[test]
fn wrong_files_are_refused_with_a_reason() {
    let check = |train: &[u8], expect: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("data_batch_1.bin"), train).unwrap();
        write(folder.path(), "test_batch.bin", &[record(&[5], 4)]);
        let error = load_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(b"", "data_batch_1.bin: has 0 bytes, expected records of 3073");
    check(&[0; 3072], "has 3072 bytes, expected records of 3073");
    check(&[record(&[9], 1), record(&[10], 1)].concat(), "record 2 has the label 10, expected 0 to 9");
}

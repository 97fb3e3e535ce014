use super::*;
use crate::Samples;
use crate::normalize::{Moments, Normalize};
use bonfire_learn::Shape;
use std::fs;

fn load_text(train: &str, test: &str, change: impl FnOnce(&mut Source)) -> Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.csv"), train).unwrap();
    fs::write(folder.path().join("test.csv"), test).unwrap();
    let mut source = Source::new(folder.path().to_str().unwrap());
    change(&mut source);
    source.load()
}

fn rows(samples: &Samples) -> (Vec<Vec<f32>>, Vec<u8>) {
    let Samples::Images(images) = samples else { panic!("not rows") };
    let row = |number| {
        let mut row = vec![0.0; images.values()];
        images.draw(number, None, &mut row);
        row
    };
    ((0..images.labels.len() as u32).map(row).collect(), images.labels.clone())
}

#[test]
fn every_way_to_write_a_table_is_read() {
    let expect = (vec![vec![1.0, -0.5], vec![3.0, 20.0]], vec![0, 1]);
    let check = |text: &str| {
        let dataset = load_text(text, text, |source| source.normalize = Some(Normalize::Off)).unwrap();
        assert_eq!(dataset.shape, Shape::Images { height: 1, width: 1, channels: 2, classes: 2 }, "{text:?}");
        assert_eq!(rows(&dataset.train), expect, "{text:?}");
        assert_eq!(rows(&dataset.test), expect, "{text:?}");
    };
    check("1,-0.5,0\n3,2e1,1\n");
    check("1;-0.5;0\r\n3;20;1\r\n\n");
    check("1\t-0.5\tcat\n3\t20\tdog");
    check("wide,high,kind\n1,-0.5,cat\n3,20,dog\n");
    check("\u{FEFF}\"Label\",\"a\",\"b\"\n\"2\",\"1\",-0.5\n10, 3 , 20\n");
}

#[test]
fn columns_are_normalised_by_the_training_half() {
    let (train, test) = ("1,5,0\n3,5,1\n", "5,6,1\n");
    let dataset = load_text(train, test, |_| ()).unwrap();
    assert_eq!(rows(&dataset.train).0, [[-1.0, 0.0], [1.0, 0.0]]);
    assert_eq!(rows(&dataset.test).0, [[3.0, 1.0]]);
    let by = Moments { mean: vec![1.0, 0.0], deviation: vec![2.0, 1.0] };
    let dataset = load_text(train, test, |source| source.normalize = Some(Normalize::By(by))).unwrap();
    assert_eq!(rows(&dataset.test).0, [[2.0, 6.0]]);
}

#[test]
fn wrong_tables_are_refused_with_line_and_column() {
    let check = |train: &str, test: &str, expect: &str| {
        let error = load_text(train, test, |_| ()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    let good = "1,2,0\n3,4,1\n";
    check("", good, "train.csv: holds no rows");
    check("a,b,label\n", good, "train.csv: holds no rows");
    check("12\n13\n", good, "train.csv:1: has one column");
    check("1,2,0\n\n3,x,1\n", good, "train.csv:3: column 2: \"x\" is not a number");
    check("1,2,0\n3,,1\n", good, "train.csv:2: column 2: \"\" is not a number");
    check("1,2,0\n3,NaN,1\n", good, "column 2: \"NaN\" is not a number");
    check("1,2,0\n3,4\n", good, "train.csv:2: has 2 columns, the first line has 3");
    check("1,2,0\n3,4,5,1\n", good, "train.csv:2: has 4 columns");
    check("1,2,0\n3,4,\n", good, "train.csv:2: column 3: the class is missing");
    check(good, "1,2,3,0\n", "test.csv: has 3 columns besides the label, but ");
    check(good, "1,2,0\n1,2,7\n", "test.csv:2: the class \"7\" is not in the training half");
    let many: String = (0..300).map(|i| format!("1,2,{i}\n")).collect();
    check(&many, good, "has 300 different labels");
}

#[test]
fn what_is_for_images_is_refused() {
    let augment = Some(crate::augment::Augment { pad: 1, ..Default::default() });
    let error = load_text("1,2,0\n", "1,2,0\n", |source| source.augment = augment).unwrap_err();
    assert!(error.to_string().contains("augment is for images"), "{error}");
}

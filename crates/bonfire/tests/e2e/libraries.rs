//! That files are read as numpy, Pillow and pyarrow write them. `BONFIRE_TEST_PYTHON` names a Python that has them.
//! Parquet is read by a program with that feature.

use std::fs;
use std::process::Command;

use crate::program::Dir;
use crate::record::Record;

/// A folder with what `make_files.py` makes; none without a Python.
fn made() -> Option<Dir> {
    let Ok(python) = std::env::var("BONFIRE_TEST_PYTHON") else {
        eprintln!("SKIPPED: BONFIRE_TEST_PYTHON names no Python with numpy, pillow and pyarrow");
        return None;
    };
    let dir = Dir::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/make_files.py");
    let output = Command::new(python).arg(script).arg(dir.path("")).output().expect("a Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(dir)
}

/// The parameters that come of some data.
fn trained(dir: &Dir, data: &str, model: &str) -> Vec<u8> {
    let out = format!("run{}", dir.entries().len());
    let settings = format!("data={data}\n model={model}\n epochs=2\n batch_size=16");
    dir.bonfire("train --quiet --out").arg(&out).set(&settings).succeed();
    Record::of(dir.path(&out)).parameters()
}

/// Ways to keep the same samples; each must come to the same parameters.
fn check_same(dir: &Dir, ways: &[&str], model: &str) {
    let first = trained(dir, ways[0], model);
    for way in &ways[1..] {
        assert!(trained(dir, way, model) == first, "{way} is not {}", ways[0]);
    }
}

#[test]
fn pictures_of_pillow_are_the_arrays_of_numpy() {
    let Some(dir) = made() else { return };
    check_same(&dir, &["photos", "plain.npz", "packed.npz", "arrays"], "{mlp: {hidden: [8]}}");
    trained(&dir, "{name: jpegs, resize: 16}", "{mlp: {hidden: [8]}}");
    let refuse =
        |data: &str, reason: &str| dir.bonfire("train").set(&format!("data={data}")).run().refuse(reason);
    refuse("jpegs", "make all alike: `data: {name: …, resize: 64}`");
    for name in ["plain.npz", "packed.npz", "photos/train/dark/007.png", "jpegs/a/06.jpg"] {
        let whole = fs::read(dir.path(name)).expect("a file");
        dir.write(name, &whole[..whole.len() / 2]);
        let data = name.split('/').next().unwrap_or(name);
        let data = if data == "jpegs" { "{name: jpegs, resize: 16}" } else { data };
        refuse(data, &format!("{name}: "));
        dir.write(name, whole);
    }
}

#[test]
fn tables_of_pyarrow_are_those_of_csv_and_json() {
    let Some(dir) = made() else { return };
    let way = |name: &str| format!("{{name: {name}, text: review, label: stars}}");
    let plain = [way("reviews.csv"), way("reviews.jsonl")];
    let model = "{sentiment: {hidden: 4, embedding: 5}}";
    check_same(&dir, &plain.each_ref().map(String::as_str), model);
    if !cfg!(feature = "parquet") {
        eprintln!("SKIPPED: this program was built without Parquet");
        dir.bonfire("train")
            .set(&format!("data={}", way("reviews.parquet")))
            .run()
            .refuse("--features parquet");
        return;
    }
    let packed = [way("reviews.csv"), way("reviews.parquet"), way("packed.parquet")];
    check_same(&dir, &packed.each_ref().map(String::as_str), model);
    let refuse =
        |data: &str, reason: &str| dir.bonfire("train").set(&format!("data={data}")).run().refuse(reason);
    refuse("{name: reviews.parquet, text: body, label: stars}", "reviews.parquet:1: has no key \"body\"");
    let whole = fs::read(dir.path("reviews.parquet")).expect("a file");
    dir.write("reviews.parquet", &whole[..whole.len() / 2]);
    refuse(&way("reviews.parquet"), "reviews.parquet");
}

//! A run folder of every format that there ever was resumes, and ends with the very parameters of its time.

use std::fs;
use std::path::{Path, PathBuf};

use bonfire::learn::kernels::instructions::VARIABLE;

use crate::program::{Dir, names};
use crate::record::Record;

/// The folders of all formats; their README says how they were made.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/run-folders")
}

/// Names of the folders in a folder.
fn folders(path: &Path) -> Vec<String> {
    names(path).into_iter().filter(|name| path.join(name).is_dir()).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).expect("a copy");
        }
    }
}

/// Resumes a copy of an interrupted run, and compares what it ends with to what it ended with when it was not interrupted.
fn check(format: &str, name: &str) {
    let (dir, fixture) = (Dir::new(), fixtures().join(format).join(name));
    let run = Record::of(dir.path("run"));
    copy(&fixture.join("run"), &run.0);
    let round = run.newest_round();
    dir.bonfire("train --quiet --resume run").env(&format!("{VARIABLE}=portable")).succeed();
    assert_eq!(run.told("resumed")[0]["round"], round, "{format}/{name}");
    assert!(run.newest_round() > round, "{format}/{name} was resumed at its end");
    let end = fs::read(fixture.join("end.safetensors")).expect("the parameters of the end");
    let (bits, expect) = (bits(&run.floats()), bits(&Record::floats_of(&end)));
    assert_eq!(bits.len(), expect.len(), "{format}/{name}");
    let other = bits.iter().zip(&expect).filter(|(bits, expect)| bits != expect).count();
    assert_eq!(other, 0, "of {} parameters of {format}/{name} differ", bits.len());
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_format_resumes_bit_for_bit() {
    for format in folders(&fixtures()) {
        let names = folders(&fixtures().join(&format));
        assert!(!names.is_empty(), "format {format} has a run");
        names.iter().for_each(|name| check(&format, name));
    }
}

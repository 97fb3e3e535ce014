//! A run folder of every format that there ever was resumes, and ends with the very parameters of its time.

use std::fs;
use std::path::{Path, PathBuf};

use bonfire::learn::kernels::instructions::VARIABLE;
use bonfire_report::FORMAT;

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

/// Resumes a copy of an interrupted run, and compares what it ends with to what it ended with when it was not
/// interrupted.
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
    let formats = folders(&fixtures());
    assert!(formats.contains(&FORMAT.to_string()), "format {FORMAT} has no folder among {formats:?}");
    for format in formats {
        let names = folders(&fixtures().join(&format));
        assert!(!names.is_empty(), "format {format} has a run");
        names.iter().for_each(|name| check(&format, name));
    }
}

#[test]
fn a_format_of_the_future_is_refused() {
    let (dir, newest) = (Dir::new(), fixtures().join(FORMAT.to_string()));
    let name = folders(&newest).pop().expect("a run");
    copy(&newest.join(name).join("run"), &dir.path("run"));
    let state = dir.path("run/state.json");
    let text = fs::read_to_string(&state).expect("a state");
    let changed = text.replacen(&format!("\"format\": {FORMAT}"), "\"format\": 99", 1);
    assert_ne!(changed, text, "a state says its format");
    fs::write(&state, changed).expect("written");
    let check =
        |command: &str| dir.bonfire(command).run().refuse("of format 99, which a newer Bonfire writes");
    check("train --resume run");
    check("head --listen 127.0.0.1:0 --resume run");
    check("eval run");
}

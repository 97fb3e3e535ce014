//! The filters in a cluster of Spark. `BONFIRE_TEST_SPARK` names a Python with pyspark; Java must be there too.

use std::fs;
use std::process::Command;

use crate::prepare::{content, raw};
use crate::program::{Dir, names};

#[test]
fn pipes_of_spark_give_the_same_bytes() {
    let Ok(python) = std::env::var("BONFIRE_TEST_SPARK") else {
        eprintln!("SKIPPED: BONFIRE_TEST_SPARK names no Python with pyspark, so no filter ran in Spark");
        return;
    };
    let dir = Dir::new();
    raw(&dir, "reviews.json", 4000);
    dir.bonfire("prepare reviews.json --format jsonl -o here").succeed();
    fs::create_dir(dir.path("spark")).expect("a folder");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/spark.py");
    let mut command = Command::new(&python);
    command.arg(script).arg(env!("CARGO_BIN_EXE_bonfire"));
    command.args([dir.path("reviews.json"), dir.path("spark")]).env("PYSPARK_PYTHON", &python);
    let output = command.current_dir(dir.path("")).output().expect("BONFIRE_TEST_SPARK");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    eprint!("{stdout}");
    let mut found =
        vec![("vocabulary.txt".to_owned(), fs::read(dir.path("spark/vocabulary.txt")).expect("words"))];
    for part in ["train", "validation", "test"] {
        let folder = dir.path("spark").join(part);
        let files = names(&folder).into_iter().filter(|name| name.starts_with("part-"));
        let rows = files.flat_map(|name| fs::read(folder.join(name)).expect("rows")).collect();
        found.push((format!("{part}.jsonl"), rows));
    }
    found.sort();
    assert!(found == content(&dir.path("here")), "{stdout}");
}

//! Preparing on hosts of a lab. `BONFIRE_TEST_PREPARE` names the program `bonfire-prepare`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::bed::{Bed, is_wanted};
use crate::prepare::{content, many, raw};
use crate::program::{Bonfire, Dir};

fn program(test: &str) -> Option<PathBuf> {
    let program = std::env::var_os("BONFIRE_TEST_PREPARE").map(PathBuf::from);
    if program.is_none() {
        eprintln!("SKIPPED: {test}: BONFIRE_TEST_PREPARE names no program, so nothing was prepared on hosts");
    }
    program.filter(|_| is_wanted(test))
}

/// A folder that all hosts of a lab see, as a network would give it to them. Their /tmp is their own.
fn shared() -> Dir {
    Dir::below(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

fn prepare(bed: &Bed, program: &Path, input: &Path) -> Bonfire {
    let folder = program.parent().expect("a folder").display();
    let path = std::env::var("PATH").expect("a PATH");
    bed.bonfire("prepare --format jsonl -o out").arg(input).env(&format!("PATH={folder}:{path}"))
}

#[test]
fn three_hosts_give_the_bytes_of_one_machine() {
    let Some(program) = program("three_hosts_give_the_bytes_of_one_machine") else { return };
    let (bed, shared) = (Bed::of('y', 3), shared());
    raw(&shared, "reviews.json", 20_000);
    shared.bonfire("prepare reviews.json --format jsonl -o here").succeed();
    let outcome = prepare(&bed, &program, &shared.path("reviews.json")).succeed();
    assert!(outcome.stderr.contains("executors on pi1, pi2, pi3"), "{}", outcome.stderr);
    assert!(content(&bed.lab.dir.path("out")) == content(&shared.path("here")));
    bed.is_clean();
    let outcome = prepare(&bed, &program, Path::new("/nowhere.json")).args("--words 5").run();
    assert!(outcome.stderr.contains("out: is not empty"), "{}", outcome.stderr);
    fs::remove_dir_all(bed.lab.dir.path("out")).expect("removed");
    let outcome = prepare(&bed, &program, Path::new("/nowhere.json")).run();
    assert!(outcome.stderr.contains("nowhere.json: No such file"), "{}", outcome.stderr);
    assert!(!bed.lab.dir.path("out").exists());
    bed.is_clean();
    bed.end();
}

#[test]
fn a_host_that_loses_its_executor_is_done_without() {
    let Some(program) = program("a_host_that_loses_its_executor_is_done_without") else { return };
    let (bed, shared) = (Bed::of('z', 3), shared());
    many(&shared, "reviews.json");
    shared.bonfire("prepare reviews.json --format jsonl -o here").succeed();
    let mut running = prepare(&bed, &program, &shared.path("reviews.json")).start();
    running.until_said("executors on pi1");
    thread::sleep(Duration::from_secs(2));
    let killed = bed.lab.process(2, "executor --ticket-file");
    assert!(Command::new("kill").args(["-9", &killed]).status().is_ok_and(|status| status.success()));
    let outcome = running.wait().expect(0);
    assert!(outcome.stderr.contains("the node on pi2 ended before its head"), "{}", outcome.stderr);
    assert!(content(&bed.lab.dir.path("out")) == content(&shared.path("here")));
    bed.is_clean();
    bed.end();
}

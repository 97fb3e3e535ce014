//! A preparation by the hosts of a lab: one leads, three are executors.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::{Bed, is_wanted};
use crate::prepare::{content, many, raw};
use crate::program::{Bonfire, names};

/// The folder of the program that hosts get, which is built on its own.
fn folder_of_program() -> Option<PathBuf> {
    let program = std::env::var_os("BONFIRE_TEST_PREPARE").map(PathBuf::from);
    if program.is_none() {
        eprintln!("SKIPPED: BONFIRE_TEST_PREPARE does not name a bonfire-prepare");
    }
    Some(program?.parent().expect("a folder").to_owned())
}

fn with_program(program: Bonfire, folder: &Path) -> Bonfire {
    let path = std::env::var("PATH").unwrap_or_default();
    program.env(&format!("PATH={}:{path}", folder.display()))
}

#[test]
fn hosts_prepare_what_one_machine_prepares() {
    let (true, Some(folder)) = (is_wanted("hosts_prepare_what_one_machine_prepares"), folder_of_program())
    else {
        return;
    };
    let bed = Bed::of('x', 4);
    let dir = &bed.lab.dir;
    fs::create_dir(dir.path("raw")).expect("a folder");
    raw(dir, "raw/a.json", 5000);
    dir.write("raw/b.csv", "stars,text\n5,\"good, very\n good\"\n9,bad\n");
    dir.bonfire("prepare raw --words 500 -o here").succeed();
    let there = with_program(bed.bonfire("prepare raw --words 500 -o there"), &folder).succeed();
    assert!(there.stderr.contains("duplicates"), "{}", there.stderr);
    assert!(content(&dir.path("there")) == content(&dir.path("here")));
    assert!(!dir.path("there.hosts").exists());
    bed.is_clean();
    // What is wrong with the input is wrong input, also if only a host saw it.
    with_program(bed.bonfire("prepare nothing.json -o none"), &folder).run().refuse("nothing.json");
    assert!(!dir.path("none").exists());
    bed.is_clean();
}

#[test]
fn an_executor_that_dies_costs_time_but_no_text() {
    let (true, Some(folder)) =
        (is_wanted("an_executor_that_dies_costs_time_but_no_text"), folder_of_program())
    else {
        return;
    };
    let bed = Bed::of('z', 4);
    let dir = &bed.lab.dir;
    many(dir, "raw.json");
    dir.bonfire("prepare raw.json -o here").succeed();
    let mut running = with_program(bed.bonfire("prepare raw.json -o there"), &folder).start();
    let runs = bed.lab.home(3).join(".bonfire/runs");
    let has_work = || {
        let works = names(&runs).into_iter().map(|run| runs.join(run).join("2/work"));
        works
            .flat_map(|work| names(&work).into_iter().map(move |name| work.join(name)))
            .any(|own| !names(&own).is_empty())
    };
    running.until("texts that the executor passes on", has_work);
    let id = bed.lab.process(3, "bonfire-prepare");
    assert!(Command::new("kill").args(["-9", &id]).status().expect("kill").success());
    running.wait().expect(0);
    assert!(content(&dir.path("there")) == content(&dir.path("here")));
    bed.is_clean();
}

//! A preparation by the hosts of a lab: one leads, three are executors.

use std::fs;
use std::path::PathBuf;

use crate::bed::{Bed, is_wanted};
use crate::prepare::{content, raw};
use crate::program::Bonfire;

/// The folder of the program that hosts get, which is built on its own.
fn folder_of_program() -> Option<PathBuf> {
    let program = std::env::var_os("BONFIRE_TEST_PREPARE").map(PathBuf::from);
    if program.is_none() {
        eprintln!("SKIPPED: BONFIRE_TEST_PREPARE does not name a bonfire-prepare");
    }
    Some(program?.parent().expect("a folder").to_owned())
}

#[test]
fn hosts_prepare_what_one_machine_prepares() {
    let (true, Some(folder)) = (is_wanted("hosts_prepare_what_one_machine_prepares"), folder_of_program())
    else {
        return;
    };
    let bed = Bed::of('x', 4);
    let dir = &bed.lab.dir;
    let with_program = |program: Bonfire| {
        let path = std::env::var("PATH").unwrap_or_default();
        program.env(&format!("PATH={}:{path}", folder.display()))
    };
    raw(dir, "raw.json", 5000);
    dir.bonfire("prepare raw.json --words 500 -o here").succeed();
    // Every host has a /tmp of its own.
    let copies: Vec<PathBuf> = (1..=4).map(|number| bed.lab.place(number, "tmp").join("raw.json")).collect();
    for copy in copies.iter() {
        fs::copy(dir.path("raw.json"), copy).expect("a copy");
    }
    let there = with_program(bed.bonfire("prepare /tmp/raw.json --words 500 -o there")).succeed();
    assert!(there.stderr.contains("duplicates"), "{}", there.stderr);
    assert!(content(&dir.path("there")) == content(&dir.path("here")));
    assert!(!dir.path("there.hosts").exists());
    // What is wrong with the input is wrong input, also if only a host saw it.
    with_program(bed.bonfire("prepare /tmp/nothing.json -o none")).run().refuse("nothing.json");
    assert!(!dir.path("none").exists());
    copies.iter().for_each(|copy| fs::remove_file(copy).expect("removed"));
    bed.is_clean();
}

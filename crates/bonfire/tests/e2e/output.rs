//! What is printed where.

use crate::TINY;
use crate::program::{Bonfire, Dir};
use crate::record::Record;

#[test]
fn json_is_all_there_is_on_stdout() {
    let dir = Dir::new();
    let outcome = dir.bonfire("train --json --out run").set(TINY).succeed();
    assert_eq!(outcome.json_lines(), Record::of(dir.path("run")).events(), "what is printed is what is kept");
    assert_eq!(outcome.stderr, "");
    let speeds = dir.bonfire("bench step --model lenet5 --seconds 0.05 --json").succeed().json_lines();
    assert_eq!(speeds.len(), 1);
    assert!(speeds[0]["samples_per_s"].as_f64() > Some(0.0), "{}", speeds[0]);
}

#[test]
fn quiet_is_silent() {
    let outcome = Dir::new().bonfire("train --quiet --out run").set(TINY).succeed();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""));
}

#[test]
fn without_a_terminal_there_are_plain_lines() {
    let outcome = Dir::new().bonfire("train --out run").set(TINY).succeed();
    assert_eq!(outcome.stdout, "");
    assert!(outcome.stderr.lines().count() > 5 && outcome.stderr.contains("done in"), "{}", outcome.stderr);
    let is_plain = |letter: char| letter == '\n' || !letter.is_control();
    assert!(outcome.stderr.chars().all(is_plain), "{:?}", outcome.stderr);
}

#[test]
fn every_command_explains_itself() {
    let dir = Dir::new();
    for command in ["", "train", "eval", "data", "data list", "data make", "data get", "bench", "bench step"]
    {
        let help = dir.bonfire(command).arg("--help").succeed().stdout;
        assert!(help.contains("Usage: bonfire"), "{help}");
    }
    let version = dir.bonfire("--version").succeed().stdout;
    assert_eq!(version.trim_end(), concat!("bonfire ", env!("CARGO_PKG_VERSION")));
    let list = dir.bonfire("data list").succeed().stdout;
    for name in ["digits", "grammar", "reviews", "fashion-mnist", "mnist"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name} in\n{list}");
    }
}

#[test]
fn a_terminal_that_takes_no_more_words_changes_no_exit_code() {
    let check = |command: Bonfire, code: i32| {
        // Every write to it fails, as to a terminal that was closed.
        command.under(&[], "exec \"$@\" 2> /dev/full").run().expect(code);
    };
    let dir = Dir::new();
    check(dir.bonfire("train --set epoch=5"), 2);
    check(dir.bonfire("train --out run").set(TINY), 0);
    check(dir.bonfire("eval elsewhere --watch --timeout 1"), 1);
    check(dir.bonfire("lab down --name Lab"), 2);
}

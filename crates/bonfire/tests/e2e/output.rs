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

#[test]
fn a_reader_that_went_away_is_no_error() {
    let dir = Dir::new();
    let check = |command: Bonfire, code: i32, expect: &str| {
        let outcome = command.start_unread().wait().expect(code);
        assert_eq!(outcome.stderr, expect, "{}", outcome.line);
    };
    let quietly = |line: &str| check(dir.bonfire(line), 0, "");
    quietly("data list");
    quietly("data make digits --train 20 --test 10 -o .local/share/bonfire/mnist");
    quietly("data get mnist");
    dir.bonfire("train --quiet --out run").set(TINY).succeed();
    quietly("eval run");
    quietly("eval run --json");
    quietly("eval run --watch");
    quietly("export run -o run.safetensors");
    check(dir.bonfire("import run.safetensors --out imported").set(TINY), 0, "");
    quietly("bench step --model lenet5 --seconds 0.01");
    quietly("bench step --model lenet5 --seconds 0.01 --json");
    quietly("bench exchange --bytes 4000 --seconds 0.01");
    quietly("bench exchange --bytes 4000 --seconds 0.01 --json");
    quietly("host seats none");
    check(dir.bonfire("train --json --out again").set(TINY), 0, "");
    // A ticket that nobody reads is no reason to end the run, which waits for its nodes.
    let mut head = dir.bonfire("head --quiet --listen 127.0.0.1:0 --out head").set(TINY).start_unread();
    assert!(head.until("its log", || dir.path("head/events.jsonl").exists()), "{}", head.said());
    // Whether the hosts can be used is said by the exit code too.
    let unknown = "error: 1 of 1 hosts cannot be used\n  nowhere.invalid: the name nowhere.invalid is not known; \
                   give its address in the inventory\n";
    check(dir.bonfire("check -H nowhere.invalid"), 1, unknown);
    check(dir.bonfire("check -H nowhere.invalid --json"), 1, unknown);
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let dir = Dir::new();
    dir.bonfire("train --quiet --out run").set(TINY).succeed();
    for command in ["data list", "eval run", "export run", "bench step --model lenet5 --seconds 0.01"] {
        let outcome = dir.bonfire(command).under(&[], "exec \"$@\" > /dev/full").run().expect(1);
        assert!(outcome.stderr.starts_with("error: the result cannot be written"), "{}", outcome.stderr);
    }
}

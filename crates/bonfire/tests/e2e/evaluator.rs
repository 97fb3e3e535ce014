//! `bonfire eval`: the same numbers as the run's own, also from beside it.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::program::Dir;
use crate::record::Record;
use crate::{SMALL, TINY};

/// Round, loss, accuracy and F1 of evaluations.
fn numbers(events: &[Value]) -> Vec<Value> {
    let pick = |event: &Value| ["round", "loss", "accuracy", "macro_f1"].map(|key| event[key].clone());
    events.iter().map(|event| pick(event).into_iter().collect()).collect()
}

#[test]
fn it_finds_what_the_run_found() {
    let check = |settings: &str| {
        let dir = Dir::new();
        dir.bonfire("train --quiet --out run").set(SMALL).set("epochs=2").set(settings).succeed();
        let found = dir.bonfire("eval run --json").succeed().json_lines();
        let told = Record::of(dir.path("run")).told("evaluated");
        assert_eq!(found.len(), 2, "{settings}");
        assert_eq!(numbers(&found), numbers(&told), "{settings}");
        let shown = dir.bonfire("eval run").succeed().stdout;
        assert_eq!(shown.matches("accuracy").count(), 2, "{shown}");
    };
    check("workers=1");
    check("workers=3");
    check(
        "model.tagger={embedding: 16, hidden: 16}\n data={name: grammar, train: 200, test: 150}\n workers=5",
    );
    check(
        "model.sentiment={embedding: 16, hidden: 8}\n data={name: reviews, train: 200, test: 150}\n workers=5",
    );
}

#[test]
fn it_watches_a_run_from_before_it_starts_until_its_end() {
    let dir = Dir::new();
    let watchers = [(); 2].map(|()| dir.bonfire("eval run --watch --json --timeout 100"));
    let [before, meanwhile] = watchers;
    let before = before.start();
    let often = "checkpoint_every=5 rounds\n eval_every=5 rounds\n keep_checkpoints=1000";
    let run = Record::of(dir.path("run"));
    let mut running = dir.bonfire("train --quiet --out run").set(SMALL).set(often).start();
    running.until("a checkpoint", || !run.checkpoints().is_empty());
    let meanwhile = meanwhile.start();
    running.wait().expect(0);
    let told = numbers(&run.told("evaluated"));
    assert_eq!(told.len(), 160 / 5);
    for watcher in [before, meanwhile] {
        assert_eq!(
            numbers(&watcher.wait().expect(0).json_lines()),
            told,
            "every checkpoint once, none left out"
        );
    }
}

#[test]
fn it_gives_up_on_a_dead_run() {
    let dir = Dir::new();
    let run = Record::of(dir.path("run"));
    let mut running = dir.bonfire("train --quiet --out run").set(SMALL).set("epochs=1000000").start();
    running.until("a checkpoint", || !run.checkpoints().is_empty());
    running.kill_after(Duration::ZERO);
    let outcome = dir.bonfire("eval run --watch --timeout 1").run().expect(1);
    assert!(outcome.stderr.contains("nothing was heard of the run for 1 s"), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("accuracy"), "what is there was measured: {}", outcome.stdout);

    let outcome = dir.bonfire("eval nowhere --watch --timeout 1").run().expect(1);
    assert!(outcome.stderr.contains("nowhere: there is no such folder"), "{}", outcome.stderr);
}

#[test]
fn half_a_checkpoint_does_not_hide_the_others() {
    let dir = Dir::new();
    dir.bonfire("train --quiet --out run").set(TINY).set("checkpoint_every=1 round").succeed();
    let newest = Record::of(dir.path("run")).newest();
    fs::write(&newest, &fs::read(&newest).expect("a checkpoint")[..100]).expect("written");
    let outcome = dir.bonfire("eval run --json").run().expect(1);
    let found = outcome.json_lines();
    assert_eq!(found[0]["event"], "measured");
    assert_eq!((&found[1]["event"], &found[1]["round"]), (&"missed".into(), &2.into()));
}

#[test]
fn a_checkpoint_that_cannot_be_measured_is_a_failure_and_named() {
    let dir = Dir::new();
    let settings = "num_server_rounds=4\n checkpoint_every=1 round\n keep_checkpoints=1000";
    dir.bonfire("train --quiet --out run").set(TINY).set(settings).succeed();
    let check = |rounds: &[u64], expect: &str| {
        for round in rounds {
            let file = dir.path(&format!("run/checkpoints/step-{round:06}.safetensors"));
            fs::write(&file, &fs::read(&file).expect("a checkpoint")[..100]).expect("written");
        }
        for command in ["eval run", "eval run --watch"] {
            let outcome = dir.bonfire(command).run().expect(1);
            assert_eq!(outcome.stderr, format!("error: {expect}\n"), "{command}");
            assert_eq!(outcome.stdout.lines().count(), 4, "the others are measured: {}", outcome.stdout);
        }
    };
    dir.bonfire("eval run").succeed();
    check(&[2], "1 of 4 checkpoints could not be measured: that of round 2");
    check(&[4], "2 of 4 checkpoints could not be measured: those of rounds 2, 4");
}

#[test]
fn what_is_no_run_is_refused() {
    let dir = Dir::new();
    dir.write("folder/file", "");
    dir.bonfire("eval nowhere").run().refuse("nowhere: there is no such folder");
    dir.bonfire("eval folder").run().refuse("folder: is not a run folder: run.yml is missing");
    dir.bonfire("train --quiet --out run").set(TINY).succeed();
    fs::remove_dir_all(dir.path("run/checkpoints")).expect("removed");
    dir.bonfire("eval run").run().refuse("there is no checkpoint yet");
}

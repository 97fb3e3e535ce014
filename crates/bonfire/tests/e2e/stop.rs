//! Runs that end before their plan does, and runs that have ended.

use crate::program::Dir;
use crate::record::Record;
use crate::{ROUNDS_PER_EPOCH, SMALL, TINY};

/// Stops a run by a signal once it has a checkpoint, then lets it go on to an end.
#[track_caller]
fn check_signal(name: &str) {
    let dir = Dir::new();
    let run = Record::of(dir.path("stopped"));
    let mut running = dir.bonfire("train --out stopped").set(SMALL).set("epochs=1000000").start();
    running.until("a checkpoint", || run.newest_round() > 0);
    running.signal(name);
    let outcome = running.wait().expect(130);
    assert!(outcome.stderr.contains("interrupted at round"), "{}", outcome.stderr);
    assert_eq!(run.summary()["exit"], "interrupted");
    let round = run.told("interrupted")[0]["round"].as_u64().expect("a round");
    assert_eq!(run.newest_round(), round, "the newest checkpoint is of the last round");

    let length = format!("epochs={}", round / ROUNDS_PER_EPOCH + 2);
    dir.bonfire("train --quiet --resume stopped").set(&length).succeed();
    assert_eq!(run.told("resumed")[0]["round"], round);
    dir.bonfire("train --quiet --out undisturbed").set(SMALL).set(&length).succeed();
    assert!(run.parameters() == Record::of(dir.path("undisturbed")).parameters(), "it ended otherwise");
}

#[test]
fn ctrl_c_leaves_a_checkpoint() {
    check_signal("INT");
}

#[test]
fn so_does_a_request_to_terminate() {
    check_signal("TERM");
}

#[test]
fn a_target_ends_a_run_early() {
    let dir = Dir::new();
    let settings = format!("{SMALL}\n target_accuracy=0.5\n eval_every=20 rounds");
    let shown = dir.bonfire("train --out run").set(&settings).succeed().stderr;
    let run = Record::of(dir.path("run"));
    let summary = run.summary();
    assert_eq!(summary["exit"], "target_reached");
    let reached = &run.told("target_reached")[0];
    for key in ["rounds", "target_reached_round"] {
        assert_eq!(summary[key], reached["round"], "{key}");
    }
    assert!(summary["rounds"].as_u64().is_some_and(|round| round < 160 && round % 20 == 0), "{summary}");
    assert!(summary["accuracy"].as_f64() >= Some(0.5));
    assert!(shown.contains(&format!("reached at round {}", reached["round"])), "{shown}");

    dir.bonfire("train --resume run").run().refuse("reached its target in round");
    dir.bonfire("train --quiet --resume run --set target_accuracy=").succeed();
    assert_eq!(run.summary()["rounds"], 160);
    assert_eq!(run.summary()["target_reached_round"], reached["round"]);
}

#[test]
fn a_complete_run_can_only_be_made_longer() {
    let dir = Dir::new();
    let check = |run: &str, length: &str, advice: &str, longer: &str| {
        dir.bonfire("train --quiet --out").arg(run).set(TINY).set(length).succeed();
        dir.bonfire("train --resume").arg(run).run().refuse(advice);
        dir.bonfire("train --quiet --resume").arg(run).set(longer).succeed();
    };
    check("epochs", "num_server_rounds=\n epochs=1", "to go on: --set epochs=N", "epochs=2");
    check("rounds", "", "to go on: --set num_server_rounds=N", "num_server_rounds=8");
    let [epochs, rounds] = ["epochs", "rounds"].map(|name| Record::of(dir.path(name)));
    assert_eq!(epochs.summary()["rounds"], 8);
    assert!(
        epochs.parameters() == rounds.parameters(),
        "two epochs are eight rounds, however they came about"
    );
}

#[test]
fn a_run_that_diverges_fails() {
    let dir = Dir::new();
    let settings = "optimizer.sgd={lr: 1e38, momentum: 0.9}\n num_server_rounds=\n epochs=5";
    let outcome = dir.bonfire("train --quiet --out run").set(TINY).set(settings).run().expect(1);
    assert!(outcome.stderr.contains("the loss is no longer a number in round"), "{}", outcome.stderr);
    let run = Record::of(dir.path("run"));
    assert_eq!(run.summary()["exit"], "failed");
    assert_eq!(run.events().last().expect("events")["event"], "ended");
}

//! A run that is judged by validation keeps its best parameters, and looks at the test half once.

use std::fs;

use serde_json::Value;

use crate::fire::{Fire, burn};
use crate::program::Dir;
use crate::record::Record;
use crate::{SMALL, TINY};

/// Sixteen evaluations or so, whose losses do not only fall.
const JUDGED: &str = "
    data={name: digits, train: 2048, test: 300}
    optimizer={sgd: {lr: 0.3, momentum: 0.9}}
    validation=0.1
    eval_every=10 rounds
    checkpoint_every=20 rounds
    epochs=6
";

#[track_caller]
fn train(dir: &Dir, name: &str, workers: usize, settings: &str) -> Record {
    dir.bonfire(&format!("train --quiet --out {name} --workers {workers}")).set(settings).succeed();
    Record::of(dir.path(name))
}

#[track_caller]
fn best_of(run: &Record) -> Vec<u8> {
    fs::read(run.0.join("checkpoints/best.safetensors")).expect("the best parameters")
}

fn number(event: &Value, key: &str) -> f64 {
    event[key].as_f64().unwrap_or_else(|| panic!("{key} of {event}"))
}

/// What must be the same of two runs with the same settings.
const FIGURES: [&str; 8] = [
    "exit",
    "rounds",
    "accuracy",
    "eval_loss",
    "best_round",
    "validation_loss",
    "validation_accuracy",
    "confusion",
];

#[track_caller]
fn check_same(run: &Record, expect: &Record) {
    for key in FIGURES {
        assert_eq!(run.summary()[key], expect.summary()[key], "{key} of {}", run.0.display());
    }
    assert!(best_of(run) == best_of(expect), "the best of {}", run.0.display());
}

#[test]
fn the_best_is_kept_and_tested_once() {
    let dir = Dir::new();
    let run = train(&dir, "run", 2, &format!("{JUDGED}\n keep_checkpoints=1"));
    let evaluated = run.told("evaluated");
    assert!(evaluated.iter().all(|event| event["samples"] == 205), "a tenth of 2048: {evaluated:?}");
    let best = evaluated.iter().min_by(|a, b| number(a, "loss").total_cmp(&number(b, "loss")));
    let best = best.expect("evaluations");
    let summary = run.summary();
    assert_eq!(summary["best_round"], best["round"]);
    assert_eq!(summary["validation_loss"], best["loss"]);
    assert!(number(best, "round") < number(&summary, "rounds"), "the last is not the best: {evaluated:?}");
    let tested = run.told("tested");
    assert_eq!((tested.len(), &tested[0]["samples"], &tested[0]["round"]), (1, &300.into(), &best["round"]));
    assert_eq!((&summary["accuracy"], &summary["eval_loss"]), (&tested[0]["accuracy"], &tested[0]["loss"]));
    let started = &run.told("started")[0];
    assert_eq!(started["train_samples"], 1843);
    assert_eq!((&started["validation_samples"], &started["test_samples"]), (&205.into(), &300.into()));
    // What was kept is what the run had then.
    let all =
        train(&dir, "all", 2, &format!("{JUDGED}\n keep_checkpoints=1000\n checkpoint_every=10 rounds"));
    let then = format!("checkpoints/step-{:06}.safetensors", number(best, "round"));
    assert!(best_of(&run) == fs::read(all.0.join(then)).expect("a checkpoint"));
    let files: Vec<_> =
        run.checkpoints().into_iter().map(|file| file.file_name().map(ToOwned::to_owned)).collect();
    assert_eq!(files.len(), 2, "the best and the newest: {files:?}");
    dir.bonfire("export run --best -o best.safetensors").succeed();
    assert!(fs::read(dir.path("best.safetensors")).expect("a file") == best_of(&run));
}

#[test]
fn it_is_chosen_by_accuracy_if_that_is_asked_for() {
    let dir = Dir::new();
    let run = train(&dir, "run", 2, &format!("{JUDGED}\n best_by=accuracy"));
    let evaluated = run.told("evaluated");
    let most = evaluated.iter().map(|event| number(event, "accuracy")).fold(0.0, f64::max);
    assert_eq!(number(&run.summary(), "validation_accuracy"), most);
}

#[test]
fn a_killed_run_has_the_same_best() {
    let dir = Dir::new();
    let expect = train(&dir, "whole", 2, JUDGED);
    for kill_at in [30, 70, 110, 130] {
        let run = Record::of(dir.path(&format!("killed-{kill_at}")));
        let command = || dir.bonfire("train --quiet --workers 2 --out").arg(&run.0).set(JUDGED);
        let mut running = command().start();
        let is_there = || {
            let told = run.told_so_far("evaluated");
            told.last().is_some_and(|event| number(event, "round") >= f64::from(kill_at))
        };
        running.until("an evaluation", is_there);
        running.kill_after(std::time::Duration::ZERO);
        dir.bonfire("train --quiet --resume").arg(&run.0).succeed();
        check_same(&run, &expect);
    }
}

#[test]
fn servers_and_groups_find_the_same_best() {
    let dir = Dir::new();
    let expect = train(&dir, "threads", 2, JUDGED);
    let flat = format!("{JUDGED}\n arch=flat\n parameter_server={{num_workers: 2}}");
    let group = format!("{JUDGED}\n arch=allreduce\n allreduce={{num_workers: 2}}");
    check_same(&burn(&dir, "flat", 2, &flat), &expect);
    check_same(&burn(&dir, "group", 2, &group), &expect);
    check_same(&burn(&dir, "shipped", 2, &format!("{flat}\n distribute=ship")), &expect);
    // An evaluator may be behind, but what it finds is the same.
    let apart = burn(&dir, "evaluator", 3, &format!("{flat}\n evaluator=true"));
    assert!(best_of(&apart) == best_of(&expect));
    assert_eq!(apart.summary()["accuracy"], expect.summary()["accuracy"]);
}

#[test]
fn a_head_that_dies_has_the_same_best() {
    let dir = Dir::new();
    let expect = train(&dir, "threads", 2, JUDGED);
    for arch in
        ["arch=flat\n parameter_server={num_workers: 2}", "arch=allreduce\n allreduce={num_workers: 2}"]
    {
        let name = &arch[5..8];
        let mut fire = Fire::light(&dir, name, "--quiet", &format!("{JUDGED}\n{arch}")).join(&dir, 2);
        let run = Record::of(dir.path(name));
        fire.head.until("an evaluation", || run.told_so_far("evaluated").len() >= 7);
        fire.head.signal("KILL");
        let run = fire.relight(&dir).burn_down();
        assert!(best_of(&run) == best_of(&expect), "{arch}");
        assert_eq!(run.summary()["best_round"], expect.summary()["best_round"], "{arch}");
    }
}

#[test]
fn it_stops_when_nothing_is_better() {
    let dir = Dir::new();
    let settings = format!("{JUDGED}\n optimizer.sgd.lr=0\n patience=3");
    let run = train(&dir, "run", 2, &settings);
    let (summary, stopped) = (run.summary(), run.told("stopped_early"));
    assert_eq!((&summary["exit"], &summary["rounds"]), (&"stopped_early".into(), &40.into()));
    assert_eq!((stopped[0]["best_round"].as_u64(), stopped[0]["evaluations"].as_u64()), (Some(10), Some(3)));
    assert_eq!((run.told("tested").len(), summary["best_round"].as_u64()), (1, Some(10)));
    dir.bonfire("train --quiet --resume run").run().refuse("to go on: --set patience=N");
    dir.bonfire("train --quiet --resume run --set patience=5").succeed();
    assert_eq!(run.summary()["rounds"], 60);
    let flat = format!("{settings}\n arch=flat\n parameter_server={{num_workers: 2}}");
    assert_eq!(burn(&dir, "flat", 2, &flat).summary()["rounds"], 40);
}

#[test]
fn the_target_is_reached_on_validation() {
    let dir = Dir::new();
    let run = train(
        &dir,
        "run",
        2,
        &format!("{SMALL}\n validation=dev\n target_accuracy=0.3\n eval_every=10 rounds"),
    );
    let (reached, last) = (run.told("target_reached"), run.told("evaluated"));
    let last = last.last().expect("evaluations");
    assert_eq!((&reached[0]["accuracy"], &last["samples"]), (&last["accuracy"], &300.into()));
    assert_eq!(run.summary()["exit"], "target_reached");
    assert_eq!(run.told("tested").len(), 1);
}

#[test]
fn an_interrupted_run_has_not_looked_at_the_test_half() {
    let dir = Dir::new();
    let mut running =
        dir.bonfire("train --quiet --out run --workers 2").set(JUDGED).set("epochs=100000").start();
    let run = Record::of(dir.path("run"));
    running.until("an evaluation", || run.told_so_far("evaluated").len() > 3);
    running.signal("INT");
    running.wait().expect(130);
    let summary = run.summary();
    assert_eq!((run.told("tested").len(), &summary["accuracy"]), (0, &Value::Null));
    assert!(summary["validation_accuracy"].is_number());
}

#[test]
fn without_the_key_all_is_as_before() {
    let dir = Dir::new();
    let run = train(&dir, "run", 2, SMALL);
    let summary = run.summary();
    assert_eq!((run.told("tested").len(), &summary["best_round"]), (0, &Value::Null));
    assert!(!run.0.join("checkpoints/best.safetensors").exists());
    assert_eq!(run.told("evaluated")[0]["samples"], 300);
    let classes = summary["classes"].as_array().expect("classes");
    let counts: u64 = classes.iter().map(|class| class["count"].as_u64().expect("a count")).sum();
    assert_eq!((classes.len(), counts, &classes[3]["name"]), (10, 300, &"3".into()));
    let row = |row: &Value| {
        row.as_array().expect("a row").iter().map(|n| n.as_u64().expect("a count")).sum::<u64>()
    };
    let rows: Vec<u64> = summary["confusion"].as_array().expect("rows").iter().map(row).collect();
    let of_classes: Vec<u64> =
        classes.iter().map(|class| class["count"].as_u64().expect("a count")).collect();
    assert_eq!(rows, of_classes);
    let recall: f64 = classes.iter().map(|class| number(class, "recall") * number(class, "count")).sum();
    assert!((recall / 300.0 - run.number("accuracy")).abs() < 1e-9);
    assert!(run.number("top5_accuracy") >= run.number("accuracy"));
    let said = dir.bonfire("train").set(SMALL).succeed().stderr;
    assert!(said.contains("top-5 ") && said.contains("classes   weakest is "), "{said}");
}

#[test]
fn what_is_measured_at_the_start() {
    let dir = Dir::new();
    let rounds = |run: &Record| -> Vec<u64> {
        run.told("evaluated").iter().map(|event| event["round"].as_u64().expect("a round")).collect()
    };
    assert_eq!(rounds(&train(&dir, "alone", 2, &format!("{TINY}\n eval_at_start=true"))), [0, 2]);
    let flat =
        format!("{TINY}\n eval_at_start=true\n arch=flat\n parameter_server={{num_workers: 2}}\n workers=");
    assert_eq!(rounds(&burn(&dir, "flat", 2, &flat)), [0, 2]);
    assert_eq!(
        rounds(&train(&dir, "reached", 2, &format!("{TINY}\n eval_at_start=true\n target_accuracy=0.001"))),
        [0]
    );
}

#[test]
fn no_checkpoint_is_written_if_none_is_wanted() {
    let dir = Dir::new();
    let run = train(&dir, "run", 2, &format!("{SMALL}\n checkpoint_every=never"));
    assert_eq!((run.told("checkpointed").len(), run.checkpoints().len()), (0, 0));
    assert_eq!(run.summary()["exit"], "done");
    let judged = train(&dir, "judged", 2, &format!("{JUDGED}\n checkpoint_every=never"));
    assert_eq!(judged.checkpoints().len(), 1, "only the best");
    check_same(&judged, &train(&dir, "expect", 2, JUDGED));
}

#[test]
fn a_part_that_cannot_be_is_refused() {
    let dir = Dir::new();
    for part in ["0", "1", "1.5"] {
        let command = dir.bonfire("train").set(SMALL).arg("--set").arg(format!("validation={part}"));
        command.run().refuse("must be above 0 and below 1, such as 0.1");
    }
    dir.bonfire("train --set validation=0.1 --set data.train=4").run().refuse("leaves none to validate by");
    dir.bonfire("train --set patience=3").run().refuse("is judged by validation");
    assert_eq!(dir.entries(), [""; 0]);
}

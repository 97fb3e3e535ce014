//! Many runs, one table: each run once, whatever becomes of the process that started them.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::program::{Dir, names};
use crate::record::Record;

/// Eight rates with three seeds, of a moment each.
const RATES: &str = "
run:
  data: {name: digits, train: 1000, test: 200}
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
  validation: 0.1
  epochs: 4
  eval_every: 10 rounds
  checkpoint_every: 10 rounds
  report: false
  workers: 1
grid:
  optimizer.sgd.lr: {powers: 2, from: -9, to: -2}
seeds: 3
";

fn table(dir: &Dir, folder: &str) -> Value {
    let text = fs::read_to_string(dir.path(folder).join("table.json")).expect("a table");
    serde_json::from_str(&text).expect("JSON")
}

/// How often each run was begun, by its log.
fn begun(dir: &Dir, folder: &str) -> Vec<(usize, usize)> {
    let runs = dir.path(folder).join("runs");
    let count = |name: &String| {
        let run = Record::of(runs.join(name));
        (run.told("started").len() - run.told("resumed").len(), run.told("ended").len())
    };
    names(&runs).iter().map(count).collect()
}

#[test]
fn killed_in_the_middle_it_does_each_run_once() {
    let dir = Dir::new();
    dir.write("rates.yml", RATES);
    let mut running = dir.bonfire("sweep rates.yml --jobs 2 --out killed").start();
    let runs = dir.path("killed/runs");
    let has_ended = |name: &String| runs.join(name).join("summary.json").exists();
    running.until("some runs", || names(&runs).iter().filter(|name| has_ended(name)).count() >= 9);
    running.kill_after(Duration::from_millis(30));
    let before: BTreeSet<String> = names(&runs).into_iter().filter(|name| has_ended(name)).collect();
    assert!(before.len() < 24, "it was killed in the middle");
    let times = |name: &String| {
        fs::metadata(runs.join(name).join("summary.json")).and_then(|file| file.modified()).expect("a time")
    };
    let written: Vec<_> = before.iter().map(times).collect();
    let outcome = dir.bonfire("sweep --resume killed").succeed();
    assert!(outcome.stderr.contains("24 runs of 8 settings, "), "{}", outcome.stderr);
    assert_eq!(before.iter().map(times).collect::<Vec<_>>(), written, "what has ended is not done again");
    let begun = begun(&dir, "killed");
    assert_eq!((begun.len(), begun.iter().all(|once| *once == (1, 1))), (24, true), "{begun:?}");
    // It comes to what an undisturbed one comes to, to the last digit but for times.
    dir.bonfire("sweep rates.yml --jobs 2 --out whole").succeed();
    let figures = |table: &Value| -> Vec<[Value; 3]> {
        let runs = table["runs"].as_array().expect("runs").iter();
        let of = |run: &Value| {
            ["accuracy", "validation_loss", "train_loss"].map(|key| run["figures"][key].clone())
        };
        runs.map(of).collect()
    };
    let (killed, whole) = (table(&dir, "killed"), table(&dir, "whole"));
    assert_eq!(figures(&killed), figures(&whole));
    check_table(&dir, &outcome.stdout, &killed);
}

/// Means and deviations are those of the runs, and the best is the best by validation.
fn check_table(dir: &Dir, printed: &str, table: &Value) {
    let rows = table["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), printed.lines().count()), (8, 9), "{printed}");
    let loss = |row: &Value| row["figures"]["validation_loss"]["mean"].as_f64().expect("a loss");
    assert!(rows.is_sorted_by(|a, b| loss(a) <= loss(b)), "the best first");
    let best = &rows[0];
    let runs = table["runs"].as_array().expect("runs").iter().filter(|run| run["row"] == best["row"]);
    let found: Vec<f64> =
        runs.map(|run| run["figures"]["validation_loss"].as_f64().expect("a loss")).collect();
    assert_eq!(found.len(), 3);
    let mean = found.iter().sum::<f64>() / 3.0;
    let deviation = (found.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    assert!((mean - loss(best)).abs() < 1e-12, "{found:?}");
    let told = best["figures"]["validation_loss"]["deviation"].as_f64().expect("a deviation");
    assert!((deviation - told).abs() < 1e-12, "{found:?}");
    let csv = fs::read_to_string(dir.path("killed/table.csv")).expect("a table");
    assert!(csv.starts_with("optimizer.sgd.lr,done,stopped,failed,validation_loss,"), "{csv}");
    // The best is a run file.
    let rate = best["keys"]["optimizer.sgd.lr"].as_f64().expect("a rate");
    let file = fs::read_to_string(dir.path("killed/best.yml")).expect("a run file");
    assert!(file.contains(&format!("lr: {rate}")), "{rate} in {file}");
    dir.bonfire("train killed/best.yml --quiet --out again --set num_server_rounds=2 --set epochs=")
        .succeed();
}

#[test]
fn interrupted_it_says_how_to_go_on() {
    let dir = Dir::new();
    dir.write("rates.yml", RATES);
    let mut running = dir.bonfire("sweep rates.yml --out swept").start();
    let runs = dir.path("swept/runs");
    running.until("a run", || names(&runs).iter().any(|name| runs.join(name).join("summary.json").exists()));
    running.signal("INT");
    let said = running.wait().expect(130).stderr;
    assert!(said.contains("to go on: bonfire sweep --resume"), "{said}");
    dir.bonfire("sweep rates.yml --out swept")
        .run()
        .refuse("to go on with the sweep in it: bonfire sweep --resume");
    dir.bonfire("sweep --quiet --resume swept").succeed();
    assert!(begun(&dir, "swept").iter().all(|(once, _)| *once == 1));
    assert_eq!(table(&dir, "swept")["runs"].as_array().expect("runs").len(), 24);
}

#[test]
fn numbers_of_workers_are_compared() {
    let dir = Dir::new();
    dir.write(
        "run.yml",
        "{data: {name: digits, train: 1000, test: 50}, epochs: 1, arch: allreduce, report: false}",
    );
    dir.write("scaling.yml", "{run: run.yml, grid: {workers: [1, 2, 4]}, best_by: samples_per_s}");
    let outcome = dir.bonfire("sweep scaling.yml --jobs 1 --out swept").succeed();
    assert!(outcome.stdout.lines().next().expect("a head").ends_with("speed-up"), "{}", outcome.stdout);
    for row in table(&dir, "swept")["rows"].as_array().expect("rows") {
        assert!(row["speed_up"].is_number(), "{row}");
    }
    let workers: BTreeSet<u64> = names(&dir.path("swept/runs"))
        .iter()
        .map(|name| {
            Record::of(dir.path("swept/runs").join(name)).summary()["workers"].as_u64().expect("workers")
        })
        .collect();
    assert_eq!(workers, BTreeSet::from([1, 2, 4]));
}

#[test]
fn hopeless_runs_are_stopped_if_told() {
    let dir = Dir::new();
    let text = "
run: {data: {name: digits, train: 2000, test: 200}, validation: 0.1, eval_every: 5 rounds, workers: 1, report: false,
      epochs: 8}
grid: {optimizer.sgd.lr: [0.1, 0.05, 0.2, 0.0000001]}
median_stop: {after: 3, runs: 2}
";
    dir.write("sweep.yml", text);
    let outcome = dir.bonfire("sweep sweep.yml --jobs 1 --out swept").succeed();
    assert!(outcome.stderr.contains("stopped: worse than the median"), "{}", outcome.stderr);
    let rows = table(&dir, "swept")["rows"].clone();
    let last = rows.as_array().expect("rows").last().expect("a row").clone();
    assert_eq!((&last["stopped"], &last["keys"]["optimizer.sgd.lr"]), (&1.into(), &1e-7.into()));
    // It is not taken up again.
    dir.bonfire("sweep --resume swept --quiet").succeed();
    assert_eq!(table(&dir, "swept")["rows"], rows);
}

#[test]
fn a_run_that_fails_costs_itself() {
    let dir = Dir::new();
    let text = "
run: {data: {name: digits, train: 500, test: 50}, workers: 1, epochs: 3, report: false}
grid: {optimizer.sgd.lr: [0.1, 1e30]}
";
    dir.write("sweep.yml", text);
    let outcome = dir.bonfire("sweep sweep.yml --out swept").run().expect(1);
    assert!(outcome.stderr.contains("1 run failed; what they said is in"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("the loss is no longer a number"), "{}", outcome.stderr);
    assert!(fs::read_to_string(dir.path("swept/best.yml")).expect("a best").contains("lr: 0.1"));
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_started() {
    let check = |text: &str, expect: &str| {
        let dir = Dir::new();
        dir.write("sweep.yml", text);
        dir.bonfire("sweep sweep.yml").run().refuse(expect);
        assert_eq!(dir.entries(), ["sweep.yml"], "nothing is left behind");
    };
    check(
        "grid: {optimizer.sgd.rate: [0.1]}",
        "sweep.yml: --set optimizer.sgd.rate=0.1: optimizer.sgd: unknown key `rate`",
    );
    check("grid: {epoch: [1, 2]}", "unknown key `epoch`; did you mean `epochs`?");
    check("{run: gone.yml}", "cannot read gone.yml");
    check("{run: {validation: 1.5}}", "validation: must be above 0 and below 1");
    check("seeds: none", "seeds: expected a number of seeds");
    let dir = Dir::new();
    dir.bonfire("sweep gone.yml").run().refuse("cannot read the sweep file gone.yml");
    dir.bonfire("sweep --resume .").run().refuse("is not the folder of a sweep");
    dir.write("sweep.yml", "seeds: 2");
    dir.write("hosts.json", "[]");
    dir.bonfire("sweep sweep.yml -i hosts.json").run().refuse("lists no machines");
    assert_eq!(dir.entries(), ["hosts.json", "sweep.yml"]);
}

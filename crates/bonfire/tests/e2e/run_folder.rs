//! What a run leaves behind.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::fire::Fire;
use crate::program::{Dir, names};
use crate::record::Record;
use crate::{SMALL, TINY};

#[test]
fn a_run_folder_is_complete() {
    let dir = Dir::new();
    dir.bonfire("train --out here/first").set(SMALL).succeed();
    assert_eq!(dir.entries(), ["here"], "--out names the run folder itself");
    let run = Record::of(dir.path("here/first"));
    let files = ["checkpoints", "events.jsonl", "report.html", "run.yml", "state.json", "summary.json"];
    assert_eq!(names(&run.0), [&files[..], &["tensorboard"]].concat());
    assert_eq!(run.checkpoints().len(), 3, "the newest three of five");
    assert_eq!(names(&run.0.join("checkpoints")).len(), 6, "and nothing beside them and their states");
    check_events(&run.events());
    check_state(&run.json("state.json"));
    check_summary(&run.summary());
    let yaml = fs::read_to_string(run.0.join("run.yml")).expect("run.yml");
    for line in ["batch_size: 32", "epochs: 5", "seed: 1234", "checkpoint_every: 1 epoch"] {
        assert!(yaml.lines().any(|found| found == line), "{line:?} in\n{yaml}");
    }
}

fn check_events(events: &[Value]) {
    assert_eq!(events[0]["event"], "started");
    assert_eq!(events[0]["workers"], 2);
    assert_eq!(events[0]["rounds"], 160);
    let count = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    for kind in ["epoch_ended", "evaluated", "checkpointed"] {
        assert_eq!(count(kind), 5, "{kind}");
    }
    let times: Vec<f64> = events.iter().map(|event| event["at_s"].as_f64().expect("a time")).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(events.last().expect("an event")["event"], "ended");
}

fn check_state(state: &Value) {
    assert_eq!(state["format"], bonfire_report::FORMAT);
    assert_eq!(state["version"], env!("CARGO_PKG_VERSION"));
    assert!(state.get("git").is_some(), "null outside of a repository, but there");
    assert_eq!(state["host"]["os"], std::env::consts::OS);
    for half in ["train", "test"] {
        let checksum = state["data"][format!("{half}_sha256")].as_str().expect("a checksum");
        assert!(checksum.len() == 64 && checksum.bytes().all(|byte| byte.is_ascii_hexdigit()), "{checksum}");
    }
    assert_eq!(state["data"]["train_samples"], 2048);
    assert_eq!(state["data"]["test_samples"], 300);
}

fn check_summary(summary: &Value) {
    let check = |key: &str, expect: Value| assert_eq!(summary.get(key), Some(&expect), "{key} in {summary}");
    check("exit", "done".into());
    check("rounds", 160.into());
    check("epochs", 5.0.into());
    check("samples", (5 * 2048).into());
    check("target_reached_round", Value::Null);
    let positive =
        ["seconds", "samples_per_s", "train_loss", "eval_loss", "accuracy", "best_accuracy", "peak_rss_mb"];
    for key in positive {
        assert!(summary[key].as_f64().is_some_and(|number| number > 0.0), "{key} in {summary}");
    }
}

#[test]
fn the_energy_of_a_run_is_told_with_its_source() {
    let dir = Dir::new();
    // As much when it is idle as when it is not, so the figure is known.
    let told =
        dir.bonfire("train --out here").set(TINY).arg("--set").arg("watts={idle: 36, full: 36}").succeed();
    let run = Record::of(dir.path("here"));
    assert_eq!(run.summary()["energy"], "given");
    let (wh, seconds, samples) = (run.number("wh"), run.number("seconds"), run.number("samples"));
    assert!(wh > 0.0 && wh <= 0.0101 * seconds, "{wh} Wh in {seconds} s at 36 W");
    assert!((run.number("wh_per_1000_samples") / (wh * 1000.0 / samples) - 1.0).abs() < 1e-9);
    let line =
        told.stderr.lines().find(|line| line.trim_start().starts_with("energy")).expect("a line of it");
    assert!(line.contains("Wh per 1,000 samples, given"), "{line}");
    dir.write("run.yml", "seed: 1\nwatts: {idle: -1, full: 3}\n");
    dir.bonfire("train run.yml").run().refuse("run.yml:2: watts.idle: must be from 0 to 100000");
}

#[test]
fn the_energy_of_a_machine_with_several_nodes_is_counted_once() {
    let dir = Dir::new();
    let settings = "data={name: digits, train: 6000, test: 500}\n epochs=1000000\n arch=flat\n \
                    parameter_server={num_workers: 2}\n watts={idle: 36, full: 36}";
    let mut fire = Fire::light(&dir, "run", "--quiet", settings).join(&dir, 2);
    let run = Record::of(dir.path("run"));
    fire.head.until("some samples", || run.told_so_far("sampled").len() >= 4);
    fire.head.signal("INT");
    fire.head.wait().expect(130);
    let (summary, seconds) = (run.summary(), run.number("seconds"));
    assert_eq!(summary["energy"], "given");
    let wh = run.number("wh");
    assert!(wh > 0.0 && wh <= 0.0101 * seconds, "{wh} Wh in {seconds} s at 36 W");
    assert!(run.number("waiting_wh") < wh);
    let hosts = summary["hosts_wh"].as_object().expect("hosts");
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["run"], "all are on one machine: {summary}");
    let refused = dir.bonfire("node bonfire://127.0.0.1:1/x --watts 5").run().expect(2);
    assert!(refused.stderr.contains("expected watts when idle and when busy"), "{}", refused.stderr);
}

#[test]
fn without_a_name_a_run_goes_below_runs() {
    let dir = Dir::new();
    dir.bonfire("train").set(TINY).succeed();
    let run = Record::only_in(&dir.path("runs"));
    let name = run.0.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(name.ends_with("-lenet5-digits"), "{name}");
    assert_eq!(run.summary()["name"], "lenet5-digits");
    assert_eq!(run.told("evaluated").len(), 1, "a run always ends with an evaluation");
    assert_eq!(run.checkpoints().len(), 1, "and with a checkpoint");
}

#[test]
fn a_repository_is_written_down() {
    let dir = Dir::new();
    let git = |arguments: &str| {
        let mut git = Command::new("git");
        git.current_dir(dir.path("")).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        git.args(arguments.split(' ')).output().is_ok_and(|output| output.status.success())
    };
    dir.write("file", "one\n");
    if !(git("init -q") && git("add file") && git("commit -q -m one")) {
        eprintln!("SKIPPED: there is no git here");
        return;
    }
    dir.write("file", "two\n");
    dir.bonfire("train --out run").set(TINY).succeed();
    let git = Record::of(dir.path("run")).json("state.json")["git"].to_string();
    assert!(git.contains("+two"), "commit, status and difference: {git}");
}

/// The files of the device-pool project say which server has how many workers.
#[test]
fn run_files_of_device_pools_are_understood() {
    let flat = "num_server_rounds: 5\ntarget_accuracy: 0.9\nbatch_size: 32\narch: flat\n\
                parameter_server: {aggr_type: sync, num_workers: 4}\n";
    let hierarchy = "num_server_rounds: 5\ntarget_accuracy: 0.9\nbatch_size: 32\narch: hierarchical\n\
                     global_server:\n  aggr_type: sync\n  local_servers:\n\
                     \x20 - {type: async, num_workers: 2}\n  - {type: async, num_workers: 2}\n";
    for (name, file) in [("flat", flat), ("hierarchy", hierarchy)] {
        let dir = Dir::new();
        // Both ways to write it: one mapping, or a document with its marks.
        dir.write("config.yml", format!("---\n{file}...\n"));
        dir.bonfire("train config.yml --out run")
            .set("data={name: digits, train: 1000, test: 100}")
            .succeed();
        let summary = Record::of(dir.path("run")).summary();
        assert_eq!(summary["workers"], 4, "{name}");
        assert_eq!(summary["rounds"], 5, "{name}");
        assert_eq!(summary["samples"], 5 * 4 * 32, "{name}");
    }
}

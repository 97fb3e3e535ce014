//! Runs on hosts that are gone on with, after whatever has happened to those who led them.
//!
//! Their results are compared with those of runs that nothing has happened to: equal bytes mean that every sample was
//! seen once an epoch, in its order.

use std::fs;
use std::time::Duration;

use crate::bed::{Bed, is_wanted};
use crate::program::{Running, names};
use crate::record::Record;

const SETTINGS: &str = "
    data={name: digits, train: 4000, test: 200}
    epochs=40
    shares=equal
";

/// A run of three workers that goes on for some seconds.
fn three_workers(bed: &Bed, arguments: &str, more: &str) -> Running {
    let settings = format!("{SETTINGS}\n arch=flat\n parameter_server={{num_workers: 3}}\n {more}");
    bed.bonfire(&format!("run {arguments}")).set(&settings).start()
}

/// The hosts with these numbers, in an inventory of this name.
fn inventory(bed: &Bed, name: &str, numbers: &[usize]) {
    bed.lab.dir.write(name, format!("[pool]\n{}", bed.lines(numbers)));
}

/// The run is done, and ended as one of three workers that was never disturbed.
#[track_caller]
fn is_as_undisturbed(bed: &Bed, folder: &str) -> Record {
    let record = Record::of(bed.lab.dir.path(folder));
    assert!((record.number("epochs") - 40.0).abs() < 1e-9);
    let whole = Record::of(bed.lab.dir.path(&format!("{folder}-whole")));
    bed.here(&format!("train --quiet --workers 3 --out {folder}-whole")).set(SETTINGS).succeed();
    if record.parameters() != whole.parameters() {
        let told = record.events().into_iter().filter(|event| event["event"] != "progress");
        let told: Vec<String> = told.map(|event| event.to_string()).collect();
        panic!("not the same bytes as without a disturbance:\n{}", told.join("\n"));
    }
    record
}

/// Waits until a checkpoint is here, while the run goes on elsewhere.
#[track_caller]
fn until_kept(bed: &Bed, run: &mut Running, folder: &str) {
    let record = Record::of(bed.lab.dir.path(folder));
    assert!(run.until("a checkpoint is kept here", || record.newest_round() > 0), "{}", run.said());
}

#[test]
fn a_run_whose_head_is_gone_for_good_goes_on_elsewhere() {
    if !is_wanted("a_run_whose_head_is_gone_for_good_goes_on_elsewhere") {
        return;
    }
    let bed = Bed::of('g', 4);
    let mut run = three_workers(&bed, "--out out", "");
    until_kept(&bed, &mut run, "out");
    bed.lab.power_cut(1);
    let said = run.wait().expect(1).stderr;
    assert!(said.contains("pi1, the head's host, is out of reach"), "{said}");
    assert!(said.contains("`bonfire run --resume "), "{said}");
    inventory(&bed, "rest.ini", &[2, 3, 4]);
    let resumed = bed.here("run --resume out -i rest.ini --timeout 2").succeed().stderr;
    assert!(resumed.contains("goes on from the checkpoint of round"), "{resumed}");
    assert!(
        resumed.contains("head and worker 0 on pi2"),
        "three hosts are enough for three workers: {resumed}"
    );
    let record = is_as_undisturbed(&bed, "out");
    assert_eq!(record.told("resumed").len(), 1);
    assert_eq!(record.json("hosts.json")["seats"][0]["name"], "pi2");
    assert!(names(&record.0).iter().all(|name| !name.starts_with('.')), "{:?}", names(&record.0));
    bed.is_clean_but_for(&[1]);

    // Two hosts are enough, too; but not without a checkpoint.
    inventory(&bed, "two.ini", &[3, 4]);
    let settings = format!("{SETTINGS}\n arch=allreduce\n allreduce={{num_workers: 3}}");
    let mut run = bed.here("run -i rest.ini --out group").set(&settings).start();
    until_kept(&bed, &mut run, "group");
    run.signal("INT");
    run.wait().expect(130);
    let resumed = bed.here("run --resume group -i two.ini").succeed().stderr;
    assert!(resumed.contains("pi4 takes 2 processes"), "{resumed}");
    is_as_undisturbed(&bed, "group");
    let unsaved =
        format!("{SETTINGS}\n arch=flat\n parameter_server={{num_workers: 2}}\n checkpoint_every=never");
    let mut run = bed.here("run -i rest.ini --out unsaved").set(&unsaved).start();
    run.until_said("epoch  2/");
    bed.lab.power_cut(2);
    run.wait().expect(1);
    let refused = bed.here("run --resume unsaved -i two.ini --timeout 2").run().expect(1).stderr;
    assert!(refused.contains("no checkpoint can be reached") && refused.contains("pi2"), "{refused}");
    bed.take_down();
}

#[test]
fn a_run_whose_launcher_was_killed_goes_on() {
    if !is_wanted("a_run_whose_launcher_was_killed_goes_on") {
        return;
    }
    let bed = Bed::of('j', 4);
    let mut run = three_workers(&bed, "--out out", "");
    until_kept(&bed, &mut run, "out");
    let going = bed.here("run --resume out").run().expect(2).stderr;
    assert!(going.contains("still has processes on pi1"), "{going}");
    run.signal("KILL");
    assert_eq!(run.wait().code, None);
    // At once, before the hosts have noticed; and all that they have is used.
    let resumed = bed.here("run --resume out").succeed().stderr;
    assert!(resumed.contains("head on pi1"), "{resumed}");
    let record = is_as_undisturbed(&bed, "out");
    let resumed = record.told("resumed");
    assert_eq!(resumed.len(), 1);
    let from = resumed[0]["round"].as_u64().expect("a round");
    let saved = record.told("checkpointed");
    assert!(saved.iter().any(|event| event["round"].as_u64() == Some(from)), "the newest of the head's host");
    assert_eq!(record.told("node_lost").len(), 0, "the head ends the run, with all its workers");
    // Its logins end by themselves, and the next command sweeps what is left of them.
    bed.is_quiet_on(&[1, 2, 3, 4], Duration::from_secs(50));

    // One that nobody goes on with is told of, and stays until it is fetched.
    let mut run = three_workers(&bed, "--out other", "epochs=100000");
    until_kept(&bed, &mut run, "other");
    run.signal("KILL");
    run.wait();
    bed.is_quiet_on(&[1, 2, 3, 4], Duration::from_secs(50));
    let told = bed.bonfire("check").succeed().stderr;
    assert!(told.contains("pi1: run ") && told.contains("was never fetched"), "{told}");
    bed.here("attach --quiet").run().expect(130);
    bed.end();
}

#[test]
fn a_host_that_was_lost_is_swept_when_it_is_back() {
    if !is_wanted("a_host_that_was_lost_is_swept_when_it_is_back") {
        return;
    }
    let bed = Bed::of('v', 4);
    let mut run = three_workers(&bed, "--out out", "");
    run.until_said("epoch  2/");
    bed.lab.unplug(3);
    run.wait().expect(0);
    bed.lab.plug_in(3);
    // What is not ours stays.
    let runs = bed.lab.home(3).join(".bonfire/runs");
    fs::create_dir(runs.join("of-somebody-else")).expect("a folder");
    bed.is_quiet();
    let told = bed.bonfire("setup").succeed().stderr;
    assert!(told.contains("pi3: took away what was left of "), "{told}");
    assert_eq!(names(&runs), ["of-somebody-else"]);
    fs::remove_dir(runs.join("of-somebody-else")).expect("removed");
    // What is kept is kept.
    let tiny = "data={name: digits, train: 200, test: 50}\n epochs=1";
    bed.bonfire("run --keep --out kept").set(tiny).succeed();
    let told = bed.bonfire("check").succeed().stderr;
    assert!(!told.contains("took away"), "{told}");
    assert_eq!(names(&runs).len(), 1);
    bed.take_down();
}

#[test]
fn where_a_run_was_launched_is_in_its_folder() {
    if !is_wanted("where_a_run_was_launched_is_in_its_folder") {
        return;
    }
    let bed = Bed::of('y', 1);
    let git = |arguments: &str| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(arguments.split(' '));
        assert!(git.current_dir(bed.lab.dir.path("")).output().expect("git").status.success(), "{arguments}");
    };
    git("init");
    bed.lab.dir.write("train.yml", "{data: {name: digits, train: 200, test: 50}, epochs: 1}\n");
    git("add train.yml");
    git("commit -m first");
    bed.bonfire("run train.yml --out out").succeed();
    let hosts = Record::of(bed.lab.dir.path("out")).json("hosts.json");
    let from = &hosts["launched_from"];
    assert_eq!(from["git"]["commit"].as_str().map(str::len), Some(40), "{from}");
    assert!(from["command"].to_string().contains("train.yml"), "{from}");
    bed.end();
}

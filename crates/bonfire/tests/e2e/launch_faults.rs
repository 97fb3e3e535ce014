//! Launching on hosts that are, or become, unfit; and a launcher that is lost. Each ends in words and a clean cluster.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use crate::bed::{Bed, is_wanted, wait_until};
use crate::launch::{complete, endless};
use crate::program::{Running, names};
use crate::record::Record;

#[test]
fn hosts_that_cannot_be_used_are_named_before_anything_starts() {
    if !is_wanted("hosts_that_cannot_be_used_are_named_before_anything_starts") {
        return;
    }
    let bed = Bed::of('n', 6);
    let key_of = |number: usize| bed.lab.place(number, "etc/host_key.pub");
    fs::copy(key_of(1), bed.lab.place(4, "etc/authorized_keys")).expect("a key that is not ours");
    bed.lab.shrink_home(5, "1m");
    bed.lab.unplug(6);
    let address = bed.address(3);
    let other = fs::read_to_string(key_of(1)).expect("a key");
    bed.lab.dir.write("changed_hosts", format!("{address} {other}"));
    let known = bed.lab.folder().join("known_hosts").display().to_string();
    let changed = bed.lab.dir.path("changed_hosts").display().to_string();
    let changed = bed.line(3).replacen("pi3", "changed", 1).replace(&known, &changed);
    let good = bed.lines(&[1, 2, 3]);
    let bad = [
        ("pi4", bed.line(4), "it takes no key of ours for root"),
        ("pi5", bed.line(5), "its disk is full: 1 MB are free"),
        ("pi6", bed.line(6), "it did not answer in time"),
        ("closed", format!("closed ansible_host={address} ansible_port=1\n"), "the connection was refused"),
        ("nowhere.invalid", "nowhere.invalid\n".to_owned(), "the name nowhere.invalid is not known"),
        ("changed", changed, "its host key has changed"),
    ];
    let lines: String = bad.iter().map(|(_, line, _)| line.as_str()).collect();
    bed.lab.dir.write("all.ini", format!("[pool]\n{good}{lines}"));
    let settings = "data={name: digits, train: 500, test: 50}\n epochs=1\n arch=flat\n \
                    parameter_server={num_workers: 2}";
    for command in ["check", "setup", "run"] {
        let mut asked = bed.here(&format!("{command} -i all.ini --timeout 2"));
        if command == "run" {
            asked = asked.set(settings);
        }
        // A run with a name, a user or a key that is wrong is wrong input; to find that out is what the others are for.
        let said = asked.run().expect(if command == "run" { 2 } else { 1 }).stderr;
        assert!(said.contains("6 of 9 hosts cannot be used"), "{said}");
        for (name, _, trouble) in &bad {
            assert!(said.contains(&format!("{name}: {trouble}")), "{command}: {name}: {trouble} in\n{said}");
        }
    }
    assert!(names(&bed.lab.dir.path("runs")).is_empty(), "nothing was started");
    bed.is_clean();
    // Spares are used in their order.
    let good = bed.lines(&[1, 4, 2, 3]);
    bed.lab.dir.write("spare.ini", format!("[pool]\n{good}"));
    let ran = bed.here("run -i spare.ini --skip-unreachable --out out").set(settings).succeed();
    assert!(ran.stderr.contains("goes on without pi4"), "{}", ran.stderr);
    complete(&Record::of(bed.lab.dir.path("out")), &["pi1", "pi2", "pi3"]);
    let too_few =
        bed.here("run -i spare.ini --skip-unreachable").set(settings).set("parameter_server.num_workers=3");
    let too_few = too_few.run().expect(1);
    assert!(too_few.stderr.contains("1 worker is missing"), "{}", too_few.stderr);
    bed.end();
}

#[test]
fn a_disk_that_fills_up_during_the_copy_is_named() {
    if !is_wanted("a_disk_that_fills_up_during_the_copy_is_named") {
        return;
    }
    // So slow that the copy is under way for seconds.
    let bed = Bed::shaped('q', 2, "--rate 30mbit");
    bed.lab.shrink_home(2, "100m");
    let (home, settings) = (bed.lab.home(2), "data={name: digits, train: 500, test: 50}\n epochs=1");
    let part = || names(&home.join(".bonfire/bin")).iter().any(|name| name.contains(".part"));
    let mut run = bed.bonfire("run").set(settings).start();
    assert!(run.until("the copy", part), "{}", run.said());
    let mut filler = File::create(home.join("filler")).expect("a file");
    while filler.write_all(&[0; 1 << 16]).is_ok() {}
    let said = run.wait().expect(1).stderr;
    assert!(said.contains("nothing was started"), "{said}");
    assert!(said.contains("pi2: the program cannot be put there: its disk is full: "), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert_eq!(names(&bed.lab.dir.path("runs")), [""; 0]);
    fs::remove_file(home.join("filler")).expect("removed");
    bed.end();
}

/// A run of three workers that goes on for some seconds.
fn some_seconds(bed: &Bed) -> Running {
    let settings = "data={name: digits, train: 4000, test: 200}\n epochs=40\n arch=flat\n \
                    parameter_server={num_workers: 3}";
    bed.bonfire("run --out out").set(settings).start()
}

/// The run came to its end without `pi3`.
#[track_caller]
fn did_without_pi3(bed: &Bed) {
    let record = Record::of(bed.lab.dir.path("out"));
    let lost = record.told("node_lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["name"], "pi3");
    assert!((record.number("epochs") - 40.0).abs() < 1e-9);
}

#[test]
fn a_host_that_dies_is_done_without() {
    if !is_wanted("a_host_that_dies_is_done_without") {
        return;
    }
    let bed = Bed::of('m', 4);
    let mut run = some_seconds(&bed);
    run.until_said("epoch  2/");
    bed.lab.power_cut(3);
    let said = run.wait().expect(0).stderr;
    assert!(said.contains("pi3 is out of reach"), "{said}");
    assert!(said.contains("pi3: ~/.bonfire/runs/") && said.contains("may be left there"), "{said}");
    did_without_pi3(&bed);
    bed.is_clean_but_for(&[3]);
    bed.take_down();
}

#[test]
fn a_host_whose_network_is_gone_ends_its_node_by_itself() {
    if !is_wanted("a_host_whose_network_is_gone_ends_its_node_by_itself") {
        return;
    }
    let bed = Bed::of('p', 4);
    let mut run = some_seconds(&bed);
    run.until_said("epoch  2/");
    bed.lab.unplug(3);
    let nodes = || bed.processes_on(3).into_iter().filter(|line| line.contains("bonfire")).count();
    assert_eq!(nodes(), 2, "a node and its guard: {:#?}", bed.processes_on(3));
    let said = run.wait().expect(0).stderr;
    assert!(said.contains("pi3 (worker 1) was lost") && said.contains("silent for"), "{said}");
    did_without_pi3(&bed);
    wait_until("the guard", || nodes() == 0);
    let runs = bed.lab.home(3).join(".bonfire/runs");
    let process = fs::read_to_string(runs.join(&names(&runs)[0]).join("2/seat.json")).expect("a record");
    assert!(process.contains("the launcher gave no sign of life"), "{process}");
    bed.is_clean_but_for(&[3]);
    // Its sshd hears that the other end of the old login is gone, and the host is as good as before.
    bed.lab.plug_in(3);
    bed.is_quiet();
    bed.bonfire("check").succeed();
    bed.take_down();
}

#[test]
fn a_killed_launcher_leaves_no_process_and_its_run_can_be_fetched() {
    if !is_wanted("a_killed_launcher_leaves_no_process_and_its_run_can_be_fetched") {
        return;
    }
    let bed = Bed::of('f', 3);
    let mut run = endless(&bed, "", 2);
    run.until_said("epoch       2/");
    run.signal("KILL");
    assert_eq!(run.wait().code, None);
    bed.is_quiet_on(&[1, 2, 3], Duration::from_secs(30));
    bed.here("attach --quiet").run().expect(130);
    let record = Record::only_in(&bed.lab.dir.path("runs"));
    assert!(!record.checkpoints().is_empty());
    assert_eq!(record.summary()["exit"], "interrupted");
    bed.end();
}

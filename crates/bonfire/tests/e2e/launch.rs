//! From a list of hosts to a run on them, over real ssh; and what happens when a host, or this terminal, is lost.

use std::fs;

use crate::bed::{Bed, SmallDisk, is_wanted, power_cut, wait_until};
use crate::program::{Dir, Running, names};
use crate::record::Record;

/// The files of the device-pool project, as it prints them.
const COMMON: &str = "---\nnum_server_rounds: 5\ntarget_accuracy: 0.9\nbatch_size: 32\n\n";
const FLAT: &str = "arch: flat\nparameter_server:\n    aggr_type: sync\n    num_workers: 4\n";
const HIERARCHICAL: &str = "arch: hierarchical\nglobal_server:\n  aggr_type: sync\n  local_servers:\n    - type: async\n      \
                            num_workers: 2\n    - type: async\n      num_workers: 2\n";

/// A run that goes on until it is stopped.
const ENDLESS: &str = "
    data={name: digits, train: 2000, test: 200}
    epochs=100000
    arch=flat
";

fn endless(bed: &Bed, arguments: &str, workers: usize) -> Running {
    let settings = format!("{ENDLESS}\n parameter_server={{num_workers: {workers}}}");
    bed.bonfire(&format!("run {arguments}")).set(&settings).start()
}

/// Every file that a run leaves, the logs of all hosts among them.
#[track_caller]
fn complete(record: &Record, seats: &[&str]) {
    let expect =
        ["checkpoints", "events.jsonl", "hosts.json", "logs", "run.yml", "state.json", "summary.json"];
    assert_eq!(names(&record.0), expect);
    let logs: Vec<String> = seats.iter().enumerate().map(|(i, host)| format!("{i}-{host}.log")).collect();
    assert_eq!(names(&record.0.join("logs")), logs);
    let hosts = record.json("hosts.json");
    for (i, host) in seats.iter().enumerate() {
        let seat = &hosts["seats"][i];
        assert_eq!(seat["name"], *host, "{seat}");
        let command = seat["command"].as_array().expect("a command");
        assert_eq!(command[1], if i == 0 { "head" } else { "node" }, "{seat}");
        let facts = &hosts["hosts"][seat["host"].as_u64().expect("a number") as usize]["facts"];
        assert!(facts["cores"].as_u64() >= Some(1), "{facts}");
    }
    assert!(!hosts.to_string().contains("bonfire://"), "no ticket is written down");
    for log in logs {
        let text = fs::read_to_string(record.0.join("logs").join(log)).expect("a log");
        assert!(!text.contains("bonfire://"), "{text}");
    }
}

#[test]
fn hosts_are_checked_and_set_up() {
    if !is_wanted("hosts_are_checked_and_set_up") {
        return;
    }
    let bed = Bed::of(3);
    let before = bed.bonfire("check --json").succeed().json_lines();
    assert!(
        before.iter().all(|host| host["is_usable"] == true && host["has_program"] == false),
        "{before:?}"
    );
    bed.is_clean();
    let setup = bed.bonfire("setup").succeed();
    assert_eq!(setup.stderr.matches("copied").count(), 3, "{}", setup.stderr);
    let again = bed.bonfire("setup").succeed();
    assert_eq!(again.stderr.matches("copied").count(), 0, "{}", again.stderr);
    let after = bed.bonfire("check --json").succeed().json_lines();
    for (i, host) in after.iter().enumerate() {
        assert_eq!(host["host"], format!("pi{}", i + 1));
        assert!(host["samples_per_s"].as_f64() > Some(1.0), "{host}");
        assert!(host["facts"]["clock_offset_s"].as_f64().is_some_and(|s| s.abs() < 5.0), "{host}");
        assert_eq!(host["network"].is_null(), i == 0, "{host}");
    }
    let table = bed.bonfire("check").succeed().stdout;
    assert_eq!(table.lines().count(), 4, "{table}");
    bed.is_clean();
}

#[test]
fn the_files_of_the_device_pool_project_run_on_hosts_in_their_order() {
    if !is_wanted("the_files_of_the_device_pool_project_run_on_hosts_in_their_order") {
        return;
    }
    let bed = Bed::of(7);
    let flat = ["worker 0", "worker 1", "worker 2", "worker 3"];
    let tree = ["relay 0", "worker 0", "worker 1", "relay 1", "worker 2", "worker 3"];
    for (text, roles) in [(FLAT, &flat[..]), (HIERARCHICAL, &tree[..])] {
        bed.dir.write("config.yml", format!("{COMMON}{text}"));
        bed.bonfire("run config.yml").succeed();
        let record = Record::only_in(&bed.dir.path("runs"));
        assert_eq!(record.number("rounds"), 5.0);
        let joined: Vec<(String, String)> = record
            .told("node_joined")
            .iter()
            .map(|event| {
                (event["name"].as_str().expect("one").into(), event["role"].as_str().expect("one").into())
            })
            .collect();
        let expect: Vec<(String, String)> =
            roles.iter().enumerate().map(|(i, role)| (format!("pi{}", i + 2), (*role).to_owned())).collect();
        assert_eq!(joined, expect);
        let seats: Vec<String> = (0..=roles.len()).map(|i| format!("pi{}", i + 1)).collect();
        complete(&record, &seats.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
        bed.is_clean();
        // It can be read when its processes are gone.
        let logs = bed.dir.bonfire("logs pi1").succeed();
        assert!(logs.stdout.contains("done in"), "{}", logs.stdout);
        fs::remove_dir_all(bed.dir.path("runs")).expect("removed");
    }
}

#[test]
fn data_and_slots_and_speed_decide_where_things_go() {
    if !is_wanted("data_and_slots_and_speed_decide_where_things_go") {
        return;
    }
    let bed = Bed::of(2);
    bed.dir.bonfire("data make grammar --train 300 --test 50 -o").arg(bed.dir.path("my words")).succeed();
    bed.dir.write(
        "run.yml",
        "model: tagger\ndata: elsewhere/my words\nepochs: 1\narch: allreduce\nallreduce: {num_workers: 2}\n",
    );
    let [one, two] = [1, 2].map(|number| bed.line(number));
    bed.dir.write("two.ini", format!("[pool]\n{one}{} slots=2\n", two.trim_end()));
    let missing = bed.dir.bonfire("run -i two.ini run.yml").run().expect(2);
    assert!(missing.stderr.contains("--data PATH copies them there"), "{}", missing.stderr);
    bed.is_clean();
    bed.dir
        .bonfire("run -i two.ini run.yml --place fastest --out out --data")
        .arg(bed.dir.path("my words"))
        .succeed();
    let record = Record::of(bed.dir.path("out"));
    assert_eq!(record.told("node_joined").len(), 2);
    // As it is named here, so that the run can be resumed here.
    let resumed = bed.dir.bonfire("train --quiet --resume out --set epochs=2").run().expect(0);
    assert_eq!(resumed.stderr, "");
    bed.is_clean();
}

#[test]
fn a_detached_run_is_followed_stopped_and_fetched() {
    if !is_wanted("a_detached_run_is_followed_stopped_and_fetched") {
        return;
    }
    let bed = Bed::of(3);
    let started = endless(&bed, "--detach", 2).wait().expect(0);
    assert!(started.stderr.contains("bonfire attach"), "{}", started.stderr);
    let mut follower = bed.dir.bonfire("logs pi1 -f").start();
    let line = follower.first_line();
    assert!(line.contains("lenet5-digits"), "{line}");
    let lines = bed.processes();
    assert!(lines.iter().filter(|line| line.contains(" host guard")).count() == 3, "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("bonfire://")), "a secret for all to see: {lines:#?}");
    // A terminal that comes back, and is lost again, changes nothing.
    let mut attached = bed.dir.bonfire("attach").start();
    attached.until_said("epoch");
    attached.signal("INT");
    let left = attached.wait().expect(130);
    assert!(left.stderr.contains("goes on"), "{}", left.stderr);
    wait_until("the head's log", || bed.dir.bonfire("logs pi1").succeed().stdout.contains("epoch"));

    let stopped = bed.dir.bonfire("stop").succeed();
    assert!(stopped.stderr.contains("3 processes have ended"), "{}", stopped.stderr);
    follower.wait().expect(0);
    bed.is_quiet();
    let again = bed.dir.bonfire("stop").succeed();
    assert!(again.stderr.contains("nothing of run"), "{}", again.stderr);
    bed.dir.bonfire("attach --quiet").run().expect(130);
    let record = Record::only_in(&bed.dir.path("runs"));
    complete(&record, &["pi1", "pi2", "pi3"]);
    assert_eq!(record.summary()["exit"], "interrupted");
    bed.is_clean();
    bed.dir.bonfire("attach").run().refuse("is over; its folder is");
}

#[test]
fn ctrl_c_stops_with_a_checkpoint_and_twice_at_once() {
    if !is_wanted("ctrl_c_stops_with_a_checkpoint_and_twice_at_once") {
        return;
    }
    let bed = Bed::of(3);
    for times in 1..=2 {
        let out = format!("--out out{times}");
        let mut run = endless(&bed, &out, 2);
        run.until_said("epoch       2/");
        if times == 2 {
            // A head that does not hear the first.
            let (head, _) = bed.seat("pi1", 0).expect("a head");
            std::process::Command::new("sh")
                .args(["-c", &format!("kill -STOP {head}")])
                .status()
                .expect("sh");
            run.signal("INT");
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        run.signal("INT");
        let ended = run.wait();
        let record = Record::of(bed.dir.path(&format!("out{times}")));
        if times == 1 {
            ended.expect(130);
            assert!(!record.told("checkpointed").is_empty());
            assert_eq!(record.summary()["exit"], "interrupted");
            complete(&record, &["pi1", "pi2", "pi3"]);
        } else {
            assert!(ended.expect(130).stderr.contains("ended at once"));
            assert!(record.has_started(), "what there was is here");
        }
        bed.is_clean();
    }
}

#[test]
fn a_killed_launcher_leaves_no_process_and_its_run_can_be_fetched() {
    if !is_wanted("a_killed_launcher_leaves_no_process_and_its_run_can_be_fetched") {
        return;
    }
    let bed = Bed::of(3);
    let mut run = endless(&bed, "", 2);
    run.until_said("epoch       2/");
    run.signal("KILL");
    assert_eq!(run.wait().code, None);
    bed.is_quiet();
    bed.dir.bonfire("attach --quiet").run().expect(130);
    let record = Record::only_in(&bed.dir.path("runs"));
    assert!(!record.checkpoints().is_empty());
    assert_eq!(record.summary()["exit"], "interrupted");
    bed.is_clean();
}

#[test]
fn a_closed_terminal_stops_the_run_in_order() {
    if !is_wanted("a_closed_terminal_stops_the_run_in_order") {
        return;
    }
    let bed = Bed::of(2);
    let mut run = endless(&bed, "--out out", 1);
    run.until_said("epoch       2/");
    run.signal("HUP");
    run.wait().expect(130);
    complete(&Record::of(bed.dir.path("out")), &["pi1", "pi2"]);
    bed.is_clean();
}

#[test]
fn a_host_that_dies_is_done_without() {
    if !is_wanted("a_host_that_dies_is_done_without") {
        return;
    }
    let bed = Bed::of(4);
    let settings = "data={name: digits, train: 4000, test: 200}\n epochs=30\n arch=flat\n parameter_server={num_workers: 3}";
    let mut run = bed.bonfire("run --out out").set(settings).start();
    run.until_said("epoch  2/");
    let (node, guard) = bed.seat("pi3", 2).expect("a node");
    power_cut(&[guard, node]);
    let ended = run.wait().expect(0);
    assert!(ended.stderr.contains("pi3 is out of reach"), "{}", ended.stderr);
    let record = Record::of(bed.dir.path("out"));
    let lost = record.told("node_lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0]["name"], "pi3");
    assert!((record.number("epochs") - 30.0).abs() < 1e-9);
    bed.is_clean();
}

#[test]
fn hosts_that_cannot_be_used_are_named_before_anything_starts() {
    if !is_wanted("hosts_that_cannot_be_used_are_named_before_anything_starts") {
        return;
    }
    let mut bed = Bed::of(3);
    bed.add("other_key.pub");
    bed.add("key.pub");
    let full = SmallDisk::at(&bed.home("pi5"), "1m");
    let good: String = [1, 2, 3].map(|number| bed.line(number)).concat();
    let refused = bed.line(4);
    let changed = bed.line(3).replacen("pi3", "changed", 1).replace("known_hosts", "changed_hosts");
    let other = fs::read_to_string(bed.dir.path("other_key.pub")).expect("a key");
    let known = fs::read_to_string(bed.dir.path("known_hosts")).expect("a file");
    let wrong: String =
        known.lines().map(|line| format!("{} {other}", line.split(' ').next().expect("a name"))).collect();
    bed.dir.write("changed_hosts", wrong);
    let bad = [
        ("pi4", refused, "it takes no key of ours for root"),
        ("pi5", bed.line(5), "its disk is full: 1 MB are free"),
        ("closed", "closed ansible_host=127.0.0.1 ansible_port=1\n".to_owned(), "the connection was refused"),
        ("nowhere.invalid", "nowhere.invalid\n".to_owned(), "the name nowhere.invalid is not known"),
        ("changed", changed, "its host key has changed"),
    ];
    let lines: String = bad.iter().map(|(_, line, _)| line.as_str()).collect();
    bed.dir.write("all.ini", format!("[pool]\n{good}{lines}"));
    let settings = "data={name: digits, train: 500, test: 50}\n epochs=1\n arch=flat\n parameter_server={num_workers: 2}";
    for command in ["check", "setup", "run"] {
        let mut asked = bed.dir.bonfire(&format!("{command} -i all.ini"));
        if command == "run" {
            asked = asked.set(settings);
        }
        let said = asked.run().expect(1).stderr;
        assert!(said.contains("5 of 8 hosts cannot be used"), "{said}");
        for (name, _, trouble) in &bad {
            assert!(said.contains(&format!("{name}: {trouble}")), "{command}: {name}: {trouble} in\n{said}");
        }
    }
    assert!(names(&bed.dir.path("runs")).is_empty(), "nothing was started");
    bed.is_clean();
    // Spares are used in their order.
    let good = [bed.line(1), bed.line(4), bed.line(2), bed.line(3)].concat();
    bed.dir.write("spare.ini", format!("[pool]\n{good}"));
    let ran = bed.dir.bonfire("run -i spare.ini --skip-unreachable --out out").set(settings).succeed();
    assert!(ran.stderr.contains("goes on without pi4"), "{}", ran.stderr);
    complete(&Record::of(bed.dir.path("out")), &["pi1", "pi2", "pi3"]);
    let too_few = bed
        .dir
        .bonfire("run -i spare.ini --skip-unreachable")
        .set(settings)
        .set("parameter_server.num_workers=3");
    let too_few = too_few.run().expect(1);
    assert!(too_few.stderr.contains("1 worker is missing"), "{}", too_few.stderr);
    bed.is_clean();
    drop(full);
}

#[test]
fn wrong_input_starts_nothing() {
    let dir = Dir::new();
    let check = |inventory: &str, arguments: &str, fragment: &str| {
        dir.write("hosts.ini", inventory);
        dir.bonfire("run -i hosts.ini").arg("run.yml").args(arguments).run().refuse(fragment);
        assert_eq!(names(&dir.path(".bonfire/ssh")), Vec::<String>::new());
    };
    dir.write("run.yml", format!("{COMMON}{HIERARCHICAL}"));
    let five = "[pool]\na\nb\nc\nd\ne\n";
    check(
        five,
        "",
        "the run needs 1 head, 2 relays and 4 workers: 7 hosts; the inventory has 5: 2 workers are missing",
    );
    check(five, "--group desks", "desks");
    check("", "", "hosts.ini");
    check("[pool]\n", "", "hosts");
    check(&five.replace("\ne\n", "\ne ansible_ssh_private_key_file=/no/such/key\n"), "", "/no/such/key");
    let seven = "[pool]\na\nb\nc\nd\ne\nf\ng\n";
    check(seven, "--data nothing/here", "--data nothing/here: there is no such file or folder");
    check(five, "--set batch_siz=3", "batch_size");
    dir.write("run.yml", "arch: [1");
    check(five, "", "run.yml");
    dir.bonfire("run run.yml").run().expect(2);
    dir.bonfire("attach").run().refuse("no run was started from here");
    dir.bonfire("stop --run 2026").run().refuse("no run 2026 was started from here");
}

//! From a list of hosts to a run on them, over real ssh, in a lab.

use std::fs;

use crate::bed::{Bed, is_wanted, wait_until};
use crate::program::{Dir, Running, names};
use crate::record::Record;

/// The files of the device-pool project, as it prints them.
const COMMON: &str = "---\nnum_server_rounds: 5\ntarget_accuracy: 0.9\nbatch_size: 32\n\n";
const FLAT: &str = "arch: flat\nparameter_server:\n    aggr_type: sync\n    num_workers: 4\n";
const HIERARCHICAL: &str = "arch: hierarchical\nglobal_server:\n  aggr_type: sync\n  local_servers:\n    \
                            - type: async\n      num_workers: 2\n    - type: async\n      num_workers: 2\n";

/// A run that goes on until it is stopped.
const ENDLESS: &str = "
    data={name: digits, train: 2000, test: 200}
    epochs=100000
    arch=flat
";

pub(crate) fn endless(bed: &Bed, arguments: &str, workers: usize) -> Running {
    let settings = format!("{ENDLESS}\n parameter_server={{num_workers: {workers}}}");
    bed.bonfire(&format!("run {arguments}")).set(&settings).start()
}

/// Every file that a run leaves, the logs of all hosts among them.
#[track_caller]
pub(crate) fn complete(record: &Record, processes: &[&str]) {
    let expect = [
        "checkpoints",
        "events.jsonl",
        "hosts.json",
        "logs",
        "report.html",
        "run.yml",
        "state.json",
        "summary.json",
        "tensorboard",
    ];
    assert_eq!(names(&record.0), expect);
    let logs: Vec<String> = processes.iter().enumerate().map(|(i, host)| format!("{i}-{host}.log")).collect();
    assert_eq!(names(&record.0.join("logs")), logs);
    let hosts = record.json("hosts.json");
    for (i, host) in processes.iter().enumerate() {
        let process = &hosts["seats"][i];
        assert_eq!(process["name"], *host, "{process}");
        let command = process["command"].as_array().expect("a command");
        assert_eq!(command[1], if i == 0 { "head" } else { "node" }, "{process}");
        let facts = &hosts["hosts"][process["host"].as_u64().expect("a number") as usize]["facts"];
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
    let bed = Bed::of('a', 3);
    let before = bed.bonfire("check --json").succeed().json_lines();
    assert!(
        before.iter().all(|host| host["is_usable"] == true && host["has_program"] == false),
        "{before:?}"
    );
    bed.is_clean();
    let setup = bed.bonfire("setup").succeed();
    assert_eq!(setup.stderr.matches("copied").count(), 3, "{}", setup.stderr);
    for number in 1..=3 {
        assert_eq!(
            names(&bed.lab.home(number).join(".bonfire/bin")).len(),
            1,
            "the program is on pi{number}"
        );
    }
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
    bed.end();
}

#[test]
fn the_files_of_the_device_pool_project_run_on_hosts_in_their_order() {
    if !is_wanted("the_files_of_the_device_pool_project_run_on_hosts_in_their_order") {
        return;
    }
    let bed = Bed::of('b', 4).with_slots(2);
    let flat = ["worker 0", "worker 1", "worker 2", "worker 3"];
    let tree = ["relay 0", "worker 0", "worker 1", "relay 1", "worker 2", "worker 3"];
    for (text, roles) in [(FLAT, &flat[..]), (HIERARCHICAL, &tree[..])] {
        bed.lab.dir.write("config.yml", format!("{COMMON}{text}"));
        bed.bonfire("run config.yml").succeed();
        let record = Record::only_in(&bed.lab.dir.path("runs"));
        assert_eq!(record.number("rounds"), 5.0);
        // The head has the first slot. Of two nodes on a host, the second to join is called `pi2-2`.
        let host = |process: usize| format!("pi{}", process / 2 + 1);
        let joined = record.told("node_joined");
        assert_eq!(joined.iter().map(|event| &event["role"]).collect::<Vec<_>>(), roles);
        for (i, event) in joined.iter().enumerate() {
            let name = event["name"].as_str().expect("a name");
            assert_eq!(name.split('-').next(), Some(host(i + 1).as_str()), "{event}");
        }
        let processes: Vec<String> = (0..=roles.len()).map(host).collect();
        complete(&record, &processes.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
        bed.is_clean();
        // It can be read when its processes are gone.
        let logs = bed.here("logs pi1").succeed();
        assert!(logs.stdout.contains("0 pi1: ") && logs.stdout.contains("done in"), "{}", logs.stdout);
        assert_eq!(bed.here("logs").start_unread().wait().expect(0).stderr, "");
        fs::remove_dir_all(bed.lab.dir.path("runs")).expect("removed");
    }
    bed.end();
}

#[test]
fn as_many_hosts_as_workers_are_enough() {
    if !is_wanted("as_many_hosts_as_workers_are_enough") {
        return;
    }
    let bed = Bed::of('j', 3);
    bed.lab.dir.write("plain.ini", bed.lines(&[1, 2, 3]).replace(" slots=1", ""));
    // Shares by speed would differ from run to run.
    let data = "data={name: digits, train: 2000, test: 200}\n epochs=1\n shares=equal";
    bed.here("train --quiet --workers 3 --out alone").set(data).succeed();
    let alone = Record::of(bed.lab.dir.path("alone"));
    for (name, arch) in [
        ("group", "arch=allreduce\n allreduce={num_workers: 3}"),
        ("flat", "arch=flat\n parameter_server={num_workers: 3}"),
    ] {
        let run =
            bed.here(&format!("run -i plain.ini --out {name}")).set(&format!("{data}\n{arch}")).succeed();
        assert!(run.stderr.contains("head and worker 0 on pi1 ("), "{}", run.stderr);
        assert!(run.stderr.contains("); workers on pi2, pi3"), "{}", run.stderr);
        let record = Record::of(bed.lab.dir.path(name));
        complete(&record, &["pi1", "pi2", "pi3"]);
        let roles = record.json("hosts.json")["seats"].clone();
        let roles: Vec<_> = (0..3).map(|i| roles[i]["role"].clone()).collect();
        assert_eq!(roles, ["head and worker 0", "worker", "worker"]);
        let joined = record.told("node_joined");
        assert_eq!(joined.iter().map(|event| &event["name"]).collect::<Vec<_>>(), ["pi1", "pi2", "pi3"]);
        assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
        assert!(record.parameters() == alone.parameters(), "{name}: the same bits as here");
        bed.is_clean();
    }
    // With a host less there is nobody for the third worker, and no head alone.
    let two = bed.lines(&[1, 2]);
    bed.lab.dir.write("two.ini", two);
    let few = bed.here("run -i two.ini").set("arch=flat\n parameter_server={num_workers: 3}").run().expect(2);
    assert!(few.stderr.contains("3 would do, as the head can work"), "{}", few.stderr);
    bed.end();
}

#[test]
fn data_and_slots_and_speed_decide_where_things_go() {
    if !is_wanted("data_and_slots_and_speed_decide_where_things_go") {
        return;
    }
    let bed = Bed::of('c', 2);
    bed.here("data make grammar --train 300 --test 50 -o").arg(bed.lab.dir.path("my words")).succeed();
    bed.lab.dir.write(
        "run.yml",
        "model: tagger\ndata: elsewhere/my words\nepochs: 1\narch: allreduce\nallreduce: {num_workers: 2}\n",
    );
    let [one, two] = [1, 2].map(|number| bed.line(number));
    bed.lab.dir.write("two.ini", format!("[pool]\n{one}{}", two.replace("slots=1", "slots=2")));
    let missing = bed.here("run -i two.ini run.yml").run().expect(2);
    assert!(missing.stderr.contains("--data PATH copies them there"), "{}", missing.stderr);
    bed.is_clean();
    bed.here("run -i two.ini run.yml --place fastest --out out --data")
        .arg(bed.lab.dir.path("my words"))
        .succeed();
    let record = Record::of(bed.lab.dir.path("out"));
    assert_eq!(record.told("node_joined").len(), 2);
    // As it is named here, so that the run can be resumed here.
    let resumed = bed.here("train --quiet --resume out --set epochs=2").run().expect(0);
    assert_eq!(resumed.stderr, "");
    bed.end();
}

#[test]
fn a_detached_run_is_followed_stopped_and_fetched() {
    if !is_wanted("a_detached_run_is_followed_stopped_and_fetched") {
        return;
    }
    let bed = Bed::of('d', 3);
    let started = endless(&bed, "--detach", 2).wait().expect(0);
    assert!(started.stderr.contains("bonfire attach"), "{}", started.stderr);
    let mut follower = bed.here("logs pi1 -f").start();
    let line = follower.first_line();
    assert!(line.contains("lenet5-digits"), "{line}");
    // One whose reader is gone does not wait for the end of the run.
    assert_eq!(bed.here("logs -f").start_unread().wait().expect(0).stderr, "");
    let lines: Vec<String> = (1..=3).flat_map(|number| bed.processes_on(number)).collect();
    assert!(lines.iter().filter(|line| line.contains(" host guard")).count() == 3, "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("bonfire://")), "a secret for all to see: {lines:#?}");
    // A terminal that comes back, and is lost again, changes nothing.
    let mut attached = bed.here("attach").start();
    attached.until_said("epoch");
    attached.signal("INT");
    let left = attached.wait().expect(130);
    assert!(left.stderr.contains("goes on"), "{}", left.stderr);
    wait_until("the head's log", || bed.here("logs pi1").succeed().stdout.contains("epoch"));

    let stopped = bed.here("stop").succeed();
    assert!(stopped.stderr.contains("3 processes have ended"), "{}", stopped.stderr);
    follower.wait().expect(0);
    bed.is_quiet();
    let again = bed.here("stop").succeed();
    assert!(again.stderr.contains("nothing of run"), "{}", again.stderr);
    bed.here("attach --quiet").run().expect(130);
    let record = Record::only_in(&bed.lab.dir.path("runs"));
    complete(&record, &["pi1", "pi2", "pi3"]);
    assert_eq!(record.summary()["exit"], "interrupted");
    bed.here("attach").run().refuse("is over; its folder is");
    bed.end();
}

#[test]
fn ctrl_c_stops_with_a_checkpoint_and_twice_at_once() {
    if !is_wanted("ctrl_c_stops_with_a_checkpoint_and_twice_at_once") {
        return;
    }
    let bed = Bed::of('e', 3);
    for times in 1..=2 {
        let out = format!("--out out{times}");
        let mut run = endless(&bed, &out, 2);
        run.until_said("epoch       2/");
        if times == 2 {
            // A head that does not hear the first.
            let head = bed.lab.process(1, " head run.yml ");
            std::process::Command::new("sh")
                .args(["-c", &format!("kill -STOP {head}")])
                .status()
                .expect("sh");
            run.signal("INT");
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        run.signal("INT");
        let ended = run.wait();
        let record = Record::of(bed.lab.dir.path(&format!("out{times}")));
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
    bed.end();
}

#[test]
fn a_closed_terminal_stops_the_run_in_order() {
    if !is_wanted("a_closed_terminal_stops_the_run_in_order") {
        return;
    }
    let bed = Bed::of('g', 2);
    let mut run = endless(&bed, "--out out", 1);
    run.until_said("epoch       2/");
    run.signal("HUP");
    run.wait().expect(130);
    complete(&Record::of(bed.lab.dir.path("out")), &["pi1", "pi2"]);
    bed.end();
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
    check(five, "--set head.works=maybe", "head.works=maybe: expected true or false");
    check(five, "--group desks", "desks");
    check("", "", "hosts.ini");
    check("[pool]\n", "", "hosts");
    check(&five.replace("\ne\n", "\ne ansible_ssh_private_key_file=/no/such/key\n"), "", "/no/such/key");
    let seven = "[pool]\na\nb\nc\nd\ne\nf\ng\n";
    check(seven, "--data nothing/here", "--data nothing/here: there is no such file or folder");
    check(five, "--set batch_siz=3", "batch_size");
    dir.write("run.yml", format!("{COMMON}{FLAT}head: {{works: false}}\n"));
    check(
        "[pool]\na\nb\nc\nd\n",
        "",
        "the run needs 1 head and 4 workers: 5 hosts; the inventory has 4: 1 worker is missing; with `head: {works: \
         true}` 4 would do",
    );
    dir.write("run.yml", "arch: [1");
    check(five, "", "run.yml");
    dir.bonfire("run run.yml").run().expect(2);
    dir.bonfire("attach").run().refuse("no run was started from here");
    dir.bonfire("stop --run 2026").run().refuse("no run 2026 was started from here");
}

#[test]
fn data_come_from_node_to_node() {
    if !is_wanted("data_come_from_node_to_node") {
        return;
    }
    let bed = Bed::shaped('t', 6, "--rate 50mbit");
    let settings = "
        data={name: digits, train: 10000, test: 64}
        distribute=ship
        num_server_rounds=2
        arch=flat
        parameter_server={num_workers: 5}
    ";
    bed.bonfire("run --quiet --out shipped").set(settings).succeed();
    let record = Record::of(bed.lab.dir.path("shipped"));
    // Two of five come out of the head's link, and the gradients.
    let (sent, data) = (record.number("sent_bytes"), 10_000.0 * 784.0);
    assert!(sent > 1.5 * data && sent < 3.5 * data, "{sent} bytes sent for {data} bytes of data");
    let warned = record.told("warned");
    assert_eq!(warned.len(), 0, "{warned:?}");
    bed.end();
}

#[test]
fn nodes_reach_each_other_by_ipv6() {
    if !is_wanted("nodes_reach_each_other_by_ipv6") {
        return;
    }
    let bed = Bed::of('w', 3);
    let mut lines = "[pool]\n".to_owned();
    for number in 1..=3 {
        if !bed.lab.ssh(number, &format!("ip addr add fd87::{number}/64 dev eth0 nodad")).status.success() {
            eprintln!("SKIPPED: nodes_reach_each_other_by_ipv6: this kernel has no IPv6");
            return;
        }
        // The inventory has the new address; ssh alone still goes by the other, at which the lab's sshd listens.
        let (old, new) = (bed.address(number), format!("fd87::{number}"));
        let line = bed.line(number).replace(&format!("ansible_host={old}"), &format!("ansible_host={new}"));
        lines += &line.replace("common_args='", &format!("common_args='-o HostName={old} "));
    }
    bed.lab.dir.write("six.ini", lines);
    let settings = "data={name: digits, train: 500, test: 50}\n epochs=2\n arch=allreduce\n \
                    allreduce={num_workers: 3}";
    let ran = bed.here("run -i six.ini --out out").set(settings).succeed().stderr;
    assert!(ran.contains("on pi1 ([fd87::1]:"), "{ran}");
    let record = Record::of(bed.lab.dir.path("out"));
    assert_eq!(record.number("epochs"), 2.0);
    assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
    bed.here("setup -i six.ini").succeed();
    let checked = bed.here("check -i six.ini --json").succeed().json_lines();
    assert!(checked[1..].iter().all(|host| host["network"]["mb_per_s"].is_number()), "{checked:?}");
    bed.end();
}

#[test]
fn a_host_of_another_architecture_gets_its_program_or_is_told_what_is_missing() {
    if !is_wanted("a_host_of_another_architecture_gets_its_program_or_is_told_what_is_missing") {
        return;
    }
    let bed = Bed::of('u', 2);
    // A host that says it is another kind of machine.
    bed.lab
        .said(2, "cp /usr/bin/uname ~/uname && mkdir -p /tmp/bin && mount --bind /tmp/bin /usr/local/sbin");
    let script = "#!/bin/sh\\nif test \"$1\" = -m; then echo aarch64; else exec ~/uname \"$@\"; fi\\n";
    bed.lab.said(2, &format!("printf '{script}' > /tmp/bin/uname && chmod 755 /tmp/bin/uname"));
    let missing = bed.bonfire("setup").run().expect(1).stderr;
    let version = env!("CARGO_PKG_VERSION");
    let file = format!(".local/share/bonfire/{version}/aarch64/bonfire is missing");
    for part in ["pi2: it is aarch64 Linux", &file, "release/build aarch64", "--program aarch64=FILE"] {
        assert!(missing.contains(part), "{part} in {missing}");
    }
    let wrong =
        bed.bonfire("setup").arg(format!("--program=aarch64={}", env!("CARGO_BIN_EXE_bonfire"))).run();
    wrong.refuse("it is a program for x86_64");
    bed.lab.said(2, "umount /usr/local/sbin; rm -r /tmp/bin ~/uname");
    bed.bonfire("setup").succeed();
    bed.end();
}

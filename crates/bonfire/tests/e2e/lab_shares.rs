//! Hosts of a lab that are not equal: each is kept to its share of the processor.
//!
//! Needs root, sshd and `BONFIRE_TEST_LAB=1`.

use std::fs;
use std::process::Command;

use crate::bed::{Bed, Lab, is_wanted, wait_until};
use crate::record::Record;

/// The host that has no share.
const FREE: usize = 4;

/// The share of a core that a host uses when it has something to do for two seconds.
#[track_caller]
fn share(lab: &Lab, number: usize) -> f64 {
    let busy = "timeout 2 sh -c 'while :; do :; done'";
    let said = lab.said(number, &format!("bash -c 'time -p {}; true' 2>&1", busy.replace('\'', "\"")));
    let time = |name: &str| -> f64 {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|time| time.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} time: {said}"))
    };
    (time("user") + time("sys")) / time("real")
}

/// The upper bound holds on any machine, the lower one where others leave a core to it: that is told by a host without
/// a share.
#[track_caller]
fn expect_share(lab: &Lab, number: usize, expect: f64) {
    let (share, left) = (share(lab, number), share(lab, FREE));
    let least = if left > 0.9 { 0.6 * expect } else { 0.0 };
    assert!(
        (least..1.25 * expect).contains(&share),
        "{share} of a core instead of {expect}; {left} were to be had"
    );
}

/// Whether any process of a host is stopped.
fn is_held(lab: &Lab, number: usize) -> bool {
    let stat = |id: &str| fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let is_stopped = |id: &str| stat(id).rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T"));
    lab.processes(number).iter().any(|process| is_stopped(&process.id))
}

fn kill(id: &str) {
    assert!(Command::new("kill").args(["-KILL", id]).status().expect("kill").success());
}

#[test]
fn hosts_are_kept_to_their_shares() {
    if !is_wanted("hosts_are_kept_to_their_shares") {
        return;
    }
    let lab = Lab::new('s');
    let hosts = "- {cpu: 1, rate: 20mbit}\n- {cpu: 0.5, rate: 1gbit}\n- {cpu: 0.25}\n- {}\n";
    let list = lab.dir.write("hosts.yml", hosts);
    let up = lab.dir.bonfire(&format!("lab up --name {} --dir", lab.name)).arg(lab.folder());
    up.arg("--from").arg(list).succeed();
    expect_share(&lab, 1, 1.0);
    expect_share(&lab, 2, 0.5);
    expect_share(&lab, 3, 0.25);
    let set = |line: &str| lab.dir.bonfire(&format!("lab set {line}")).run();
    let said = set(&format!("{} --cpu 0.1 --rate 5mbit", lab.host(2))).expect(0).stdout;
    assert_eq!(said.trim(), format!("{}  cpu 0.1  rate 5mbit  delay -", lab.host(2)));
    expect_share(&lab, 2, 0.1);
    let listed = lab.dir.bonfire("lab list").succeed().stdout;
    let row = listed.lines().find(|line| line.trim().starts_with(&lab.host(2))).expect("a line of the host");
    assert!(row.contains(" 0.1 ") && row.contains(" 5mbit "), "{listed}");
    set(&format!("{} --cpu 0.1", lab.host(5))).refuse(&format!("there is no host `{}`", lab.host(5)));
    lab.down();
    lab.expect_nothing();
}

#[test]
fn nobody_stays_stopped_when_those_who_keep_the_shares_are_killed() {
    if !is_wanted("nobody_stays_stopped_when_those_who_keep_the_shares_are_killed") {
        return;
    }
    let lab = Lab::new('t');
    lab.up(1, "--cpu 0.05").wait().expect(0);
    lab.said(1, "nohup sh -c 'while :; do :; done' > /dev/null 2>&1 < /dev/null & echo started");
    wait_until("a hold", || is_held(&lab, 1));
    let throttle = lab.keeper("throttle").expect("a throttle");
    kill(&throttle);
    // The governor starts another, which goes on.
    wait_until("another throttle", || lab.keeper("throttle").is_some_and(|found| found != throttle));
    wait_until("a hold by it", || is_held(&lab, 1));
    kill(&lab.keeper("govern").expect("a governor"));
    wait_until("the end of the throttle", || lab.keeper("throttle").is_none());
    assert!(!is_held(&lab, 1), "what was stopped goes on");
    let list = lab.dir.bonfire("lab list").succeed();
    assert!(list.stderr.contains("are not kept to their shares"), "{}", list.stderr);
    lab.dir.bonfire(&format!("lab set {} --cpu 0.1", lab.host(1))).succeed();
    wait_until("a hold by others", || is_held(&lab, 1));
    lab.down();
    lab.expect_nothing();
}

/// How much quicker that is, `bench/shares.py` measures.
#[test]
fn a_slow_host_gets_a_smaller_share() {
    if !is_wanted("a_slow_host_gets_a_smaller_share") {
        return;
    }
    let bed = Bed::shaped('u', 3, "--cpu 0.4,0.4,0.1");
    let data = "data={name: digits, train: 6000, test: 100}\n model=lenet\n num_server_rounds=60\n eval_every=100 rounds";
    for (name, arch) in [
        ("group", "arch=allreduce\n allreduce={num_workers: 3}"),
        ("flat", "arch=flat\n parameter_server={num_workers: 3}"),
    ] {
        bed.bonfire(&format!("run --quiet --out {name}")).set(&format!("{data}\n{arch}")).succeed();
        let told = Record::of(bed.lab.dir.path(name)).told("shares");
        assert!((1..=4).contains(&told.len()), "{told:#?}");
        let last = &told[told.len() - 1];
        let lines = last["shares"].as_array().expect("shares");
        let samples = |name: &str| {
            let line = lines.iter().find(|line| line["name"] == name);
            line.and_then(|line| line["samples"].as_u64()).expect("samples")
        };
        assert_eq!(["pi1", "pi2", "pi3"].map(samples).iter().sum::<u64>(), 96, "{last:#}");
        assert!(samples("pi3") <= 24 && samples("pi3") < samples("pi2"), "{last:#}");
        assert!(last["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{last:#}");
    }
    let unknown = bed.bonfire("run --out wrong").set("shares={pi1: 1, desk: 6}\n workers=2");
    unknown.run().refuse("no host is called desk; there are pi1, pi2, pi3");
    bed.end();
}

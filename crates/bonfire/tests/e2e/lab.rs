//! Emulated clusters: their hosts are as separate as machines, and nothing of them is left.
//!
//! Needs root, sshd and `BONFIRE_TEST_LAB=1`.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bonfire_launch::Inventory;

use crate::bed::{Lab, is_wanted, wait_until};
use crate::program::{Dir, names};

#[test]
fn hosts_are_machines_of_their_own() {
    if !is_wanted("hosts_are_machines_of_their_own") {
        return;
    }
    let lab = Lab::new('h');
    // What it prints is read by nobody, and it is made all the same.
    assert_eq!(lab.start_up(4, "--rate 20mbit").start_unread().wait().expect(0).stderr, "");
    for number in 1..=4 {
        assert_eq!(lab.said(number, "hostname"), lab.host(number));
        let address = lab.said(number, "ip -4 -o addr show dev eth0");
        assert!(address.contains(&format!(".{number}/24 ")), "{address}");
        // Each writes a file under the same names, and none finds the other's.
        lab.said(number, "for f in ~/x /tmp/x /var/tmp/x; do test ! -e $f && hostname > $f || exit 1; done");
        assert_eq!(lab.said(number, "cat ~/x /tmp/x"), [lab.host(number), lab.host(number)].join("\n"));
        assert!(!lab.folder().join("x").exists());
    }
    let listed = lab.dir.bonfire("lab list").succeed().stdout;
    let rows: Vec<&str> = listed.lines().filter(|line| line.starts_with(&lab.name)).collect();
    assert!(matches!(rows[..], [row] if row.contains("4 of 4") && row.contains("20mbit")), "{listed}");
    assert_eq!(lab.dir.bonfire("lab list").start_unread().wait().expect(0).stderr, "");
    reached_by_its_inventory(&lab);
    reaches_the_machine_below(&lab);
    slows_what_goes_between_hosts(&lab);
    lab.dir
        .bonfire(&format!("lab up --hosts 1 --name {}", lab.name))
        .run()
        .refuse(&format!("there is a lab `{}` already", lab.name));
    // Processes that outlive their connection end with the lab.
    lab.said(2, "nohup sleep 987654 > /dev/null 2>&1 < /dev/null & echo started");
    let sleeps = || names(Path::new("/proc")).iter().any(|id| has_slept(id));
    wait_until("a process that outlives its connection", sleeps);
    let traces = lab.traces();
    for trace in ["/sys/class/net/", "/run/netns/", "process ", "/var/lib/bonfire-labs/"] {
        assert!(traces.iter().any(|found| found.starts_with(trace)), "{trace} is looked at: {traces:?}");
    }
    lab.down();
    assert!(!sleeps());
    lab.expect_nothing();
    lab.down();
    lab.expect_nothing();
}

fn has_slept(id: &str) -> bool {
    fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0987654"))
}

/// What the inventory says is enough for ssh to get in without a question.
#[track_caller]
fn reached_by_its_inventory(lab: &Lab) {
    let inventory = Inventory::load(&lab.folder().join("hosts.ini"), None).expect("an inventory");
    assert_eq!(inventory.hosts.len(), 4);
    let host = &inventory.hosts[2];
    assert_eq!(host.name, lab.host(3));
    let mut ssh = Command::new("timeout");
    ssh.args(["60", "ssh", "-F", "/dev/null"]).args(&host.ssh_args);
    ssh.arg("-i").arg(host.key.as_ref().expect("a key")).arg("-l").arg(host.user.as_ref().expect("a user"));
    let output = ssh.arg(&host.address).arg("hostname").output().expect("ssh");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), host.name, "{output:?}");
}

/// A head on the machine that the lab is on can be joined from its hosts.
#[track_caller]
fn reaches_the_machine_below(lab: &Lab) {
    let below = lab.said(1, "hostname -I").rsplit_once('.').map(|(net, _)| format!("{net}.254"));
    let below = below.expect("an address");
    let listener = TcpListener::bind((below.as_str(), 0)).expect("the bridge has this address");
    let port = listener.local_addr().expect("an address").port();
    lab.said(4, &format!("timeout 10 bash -c ': < /dev/tcp/{below}/{port}'"));
}

/// Four megabytes take 1.7 seconds at 20 Mbit/s, and next to nothing to a host itself.
#[track_caller]
fn slows_what_goes_between_hosts(lab: &Lab) {
    let key = fs::read_to_string(lab.folder().join("id_ed25519")).expect("a key");
    lab.said(1, &format!("umask 077; cat > key << END\n{key}END"));
    let address = |number: usize| lab.said(number, "hostname -I");
    let send = |to: String| {
        let options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=10";
        let start = Instant::now();
        lab.said(1, &format!("head -c 4194304 /dev/urandom | ssh -i key {options} {to} 'cat > got'"));
        start.elapsed()
    };
    let (itself, another) = (send(address(1)), send(address(2)));
    assert_eq!(lab.said(2, "wc -c < got"), "4194304");
    assert!(another > Duration::from_millis(1500), "{another:?} for 4 MiB at 20 Mbit/s");
    assert!(itself < another, "{itself:?} to itself, {another:?} to another");
}

#[test]
fn an_up_that_was_killed_is_taken_down() {
    if !is_wanted("an_up_that_was_killed_is_taken_down") {
        return;
    }
    type Stage = fn(&Lab) -> bool;
    let stages: [(&str, Stage); 4] = [
        ("its name is taken", |lab| Path::new("/var/lib/bonfire-labs").join(&lab.name).exists()),
        ("the bridge", |lab| Path::new("/sys/class/net").join(format!("bf-{}", lab.name)).exists()),
        ("the first host", |lab| lab.namespace(1).exists()),
        ("the fourth host", |lab| lab.namespace(4).exists()),
    ];
    let lab = Lab::new('k');
    for (what, is_there) in stages {
        let mut up = lab.up(6, "");
        assert!(up.until(what, || is_there(&lab)), "{}", up.said());
        let killed = up.kill_after(Duration::ZERO);
        assert_eq!(killed.code, None, "{what}: it was over before it was killed");
        lab.down();
        lab.expect_nothing();
    }
}

#[test]
fn an_up_that_is_interrupted_or_impossible_takes_itself_down() {
    if !is_wanted("an_up_that_is_interrupted_or_impossible_takes_itself_down") {
        return;
    }
    let lab = Lab::new('i');
    // So many that it is not done before it is stopped.
    let mut up = lab.up(40, "");
    assert!(up.until("the second host", || lab.namespace(2).exists()), "{}", up.said());
    lab.dir.bonfire(&format!("lab down --name {}", lab.name)).run().refuse("is being made by process");
    up.signal("INT");
    up.wait().expect(130);
    lab.expect_nothing();
    // A kernel may lack what makes delays; then it says so, and nothing is left.
    let delayed = lab.up(2, "--delay 5ms").wait();
    match delayed.code {
        Some(0) => lab.down(),
        _ => delayed.refuse("this kernel has no `netem`"),
    }
    lab.expect_nothing();
}

#[test]
fn labs_that_cannot_be() {
    let dir = Dir::new();
    let check = |line: &str, fragment: &str| dir.bonfire(line).run().refuse(fragment);
    check("lab up --hosts 0", "expected 1 to 200 hosts, found 0");
    check("lab up --hosts 201", "expected 1 to 200 hosts, found 201");
    check(
        "lab up --hosts 2 --name Lab",
        "expected a name of 1 to 8 lower-case letters and digits, found `Lab`",
    );
    check(
        "lab down --name ../etc",
        "expected a name of 1 to 8 lower-case letters and digits, found `../etc`",
    );
    check("lab up --hosts 3 --cpu 1,0.5", "--cpu: expected one value, or one for each of 3 hosts, found 2");
    check(
        "lab up --hosts 1 --rate 1mbit,1mbit",
        "--rate: expected one value, or one for each of 1 hosts, found 2",
    );
    check("lab up --from none.yml", "none.yml: No such file");
    dir.write("lab.yml", "- {cpu: 1}\n- {cpu: 0}\n");
    check("lab up --from lab.yml", "lab.yml:2: hosts[1].cpu: expected a share of one core from 0.01 to");
    dir.write("none.yml", "[]\n");
    check("lab up --from none.yml", "none.yml: expected 1 to 200 hosts, found 0");
    check(
        "lab set nolab-1 --cpu 0.5",
        "there is no lab `nolab`; bonfire lab list shows those that there are",
    );
    check("lab set nolab --cpu 0.5", "expected a host such as lab-1, found `nolab`");
    check("lab set lab-1", "nothing is to be changed; give --cpu, --rate or --delay");
    for wrong in ["0", "-1", "0.001", "100000", "1,0", "half"] {
        let share = dir.bonfire(&format!("lab up --hosts 2 --cpu {wrong}")).run().expect(2);
        assert!(
            share.stderr.contains("expected a share of one core from 0.01 to"),
            "{wrong}: {}",
            share.stderr
        );
    }
    let rate = dir.bonfire("lab up --hosts 2 --rate fast").run().expect(2);
    assert!(
        rate.stderr.contains("expected a rate from 64kbit to 100gbit, such as 100mbit"),
        "{}",
        rate.stderr
    );
}

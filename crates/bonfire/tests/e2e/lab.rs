//! Emulated clusters: their hosts are as separate as machines, and nothing of them is left.
//!
//! Needs root, sshd and `BONFIRE_TEST_LAB=1`.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use bonfire_launch::Inventory;

use crate::program::{Dir, Running};

/// Whether labs can be made. A test that makes none says so loudly.
fn is_wanted() -> bool {
    let wanted = std::env::var_os("BONFIRE_TEST_LAB").is_some_and(|value| value == "1");
    if !wanted {
        eprintln!("SKIPPED: BONFIRE_TEST_LAB=1 is not set (it needs root and sshd), so no lab is made");
    }
    wanted
}

/// A lab of one test, taken down with it.
struct Lab {
    dir: Dir,
    name: String,
}

impl Lab {
    /// The letter tells the labs of one run of the tests apart.
    fn new(letter: char) -> Self {
        Self { dir: Dir::new(), name: format!("{letter}{:x}", std::process::id() % 0x100_0000) }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path("lab")
    }

    fn up(&self, hosts: usize, more: &str) -> Running {
        let line = format!("lab up --hosts {hosts} --name {} {more} --dir", self.name);
        self.dir.bonfire(&line).arg(self.folder()).start()
    }

    #[track_caller]
    fn down(&self) {
        self.dir.bonfire(&format!("lab down --name {}", self.name)).succeed();
    }

    fn host(&self, number: usize) -> String {
        format!("{}-{number}", self.name)
    }

    /// Runs a command on a host.
    fn ssh(&self, number: usize, command: &str) -> Output {
        let mut ssh = Command::new("timeout");
        ssh.args(["60", "ssh", "-F"])
            .arg(self.folder().join("ssh_config"))
            .arg(self.host(number))
            .arg(command);
        ssh.output().expect("ssh")
    }

    /// Runs a command on a host; it must go well. What it printed.
    #[track_caller]
    fn said(&self, number: usize, command: &str) -> String {
        let output = self.ssh(number, command);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    fn namespace(&self, number: usize) -> PathBuf {
        PathBuf::from(format!("/run/netns/bf-{}-{number}", self.name))
    }

    /// Everything on this machine that has the lab's name or folder in it.
    fn traces(&self) -> Vec<String> {
        let link = format!("bf-{}", self.name);
        let folder = self.folder().display().to_string();
        let is_trace = |text: &str| text.contains(&link) || text.contains(&folder);
        let mut traces = Vec::new();
        for place in ["/sys/class/net", "/run/netns"] {
            traces.extend(
                names(place).into_iter().filter(|name| is_trace(name)).map(|name| format!("{place}/{name}")),
            );
        }
        for process in names("/proc") {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            // A line that ends a lab has its name too, but not its links and folder.
            traces.extend(Some(format!("process {process}: {line}")).filter(|line| is_trace(line)));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        traces.extend(mounts.lines().filter(|line| is_trace(line)).map(str::to_owned));
        for name in names("/var/lib/bonfire-labs") {
            let path = Path::new("/var/lib/bonfire-labs").join(&name);
            let claims = fs::read_link(&path).is_ok_and(|target| target == Path::new(&self.name));
            traces.extend(Some(path.display().to_string()).filter(|_| claims || name == self.name));
        }
        traces.extend(Some(folder).filter(|_| self.folder().exists()));
        traces
    }

    #[track_caller]
    fn expect_nothing(&self) {
        assert_eq!(self.traces(), Vec::<String>::new());
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A test that failed leaves its lab; this one has nothing to do otherwise.
        let _ = self.dir.bonfire(&format!("lab down --name {}", self.name)).run();
    }
}

fn names(folder: &str) -> Vec<String> {
    crate::program::names(Path::new(folder))
}

#[test]
fn hosts_are_machines_of_their_own() {
    if !is_wanted() {
        return;
    }
    let lab = Lab::new('h');
    lab.up(4, "--rate 20mbit").wait().expect(0);
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
    reached_by_its_inventory(&lab);
    reaches_the_machine_below(&lab);
    slows_what_goes_between_hosts(&lab);
    lab.dir
        .bonfire(&format!("lab up --hosts 1 --name {}", lab.name))
        .run()
        .refuse(&format!("there is a lab `{}` already", lab.name));
    // Processes that outlive their connection end with the lab.
    lab.said(2, "nohup sleep 987654 > /dev/null 2>&1 < /dev/null & echo started");
    let sleeps = || names("/proc").iter().any(|id| has_slept(id));
    assert!(sleeps());
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
    if !is_wanted() {
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
    if !is_wanted() {
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
    let rate = dir.bonfire("lab up --hosts 2 --rate fast").run().expect(2);
    assert!(
        rate.stderr.contains("expected a rate from 64kbit to 100gbit, such as 100mbit"),
        "{}",
        rate.stderr
    );
}

//! Hosts to launch on: one real sshd each, on a port of loopback, with a home folder of its own.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Bonfire, Dir, names};

/// Some hosts, `pi1` and so on, and a folder to launch from. Gone when it is dropped.
#[derive(Debug)]
pub struct Bed {
    pub dir: Dir,
    hosts: Vec<Host>,
}

#[derive(Debug)]
struct Host {
    port: u16,
    sshd: Child,
}

const DEADLINE: Duration = Duration::from_secs(60);

/// Whether these tests are asked for. They need root and sshd.
pub fn is_wanted(test: &str) -> bool {
    let is_wanted = std::env::var("BONFIRE_TEST_LAB").is_ok_and(|value| value == "1");
    if !is_wanted {
        eprintln!(
            "SKIPPED: {test}: BONFIRE_TEST_LAB is not 1, so nothing was launched over ssh (needs root and sshd)"
        );
    }
    is_wanted
}

impl Bed {
    pub fn of(hosts: usize) -> Self {
        let mut bed = Self { dir: Dir::new(), hosts: Vec::new() };
        // Where sshd keeps to itself; it refuses to start without.
        fs::create_dir_all("/run/sshd").expect("a folder, as root");
        for name in ["key", "host_key", "other_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(bed.dir.path(name));
            assert!(keygen.status().expect("ssh-keygen").success());
        }
        for _ in 0..hosts {
            bed.add("key.pub");
        }
        bed
    }

    /// One host more, which lets this key in.
    pub fn add(&mut self, key: &str) {
        let name = format!("pi{}", self.hosts.len() + 1);
        fs::create_dir_all(self.home(&name)).expect("a folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let path = |name: &str| self.dir.path(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPidFile none\nUsePAM no\n\
             PasswordAuthentication no\nPermitRootLogin yes\nSetEnv HOME={}\n",
            path("host_key"),
            path(key),
            self.home(&name).display(),
        );
        let config = self.dir.write(&format!("{name}.conf"), config);
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f"]).arg(config).stdin(Stdio::null()).stderr(Stdio::null());
        let sshd = sshd.spawn().expect("sshd: apt-get install openssh-server");
        self.hosts.push(Host { port, sshd });
        wait_until("sshd", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    pub fn home(&self, name: &str) -> PathBuf {
        self.dir.path("homes").join(name)
    }

    /// The line of an inventory for a host, by its number from 1.
    pub fn line(&self, number: usize) -> String {
        let (key, known) = (self.dir.path("key"), self.dir.path("known_hosts"));
        let port = self.hosts[number - 1].port;
        let public = fs::read_to_string(self.dir.path("host_key.pub")).expect("a key");
        let entry = format!("[127.0.0.1]:{port} {public}");
        let mut all = fs::read_to_string(&known).unwrap_or_default();
        if !all.contains(&entry) {
            all.push_str(&entry);
            fs::write(&known, all).expect("a file");
        }
        format!(
            "pi{number} ansible_host=127.0.0.1 ansible_port={port} ansible_ssh_private_key_file={} \
             ansible_ssh_common_args='-o UserKnownHostsFile={}'\n",
            key.display(),
            known.display()
        )
    }

    /// Writes the inventory of all hosts.
    pub fn inventory(&self) -> PathBuf {
        let lines: String = (1..=self.hosts.len()).map(|number| self.line(number)).collect();
        self.dir.write("hosts.ini", format!("[pool]\n{lines}"))
    }

    /// A command on all hosts.
    pub fn bonfire(&self, arguments: &str) -> Bonfire {
        let (command, rest) = arguments.split_once(' ').unwrap_or((arguments, ""));
        self.inventory();
        self.dir.bonfire(&format!("{command} -i hosts.ini {rest}"))
    }

    /// Waits until no process is left that was started by, or for, a launch of this bed; and that there is no file of a run
    /// on any host.
    #[track_caller]
    pub fn is_clean(&self) {
        self.is_quiet();
        for number in 1..=self.hosts.len() {
            let home = self.home(&format!("pi{number}"));
            assert_eq!(names(&home.join(".bonfire/runs")), Vec::<String>::new(), "runs on pi{number}");
            let strange: Vec<String> =
                names(&home).into_iter().filter(|name| name != ".bonfire" && name != ".cache").collect();
            assert_eq!(strange, Vec::<String>::new(), "files on pi{number}");
            let parts = names(&home.join(".bonfire/bin")).into_iter().filter(|name| name.contains(".part"));
            assert_eq!(parts.count(), 0, "a half-written program on pi{number}");
        }
        assert_eq!(names(&self.dir.path(".bonfire/ssh")), Vec::<String>::new(), "logins");
    }

    /// Waits until no process is left.
    #[track_caller]
    pub fn is_quiet(&self) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still there: {left:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The command lines of all processes that have a home in this bed, or in the folder that is launched from.
    pub fn processes(&self) -> Vec<String> {
        let home = format!("HOME={}", self.dir.path("").display());
        let home = home.trim_end_matches('/');
        let entries = fs::read_dir("/proc").expect("/proc");
        let mut found = Vec::new();
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let read = |name: &str| fs::read(path.join(name)).unwrap_or_default();
            let environment = String::from_utf8_lossy(&read("environ")).into_owned();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            if environment.split('\0').any(|entry| entry.starts_with(home)) && !line.is_empty() {
                found.push(line);
            }
        }
        found
    }

    /// The recorded process and guard of a seat, wherever it is.
    pub fn seat(&self, host: &str, seat: usize) -> Option<(u64, u64)> {
        let runs = self.home(host).join(".bonfire/runs");
        let path = runs.join(names(&runs).first()?).join(seat.to_string()).join("seat.json");
        let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
        Some((record["process"]["pid"].as_u64()?, record["guard"]["pid"].as_u64()?))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            let _ = host.sshd.kill();
            let _ = host.sshd.wait();
        }
    }
}

#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Kills processes at once, as a power cut does.
pub fn power_cut(processes: &[u64]) {
    let line = processes.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let status = Command::new("sh").args(["-c", &format!("kill -KILL {line}")]).status().expect("a shell");
    assert!(status.success(), "{line}");
}

/// A small disk for the home of a host. Gone when it is dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    pub fn at(path: &Path, size: &str) -> Self {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "bonfire-test"]).arg(path);
        assert!(mount.status().expect("mount").success(), "{}", path.display());
        Self(path.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

//! Hosts to launch on, those of a lab, and a folder to launch from.

mod lab;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bonfire_launch::Inventory;

use crate::program::{Bonfire, names};

pub(crate) use lab::Lab;

/// Some hosts, `pi1` and so on. Gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Bed {
    pub lab: Lab,
    hosts: usize,
    slots: usize,
}

const DEADLINE: Duration = Duration::from_secs(60);

/// Whether these tests are asked for. They need root, sshd and iproute2.
pub(crate) fn is_wanted(test: &str) -> bool {
    let is_wanted = std::env::var("BONFIRE_TEST_LAB").is_ok_and(|value| value == "1");
    if !is_wanted {
        eprintln!(
            "SKIPPED: {test}: BONFIRE_TEST_LAB is not 1, so no lab was made (needs root, sshd and iproute2)"
        );
    }
    is_wanted
}

impl Bed {
    /// The letter tells the beds of one run of the tests apart.
    pub(crate) fn of(letter: char, hosts: usize) -> Self {
        Self::shaped(letter, hosts, "")
    }

    /// The same with links such as `--rate 20mbit`.
    pub(crate) fn shaped(letter: char, hosts: usize, shape: &str) -> Self {
        let lab = Lab::new(letter);
        lab.up(hosts, shape).wait().expect(0);
        fs::create_dir(lab.dir.path("tmp")).expect("a folder");
        Self { lab, hosts, slots: 1 }
    }

    /// Every host takes so many processes.
    pub(crate) fn with_slots(self, slots: usize) -> Self {
        Self { slots, ..self }
    }

    /// The address of a host, by its number from 1.
    pub(crate) fn address(&self, number: usize) -> String {
        let inventory = Inventory::load(&self.lab.folder().join("hosts.ini"), None).expect("an inventory");
        inventory.hosts[number - 1].address.clone()
    }

    /// The line of an inventory for a host.
    pub(crate) fn line(&self, number: usize) -> String {
        let folder = self.lab.folder();
        format!(
            "pi{number} ansible_host={} ansible_user=root slots={} ansible_ssh_private_key_file={} \
             ansible_ssh_common_args='-o UserKnownHostsFile={} -o IdentitiesOnly=yes'\n",
            self.address(number),
            self.slots,
            folder.join("id_ed25519").display(),
            folder.join("known_hosts").display()
        )
    }

    /// The lines of an inventory for the hosts with these numbers.
    pub(crate) fn lines(&self, numbers: &[usize]) -> String {
        numbers.iter().map(|&number| self.line(number)).collect()
    }

    /// A command on all hosts.
    pub(crate) fn bonfire(&self, arguments: &str) -> Bonfire {
        let (command, rest) = arguments.split_once(' ').unwrap_or((arguments, ""));
        let all: Vec<usize> = (1..=self.hosts).collect();
        self.lab.dir.write("hosts.ini", format!("[pool]\n{}", self.lines(&all)));
        self.here(&format!("{command} -i hosts.ini {rest}"))
    }

    /// A command that finds its hosts by itself.
    pub(crate) fn here(&self, arguments: &str) -> Bonfire {
        let tmp = self.lab.dir.path("tmp");
        self.lab.dir.bonfire(arguments).env(&format!("TMPDIR={}", tmp.display()))
    }

    /// Waits until no process is left that was started by, or for, a launch of this bed; and that there is no file of a
    /// run on any host, or here.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        self.is_clean_but_for(&[]);
    }

    /// The same without a look at some hosts, which are out of reach.
    #[track_caller]
    pub(crate) fn is_clean_but_for(&self, lost: &[usize]) {
        let there: Vec<usize> = (1..=self.hosts).filter(|number| !lost.contains(number)).collect();
        self.is_quiet_on(&there, DEADLINE);
        for number in there {
            let home = self.lab.home(number);
            assert_eq!(names(&home.join(".bonfire/runs")), [""; 0], "runs on pi{number}");
            let own = |name: &String| name != ".bonfire" && name != ".cache";
            let strange: Vec<String> = names(&home).into_iter().filter(own).collect();
            assert_eq!(strange, [""; 0], "files on pi{number}");
            let parts = names(&home.join(".bonfire/bin")).into_iter().filter(|name| name.contains(".part"));
            assert_eq!(parts.count(), 0, "a half-written program on pi{number}");
            for folder in ["tmp", "var_tmp"] {
                assert_eq!(names(&self.lab.place(number, folder)), [""; 0], "{folder} of pi{number}");
            }
        }
        assert_eq!(names(&self.lab.dir.path(".bonfire/ssh")), [""; 0], "logins");
        assert_eq!(names(&self.lab.dir.path("tmp")), [""; 0], "temporary files here");
    }

    /// Waits until no process is left, on the hosts or here.
    #[track_caller]
    pub(crate) fn is_quiet(&self) {
        let all: Vec<usize> = (1..=self.hosts).collect();
        self.is_quiet_on(&all, DEADLINE);
    }

    /// The same for some hosts, within a time.
    #[track_caller]
    pub(crate) fn is_quiet_on(&self, hosts: &[usize], time: Duration) {
        let deadline = Instant::now() + time;
        loop {
            let mut left = self.processes_here();
            left.extend(hosts.iter().flat_map(|&number| self.processes_on(number)));
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "still there after {time:?}: {left:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The command lines of what runs on a host.
    pub(crate) fn processes_on(&self, number: usize) -> Vec<String> {
        self.lab.processes(number).into_iter().map(|process| process.line).collect()
    }

    /// The command lines of what was started from the folder that is launched from, and runs here.
    fn processes_here(&self) -> Vec<String> {
        let home = format!("HOME={}", self.lab.dir.path("").display());
        let home = home.trim_end_matches('/');
        let mut found = Vec::new();
        for path in names(Path::new("/proc")).iter().map(|name| Path::new("/proc").join(name)) {
            let read = |name: &str| fs::read(path.join(name)).unwrap_or_default();
            let environment = String::from_utf8_lossy(&read("environ")).into_owned();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            if environment.split('\0').any(|entry| entry.starts_with(home)) && !line.is_empty() {
                found.push(line);
            }
        }
        found
    }

    /// All is clean; then the hosts are taken away, and nothing is left of them either.
    #[track_caller]
    pub(crate) fn end(self) {
        self.is_clean();
        self.take_down();
    }

    /// Takes the hosts away, after which nothing is left of them.
    #[track_caller]
    pub(crate) fn take_down(self) {
        self.lab.down();
        self.lab.expect_nothing();
    }
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

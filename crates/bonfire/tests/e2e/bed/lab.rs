//! A lab of `bonfire lab up`: hosts with network namespaces and an sshd each, and what can befall them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::wait_until;
use crate::program::{Bonfire, Dir, Running, names};

/// A lab of one test, taken down with it.
#[derive(Debug)]
pub(crate) struct Lab {
    pub dir: Dir,
    pub name: String,
}

/// A process on a host, by the number that it has outside.
#[derive(Debug)]
pub(crate) struct Process {
    pub id: String,
    pub line: String,
    /// The number that it has on the host; none if it only keeps the host's namespaces.
    inside: Option<u32>,
}

impl Lab {
    /// The letter tells the labs of one run of the tests apart.
    pub(crate) fn new(letter: char) -> Self {
        Self { dir: Dir::new(), name: format!("{letter}{:x}", std::process::id() % 0x100_0000) }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path("lab")
    }

    /// The command that makes its hosts.
    pub(crate) fn start_up(&self, hosts: usize, more: &str) -> Bonfire {
        let line = format!("lab up --hosts {hosts} --name {} {more} --dir", self.name);
        self.dir.bonfire(&line).arg(self.folder())
    }

    pub(crate) fn up(&self, hosts: usize, more: &str) -> Running {
        self.start_up(hosts, more).start()
    }

    #[track_caller]
    pub(crate) fn down(&self) {
        self.dir.bonfire(&format!("lab down --name {}", self.name)).succeed();
    }

    pub(crate) fn host(&self, number: usize) -> String {
        format!("{}-{number}", self.name)
    }

    /// Where a host has a folder of its own, such as `root`.
    pub(crate) fn place(&self, number: usize, name: &str) -> PathBuf {
        self.folder().join("hosts").join(number.to_string()).join(name)
    }

    /// Runs a command on a host.
    pub(crate) fn ssh(&self, number: usize, command: &str) -> Output {
        let mut ssh = Command::new("timeout");
        ssh.args(["60", "ssh", "-F"])
            .arg(self.folder().join("ssh_config"))
            .arg(self.host(number))
            .arg(command);
        ssh.output().expect("ssh")
    }

    /// Runs a command on a host; it must go well. What it printed.
    #[track_caller]
    pub(crate) fn said(&self, number: usize, command: &str) -> String {
        let output = self.ssh(number, command);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    /// The name of a host's namespace, and of its cable.
    fn link(&self, number: usize) -> String {
        format!("bf-{}-{number}", self.name)
    }

    pub(crate) fn namespace(&self, number: usize) -> PathBuf {
        Path::new("/run/netns").join(self.link(number))
    }

    /// Everything that runs on a host, its own sshd aside.
    pub(crate) fn processes(&self, number: usize) -> Vec<Process> {
        self.all(number).into_iter().filter(|process| process.inside > Some(1)).collect()
    }

    fn all(&self, number: usize) -> Vec<Process> {
        let inode = |path: &Path| fs::metadata(path).ok().map(|file| file.ino());
        let namespace = inode(&self.namespace(number));
        assert!(namespace.is_some(), "host {number} is there");
        let is_there = |id: &String| inode(&Path::new("/proc").join(id).join("ns/net")) == namespace;
        names(Path::new("/proc")).into_iter().filter(is_there).filter_map(Process::of).collect()
    }

    /// The process of this machine that keeps the shares of the hosts, by its command.
    pub(crate) fn keeper(&self, command: &str) -> Option<String> {
        let line = format!("bonfire lab {command} {} ", self.name).replace(' ', "\0");
        let is_it =
            |id: &String| fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|found| found == line.as_bytes());
        names(Path::new("/proc")).into_iter().find(is_it)
    }

    /// The only process of a host whose command line has this in it.
    #[track_caller]
    pub(crate) fn process(&self, number: usize, fragment: &str) -> String {
        let mut found = self.processes(number);
        found.retain(|process| process.line.contains(fragment));
        assert_eq!(found.len(), 1, "{fragment:?} on host {number}: {found:#?}");
        found.remove(0).id
    }

    /// The sshd that all others of a host descend from: by it, the host's files are seen as it sees them.
    #[track_caller]
    fn first(&self, number: usize) -> String {
        let first = self.all(number).into_iter().find(|process| process.inside == Some(1));
        first.unwrap_or_else(|| panic!("host {number} is dead")).id
    }

    /// The home of a host as the host sees it, also when something is mounted there.
    pub(crate) fn home(&self, number: usize) -> PathBuf {
        Path::new("/proc").join(self.first(number)).join("root/root")
    }

    /// Gives a host a small disk for its home.
    #[track_caller]
    pub(crate) fn shrink_home(&self, number: usize, size: &str) {
        let size = format!("size={size},mode=700");
        run(
            "nsenter",
            &["-m", "-t", &self.first(number), "mount", "-t", "tmpfs", "-o", &size, "none", "/root"],
        );
    }

    /// Takes out a host's cable.
    #[track_caller]
    pub(crate) fn unplug(&self, number: usize) {
        run("ip", &["link", "set", &self.link(number), "down"]);
    }

    #[track_caller]
    pub(crate) fn plug_in(&self, number: usize) {
        run("ip", &["link", "set", &self.link(number), "up"]);
    }

    /// Ends everything on a host at once, its sshd too.
    #[track_caller]
    pub(crate) fn power_cut(&self, number: usize) {
        for process in self.all(number) {
            // One that went with another is no failure.
            let _ =
                Command::new("sh").args(["-c", &format!("kill -KILL {} 2> /dev/null", process.id)]).status();
        }
        wait_until("the end of the host", || self.all(number).is_empty());
    }

    /// Everything on this machine that has the lab's name or folder in it.
    pub(crate) fn traces(&self) -> Vec<String> {
        let link = format!("bf-{}", self.name);
        let folder = self.folder().display().to_string();
        let keepers = ["govern", "throttle"].map(|command| format!("lab {command} {} ", self.name));
        let is_trace = |text: &str| {
            text.contains(&link)
                || text.contains(&folder)
                || keepers.iter().any(|keeper| text.contains(keeper))
        };
        let mut traces = Vec::new();
        for place in ["/sys/class/net", "/run/netns"] {
            let names = names(Path::new(place)).into_iter().filter(|name| is_trace(name));
            traces.extend(names.map(|name| format!("{place}/{name}")));
        }
        for process in names(Path::new("/proc")) {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            // A line that ends a lab has its name too, but not its links and folder.
            traces.extend(Some(format!("process {process}: {line}")).filter(|line| is_trace(line)));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        traces.extend(mounts.lines().filter(|line| is_trace(line)).map(str::to_owned));
        let labs = Path::new("/var/lib/bonfire-labs");
        for name in names(labs) {
            let path = labs.join(&name);
            let claims = fs::read_link(&path).is_ok_and(|target| target == Path::new(&self.name));
            traces.extend(Some(path.display().to_string()).filter(|_| claims || name == self.name));
        }
        traces.extend(Some(folder).filter(|_| self.folder().exists()));
        traces
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&self) {
        assert_eq!(self.traces(), Vec::<String>::new());
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A test that failed leaves its lab; this one has nothing to do otherwise.
        let _ = self.dir.bonfire(&format!("lab down --name {}", self.name)).run();
    }
}

impl Process {
    /// None if it has ended.
    fn of(id: String) -> Option<Self> {
        let folder = Path::new("/proc").join(&id);
        let line = String::from_utf8_lossy(&fs::read(folder.join("cmdline")).ok()?).replace('\0', " ");
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        // As it is called here, and then in each namespace of processes that it is in.
        let inside = numbers.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        (!line.is_empty()).then_some(Self { id, line, inside })
    }
}

/// Runs a tool of the system, which must go well.
#[track_caller]
fn run(tool: &str, arguments: &[&str]) {
    let output = Command::new(tool).args(arguments).output().expect("a tool of the system");
    assert!(output.status.success(), "{tool} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

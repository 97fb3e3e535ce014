//! The real program: started, watched against a deadline, and asked what it said.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Far above what any command here takes, also on a machine that is busy with something else.
const DEADLINE: Duration = Duration::from_secs(120);

/// How often something that is awaited is looked for.
const LOOK: Duration = Duration::from_millis(2);

/// A folder for one test, gone with it.
#[derive(Debug)]
pub(crate) struct Dir(tempfile::TempDir);

impl Dir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, content).expect("a file");
        path
    }

    /// The program in this folder with arguments between spaces; what has a space goes into [`Bonfire::arg`].
    pub(crate) fn bonfire(&self, arguments: &str) -> Bonfire {
        self.command(Command::new(env!("CARGO_BIN_EXE_bonfire")), arguments)
    }

    /// The program in this folder, started by another one with such arguments.
    pub(crate) fn bonfire_under(&self, launcher: &str, with: &str, arguments: &str) -> Bonfire {
        let mut command = Command::new(launcher);
        command.args(with.split_whitespace()).arg(env!("CARGO_BIN_EXE_bonfire"));
        self.command(command, arguments)
    }

    fn command(&self, mut command: Command, arguments: &str) -> Bonfire {
        command.current_dir(self.0.path()).args(arguments.split_whitespace());
        // Data sets of whoever runs the tests are not looked at.
        command.env("HOME", self.0.path()).env_remove("XDG_DATA_HOME").env_remove("XDG_CACHE_HOME");
        command.env_remove("XDG_STATE_HOME");
        Bonfire(command)
    }

    /// The names of everything in this folder.
    pub(crate) fn entries(&self) -> Vec<String> {
        names(self.0.path())
    }
}

/// The names in a folder, sorted; none if there is no such folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A command line that is about to be run.
#[derive(Debug)]
pub(crate) struct Bonfire(Command);

impl Bonfire {
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    /// Variables of the environment, `NAME=value` between spaces.
    pub(crate) fn env(mut self, variables: &str) -> Self {
        self.0.envs(variables.split_whitespace().filter_map(|variable| variable.split_once('=')));
        self
    }

    /// More arguments between spaces.
    pub(crate) fn args(mut self, arguments: &str) -> Self {
        self.0.args(arguments.split_whitespace());
        self
    }

    /// `--set` for every line that is not empty.
    pub(crate) fn set(mut self, lines: &str) -> Self {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.0.args(["--set", line]);
        }
        self
    }

    /// The same under other programs and in a shell, which says what to do with the command line: `"$@"`.
    pub(crate) fn under(self, programs: &[&str], script: &str) -> Self {
        let mut line = programs.iter().copied().chain(["sh", "-c", script, "sh"]);
        let mut command = Command::new(line.next().expect("a program"));
        command.args(line).arg(self.0.get_program()).args(self.0.get_args());
        if let Some(folder) = self.0.get_current_dir() {
            command.current_dir(folder);
        }
        for (name, value) in self.0.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self(command)
    }

    pub(crate) fn start(mut self) -> Running {
        self.0.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let line = format!("{:?}", self.0);
        let mut child = self.0.spawn().expect("the program");
        let stdout = Ear::at(child.stdout.take().expect("a pipe"));
        let stderr = Ear::at(child.stderr.take().expect("a pipe"));
        Running { child, line, stdout, stderr, deadline: Instant::now() + DEADLINE }
    }

    /// Starts it with a stdout that nobody reads any more, as `| head -1` leaves it.
    pub(crate) fn start_unread(mut self) -> Running {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        self.0.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let line = format!("{:?}", self.0);
        let mut child = self.0.spawn().expect("the program");
        let stderr = Ear::at(child.stderr.take().expect("a pipe"));
        Running { child, line, stdout: Ear::at(io::empty()), stderr, deadline: Instant::now() + DEADLINE }
    }

    #[track_caller]
    pub(crate) fn run(self) -> Outcome {
        self.start().wait()
    }

    /// Runs it, and it must go well.
    #[track_caller]
    pub(crate) fn succeed(self) -> Outcome {
        self.run().expect(0)
    }
}

/// Reads a pipe to its end beside the test, so that the program never waits for its reader.
#[derive(Debug)]
struct Ear {
    heard: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Ear {
    fn at(mut pipe: impl Read + Send + 'static) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&heard);
        let thread = thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(len @ 1..) = pipe.read(&mut chunk) {
                into.lock().expect("a lock").extend_from_slice(&chunk[..len]);
            }
        });
        Self { heard, thread: Some(thread) }
    }

    fn so_far(&self) -> String {
        String::from_utf8(self.heard.lock().expect("a lock").clone()).expect("UTF-8")
    }

    fn all(&mut self) -> String {
        self.thread.take().expect("a thread").join().expect("all of it");
        self.so_far()
    }
}

/// The program while it runs. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    line: String,
    stdout: Ear,
    stderr: Ear,
    deadline: Instant,
}

impl Running {
    /// Waits for the end; a program that does not come to one is killed, and the test fails.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Outcome {
        self.until("the end", || false);
        self.outcome()
    }

    /// Waits until something holds. False if the program ended without it.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, mut holds: impl FnMut() -> bool) -> bool {
        loop {
            // In this order, so that what the program did last is seen.
            let ended = self.child.try_wait().expect("a status").is_some();
            if holds() {
                return true;
            }
            if ended {
                return false;
            }
            if Instant::now() > self.deadline {
                let _ = self.child.kill();
                panic!("waited too long for {what} of {}", self.line);
            }
            thread::sleep(LOOK);
        }
    }

    /// The first line that it prints, without its end. Panics if it ends without one.
    #[track_caller]
    pub(crate) fn first_line(&mut self) -> String {
        let heard = Arc::clone(&self.stdout.heard);
        let is_there = || heard.lock().expect("a lock").contains(&b'\n');
        assert!(self.until("a line", is_there), "no line from {}:\n{}", self.line, self.stderr.so_far());
        self.stdout.so_far().lines().next().expect("a line").to_owned()
    }

    /// What it said on stderr so far.
    pub(crate) fn said(&self) -> String {
        self.stderr.so_far()
    }

    /// Waits until something stands in what it said on stderr.
    #[track_caller]
    pub(crate) fn until_said(&mut self, fragment: &str) {
        let heard = Arc::clone(&self.stderr.heard);
        let is_there = || String::from_utf8_lossy(&heard.lock().expect("a lock")).contains(fragment);
        assert!(
            self.until(fragment, is_there),
            "{} did not say {fragment:?}:\n{}",
            self.line,
            self.stderr.so_far()
        );
    }

    /// Lets it run for a while, then kills it without a warning, as a power cut would.
    pub(crate) fn kill_after(mut self, time: Duration) -> Outcome {
        let end = Instant::now() + time;
        self.until("its time", || Instant::now() >= end);
        self.child.kill().expect("killed");
        self.outcome()
    }

    /// Of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().expect("a shell");
        assert!(sent.success(), "{kill}");
    }

    fn outcome(&mut self) -> Outcome {
        let status: ExitStatus = self.child.wait().expect("a status");
        let (stdout, stderr) = (self.stdout.all(), self.stderr.all());
        Outcome { line: self.line.clone(), code: status.code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has usually ended, and then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How the program ended and what it said.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub line: String,
    /// `None` if it was killed.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        let Self { line, stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "exit code of {line}\nstdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }

    /// Wrong input: exit code 2, one line of error with this in it, nothing on stdout.
    #[track_caller]
    pub(crate) fn refuse(self, fragment: &str) {
        let Self { line, stdout, stderr, .. } = &self.expect(2);
        let error = stderr.trim_end();
        let is_one_line = error.starts_with("error: ") && error.lines().count() == 1;
        assert!(is_one_line, "one line of error from {line}, not:\n{error}");
        assert!(error.contains(fragment), "{fragment:?} in the error of {line}:\n{error}");
        assert_eq!(stdout, "", "stdout of {line}");
    }

    /// The lines of stdout, each a JSON value.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        json_lines(&self.stdout)
    }
}

/// The lines of a text, each a JSON value.
#[track_caller]
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    text.lines().map(parse).collect()
}

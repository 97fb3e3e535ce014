//! A program on a host that goes on, and what it prints, line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::program::START;
use crate::ssh::Remote;
use crate::trouble::Trouble;

/// A program that runs on a host as long as this is held: it sees the end of its input.
#[derive(Debug)]
pub(crate) struct Session {
    ssh: Child,
    stdin: Option<ChildStdin>,
    stderr: Option<JoinHandle<String>>,
    lines: Receiver<String>,
}

/// What a session has to tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionNews {
    /// Without its end.
    Line(String),
    Nothing,
    /// It is over: the program there has ended, or the connection.
    End,
}

/// So many lines wait for their reader; then the program there waits.
const LINES: usize = 1024;

impl Session {
    /// Starts the program at a place of a host, with a first line of input.
    pub(crate) fn start(
        remote: &Remote,
        place: &str,
        arguments: &[&str],
        first: &str,
    ) -> Result<Self, Trouble> {
        let all: Vec<&str> = [place].into_iter().chain(arguments.iter().copied()).collect();
        let mut ssh = remote.command(START, &all);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut ssh = ssh.spawn().map_err(|error| Trouble::NoSsh(error.to_string()))?;
        let (mut stdin, stdout, stderr) = (ssh.stdin.take(), ssh.stdout.take(), ssh.stderr.take());
        if let Some(stdin) = &mut stdin {
            // One that has ended already is heard of at the end of its output.
            let _ = writeln!(stdin, "{first}").and_then(|()| stdin.flush());
        }
        let (sender, lines) = sync_channel(LINES);
        std::thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).split(b'\n'));
            for line in lines.map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut said = String::new();
            let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut said));
            said
        });
        Ok(Self { ssh, stdin, stderr: Some(stderr), lines })
    }

    /// Gives the program more to read. One that has ended is heard of at the end of its output.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }

    /// Waits for a line, but not longer than this.
    pub(crate) fn next(&self, time: Duration) -> SessionNews {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match self.lines.recv_timeout(time) {
            Ok(line) => SessionNews::Line(line),
            Err(Timeout) => SessionNews::Nothing,
            Err(Disconnected) => SessionNews::End,
        }
    }

    /// How it ended, after [`SessionNews::End`].
    pub(crate) fn end(mut self) -> Result<(), Trouble> {
        drop(self.stdin.take());
        let said = self.stderr.take().and_then(|stderr| stderr.join().ok()).unwrap_or_default();
        match self.ssh.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(Trouble::of_broken(&said)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It has usually ended, and then there is nothing to kill.
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

//! A process that is waited for, but not for ever.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Signal, signal_own_group};

/// How a process ended.
#[derive(Debug)]
pub struct Outcome {
    /// None if it was still running at its deadline, and was killed.
    pub status: Option<ExitStatus>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Outcome {
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// How often an end is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// Runs a command, gives it its input and takes what it says. One that is not done in time is killed.
pub fn run(command: &mut Command, input: impl Read + Send, time: Duration) -> io::Result<Outcome> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let deadline = Instant::now() + time;
    thread::scope(|scope| {
        scope.spawn(move || feed(stdin, input));
        let stdout = scope.spawn(move || all_of(stdout));
        let stderr = scope.spawn(move || all_of(stderr));
        let status = loop {
            match child.try_wait()? {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => {
                    child.kill()?;
                    child.wait()?;
                    break None;
                }
                None => thread::sleep(LOOK),
            }
        };
        let stderr = String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned();
        Ok(Outcome { status, stdout: stdout.join().unwrap_or_default(), stderr })
    })
}

/// Runs a command without input and hands what it prints to a reader as it comes.
pub fn stream<T>(
    command: &mut Command,
    time: Duration,
    read: impl FnOnce(&mut dyn Read) -> T,
) -> io::Result<(T, Outcome)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let (stdout, stderr, leader) = (child.stdout.take(), child.stderr.take(), child.id());
    let (done, is_done) = sync_channel::<()>(0);
    thread::scope(|scope| {
        let stderr = scope.spawn(move || all_of(stderr));
        let watchdog = scope.spawn(move || {
            let is_late = is_done.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if is_late {
                signal_own_group(leader, Signal::Kill);
            }
            is_late
        });
        let result = match stdout {
            Some(mut stdout) => read(&mut stdout),
            None => read(&mut io::empty()),
        };
        drop(done);
        let is_late = watchdog.join().unwrap_or(true);
        let status = child.wait()?;
        let stderr = String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned();
        Ok((result, Outcome { status: (!is_late).then_some(status), stdout: Vec::new(), stderr }))
    })
}

/// One who does not want all of the input says so by its end.
fn feed(pipe: Option<impl Write>, mut input: impl Read) {
    if let Some(mut pipe) = pipe {
        let _ = io::copy(&mut input, &mut pipe);
    }
}

fn all_of(pipe: Option<impl Read>) -> Vec<u8> {
    let mut all = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut all);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, input: &str, time: Duration) -> Outcome {
        run(Command::new("sh").args(["-c", script]), input.as_bytes(), time).expect("a shell")
    }

    #[test]
    fn what_goes_in_and_out_is_whole() {
        let input = "0123456789".repeat(100_000);
        let outcome = sh("cat; echo done >&2", &input, Duration::from_secs(60));
        assert!(outcome.succeeded());
        assert_eq!(outcome.stdout, input.as_bytes());
        assert_eq!(outcome.stderr, "done\n");
        assert_eq!(sh("exit 3", &input, Duration::from_secs(60)).status.and_then(|s| s.code()), Some(3));
    }

    #[test]
    fn one_that_does_not_end_is_ended() {
        let started = Instant::now();
        let outcome = sh("echo begun; exec sleep 60", "", Duration::from_millis(300));
        assert!(outcome.status.is_none() && !outcome.succeeded());
        assert_eq!(outcome.stdout, b"begun\n");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_is_printed_is_read_as_it_comes_and_in_time() {
        let read = |script: &str, time: Duration| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let all = |out: &mut dyn Read| {
                let mut text = String::new();
                out.read_to_string(&mut text).map(|_| text)
            };
            let (text, outcome) = stream(&mut command, time, all).expect("a shell");
            (text.expect("UTF-8"), outcome)
        };
        let (text, outcome) = read("echo one; echo two >&2; exit 3", Duration::from_secs(60));
        assert_eq!((text.as_str(), outcome.stderr.as_str()), ("one\n", "two\n"));
        assert_eq!(outcome.status.and_then(|status| status.code()), Some(3));
        let (text, outcome) = read("echo begun; sleep 60", Duration::from_millis(300));
        assert!(text == "begun\n" && outcome.status.is_none(), "{outcome:?}");
    }
}

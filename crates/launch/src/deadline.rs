//! Programs that are waited for, but not for ever. All waiting of this crate for a program's end is here.
//!
//! A program is in a process group of its own: Ctrl-C at the terminal does not reach it, and what it started itself is
//! killed with it.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Signal, signal_own_group};

/// How a program ended, and what it said.
#[derive(Debug)]
pub(crate) struct ProgramOutcome {
    /// None if it was still running at its deadline, and was killed.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl ProgramOutcome {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs a command, gives it its input and takes what it says. One that is not done in time is killed.
pub(crate) fn run(
    command: &mut Command,
    input: impl Read + Send,
    time: Duration,
) -> io::Result<ProgramOutcome> {
    let (stdout, outcome) = stream(command, input, time, |stdout| all_of(Some(stdout)))?;
    Ok(ProgramOutcome { stdout, ..outcome })
}

/// The same, but `read` gets what the command prints as it comes.
pub(crate) fn stream<T>(
    command: &mut Command,
    input: impl Read + Send,
    time: Duration,
    read: impl FnOnce(&mut dyn Read) -> T,
) -> io::Result<(T, ProgramOutcome)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (leader, deadline) = (child.id(), Instant::now() + time);
    let (done, is_done) = sync_channel::<()>(0);
    thread::scope(|scope| {
        scope.spawn(move || feed(stdin, input));
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
        let status = await_end(&mut child, deadline)?.filter(|_| !is_late);
        let stderr = String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned();
        Ok((result, ProgramOutcome { status, stdout: Vec::new(), stderr }))
    })
}

/// Runs a command whose input and output are settled already. None if it was not done in time, and was killed.
pub(crate) fn wait(command: &mut Command, time: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.process_group(0).spawn()?;
    await_end(&mut child, Instant::now() + time)
}

/// Looks for the end of a process again and again: often at first, so that what ends soon is not kept waiting, and more
/// rarely the longer it takes.
fn await_end(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            signal_own_group(child.id(), Signal::Kill);
            child.wait()?;
            return Ok(None);
        }
        let pause = started.elapsed() / 16;
        thread::sleep(pause.clamp(Duration::from_millis(1), Duration::from_millis(20)));
    }
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

    fn sh(script: &str, input: &str, time: Duration) -> ProgramOutcome {
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
            let (text, outcome) = stream(&mut command, io::empty(), time, all).expect("a shell");
            (text.expect("UTF-8"), outcome)
        };
        let (text, outcome) = read("echo one; echo two >&2; exit 3", Duration::from_secs(60));
        assert_eq!((text.as_str(), outcome.stderr.as_str()), ("one\n", "two\n"));
        assert_eq!(outcome.status.and_then(|status| status.code()), Some(3));
        let (text, outcome) = read("echo begun; sleep 60", Duration::from_millis(300));
        assert!(text == "begun\n" && outcome.status.is_none(), "{outcome:?}");
    }
}

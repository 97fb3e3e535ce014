//! Processes that one command starts on its node, beside itself: `-np 2`.

use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Which of the processes of a node one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sibling {
    /// From 1; the first, which started it, is 0.
    pub place: u32,
    /// The process number of the first.
    pub first: u32,
}

impl FromStr for Sibling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (place, first) = text.split_once(':')?;
            Some(Self { place: place.parse().ok()?, first: first.parse().ok()? })
        };
        read().ok_or_else(|| format!("expected a place and a process, found {text:?}"))
    }
}

/// Another process of this node, on a leash.
#[derive(Debug)]
pub(crate) struct SiblingProcess(Child);

/// How long one may take to end after the first.
const FAREWELL: Duration = Duration::from_secs(10);

impl SiblingProcess {
    /// Starts the program again with the same arguments, at another place.
    pub(crate) fn start(place: u32) -> Result<Self> {
        let program = std::env::current_exe().context("this program cannot find itself")?;
        let mut command = Command::new(program);
        command.arg("--leashed").args(std::env::args_os().skip(1));
        command.arg(format!("--sibling={place}:{}", std::process::id()));
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().map(Self).context("cannot start another process of this node")
    }
}

/// They end with the run; one that does not is ended.
impl Drop for SiblingProcess {
    fn drop(&mut self) {
        let deadline = Instant::now() + FAREWELL;
        while Instant::now() < deadline {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

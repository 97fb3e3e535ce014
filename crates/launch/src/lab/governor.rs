//! The processes that keep the hosts of a lab to their shares of the processor: one that stops and continues theirs,
//! and one that watches over it. Whichever of the two ends, and however, the other continues all that was stopped.
//!
//! The watching one is the lab's governor: it writes down who it is, starts the throttle (`throttle.rs`), and starts it
//! again if it ended by itself. Both end with the lab.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::state::{LabState, entry};
use super::throttle::{release, throttle as keep_shares};
use super::{LabError, file_error};
use crate::host_side::until_end_of;
use crate::process::{ProcessId, Signal};
use crate::whole_file;

const RECORD: &str = "governor.json";
const LOG: &str = "governor.log";
const LOOK: Duration = Duration::from_millis(50);
/// How long a governor may take to start, or to end.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long the throttle may take to end, once it is told.
const THROTTLE_DEADLINE: Duration = Duration::from_secs(2);

/// Starts the governor of a lab, unless there is one, and waits until it governs.
pub(super) fn start(state: &LabState) -> Result<(), LabError> {
    if is_alive(state) {
        return Ok(());
    }
    let path = state.folder().join(LOG);
    let log = File::options().create(true).append(true).open(&path).map_err(file_error(&path))?;
    let mut command = this_program(&["lab", "govern", &state.name]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let failed = |why: &str| LabError::Failed(format!("the governor of the lab `{}` {why}", state.name));
    let mut child = command.spawn().map_err(|error| failed(&format!("cannot be started: {error}")))?;
    let end = Instant::now() + DEADLINE;
    while !is_alive(state) {
        if let Ok(Some(_)) = child.try_wait() {
            let log = fs::read_to_string(&path).unwrap_or_default();
            return Err(failed(&format!(
                "ended; it said last: {}",
                log.lines().next_back().unwrap_or("nothing")
            )));
        }
        if Instant::now() > end {
            return Err(failed("does not start"));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// This program again, in a group of its own, so that Ctrl-C at the terminal where it was started does not end it.
fn this_program(arguments: &[&str]) -> Command {
    // Also when another version has taken its place on disk.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("bonfire").args(arguments).current_dir("/").env_clear().process_group(0);
    command
}

fn record(name: &str) -> PathBuf {
    entry(name).join(RECORD)
}

fn recorded(state: &LabState) -> Option<ProcessId> {
    serde_json::from_slice(&fs::read(record(&state.name)).ok()?).ok()
}

/// Whether the lab has a governor.
pub(super) fn is_alive(state: &LabState) -> bool {
    recorded(state).is_some_and(|process| process.is_alive())
}

/// Ends the governor of a lab, if there is one.
pub(super) fn end(state: &LabState) {
    let Some(process) = recorded(state) else { return };
    let (mut signal, mut end) = (Signal::Term, Instant::now() + DEADLINE);
    while process.is_alive() {
        // One that cannot be told ends by itself when the lab is gone.
        if process.signal(signal).is_err() {
            return;
        }
        if Instant::now() > end {
            if signal == Signal::Kill {
                return;
            }
            (signal, end) = (Signal::Kill, Instant::now() + DEADLINE);
        }
        thread::sleep(LOOK);
    }
}

/// What the governor of a lab does, until it is stopped or the lab is gone.
///
/// # Errors
/// When there is no such lab, or no throttle can be started.
pub fn govern(name: &str, stop: &AtomicBool) -> Result<(), LabError> {
    let gone = || LabError::Unfit(format!("there is no lab `{name}`"));
    let state = LabState::find(name)?.ok_or_else(gone)?;
    let own = ProcessId::of(std::process::id());
    let own = serde_json::to_vec(&own).map_err(|error| LabError::Failed(error.to_string()))?;
    let mut is_recorded = false;
    while !stop.load(Ordering::Relaxed) && LabState::path(name).exists() {
        let started = this_program(&["lab", "throttle", name]).stdin(Stdio::piped()).spawn();
        let mut throttle = started.map_err(|error| LabError::Failed(format!("the throttle: {error}")))?;
        if !is_recorded {
            let path = record(name);
            whole_file::write(&path, &own).map_err(file_error(&path))?;
            is_recorded = true;
        }
        watch(&mut throttle, name, stop)
            .map_err(|error| LabError::Failed(format!("the throttle: {error}")))?;
        release(&state);
        thread::sleep(LOOK);
    }
    let removed = fs::remove_file(record(name));
    removed.or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(file_error(&record(name))(error)),
    })
}

/// Until the throttle has ended: by itself, or because it was told to.
fn watch(throttle: &mut Child, name: &str, stop: &AtomicBool) -> io::Result<()> {
    let mut end = None;
    while throttle.try_wait()?.is_none() {
        match end {
            None if stop.load(Ordering::Relaxed) || !LabState::path(name).exists() => {
                // The end of its input tells it.
                throttle.stdin = None;
                end = Some(Instant::now() + THROTTLE_DEADLINE);
            }
            Some(end) if Instant::now() > end => throttle.kill()?,
            _ => {}
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// What the throttle of a lab does, until it is stopped, its governor is gone, which has the other end of its input, or
/// the lab is.
///
/// # Errors
/// When the state of the lab cannot be read.
pub fn throttle(
    name: &str,
    input: impl io::Read + Send + 'static,
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let gone = until_end_of(input);
    keep_shares(name, &|| stop.load(Ordering::Relaxed) || gone.load(Ordering::Relaxed))
}

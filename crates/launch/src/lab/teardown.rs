//! The way down, from whatever the way up has left.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::network::link_name;
use super::state::LabState;
use super::tool::Tools;
use super::{LabError, emulation, governor};
use crate::process::{ProcessId, Signal};

/// How long a killed process, and what it leaves in the kernel, may take to go.
const DEADLINE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// Removes everything of a lab. What another process is still making is left to it.
pub(super) fn take_down(tools: &Tools, state: &LabState) -> Result<(), LabError> {
    let own = std::process::id();
    if let Some(builder) = state.builder.as_ref().filter(|builder| builder.pid != own)
        && builder.is_alive()
    {
        let message = format!(
            "the lab `{}` is being made by process {}; wait for it, or end it first",
            state.name, builder.pid
        );
        return Err(LabError::Unfit(message));
    }
    governor::end(state);
    let end = Instant::now() + DEADLINE;
    // A second look, because a command of an `up` that was killed may have been under way during the first.
    for _ in 0..2 {
        clear(tools, state, end)?;
    }
    emulation::forget(tools, &state.name)?;
    state.forget()
}

fn clear(tools: &Tools, state: &LabState, end: Instant) -> Result<(), LabError> {
    end_all(&state.processes, end)?;
    loop {
        let (links, namespaces) = left(tools, &state.name)?;
        if links.is_empty() && namespaces.is_empty() {
            return Ok(());
        }
        let removed = remove(tools, &links, &namespaces, end);
        if Instant::now() > end {
            removed?;
            let names = [links, namespaces].concat().join(", ");
            return Err(LabError::Failed(format!("{names} cannot be removed")));
        }
        // What was in the way of one removal, such as another process that removes the same, is gone at the next.
        thread::sleep(LOOK);
    }
}

/// A link goes at once and takes its other end along; with a namespace alone it would go some time later.
fn remove(tools: &Tools, links: &[String], namespaces: &[String], end: Instant) -> Result<(), LabError> {
    for namespace in namespaces {
        let pids = tools.line("ip", &format!("netns pids {namespace}"))?;
        let inside = pids.split_whitespace().filter_map(|pid| ProcessId::of(pid.parse().ok()?));
        end_all(&inside.collect::<Vec<_>>(), end)?;
    }
    for link in links {
        tools.line("ip", &format!("link del {link}"))?;
    }
    for namespace in namespaces {
        tools.line("ip", &format!("netns del {namespace}"))?;
    }
    Ok(())
}

/// The links and namespaces that have the lab's name in theirs.
fn left(tools: &Tools, lab: &str) -> Result<(Vec<String>, Vec<String>), LabError> {
    let bridge = link_name(lab);
    let is_ours = |name: &str| {
        let rest = name.strip_prefix(&bridge);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.parse::<u8>().is_ok())
        })
    };
    let links = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let links =
        links.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_ours(name)).collect();
    let listed = tools.line("ip", "netns list")?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    Ok((links, names.filter(|name| is_ours(name)).map(str::to_owned).collect()))
}

/// Kills processes and waits until they are gone.
fn end_all(processes: &[ProcessId], end: Instant) -> Result<(), LabError> {
    for process in processes {
        // One that ended in this moment is no failure; whether all are gone is looked at below.
        let _ = process.signal(Signal::Kill);
    }
    while let Some(process) = processes.iter().find(|process| process.is_alive()) {
        if Instant::now() > end {
            return Err(LabError::Failed(format!("process {} does not end", process.pid)));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

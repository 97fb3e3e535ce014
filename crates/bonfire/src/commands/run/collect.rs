//! The end of a run: its folder comes here, and nothing of it stays on the hosts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_launch::{Ledger, RunRecord, Trouble, call, call_and_read, parcel};
use bonfire_report::write_json;

use super::super::fleet::{Fleet, Member};
use crate::failure::Failed;
use crate::terminal::say;

/// How long a folder may take on its way: checkpoints of a large model over a slow line.
const FETCHES_FOR: Duration = Duration::from_secs(1800);

const ASKS_FOR: Duration = Duration::from_secs(30);

/// Where the logs of all processes are in a run folder.
pub fn logs_folder(out: &Path) -> PathBuf {
    out.join("logs")
}

/// Fetches the run folder from the head's host and the logs from all, writes `hosts.json`, and removes what is on the hosts.
/// A host that is gone costs its log.
pub fn collect(fleet: &Fleet, record: &mut RunRecord, keep: bool, ledger: &Ledger) -> Result<()> {
    let head = &fleet.members[record.seats[0].host];
    fetch(head, record, "0/run", &record.out).context(Failed(format!(
        "the run folder cannot be fetched from {}; it stays there, and `bonfire attach {}` tries again",
        head.host.name, record.id
    )))?;
    write_json(&record.out.join("hosts.json"), &on_hosts(record)?)
        .with_context(|| Failed("hosts.json cannot be written".to_owned()))?;
    let run = record.id.clone();
    let left = fleet.each(|number, member| {
        for seat in record.seats.iter().filter(|seat| seat.host == number) {
            let aside = logs_folder(&record.out).join(format!(".{}", seat.seat));
            fetch(member, record, &format!("{}/log", seat.seat), &aside)?;
            let target = logs_folder(&record.out).join(format!("{}-{}.log", seat.seat, seat.name));
            let moved = std::fs::rename(aside.join("log"), target).and_then(|()| std::fs::remove_dir(&aside));
            moved.map_err(|error| Trouble::Other(format!("its log cannot be kept here: {error}")))?;
        }
        if !keep {
            call(&member.remote, &record.program, &["host", "remove", &run], io::empty(), ASKS_FOR)?;
        }
        Ok::<(), Trouble>(())
    });
    for (member, left) in fleet.members.iter().zip(left) {
        if let Err(trouble) = left {
            say(&format!(
                "warning: {}: ~/.bonfire/runs/{run} may be left there: {trouble}",
                member.host.name
            ));
        }
    }
    record.is_collected = true;
    ledger.save(record).with_context(|| Failed("the list of runs cannot be written".to_owned()))
}

/// What the run folder tells of the hosts: who they are, what ran on them, by which command, and how it ended.
fn on_hosts(record: &RunRecord) -> Result<serde_json::Value> {
    let mut value = serde_json::to_value(record)?;
    if let Some(fields) = value.as_object_mut() {
        for of_this_machine in ["out", "is_detached", "is_collected"] {
            fields.remove(of_this_machine);
        }
    }
    Ok(value)
}

fn fetch(member: &Member, record: &RunRecord, path: &str, to: &Path) -> Result<(), Trouble> {
    let arguments = ["host", "send", &record.id, path];
    call_and_read(&member.remote, &record.program, &arguments, FETCHES_FOR, |parcel| {
        parcel::unpack(parcel, to)
    })
    .map(|_| ())
}

use std::io;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bonfire_launch::{Host, PATIENCE, RunList, RunRecord, Trouble, call};

use super::fleet::{Fleet, FleetHost};
use super::host::ProcessState;
use super::run::{Show, Watching, collect};
use super::{INTERRUPTED, stop_on_ctrl_c};
use crate::failure::Failed;
use crate::terminal::say;

/// Come back to a run that goes on without a terminal: show it to its end, then fetch its folder.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Also for a run whose terminal was lost: its head has stopped with a checkpoint, and its folder is fetched. \
                  Ctrl-C leaves the run as it is.\n\n\
                  Examples:\n  bonfire attach\n  bonfire attach 2026-11-15T18-02"
)]
pub struct AttachArgs {
    /// The run, or the beginning of its name [default: the newest whose folder is not here yet]
    run: Option<String>,
    /// Leave the run's folder on every host
    #[arg(long)]
    keep: bool,
    /// Show nothing but warnings and errors
    #[arg(long, short)]
    quiet: bool,
    /// Print every event as a line of JSON
    #[arg(long)]
    json: bool,
}

/// The run that was meant, and what its hosts are.
pub fn find(ledger: &RunList, run: Option<&str>) -> Result<(RunRecord, Fleet)> {
    let record = ledger.find(run).map_err(anyhow::Error::msg)?;
    let hosts: Vec<Host> = record.hosts.iter().map(|host| host.host.clone()).collect();
    let fleet = Fleet::of(hosts, PATIENCE)?;
    Ok((record, fleet))
}

const ASKS_FOR: Duration = Duration::from_secs(30);

/// What a host knows of the processes of a run.
pub fn processes(member: &FleetHost, record: &RunRecord) -> Result<Vec<ProcessState>, Trouble> {
    let said = call(&member.remote, &record.program, &["host", "seats", &record.id], io::empty(), ASKS_FOR)?;
    serde_json::from_slice(&said).map_err(|error| Trouble::Other(error.to_string()))
}

pub fn run(args: &AttachArgs) -> Result<ExitCode> {
    let ledger = RunList::open()?;
    let (mut record, fleet) = find(&ledger, args.run.as_deref())?;
    if record.is_collected {
        bail!("run {} is over; its folder is {}", record.id, record.out.display());
    }
    let head = &fleet.members[record.processes[0].host];
    let out_of_reach = || Failed(format!("{}, the head's host, is out of reach", head.host.name));
    head.remote.log_in().with_context(out_of_reach)?;
    let was_alive =
        processes(head, &record).with_context(out_of_reach)?.iter().any(|process| process.is_alive);
    let stop = stop_on_ctrl_c()?;
    let mut show = Show::new(&record.out, args.quiet, args.json);
    let mut watching = Watching::start(head, &record.program, &record.id).with_context(out_of_reach)?;
    while watching.show(&mut show, Duration::from_millis(100)).with_context(out_of_reach)? {
        if stop.load(Ordering::Relaxed) {
            say(&format!("run {} goes on; to come back: bonfire attach {0}", record.id));
            return Ok(ExitCode::from(INTERRUPTED));
        }
    }
    if was_alive && !record.is_detached {
        say("the terminal that started this run fetches its folder");
        return Ok(ExitCode::SUCCESS);
    }
    let others = fleet.each(|_, member| member.remote.log_in());
    for (member, trouble) in fleet.members.iter().zip(others).filter_map(|(m, r)| Some((m, r.err()?))) {
        say(&format!("warning: {}: {trouble}", member.host.name));
    }
    let codes = settle(&fleet, &record);
    for (process, code) in codes {
        record.processes[process].exit_code = code;
    }
    collect(&fleet, &mut record, args.keep, &ledger)?;
    show.finish();
    match record.processes[0].exit_code {
        Some(0) => Ok(ExitCode::SUCCESS),
        Some(code) if code == i32::from(INTERRUPTED) => Ok(ExitCode::from(INTERRUPTED)),
        _ => Err(Failed("the run failed; its logs are in its folder".to_owned()).into()),
    }
}

/// How long a head may take to write its checkpoint, and its nodes to end after it.
const ENDS_FOR: Duration = Duration::from_secs(25);

/// Waits for the end of all processes, and ends those that do not come to one. The exit codes by number.
pub fn settle(fleet: &Fleet, record: &RunRecord) -> Vec<(usize, Option<i32>)> {
    let started = Instant::now();
    let mut was_told = false;
    loop {
        let known = fleet.each(|_, member| processes(member, record).unwrap_or_default());
        let known: Vec<ProcessState> = known.into_iter().flatten().collect();
        let is_late = started.elapsed() > ENDS_FOR;
        if known.iter().all(|process| !process.is_alive) || (was_told && started.elapsed() > 2 * ENDS_FOR) {
            return known.iter().map(|process| (process.number, process.code)).collect();
        }
        if is_late && !was_told {
            was_told = true;
            let end = ["host", "end", &record.id, "--now"];
            fleet
                .each(|_, member| call(&member.remote, &record.program, &end, io::empty(), ASKS_FOR).is_ok());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

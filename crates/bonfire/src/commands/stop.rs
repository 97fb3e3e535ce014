use std::io;
use std::time::Duration;

use anyhow::Result;
use bonfire_launch::{RunList, call};

use super::attach::{find, processes, settle};
use crate::failure::Failed;
use crate::terminal::say;

/// Stop a run: its head writes a checkpoint and ends, and its nodes with it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Only processes that Bonfire started for this run are ended: each is known by its number and its start time.\n\n\
                  Examples:\n  bonfire stop\n  bonfire stop --run 2026-11-15T18-02 --now"
)]
pub struct StopArgs {
    /// The run, or the beginning of its name [default: the newest whose folder is not here yet]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// End all processes at once, without a checkpoint
    #[arg(long)]
    now: bool,
}

const ASKS_FOR: Duration = Duration::from_secs(30);

pub fn run(args: &StopArgs) -> Result<()> {
    let ledger = RunList::open()?;
    let (record, fleet) = find(&ledger, args.run.as_deref())?;
    if record.is_collected {
        say(&format!("run {} is over; its folder is {}", record.id, record.out.display()));
        return Ok(());
    }
    let known = fleet.each(|_, member| {
        member.remote.log_in()?;
        processes(member, &record)
    });
    let alive = known.iter().flatten().flatten().filter(|process| process.is_alive).count();
    let mut end = vec!["host", "end", record.id.as_str()];
    if args.now {
        end.push("--now");
        fleet.each(|_, member| call(&member.remote, &record.program, &end, io::empty(), ASKS_FOR).is_ok());
    } else if alive > 0 {
        // The head tells its nodes.
        end.extend(["--seat", "0"]);
        let head = &fleet.members[record.processes[0].host];
        call(&head.remote, &record.program, &end, io::empty(), ASKS_FOR)
            .map_err(|t| Failed(t.to_string()))?;
    }
    settle(&fleet, &record);
    let troubles: Vec<String> = fleet
        .members
        .iter()
        .zip(&known)
        .filter_map(|(member, known)| Some(format!("{}: {}", member.host.name, known.as_ref().err()?)))
        .collect();
    if !troubles.is_empty() {
        let message = format!(
            "some hosts are out of reach; what runs there ends by itself\n  {}",
            troubles.join("\n  ")
        );
        return Err(Failed(message).into());
    }
    say(&match alive {
        0 => format!("nothing of run {} was running", record.id),
        1 => format!("run {}: 1 process has ended", record.id),
        _ => format!("run {}: {alive} processes have ended", record.id),
    });
    if record.is_detached || alive == 0 {
        say(&format!("its folder is on {}: bonfire attach {}", record.processes[0].name, record.id));
    }
    Ok(())
}

use anyhow::Result;
use bonfire_launch::{RemoteRun, RunList};

use crate::terminal::say;

/// Stop a run: its head writes a checkpoint and ends, and its nodes with it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Only processes that Bonfire started for this run are ended: each is known by its number and its \
                  start time.\n\n\
                  Examples:\n  bonfire stop\n  bonfire stop --run 2026-11-15T18-02 --now"
)]
pub(crate) struct StopArgs {
    /// The run, or the beginning of its name [default: the newest whose folder is not here yet]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// End all processes at once, without a checkpoint
    #[arg(long)]
    now: bool,
}

pub(crate) fn run(args: &StopArgs) -> Result<()> {
    let run = RemoteRun::find(RunList::open()?, args.run.as_deref())?;
    let record = &run.record;
    if record.is_collected {
        say(&format!("run {} is over; its folder is {}", record.id, record.out.display()));
        return Ok(());
    }
    let ended = run.stop(args.now)?;
    say(&match ended {
        0 => format!("nothing of run {} was running", record.id),
        1 => format!("run {}: 1 process has ended", record.id),
        _ => format!("run {}: {ended} processes have ended", record.id),
    });
    if record.is_detached || ended == 0 {
        say(&format!("its folder is on {}: bonfire attach {}", run.head_name(), record.id));
    }
    Ok(())
}

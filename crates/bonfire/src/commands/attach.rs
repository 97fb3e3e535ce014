use std::process::ExitCode;

use anyhow::{Result, bail};
use bonfire_launch::{RemoteRun, RunList};

use super::show::Show;
use super::{INTERRUPTED, stop_on_ctrl_c};
use crate::failure::Failed;
use crate::terminal::{say, warn};

/// Come back to a run that goes on without a terminal: show it to its end, then fetch its folder.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Also for a run whose terminal was lost: its head has stopped with a checkpoint, and its folder is \
                  fetched. Ctrl-C leaves the run as it is.\n\n\
                  Examples:\n  bonfire attach\n  bonfire attach 2026-11-15T18-02"
)]
pub(crate) struct AttachArgs {
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

pub(crate) fn run(args: &AttachArgs) -> Result<ExitCode> {
    let mut run = RemoteRun::find(RunList::open()?, args.run.as_deref())?;
    let id = run.record.id.clone();
    if run.record.is_collected {
        bail!("run {id} is over; its folder is {}", run.record.out.display());
    }
    let was_alive = run.is_head_alive()?;
    let stop = stop_on_ctrl_c()?;
    let mut show = Show::new(&run.record.out, args.quiet, args.json);
    if !run.follow_head(stop, &mut |line| show.line(line))? {
        say(&format!("run {id} goes on; to come back: bonfire attach {id}"));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if was_alive && !run.record.is_detached {
        say("the terminal that started this run fetches its folder");
        return Ok(ExitCode::SUCCESS);
    }
    run.await_ends(&mut warn);
    run.collect(args.keep, &mut warn)?;
    show.finish();
    match run.record.processes[0].exit_code {
        Some(0) => Ok(ExitCode::SUCCESS),
        Some(code) if code == i32::from(INTERRUPTED) => Ok(ExitCode::from(INTERRUPTED)),
        _ => Err(Failed("the run failed; its logs are in its folder".to_owned()).into()),
    }
}

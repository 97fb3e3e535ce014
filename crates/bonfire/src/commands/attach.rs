use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use bonfire_launch::{Inventory, RemoteRun, RunList};

use super::show::Show;
use super::{INTERRUPTED, stop_on_ctrl_c};
use crate::failure::Failed;
use crate::terminal::{say, warn};

/// Come back to a run that goes on without a terminal: show it to its end, then fetch its folder.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Also for a run whose terminal was lost: its head has stopped with a checkpoint, and its folder is \
                  fetched. Ctrl-C leaves the run as it is.\n\n\
                  With --from the run may have been started by another machine: the host of its head knows all that \
                  is needed. From then on it is a run of this machine, too, for `stop` and `logs`.\n\n\
                  Examples:\n  bonfire attach\n  bonfire attach 2026-11-15T18-02\n  bonfire attach --from pi@pi1.local"
)]
pub(crate) struct AttachArgs {
    /// The run, or the beginning of its name [default: the newest whose folder is not here yet]
    run: Option<String>,
    /// The host of the run's head, if another machine has started the run
    #[arg(long, value_name = "HOST")]
    from: Option<String>,
    /// How the hosts are reached from here, where they need more than their addresses: a list as `run` takes it
    #[arg(long, short, value_name = "FILE", requires = "from")]
    inventory: Option<PathBuf>,
    /// Where the run's folder comes to [default: runs/RUN]
    #[arg(long, value_name = "DIR", requires = "from")]
    out: Option<PathBuf>,
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

/// A run of this machine's list, or one that a host knows of.
fn find(args: &AttachArgs) -> Result<RemoteRun> {
    let (list, run) = (RunList::open()?, args.run.as_deref());
    let Some(from) = &args.from else { return Ok(RemoteRun::find(list, run)?) };
    let known = match &args.inventory {
        Some(path) => Inventory::load(path, None)?.hosts,
        None => Vec::new(),
    };
    let named = known.iter().find(|host| host.name == *from).cloned();
    let host = match (named, Inventory::from_list(from)?.hosts.as_slice()) {
        (Some(host), _) => host,
        (None, [host]) => host.clone(),
        (None, _) => bail!("--from: expected one host, found `{from}`"),
    };
    Ok(RemoteRun::from_host(list, &host, run, args.out.clone(), &known)?)
}

pub(crate) fn run(args: &AttachArgs) -> Result<ExitCode> {
    let mut run = find(args)?;
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

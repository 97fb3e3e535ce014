use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bonfire_cluster::report::{Exit, View};

use super::{INTERRUPTED, stop_on_ctrl_c};
use crate::Training;
use crate::failure::Failed;

/// Train on this machine, with all its cores.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bonfire train\n  bonfire train run.yml --workers 2 --out runs/first\n  \
                        bonfire train --set model=mlp --set optimizer.sgd.lr=0.1 --set epochs=3\n  \
                        bonfire train --set 'model.tagger.hidden=64' --set data=grammar\n  \
                        bonfire train --resume runs/first --set epochs=10"
)]
pub struct TrainArgs {
    /// The run file (YAML). Without one, everything has its default: lenet5 on digits
    run_file: Option<PathBuf>,
    /// Change a key of the run file; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// How many workers share every round [default: one a core, at most 8]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// The run folder itself [default: a new one below runs/]
    #[arg(long, value_name = "RUN_DIR")]
    out: Option<PathBuf>,
    /// Go on with the run of a folder, from its newest whole checkpoint
    #[arg(long, value_name = "RUN_DIR", conflicts_with_all = ["run_file", "out", "workers"])]
    resume: Option<PathBuf>,
    /// Show nothing but warnings and errors
    #[arg(long, short)]
    quiet: bool,
    /// Print every event as a line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: TrainArgs) -> Result<ExitCode> {
    let training = match (&args.resume, &args.run_file) {
        (Some(folder), _) => Training::resume(folder)?,
        (None, Some(path)) => Training::of_file(path)?,
        (None, None) => Training::of(""),
    };
    let mut training = training.view(View::choose(args.quiet, args.json, std::io::stderr().is_terminal()));
    for assignment in args.set {
        training = training.set(assignment);
    }
    if let Some(workers) = args.workers {
        training = training.workers(workers);
    }
    if let Some(out) = args.out {
        training = training.out(out);
    }
    let run = training.start()?;
    // Only now: while data are loaded there is nothing to save, and Ctrl-C may simply end the program.
    let stop = stop_on_ctrl_c()?;
    let summary = run.finish(stop).context(Failed("the run failed".to_owned()))?;
    Ok(match summary.exit {
        Exit::Interrupted => ExitCode::from(INTERRUPTED),
        Exit::Done | Exit::TargetReached | Exit::Failed => ExitCode::SUCCESS,
    })
}

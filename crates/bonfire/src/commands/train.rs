use std::process::ExitCode;

use anyhow::{Context, Result};

use super::run_args::{RunArgs, exit_code};
use super::stop_on_ctrl_c;
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
    #[command(flatten)]
    run: RunArgs,
    /// How many workers share every round [default: one a core, at most 8]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    workers: Option<usize>,
}

pub fn run(args: TrainArgs) -> Result<ExitCode> {
    let mut training = args.run.training()?;
    if let Some(workers) = args.workers {
        training = training.workers(workers);
    }
    let run = training.start()?;
    // Only now: while data are loaded there is nothing to save, and Ctrl-C may simply end the program.
    let stop = stop_on_ctrl_c()?;
    let summary = run.finish(stop).context(Failed("the run failed".to_owned()))?;
    Ok(exit_code(&summary))
}

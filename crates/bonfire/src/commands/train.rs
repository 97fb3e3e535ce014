use std::process::ExitCode;
use std::time::Duration;

use crate::foreign::RankPlace;
use anyhow::{Context, Result};
use bonfire_report::PageSource;
use bonfire_run::Ranks;

use super::page_args::{self, PageArgs};
use super::rank_args::RankArgs;
use super::run_args::{RunArgs, exit_code};
use super::{node, prepare, ranks, stop_on_ctrl_c};
use crate::Training;
use crate::failure::Failed;

/// Train on this machine, with all its cores; or as one of the ranks that a launcher started.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bonfire train\n  bonfire train run.yml --workers 2 --out runs/first\n  \
                        bonfire train --set model=mlp --set optimizer.sgd.lr=0.1 --set epochs=3\n  \
                        bonfire train --set 'model.tagger.hidden=64' --set data=grammar\n  \
                        bonfire train --resume runs/first --set epochs=10\n  \
                        bonfire train run.yml --page                     with charts in a browser\n  \
                        mpirun -n 4 bonfire train run.yml               every rank is a worker\n  \
                        srun -n 4 bonfire train run.yml\n  \
                        bonfire train run.yml -n 3 -nr 1 --master 10.0.0.1 --secret PASSPHRASE    on node 1 of 3"
)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    run: RunArgs,
    /// How many workers share every round [default: one a core, at most 8]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    workers: Option<usize>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    ranks: RankArgs,
    #[cfg(feature = "flame")]
    #[command(flatten)]
    flame: super::flame_args::FlameArgs,
    /// Between ranks without TLS: everyone on the network can read and change what is sent
    #[arg(long)]
    insecure: bool,
    /// How many seconds ranks may take to find each other
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wait: u64,
}

pub(crate) fn run(args: TrainArgs) -> Result<ExitCode> {
    #[cfg(feature = "flame")]
    let _flame = args.flame.start()?;
    match args.ranks.place(args.insecure)? {
        Some(place) => as_rank(args, &place),
        None => alone(args),
    }
}

fn alone(args: TrainArgs) -> Result<ExitCode> {
    let listener = args.page.listen()?;
    let is_quiet = args.run.is_quiet();
    let training = training(args.run, args.workers)?;
    prepare::beforehand(&training.settings()?, is_quiet)?;
    let run = training.start()?;
    let _page = page_args::open(listener, PageSource::Run(run.folder().to_owned()));
    // Only now: while data are loaded there is nothing to save, and Ctrl-C may simply end the program.
    let stop = stop_on_ctrl_c()?;
    let summary = bonfire_cluster::local::finish(run, stop).context(Failed("the run failed".to_owned()))?;
    Ok(exit_code(&summary))
}

fn as_rank(args: TrainArgs, place: &RankPlace) -> Result<ExitCode> {
    let rendezvous = args.ranks.rendezvous(place, args.insecure)?;
    let _siblings = args.ranks.start_siblings()?;
    let (wait, is_here) = (Duration::from_secs(args.wait), args.run.is_here());
    let started = Ranks { size: place.size as usize, head_apart: false, mpi: place.launcher.knows_mpi() };
    if place.rank > 0 {
        // Other machines need not have the run file; where it is, what is wrong is known at once.
        if is_here {
            training(args.run, args.workers)?.ranks(started).settings()?;
        }
        let part = ranks::part(place.rank, node::cache().map(|cache| cache.join("data")), wait);
        return ranks::follow(place, &rendezvous, &part, wait, &mut |_| ());
    }
    let training =
        training(args.run, args.workers).inspect_err(|error| rendezvous.refuse(&format!("{error:#}")))?;
    let summary = ranks::lead(training.ranks(started), &rendezvous, wait, false, args.page.listen()?)?;
    Ok(exit_code(&summary))
}

fn training<'a>(run: RunArgs, workers: Option<usize>) -> Result<Training<'a>> {
    let training = run.training()?;
    Ok(match workers {
        Some(workers) => training.workers(workers),
        None => training,
    })
}

mod child;
mod folder;
mod pool;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use bonfire_report::RunFolder;
use bonfire_run::sweep::{Sweep, SweepPlace, SweepTable};

use super::{INTERRUPTED, stop_on_ctrl_c};
use crate::failure::Failed;
use crate::terminal::{print, say};
use folder::SweepFolder;
use pool::{Pool, PoolEnd};

/// Run a run file many times, with other values of some keys, and compare the runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "A sweep file names a run file, what its keys go through, and seeds:\n\n  \
                  run: run.yml                                     # or its keys, here\n  \
                  grid:                                            # every combination\n    \
                  optimizer.sgd.lr: {powers: 2, from: -7, to: -1}  # or a list\n    \
                  workers: [1, 2, 4]\n  \
                  random: {runs: 20, keys: {optimizer.sgd.momentum: {uniform: [0, 0.95]}}}\n  \
                  seeds: 3\n  \
                  best_by: validation_loss                         # a key of summary.json\n  \
                  median_stop: {after: 2}                          # stops those that are worse than the median\n\n\
                  Every run has an ordinary run folder below runs/ of the sweep's. Killed or interrupted, a sweep goes \
                  on with --resume: runs that have ended are not done again, others go on from their checkpoints. In \
                  the end table.csv, table.json and best.yml, a run file, are in the folder, too.\n\n\
                  Examples:\n  bonfire sweep rates.yml\n  bonfire sweep rates.yml --jobs 4 --out sweeps/rates\n  \
                  bonfire sweep scaling.yml -i hosts.ini\n  bonfire sweep --resume sweeps/rates\n\n\
                  Exit codes: 0 all runs have ended; 1 some failed; 2 the input was wrong and nothing was started; \
                  130 interrupted.")]
pub(crate) struct SweepArgs {
    /// The sweep file (YAML)
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    sweep_file: Option<PathBuf>,
    /// The folder of the sweep [default: a new one below sweeps/]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Go on with the sweep of a folder
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// How many runs go on side by side on this machine [default: as many as there are cores for, if the run file says
    /// how many workers one has; otherwise 1]
    #[arg(long, value_name = "N", conflicts_with_all = ["inventory", "hosts", "resume"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Run on the hosts of this list, as `bonfire run` does, one run after the other
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["hosts", "resume"])]
    inventory: Option<PathBuf>,
    /// Run on these hosts: a,b,c:2
    #[arg(long, short = 'H', value_name = "LIST", conflicts_with = "resume")]
    hosts: Option<String>,
    /// Log in as this user where the list names none
    #[arg(long, short, value_name = "USER", conflicts_with = "resume")]
    user: Option<String>,
    /// Show nothing but the table
    #[arg(long, short)]
    quiet: bool,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &SweepArgs) -> Result<ExitCode> {
    let folder = match &args.resume {
        Some(path) => SweepFolder::open(path)?,
        None => create(args)?,
    };
    let stop = stop_on_ctrl_c()?;
    let sweep = &folder.record.sweep;
    if sweep.is_judged_by_test && !args.quiet {
        say(&format!(
            "note: the best is chosen by {}, which is measured on the test half: with `validation` in the run file \
             the test half stays unseen",
            sweep.best_by
        ));
    }
    let mut pool = Pool::new(&folder, args.quiet || args.json)?;
    let end = pool.finish(stop)?;
    let table = SweepTable::of(sweep, pool.ended());
    folder.write_tables(&table, pool.ended())?;
    if args.json {
        print(&table.json(sweep, pool.ended()).to_string())?;
    } else {
        table.lines().iter().try_for_each(|line| print(line))?;
    }
    conclude(args, &folder, &table, end)
}

fn conclude(args: &SweepArgs, folder: &SweepFolder, table: &SweepTable, end: PoolEnd) -> Result<ExitCode> {
    let path = folder.path.display();
    if end == PoolEnd::Interrupted {
        say(&format!("interrupted; to go on: bonfire sweep --resume {path}"));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if let Some(best) = table.best() {
        folder.write_best(best.row)?;
    }
    let failed: usize = table.rows.iter().map(|row| row.failed).sum();
    if !args.quiet && !args.json {
        let best = if table.best().is_some() { ", best.yml" } else { "" };
        say(&format!("written to {path}: table.csv, table.json{best}"));
    }
    if failed > 0 {
        let what = if failed == 1 { "1 run failed".to_owned() } else { format!("{failed} runs failed") };
        return Err(
            Failed(format!("{what}; what they said is in {}", folder.path.join("said").display())).into()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads and checks the sweep, and only then makes its folder.
fn create(args: &SweepArgs) -> Result<SweepFolder> {
    let path = args.sweep_file.as_deref().context("which sweep? name its file")?;
    let origin = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read the sweep file {origin}"))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let load = |name: &str| fs::read_to_string(beside.join(name));
    let hosts = folder::Hosts::of(args.inventory.as_deref(), args.hosts.as_deref())?;
    let place = match &hosts {
        Some(_) => SweepPlace::Hosts,
        None => SweepPlace::Here {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            jobs: args.jobs.map(|jobs| jobs as usize),
        },
    };
    let mut sweep = Sweep::read(&origin, &text, load, place)?;
    if sweep.name.is_empty() {
        sweep.name =
            path.file_stem().map_or_else(|| "sweep".to_owned(), |name| name.to_string_lossy().into());
    }
    let default = || RunFolder::default_path(Path::new("sweeps"), &sweep.name, SystemTime::now());
    let out = args.out.clone().unwrap_or_else(default);
    if fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some()) {
        let how = match out.join(folder::RECORD).exists() {
            true => format!("to go on with the sweep in it: bonfire sweep --resume {}", out.display()),
            false => "choose another folder with --out".to_owned(),
        };
        bail!("{}: is not empty; {how}", out.display());
    }
    SweepFolder::create(&out, sweep, (hosts, args.user.clone()), &text)
}

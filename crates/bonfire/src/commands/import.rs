use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use bonfire_report::{RunFolder, number};
use bonfire_run::{Job, Overrides, Scale, Settings, interchange};

use crate::terminal::print;

/// Make a run folder from weights of PyTorch, to measure them or to go on training.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bonfire import lenet5.pt --set model=lenet5 --set data=mnist --out runs/imported\n  \
                        bonfire import lenet5.safetensors run.yml\n\n\
                        Then:\n  bonfire eval runs/imported\n  bonfire train --resume runs/imported"
)]
pub(crate) struct ImportArgs {
    /// A state dict of torch.save, alone or in a checkpoint, or a safetensors file
    weights: PathBuf,
    /// The run file (YAML): the model that the weights are of, and its data
    run_file: Option<PathBuf>,
    /// Change a key of the run file; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The run folder itself [default: a new one below runs/]
    #[arg(long, value_name = "RUN_DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &ImportArgs) -> Result<()> {
    let (origin, text) = match &args.run_file {
        Some(path) => (path.display().to_string(), read(path)?),
        None => ("run file".to_owned(), String::new()),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let overrides = Overrides { set: &args.set, ..Overrides::default() };
    let settings = Settings::read(&origin, &text, &overrides, cores)?;
    let weights = interchange::read_weights(&args.weights)?;
    let default = || RunFolder::default_path(Path::new("runs"), &settings.file.name, SystemTime::now());
    let out = args.out.clone().unwrap_or_else(default);
    let job = Job::prepare(settings, Scale::Threads)?;
    let layout = job.layout();
    let (tensors, parameters) = (layout.tensors().len(), layout.parameters());
    interchange::import(job, &args.weights, &weights, &out)?;
    print(&format!("{}: {tensors} tensors, {} parameters", out.display(), number::count(parameters as u64)))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read the run file {}", path.display()))
}

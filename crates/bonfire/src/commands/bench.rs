use std::process::Command;

use anyhow::{Context, Result, ensure};
use bonfire_cluster::bench::exchange::{self, ExchangeSpeed, Task, Via};
use bonfire_cluster::bench::mpi::{self, MpiSpeed};
use bonfire_learn::ModelSpec;
use bonfire_report::number;
use bonfire_run::bench::step::{self, StepSpeed};
use bonfire_run::run_file::Compression;
use bonfire_run::{Overrides, Settings};

use crate::terminal::print;

/// Measure how fast this machine is.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BenchCommand {
    /// A training step: forward, backward and update on one fixed random batch
    #[command(
        after_help = "Examples:\n  bonfire bench step\n  bonfire bench step --model lenet5 --threads 2 --json\n  \
                      BONFIRE_INSTRUCTIONS=avx2 bonfire bench step --model lenet5\n\n\
                      It computes with the best instructions of the machine. The environment variable \
                      BONFIRE_INSTRUCTIONS, which holds for\nevery command, asks for others that it has: avx512, \
                      avx2, neon or portable."
    )]
    Step(StepArgs),
    /// An exchange of gradients between processes on this machine: sharded over all, or through a server
    #[command(after_help = "Examples:\n  bonfire bench exchange --workers 4 --bytes 4200000\n  \
                      bonfire bench exchange --via server --workers 8 --bytes 178000 --tls --json\n  \
                      bonfire bench exchange --workers 2 --servers 1 --compression lossless\n  \
                      mpirun -n 2 bonfire bench exchange --engine mpi --bytes 4194304")]
    Exchange(ExchangeArgs),
}

#[derive(Debug, clap::Args)]
struct ExchangeArgs {
    /// How many processes exchange [default: 2; by MPI all that were started]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// How many more processes only sum, for `--via sharded`
    #[arg(long, value_name = "N", default_value_t = 0)]
    servers: usize,
    /// The size of the gradient
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20)]
    bytes: usize,
    /// How they exchange
    #[arg(long, value_enum, default_value_t = ExchangeWay::Sharded)]
    via: ExchangeWay,
    /// What carries the sums of all workers: our own links, or MPI under its launcher
    #[arg(long, value_enum, default_value_t = ExchangeEngine::Grpc)]
    engine: ExchangeEngine,
    /// How the values travel
    #[arg(long, value_enum, default_value_t = Rounding::None)]
    compression: Rounding,
    /// With TLS, as runs have it unless they are insecure
    #[arg(long)]
    tls: bool,
    /// How long to measure
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Print the result as a line of JSON
    #[arg(long)]
    json: bool,
    /// One of the processes: learns the rest from its standard input
    #[arg(long, hide = true)]
    member: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ExchangeWay {
    /// Sums sharded over all of them
    Sharded,
    /// One more process that sums
    Server,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Rounding {
    None,
    /// Packed
    Lossless,
    F16,
    Int8,
    /// The largest hundredth
    #[value(name = "top_k")]
    TopK,
    /// Matrices as two factors of rank 2
    #[value(name = "powersgd")]
    PowerSgd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ExchangeEngine {
    Grpc,
    Mpi,
}

#[derive(Debug, clap::Args)]
struct StepArgs {
    /// A model's name, or all
    #[arg(long, default_value = "all")]
    model: String,
    /// How many threads work on the step: on parts of the batch, or of the products of a model that is mostly weights
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// How many samples a step has [default: the model's own]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// How long to measure
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Print every result as a line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    match &args.command {
        BenchCommand::Step(args) => run_step(args),
        BenchCommand::Exchange(args) if args.member => exchange::take_part(),
        BenchCommand::Exchange(args) if args.engine == ExchangeEngine::Mpi => run_mpi(args),
        BenchCommand::Exchange(args) => run_exchange(args),
    }
}

fn run_exchange(args: &ExchangeArgs) -> Result<()> {
    let via = match args.via {
        ExchangeWay::Sharded => Via::Sharded,
        ExchangeWay::Server => Via::Server,
    };
    let ExchangeArgs { bytes, seconds, tls, servers, .. } = *args;
    let compression = match args.compression {
        Rounding::None => Compression::None,
        Rounding::F16 => Compression::F16,
        Rounding::Int8 => Compression::Int8,
        Rounding::Lossless => Compression::Lossless,
        Rounding::TopK => Compression::TopK(0.01),
        Rounding::PowerSgd => Compression::PowerSgd(2),
    };
    let workers = args.workers.unwrap_or(2);
    let member = || {
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let mut command = Command::new(program);
        command.args(["bench", "exchange", "--member"]);
        Ok(command)
    };
    let speed = exchange::measure(Task { via, workers, servers, bytes, seconds, tls, compression }, member)?;
    print(&if args.json { serde_json::to_string(&speed)? } else { exchange_in_words(&speed) })
}

/// One of the ranks that a launcher of MPI started.
fn run_mpi(args: &ExchangeArgs) -> Result<()> {
    ensure!(
        matches!(args.via, ExchangeWay::Sharded) && !args.tls,
        "--engine mpi is for --via sharded without --tls"
    );
    ensure!(
        args.workers.is_none(),
        "--workers is the number of ranks with --engine mpi: mpirun -n {} bonfire bench exchange --engine mpi",
        args.workers.unwrap_or_default()
    );
    match mpi::measure(args.bytes, args.seconds)? {
        Some(speed) => print(&if args.json { serde_json::to_string(&speed)? } else { mpi_in_words(&speed) }),
        None => Ok(()),
    }
}

fn mpi_in_words(speed: &MpiSpeed) -> String {
    format!(
        "mpi of {}: {} in {:.3} ms, {:.3} GB/s; MPI_Allreduce alone {:.3} ms, {:.3} GB/s: {:.2} of its bandwidth",
        speed.workers,
        number::bytes(speed.bytes as u64),
        speed.ms,
        speed.gb_per_s,
        speed.bare_ms,
        speed.bare_gb_per_s,
        speed.ratio
    )
}

fn exchange_in_words(speed: &ExchangeSpeed) -> String {
    let via = if speed.via == Via::Sharded { "sharded" } else { "server" };
    let tls = if speed.tls { ", TLS" } else { "" };
    let servers = if speed.servers > 0 { format!(" and {} that sum", speed.servers) } else { String::new() };
    format!(
        "{via} of {}{servers}{tls}: {} in {:.3} ms, {:.3} GB/s",
        speed.workers,
        number::bytes(speed.bytes as u64),
        speed.ms,
        speed.gb_per_s
    )
}

fn run_step(args: &StepArgs) -> Result<()> {
    let names = if args.model == "all" { ModelSpec::NAMES.to_vec() } else { vec![args.model.as_str()] };
    let specs: Vec<ModelSpec> = names.into_iter().map(spec).collect::<Result<_>>()?;
    for spec in specs {
        let speed = step::step(&spec, args.batch, args.threads, args.seconds)?;
        print(&if args.json { serde_json::to_string(&speed)? } else { step_in_words(&speed) })?;
    }
    Ok(())
}

/// The model of a name, with the same errors that a run file would get.
fn spec(name: &str) -> Result<ModelSpec> {
    let set = [format!("model={name}")];
    Ok(Settings::read("", "", &Overrides { set: &set, ..Overrides::default() }, 1)?.file.model)
}

fn step_in_words(speed: &StepSpeed) -> String {
    format!(
        "{:10} batch {:>4}  threads {:>2}  {:>9.3} ms a step  {:>11} samples/s  {:>10} parameters",
        speed.model,
        speed.batch,
        speed.threads,
        speed.ms_per_step,
        number::count(speed.samples_per_s as u64),
        number::count(speed.params as u64),
    )
}

//! The command line: one file a command.

mod arguments;
mod attach;
mod bench;
mod check;
mod completions;
mod data;
mod eval;
mod export;
#[cfg(feature = "flame")]
mod flame_args;
mod fleet_args;
mod head;
mod host;
mod import;
mod lab;
mod leash;
mod logs;
mod man;
mod model;
mod node;
mod page;
mod page_args;
mod plan;
mod predict;
mod prepare;
mod rank_args;
mod ranks;
mod report;
mod run;
mod run_args;
mod serve;
mod setup;
mod show;
mod sibling;
mod status;
mod stop;
mod sweep;
mod train;
mod version;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use bonfire_learn::kernels::instructions;
use clap::{Parser, Subcommand};

use crate::failure::is_failure;
use crate::terminal::{ReaderGone, say};

/// Trains neural networks on the computers people already have.
#[derive(Debug, Parser)]
#[command(
    name = "bonfire",
    version,
    after_help = "Examples:\n  \
                  bonfire train                                   lenet5 on the built-in digits, no set-up\n  \
                  bonfire train run.yml --set epochs=10           a run file, with one key changed\n  \
                  bonfire train --set model=tagger --set data=grammar\n  \
                  bonfire train --resume runs/2026-11-15T18-02-11-fashion\n  \
                  bonfire train --page                            with charts in a browser\n  \
                  bonfire sweep rates.yml                         many runs, one table\n  \
                  bonfire page runs                               all runs so far\n  \
                  bonfire prepare reviews.json.gz -o reviews      raw reviews to training data\n  \
                  bonfire head run.yml --listen 0.0.0.0:4711      a run on several machines: prints a ticket\n  \
                  bonfire node bonfire://desk:4711/…              on each of them\n  \
                  mpirun -n 4 bonfire train run.yml               or srun: every rank is a worker\n  \
                  bonfire run -i hosts.ini run.yml                the same over ssh, by one command\n\n\
                  Exit codes: 0 done; 1 the run failed; 2 the input was wrong and nothing was started; \
                  130 interrupted, checkpoint written."
)]
struct Arguments {
    /// End when the input ends, which whoever started this process holds
    #[arg(long, hide = true)]
    leashed: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train on this machine, or as one of the ranks that a launcher started
    Train(train::TrainArgs),
    /// Run on the hosts of an inventory, over ssh
    Run(run::RunOnHostsArgs),
    /// Run a run file many times, with other values of some keys, and compare the runs
    Sweep(sweep::SweepArgs),
    /// Say beforehand what would be fastest on some hosts, and what it would take
    Plan(plan::PlanArgs),
    /// Look at every host of an inventory: can it be reached and used, and how fast is it?
    Check(check::CheckArgs),
    /// Copy this program to every host of an inventory
    Setup(setup::SetupArgs),
    /// Print what the processes of a run on hosts said
    Logs(logs::LogsArgs),
    /// Stop a run on hosts
    Stop(stop::StopArgs),
    /// Come back to a run on hosts, and fetch its folder
    Attach(attach::AttachArgs),
    /// Start a run with workers on other machines, and print the ticket that lets them join
    Head(head::HeadArgs),
    /// Join a run from any machine, and do there what its head says
    Node(node::NodeArgs),
    /// Measure the checkpoints of a run, also while it goes on
    Eval(eval::EvalArgs),
    /// Show how far runs are
    Status(status::StatusArgs),
    /// Show a run, or all runs of a folder, in a browser
    Page(page::PageCommandArgs),
    /// Write a page with charts of a run, or of several
    Report(report::ReportArgs),
    /// Show the layers of a model, their shapes and parameters
    Model(model::ModelArgs),
    /// Say what a trained model says about texts, images or rows
    Predict(predict::PredictArgs),
    /// Answer the same over HTTP
    Serve(serve::ServeArgs),
    /// Write the parameters of a run for PyTorch, or as ONNX
    Export(export::ExportArgs),
    /// Make a run folder from weights of PyTorch
    Import(import::ImportArgs),
    /// Make training data of raw reviews
    Prepare(prepare::PrepareArgs),
    /// List, make and get data sets
    Data(data::DataArgs),
    /// Measure how fast this machine is
    Bench(bench::BenchArgs),
    /// Emulate a cluster on this machine: hosts with ssh and a network between them
    Lab(lab::LabArgs),
    /// Print what a shell needs to complete the arguments of this program
    Completions(completions::CompletionsArgs),
    /// Write the man pages
    Man(man::ManArgs),
    /// Print the version of this program, and what it was built for
    Version(version::VersionArgs),
    #[command(hide = true)]
    Host(host::HostArgs),
}

const FAILED: u8 = 1;
const WRONG_INPUT: u8 = 2;
const INTERRUPTED: u8 = 130;

impl Command {
    /// Whether the command itself computes: not what only reads, writes, or asks other processes to.
    fn computes(&self) -> bool {
        matches!(
            self,
            Self::Train(_)
                | Self::Head(_)
                | Self::Node(_)
                | Self::Eval(_)
                | Self::Bench(_)
                | Self::Plan(_)
                | Self::Predict(_)
                | Self::Serve(_)
        )
    }

    fn run(self) -> Result<ExitCode> {
        if self.computes() {
            instructions::check()?;
        }
        let done = |()| ExitCode::SUCCESS;
        match self {
            Self::Train(args) => train::run(args),
            Self::Run(args) => run::run(&args),
            Self::Sweep(args) => sweep::run(&args),
            Self::Plan(args) => plan::run(&args).map(done),
            Self::Check(args) => check::run(&args).map(done),
            Self::Setup(args) => setup::run(&args).map(done),
            Self::Logs(args) => logs::run(&args).map(done),
            Self::Stop(args) => stop::run(&args).map(done),
            Self::Attach(args) => attach::run(&args),
            Self::Host(args) => host::run(args).map(done),
            Self::Head(args) => head::run(args),
            Self::Node(args) => node::run(&args),
            Self::Eval(args) => eval::run(&args).map(done),
            Self::Status(args) => status::run(&args).map(done),
            Self::Page(args) => page::run(&args).map(done),
            Self::Report(args) => report::run(&args).map(done),
            Self::Model(args) => model::run(&args).map(done),
            Self::Predict(args) => predict::run(&args).map(done),
            Self::Serve(args) => serve::run(&args).map(done),
            Self::Export(args) => export::run(&args).map(done),
            Self::Import(args) => import::run(&args).map(done),
            Self::Prepare(args) => prepare::run(args).map(done),
            Self::Data(args) => data::run(args).map(done),
            Self::Bench(args) => bench::run(&args).map(done),
            Self::Lab(args) => lab::run(args),
            Self::Completions(args) => completions::run(&args).map(done),
            Self::Man(args) => man::run(&args).map(done),
            Self::Version(args) => version::run(&args).map(done),
        }
    }
}

/// Runs the program with its own arguments.
pub fn main() -> ExitCode {
    let Arguments { leashed, command } =
        match Arguments::try_parse_from(arguments::spelt_out(std::env::args_os())) {
            Ok(arguments) => arguments,
            Err(error) => match arguments::of_other_programs(&error) {
                Some(message) => {
                    say(&format!("error: {message}"));
                    return ExitCode::from(WRONG_INPUT);
                }
                None => error.exit(),
            },
        };
    let leash = if leashed { leash::put_on() } else { Ok(()) };
    leash.and_then(|()| command.run()).unwrap_or_else(|error| {
        if error.is::<ReaderGone>() {
            return ExitCode::SUCCESS;
        }
        // The one place where errors are printed.
        say(&format!("error: {error:#}"));
        ExitCode::from(if is_failure(&error) { FAILED } else { WRONG_INPUT })
    })
}

/// Whether this process was asked to stop in order: by Ctrl-C, or by whoever has it on a leash.
static STOP: AtomicBool = AtomicBool::new(false);

/// Set by Ctrl-C; a second one ends the program at once.
fn stop_on_ctrl_c() -> Result<&'static AtomicBool> {
    static PRESSED: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(|| {
        if PRESSED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
        STOP.store(true, Ordering::Relaxed);
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(&STOP)
}

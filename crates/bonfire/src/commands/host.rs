use std::io::{self, BufReader, BufWriter};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use bonfire_cluster::bench::gauge::{GaugeTask, gauge};
use bonfire_cluster::bench::{link, trial};
use bonfire_cluster::plan::figures::HostFigures;
use bonfire_launch::host_side;

use crate::failure::Failed;
use crate::terminal::print;

/// What this program does on a host for the launcher. Nobody types these commands.
#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {
    #[command(subcommand)]
    command: HostCommand,
}

// A run that an earlier version started is asked by these names, too: they stay as they are.
#[derive(Debug, clap::Subcommand)]
enum HostCommand {
    /// Start a process and watch over it: the order is the first line of the input
    Guard,
    /// Print what is written to a file of a process
    Follow {
        run: String,
        number: usize,
        file: PathBuf,
        /// Only what is there now
        #[arg(long)]
        once: bool,
        /// Only what is behind so many bytes
        #[arg(long, default_value_t = 0)]
        offset: u64,
    },
    /// Ask the processes of a run to end, or one of them
    End {
        run: String,
        #[arg(long = "seat")]
        number: Option<usize>,
        #[arg(long)]
        now: bool,
    },
    /// Print what is known of the processes of a run
    #[command(name = "seats")]
    Processes { run: String },
    /// Send what is at a path of a run's folder
    Send {
        run: String,
        path: PathBuf,
        /// Only this file, if it is there; may be given several times
        #[arg(long)]
        only: Vec<PathBuf>,
    },
    /// Take files into a run's folder
    Receive { run: String, path: PathBuf },
    /// Remove what is left of a run
    Remove { run: String },
    /// End and remove what is left of runs that are over
    Sweep { runs: Vec<String> },
    /// Try to connect to each of some addresses
    Reach { addresses: Vec<String> },
    /// Answer those who measure the way to this host
    Answer,
    /// Measure the way to a host that answers
    Measure { address: String },
    /// Measure what the work of a run takes here: the first line of the input says which, and its data follow
    Gauge,
    /// Answer those who measure what the way to this host carries of a run
    AnswerLink,
    /// Measure what the way to a host that answers carries of a run
    MeasureLink,
    /// Take part in some rounds of a run, with other hosts
    Trial,
    /// Become another program, which was brought here with the data of a run
    Tool {
        place: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

pub(crate) fn run(args: HostArgs) -> Result<()> {
    let failed = || Failed("this host failed".to_owned());
    match args.command {
        HostCommand::Guard => {
            host_side::guard(BufReader::new(io::stdin()), &mut io::stdout()).with_context(failed)
        }
        HostCommand::Follow { run, number, file, once, offset } => {
            let out = &mut io::stdout().lock();
            host_side::follow(&run, number, (&file, offset), once, io::stdin(), out).with_context(failed)
        }
        HostCommand::End { run, number, now } => Ok(host_side::end(&run, number, now)?),
        HostCommand::Processes { run } => print_json(&host_side::states(&run)?),
        HostCommand::Send { run, path, only } => {
            let mut out = BufWriter::new(io::stdout().lock());
            let sent = match only.is_empty() {
                true => host_side::send(&run, &path, &mut out),
                false => host_side::send_some(&run, &path, &only, &mut out),
            };
            sent.with_context(failed)
        }
        HostCommand::Receive { run, path } => {
            host_side::receive(&run, &path, io::stdin().lock()).with_context(failed)
        }
        HostCommand::Sweep { runs } => print_json(&host_side::sweep(&runs).with_context(failed)?),
        HostCommand::Remove { run } => host_side::remove_run(&run).with_context(failed),
        HostCommand::Reach { addresses } => print_json(&host_side::try_to_reach(&addresses)),
        HostCommand::Answer => host_side::answer(io::stdin(), &mut io::stdout()).with_context(failed),
        HostCommand::Measure { address } => {
            print_json(&host_side::measure(&address, io::stdin().lock()).with_context(failed)?)
        }
        HostCommand::Gauge => print_json(&gauge_for(io::stdin().lock()).with_context(failed)?),
        HostCommand::AnswerLink => link::answer(io::stdin(), &mut io::stdout()).with_context(failed),
        HostCommand::Trial => {
            trial::take_part(BufReader::new(io::stdin()), &mut io::stdout()).with_context(failed)
        }
        HostCommand::MeasureLink => print_json(&link::measure_from(io::stdin().lock()).with_context(failed)?),
        HostCommand::Tool { place, arguments } => {
            // Only on failure this program is still there.
            let error = std::process::Command::new(&place).args(arguments).exec();
            Err(error).with_context(|| place.display().to_string()).with_context(failed)
        }
    }
}

/// What the work of a run takes here.
fn gauge_for(mut input: impl io::BufRead) -> Result<HostFigures> {
    let mut task = String::new();
    input.read_line(&mut task)?;
    let task: GaugeTask = serde_json::from_str(&task).context("the task is missing")?;
    gauge(&task, &bonfire_data::pack::read(&mut input)?)
}

fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&serde_json::to_string(value)?)
}

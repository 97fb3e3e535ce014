use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_report::number;
use bonfire_run::evaluator::{self, Evaluator, Finding};

use super::stop_on_ctrl_c;
use crate::failure::Failed;
use crate::terminal::say;

/// Measure the checkpoints of a run on its test data.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  bonfire eval runs/first\n  bonfire eval runs/first --watch --json")]
pub struct EvalArgs {
    /// The folder of the run
    run_dir: PathBuf,
    /// Wait for the run to start, and for more checkpoints until it has ended
    #[arg(long)]
    watch: bool,
    /// With --watch: give up when nothing was heard of the run for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// Print every result as a line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &EvalArgs) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut tell = |finding: Finding| print(&finding, args.json);
    if !args.watch {
        return Evaluator::open(&args.run_dir, cores)?.measure_all(&mut tell);
    }
    let (patience, stop) = (Duration::from_secs(args.timeout), stop_on_ctrl_c()?);
    let gave_up = || Failed("gave up watching".to_owned());
    if !args.run_dir.exists() {
        say_waiting(args);
    }
    if !evaluator::await_run(&args.run_dir, patience, stop).with_context(gave_up)? {
        return Ok(());
    }
    Evaluator::open(&args.run_dir, cores)?.watch(patience, stop, &mut tell).with_context(gave_up)
}

/// A name that was mistyped would otherwise look like a run that takes long.
fn say_waiting(args: &EvalArgs) {
    say(&format!("waiting up to {} s for a run in {}", args.timeout, args.run_dir.display()));
}

#[expect(clippy::print_stdout, reason = "the results of the command")]
fn print(finding: &Finding, json: bool) {
    if json {
        println!("{}", serde_json::to_string(finding).unwrap_or_default());
        return;
    }
    match finding {
        Finding::Measured(measured) => {
            let f1 = measured.macro_f1.map_or(String::new(), |f1| format!("  macro-F1 {f1:.3}"));
            println!(
                "round {:>7}  epoch {:>6.2}  test loss {}  accuracy {}{f1}  {} samples in {}",
                number::count(measured.round),
                measured.epoch,
                number::decimal(measured.loss),
                number::percent(measured.accuracy),
                number::count(measured.samples as u64),
                number::seconds(measured.seconds),
            );
        }
        Finding::Missed { round, reason } => {
            println!("round {:>7}  not measured: {reason}", number::count(*round))
        }
    }
}

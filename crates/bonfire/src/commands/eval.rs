use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_report::number;
use bonfire_run::evaluator::{self, Evaluator, Finding};

use super::stop_on_ctrl_c;
use crate::failure::Failed;
use crate::terminal::{print, say};

/// Measure the checkpoints of a run on its test data, or on what it is judged by.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  bonfire eval runs/first\n  bonfire eval runs/first --watch --json\n\n\
                        Exit codes: 0 all checkpoints were measured; 1 some were not; 2 the input was wrong.")]
pub(crate) struct EvalArgs {
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

pub(crate) fn run(args: &EvalArgs) -> Result<()> {
    let mut results = Results { json: args.json, measured: 0, missed: Vec::new(), printed: Ok(()) };
    measure(args, &mut results)?;
    results.verdict()
}

fn measure(args: &EvalArgs, results: &mut Results) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if !args.watch {
        return Evaluator::open(&args.run_dir, cores)?.measure_all(&mut |finding| results.take(&finding));
    }
    let (patience, stop) = (Duration::from_secs(args.timeout), stop_on_ctrl_c()?);
    let gave_up = || Failed("gave up watching".to_owned());
    if !args.run_dir.exists() {
        say_waiting(args);
    }
    if !evaluator::await_run(&args.run_dir, patience, stop).with_context(gave_up)? {
        return Ok(());
    }
    let mut tell = |finding: Finding| {
        results.take(&finding);
        if results.printed.is_err() {
            // Nobody is left to watch for.
            stop.store(true, Ordering::Relaxed);
        }
    };
    Evaluator::open(&args.run_dir, cores)?.watch(patience, stop, &mut tell).with_context(gave_up)
}

/// A name that was mistyped would otherwise look like a run that takes long.
fn say_waiting(args: &EvalArgs) {
    say(&format!("waiting up to {} s for a run in {}", args.timeout, args.run_dir.display()));
}

/// What became of the checkpoints, printed one by one.
struct Results {
    json: bool,
    measured: usize,
    /// The rounds whose checkpoints could not be measured.
    missed: Vec<u64>,
    printed: Result<()>,
}

impl Results {
    fn take(&mut self, finding: &Finding) {
        match finding {
            Finding::Measured(_) => self.measured += 1,
            Finding::Missed { round, .. } => self.missed.push(*round),
        }
        if self.printed.is_ok() {
            self.printed = self.print(finding);
        }
    }

    fn print(&self, finding: &Finding) -> Result<()> {
        print(&if self.json { serde_json::to_string(finding)? } else { in_words(finding) })
    }

    /// An error that names the checkpoints that could not be measured, if there are any.
    fn verdict(self) -> Result<()> {
        self.printed?;
        let rounds: Vec<String> = self.missed.iter().map(u64::to_string).collect();
        let (which, missed) = (rounds.join(", "), rounds.len());
        let named = match missed {
            0 => return Ok(()),
            1 => format!("that of round {which}"),
            _ => format!("those of rounds {which}"),
        };
        let all = self.measured + missed;
        Err(Failed(format!("{missed} of {all} checkpoints could not be measured: {named}")).into())
    }
}

fn in_words(finding: &Finding) -> String {
    match finding {
        Finding::Measured(measured) => {
            let f1 = measured.macro_f1.map_or(String::new(), |f1| format!("  macro-F1 {f1:.3}"));
            let right = match measured.accuracy.is_nan() {
                true => format!("RMSE {}", number::decimal(measured.loss.sqrt())),
                false => format!("accuracy {}", number::percent(measured.accuracy)),
            };
            format!(
                "round {:>7}  epoch {:>6.2}  {} loss {}  {right}{f1}  {} samples in {}",
                number::count(measured.round),
                measured.epoch,
                measured.part,
                number::decimal(measured.loss),
                number::count(measured.samples as u64),
                number::seconds(measured.seconds),
            )
        }
        Finding::Missed { round, reason } => {
            format!("round {:>7}  not measured: {reason}", number::count(*round))
        }
    }
}

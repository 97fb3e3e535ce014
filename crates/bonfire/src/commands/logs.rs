use std::sync::Mutex;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use bonfire_launch::{ProcessPlan, RemoteRun, RunList};

use super::stop_on_ctrl_c;
use crate::terminal::print;

/// Print what the processes of a run said, on every host or on one.
#[derive(Debug, clap::Args)]
#[command(after_help = "While a run goes on, the logs are on its hosts; later they are in its folder.\n\n\
                  Examples:\n  bonfire logs\n  bonfire logs pi3 -f\n  bonfire logs --run 2026-11-15T18-02")]
pub(crate) struct LogsArgs {
    /// The host, as the inventory names it [default: all]
    host: Option<String>,
    /// Go on until the run is over
    #[arg(long, short)]
    follow: bool,
    /// The run, or the beginning of its name [default: the newest, rather one that is not over]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

pub(crate) fn run(args: &LogsArgs) -> Result<()> {
    let run = RemoteRun::find(RunList::open()?, args.run.as_deref())?;
    let is_wanted = |process: &&ProcessPlan| args.host.as_ref().is_none_or(|host| process.name == *host);
    let processes: Vec<&ProcessPlan> = run.record.processes.iter().filter(is_wanted).collect();
    if processes.is_empty() {
        let names: Vec<&str> = run.record.processes.iter().map(|process| process.name.as_str()).collect();
        let host = args.host.as_deref().unwrap_or_default();
        bail!("no process of run {} is on {host}; its hosts: {}", run.record.id, names.join(", "));
    }
    let printer = LogPrinter { prefix: processes.len() > 1, printed: Mutex::new(Ok(())) };
    let stop = stop_on_ctrl_c()?;
    let is_over = || stop.load(Ordering::Relaxed) || printer.has_failed();
    run.read_logs(&processes, !args.follow, &is_over, &|process, line| printer.line(process, line))?;
    printer.end()
}

/// Prints the lines of several processes, which say whose they are, or of one.
struct LogPrinter {
    prefix: bool,
    /// How the last line was printed.
    printed: Mutex<Result<()>>,
}

impl LogPrinter {
    fn line(&self, process: &ProcessPlan, line: &str) {
        let Ok(mut printed) = self.printed.lock() else { return };
        if printed.is_ok() {
            *printed = match self.prefix {
                true => print(&format!("{} {}: {line}", process.number, process.name)),
                false => print(line),
            };
        }
    }

    fn has_failed(&self) -> bool {
        self.printed.lock().is_ok_and(|printed| printed.is_err())
    }

    fn end(self) -> Result<()> {
        self.printed.into_inner().unwrap_or(Ok(()))
    }
}

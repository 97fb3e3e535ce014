use std::fs;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bonfire_launch::{ProcessPlan, RunList, RunRecord, Session, SessionNews, Trouble};

use super::attach::find;
use super::fleet::FleetHost;
use super::run::logs_folder;
use super::stop_on_ctrl_c;
use crate::failure::Failed;
use crate::terminal::print;

/// Print what the processes of a run said, on every host or on one.
#[derive(Debug, clap::Args)]
#[command(after_help = "While a run goes on, the logs are on its hosts; later they are in its folder.\n\n\
                  Examples:\n  bonfire logs\n  bonfire logs pi3 -f\n  bonfire logs --run 2026-11-15T18-02")]
pub struct LogsArgs {
    /// The host, as the inventory names it [default: all]
    host: Option<String>,
    /// Go on until the run is over
    #[arg(long, short)]
    follow: bool,
    /// The run, or the beginning of its name [default: the newest, rather one that is not over]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
}

pub fn run(args: &LogsArgs) -> Result<()> {
    let ledger = RunList::open()?;
    let (record, fleet) = find(&ledger, args.run.as_deref())?;
    let processes: Vec<&ProcessPlan> = record
        .processes
        .iter()
        .filter(|process| args.host.as_ref().is_none_or(|host| process.name == *host))
        .collect();
    if processes.is_empty() {
        let names: Vec<&str> = record.processes.iter().map(|process| process.name.as_str()).collect();
        let host = args.host.as_deref().unwrap_or_default();
        bail!("no process of run {} is on {host}; its hosts: {}", record.id, names.join(", "));
    }
    if record.is_collected {
        return print_collected(&record, &processes);
    }
    let hosts: Vec<usize> =
        (0..fleet.members.len()).filter(|i| processes.iter().any(|s| s.host == *i)).collect();
    let logins = fleet.each_of(&hosts, |_, member| member.remote.log_in());
    let printer = LogPrinter { prefix: processes.len() > 1, printed: Mutex::new(Ok(())) };
    let stop = stop_on_ctrl_c()?;
    let is_over = || stop.load(Ordering::Relaxed) || printer.has_failed();
    let printed = std::thread::scope(|scope| {
        let threads: Vec<_> = processes
            .iter()
            .map(|process| {
                let (member, record) = (&fleet.members[process.host], &record);
                let (printer, is_over) = (&printer, &is_over);
                scope.spawn(move || print_log(member, record, process, args.follow, printer, is_over))
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap_or(Ok(()))).collect::<Vec<_>>()
    });
    let mut troubles: Vec<String> = hosts
        .iter()
        .zip(logins)
        .filter_map(|(&host, login)| Some(format!("{}: {}", fleet.members[host].host.name, login.err()?)))
        .collect();
    if troubles.is_empty() {
        let failed = processes.iter().zip(printed);
        troubles =
            failed.filter_map(|(process, p)| Some(format!("{}: {}", process.name, p.err()?))).collect();
    }
    if troubles.is_empty() { printer.end() } else { Err(Failed(troubles.join("\n  ")).into()) }
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

fn print_log(
    member: &FleetHost,
    record: &RunRecord,
    process: &ProcessPlan,
    follow: bool,
    printer: &LogPrinter,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<(), Trouble> {
    let number = process.number.to_string();
    let mut arguments = vec!["host", "follow", record.id.as_str(), &number, "log"];
    if !follow {
        arguments.push("--once");
    }
    let session = Session::start(&member.remote, &record.program, &arguments, "")?;
    while !is_over() {
        match session.next(Duration::from_millis(100)) {
            SessionNews::Line(line) => printer.line(process, &line),
            SessionNews::Nothing => {}
            SessionNews::End => return session.end(),
        }
    }
    Ok(())
}

fn print_collected(record: &RunRecord, processes: &[&ProcessPlan]) -> Result<()> {
    let printer = LogPrinter { prefix: processes.len() > 1, printed: Mutex::new(Ok(())) };
    for process in processes {
        let path = logs_folder(&record.out).join(format!("{}-{}.log", process.number, process.name));
        let text = fs::read(&path).with_context(|| Failed(format!("cannot read {}", path.display())))?;
        String::from_utf8_lossy(&text).lines().for_each(|line| printer.line(process, line));
    }
    printer.end()
}

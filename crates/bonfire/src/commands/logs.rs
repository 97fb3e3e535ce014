use std::fs;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bonfire_launch::{Heard, Ledger, RunRecord, SeatPlan, Session, Trouble};

use super::attach::find;
use super::fleet::Member;
use super::run::logs_folder;
use super::stop_on_ctrl_c;
use crate::failure::Failed;

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
    let ledger = Ledger::open()?;
    let (record, fleet) = find(&ledger, args.run.as_deref())?;
    let seats: Vec<&SeatPlan> =
        record.seats.iter().filter(|seat| args.host.as_ref().is_none_or(|host| seat.name == *host)).collect();
    if seats.is_empty() {
        let names: Vec<&str> = record.seats.iter().map(|seat| seat.name.as_str()).collect();
        let host = args.host.as_deref().unwrap_or_default();
        bail!("no process of run {} is on {host}; its hosts: {}", record.id, names.join(", "));
    }
    if record.is_collected {
        return print_collected(&record, &seats);
    }
    let hosts: Vec<usize> = (0..fleet.members.len()).filter(|i| seats.iter().any(|s| s.host == *i)).collect();
    let logins = fleet.each_of(&hosts, |_, member| member.remote.log_in());
    let out = Out { prefix: seats.len() > 1, out: Mutex::new(io::stdout()) };
    let is_stopped = stop_on_ctrl_c()?;
    let printed = std::thread::scope(|scope| {
        let threads: Vec<_> = seats
            .iter()
            .map(|seat| {
                let (member, out) = (&fleet.members[seat.host], &out);
                let record = &record;
                scope.spawn(move || {
                    print(member, record, seat, args.follow, out, &|| is_stopped.load(Ordering::Relaxed))
                })
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
        let failed = seats.iter().zip(printed);
        troubles = failed.filter_map(|(seat, p)| Some(format!("{}: {}", seat.name, p.err()?))).collect();
    }
    if troubles.is_empty() { Ok(()) } else { Err(Failed(troubles.join("\n  ")).into()) }
}

/// Where lines go. Those of several processes say whose they are.
struct Out {
    prefix: bool,
    out: Mutex<io::Stdout>,
}

impl Out {
    fn line(&self, seat: &SeatPlan, line: &str) {
        let Ok(mut out) = self.out.lock() else { return };
        // A reader that went away, as `head` does, is no error.
        let _ = if self.prefix {
            writeln!(out, "{} {}: {line}", seat.seat, seat.name)
        } else {
            writeln!(out, "{line}")
        };
    }
}

fn print(
    member: &Member,
    record: &RunRecord,
    seat: &SeatPlan,
    follow: bool,
    out: &Out,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), Trouble> {
    let number = seat.seat.to_string();
    let mut arguments = vec!["host", "follow", record.id.as_str(), &number, "log"];
    if !follow {
        arguments.push("--once");
    }
    let session = Session::start(&member.remote, &record.program, &arguments, "")?;
    while !is_stopped() {
        match session.next(Duration::from_millis(100)) {
            Heard::Line(line) => out.line(seat, &line),
            Heard::Nothing => {}
            Heard::End => return session.end(),
        }
    }
    Ok(())
}

fn print_collected(record: &RunRecord, seats: &[&SeatPlan]) -> Result<()> {
    let out = Out { prefix: seats.len() > 1, out: Mutex::new(io::stdout()) };
    for seat in seats {
        let path = logs_folder(&record.out).join(format!("{}-{}.log", seat.seat, seat.name));
        let text = fs::read(&path).with_context(|| Failed(format!("cannot read {}", path.display())))?;
        String::from_utf8_lossy(&text).lines().for_each(|line| out.line(seat, line));
    }
    Ok(())
}

use std::net::IpAddr;

use anyhow::Result;
use bonfire_launch::{Facts, Host, Program};

use super::fleet::{Answering, Checkup, Fleet, FleetArgs, step_speed};
use super::setup::{own_program, refuse_unusable};
use crate::terminal::{print, say};

/// Look at every host of an inventory, all at the same time.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Speed is measured where this program is already: `bonfire setup` puts it there. The network is measured \
                  from each host to the first, which would be the head.\n\n\
                  Examples:\n  bonfire check -i hosts.ini\n  bonfire check -H pi1,pi2,pi3 --json\n\n\
                  Exit codes: 0 all hosts can be used; 1 some cannot; 2 the input was wrong."
)]
pub struct CheckArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    /// Print a line of JSON for every host
    #[arg(long)]
    json: bool,
}

pub fn run(args: &CheckArgs) -> Result<()> {
    let hosts = args.fleet.hosts()?;
    let program = own_program()?;
    let fleet = Fleet::of(hosts, args.fleet.patience())?;
    let mut checkups = fleet.check(&program, 0);
    measure(&fleet, &program, &mut checkups);
    let lines = match args.json {
        true => checkups.iter().map(serde_json::to_string).collect::<Result<_, _>>()?,
        false => table(&checkups, &program),
    };
    let printed = lines.iter().try_for_each(|line| print(line));
    if !args.json && checkups.iter().any(|checkup| checkup.is_usable && !checkup.has_program) {
        say("some hosts do not have this program yet: `bonfire setup` or `bonfire run` puts it there");
    }
    // The exit code counts also for one who did not read the table.
    refuse_unusable(&checkups).and(printed)
}

/// Speeds of those that have the program; then the ways to the first of them, one after the other, so that none is
/// disturbed by another.
fn measure(fleet: &Fleet, program: &Program, checkups: &mut [Checkup]) {
    measure_steps(fleet, program, checkups);
    let place = program.place();
    let able: Vec<usize> =
        (0..checkups.len()).filter(|&i| checkups[i].is_usable && checkups[i].has_program).collect();
    let Some((&head, others)) = able.split_first() else { return };
    if others.is_empty() {
        return;
    }
    let Some(facts) = &checkups[head].facts else { return };
    let addresses = addresses(&fleet.members[head].host, facts);
    let Ok(answering) = Answering::start(&fleet.members[head], &place) else { return };
    for &other in others {
        let from = &fleet.members[other];
        let mut speeds = addresses.iter().map(|address| answering.measure(from, &place, address));
        match speeds.find(Result::is_ok) {
            Some(speed) => checkups[other].network = speed.ok(),
            None => {
                let checkup = &mut checkups[other];
                let head = &fleet.members[head].host.name;
                checkup.is_usable = false;
                checkup.trouble = Some(format!(
                    "it cannot reach {head} at {}; does a firewall block it?",
                    addresses.join(" or ")
                ));
            }
        }
    }
}

/// How fast every host trains that has the program.
pub fn measure_steps(fleet: &Fleet, program: &Program, checkups: &mut [Checkup]) {
    let place = program.place();
    let able: Vec<usize> =
        (0..checkups.len()).filter(|&i| checkups[i].is_usable && checkups[i].has_program).collect();
    let cores = |number: usize| checkups[number].facts.as_ref().and_then(|facts| facts.cores).unwrap_or(1);
    let speeds = fleet.each_of(&able, |number, member| step_speed(member, &place, cores(number)));
    for (number, speed) in able.into_iter().zip(speeds) {
        match speed {
            Ok(speed) => checkups[number].samples_per_s = Some(speed),
            Err(trouble) => {
                checkups[number].is_usable = false;
                checkups[number].trouble = Some(format!("its speed cannot be measured: {trouble}"));
            }
        }
    }
}

/// Where other hosts may reach this one, the likeliest first. The inventory's address if it is one; then where its sshd
/// was reached, which behind a jump host is its address on the inner network.
pub fn addresses(host: &Host, facts: &Facts) -> Vec<String> {
    let written: Option<IpAddr> = host.address.trim_matches(['[', ']']).parse().ok();
    let mut found: Vec<IpAddr> = [written, facts.reached_at].into_iter().flatten().collect();
    found.dedup();
    // Another machine does not get here by a loopback address; another emulated host on the same machine does.
    found.sort_by_key(IpAddr::is_loopback);
    found
        .iter()
        .map(|ip| match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        })
        .collect()
}

const TITLES: [&str; 10] =
    ["host", "state", "arch", "cores", "memory", "free", "clock", "bonfire", "lenet5", "network"];

fn table(checkups: &[Checkup], program: &Program) -> Vec<String> {
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(checkups.iter().map(|checkup| row(checkup, program)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..TITLES.len()).map(width).collect();
    let line = |row: &[String; 10]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row(checkup: &Checkup, program: &Program) -> [String; 10] {
    let facts = checkup.facts.clone().unwrap_or_default();
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let megabytes = |mb: Option<u64>| known(mb.map(|mb| format!("{:.1} GB", mb as f64 / 1e3)));
    let version = if checkup.has_program { program.version.clone() } else { "-".to_owned() };
    let network =
        checkup.network.map(|speed| format!("{:.2} ms {:.0} MB/s", speed.round_trip_ms, speed.mb_per_s));
    [
        checkup.host.clone(),
        if checkup.is_usable { "ok" } else { "not usable" }.to_owned(),
        known(Some(facts.arch).filter(|arch| !arch.is_empty())),
        known(facts.cores.map(|cores| cores.to_string())),
        megabytes(facts.memory_mb),
        megabytes(facts.free_mb),
        known(facts.clock_offset_s.map(|s| format!("{s:+.2} s"))),
        version,
        known(checkup.samples_per_s.map(|speed| format!("{speed:.0}/s"))),
        known(network),
    ]
}

use anyhow::Result;
use bonfire_launch::Checkup;

use super::fleet_args::{FleetArgs, STEP_SPEED, sweep};
use crate::terminal::{print, say};

/// Look at every host of an inventory, all at the same time.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Speed is measured where this program is already: `bonfire setup` puts it there. The network is \
                  measured from each host to the first, which would be the head.\n\n\
                  Examples:\n  bonfire check -i hosts.ini\n  bonfire check -H pi1,pi2,pi3 --json\n\n\
                  Exit codes: 0 all hosts can be used; 1 some cannot; 2 the input was wrong."
)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    /// Print a line of JSON for every host
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CheckArgs) -> Result<()> {
    let mut fleet = args.fleet.check(args.fleet.hosts()?, 0)?;
    sweep(&fleet, args.json);
    fleet.measure_speeds(STEP_SPEED);
    fleet.measure_network();
    let lines = match args.json {
        true => fleet.checkups().iter().map(serde_json::to_string).collect::<Result<_, _>>()?,
        false => table(fleet.checkups(), &fleet.program().version),
    };
    let printed = lines.iter().try_for_each(|line| print(line));
    if !args.json && !fleet.without_program().is_empty() {
        say("some hosts do not have this program yet: `bonfire setup` or `bonfire run` puts it there");
    }
    // The exit code counts also for one who did not read the table.
    fleet.require_all()?;
    printed
}

const TITLES: [&str; 10] =
    ["host", "state", "arch", "cores", "memory", "free", "clock", "bonfire", "lenet5", "network"];

fn table(checkups: &[Checkup], version: &str) -> Vec<String> {
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(checkups.iter().map(|checkup| row(checkup, version)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..TITLES.len()).map(width).collect();
    let line = |row: &[String; 10]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row(checkup: &Checkup, version: &str) -> [String; 10] {
    let facts = checkup.facts.clone().unwrap_or_default();
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let megabytes = |mb: Option<u64>| known(mb.map(|mb| format!("{:.1} GB", mb as f64 / 1e3)));
    let version = if checkup.has_program { version.to_owned() } else { "-".to_owned() };
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

//! A run that is planned first, and compared with its forecast in the end.

use std::fs;
use std::path::Path;

use anyhow::Result;
use bonfire_cluster::plan::{ForecastLine, Plan};
use bonfire_launch::Host;
use bonfire_report::{Event, read_events};
use bonfire_run::run_file::Distribute;
use serde::Serialize;

use super::super::plan::PlannedRun;
use super::super::plan::measured::measure_fleet;
use super::RunOnHostsArgs;
use crate::terminal::{say, warn};

/// What a plan chose.
pub(super) struct Chosen {
    /// The run file with it.
    pub text: String,
    /// `key=value` that the user laid over it are in it already; these are what else the original left open.
    pub set: Vec<String>,
    /// Those that take part, the head's first.
    pub hosts: Vec<Host>,
    forecast: ForecastLine,
}

/// Where a run folder has its forecast.
const FORECAST: &str = "forecast.json";

/// Measures the hosts, plans, and says what was chosen.
pub(super) fn choose(args: &RunOnHostsArgs, hosts: &[Host]) -> Result<Chosen> {
    let run = PlannedRun::read(args.run_file.as_ref(), &args.set)?;
    let quiet = args.quiet || args.json;
    let mut fleet = args.fleet.check(hosts.to_vec(), 0)?;
    let pool = measure_fleet(&mut fleet, &run, quiet)?;
    let plan = Plan::make(&run.question(), &pool)?;
    let best = plan.best();
    if !quiet {
        plan.left_out.iter().for_each(|why| say(&format!("left out: {why}")));
        let (words, seconds) = (best.candidate.in_words(&pool.hosts), best.seconds);
        say(&format!("chose {words}: {seconds:.2} s an epoch by the plan"));
    }
    let host = |&place: &usize| Host { slots: 1, ..hosts[place].clone() };
    let leaves_open = !run.settings.says("distribute");
    let set = (leaves_open && run.settings.file.distribute == Distribute::Local).then(|| ship(&run, args));
    Ok(Chosen {
        text: best.candidate.write(&run.settings, &run.text)?,
        set: set.flatten().into_iter().collect(),
        hosts: best.candidate.places().iter().map(host).collect(),
        forecast: best.line(&pool.hosts, true),
    })
}

/// Data that hosts cannot make are sent to them.
fn ship(run: &PlannedRun, args: &RunOnHostsArgs) -> Option<String> {
    let is_made = bonfire_data::source::known(&run.settings.file.data.name).is_some_and(|known| known.made);
    (!is_made || args.data.is_some()).then(|| "distribute=ship".to_owned())
}

/// A forecast and what came of it.
#[derive(Debug, Serialize)]
struct Compared<'a> {
    forecast: &'a ForecastLine,
    measured: Option<Measured>,
    /// Which part the run took longer than was forecast; less than 0 if it was faster.
    off: Option<f64>,
}

/// What an epoch took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Measured {
    seconds_per_epoch: f64,
    computing_s: f64,
    wire_s: f64,
    waiting_s: f64,
}

impl Chosen {
    /// Puts the forecast into the run folder, and says how far off it was.
    pub(super) fn compare(&self, folder: &Path, quiet: bool) {
        let measured = read_events(&folder.join("events.jsonl")).ok().and_then(|events| {
            let events: Vec<Event> = events.into_iter().map(|stamped| stamped.event).collect();
            measured(&events)
        });
        let forecast = &self.forecast;
        let measured = measured.map(|measured| measured.of(forecast.workers));
        let off = measured.map(|measured| measured.seconds_per_epoch / forecast.seconds_per_epoch - 1.0);
        let compared = Compared { forecast, measured, off };
        let written = serde_json::to_string_pretty(&compared).map_err(std::io::Error::other);
        if let Err(error) = written.and_then(|text| fs::write(folder.join(FORECAST), text)) {
            warn(format!("the forecast cannot be kept: {error}"));
        }
        if let (Some(measured), false) = (measured, quiet) {
            say(&in_words(forecast, measured));
        }
    }
}

impl Measured {
    /// One machine waits for nobody, and has no wire: all of its time is computing.
    fn of(self, workers: usize) -> Self {
        match workers {
            1 => Self { computing_s: self.seconds_per_epoch, wire_s: 0.0, waiting_s: 0.0, ..self },
            _ => self,
        }
    }
}

/// The median epoch without the first, and where its time went by what the nodes said. None if no epoch ended.
fn measured(events: &[Event]) -> Option<Measured> {
    let mut seconds: Vec<f64> = Vec::new();
    let mut busy: Vec<(u64, f64, f64)> = Vec::new();
    for event in events {
        match event {
            Event::EpochEnded { seconds: of, .. } => seconds.push(*of),
            Event::Nodes { nodes, .. } => {
                for node in nodes {
                    let Some(wait) = node.wait else { continue };
                    match busy.iter_mut().find(|(number, ..)| *number == node.node) {
                        Some((_, sum, count)) => (*sum, *count) = (*sum + 1.0 - wait, *count + 1.0),
                        None => busy.push((node.node, 1.0 - wait, 1.0)),
                    }
                }
            }
            _ => {}
        }
    }
    if seconds.len() > 1 {
        seconds.remove(0);
    }
    seconds.sort_by(f64::total_cmp);
    let seconds_per_epoch = *seconds.get(seconds.len() / 2)?;
    let parts: Vec<f64> = busy.iter().map(|(_, sum, count)| sum / count).collect();
    let mean = if parts.is_empty() { 1.0 } else { parts.iter().sum::<f64>() / parts.len() as f64 };
    let most = parts.iter().copied().fold(mean, f64::max);
    Some(Measured {
        seconds_per_epoch,
        computing_s: mean * seconds_per_epoch,
        wire_s: (1.0 - most) * seconds_per_epoch,
        waiting_s: (most - mean) * seconds_per_epoch,
    })
}

/// Closer than this is as forecast.
const CLOSE: f64 = 0.02;

/// `an epoch took 2.31 s, 8 % more than the 2.14 s of the plan: the wire took 0.12 s more`
fn in_words(forecast: &ForecastLine, measured: Measured) -> String {
    let (was, is) = (forecast.seconds_per_epoch, measured.seconds_per_epoch);
    let off = is / was - 1.0;
    if off.abs() < CLOSE {
        return format!("an epoch took {is:.2} s, as the plan said: {was:.2} s");
    }
    let causes = [
        ("computing", measured.computing_s - forecast.computing_s),
        ("the wire", measured.wire_s - forecast.wire_s),
        ("waiting for slower hosts", measured.waiting_s - forecast.waiting_s),
    ];
    let signed = |&(_, seconds): &(&str, f64)| seconds * off.signum();
    let cause = causes.into_iter().max_by(|a, b| signed(a).total_cmp(&signed(b)));
    let (cause, seconds) = cause.unwrap_or(("computing", 0.0));
    let more = if off > 0.0 { "more" } else { "less" };
    format!(
        "an epoch took {is:.2} s, {:.0} % {more} than the {was:.2} s of the plan: {cause} took {:.2} s {more}",
        off.abs() * 100.0,
        seconds.abs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_report::NodeLine;
    use bonfire_run::run_file::arch::Arch;

    fn forecast(seconds: (f64, f64, f64)) -> ForecastLine {
        let (computing_s, wire_s, waiting_s) = seconds;
        ForecastLine {
            arch: Arch::Allreduce,
            workers: 2,
            servers: 0,
            head_works: true,
            hosts: Vec::new(),
            compression: "none".to_owned(),
            local_steps: 1,
            delay: 0,
            seconds_per_epoch: computing_s + wire_s + waiting_s,
            computing_s,
            wire_s,
            waiting_s,
            bytes_per_round: 0,
            shares: None,
            wh_per_epoch: None,
            best: true,
        }
    }

    fn node(node: u64, wait: f64) -> NodeLine {
        NodeLine {
            node,
            name: String::new(),
            role: String::new(),
            samples_per_s: 1.0,
            wait: Some(wait),
            staleness: None,
            sent_bytes: 0,
            received_bytes: 0,
            late: 0,
        }
    }

    #[test]
    fn what_was_measured_is_compared_part_by_part() {
        let epoch =
            |seconds| Event::EpochEnded { epoch: 1, round: 1, loss: 0.0, accuracy: 0.0, samples: 1, seconds };
        let nodes = Event::Nodes { round: 1, nodes: vec![node(1, 0.5), node(2, 0.7)] };
        let events = [epoch(9.0), nodes, epoch(2.0), epoch(2.0)];
        let found = measured(&events).expect("epochs");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(
            near(found.computing_s, 0.8) && near(found.wire_s, 1.0) && near(found.waiting_s, 0.2),
            "{found:?}"
        );
        assert!(measured(&events[1..2]).is_none());
        let words = in_words(&forecast((0.8, 0.5, 0.2)), found);
        assert_eq!(
            words,
            "an epoch took 2.00 s, 33 % more than the 1.50 s of the plan: the wire took 0.50 s more"
        );
        let words = in_words(&forecast((1.5, 0.0, 0.0)), found.of(1));
        assert_eq!(
            words,
            "an epoch took 2.00 s, 33 % more than the 1.50 s of the plan: computing took 0.50 s more"
        );
        let words = in_words(&forecast((0.8, 1.0, 0.2)), found);
        assert_eq!(words, "an epoch took 2.00 s, as the plan said: 2.00 s");
        let words = in_words(&forecast((1.8, 1.0, 0.2)), found);
        assert_eq!(
            words,
            "an epoch took 2.00 s, 33 % less than the 3.00 s of the plan: computing took 1.00 s less"
        );
    }
}

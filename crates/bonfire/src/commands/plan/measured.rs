//! Hosts that are measured at the work of a run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use bonfire_cluster::bench::trial::{MEASURED_S, TrialTask};
use bonfire_cluster::plan::figures::{HostFigures, Pool, Power};
use bonfire_cluster::plan::{calibrate, even_out, rank_of_factors, trial_parts};
use bonfire_launch::{CheckedFleet, WaySaid};
use bonfire_report::{EnergyLabel, Watts, number};
use serde::de::DeserializeOwned;

use super::super::setup::install;
use super::PlannedRun;
use super::links::{self, Way};
use super::pool::{excerpt, task};
use crate::failure::Failed;
use crate::terminal::say;

/// How long a host may take, slow or busy as it may be.
const TIME: Duration = Duration::from_secs(60);

/// Measures the hosts of a fleet, which must all be usable.
pub(crate) fn measure_fleet(fleet: &mut CheckedFleet, run: &PlannedRun, quiet: bool) -> Result<Pool> {
    fleet.require_all()?;
    install(fleet, quiet);
    fleet.require_all()?;
    let started = Instant::now();
    let mut data = Vec::new();
    bonfire_data::pack::write(&excerpt(run), &mut data)?;
    let input = |hosts: usize| {
        let task = task(run, (1..=hosts).collect(), true);
        // It is a struct of texts and numbers.
        let mut input = serde_json::to_vec(&task).unwrap_or_default();
        input.push(b'\n');
        input.extend_from_slice(&data);
        input
    };
    let mut hosts: Vec<(usize, HostFigures)> = Vec::new();
    for (number, said) in fleet.call_in_turns(&["host", "gauge"], input, TIME) {
        let name = fleet.checkups()[number].host.clone();
        let said = said.map_err(|trouble| anyhow!(trouble.to_string()));
        let mut figures: HostFigures =
            said.and_then(|said| read(&said)).with_context(|| unmeasured(&name))?;
        let facts = fleet.checkups()[number].facts.as_ref();
        figures.memory_mb = facts.and_then(|facts| facts.memory_mb);
        let own = fleet.host(number).watts.map(|watts| Watts { idle: watts.idle, full: watts.full });
        let given = own.or(run.settings.file.watts).map(|watts| Power { watts, label: EnergyLabel::Given });
        figures.power = given.or(figures.power);
        figures.name = name;
        hosts.push((number, figures));
    }
    hosts.sort_by_key(|(number, _)| *number);
    let ways = fleet.call_in_pairs(&["host", "answer-link"], &["host", "measure-link"], TIME);
    let ways = ways.iter().map(|way| read_way(way, fleet)).collect::<Result<Vec<_>>>()?;
    links::take(&mut hosts, &ways);
    let mut hosts: Vec<HostFigures> = hosts.into_iter().map(|(_, figures)| figures).collect();
    even_out(&mut hosts);
    let mut pool = Pool { of: run.name(), hosts, ..Pool::default() };
    try_rounds(fleet, run, &mut pool, &data)?;
    if !quiet {
        let count = number::of(pool.hosts.len() as u64, "host");
        say(&format!("measured {count} in {}", number::seconds(started.elapsed().as_secs_f64())));
    }
    Ok(pool)
}

/// Some real rounds of all hosts together, by which their figures are corrected.
fn try_rounds(fleet: &CheckedFleet, run: &PlannedRun, pool: &mut Pool, data: &[u8]) -> Result<()> {
    let question = run.question();
    let Some(parts) = trial_parts(&question, &pool.hosts) else { return Ok(()) };
    let task = |workers: usize| {
        let rank = rank_of_factors(&run.settings.file);
        // It is a struct of a text and numbers.
        let task = TrialTask { text: run.resolved(), workers, rank, seconds: MEASURED_S };
        serde_json::to_string(&task).unwrap_or_default()
    };
    let more = serde_json::json!({"parts": parts});
    let tried = fleet.call_together(&["host", "trial"], (task, data), (&more, TIME));
    let mut tried = tried.map_err(|trouble| anyhow!(trouble.to_string())).context("rounds of all hosts")?;
    tried.sort_by_key(|(number, _)| *number);
    let trials = tried.iter().map(|(_, said)| read(said.as_bytes())).collect::<Result<Vec<_>>>()?;
    calibrate(&question, pool, &trials);
    Ok(())
}

fn read<T: DeserializeOwned>(said: &[u8]) -> Result<T> {
    Ok(serde_json::from_slice(said)?)
}

fn unmeasured(name: &str) -> Failed {
    Failed(format!("{name} cannot be measured"))
}

fn read_way(way: &WaySaid, fleet: &CheckedFleet) -> Result<Way> {
    let names = fleet.checkups();
    let words = format!("the way from {} to {}", names[way.from].host, names[way.to].host);
    let said = way.said.as_ref().map_err(|trouble| anyhow!(trouble.to_string()));
    let speed = said.and_then(|said| read(said)).with_context(|| unmeasured(&words))?;
    Ok((way.from, way.to, speed))
}

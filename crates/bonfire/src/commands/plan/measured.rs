//! Hosts that are measured at the work of a run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use bonfire_cluster::bench::link::LinkSpeed;
use bonfire_cluster::plan::figures::{HostFigures, LinkFigures, Pool, Power};
use bonfire_launch::{CheckedFleet, WaySaid};
use bonfire_report::{EnergyLabel, number};
use serde::de::DeserializeOwned;

use super::super::setup::install;
use super::PlannedRun;
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
        let task = task(run, (1..=hosts).collect());
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
        let given = run.settings.file.watts.map(|watts| Power { watts, label: EnergyLabel::Given });
        figures.power = given.or(figures.power);
        figures.name = name;
        hosts.push((number, figures));
    }
    hosts.sort_by_key(|(number, _)| *number);
    let ways = fleet.call_in_pairs(&["host", "answer-link"], &["host", "measure-link"], TIME);
    let ways = ways.iter().map(|way| read_way(way, fleet)).collect::<Result<Vec<_>>>()?;
    for (number, figures) in &mut hosts {
        if let Some(link) = link(&ways, *number) {
            figures.link = link;
        }
    }
    if !quiet {
        let count = number::of(hosts.len() as u64, "host");
        say(&format!("measured {count} in {}", number::seconds(started.elapsed().as_secs_f64())));
    }
    Ok(Pool { of: run.name(), hosts: hosts.into_iter().map(|(_, figures)| figures).collect() })
}

fn read<T: DeserializeOwned>(said: &[u8]) -> Result<T> {
    Ok(serde_json::from_slice(said)?)
}

fn unmeasured(name: &str) -> Failed {
    Failed(format!("{name} cannot be measured"))
}

/// A way between two hosts, by their numbers.
type Way = (usize, usize, LinkSpeed);

fn read_way(way: &WaySaid, fleet: &CheckedFleet) -> Result<Way> {
    let names = fleet.checkups();
    let words = format!("the way from {} to {}", names[way.from].host, names[way.to].host);
    let said = way.said.as_ref().map_err(|trouble| anyhow!(trouble.to_string()));
    let speed = said.and_then(|said| read(said)).with_context(|| unmeasured(&words))?;
    Ok((way.from, way.to, speed))
}

/// What a host's link carries, by the ways that it is an end of: what the better of its partners got through.
fn link(ways: &[Way], host: usize) -> Option<LinkFigures> {
    let (mut found, mut seen): (Option<LinkFigures>, f64) = (None, 0.0);
    for &(from, _, speed) in ways.iter().filter(|(from, to, _)| *from == host || *to == host) {
        let (up, down) = if from == host { (speed.up, speed.down) } else { (speed.down, speed.up) };
        let found = found.get_or_insert(LinkFigures {
            up,
            down,
            burst: speed.burst,
            latency_s: speed.latency_s,
            send: speed.send,
            receive: speed.receive,
        });
        if up + down > seen {
            (seen, found.burst) = (up + down, speed.burst);
        }
        found.up = found.up.max(up);
        found.down = found.down.max(down);
        found.latency_s = found.latency_s.min(speed.latency_s);
        if from == host {
            // Measured here, and not by the other side.
            (found.send, found.receive) = (speed.send, speed.receive);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_cluster::plan::figures::FrameFigures;

    #[test]
    fn a_link_is_as_good_as_its_best_partner_lets_it_be() {
        let frame = FrameFigures { frame_s: 0.0, byte_s: 0.0 };
        let speed = |up, down, latency_s| LinkSpeed {
            latency_s,
            up_alone: up,
            down_alone: down,
            up,
            down,
            burst: 0.0,
            send: frame,
            receive: frame,
        };
        let ways = [(0, 1, speed(10.0, 9.0, 0.3)), (2, 0, speed(90.0, 80.0, 0.1))];
        let found = link(&ways, 0).expect("a link");
        assert_eq!((found.up, found.down, found.latency_s), (80.0, 90.0, 0.1));
        assert!(link(&ways, 3).is_none());
    }
}

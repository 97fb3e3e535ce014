//! What would help most: the same run on a pool that is better in one thing.

use anyhow::Result;

use super::figures::{HostFigures, Pool};
use super::{Candidate, Plan, Question};

/// A change, and how many times as fast the best candidate would be.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// `a gigabit switch`
    pub change: String,
    pub times: f64,
}

/// Less is no help.
const HELPS: f64 = 1.1;

/// So many of the fastest candidates are looked at again.
const LOOKED_AT: usize = 6;

/// Ethernet of these speeds can be bought.
const SWITCHES: [(&str, f64); 3] =
    [("a gigabit switch", 1e9), ("a switch of 2.5 Gbit/s", 2.5e9), ("a switch of 10 Gbit/s", 10e9)];

/// What of it is left for payloads.
const PAYLOAD: f64 = 0.93;

/// The change that helps most, if any does.
///
/// # Errors
/// When no candidate can be forecast.
pub fn advice(question: &Question<'_>, pool: &Pool, plan: &Plan) -> Result<Option<Advice>> {
    let mut changes = Vec::new();
    let slowest =
        pool.hosts.iter().map(|host| host.link.up.min(host.link.down)).fold(f64::INFINITY, f64::min);
    let switch = SWITCHES.iter().find(|(_, bits)| bits / 8.0 * PAYLOAD > slowest * 1.5);
    if let Some(&(name, bits)) = switch.filter(|_| pool.hosts.len() > 1) {
        changes.push((name.to_owned(), with_links(&pool.hosts, bits / 8.0 * PAYLOAD)));
    }
    changes.push(("processors twice as fast".to_owned(), with_speed(&pool.hosts, 2.0)));
    if let Some(more) = one_more(&pool.hosts, plan) {
        changes.push(more);
    }
    let now = plan.best().seconds;
    let mut best: Option<Advice> = None;
    for (change, hosts) in changes {
        let candidates = looked_at(question, &hosts, pool.hosts.len(), plan);
        let then = Plan::among(question, &hosts, &candidates)?.best().seconds;
        let times = now / then;
        if times >= HELPS && best.as_ref().is_none_or(|best| times > best.times) {
            best = Some(Advice { change, times });
        }
    }
    Ok(best)
}

/// The fastest candidates; with a host more also their like with it; and those that a better wire makes the fastest.
fn looked_at(question: &Question<'_>, hosts: &[HostFigures], before: usize, plan: &Plan) -> Vec<Candidate> {
    let all = plan.forecasts.iter().map(|forecast| &forecast.candidate);
    let widest = all.clone().filter(|candidate| candidate.workers() == before && !candidate.is_lossy());
    let mut some: Vec<Candidate> = all.clone().take(LOOKED_AT).chain(widest).cloned().collect();
    some.extend(std::iter::once(plan.best().candidate.clone()));
    if hosts.len() > before {
        let grown = some.iter().filter(|candidate| candidate.workers() == before && before > 1).cloned();
        let grown: Vec<Candidate> = grown
            .map(|mut candidate| {
                candidate.hosts.push(before);
                candidate
            })
            .filter(|candidate| candidate.settings(question.settings, question.text).is_ok())
            .collect();
        some.extend(grown);
    }
    some
}

fn with_links(hosts: &[HostFigures], bytes_per_s: f64) -> Vec<HostFigures> {
    let mut hosts = hosts.to_vec();
    for host in &mut hosts {
        host.link.up = host.link.up.max(bytes_per_s);
        host.link.down = host.link.down.max(bytes_per_s);
    }
    hosts
}

fn with_speed(hosts: &[HostFigures], speed: f64) -> Vec<HostFigures> {
    let mut hosts = hosts.to_vec();
    for host in &mut hosts {
        host.work = host.work.at(speed);
        (host.link.send, host.link.receive) = (host.link.send.at(speed), host.link.receive.at(speed));
        host.in_rounds = host.in_rounds.at(speed);
    }
    hosts
}

/// Another host like the fastest, if all are used and none is a machine's second.
fn one_more(hosts: &[HostFigures], plan: &Plan) -> Option<(String, Vec<HostFigures>)> {
    let best = &plan.best().candidate;
    let fastest = hosts.get(*best.hosts.first()?)?;
    if best.workers() < hosts.len() || hosts.len() < 2 {
        return None;
    }
    let name = "one more".to_owned();
    let more = HostFigures { machine: name.clone(), name, ..fastest.clone() };
    let change = format!("one more host like {}", fastest.name);
    Some((change, hosts.iter().cloned().chain([more]).collect()))
}

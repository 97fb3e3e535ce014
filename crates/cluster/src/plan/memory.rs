//! What does not fit into the memory of its hosts.

use std::collections::BTreeMap;

use super::candidate::Candidate;
use super::figures::HostFigures;

/// The hosts that have the memory for a worker, of those that are given; and what is to be said of the others.
pub(super) fn able(order: Vec<usize>, hosts: &[HostFigures]) -> (Vec<usize>, Vec<String>) {
    let mut left_out = Vec::new();
    let is_able = |&host: &usize| {
        let HostFigures { name, memory_mb: Some(has), work, .. } = &hosts[host] else { return true };
        let Some(takes) = work.memory_mb.filter(|takes| *takes > *has as f64) else { return true };
        left_out.push(format!("{name} has {has} MB of memory, and a worker takes {takes:.0} MB"));
        false
    };
    (order.into_iter().filter(is_able).collect(), left_out)
}

/// Why the workers of a candidate that share a machine do not fit into it together, if they do not; with their number.
pub(super) fn misfit(candidate: &Candidate, hosts: &[HostFigures]) -> Option<(usize, String)> {
    let mut machines: BTreeMap<&str, (usize, f64, u64)> = BTreeMap::new();
    for host in candidate.hosts.iter().map(|&host| &hosts[host]) {
        let (Some(has), Some(takes)) = (host.memory_mb, host.work.memory_mb) else { continue };
        let (workers, all, memory) = machines.entry(&host.machine).or_insert((0, 0.0, has));
        (*workers, *all, *memory) = (*workers + 1, *all + takes, has);
    }
    let is_over = |(_, all, has): &&(usize, f64, u64)| *all > *has as f64;
    let (workers, all, has) = machines.values().find(is_over)?;
    Some((*workers, format!("{workers} workers on one machine take {all:.0} MB, and it has {has} MB")))
}

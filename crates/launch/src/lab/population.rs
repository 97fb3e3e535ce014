//! Which processes belong to which host of a lab: those in its network namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::host::LabHost;
use super::state::LabState;

/// A process may enter a namespace some time after it has started, so all are asked now and then, new ones more often.
const ALL_EVERY: u32 = 10;

/// The processes of a lab's hosts.
#[derive(Debug, Default)]
pub(super) struct Population {
    /// The number of each namespace, and of its host.
    namespaces: BTreeMap<u64, usize>,
    /// What all processes of a host end with, and must go on.
    spared: BTreeSet<u32>,
    /// All processes of this machine: how often each was asked, and what it is if it is on a host.
    known: BTreeMap<u32, (u32, Option<Inhabitant>)>,
    scans: u32,
}

/// A process of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inhabitant {
    pub host: usize,
    pub pid: u32,
    /// It must go on, whatever the host has used.
    pub is_sshd: bool,
}

impl Population {
    /// Of these hosts, counted from 1.
    pub(super) fn of(state: &LabState, hosts: impl Iterator<Item = usize>) -> Self {
        let namespace = |number: usize| {
            let path = Path::new("/run/netns").join(LabHost::new(state, number).link);
            Some((fs::metadata(path).ok()?.ino(), number))
        };
        let spared = state.processes.iter().map(|process| process.pid).collect();
        Self { namespaces: hosts.filter_map(namespace).collect(), spared, ..Self::default() }
    }

    /// The processes that are new on a host since the last scan; now and then also those that are not.
    pub(super) fn scan(&mut self) -> Vec<Inhabitant> {
        let is_full = self.scans.is_multiple_of(ALL_EVERY);
        self.scans = self.scans.wrapping_add(1);
        let mut found = Vec::new();
        let mut known = BTreeMap::new();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            let (asked, inhabitant) = match self.known.get(&pid) {
                Some(&(asked, inhabitant)) if !is_full && (is_settled(inhabitant) || asked >= ALL_EVERY) => {
                    (asked, inhabitant)
                }
                before => {
                    let inhabitant = self.inhabitant(pid);
                    found.extend(inhabitant);
                    (before.map_or(1, |(asked, _)| asked.saturating_add(1)), inhabitant)
                }
            };
            known.insert(pid, (asked, inhabitant));
        }
        self.known = known;
        found
    }

    fn inhabitant(&self, pid: u32) -> Option<Inhabitant> {
        let namespace = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino();
        let host = *self.namespaces.get(&namespace)?;
        (!self.spared.contains(&pid)).then(|| Inhabitant { host, pid, is_sshd: is_sshd(pid) })
    }
}

/// Whether it stays what it is: what an sshd has just started is still called so.
fn is_settled(inhabitant: Option<Inhabitant>) -> bool {
    inhabitant.is_some_and(|inhabitant| !inhabitant.is_sshd)
}

/// Whether it is an sshd: a host's own, with which held nobody would get in, or that of a session. One that lets
/// somebody in has a filter of system calls, and is killed by it when it is continued.
fn is_sshd(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("sshd"))
}

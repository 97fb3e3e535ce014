//! Hostfiles of OpenMPI and MPICH, and plain lists, which are hostfiles without slots.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use super::Host;
use super::connection::slots;
use super::error::{InventoryError, short};
use super::pattern::{check_address, is_ipv6};

/// Ports of ssh begin here, apart from its own; slots end far below.
const PORTS: std::ops::RangeFrom<u32> = 1024..;
const SSH_PORT: u32 = 22;

/// Whether a hostfile has this key.
pub(super) fn is_key(key: &str) -> bool {
    matches!(key, "slots" | "max_slots" | "max-slots")
}

/// Reads one host a line. A host that is named again takes the slots of both lines, as with MPI.
pub(super) fn read(path: &Path, text: &str) -> Result<Vec<Host>, InventoryError> {
    let bare = |line: &'_ str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let lines: Vec<(usize, String)> =
        text.lines().map(bare).enumerate().map(|(i, line)| (i + 1, line)).collect();
    let has_keys = lines.iter().any(|(_, line)| line.contains('='));
    let mut hosts = Hosts::default();
    for (number, line) in lines.iter().filter(|(_, line)| !line.is_empty()) {
        let host = host(line, has_keys).and_then(|host| hosts.add(host));
        host.map_err(|message| InventoryError::of_line(path, *number, message))?;
    }
    if hosts.hosts.is_empty() {
        return Err(InventoryError::of_file(path, "has no hosts; write one a line"));
    }
    Ok(hosts.hosts)
}

/// More than any list has.
const MAX_HOSTS: usize = 100_000;

/// Hosts in the order in which they were named first.
#[derive(Default)]
pub(super) struct Hosts {
    pub hosts: Vec<Host>,
    places: HashMap<String, usize>,
}

impl Hosts {
    pub(crate) fn add(&mut self, host: Host) -> Result<(), String> {
        if let Some(&place) = self.places.get(&host.name) {
            let known = &mut self.hosts[place];
            known.slots = slots(&(known.slots + host.slots).to_string())?;
            return Ok(());
        }
        if self.hosts.len() == MAX_HOSTS {
            return Err(format!("more than {MAX_HOSTS} hosts up to here"));
        }
        self.places.insert(host.name.clone(), self.hosts.len());
        self.hosts.push(host);
        Ok(())
    }
}

/// A line without the blanks around `=`, which OpenMPI allows.
pub(super) fn close_up(line: &str) -> String {
    line.split('=').map(str::trim).collect::<Vec<_>>().join("=")
}

fn host(line: &str, has_keys: bool) -> Result<Host, String> {
    let line = close_up(line);
    let mut words = line.split_whitespace();
    let entry = words.next().unwrap_or_default();
    let (name, number) = split_number(entry);
    let mut host = named(name)?;
    match number {
        Some(text) if has_keys => {
            return Err(format!("write `{name} slots={text}` as on other lines, not `{}`", short(entry)));
        }
        Some(text) => host.slots = unambiguous(name, text)?,
        None => {}
    }
    let (mut given, mut most) = (None, None);
    let (has_address, mut has_name) = (name.parse::<IpAddr>().is_ok(), false);
    for word in words {
        match word.split_once('=') {
            // The first name behind an address is what the host is called; others are for other programs.
            None if has_address && check_address(word).is_ok() && !word.contains('@') => {
                if !has_name {
                    word.clone_into(&mut host.name);
                }
                has_name = true;
            }
            Some(("slots", value)) => given = Some(slots(value)?),
            Some(("max_slots" | "max-slots", value)) => most = Some(slots(value)?),
            _ => {
                let word = short(word);
                return Err(format!(
                    "expected one host a line, with slots=N behind it if it takes several nodes, found `{word}`"
                ));
            }
        }
    }
    host.slots = given.unwrap_or(host.slots);
    match most {
        Some(most) if most < host.slots => Err(format!("slots={} is more than max_slots={most}", host.slots)),
        _ => Ok(host),
    }
}

/// `host:2` as a host and what stands behind the colon. An address of IPv6 has no number behind it.
pub(super) fn split_number(entry: &str) -> (&str, Option<&str>) {
    match entry.split_once(':') {
        Some((name, number)) if !is_ipv6(entry) => (name, Some(number)),
        _ => (entry, None),
    }
}

/// A number that is likely a port is not taken for slots.
fn unambiguous(name: &str, text: &str) -> Result<usize, String> {
    let number = text.parse().unwrap_or(0);
    if number == SSH_PORT || PORTS.contains(&number) {
        return Err(format!(
            "is `:{text}` a port or the number of slots? Write `{name} ansible_port={text}` or `{name} slots={text}`"
        ));
    }
    slots(text)
}

/// A host by its name alone, with the user before `@`.
pub(super) fn named(text: &str) -> Result<Host, String> {
    check_address(text)?;
    let mut host = Host::at(text);
    if let Some((user, address)) = text.rsplit_once('@') {
        (host.user, host.address) = (Some(user.to_owned()), address.to_owned());
    }
    Ok(host)
}

//! `-H a,b,c:2`, as `mpirun` has it.

use super::Host;
use super::connection::slots;
use super::error::InventoryError;
use super::hostfile::{Hosts, named, split_number};

/// Reads hosts between commas. A host that is named twice takes the slots of both.
pub(super) fn read(text: &str) -> Result<Vec<Host>, InventoryError> {
    let mut hosts = Hosts::default();
    for entry in text.split(',').map(str::trim) {
        let host = host(entry).and_then(|host| hosts.add(host));
        host.map_err(|message| {
            InventoryError::new(format!(
                "hosts `{}`: {message}; write hosts as `a,b,user@c:2`",
                super::error::short(text)
            ))
        })?;
    }
    Ok(hosts.hosts)
}

/// An address of IPv6 may stand in brackets, so that a number can follow.
fn host(entry: &str) -> Result<Host, String> {
    let (name, number) =
        match entry.split_once('[').and_then(|(user, rest)| Some((user, rest.split_once(']')?))) {
            Some((user, (address, rest))) => (format!("{user}{address}"), rest.strip_prefix(':')),
            None => {
                let (name, number) = split_number(entry);
                (name.to_owned(), number)
            }
        };
    let mut host = named(&name)?;
    if let Some(number) = number {
        host.slots = slots(number)?;
    }
    Ok(host)
}

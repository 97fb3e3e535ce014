//! The machines that a user has.

use std::path::PathBuf;

/// A machine of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// What the inventory calls it: a name for people, and for ssh if there is no address.
    pub name: String,
    /// Where ssh finds it: an address, or a name of `~/.ssh/config`.
    pub address: String,
    pub user: Option<String>,
    pub port: Option<u16>,
    /// The file of the private key.
    pub key: Option<PathBuf>,
    /// How many nodes it may take.
    pub slots: usize,
}

/// Hosts, in the order in which they get their roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    pub hosts: Vec<Host>,
}

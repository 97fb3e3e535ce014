//! The machines that a user has, from the lists that people already keep.
//!
//! A file is recognised by what stands in it, never by its name:
//!
//! | what stands in it | it is |
//! |---|---|
//! | begins with `[{` or `{"Reservations"` | JSON of a cloud's command line: AWS, Google or Hetzner |
//! | begins with `{` | JSON: what `ansible-inventory --list` prints, or Ansible's YAML spelled as JSON |
//! | a `[section]` | Ansible INI |
//! | begins with `---` or with a word that ends in `:` | Ansible YAML |
//! | a range such as `pi[1:7]`, or any `key=value` but `slots` | Ansible INI without groups |
//! | `slots=`, `max_slots=`, or `host:2` | an MPI hostfile, of OpenMPI or of MPICH |
//! | one word a line | a plain list of addresses |
//! | an address and a name a line | the same with names, as `/etc/hosts` has it |
//!
//! `host:22` is a port to Ansible and a number of processes to MPICH. With a section, a range or an `ansible_` variable
//! in the file it is a port. Without, `host:2` is slots, and `host:22` or a number above 1023, which are likely ports,
//! are refused.
//!
//! In Ansible's formats, `group_vars` and `host_vars` beside the file are read too. What counts is how to reach a host
//! (`ansible_host`, `ansible_user`, `ansible_port`, `ansible_ssh_private_key_file`, `ansible_ssh_common_args` and their
//! older names), `slots` and `watts` (`2.7,6.4`, or `{idle: 2.7, full: 6.4}`); all other variables are Ansible's own
//! business.
//!
//! The way through: `format.rs` recognises; `ini.rs`, `yaml.rs` and `listing.rs`, the last two over `document.rs`, fill
//! one `graph.rs`; `connection.rs` makes hosts of it. `hostfile.rs`, `cloud.rs` and `host_list.rs` make hosts at once.

mod cloud;
mod connection;
mod document;
mod error;
mod format;
mod graph;
mod host_list;
mod hostfile;
mod ini;
mod listing;
mod pattern;
#[cfg(test)]
mod tests;
mod variables;
mod vars_folder;
mod watts;
mod words;
mod yaml;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use error::InventoryError;
pub use watts::HostWatts;

use format::InventoryFormat;
use graph::Graph;

/// More than any list of hosts that a person has, and little enough to read at once.
const MAX_BYTES: u64 = 8 << 20;

/// A machine of an inventory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// What it takes, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<HostWatts>,
    /// What else ssh is to be told, before the address.
    pub ssh_args: Vec<String>,
}

impl Host {
    /// A host of which nothing is known but where it is.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self {
            name: address.to_owned(),
            address: address.to_owned(),
            user: None,
            port: None,
            key: None,
            slots: 1,
            watts: None,
            ssh_args: Vec::new(),
        }
    }
}

/// Hosts, in the order in which they get their roles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    pub hosts: Vec<Host>,
}

impl Inventory {
    /// Reads the hosts of one group of a file, or of stdin if the path is `-`. Without a group: those of `pool` if
    /// there is such a group, otherwise all.
    ///
    /// # Errors
    /// When the file cannot be read or understood, the group is not there, no host is left, or a key file is missing.
    pub fn load(path: &Path, group: Option<&str>) -> Result<Self, InventoryError> {
        match path.to_str() {
            Some("-") => Self::parse(Path::new("stdin"), &read_stdin()?, group),
            _ => Self::parse(path, &read(path)?, group),
        }
    }

    /// Reads the hosts of one group of a text, which errors call `path`.
    ///
    /// # Errors
    /// As [`Inventory::load`].
    pub fn parse(path: &Path, text: &str, group: Option<&str>) -> Result<Self, InventoryError> {
        let format = format::recognise(path, text)?;
        let graph = match format {
            InventoryFormat::Ini => ini::read(path, text)?,
            InventoryFormat::Yaml => yaml::read(path, text)?,
            InventoryFormat::Hostfile => return ungrouped(path, hostfile::read(path, text)?, group),
            InventoryFormat::Cloud => return ungrouped(path, cloud::read(path, text)?, group),
        };
        from_graph(path, graph, group)
    }

    /// Reads a list as `mpirun -H` takes it: `a,b,c:2,user@d`. A number behind a colon is slots.
    ///
    /// # Errors
    /// When an entry is no host, or there is none.
    pub fn from_list(text: &str) -> Result<Self, InventoryError> {
        host_list::read(text).map(|hosts| Self { hosts })
    }
}

fn from_graph(path: &Path, mut graph: Graph, group: Option<&str>) -> Result<Inventory, InventoryError> {
    graph.reconcile();
    vars_folder::read(path, &mut graph)?;
    let chosen = match group {
        Some(name) => graph.find(name).ok_or_else(|| {
            InventoryError::of_file(path, format!("has no group `{name}`{}", graph.group_hint(name)))
        })?,
        None => graph.find("pool").unwrap_or(Graph::ALL),
    };
    let hosts = graph.hosts_of(chosen);
    if hosts.is_empty() {
        let message = match graph.group_name(chosen) {
            "all" => "has no hosts".to_owned(),
            name => format!("has no hosts in the group `{name}`"),
        };
        return Err(InventoryError::of_file(path, message));
    }
    let host = |id| connection::host(path, &graph, id);
    Ok(Inventory { hosts: hosts.into_iter().map(host).collect::<Result<_, _>>()? })
}

/// Lists without groups have one group still: `all`.
fn ungrouped(path: &Path, hosts: Vec<Host>, group: Option<&str>) -> Result<Inventory, InventoryError> {
    match group {
        None | Some("all") => Ok(Inventory { hosts }),
        Some(name) => {
            let message =
                format!("is a list without groups, so there is no group `{name}`; leave the group out");
            Err(InventoryError::of_file(path, message))
        }
    }
}

/// What comes over stdin, such as what another command prints.
///
/// # Errors
/// When it is no text, or unreasonably long.
fn read_stdin() -> Result<String, InventoryError> {
    let (path, mut bytes) = (Path::new("stdin"), Vec::new());
    let read = std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| InventoryError::of_file(path, format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(InventoryError::of_file(
            path,
            format!("expected at most {} MiB of hosts", MAX_BYTES >> 20),
        ));
    }
    in_utf8(path, bytes)
}

/// The text of a file, without a byte order mark.
fn read(path: &Path) -> Result<String, InventoryError> {
    let wrong = |message: String| InventoryError::of_file(path, message);
    let unreadable = |error: std::io::Error| wrong(format!("cannot be read: {error}"));
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(wrong("is a folder; name one file of it".to_owned()));
    }
    if metadata.len() > MAX_BYTES {
        return Err(wrong(format!("expected at most {} MiB of hosts", MAX_BYTES >> 20)));
    }
    in_utf8(path, fs::read(path).map_err(unreadable)?)
}

fn in_utf8(path: &Path, bytes: Vec<u8>) -> Result<String, InventoryError> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        InventoryError::of_line(path, line, "expected text in UTF-8")
    })?;
    Ok(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned))
}

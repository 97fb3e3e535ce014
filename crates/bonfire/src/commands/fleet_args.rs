use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Error, Result};
use bonfire_launch::{CheckedFleet, Host, Inventory, PATIENCE, Programs, RunList, SpeedTest};

use crate::terminal::say;

/// Which hosts.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetArgs {
    /// The list of hosts: an inventory of Ansible, a hostfile of MPI, an address a line, or what the command line of a
    /// cloud prints; - is stdin
    #[arg(long, short, value_name = "FILE", conflicts_with = "hosts")]
    inventory: Option<PathBuf>,
    /// The hosts themselves: a,b,c:2
    #[arg(long, short = 'H', value_name = "LIST")]
    hosts: Option<String>,
    /// The group of the inventory [default: pool if there is one, otherwise all]
    #[arg(long, value_name = "GROUP", conflicts_with = "hosts")]
    group: Option<String>,
    /// Log in as this user where the list names none
    #[arg(long, short, value_name = "USER")]
    user: Option<String>,
    /// How many seconds a host may take to answer
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE.as_secs())]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// A program for hosts of another architecture, such as aarch64=FILE; or a folder with several. May be given
    /// several times [default: those in ~/.local/share/bonfire/VERSION/ARCH/bonfire]
    #[arg(long, value_name = "ARCH=FILE")]
    program: Vec<String>,
}

impl FleetArgs {
    /// The hosts of an inventory, or of a list.
    pub(crate) fn of(inventory: Option<PathBuf>, hosts: Option<String>, group: Option<String>) -> Self {
        Self { inventory, hosts, group, user: None, timeout: PATIENCE.as_secs(), program: Vec::new() }
    }

    pub(crate) fn hosts(&self) -> Result<Vec<Host>> {
        let inventory = match (&self.hosts, &self.inventory) {
            (Some(list), _) => Inventory::from_list(list)?,
            (None, Some(path)) => Inventory::load(path, self.group.as_deref())?,
            (None, None) => anyhow::bail!("which hosts? --inventory FILE or --hosts a,b,c"),
        };
        Ok(as_user(inventory.hosts, self.user.as_deref()))
    }

    /// Whether anybody said which hosts.
    pub(crate) fn names_hosts(&self) -> bool {
        self.hosts.is_some() || self.inventory.is_some()
    }

    /// Logs into these hosts and asks what they are. `data_bytes` are to find room there, and this program.
    pub(crate) fn check(&self, hosts: Vec<Host>, data_bytes: u64) -> Result<CheckedFleet> {
        let programs = Programs::gather(env!("CARGO_PKG_VERSION"), &self.program).map_err(Error::msg)?;
        Ok(CheckedFleet::of(hosts, Duration::from_secs(self.timeout), programs, data_bytes)?)
    }
}

/// Takes away what earlier runs of this machine have left on the hosts, and says so.
pub(crate) fn sweep(fleet: &CheckedFleet, quiet: bool) {
    let Ok(list) = RunList::open() else { return };
    for line in fleet.sweep(&list) {
        if !quiet {
            say(&line);
        }
    }
}

/// The same hosts, where those of which nobody says who logs in have this user.
pub(crate) fn as_user(mut hosts: Vec<Host>, user: Option<&str>) -> Vec<Host> {
    for host in hosts.iter_mut().filter(|host| host.user.is_none()) {
        host.user = user.map(str::to_owned);
    }
    hosts
}

/// How fast a host trains `lenet5` with all its cores that the model can use.
pub(crate) const STEP_SPEED: SpeedTest = SpeedTest {
    arguments: |cores| {
        let threads = cores.clamp(1, 4).to_string();
        ["bench", "step", "--model", "lenet5", "--seconds", "0.5", "--threads", &threads, "--json"]
            .map(str::to_owned)
            .into()
    },
    result: "samples_per_s",
};

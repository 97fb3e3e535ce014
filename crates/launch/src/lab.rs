//! A cluster on one machine: hosts that are network namespaces, each with an address, a link and an sshd of its own.
//!
//! To whoever comes in over ssh, a host of a lab is a machine: it has its own name, processes, home, `/tmp` and
//! network. What it shares with the machine below is the processor, and the programs in `/usr`.
//!
//! Hosts can be made unequal: each has a link of its own shape, and a share of the processor, to which a process of the
//! lab keeps it (`governor.rs`). One that is to be of another architecture has its programs run under qemu
//! (`emulation.rs`).
//!
//! The way up: [`Lab::up`] writes the state first (`state.rs`), then the bridge (`network.rs`), then host after host
//! (`host.rs`, `shape.rs`). Everything that the kernel keeps for a lab has the lab's name in its own, so the way down
//! (`teardown.rs`) finds it also when the way up was cut short. The system's own tools do the work (`tool.rs`), each
//! with a deadline.
//!
//! Linux only, and only for root.

mod allowance;
mod change;
mod cpu;
mod emulation;
mod governor;
mod host;
mod network;
mod population;
mod shape;
mod shape_file;
mod state;
mod teardown;
mod throttle;
mod tool;

use std::fmt;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub use cpu::CpuShare;
pub use emulation::HostArch;
pub use governor::{govern, throttle};
pub use shape::{Delay, HostShape, LinkShape, Rate};
pub use shape_file::read as read_shapes;

use emulation::Emulator;
use host::LabHost;
use state::LabState;
use tool::Tools;

/// As many hosts as a lab may have.
const MAX_HOSTS: usize = 200;
/// With it and a number, a link has a name of 15 bytes, which is what the kernel allows.
const MAX_NAME: usize = 8;

/// Why there is no lab, or still one.
#[derive(Debug)]
pub enum LabError {
    /// It was asked for something that this machine cannot do; nothing is left of the attempt.
    Unfit(String),
    /// Something went wrong on the way.
    Failed(String),
    /// The user wanted no more of it; nothing is left of the attempt.
    Stopped,
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(message) | Self::Failed(message) => f.write_str(message),
            Self::Stopped => f.write_str("stopped; nothing is left of the lab"),
        }
    }
}

impl std::error::Error for LabError {}

/// What lab is wanted.
#[derive(Clone, Debug)]
pub struct LabSpec {
    /// One to eight lower-case letters and digits.
    pub name: String,
    /// What each host is like.
    pub hosts: Vec<HostShape>,
    /// Where the lab keeps its files; must be new or empty. Without one, a place below `/var/lib`.
    pub folder: Option<PathBuf>,
}

/// How far a lab has come.
#[derive(Clone, Copy, Debug)]
pub struct LabProgress {
    pub hosts: usize,
    pub of: usize,
}

/// A lab that is there, whole or in part.
#[derive(Clone, Debug)]
pub struct Lab {
    state: LabState,
}

impl Lab {
    /// Makes a lab. One that cannot be made whole is taken down again.
    ///
    /// # Errors
    /// When this machine cannot have such a lab, something goes wrong, or `stop` is set.
    pub fn up(
        spec: &LabSpec,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(LabProgress),
    ) -> Result<Self, LabError> {
        check_name(&spec.name)?;
        shape::check_count(spec.hosts.len())?;
        let tools = Tools::find()?;
        for &shape in &spec.hosts {
            Emulator::of(shape)?;
        }
        let state = LabState::begin(spec)?;
        let mut lab = Self { state };
        match lab.build(&tools, stop, tell) {
            Ok(()) => Ok(lab),
            Err(error) => match lab.down() {
                Ok(()) => Err(error),
                Err(left) => Err(LabError::Failed(format!("{error}; and then {left}"))),
            },
        }
    }

    fn build(
        &mut self,
        tools: &Tools,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(LabProgress),
    ) -> Result<(), LabError> {
        self.state.subnet = Some(network::claim_subnet(tools, &self.state.name)?);
        self.state.save()?;
        network::make_bridge(tools, &self.state)?;
        host::make_user_key(tools, &self.state)?;
        let of = self.state.hosts;
        for number in 1..=of {
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Stopped);
            }
            let host = LabHost::new(&self.state, number);
            network::plug_in(tools, &host)?;
            shape::apply(tools, &host, self.state.shape(number).link)?;
            let process = host.start(tools, &self.state, Emulator::of(self.state.shape(number))?)?;
            self.state.processes.push(process);
            self.state.save()?;
            tell(LabProgress { hosts: number, of });
        }
        for number in 1..=of {
            LabHost::new(&self.state, number).await_ssh(&self.state.processes[number - 1], stop)?;
        }
        if self.has_shares() {
            governor::start(&self.state)?;
        }
        host::write_guides(&self.state)
    }

    fn has_shares(&self) -> bool {
        self.state.shapes.iter().any(|shape| shape.cpu.is_some())
    }

    /// All labs of this machine, by name.
    ///
    /// # Errors
    /// When their states cannot be read.
    pub fn list() -> Result<Vec<Self>, LabError> {
        Ok(state::all()?.into_iter().map(|state| Self { state }).collect())
    }

    /// The lab of this name, if anything is there of one.
    ///
    /// # Errors
    /// When the name cannot be one, or the state cannot be read.
    pub fn find(name: &str) -> Result<Option<Self>, LabError> {
        check_name(name)?;
        Ok(LabState::find(name)?.map(|state| Self { state }))
    }

    /// Ends every process of the lab, and deletes its namespaces, links and files. May be called again.
    ///
    /// # Errors
    /// When something is left that cannot be removed, or another process is still making the lab.
    pub fn down(&self) -> Result<(), LabError> {
        let tools = Tools::find()?;
        teardown::take_down(&tools, &self.state)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// How many hosts were asked for.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.state.hosts
    }

    /// How many of them run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.state.processes.iter().filter(|process| process.is_alive()).count()
    }

    /// Whether its hosts are kept to their shares, if they have any.
    #[must_use]
    pub fn keeps_shares(&self) -> bool {
        !self.has_shares() || governor::is_alive(&self.state)
    }

    /// What each of its hosts is like.
    #[must_use]
    pub fn shapes(&self) -> Vec<HostShape> {
        (1..=self.state.hosts).map(|number| self.state.shape(number)).collect()
    }

    /// The address of a host, counted from 1.
    #[must_use]
    pub fn address(&self, number: usize) -> Option<Ipv4Addr> {
        let subnet = self.state.subnet.filter(|_| (1..=self.state.hosts).contains(&number))?;
        Some(network::host_address(subnet, number))
    }

    /// The address of the machine that the lab is on, as its hosts see it.
    #[must_use]
    pub fn gateway(&self) -> Option<Ipv4Addr> {
        self.state.subnet.map(network::bridge_address)
    }

    /// Where the lab keeps its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.state.folder()
    }

    /// The inventory of its hosts.
    #[must_use]
    pub fn inventory(&self) -> PathBuf {
        self.state.folder().join(host::INVENTORY)
    }

    /// A configuration for `ssh -F`.
    #[must_use]
    pub fn ssh_config(&self) -> PathBuf {
        self.state.folder().join(host::SSH_CONFIG)
    }
}

fn check_name(name: &str) -> Result<(), LabError> {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_good) {
        return Ok(());
    }
    let message = format!("expected a name of 1 to {MAX_NAME} lower-case letters and digits, found `{name}`");
    Err(LabError::Unfit(message))
}

/// An error of a file that belongs to a lab.
fn file_error(path: &Path) -> impl Fn(std::io::Error) -> LabError {
    let path = path.to_owned();
    move |error| LabError::Failed(format!("{}: {error}", path.display()))
}

/// Writes a file of a lab.
fn write(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(file_error(path))
}

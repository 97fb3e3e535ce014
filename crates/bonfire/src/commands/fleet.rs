//! The hosts of an inventory, each logged into once, and asked all at the same time.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_launch::reach::{self, Speed};
use bonfire_launch::{
    Facts, Host, Inventory, PATIENCE, Program, Remote, Session, SessionNews, Ssh, Trouble, call,
};
use serde::Serialize;

/// Which hosts.
#[derive(Debug, clap::Args)]
pub struct FleetArgs {
    /// The list of hosts: an inventory of Ansible, a hostfile of MPI, or an address a line
    #[arg(long, short, value_name = "FILE", required_unless_present = "hosts", conflicts_with = "hosts")]
    inventory: Option<PathBuf>,
    /// The hosts themselves: a,b,c:2
    #[arg(long, short = 'H', value_name = "LIST")]
    hosts: Option<String>,
    /// The group of the inventory [default: pool if there is one, otherwise all]
    #[arg(long, value_name = "GROUP", conflicts_with = "hosts")]
    group: Option<String>,
    /// How many seconds a host may take to answer
    #[arg(long, value_name = "SECONDS", default_value_t = PATIENCE.as_secs(), value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

impl FleetArgs {
    pub fn hosts(&self) -> Result<Vec<Host>> {
        let inventory = match (&self.hosts, &self.inventory) {
            (Some(list), _) => Inventory::from_list(list)?,
            (None, Some(path)) => Inventory::load(path, self.group.as_deref())?,
            (None, None) => anyhow::bail!("which hosts? -i FILE or -H a,b,c"),
        };
        Ok(inventory.hosts)
    }

    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// Hosts, and the program that is run on them.
#[derive(Debug)]
pub struct Fleet {
    /// Dropped last: with it all are logged out.
    pub members: Vec<FleetHost>,
    _ssh: Ssh,
}

/// One of the hosts.
#[derive(Clone, Debug)]
pub struct FleetHost {
    pub host: Host,
    pub remote: Remote,
}

impl Fleet {
    pub fn of(hosts: Vec<Host>, patience: Duration) -> Result<Self> {
        let ssh = Ssh::new(patience).context("cannot make a folder for logins")?;
        let member = |(number, host): (usize, Host)| FleetHost { remote: ssh.host(number, &host), host };
        Ok(Self { members: hosts.into_iter().enumerate().map(member).collect(), _ssh: ssh })
    }

    /// Only these hosts, in this order.
    pub fn narrow(self, hosts: &[usize]) -> Self {
        let members = hosts.iter().map(|&host| self.members[host].clone()).collect();
        Self { members, ..self }
    }

    /// Does something with all hosts at the same time.
    pub fn each<T: Send>(&self, work: impl Fn(usize, &FleetHost) -> T + Sync) -> Vec<T> {
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.each_of(&all, work)
    }

    /// The same with some of them.
    pub fn each_of<T: Send>(&self, hosts: &[usize], work: impl Fn(usize, &FleetHost) -> T + Sync) -> Vec<T> {
        let work = &work;
        std::thread::scope(|scope| {
            let at_work: Vec<_> = hosts
                .iter()
                .map(|&number| scope.spawn(move || work(number, &self.members[number])))
                .collect();
            let result = |thread: std::thread::ScopedJoinHandle<'_, T>| match thread.join() {
                Ok(result) => result,
                // A bug there is a bug here.
                Err(panic) => std::panic::resume_unwind(panic),
            };
            at_work.into_iter().map(result).collect()
        })
    }

    /// Logs into every host and asks what it is. `data_bytes` more are to find room there.
    pub fn check(&self, program: &Program, data_bytes: u64) -> Vec<Checkup> {
        self.each(|_, member| Checkup::of(member, program, data_bytes))
    }
}

/// What is known of a host.
#[derive(Clone, Debug, Serialize)]
pub struct Checkup {
    pub host: String,
    pub address: String,
    pub is_usable: bool,
    /// Why it cannot be used, in words.
    pub trouble: Option<String>,
    /// Whether that is because the inventory names it, its user or its key wrongly.
    #[serde(skip)]
    pub is_mistaken: bool,
    pub facts: Option<Facts>,
    /// Whether this program, byte for byte, is there.
    pub has_program: bool,
    pub samples_per_s: Option<f64>,
    /// To the first host that can be used.
    pub network: Option<Speed>,
}

/// What a run needs for its own files beside program and data.
const ROOM_MB: u64 = 30;

impl Checkup {
    fn of(member: &FleetHost, program: &Program, data_bytes: u64) -> Self {
        let asked = member.remote.log_in().and_then(|()| Facts::ask(&member.remote, &program.place()));
        let is_mistaken = asked.as_ref().is_err_and(Trouble::is_mistake);
        let (facts, mut trouble) = match asked {
            Ok(facts) => (Some(facts), None),
            Err(trouble) => (None, Some(trouble.to_string())),
        };
        let has_program =
            facts.as_ref().is_some_and(|facts| facts.program_sha256.as_ref() == Some(&program.sha256));
        if let Some(facts) = &facts {
            let program_bytes = if has_program { 0 } else { program.bytes };
            trouble = unfit(facts, ROOM_MB + (program_bytes + data_bytes) / 1_000_000);
        }
        Self {
            host: member.host.name.clone(),
            address: member.host.address.clone(),
            is_usable: trouble.is_none(),
            trouble,
            is_mistaken,
            facts,
            has_program,
            samples_per_s: None,
            network: None,
        }
    }
}

/// Why a host that answers cannot be used.
fn unfit(facts: &Facts, room_mb: u64) -> Option<String> {
    if !facts.fits() {
        return Some(format!(
            "it is {} {}, and this program is for {} {}",
            facts.arch,
            facts.system,
            std::env::consts::ARCH,
            std::env::consts::OS
        ));
    }
    match facts.free_mb {
        Some(free) if free < room_mb => {
            Some(format!("its disk is full: {free} MB are free in {}, {room_mb} MB are needed", facts.home))
        }
        _ => None,
    }
}

/// How long a measurement may take, on a slow machine that does something else.
const MEASURES_FOR: Duration = Duration::from_secs(60);

/// How fast a host trains `lenet5` with all its cores that the model can use.
pub fn step_speed(member: &FleetHost, place: &str, cores: usize) -> Result<f64, Trouble> {
    let threads = cores.clamp(1, 4).to_string();
    let arguments =
        ["bench", "step", "--model", "lenet5", "--seconds", "0.5", "--threads", &threads, "--json"];
    let said = call(&member.remote, place, &arguments, std::io::empty(), MEASURES_FOR)?;
    let value: serde_json::Value =
        serde_json::from_slice(&said).map_err(|error| Trouble::Other(error.to_string()))?;
    let unclear = || Trouble::Other("the measurement has no samples_per_s".to_owned());
    value["samples_per_s"].as_f64().ok_or_else(unclear)
}

/// Somebody on a host who answers those that measure the way to it.
#[derive(Debug)]
pub struct Answering {
    _session: Session,
    port: String,
    token: String,
}

impl Answering {
    pub fn start(member: &FleetHost, place: &str) -> Result<Self, Trouble> {
        let token = reach::new_token().map_err(|error| Trouble::Other(error.to_string()))?;
        let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let session = Session::start(&member.remote, place, &["host", "answer"], &token)?;
        match session.next(Duration::from_secs(20)) {
            SessionNews::Line(port) => Ok(Self { _session: session, port, token }),
            SessionNews::Nothing => Err(Trouble::TimedOut),
            SessionNews::End => session.end().and(Err(Trouble::Other("nobody answers there".to_owned()))),
        }
    }

    /// The way there from a host.
    pub fn measure(&self, from: &FleetHost, place: &str, address: &str) -> Result<Speed, Trouble> {
        let address = format!("{address}:{}", self.port);
        let token = format!("{}\n", self.token);
        let said = call(&from.remote, place, &["host", "measure", &address], token.as_bytes(), MEASURES_FOR)?;
        serde_json::from_slice(&said).map_err(|error| Trouble::Other(error.to_string()))
    }
}

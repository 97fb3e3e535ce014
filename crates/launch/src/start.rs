//! From hosts with roles to processes on them: the head, then, when it is known to be reached, the nodes.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

use crate::checkup::CheckedFleet;
use crate::error::LaunchError;
use crate::fleet::FleetHost;
use crate::guard::GuardOrder;
use crate::inventory::Host;
use crate::live_run::LiveRun;
use crate::measure::addresses;
use crate::place::ProcessRole;
use crate::process::ProcessId;
use crate::reach;
use crate::remote_run::RemoteRun;
use crate::run_list::{HostRecord, ProcessPlan, RunList, RunRecord};
use crate::run_process::{RUN_FOLDER, TICKET};
use crate::shipment::Shipment;
use crate::trouble::Trouble;

/// What is to run on the hosts. What its words mean to the program there, this crate need not know.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// Made by [`run_id`].
    pub id: String,
    /// Where the run folder comes to in the end.
    pub out: PathBuf,
    /// The head first.
    pub roles: Vec<ProcessRole>,
    /// The arguments of the head, which writes its ticket to the file [`TICKET`](crate::TICKET) and the run to the
    /// folder [`RUN_FOLDER`](crate::RUN_FOLDER).
    pub head_arguments: Vec<String>,
    /// Files that the head finds in its folder: names and what is in them.
    pub head_files: Vec<(String, String)>,
    /// The arguments of the node with this rank and name on a host.
    pub node_arguments: fn(rank: usize, name: &str, host: &Host) -> Vec<String>,
    pub ticket: TicketFormat,
    /// Whether a line of the head's log says that nodes have joined.
    pub begins: fn(line: &str) -> bool,
    /// By which the other hosts reach the head, if it need not be tried out.
    pub address: Option<String>,
    /// Data for the head, or for all hosts.
    pub data: Option<Shipment>,
    pub is_data_for_all: bool,
    pub is_detached: bool,
    /// The run that is gone on with, if it is no new one.
    pub resumed: Option<Resumed>,
    /// What a line of the head's log says to keep on this machine: files of the run folder, in the order in which they
    /// get their names here.
    pub backup: fn(line: &str) -> Option<Vec<String>>,
    /// By whom the run is launched and from where.
    pub launched_from: serde_json::Value,
}

/// A run that is gone on with.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// Its folder on this machine.
    pub folder: Shipment,
    /// How long its log is, up to the last whole line.
    pub log_bytes: u64,
}

/// What a run folder has that only this machine needs.
const STAYS_HERE: [&str; 5] = ["keys.json", "hosts.json", "logs", "report.html", "forecast.json"];

/// Where a run folder comes to on the head's host, before its head is there.
const RESUMED: &str = "resumed";

/// How a head's ticket is read and written.
#[derive(Clone, Copy, Debug)]
pub struct TicketFormat {
    /// The port at which the head listens.
    pub port: fn(ticket: &str) -> Result<String, String>,
    /// The same ticket with another address of the head.
    pub with_address: fn(ticket: &str, address: &str) -> Result<String, String>,
}

/// The name of a new run. Two launchers may start runs on the same hosts in the same second.
pub fn run_id(name: &str) -> io::Result<String> {
    Ok(format!("{name}-{}", &reach::new_token()?[..4]))
}

impl RunSpec {
    /// Starts all processes, each role on the host at its place; all hosts of the fleet take part. If that fails,
    /// nothing is left on any host that can still be reached; `warn` is told of the others.
    pub fn start(
        &self,
        fleet: CheckedFleet,
        places: &[usize],
        list: RunList,
        interrupts: &AtomicUsize,
        warn: &mut dyn FnMut(String),
    ) -> Result<LiveRun, LaunchError> {
        let record = self.record(&fleet, places)?;
        list.save(&record)
            .map_err(|error| LaunchError::Unfit(format!("the list of runs cannot be written: {error}")))?;
        let run = RemoteRun { record, fleet: fleet.fleet, list };
        let mut live = LiveRun::new(run, self.begins, self.backup);
        if let Err(error) = self.start_all(&mut live, interrupts) {
            live.abandon(warn);
            return Err(error);
        }
        live.run.save()?;
        if let Err(trouble) = live.run.note_at_head() {
            warn(format!("{}: `attach --from` will not find the run there: {trouble}", live.run.head_name()));
        }
        Ok(live)
    }

    fn record(&self, fleet: &CheckedFleet, places: &[usize]) -> Result<RunRecord, LaunchError> {
        let hosts = &fleet.fleet.hosts;
        let processes = self.roles.iter().zip(places).enumerate();
        let processes = processes.map(|(number, (&role, &host))| ProcessPlan {
            number,
            host,
            role,
            name: hosts[host].host.name.clone(),
            command: Vec::new(),
            pid: None,
            exit_code: None,
        });
        let hosts = hosts.iter().zip(&fleet.checkups).map(|(host, checkup)| HostRecord {
            host: host.host.clone(),
            facts: checkup.facts.clone().unwrap_or_default(),
        });
        let out = std::path::absolute(&self.out).map_err(|error| LaunchError::Unfit(error.to_string()))?;
        Ok(RunRecord {
            id: self.id.clone(),
            out,
            program: fleet.place(),
            version: fleet.programs.own.version.clone(),
            program_sha256: fleet.programs.own.sha256.clone(),
            is_detached: self.is_detached,
            is_collected: false,
            is_kept: false,
            launcher: ProcessId::of(std::process::id()),
            data: self.data.clone(),
            launched_from: self.launched_from.clone(),
            hosts: hosts.collect(),
            processes: processes.collect(),
        })
    }

    fn start_all(&self, live: &mut LiveRun, interrupts: &AtomicUsize) -> Result<(), LaunchError> {
        if let Some(data) = &self.data {
            self.send_data(data, &live.run)?;
        }
        if let Some(resumed) = &self.resumed {
            let (head, record) = (live.run.head(), &live.run.record);
            let into = (record.id.as_str(), RESUMED);
            let sent = resumed.folder.send_into(head, &record.program, into, &STAYS_HERE);
            let failed = |trouble| format!("the run folder cannot be copied to {}: {trouble}", head.name());
            sent.map_err(|trouble| LaunchError::Failed(failed(trouble)))?;
        }
        live.start_process(&self.head_order())?;
        let ticket = live.await_ticket(interrupts)?;
        live.head_address = self.find_address(&live.run, &ticket)?;
        let ticket = (self.ticket.with_address)(&ticket, &live.head_address).map_err(LaunchError::Failed)?;
        for number in 1..live.run.record.processes.len() {
            let order = self.node_order(&live.run.record, number, &ticket);
            live.start_process(&order)?;
        }
        live.await_starts(interrupts)?;
        let log_bytes = self.resumed.as_ref().map_or(0, |resumed| resumed.log_bytes);
        if self.is_detached { Ok(()) } else { live.read_log(log_bytes) }
    }

    /// To the head, which sends them on; or to all hosts, if each is to have its own.
    fn send_data(&self, data: &Shipment, run: &RemoteRun) -> Result<(), LaunchError> {
        let hosts: Vec<usize> = match self.is_data_for_all {
            true => (0..run.fleet.hosts.len()).collect(),
            false => vec![run.record.processes[0].host],
        };
        let sent = run.fleet.each_of(&hosts, |_, host| {
            let sent = data.send(host, &run.record.program, &run.record.id);
            sent.map_err(|trouble| format!("{}: {trouble}", host.name()))
        });
        let troubles: Vec<String> = sent.into_iter().filter_map(Result::err).collect();
        if troubles.is_empty() {
            return Ok(());
        }
        Err(LaunchError::Failed(format!("the data cannot be copied\n  {}", troubles.join("\n  "))))
    }

    fn head_order(&self) -> GuardOrder {
        GuardOrder {
            run: self.id.clone(),
            number: 0,
            role: self.roles[0].to_string(),
            arguments: self.head_arguments.clone(),
            files: self.head_files.clone(),
            folder: self.resumed.as_ref().map(|_| (RESUMED.to_owned(), RUN_FOLDER.to_owned())),
            awaited: Some(TICKET.to_owned()),
            is_detached: self.is_detached,
        }
    }

    fn node_order(&self, record: &RunRecord, number: usize, ticket: &str) -> GuardOrder {
        let plan = &record.processes[number];
        let host = &record.hosts[plan.host].host;
        GuardOrder {
            run: self.id.clone(),
            number: plan.number,
            role: plan.role.to_string(),
            arguments: (self.node_arguments)(self.rank(plan.number), &plan.name, host),
            files: vec![(TICKET.to_owned(), ticket.to_owned())],
            folder: None,
            awaited: None,
            is_detached: self.is_detached,
        }
    }

    /// The rank of a node: from 0, which is the head's process if that is a node.
    fn rank(&self, number: usize) -> usize {
        if self.roles[0].leads_as().is_some() { number } else { number - 1 }
    }

    /// An address by which every other host reaches the head.
    fn find_address(&self, run: &RemoteRun, ticket: &str) -> Result<String, LaunchError> {
        let port = (self.ticket.port)(ticket).map_err(LaunchError::Failed)?;
        let head = &run.record.hosts[run.record.processes[0].host];
        let hosts = match &self.address {
            Some(address) => vec![address.clone()],
            None => addresses(&head.host, &head.facts),
        };
        let candidates: Vec<String> = hosts.iter().map(|host| format!("{host}:{port}")).collect();
        // A head alone may be done before somebody could try.
        if let (1, Some(first)) = (run.record.processes.len(), candidates.first()) {
            return Ok(first.clone());
        }
        let tried = run.fleet.each(|_, host| try_to_reach(host, &run.record.program, &candidates));
        let reached = |i: usize| tried.iter().all(|tried| matches!(tried, Ok(errors) if errors[i].is_none()));
        if let Some(i) = (0..candidates.len()).find(|&i| reached(i)) {
            return Ok(candidates[i].clone());
        }
        let mut troubles = Vec::new();
        for (host, tried) in run.fleet.hosts.iter().zip(&tried) {
            let errors = match tried {
                Ok(errors) if errors.iter().any(Option::is_none) && candidates.len() == 1 => continue,
                Ok(errors) => errors.iter().flatten().cloned().collect::<Vec<_>>().join("; "),
                Err(trouble) => trouble.to_string(),
            };
            troubles.push(format!("{} cannot reach it: {errors}", host.name()));
        }
        let name = run.head_name();
        Err(LaunchError::Failed(format!(
            "the head on {name} is not reached at {} by all hosts; does a firewall on {name} block the port? \
             --port fixes it, --address names another way\n  {}",
            if candidates.is_empty() { "any address".to_owned() } else { candidates.join(" or ") },
            troubles.join("\n  ")
        )))
    }
}

/// For each address why it is not reached from a host.
fn try_to_reach(host: &FleetHost, place: &str, addresses: &[String]) -> Result<Vec<Option<String>>, Trouble> {
    let mut arguments = vec!["host", "reach"];
    arguments.extend(addresses.iter().map(String::as_str));
    let errors: Vec<Option<String>> = host.ask_json(place, &arguments)?;
    let unclear = || Trouble::Other("it did not say what it reaches".to_owned());
    (errors.len() == addresses.len()).then_some(errors).ok_or_else(unclear)
}

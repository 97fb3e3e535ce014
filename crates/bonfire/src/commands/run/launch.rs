//! From a plan to processes on hosts: the head, then, when it is known to be reached, the nodes.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use bonfire_launch::guard::Order;
use bonfire_launch::place::Role;
use bonfire_launch::{HostRecord, Ledger, Program, RunRecord, SeatPlan, Trouble, call, reach};
use bonfire_report::RunFolder;
use bonfire_run::run_file::Distribute;
use bonfire_wire::Ticket;

use super::super::check::addresses;
use super::super::fleet::{Checkup, Fleet, Member};
use super::RunOnHostsArgs;
use super::data::Data;
use super::plan::Plan;
use super::running::Running;
use super::show::Watching;
use crate::failure::Failed;
use crate::terminal::say;

const ASKS_FOR: Duration = Duration::from_secs(30);

/// Everything that a start needs. All hosts of the fleet take part.
#[derive(Debug)]
pub struct Launch<'a> {
    pub args: &'a RunOnHostsArgs,
    pub plan: &'a Plan,
    pub fleet: &'a Fleet,
    pub program: &'a Program,
    pub checkups: &'a [Checkup],
}

impl<'a> Launch<'a> {
    /// Starts all processes, each role on the host at its place. If that fails, nothing is left on any host.
    pub fn start(
        &self,
        ledger: &Ledger,
        places: &[usize],
        data: Option<&Data>,
        interrupts: &AtomicUsize,
    ) -> Result<Running<'a>> {
        let record = self.record(places)?;
        ledger.save(&record).context("the list of runs cannot be written")?;
        let mut running = Running::new(record, self.fleet);
        let started = self.start_all(&mut running, data, interrupts);
        if let Err(error) = started {
            running.abandon(ledger);
            return Err(error);
        }
        ledger.save(&running.record).context(Failed("the list of runs cannot be written".to_owned()))?;
        Ok(running)
    }

    fn record(&self, places: &[usize]) -> Result<RunRecord> {
        let runs = std::path::Path::new("runs");
        let path = RunFolder::default_path(runs, &self.plan.settings.file.name, SystemTime::now());
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Two launchers may start runs on the same hosts in the same second.
        let chance = reach::new_token().context("the system gives no random numbers")?;
        let id = format!("{name}-{:02x}{:02x}", chance[0], chance[1]);
        let out = self.args.out.clone().unwrap_or_else(|| runs.join(&id));
        let seats = self.plan.roles.iter().zip(places).enumerate().map(|(seat, (&role, &host))| SeatPlan {
            seat,
            host,
            role,
            name: self.fleet.members[host].host.name.clone(),
            command: Vec::new(),
            pid: None,
            exit_code: None,
        });
        let hosts = self.fleet.members.iter().zip(self.checkups).map(|(member, checkup)| HostRecord {
            host: member.host.clone(),
            facts: checkup.facts.clone().unwrap_or_default(),
        });
        Ok(RunRecord {
            id,
            out: std::path::absolute(out)?,
            program: self.program.place(),
            version: self.program.version.clone(),
            program_sha256: self.program.sha256.clone(),
            is_detached: self.args.detach,
            is_collected: false,
            hosts: hosts.collect(),
            seats: seats.collect(),
        })
    }

    fn start_all(
        &self,
        running: &mut Running<'a>,
        data: Option<&Data>,
        interrupts: &AtomicUsize,
    ) -> Result<()> {
        if let Some(data) = data {
            self.send_data(data, running)?;
        }
        let mut set = self.plan.set.clone();
        if let Some(data) = data {
            let key = if self.plan.settings.says("data.path") { "data.path" } else { "data.name" };
            set.push(format!("{key}={}", serde_json::to_string(&data.place())?));
        }
        running.seat(0, &self.head_order(running, &set))?;
        let ticket = running.await_ticket(self.plan, self.args, interrupts)?;
        let ticket = self.with_address(running, &ticket)?;
        for seat in 1..running.record.seats.len() {
            let order = node_order(&running.record, seat, &ticket, self.args.detach);
            running.seat(seat, &order)?;
        }
        running.await_starts(interrupts)?;
        let head = &self.fleet.members[running.record.seats[0].host];
        if !self.args.detach {
            let watching = Watching::start(head, &running.record.program, &running.record.id);
            running.follow_by(watching.context(Failed("the head cannot be followed".to_owned()))?);
        }
        if !(self.args.quiet || self.args.json) {
            say(&self.placement(running, &ticket));
        }
        Ok(())
    }

    /// `head on pi1 (192.168.2.101:41234); workers on pi2, pi3`
    fn placement(&self, running: &Running<'_>, ticket: &Ticket) -> String {
        let on = |role: Role| -> Vec<&str> {
            let seats = running.record.seats.iter().filter(|seat| seat.role == role);
            seats.map(|seat| seat.name.as_str()).collect()
        };
        let mut parts = vec![format!("head on {} ({})", running.head_name(), ticket.address)];
        for (role, name) in
            [(Role::Relay, "relays"), (Role::Worker, "workers"), (Role::Evaluator, "evaluator")]
        {
            let hosts = on(role);
            if !hosts.is_empty() {
                parts.push(format!("{name} on {}", hosts.join(", ")));
            }
        }
        parts.join("; ")
    }

    /// To the head, which sends them on; or to all hosts, if the run file says that each has its own.
    fn send_data(&self, data: &Data, running: &Running<'_>) -> Result<()> {
        let is_local = self.plan.settings.file.distribute == Distribute::Local;
        let hosts: Vec<usize> = if is_local {
            (0..self.fleet.members.len()).collect()
        } else {
            vec![running.record.seats[0].host]
        };
        let (place, run) = (&running.record.program, &running.record.id);
        let sent = self.fleet.each_of(&hosts, |_, member| {
            data.send(member, place, run).map_err(|trouble| format!("{}: {trouble}", member.host.name))
        });
        let troubles: Vec<String> = sent.into_iter().filter_map(Result::err).collect();
        if troubles.is_empty() {
            return Ok(());
        }
        Err(Failed(format!("the data cannot be copied\n  {}", troubles.join("\n  "))).into())
    }

    fn head_order(&self, running: &Running<'_>, set: &[String]) -> Order {
        let listen = format!("0.0.0.0:{}", self.args.port);
        let words = ["head", "run.yml", "--out", "run", "--ticket-file", "ticket", "--listen", &listen];
        let set = set.iter().flat_map(|set| ["--set", set]);
        Order {
            run: running.record.id.clone(),
            seat: 0,
            role: "head".to_owned(),
            arguments: words.into_iter().chain(set).map(str::to_owned).collect(),
            files: vec![("run.yml".to_owned(), self.plan.text.clone())],
            awaited: Some("ticket".to_owned()),
            is_detached: self.args.detach,
        }
    }

    /// The ticket with an address by which every other host reaches the head.
    fn with_address(&self, running: &Running<'_>, ticket: &Ticket) -> Result<Ticket> {
        let port = ticket.address.rsplit_once(':').map_or("", |(_, port)| port).to_owned();
        let head = running.record.seats[0].host;
        let hosts = match (&self.args.address, &self.checkups[head].facts) {
            (Some(address), _) => vec![address.clone()],
            (None, Some(facts)) => addresses(&self.fleet.members[head].host, facts),
            (None, None) => Vec::new(),
        };
        let candidates: Vec<String> = hosts.iter().map(|host| format!("{host}:{port}")).collect();
        let place = &running.record.program;
        let tried = self.fleet.each(|_, member| try_to_reach(member, place, &candidates));
        let reached = |i: usize| tried.iter().all(|tried| matches!(tried, Ok(errors) if errors[i].is_none()));
        if let Some(i) = (0..candidates.len()).find(|&i| reached(i)) {
            return Ok(Ticket { address: candidates[i].clone(), ..ticket.clone() });
        }
        let name = running.head_name();
        let mut troubles = Vec::new();
        for (member, tried) in self.fleet.members.iter().zip(&tried) {
            let errors = match tried {
                Ok(errors) if errors.iter().any(Option::is_none) && candidates.len() == 1 => continue,
                Ok(errors) => errors.iter().flatten().cloned().collect::<Vec<_>>().join("; "),
                Err(trouble) => trouble.to_string(),
            };
            troubles.push(format!("{} cannot reach it: {errors}", member.host.name));
        }
        bail!(Failed(format!(
            "the head on {name} is not reached at {} by all hosts; does a firewall on {name} block the port? --port fixes it, \
             --address names another way\n  {}",
            if candidates.is_empty() { "any address".to_owned() } else { candidates.join(" or ") },
            troubles.join("\n  ")
        )))
    }
}

/// For each address why it is not reached from a host.
fn try_to_reach(member: &Member, place: &str, addresses: &[String]) -> Result<Vec<Option<String>>, Trouble> {
    let mut arguments = vec!["host", "reach"];
    arguments.extend(addresses.iter().map(String::as_str));
    let said = call(&member.remote, place, &arguments, io::empty(), ASKS_FOR)?;
    let errors: Vec<Option<String>> =
        serde_json::from_slice(&said).map_err(|error| Trouble::Other(error.to_string()))?;
    let unclear = || Trouble::Other("it did not say what it reaches".to_owned());
    (errors.len() == addresses.len()).then_some(errors).ok_or_else(unclear)
}

fn node_order(record: &RunRecord, seat: usize, ticket: &Ticket, is_detached: bool) -> Order {
    let plan = &record.seats[seat];
    let rank = (seat - 1).to_string();
    let words =
        ["node", "--ticket-file", "ticket", "--rank", &rank, "--name", &plan.name, "--patience", "60"];
    Order {
        run: record.id.clone(),
        seat,
        role: format!("{:?}", plan.role).to_lowercase(),
        arguments: words.map(str::to_owned).into(),
        files: vec![("ticket".to_owned(), ticket.to_string())],
        awaited: None,
        is_detached,
    }
}

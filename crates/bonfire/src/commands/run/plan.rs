//! What is to run, checked before any host is asked.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Error, Result, bail};
use bonfire_data::source::known;
use bonfire_launch::{
    CheckedFleet, Checkup, Host, LaunchError, ProcessRole, RUN_FOLDER, RunSpec, Shipment, TICKET,
    TicketFormat, in_order, run_id,
};
use bonfire_report::{GitFacts, RunFolder};
use bonfire_run::run_file::cast::{Wanted, wanted};
use bonfire_run::run_file::{Distribute, ShareRule, Topology};
use bonfire_run::{Overrides, Settings};
use bonfire_wire::Ticket;

use super::super::WRONG_INPUT;
use super::super::show::begins;
use super::RunOnHostsArgs;
use super::comeback::{self, Comeback};
use crate::device_pool;

/// A run file with the roles that it has to give.
#[derive(Debug)]
pub(crate) struct RunPlan {
    pub settings: Settings,
    /// The text of the run file, as the head gets it.
    pub text: String,
    /// `key=value` over it, those of the user first.
    pub set: Vec<String>,
    /// The head first.
    pub roles: Vec<ProcessRole>,
}

impl RunPlan {
    /// Reads the run file, and finds out whether there are hosts for all its roles.
    pub(crate) fn read(args: &RunOnHostsArgs, hosts: &[Host]) -> Result<Self> {
        let (origin, text) = match &args.run_file {
            Some(path) => {
                let read = fs::read_to_string(path);
                (
                    path.display().to_string(),
                    read.with_context(|| format!("cannot read the run file {}", path.display()))?,
                )
            }
            None => ("run file".to_owned(), String::new()),
        };
        Self::of(args, hosts, (&origin, &text), args.set.clone())
    }

    /// The same for a run file of this origin and text, with `key=value` over it.
    pub(crate) fn of(
        args: &RunOnHostsArgs,
        hosts: &[Host],
        (origin, text): (&str, &str),
        mut set: Vec<String>,
    ) -> Result<Self> {
        let read =
            |set: &[String]| Settings::read(origin, text, &Overrides { set, ..Overrides::default() }, 1);
        let settings = read(&set)?;
        if matches!(settings.topology, Topology::Single { .. }) && !settings.says("workers") {
            let slots: usize = hosts.iter().map(|host| host.slots).sum();
            let is_apart = settings.file.head.works != Some(true);
            let others = usize::from(is_apart) + usize::from(settings.file.evaluator);
            // With too few hosts, one worker is what is missing.
            set.push(format!("workers={}", slots.saturating_sub(others).max(1)));
        }
        let is_made = known(&settings.file.data.name).is_some_and(|known| known.made);
        // Which data such a file is for is found where the head is.
        let is_open = device_pool::data_of(text, &set).is_some();
        if !settings.says("distribute") && (!is_made || is_open || args.data.is_some()) {
            set.push("distribute=ship".to_owned());
        }
        let settings = read(&set)?;
        check_shares(&settings, hosts)?;
        let slots: Vec<usize> = hosts.iter().map(|host| host.slots).collect();
        let roles = match args.resume.is_some() {
            true => cast_again(&settings, &slots),
            false => cast(&settings, &slots)?,
        };
        if let Some(out) = &args.out
            && fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some())
        {
            bail!("{}: is not empty; choose another folder with --out", out.display());
        }
        Ok(Self { settings, text: text.to_owned(), set, roles })
    }

    /// Gives the roles of a run that comes back to the hosts that can be used now. Where there are too few, some take
    /// several processes: the number of workers stays, and with it the order of all samples.
    pub(crate) fn cast_again(&mut self, fleet: &mut CheckedFleet) -> Vec<(String, usize)> {
        let slots: Vec<usize> = fleet.usable().iter().map(|host| host.slots).collect();
        self.roles = cast_again(&self.settings, &slots);
        fleet.make_room(&self.roles)
    }

    /// The run as the launcher is told of it, whose head is on this host.
    pub(crate) fn spec(
        &self,
        args: &RunOnHostsArgs,
        data: Option<Shipment>,
        fleet: &CheckedFleet,
        (head_host, comeback): (usize, Option<&Comeback>),
    ) -> Result<RunSpec> {
        let runs = Path::new("runs");
        let path = RunFolder::default_path(runs, &self.settings.file.name, SystemTime::now());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let id = run_id(&name).context("the system gives no random numbers")?;
        let head_files = match (comeback, &data) {
            (None, _) => vec![("run.yml".to_owned(), self.text.clone())],
            (Some(_), None) => Vec::new(),
            (Some(_), Some(data)) => vec![(format!("{RUN_FOLDER}/run.yml"), data.with_place(&self.text))],
        };
        let out = comeback.map(|comeback| comeback.folder.clone()).or_else(|| args.out.clone());
        Ok(RunSpec {
            out: out.unwrap_or_else(|| runs.join(&id)),
            id,
            roles: self.roles.clone(),
            head_arguments: self.head_arguments(
                args,
                data.as_ref(),
                (&fleet.checkups()[head_host], fleet.host(head_host)),
            )?,
            head_files,
            node_arguments,
            ticket: TICKET_FORMAT,
            begins,
            address: args.address.clone(),
            data,
            is_data_for_all: self.settings.file.distribute == Distribute::Local,
            is_detached: args.detach,
            resumed: comeback.map(Comeback::resumed).transpose()?,
            backup: comeback::backup,
            launched_from: launched_from(),
        })
    }

    fn head_arguments(
        &self,
        args: &RunOnHostsArgs,
        data: Option<&Shipment>,
        (checkup, host): (&Checkup, &Host),
    ) -> Result<Vec<String>> {
        let mut set = self.set.clone();
        let works = self.roles[0].leads_as().is_some();
        if works {
            set.push("head.works=true".to_owned());
        }
        if let Some(data) = data.filter(|_| args.resume.is_none()) {
            let key = if self.settings.says("data.path") { "data.path" } else { "data.name" };
            set.push(format!("{key}={}", serde_json::to_string(&data.place())?));
        }
        // Of both kinds of addresses, where the host has such.
        let any = if checkup.has_v6() { "[::]" } else { "0.0.0.0" };
        let listen = format!("{any}:{}", args.port);
        let what = match args.resume.is_some() {
            true => ["--resume", RUN_FOLDER, "--new-ticket"],
            false => ["run.yml", "--out", RUN_FOLDER],
        };
        let access = ["--ticket-file", TICKET, "--listen", &listen];
        let words = ["head"].into_iter().chain(what).chain(access);
        let name = works.then_some(["--name", &host.name]).into_iter().flatten();
        let set = set.iter().flat_map(|set| ["--set", set]);
        let words = words.chain(name).chain(set).map(str::to_owned);
        Ok(words.chain(watts_arguments(host)).collect())
    }

    /// Wrong input that only the head could see, such as data that are not there, is wrong input here.
    pub(crate) fn explain(&self, error: LaunchError, args: &RunOnHostsArgs) -> Error {
        match error {
            LaunchError::HeadEnded { host, end } if end.code == Some(WRONG_INPUT.into()) => {
                Error::msg(format!("{} on {host}{}", end.why(), self.data_hint(args)))
            }
            error => error.into(),
        }
    }

    /// What to do about data that the head does not find.
    pub(crate) fn data_hint(&self, args: &RunOnHostsArgs) -> &'static str {
        let is_made = known(&self.settings.file.data.name).is_some_and(|known| known.made);
        if is_made || args.data.is_some() {
            ""
        } else {
            "; if its data are here: --data PATH copies them there"
        }
    }
}

/// Whoever the run file gives a share must be one of the hosts.
fn check_shares(settings: &Settings, hosts: &[Host]) -> Result<()> {
    let ShareRule::Named(weights) = &settings.shares else { return Ok(()) };
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    match weights.keys().find(|name| !names.contains(&name.as_str())) {
        Some(unknown) => {
            let message = format!("no host is called {unknown}; there are {}", names.join(", "));
            Err(settings.wrong(&format!("shares.{unknown}"), message).into())
        }
        None => Ok(()),
    }
}

fn node_arguments(rank: usize, name: &str, host: &Host) -> Vec<String> {
    let rank = rank.to_string();
    let words = ["node", "--ticket-file", TICKET, "--rank", &rank, "--name", name, "--patience", "60"];
    words.map(str::to_owned).into_iter().chain(watts_arguments(host)).collect()
}

/// What the inventory says that a host takes.
fn watts_arguments(host: &Host) -> impl Iterator<Item = String> {
    host.watts.into_iter().flat_map(|watts| ["--watts".to_owned(), watts.to_string()])
}

const TICKET_FORMAT: TicketFormat = TicketFormat {
    port: |text| {
        let ticket: Ticket = text.parse().map_err(in_words)?;
        Ok(ticket.address.rsplit_once(':').map_or("", |(_, port)| port).to_owned())
    },
    with_address: |text, address| {
        let ticket: Ticket = text.parse().map_err(in_words)?;
        Ok(Ticket { address: address.to_owned(), ..ticket }.to_string())
    },
};

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The roles of a run on hosts with so many slots. Unless the run file says otherwise, the head has a process of its
/// own where there is room for one.
fn cast(settings: &Settings, slots: &[usize]) -> Result<Vec<ProcessRole>> {
    let at_work = roles(settings, true);
    if settings.file.head.works == Some(true) {
        in_order(&at_work, slots)?;
        return Ok(at_work);
    }
    let apart = roles(settings, false);
    let Err(shortage) = in_order(&apart, slots) else { return Ok(apart) };
    let enough = at_work.len();
    if settings.file.head.works == Some(false) {
        bail!("{shortage}; with `head: {{works: true}}` {enough} would do");
    }
    match in_order(&at_work, slots) {
        Ok(_) => Ok(at_work),
        Err(_) => bail!("{shortage}; {enough} would do, as the head can work"),
    }
}

/// The same for a run that comes back, whatever room there is.
fn cast_again(settings: &Settings, slots: &[usize]) -> Vec<ProcessRole> {
    let otherwise = || roles(settings, settings.file.head.works != Some(false));
    cast(settings, slots).unwrap_or_else(|_| otherwise())
}

/// From where and how this program was called, and the state of the sources there.
fn launched_from() -> serde_json::Value {
    let folder = std::env::current_dir().ok();
    let git = folder.as_deref().and_then(GitFacts::collect);
    serde_json::json!({"folder": folder, "command": std::env::args().collect::<Vec<_>>(), "git": git})
}

/// The head's first, which is that of the first node too if it works.
fn roles(settings: &Settings, works: bool) -> Vec<ProcessRole> {
    let role = |wanted: &Wanted| match wanted {
        Wanted::Relay(_) => ProcessRole::Relay,
        Wanted::Worker | Wanted::GroupMember => ProcessRole::Worker,
        Wanted::GroupServer => ProcessRole::Server,
        Wanted::Evaluator => ProcessRole::Evaluator,
    };
    let nodes = wanted(&settings.topology, settings.file.evaluator);
    let (head, others) = match nodes.split_first() {
        Some((Wanted::Relay(_), others)) if works => (ProcessRole::HeadAndRelay, others),
        Some((_, others)) if works => (ProcessRole::HeadAndWorker, others),
        _ => (ProcessRole::Head, nodes.as_slice()),
    };
    std::iter::once(head).chain(others.iter().map(role)).collect()
}

#[cfg(test)]
mod tests {
    use super::ProcessRole::{Evaluator, Head, HeadAndRelay, HeadAndWorker, Relay, Worker};
    use super::*;

    const FLAT: &str = "{arch: flat, parameter_server: {num_workers: 3}";
    const GROUP: &str = "{arch: allreduce, allreduce: {num_workers: 3}";
    const TREE: &str =
        "{arch: hierarchical, global_server: {local_servers: [{num_workers: 1}, {num_workers: 1}]}";

    fn read(text: &str, more: &str, slots: &[usize]) -> Result<Vec<ProcessRole>, String> {
        let text = format!("{text}{more}}}");
        let settings = Settings::read("run.yml", &text, &Overrides::default(), 1).expect("a run file");
        cast(&settings, slots).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_head_works_where_there_is_no_room_for_it_alone() {
        let check = |text: &str, more: &str, slots: &[usize], expect: &[ProcessRole]| {
            assert_eq!(read(text, more, slots).as_deref(), Ok(expect), "{text}{more} on {slots:?}");
        };
        let (apart, at_work) = ([Head, Worker, Worker, Worker], [HeadAndWorker, Worker, Worker]);
        for text in [FLAT, GROUP] {
            check(text, "", &[1; 4], &apart);
            check(text, "", &[1; 5], &apart);
            check(text, "", &[1; 3], &at_work);
            check(text, "", &[2, 1], &at_work);
            check(text, "", &[2, 2], &apart);
            check(text, ", head: {works: true}", &[1; 3], &at_work);
            check(text, ", head: {works: true}", &[1; 9], &at_work);
            check(text, ", head: {works: false}", &[1; 4], &apart);
        }
        check(FLAT, ", evaluator: true", &[1; 4], &[HeadAndWorker, Worker, Worker, Evaluator]);
        check(TREE, "", &[1; 5], &[Head, Relay, Worker, Relay, Worker]);
        check(TREE, "", &[1; 4], &[HeadAndRelay, Worker, Relay, Worker]);
        check("{workers: 1", "", &[1], &[HeadAndWorker]);
        check("{workers: 1", "", &[1, 1], &[Head, Worker]);
    }

    #[test]
    fn too_few_hosts_are_told_how_many_would_do() {
        let check = |text: &str, more: &str, slots: &[usize], expect: &str| {
            assert_eq!(read(text, more, slots), Err(expect.to_owned()), "{text}{more} on {slots:?}");
        };
        let needs = "the run needs 1 head and 3 workers: 4 hosts; the inventory has";
        check(
            GROUP,
            ", head: {works: false}",
            &[1; 3],
            &format!("{needs} 3: 1 worker is missing; with `head: {{works: true}}` 3 would do"),
        );
        check(
            GROUP,
            "",
            &[1; 2],
            &format!("{needs} 2: 2 workers are missing; 3 would do, as the head can work"),
        );
        check(
            GROUP,
            ", head: {works: true}",
            &[1; 2],
            "the run needs 1 head that is a worker and 2 workers: 3 hosts; the inventory has 2: 1 worker is missing",
        );
    }
}

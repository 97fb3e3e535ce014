//! What is to run, checked before any host is asked.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Error, Result, bail};
use bonfire_data::source::known;
use bonfire_launch::{
    Host, LaunchError, ProcessRole, RUN_FOLDER, RunSpec, Shipment, TICKET, TicketFormat, in_order, run_id,
};
use bonfire_report::RunFolder;
use bonfire_run::run_file::cast::{Wanted, wanted};
use bonfire_run::run_file::{Distribute, Topology};
use bonfire_run::{Overrides, Settings};
use bonfire_wire::Ticket;

use super::super::WRONG_INPUT;
use super::super::show::begins;
use super::RunOnHostsArgs;

/// A run file with the roles that it has to give.
#[derive(Debug)]
pub struct RunPlan {
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
    pub fn read(args: &RunOnHostsArgs, hosts: &[Host]) -> Result<Self> {
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
        let mut set = args.set.clone();
        let read =
            |set: &[String]| Settings::read(&origin, &text, &Overrides { set, ..Overrides::default() }, 1);
        let settings = read(&set)?;
        if matches!(settings.topology, Topology::Single { .. }) && !settings.says("workers") {
            let slots: usize = hosts.iter().map(|host| host.slots).sum();
            let others = 1 + usize::from(settings.file.evaluator);
            // With too few hosts, one worker is what is missing.
            set.push(format!("workers={}", slots.saturating_sub(others).max(1)));
        }
        let is_made = known(&settings.file.data.name).is_some_and(|known| known.made);
        if !settings.says("distribute") && (!is_made || args.data.is_some()) {
            set.push("distribute=ship".to_owned());
        }
        let settings = read(&set)?;
        let roles = roles(&settings);
        let slots: Vec<usize> = hosts.iter().map(|host| host.slots).collect();
        in_order(&roles, &slots)?;
        if let Some(out) = &args.out
            && fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some())
        {
            bail!("{}: is not empty; choose another folder with --out", out.display());
        }
        Ok(Self { settings, text, set, roles })
    }

    /// The run as the launcher is told of it.
    pub fn spec(&self, args: &RunOnHostsArgs, data: Option<Shipment>) -> Result<RunSpec> {
        let runs = Path::new("runs");
        let path = RunFolder::default_path(runs, &self.settings.file.name, SystemTime::now());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let id = run_id(&name).context("the system gives no random numbers")?;
        Ok(RunSpec {
            out: args.out.clone().unwrap_or_else(|| runs.join(&id)),
            id,
            roles: self.roles.clone(),
            head_arguments: self.head_arguments(args, data.as_ref())?,
            head_files: vec![("run.yml".to_owned(), self.text.clone())],
            node_arguments,
            ticket: TICKET_FORMAT,
            begins,
            address: args.address.clone(),
            data,
            is_data_for_all: self.settings.file.distribute == Distribute::Local,
            is_detached: args.detach,
        })
    }

    fn head_arguments(&self, args: &RunOnHostsArgs, data: Option<&Shipment>) -> Result<Vec<String>> {
        let mut set = self.set.clone();
        if let Some(data) = data {
            let key = if self.settings.says("data.path") { "data.path" } else { "data.name" };
            set.push(format!("{key}={}", serde_json::to_string(&data.place())?));
        }
        let listen = format!("0.0.0.0:{}", args.port);
        let words = ["head", "run.yml", "--out", RUN_FOLDER, "--ticket-file", TICKET, "--listen", &listen];
        let set = set.iter().flat_map(|set| ["--set", set]);
        Ok(words.into_iter().chain(set).map(str::to_owned).collect())
    }

    /// Wrong input that only the head could see, such as data that are not there, is wrong input here.
    pub fn explain(&self, error: LaunchError, args: &RunOnHostsArgs) -> Error {
        match error {
            LaunchError::HeadEnded { host, end } if end.code == Some(WRONG_INPUT.into()) => {
                Error::msg(format!("{} on {host}{}", end.why(), self.data_hint(args)))
            }
            error => error.into(),
        }
    }

    /// What to do about data that the head does not find.
    pub fn data_hint(&self, args: &RunOnHostsArgs) -> &'static str {
        let is_made = known(&self.settings.file.data.name).is_some_and(|known| known.made);
        if is_made || args.data.is_some() {
            ""
        } else {
            "; if its data are here: --data PATH copies them there"
        }
    }
}

fn node_arguments(rank: usize, host: &str) -> Vec<String> {
    let rank = rank.to_string();
    ["node", "--ticket-file", TICKET, "--rank", &rank, "--name", host, "--patience", "60"]
        .map(str::to_owned)
        .into()
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

fn roles(settings: &Settings) -> Vec<ProcessRole> {
    let role = |wanted: &Wanted| match wanted {
        Wanted::Relay(_) => ProcessRole::Relay,
        Wanted::Worker | Wanted::RingMember => ProcessRole::Worker,
        Wanted::Evaluator => ProcessRole::Evaluator,
    };
    let others = wanted(&settings.topology, settings.file.evaluator);
    std::iter::once(ProcessRole::Head).chain(others.iter().map(role)).collect()
}

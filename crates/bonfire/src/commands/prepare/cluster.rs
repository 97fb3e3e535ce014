use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use anyhow::{Context, Result, bail};
use bonfire_data::prepare::Preparation;
use bonfire_launch::ProcessRole::{Head, Worker};
use bonfire_launch::{
    LaunchError, LiveRun, ProcessEnd, RUN_FOLDER, RunList, RunNews, RunSpec, Shipment, TICKET, TicketFormat,
    run_id,
};

use crate::commands::WRONG_INPUT;
use crate::commands::fleet_args::{FleetArgs, sweep};
use crate::commands::run::count_ctrl_c;
use crate::commands::setup::install;
use crate::failure::Failed;
use crate::terminal::{say, warn};

/// The program that does it, which is built on its own.
const PROGRAM: &str = "bonfire-prepare";

/// What the head makes in its run folder.
const RESULT: &str = "prepared";

/// What the head says first, when an executor is there.
const BEGINS: &str = "executors are there";

/// Prepares on hosts: the first leads, the others are executors.
pub(crate) fn prepare(preparation: &Preparation, fleet: &FleetArgs, is_quiet: bool) -> Result<()> {
    preparation.check()?;
    let program = Shipment::of(&find_program()?).context(PROGRAM)?;
    let hosts = fleet.hosts()?;
    if hosts.len() < 2 {
        bail!("at least two hosts are needed: the first leads, the others read and sort");
    }
    let roles: Vec<_> = std::iter::once(Head).chain(hosts[1..].iter().map(|_| Worker)).collect();
    let list = RunList::open()?;
    let mut fleet = fleet.check(hosts, program.bytes)?;
    fleet.require(&roles, false)?;
    install(&mut fleet, is_quiet);
    fleet.require(&roles, false)?;
    sweep(&fleet, is_quiet);
    let (fleet, places) = fleet.assign(&roles, false)?;
    let spec = RunSpec {
        id: run_id("prepare").context("the system gives no random numbers")?,
        out: beside(&preparation.out),
        roles,
        head_arguments: head_arguments(preparation, &program)?,
        head_files: Vec::new(),
        node_arguments: |_, _, _| executor_arguments(),
        ticket: TICKET_FORMAT,
        begins: |line| line == BEGINS,
        address: None,
        data: Some(program),
        is_data_for_all: true,
        is_detached: false,
        resumed: None,
        backup: |_| None,
        launched_from: serde_json::Value::Null,
    };
    let interrupts = count_ctrl_c()?;
    let mut live = spec.start(fleet, &places, list, interrupts, &mut warn).map_err(explained)?;
    let end = follow(&mut live, interrupts, is_quiet)?;
    conclude(&preparation.out, &live, &end)
}

/// Until the head has ended, and what it made is here.
fn follow(live: &mut LiveRun, interrupts: &AtomicUsize, is_quiet: bool) -> Result<ProcessEnd> {
    let mut tell = |news: RunNews<'_>| match news {
        RunNews::Line(line) if is_quiet || line == BEGINS => {}
        RunNews::Line(line) => say(line),
        RunNews::Warning(warning) => warn(warning),
    };
    let end = live.follow(&mut tell, interrupts)?;
    live.settle(interrupts);
    live.run.collect(false, &mut warn)?;
    Ok(end)
}

fn conclude(out: &Path, live: &LiveRun, end: &ProcessEnd) -> Result<()> {
    let (host, folder) = (live.run.head_name(), &live.run.record.out);
    match end.code {
        Some(0) => {}
        Some(code) if code == i32::from(WRONG_INPUT) => {
            // Its logs say no more.
            let _ = fs::remove_dir_all(folder);
            bail!("{} on {host}", end.why())
        }
        _ => {
            let logs = folder.join("logs");
            return Err(Failed(format!("{} on {host}; see {}", end.why(), logs.display())).into());
        }
    }
    if out.is_dir() {
        fs::remove_dir(out).with_context(|| out.display().to_string())?;
    }
    fs::rename(folder.join(RESULT), out).with_context(|| out.display().to_string())?;
    fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    say(&format!("it is in {}", out.display()));
    Ok(())
}

/// Where all comes to before it has its name.
fn beside(out: &Path) -> PathBuf {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".hosts");
    out.with_file_name(name)
}

fn find_program() -> Result<PathBuf> {
    let own = std::env::current_exe().ok().and_then(|own| own.parent().map(Path::to_owned));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = own.into_iter().chain(std::env::split_paths(&paths));
    let found = folders.map(|folder| folder.join(PROGRAM)).find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "{PROGRAM} is neither beside this program nor in the PATH: hosts prepare by a program of its own. To make \
             it, in the sources: cargo build --release --manifest-path crates/prepare/Cargo.toml \
             --target-dir target"
        )
    })
}

fn head_arguments(preparation: &Preparation, program: &Shipment) -> Result<Vec<String>> {
    let Preparation { inputs, rules, format, memory, is_strict, .. } = preparation;
    let mut words = tool(&program.place());
    words.extend(
        ["lead", "--ticket-file", TICKET, "--folder", RUN_FOLDER, "--format", format.name()]
            .map(str::to_owned),
    );
    words.extend([
        "--rules".to_owned(),
        serde_json::to_string(rules)?,
        "--memory".to_owned(),
        memory.to_string(),
    ]);
    if *is_strict {
        words.push("--strict".to_owned());
    }
    for input in inputs {
        let input = std::path::absolute(input).with_context(|| input.display().to_string())?;
        let input = input.to_str().with_context(|| format!("{}: not UTF-8", input.display()))?;
        words.push(input.to_owned());
    }
    Ok(words)
}

fn executor_arguments() -> Vec<String> {
    let mut words = tool(&format!("../data/{PROGRAM}"));
    words.extend(
        ["executor", "--ticket-file", TICKET, "--listen", "0.0.0.0", "--work-dir", "work"].map(str::to_owned),
    );
    words
}

/// Has this program give way to another that was brought to the host.
fn tool(place: &str) -> Vec<String> {
    ["host", "tool", place].map(str::to_owned).to_vec()
}

/// The ticket of a scheduler is its address.
const TICKET_FORMAT: TicketFormat = TicketFormat {
    port: |ticket| {
        let port = ticket.rsplit_once(':').map(|(_, port)| port.to_owned());
        port.ok_or_else(|| format!("{PROGRAM} gave no address: {ticket:?}"))
    },
    with_address: |_, address| Ok(address.to_owned()),
};

fn explained(error: LaunchError) -> anyhow::Error {
    match error {
        LaunchError::HeadEnded { host, end } if end.code == Some(WRONG_INPUT.into()) => {
            anyhow::Error::msg(format!("{} on {host}", end.why()))
        }
        error => error.into(),
    }
}

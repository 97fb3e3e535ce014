//! The scheduler and whoever submits in one process: what `bonfire prepare -i` starts on the first host.

use std::fs::{self, File};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::scheduler::{PATIENCE, Scheduler};
use crate::submit::WhatArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct LeadArgs {
    #[command(flatten)]
    what: WhatArgs,
    /// Where to write at which port the scheduler listens
    #[arg(long, value_name = "FILE")]
    ticket_file: PathBuf,
    /// The folder for the result, and for what there is to tell
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
}

/// What comes of it.
const RESULT: &str = "prepared";

/// Where the launcher looks for lines.
const LOG: &str = "events.jsonl";

pub(crate) fn run(args: &LeadArgs, runtime: &Runtime) -> Result<()> {
    args.what.check()?;
    fs::create_dir_all(&args.folder).with_context(|| args.folder.display().to_string())?;
    let mut log = File::create(args.folder.join(LOG))?;
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let scheduler = runtime.block_on(Scheduler::bind(any, 0, PATIENCE))?;
    let address = scheduler.address;
    runtime.spawn(scheduler.serve());
    write_whole(&args.ticket_file, &address.to_string())?;
    let here = (Ipv4Addr::LOCALHOST.to_string(), address.port());
    // A launcher that does not hear of it goes on all the same.
    let mut tell = |line: &str| drop(writeln!(log, "{line}"));
    args.what.prepare(&args.folder.join(RESULT), &here, runtime, &mut tell)
}

/// What is seen under the name is whole.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let aside = path.with_extension("new");
    fs::write(&aside, text)
        .and_then(|()| fs::rename(&aside, path))
        .with_context(|| path.display().to_string())
}

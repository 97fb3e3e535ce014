use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_cluster::remote::Access;

use super::run_args::{RunArgs, exit_code};
use super::stop_on_ctrl_c;
use crate::failure::Failed;

/// Start a run with workers on other machines.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The ticket is printed on a line of its own. On every machine that is to take part:\n  \
                  bonfire node TICKET\n\n\
                  Examples:\n  bonfire head run.yml --listen 0.0.0.0:4711\n  \
                  bonfire head run.yml --listen 127.0.0.1:0 --out runs/first --set epochs=3\n  \
                  bonfire head --set arch=allreduce --set allreduce.num_workers=3 --listen 0.0.0.0:4711\n  \
                  bonfire head --resume runs/first               under the same ticket: its nodes come back"
)]
pub struct HeadArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Where nodes reach this process; port 0 takes a free one [default: 0.0.0.0:4711, or where a resumed run was]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The name or address that the ticket gives for this machine [default: the one it listens on]
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Without TLS: everyone on the network can read and change what is sent
    #[arg(long, conflicts_with = "resume")]
    insecure: bool,
    /// Write the ticket to this new file, which only its owner can read, instead of printing it
    #[arg(long, value_name = "FILE")]
    ticket_file: Option<PathBuf>,
    /// How many seconds nodes may take to join
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    wait: u64,
}

pub fn run(args: HeadArgs) -> Result<ExitCode> {
    let access = Access {
        listen: args.listen,
        advertise: args.advertise,
        insecure: args.insecure,
        wait: Duration::from_secs(args.wait),
    };
    let (run, gate) = args.run.training()?.open(&access)?;
    let stop = stop_on_ctrl_c()?;
    let ticket = gate.ticket().to_string();
    match &args.ticket_file {
        Some(path) => {
            write_ticket(path, &ticket).with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => print_line(&ticket),
    }
    let summary = run.lead(&gate, stop).context(Failed("the run failed".to_owned()))?;
    Ok(exit_code(&summary))
}

/// Written aside and renamed: who waits for the file finds all of it.
fn write_ticket(path: &Path, ticket: &str) -> std::io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    writeln!(options.open(&aside)?, "{ticket}")?;
    std::fs::rename(&aside, path)
}

/// Whoever starts nodes waits for this line. One who does not read it is no reason to end the run.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_cluster::remote::Access;
use bonfire_cluster::report::{Exit, View};

use super::{INTERRUPTED, stop_on_ctrl_c};
use crate::Training;
use crate::failure::Failed;

/// Start a run with workers on other machines.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The ticket is printed on a line of its own. On every machine that is to take part:\n  \
                  bonfire node TICKET\n\n\
                  Examples:\n  bonfire head run.yml --listen 0.0.0.0:4711\n  \
                  bonfire head run.yml --listen 127.0.0.1:0 --out runs/first --set epochs=3\n  \
                  bonfire head --set arch=allreduce --set allreduce.num_workers=3 --listen 0.0.0.0:4711\n  \
                  bonfire head --resume runs/first"
)]
pub struct HeadArgs {
    /// The run file (YAML): its `arch` says which nodes the run waits for
    run_file: Option<PathBuf>,
    /// Where nodes reach this process; port 0 takes a free one [default: 0.0.0.0:4711, or where a resumed run was]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The name or address that the ticket gives for this machine [default: the one it listens on]
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Without TLS: everyone on the network can read and change what is sent
    #[arg(long)]
    insecure: bool,
    /// How many seconds nodes may take to join
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    wait: u64,
    /// Change a key of the run file; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The run folder itself [default: a new one below runs/]
    #[arg(long, value_name = "RUN_DIR")]
    out: Option<PathBuf>,
    /// Go on with the run of a folder, from its newest whole checkpoint, under the same ticket: its nodes come back
    #[arg(long, value_name = "RUN_DIR", conflicts_with_all = ["run_file", "out", "insecure"])]
    resume: Option<PathBuf>,
    /// Show nothing but the ticket, warnings and errors
    #[arg(long, short)]
    quiet: bool,
    /// Print every event as a line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: HeadArgs) -> Result<ExitCode> {
    let training = match (&args.resume, &args.run_file) {
        (Some(folder), _) => Training::resume(folder)?,
        (None, Some(path)) => Training::of_file(path)?,
        (None, None) => Training::of(""),
    };
    let mut training = training.view(View::choose(args.quiet, args.json, std::io::stderr().is_terminal()));
    for assignment in args.set {
        training = training.set(assignment);
    }
    if let Some(out) = args.out {
        training = training.out(out);
    }
    let access = Access {
        listen: args.listen,
        advertise: args.advertise,
        insecure: args.insecure,
        wait: Duration::from_secs(args.wait),
    };
    let (run, gate) = training.open(&access)?;
    let stop = stop_on_ctrl_c()?;
    print_line(&gate.ticket().to_string());
    let summary = run.lead(&gate, stop).context(Failed("the run failed".to_owned()))?;
    Ok(match summary.exit {
        Exit::Interrupted => ExitCode::from(INTERRUPTED),
        Exit::Done | Exit::TargetReached | Exit::Failed => ExitCode::SUCCESS,
    })
}

/// Whoever starts nodes waits for this line. One who does not read it is no reason to end the run.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bonfire_cluster::remote::{self, Part, Stage};
use bonfire_report::{Watts, number};
use bonfire_wire::Ticket;

use super::rank_args::RankArgs;
use super::ranks;
use crate::failure::Failed;
use crate::terminal::{say, write};

/// Join a run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  bonfire node bonfire://192.168.2.101:4711/AQEv…\n  \
                  bonfire node bonfire://192.168.2.101:4711/AQEv… --name pi4\n  \
                  bonfire node --ticket-file ticket --rank 2")]
pub(crate) struct NodeArgs {
    /// The line that `bonfire head` printed; under a launcher whose rank 0 is the head it is found without
    #[arg(conflicts_with_all = ["nodes", "master", "secret", "insecure"])]
    ticket: Option<String>,
    /// The file that has this line: on a command line everybody on the machine can read it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ticket", "nodes", "master", "secret", "insecure"])]
    ticket_file: Option<PathBuf>,
    /// Nodes with a rank get the first roles of the run file, in its order [default: after those, as they join]
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// What the head calls this node [default: the machine's name]
    #[arg(long)]
    name: Option<String>,
    /// Where other nodes reach this one [default: a free port on the way to the head]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// What this machine takes when idle and when busy, such as 2.7,6.4 [default: as the run file says, or its meters]
    #[arg(long, value_name = "IDLE,FULL", allow_hyphen_values = true)]
    watts: Option<Watts>,
    /// How many seconds the head may take to answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
    /// How many seconds a head that is gone is waited for
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    patience: u64,
    /// Say nothing but errors
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    ranks: RankArgs,
    #[cfg(feature = "flame")]
    #[command(flatten)]
    flame: super::flame_args::FlameArgs,
    /// Without a ticket: the head was started without TLS
    #[arg(long)]
    insecure: bool,
}

pub(crate) fn run(args: &NodeArgs) -> Result<ExitCode> {
    #[cfg(feature = "flame")]
    let _flame = args.flame.start()?;
    let mut told = 0;
    let mut tell = |stage: &Stage| {
        if !args.quiet {
            show(stage, &mut told);
        }
    };
    let Some(ticket) = ticket(args)? else { return as_rank(args, &mut tell) };
    remote::take_part(&ticket, &part(args, args.rank), &mut |stage| tell(&stage))
        .context(Failed("this node did not see the run to its end".to_owned()))?;
    Ok(ExitCode::SUCCESS)
}

/// The ticket that was given, if one was.
fn ticket(args: &NodeArgs) -> Result<Option<Ticket>> {
    let text = match (&args.ticket, &args.ticket_file) {
        (Some(ticket), _) => ticket.clone(),
        (None, Some(file)) => std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the ticket in {}", file.display()))?,
        (None, None) => return Ok(None),
    };
    text.parse().map(Some).context("the ticket cannot be used")
}

fn part(args: &NodeArgs, rank: Option<u32>) -> Part {
    Part {
        name: args.name.clone(),
        listen: args.listen.clone(),
        wait: Duration::from_secs(args.wait),
        patience: Duration::from_secs(args.patience),
        cache: cache().map(|cache| cache.join("data")),
        rank,
        watts: args.watts,
    }
}

/// One of several ranks, of which the first is the head.
fn as_rank(args: &NodeArgs, tell: &mut dyn FnMut(&Stage)) -> Result<ExitCode> {
    let place = args.ranks.place(args.insecure)?;
    let place = place.context("give the ticket that `bonfire head` printed: bonfire node TICKET")?;
    ensure!(
        place.rank > 0,
        "this is rank 0 of {}: it must be `bonfire head`, or all `bonfire train`",
        place.size
    );
    let rendezvous = args.ranks.rendezvous(&place, args.insecure)?;
    let part = Part { patience: Duration::ZERO, ..part(args, Some(place.rank)) };
    ranks::follow(&place, &rendezvous, &part, Duration::from_secs(args.wait), tell)
}

/// Where things are kept that can be had again.
pub(crate) fn cache() -> Option<PathBuf> {
    let folder = |key: &str| std::env::var_os(key).filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("bonfire"))
}

/// How wide a bar is.
const BAR: usize = 24;

/// The data come in many pieces: a bar on a terminal, and elsewhere a line for every tenth of them.
fn show(stage: &Stage, told: &mut u64) {
    match stage {
        Stage::Connected { address } => say(&format!("connected to {address}")),
        Stage::Fetching { bytes, of } => {
            let tenth = bytes * 10 / (*of).max(1);
            let line = format!("data: {} of {}", number::bytes(*bytes), number::bytes(*of));
            if std::io::stderr().is_terminal() {
                let done = (bytes * BAR as u64 / (*of).max(1)) as usize;
                let bar = "━".repeat(done) + &"─".repeat(BAR.saturating_sub(done));
                write(&format!("\r{bar} {line:<40}{}", if bytes == of { "\n" } else { "" }));
            } else if tenth > *told {
                *told = tenth;
                say(&line);
            }
        }
        Stage::Ready { name } => say(&format!("ready as {name}")),
        Stage::HeadGone { reason, patience_s } => {
            say(&format!("{reason}; waiting up to {patience_s} s for it"))
        }
        Stage::Assigned { role } => say(&format!("works as {role}")),
        Stage::Stopped { reason, .. } => say(&format!("stopped: {reason}")),
    }
}

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::foreign::RankPlace;
use anyhow::{Context, Result, ensure};
use bonfire_cluster::remote::Access;
use bonfire_report::{HostFacts, PageSource, Watts};
use bonfire_run::Ranks;

use super::page_args::{self, PageArgs};
use super::rank_args::RankArgs;
use super::run_args::{RunArgs, exit_code};
use super::{ranks, stop_on_ctrl_c};
use crate::failure;
use crate::terminal::print;

/// Start a run with workers on other machines.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The ticket is printed on a line of its own. On every machine that is to take part:\n  \
                  bonfire node TICKET\n\n\
                  Examples:\n  bonfire head run.yml --listen 0.0.0.0:4711\n  \
                  bonfire head run.yml --listen 127.0.0.1:0 --out runs/first --set epochs=3\n  \
                  bonfire head --set arch=allreduce --set allreduce.num_workers=3 --listen 0.0.0.0:4711\n  \
                  bonfire head run.yml --set head.works=true     this machine is the first worker, too\n  \
                  bonfire head --resume runs/first               under the same ticket: its nodes come back"
)]
pub(crate) struct HeadArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Where nodes reach this process; port 0 takes a free one [default: 0.0.0.0:4711, or where a resumed run was]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["nodes", "master", "secret"])]
    listen: Option<String>,
    /// The name or address that the ticket gives for this machine [default: the one it listens on]
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// What this process is called as a node, if the run file says `head: {works: true}` [default: the machine's name]
    #[arg(long)]
    name: Option<String>,
    /// Without TLS: everyone on the network can read and change what is sent
    #[arg(long, conflicts_with = "resume")]
    insecure: bool,
    /// Write the ticket to this new file, which only its owner can read, instead of printing it
    #[arg(long, value_name = "FILE")]
    ticket_file: Option<PathBuf>,
    /// Go on under a new ticket: for a run folder that came from another machine, or nodes that shall not come back
    #[arg(long, requires = "resume")]
    new_ticket: bool,
    /// What this machine takes when idle and when busy, such as 2.7,6.4 [default: as the run file says, or its meters]
    #[arg(long, value_name = "IDLE,FULL", allow_hyphen_values = true)]
    watts: Option<Watts>,
    /// How many seconds nodes may take to join
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    wait: u64,
    #[cfg(feature = "flame")]
    #[command(flatten)]
    flame: super::flame_args::FlameArgs,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    ranks: RankArgs,
}

pub(crate) fn run(args: HeadArgs) -> Result<ExitCode> {
    #[cfg(feature = "flame")]
    let _flame = args.flame.start()?;
    // Who says where to listen hands the ticket on by other means.
    if args.listen.is_none()
        && let Some(place) = args.ranks.place(false)?
    {
        return as_rank(args, &place);
    }
    let access = Access {
        listen: args.listen,
        advertise: args.advertise,
        insecure: args.insecure,
        wait: Duration::from_secs(args.wait),
    };
    let training = args.run.training()?;
    let works = training.settings()?.file.head.works == Some(true);
    ensure!(works || args.name.is_none(), "--name is for a head that works: head: {{works: true}}");
    let listener = args.page.listen()?;
    let (mut run, gate) = match args.new_ticket {
        true => training.open_with(&access, None)?,
        false => training.open(&access)?,
    };
    if args.watts.is_some() {
        run.meter_energy(args.watts);
    }
    let _page = page_args::open(listener, PageSource::Run(run.folder().to_owned()));
    let stop = stop_on_ctrl_c()?;
    let ticket = gate.ticket().to_string();
    match &args.ticket_file {
        Some(path) => {
            write_ticket(path, &ticket).with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => {
            // Whoever starts nodes waits for this line. One who does not read it is no reason to end the run.
            let _ = print(&ticket);
        }
    }
    let led = match works {
        true => gate.lead_at_work(run, stop, args.name.or_else(|| HostFacts::collect(None).hostname)),
        false => gate.lead(run, stop),
    };
    let summary = led.map_err(failure::of_run)?;
    Ok(exit_code(&summary))
}

/// The first of several ranks: the others are `bonfire node`.
fn as_rank(args: HeadArgs, place: &RankPlace) -> Result<ExitCode> {
    ensure!(
        place.rank == 0,
        "this is rank {} of {}, and only rank 0 can be the head: start the others as `bonfire node`, or all as \
         `bonfire train`",
        place.rank,
        place.size
    );
    ensure!(args.name.is_none(), "--name is for a head that works, and rank 0 is the head only");
    ensure!(args.advertise.is_none(), "--advertise is --master where the head is one of several ranks");
    let rendezvous = args.ranks.rendezvous(place, args.insecure)?;
    let started = Ranks { size: place.size as usize, head_apart: true, mpi: place.launcher.knows_mpi() };
    let training = args.run.training().inspect_err(|error| rendezvous.refuse(&format!("{error:#}")))?;
    let wait = Duration::from_secs(args.wait);
    let summary = ranks::lead(training.ranks(started), &rendezvous, wait, true, args.page.listen()?)?;
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

//! What a process does that is one of several ranks: rank 0 leads and works, the others work.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::foreign::RankPlace;
use anyhow::{Context, Error, Result};
use bonfire_cluster::remote::{Absent, Part, Refused, Rendezvous, Stage};
use bonfire_report::{PageSource, Summary};

use super::{INTERRUPTED, page_args, stop_on_ctrl_c};
use crate::Training;
use crate::failure::{self, Failed};

/// Launchers tell all ranks to stop at once. A rank waits so long for rank 0, which stops them in order.
const GRACE: Duration = Duration::from_secs(10);

/// Launchers that stop a job kill all ranks as soon as one has ended. Rank 0 writes its summary last, and gets this
/// time for it.
const SUMMARY: Duration = Duration::from_millis(400);

/// Leads the run as rank 0, which also works unless it is to be the head only.
pub(crate) fn lead(
    training: Training<'_>,
    rendezvous: &Rendezvous,
    wait: Duration,
    head_apart: bool,
    page: Option<TcpListener>,
) -> Result<Summary> {
    let access = rendezvous.access(wait);
    let keys = rendezvous.keys(&access);
    let opened = training.open_with(&access, keys).and_then(|(run, gate)| {
        let announcement = rendezvous.announce(gate.ticket())?;
        Ok((run, gate, announcement))
    });
    let (run, gate, _announcement) = opened.inspect_err(|error| rendezvous.refuse(&format!("{error:#}")))?;
    let _page = page_args::open(page, PageSource::Run(run.folder().to_owned()));
    let stop = stop_on_ctrl_c()?;
    let led = match head_apart {
        true => gate.lead(run, stop),
        false => gate.lead_at_work(run, stop, None),
    };
    led.map_err(|error| match error.is::<Absent>() {
        true => Error::new(Failed(format!("the run failed: {error:#}; {}", rendezvous.advice()))),
        false => failure::of_run(error),
    })
}

/// Works as another rank until the run is over.
pub(crate) fn follow(
    place: &RankPlace,
    rendezvous: &Rendezvous,
    part: &Part,
    wait: Duration,
    tell: &mut dyn FnMut(&Stage),
) -> Result<ExitCode> {
    wait_for_rank_0_on_ctrl_c()?;
    let mut interrupted = false;
    let mut hear = |stage: Stage| {
        interrupted |= matches!(stage, Stage::Stopped { interrupted: true, .. });
        tell(&stage);
    };
    let joined = rendezvous.join(part, wait, &mut hear);
    let (rank, size) = (place.rank, place.size);
    joined.map_err(|error| match error.is::<Refused>() {
        // Wrong input there is wrong input here.
        true => error.context(format!("rank {rank} of {size}")),
        false => error.context(Failed(format!("rank {rank} of {size}"))),
    })?;
    if !interrupted {
        return Ok(ExitCode::SUCCESS);
    }
    thread::sleep(SUMMARY);
    Ok(ExitCode::from(INTERRUPTED))
}

/// How a rank takes part in a run.
pub(crate) fn part(rank: u32, cache: Option<PathBuf>, wait: Duration) -> Part {
    // Where rank 0 ends, launchers end all.
    let patience = Duration::ZERO;
    Part { name: None, listen: None, wait, patience, cache, rank: Some(rank), watts: None }
}

/// The first signal is for rank 0 to answer; a second one, or none from it in time, ends this rank.
fn wait_for_rank_0_on_ctrl_c() -> Result<()> {
    static STOP: AtomicBool = AtomicBool::new(false);
    let end = || std::process::exit(i32::from(INTERRUPTED));
    ctrlc::set_handler(move || {
        if STOP.swap(true, Ordering::Relaxed) {
            end();
        }
        let timer = thread::Builder::new().spawn(move || {
            thread::sleep(GRACE);
            end();
        });
        if timer.is_err() {
            end();
        }
    })
    .context("cannot listen for Ctrl-C")
}

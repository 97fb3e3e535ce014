//! Where the figures of the hosts come from.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use bonfire_cluster::bench::gauge::{GaugeTask, gauge};
use bonfire_cluster::bench::trial::rounds_here;
use bonfire_cluster::plan::figures::{FrameFigures, HostFigures, Pool};
use bonfire_cluster::plan::{check_described, described, frame_figures};
use bonfire_data::Dataset;

use super::super::fleet_args::FleetArgs;
use super::PlannedRun;
use super::measured::measure_fleet;
use crate::terminal::say;

/// Which hosts.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolArgs {
    /// The list of hosts: an inventory of Ansible, a hostfile of MPI, or an address a line
    #[arg(long, short, value_name = "FILE", group = "pool")]
    inventory: Option<PathBuf>,
    /// The hosts themselves: a,b,c:2
    #[arg(short = 'H', value_name = "LIST", group = "pool")]
    list: Option<String>,
    /// The group of the inventory [default: pool if there is one, otherwise all]
    #[arg(long, value_name = "GROUP", requires = "inventory")]
    group: Option<String>,
    /// Hosts in figures, instead of machines
    #[arg(long, value_name = "FILE", group = "pool")]
    hosts: Option<PathBuf>,
    /// Hosts that were measured before, as --save wrote them
    #[arg(long, value_name = "FILE", group = "pool")]
    measured: Option<PathBuf>,
}

impl PoolArgs {
    pub(crate) fn measure(&self, run: &PlannedRun, quiet: bool) -> Result<Pool> {
        let pool = match (&self.hosts, &self.measured) {
            (Some(path), _) => {
                let text = read(path)?;
                check_described(&path.display().to_string(), &text)?;
                if !quiet {
                    say(&format!("measures this machine at {}", run.name()));
                }
                let own = measure_here(run)?;
                described(&path.display().to_string(), &text, &own, run.settings.file.batch_size)?
            }
            (_, Some(path)) => Pool::read(&path.display().to_string(), &read(path)?, &run.name())?,
            (None, None) if self.inventory.is_some() || self.list.is_some() => {
                let fleet = FleetArgs::of(self.inventory.clone(), self.list.clone(), self.group.clone());
                let mut fleet = fleet.check(fleet.hosts()?, 0)?;
                measure_fleet(&mut fleet, run, quiet)?
            }
            (None, None) => bail!("which hosts? -i FILE, -H a,b,c, --hosts FILE or --measured FILE"),
        };
        Ok(Pool { of: run.name(), ..pool })
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// So many batches of the largest size are looked at.
const BATCHES: usize = 12;

/// What a host is measured with: it travels there.
const MOST_BYTES: usize = 2 << 20;

/// A part of the data that is enough to measure with.
pub(crate) fn excerpt(run: &PlannedRun) -> Dataset {
    let batch = run.settings.file.batch_size;
    let bytes = match &*run.dataset.train {
        bonfire_data::Samples::Images(images) => images.values() * images.pixels.format().width(),
        _ => 256,
    };
    let most = (MOST_BYTES / bytes.max(1)).max(2 * batch);
    run.dataset.excerpt((BATCHES * 2 * batch).min(most))
}

/// What is to be measured, where a machine may have so many workers.
pub(crate) fn task(run: &PlannedRun, workers: Vec<usize>, tries_alone: bool) -> GaugeTask {
    GaugeTask { text: run.resolved(), workers, tries_alone }
}

/// This machine in figures.
fn measure_here(run: &PlannedRun) -> Result<HostFigures> {
    let dataset = excerpt(run);
    ensure!(!dataset.train.is_empty(), "the data have no samples to train on");
    let mut figures = gauge(&task(run, vec![1], false), &dataset)?;
    // Sent and received by one host each.
    if let Some(pair) =
        rounds_here(&run.resolved(), &dataset)?.and_then(|[large, small]| frame_figures(&large, &small))
    {
        let frame = FrameFigures { frame_s: pair.frame_s / 2.0, byte_s: pair.byte_s / 2.0 };
        (figures.link.send, figures.link.receive) = (frame, frame);
    }
    Ok(figures)
}

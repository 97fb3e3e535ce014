use crate::foreign::{self, Launcher, RankPlace};
use anyhow::{Context, Result, bail, ensure};
use bonfire_cluster::remote::{Point, Rendezvous};
use bonfire_wire::Passphrase;

use super::node::cache;
use super::sibling::{Sibling, SiblingProcess};

/// Which of several processes this is, and how they find each other. Launchers tell most of it.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "One of several ranks (mpirun, srun and torchrun say which; by hand: -n 3 -nr 1 \
                         --master ADDRESS)"
)]
pub(crate) struct RankArgs {
    /// How many nodes there are; this command is given once on each
    #[arg(long, short = 'n', value_name = "N", requires = "node_rank")]
    nodes: Option<u32>,
    /// Which of them this is, from 0 to N - 1; -nr is the same. Node 0 leads
    #[arg(long, value_name = "I", requires = "nodes")]
    node_rank: Option<u32>,
    /// How many processes this command starts on its node; -np is the same
    #[arg(long, value_name = "N", requires = "nodes", default_value_t = 1, hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    processes: u32,
    /// Which of these this is, and the number of the first
    #[arg(long, value_name = "I:PID", hide = true, requires = "nodes")]
    sibling: Option<Sibling>,
    /// Where node 0 is reached [default: MASTER_ADDR and MASTER_PORT]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    master: Option<Point>,
    /// A passphrase that all ranks are told, if they share no folder [default: BONFIRE_SECRET, which no process list
    /// shows]
    #[arg(long, value_name = "PASSPHRASE", hide_default_value = true)]
    secret: Option<String>,
}

impl RankArgs {
    /// The place of this process among others. None if it is alone; then what is only for others must not be asked for.
    pub(crate) fn place(&self, insecure: bool) -> Result<Option<RankPlace>> {
        if let (Some(size), Some(rank)) = (self.nodes, self.node_rank) {
            ensure!(
                rank < size,
                "--node-rank {rank} of {size} nodes: ranks go from 0 to {}",
                size.saturating_sub(1)
            );
            let place = self.place_by_hand(rank, size)?;
            return Ok((place.size > 1).then_some(place));
        }
        let place = foreign::place(&|name| std::env::var(name).ok())?;
        if place.is_none() && (self.master.is_some() || self.secret.is_some() || insecure) {
            bail!(
                "--master, --secret and --insecure are for several ranks: start them by mpirun or srun, or by hand, \
                 each with -n and -nr"
            );
        }
        Ok(place.filter(|place| place.size > 1))
    }

    /// The place of this process if a person started it on node `node` of `nodes`.
    fn place_by_hand(&self, node: u32, nodes: u32) -> Result<RankPlace> {
        let (each, first) =
            (self.processes, self.sibling.map_or_else(std::process::id, |sibling| sibling.first));
        let size = nodes.checked_mul(each).context("there are too many nodes and processes to count")?;
        let rank = node * each + self.sibling.map_or(0, |sibling| sibling.place);
        // Where all are on one machine, the first of them is what they have in common.
        let (local_size, job) = match nodes {
            1 => (Some(each), Some(format!("beside {first}"))),
            _ => (None, None),
        };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let master = variable("MASTER_ADDR").map(|address| match variable("MASTER_PORT") {
            Some(port) => format!("{address}:{port}"),
            None => address,
        });
        ensure!(
            nodes == 1 || master.is_some() || self.master.is_some(),
            "ranks that are started by hand meet at node 0: give all of them --master ADDRESS, or set MASTER_ADDR"
        );
        Ok(RankPlace { launcher: Launcher::Hand, rank, size, local_size, master, job })
    }

    /// Starts the other processes of this node, if this is the first of several.
    pub(crate) fn start_siblings(&self) -> Result<Vec<SiblingProcess>> {
        let others = if self.sibling.is_some() { 1 } else { self.processes };
        (1..others).map(SiblingProcess::start).collect()
    }

    /// How the ranks find each other.
    pub(crate) fn rendezvous(&self, place: &RankPlace, insecure: bool) -> Result<Rendezvous> {
        let told = place.master.as_deref().map(str::parse).transpose().map_err(anyhow::Error::msg)?;
        let master = self.master.clone().or(told);
        let passphrase = self
            .secret
            .clone()
            .or_else(|| std::env::var("BONFIRE_SECRET").ok().filter(|found| !found.is_empty()));
        let passphrase =
            passphrase.map(|passphrase| Passphrase::new(&passphrase)).transpose().context("--secret")?;
        match (master, passphrase) {
            (Some(master), passphrase) if insecure => Ok(Rendezvous::Plain { master, passphrase }),
            (None, _) if insecure => bail!("--insecure needs --master ADDRESS: where rank 0 is reached"),
            (Some(master), Some(passphrase)) => Ok(Rendezvous::Passphrase { master, passphrase }),
            (None, Some(_)) => bail!("--secret needs --master ADDRESS: where rank 0 is reached"),
            (master, None) => {
                let Some(cache) = cache() else {
                    bail!(
                        "neither HOME nor XDG_CACHE_HOME is set, so ranks share no folder: give all of them \
                         --secret PASSPHRASE and --master ADDRESS"
                    )
                };
                let here = place.local_size == Some(place.size);
                let path = Rendezvous::file(&cache.join("meet"), &self.job(place)?);
                Ok(Rendezvous::File { path, master, here })
            }
        }
    }

    /// What the ranks of this start have in common, and no others.
    fn job(&self, place: &RankPlace) -> Result<String> {
        let RankPlace { launcher, size, local_size, master, job, .. } = place;
        let job = match (job, &self.master, master) {
            (Some(job), ..) => job.clone(),
            (None, Some(master), _) => format!("{master:?}"),
            (None, None, Some(master)) => master.clone(),
            // All of them have the launcher itself as their parent.
            (None, None, None) if *local_size == Some(*size) => format!("under {}", parent()),
            (None, None, None) => {
                bail!("{launcher} does not say where the ranks can meet: give all of them --master ADDRESS")
            }
        };
        Ok(format!("{launcher} {size} {job}"))
    }
}

#[cfg(unix)]
fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

#[cfg(not(unix))]
fn parent() -> u32 {
    0
}

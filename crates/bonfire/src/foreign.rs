//! Which place this process has among those that another launcher started: mpirun, srun, or torchrun.
//!
//! Launchers tell it by variables of the environment. Those of a launcher that was started by another stand beside the
//! outer one's, so they are asked from the inside out: an MPI launcher inside an allocation of Slurm uses srun to start
//! its daemons, and what Slurm says then is of the daemons.

use std::fmt;

/// The place of a process among its like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RankPlace {
    pub launcher: Launcher,
    /// From 0.
    pub rank: u32,
    pub size: u32,
    /// How many of them are on this machine, if the launcher says.
    pub local_size: Option<u32>,
    /// Where rank 0 can be reached, as `HOST` or `HOST:PORT`, if the launcher says.
    pub master: Option<String>,
    /// What only the processes of this start have in common, if the launcher says.
    pub job: Option<String>,
}

/// Who started the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launcher {
    /// Open MPI's mpirun.
    OpenMpi,
    /// A launcher that speaks PMI: those of MPICH and Intel MPI.
    Pmi,
    Slurm,
    Torchrun,
    /// A person, rank by rank.
    Hand,
}

impl Launcher {
    /// Whether programs that it starts can use MPI.
    pub(crate) fn knows_mpi(self) -> bool {
        matches!(self, Self::OpenMpi | Self::Pmi | Self::Slurm)
    }
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "mpirun",
            Self::Pmi => "mpiexec",
            Self::Slurm => "srun",
            Self::Torchrun => "torchrun",
            Self::Hand => "hand",
        })
    }
}

/// Variables that cannot be right, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction(String);

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Contradiction {}

/// The place of this process by the environment that `lookup` reads. None if no launcher started it.
pub(crate) fn place(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<RankPlace>, Contradiction> {
    let env = Environment(lookup);
    let (mpi, torch) = (env.open_mpi()?.map_or_else(|| env.pmi(), |place| Ok(Some(place)))?, env.torchrun()?);
    Ok(match (mpi, torch) {
        // Under torchrun's own agents, whoever started the agents.
        (_, Some(torch)) if env.get("TORCHELASTIC_RUN_ID").is_some() => Some(torch),
        (Some(mpi), Some(torch)) if (mpi.rank, mpi.size) != (torch.rank, torch.size) => {
            return Err(Contradiction(format!(
                "{} says rank {} of {}, but RANK and WORLD_SIZE say rank {} of {}: unset one pair of them",
                mpi.launcher, mpi.rank, mpi.size, torch.rank, torch.size
            )));
        }
        // Those who set both usually say where to meet, too.
        (Some(mpi), torch) => Some(RankPlace { master: torch.and_then(|torch| torch.master), ..mpi }),
        (None, Some(torch)) => Some(torch),
        (None, None) => env.slurm()?,
    })
}

struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

/// Slurm gives steps that no srun started numbers from here on: those of batch scripts, of daemons, of shells.
const NO_STEP: u32 = 0xffff_fff0;

impl Environment<'_> {
    /// A variable that is set to something.
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn number(&self, name: &str) -> Result<Option<u32>, Contradiction> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().map_err(|_| {
            Contradiction(format!("the variable {name} is {text:?}, which is no whole number: unset it"))
        })?;
        Ok(Some(number))
    }

    /// Rank and size, if both are said. One without the other cannot be.
    fn pair(&self, rank: &str, size: &str) -> Result<Option<(u32, u32)>, Contradiction> {
        match (self.number(rank)?, self.number(size)?) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(lone(rank, size)),
            (None, Some(_)) => Err(lone(size, rank)),
            (Some(at), Some(of)) if at < of => Ok(Some((at, of))),
            (Some(at), Some(of)) => Err(Contradiction(format!(
                "{rank} is {at} and {size} is {of}: ranks go from 0 to one less than the size"
            ))),
        }
    }

    fn open_mpi(&self) -> Result<Option<RankPlace>, Contradiction> {
        let Some((rank, size)) = self.pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")? else {
            return Ok(None);
        };
        let local_size = self.number("OMPI_COMM_WORLD_LOCAL_SIZE")?;
        let number = self.get("PMIX_NAMESPACE").or_else(|| self.get("OMPI_MCA_ess_base_jobid"));
        // The number is short, and comes again; beside it mpirun gives every job a long one by chance.
        let chance = self.get("OMPI_MCA_orte_precondition_transports");
        let job =
            number.map(|number| [Some(number), chance].into_iter().flatten().collect::<Vec<_>>().join("."));
        Ok(Some(RankPlace { launcher: Launcher::OpenMpi, rank, size, local_size, master: None, job }))
    }

    fn pmi(&self) -> Result<Option<RankPlace>, Contradiction> {
        // Slurm sets these too, for the tasks of a step as for the daemons of another launcher in it.
        if self.step()?.is_some() && self.get("MPI_LOCALNRANKS").is_none() {
            return Ok(None);
        }
        let Some((rank, size)) = self.pair("PMI_RANK", "PMI_SIZE")? else { return Ok(None) };
        let local_size = self.number("MPI_LOCALNRANKS")?;
        // The launcher's own address, which nobody else has at the same time.
        let job = self.get("PMI_PORT");
        Ok(Some(RankPlace { launcher: Launcher::Pmi, rank, size, local_size, master: None, job }))
    }

    fn torchrun(&self) -> Result<Option<RankPlace>, Contradiction> {
        // Common words: without an address they may be about anything.
        let is_meant = self.get("MASTER_ADDR").is_some()
            || (self.get("RANK").is_some() && self.get("WORLD_SIZE").is_some());
        let is_partial = self.get("RANK").is_none() && self.get("WORLD_SIZE").is_none();
        if !is_meant || is_partial {
            return Ok(None);
        }
        let Some((rank, size)) = self.pair("RANK", "WORLD_SIZE")? else { return Ok(None) };
        let local_size = self.number("LOCAL_WORLD_SIZE")?;
        let master = self.master()?;
        // Many runs are called "none"; the agents of each have a port of their own.
        let agents = || [self.get("MASTER_ADDR"), self.get("MASTER_PORT")].into_iter().flatten();
        let job = self.get("TORCHELASTIC_RUN_ID");
        let job = job.map(|id| std::iter::once(id).chain(agents()).collect::<Vec<_>>().join("."));
        Ok(Some(RankPlace { launcher: Launcher::Torchrun, rank, size, local_size, master, job }))
    }

    /// What scripts for PyTorch say of the meeting point.
    fn master(&self) -> Result<Option<String>, Contradiction> {
        let Some(host) = self.get("MASTER_ADDR") else { return Ok(None) };
        let port = self.number("MASTER_PORT")?;
        // Torchrun's agent listens on that port itself.
        let is_taken = self.get("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|store| store == "True");
        Ok(Some(match port {
            Some(port) if port == 0 || port > u32::from(u16::MAX) => {
                return Err(Contradiction(format!("MASTER_PORT is {port}: ports go from 1 to 65535")));
            }
            Some(port) if !is_taken => format!("{host}:{port}"),
            _ => host,
        }))
    }

    /// The number of the step that srun started this process in.
    fn step(&self) -> Result<Option<u32>, Contradiction> {
        // A batch script has a rank too, but is alone.
        let step = match self.number("SLURM_STEP_ID")? {
            Some(step) => Some(step),
            None => self.number("SLURM_STEPID")?,
        };
        Ok(step.filter(|&step| step < NO_STEP))
    }

    fn slurm(&self) -> Result<Option<RankPlace>, Contradiction> {
        let Some(step) = self.step()? else { return Ok(None) };
        let size = match self.get("SLURM_STEP_NUM_TASKS") {
            Some(_) => "SLURM_STEP_NUM_TASKS",
            None => "SLURM_NTASKS",
        };
        let Some((rank, size)) = self.pair("SLURM_PROCID", size)? else { return Ok(None) };
        let node = self.number("SLURM_NODEID")?.unwrap_or(0);
        let local_size = self.get("SLURM_STEP_TASKS_PER_NODE").and_then(|tasks| tasks_on(&tasks, node));
        let first = || self.get("SLURM_STEP_NODELIST").and_then(|list| first_host(&list));
        let master = match self.master()? {
            Some(master) => Some(master),
            // Without other orders the first rank is on the first machine.
            None if self.get("SLURM_DISTRIBUTION").is_none_or(|order| !order.starts_with("arbitrary")) => {
                first().or_else(|| self.get("SLURM_LAUNCH_NODE_IPADDR"))
            }
            None => None,
        };
        // A job that was put back into the queue has the same number again.
        let restarts = self.number("SLURM_RESTART_COUNT")?.unwrap_or(0);
        let job = self.get("SLURM_JOB_ID").map(|job| format!("{job}.{step}.{restarts}"));
        Ok(Some(RankPlace { launcher: Launcher::Slurm, rank, size, local_size, master, job }))
    }
}

fn lone(is: &str, is_not: &str) -> Contradiction {
    Contradiction(format!("the variable {is} is set, but {is_not} is not: set both, or unset {is}"))
}

/// The number for a machine in `4(x2),3`.
fn tasks_on(list: &str, node: u32) -> Option<u32> {
    let mut before = 0;
    for part in list.split(',') {
        let (tasks, times) = match part.split_once("(x") {
            Some((tasks, times)) => (tasks, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        before += times;
        if node < before {
            return tasks.parse().ok();
        }
    }
    None
}

/// The first machine of `pi[03-07,12],head`.
fn first_host(list: &str) -> Option<String> {
    let Some(open) = list.find('[').filter(|open| !list[..*open].contains(',')) else {
        return list.split(',').next().map(str::to_owned);
    };
    let (start, rest) = list.split_at(open);
    let (numbers, end) = rest.strip_prefix('[')?.split_once(']')?;
    let number = numbers.split([',', '-']).next()?;
    let end = end.split(',').next()?;
    // More brackets name machines by racks and the like.
    let end = if end.contains('[') { first_host(end)? } else { end.to_owned() };
    Some(format!("{start}{number}{end}"))
}

#[cfg(test)]
mod tests;

//! Who trains with whom: the keys of a run file that say so, and what they come to.

use std::time::Duration;

use bonfire_yaml::{Tree, YamlError};
use serde::{Deserialize, Serialize};

use super::{Compression, RunFile};

/// Who sends gradients to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// One machine.
    #[default]
    Single,
    /// Workers under one parameter server.
    Flat,
    /// Workers under local parameter servers under a global one.
    Hierarchical,
    /// Workers in a group, without a server.
    Allreduce,
}

/// When a server updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregation {
    /// By the gradients of all, together.
    #[default]
    Sync,
    /// By every gradient as it comes.
    Async,
}

/// A parameter server with its workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterServer {
    #[serde(alias = "type", default)]
    pub aggr_type: Aggregation,
    pub num_workers: usize,
    /// Sync: so many workers more, of which the last to answer in a round are not waited for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub backup_workers: usize,
    /// Async: how many updates a gradient may be behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_staleness: Option<u64>,
    /// Async: an update by a gradient that is s updates behind is made (1 + s)^-damping times as large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damping: Option<f64>,
    /// Sync: after so many seconds of waiting a round goes on without who is late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub straggler_s: Option<f64>,
}

/// A parameter server with the servers under it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalServer {
    #[serde(alias = "type", default)]
    pub aggr_type: Aggregation,
    /// Async: how many updates a gradient may be behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_staleness: Option<u64>,
    /// Async: an update by a gradient that is s updates behind is made (1 + s)^-damping times as large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damping: Option<f64>,
    /// Sync: after so many seconds of waiting a round goes on without who is late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub straggler_s: Option<f64>,
    pub local_servers: Vec<LocalServer>,
}

/// A relay with its workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalServer {
    #[serde(alias = "type", default)]
    pub aggr_type: Aggregation,
    pub num_workers: usize,
}

/// Workers that sum their gradients among themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allreduce {
    pub num_workers: usize,
    /// So many machines more that only sum.
    #[serde(default, skip_serializing_if = "is_default")]
    pub servers: usize,
    #[serde(default)]
    pub op: ReduceOp,
    #[serde(default)]
    pub engine: Engine,
}

/// The head, which leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadSpec {
    /// Whether its process has the first of the other roles too. Who launches decides if the file does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works: Option<bool>,
}

/// What becomes of the gradients of all members of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReduceOp {
    /// Their mean over all samples.
    #[default]
    Mean,
    /// Their sum where they are at right angles, their mean where they are parallel.
    Adasum,
}

/// What carries a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Links between neighbours, as of all nodes.
    #[default]
    Grpc,
    /// The collectives of MPI, where a launcher of MPI started all members.
    Mpi,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The same, checked and with the defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// Workers that share the memory of this process.
    Single { workers: usize },
    /// Workers under a head.
    Flat { rule: ServerRule, workers: usize, backup: usize },
    /// Workers under relays under a head.
    Hierarchical { rule: ServerRule, relays: Vec<RelayPlan> },
    /// Workers that sum among themselves, and machines that help them with that.
    Allreduce { workers: usize, servers: usize, op: ReduceOp, engine: Engine },
}

/// When the head updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerRule {
    pub is_async: bool,
    /// 0 if sync.
    pub max_staleness: u64,
    pub damping: f64,
    pub straggler: Option<Duration>,
}

/// A relay and its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayPlan {
    pub is_async: bool,
    pub workers: usize,
}

/// Why what spares a wire is nothing for workers that share memory.
const ALONE: &str = "is for several machines: on one, exchanges cost nothing";

/// The bound of an asynchronous server that does not say: the best of those measured by Li et al., OSDI 2014.
const MAX_STALENESS: u64 = 8;

/// Every worker holds a gradient of its own.
const MOST_WORKERS: usize = 1024;

impl Topology {
    /// Why gradients cannot travel so, if they cannot.
    pub(super) fn refuses_compression(&self, compression: Compression) -> Option<&'static str> {
        let is_of_low_rank = match compression {
            Compression::None => return None,
            Compression::PowerSgd(_) => true,
            _ => false,
        };
        match self {
            Self::Allreduce { engine: Engine::Mpi, .. } => {
                Some("MPI sums in f32: leave it out, or leave out `engine: mpi`")
            }
            Self::Allreduce { op: ReduceOp::Adasum, .. } => {
                Some("adasum combines gradients as they are: leave it out")
            }
            Self::Single { .. } if is_of_low_rank => {
                Some("powersgd is only for `arch: allreduce`: on one machine nothing travels")
            }
            Self::Flat { .. } | Self::Hierarchical { .. } if is_of_low_rank => {
                Some("powersgd is only for `arch: allreduce`: its two factors are two sums over all workers")
            }
            _ => None,
        }
    }

    /// Why how gradients travel cannot be left to what the first rounds took, if it cannot.
    pub(super) fn refuses_auto(&self) -> Option<&'static str> {
        match self {
            Self::Single { .. } => Some(ALONE),
            Self::Flat { .. } | Self::Hierarchical { .. } if !self.is_sync() => {
                Some("is only for `aggr_type: sync`: an async server has no rounds that could be measured")
            }
            Self::Flat { .. } | Self::Hierarchical { .. } | Self::Allreduce { .. } => None,
        }
    }

    /// Why workers cannot have unequal shares of a round, or shares that move, if they cannot.
    pub(super) fn refuses_shares(&self, moves: bool) -> Option<&'static str> {
        match self {
            Self::Flat { rule, .. } | Self::Hierarchical { rule, .. } if rule.is_async => {
                Some("is only for `aggr_type: sync`: workers of an async server wait for nobody")
            }
            Self::Hierarchical { relays, .. } if relays.iter().any(|relay| relay.is_async) => {
                Some("is only for relays of `aggr_type: sync`: workers of an async relay wait for nobody")
            }
            Self::Allreduce { op: ReduceOp::Adasum, .. } => {
                Some("is only for `op: mean`: adasum takes all gradients for equally sure")
            }
            Self::Allreduce { engine: Engine::Mpi, .. } if moves => {
                Some("is not for `engine: mpi`, whose members cannot form anew: name the workers' shares")
            }
            Self::Single { .. } | Self::Flat { .. } | Self::Hierarchical { .. } | Self::Allreduce { .. } => {
                None
            }
        }
    }

    /// Why workers cannot train by themselves between two exchanges, if they cannot.
    pub(super) fn refuses_local_steps(&self) -> Option<&'static str> {
        match self {
            Self::Single { .. } => Some(ALONE),
            Self::Flat { .. } | Self::Hierarchical { .. } if !self.is_sync() => {
                Some("is only for `aggr_type: sync`: workers of an async server begin at different places")
            }
            Self::Allreduce { op: ReduceOp::Adasum, .. } => {
                Some("is only for `op: mean`: adasum combines gradients of one point")
            }
            Self::Allreduce { engine: Engine::Mpi, .. } => {
                Some("is not for `engine: mpi`, which sums gradients: leave one of them out")
            }
            Self::Flat { .. } | Self::Hierarchical { .. } | Self::Allreduce { .. } => None,
        }
    }

    /// Checks what the file says, for a machine that has `workers` unless the file has another number.
    pub(super) fn read(tree: &Tree, file: &mut RunFile, workers: usize) -> Result<Self, YamlError> {
        check_keys(tree, file)?;
        let topology = match (&file.parameter_server, &file.global_server, &file.allreduce) {
            (Some(server), ..) => flat(tree, server)?,
            (_, Some(global), _) => hierarchical(tree, global)?,
            (.., Some(group)) => {
                at_least_1(tree, "allreduce.num_workers", group.num_workers)?;
                check_servers(tree, group, file.compression)?;
                let &Allreduce { num_workers: workers, servers, op, engine } = group;
                Self::Allreduce { workers, servers, op, engine }
            }
            (None, None, None) => Self::Single { workers: *file.workers.get_or_insert(workers) },
        };
        let workers = topology.workers();
        if workers > MOST_WORKERS {
            let message = format!("{workers} workers are more than the {MOST_WORKERS} that a run may have");
            return Err(YamlError::new(message));
        }
        Ok(topology)
    }

    /// Into how many shares every round is cut.
    pub fn workers(&self) -> usize {
        match self {
            Self::Single { workers } | Self::Flat { workers, .. } | Self::Allreduce { workers, .. } => {
                *workers
            }
            Self::Hierarchical { relays, .. } => relays.iter().map(|relay| relay.workers).sum(),
        }
    }

    /// How many nodes take part beside the head.
    pub fn nodes(&self) -> usize {
        match self {
            Self::Flat { workers, backup, .. } => workers + backup,
            Self::Hierarchical { relays, .. } => relays.len() + self.workers(),
            Self::Allreduce { workers, servers, .. } => workers + servers,
            Self::Single { workers } => *workers,
        }
    }

    /// The head's rule; a group, and workers that share memory, are in step.
    pub fn rule(&self) -> ServerRule {
        match self {
            Self::Flat { rule, .. } | Self::Hierarchical { rule, .. } => *rule,
            Self::Single { .. } | Self::Allreduce { .. } => {
                ServerRule { is_async: false, max_staleness: 0, damping: 0.0, straggler: None }
            }
        }
    }

    /// Whether all servers are in step.
    pub fn is_sync(&self) -> bool {
        let relays: &[RelayPlan] = if let Self::Hierarchical { relays, .. } = self { relays } else { &[] };
        !self.rule().is_async && relays.iter().all(|relay| !relay.is_async)
    }

    /// Whether every update of the head waits for all of its members.
    pub fn waits_for_all(&self) -> bool {
        let rule = self.rule();
        let takes_some = matches!(self, Self::Flat { backup: 1.., .. });
        rule.max_staleness == 0 && rule.straggler.is_none() && !takes_some
    }

    /// Whether its workers sum by MPI.
    pub fn uses_mpi(&self) -> bool {
        matches!(self, Self::Allreduce { engine: Engine::Mpi, .. })
    }

    /// Whether workers that share memory do exactly this.
    pub fn is_in_step(&self) -> bool {
        match self {
            Self::Single { .. } => true,
            Self::Flat { rule, backup, .. } => rule.max_staleness == 0 && *backup == 0,
            Self::Hierarchical { .. } | Self::Allreduce { .. } => false,
        }
    }
}

/// Every architecture has its key, and no other's.
fn check_keys(tree: &Tree, file: &RunFile) -> Result<(), YamlError> {
    let used_by = [
        ("workers", Arch::Single, file.workers.is_some()),
        ("parameter_server", Arch::Flat, file.parameter_server.is_some()),
        ("global_server", Arch::Hierarchical, file.global_server.is_some()),
        ("allreduce", Arch::Allreduce, file.allreduce.is_some()),
    ];
    for (key, arch, given) in used_by {
        let name = format!("{arch:?}").to_lowercase();
        if given && arch != file.arch {
            return Err(tree.wrong(key, format!("is only for `arch: {name}`")));
        }
        if !given && arch == file.arch && arch != Arch::Single {
            return Err(tree.wrong("arch", format!("{name} needs the key `{key}`")));
        }
    }
    Ok(())
}

fn flat(tree: &Tree, server: &ParameterServer) -> Result<Topology, YamlError> {
    at_least_1(tree, "parameter_server.num_workers", server.num_workers)?;
    if server.aggr_type == Aggregation::Async && server.backup_workers > 0 {
        let message = "is only for `aggr_type: sync`: an async server waits for nobody";
        return Err(tree.wrong("parameter_server.backup_workers", message));
    }
    let patience = Patience {
        aggregation: server.aggr_type,
        max_staleness: server.max_staleness,
        damping: server.damping,
        straggler_s: server.straggler_s,
    };
    let rule = rule(tree, "parameter_server", &patience)?;
    Ok(Topology::Flat { rule, workers: server.num_workers, backup: server.backup_workers })
}

fn hierarchical(tree: &Tree, global: &GlobalServer) -> Result<Topology, YamlError> {
    if global.local_servers.is_empty() {
        return Err(tree.wrong("global_server.local_servers", "must list at least one server"));
    }
    for (i, server) in global.local_servers.iter().enumerate() {
        at_least_1(tree, &format!("global_server.local_servers[{i}].num_workers"), server.num_workers)?;
    }
    let relay = |server: &LocalServer| RelayPlan {
        is_async: server.aggr_type == Aggregation::Async,
        workers: server.num_workers,
    };
    let patience = Patience {
        aggregation: global.aggr_type,
        max_staleness: global.max_staleness,
        damping: global.damping,
        straggler_s: global.straggler_s,
    };
    let rule = rule(tree, "global_server", &patience)?;
    Ok(Topology::Hierarchical { rule, relays: global.local_servers.iter().map(relay).collect() })
}

fn at_least_1(tree: &Tree, key: &str, value: usize) -> Result<(), YamlError> {
    if value == 0 { Err(tree.wrong(key, "must be at least 1")) } else { Ok(()) }
}

/// How long a server waits for whom, as the file says it.
struct Patience {
    aggregation: Aggregation,
    max_staleness: Option<u64>,
    damping: Option<f64>,
    straggler_s: Option<f64>,
}

/// Machines that only sum are for sums, and of use as long as a worker's own link is not what all wait for.
fn check_servers(tree: &Tree, group: &Allreduce, compression: Compression) -> Result<(), YamlError> {
    let most = group.num_workers;
    let reason = match group {
        Allreduce { servers: 0, .. } => return Ok(()),
        Allreduce { servers, .. } if *servers > most => {
            format!("must be at most num_workers, which is {most}: more machines cannot make the sums faster")
        }
        Allreduce { engine: Engine::Mpi, .. } => "is not for `engine: mpi`, which sums by itself".to_owned(),
        Allreduce { op: ReduceOp::Adasum, .. } => {
            "is only for `op: mean`: adasum needs all gradients".to_owned()
        }
        _ if matches!(compression, Compression::PowerSgd(_)) => {
            "is not for `compression: {powersgd: …}`, whose sums are small: leave one of them out".to_owned()
        }
        _ => return Ok(()),
    };
    Err(tree.wrong("allreduce.servers", reason))
}

fn rule(tree: &Tree, server: &str, patience: &Patience) -> Result<ServerRule, YamlError> {
    let key = |name: &str| format!("{server}.{name}");
    let is_async = patience.aggregation == Aggregation::Async;
    let only_async =
        [("max_staleness", patience.max_staleness.is_some()), ("damping", patience.damping.is_some())];
    if let Some((name, _)) = only_async.iter().find(|(_, given)| *given && !is_async) {
        return Err(tree.wrong(&key(name), "is only for `aggr_type: async`"));
    }
    if is_async && patience.straggler_s.is_some() {
        return Err(tree.wrong(&key("straggler_s"), "is only for `aggr_type: sync`"));
    }
    if patience.damping.is_some_and(|damping| !(0.0..=4.0).contains(&damping)) {
        return Err(tree.wrong(&key("damping"), "must be from 0 (none) to 4"));
    }
    if patience.straggler_s.is_some_and(|seconds| !(seconds > 0.0 && seconds <= MOST_SECONDS)) {
        return Err(tree.wrong(&key("straggler_s"), format!("must be above 0 and at most {MOST_SECONDS}")));
    }
    Ok(ServerRule {
        is_async,
        max_staleness: if is_async { patience.max_staleness.unwrap_or(MAX_STALENESS) } else { 0 },
        damping: patience.damping.unwrap_or(0.0),
        straggler: patience.straggler_s.map(Duration::from_secs_f64),
    })
}

/// A day: longer deadlines are mistakes.
pub(super) const MOST_SECONDS: f64 = 86_400.0;

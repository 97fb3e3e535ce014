//! The ways of running a run that are worth a forecast.

use std::fmt;

use bonfire_learn::OptimizerSpec;
use bonfire_run::Overrides;
use bonfire_run::run_file::arch::Arch;
use bonfire_run::run_file::{Compression, Every, ReduceOp, RunFile, Settings, Span, Topology};
use bonfire_run::schedule::RunSchedule;
use bonfire_strategy::choice::most_steps;
use bonfire_yaml::YamlError;

use super::edit::with_keys;
use super::figures::HostFigures;

/// One way of running a run on some hosts of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub arch: Arch,
    /// The host of every worker, the fastest first.
    pub hosts: Vec<usize>,
    /// Of those that only sum for them.
    pub servers: Vec<usize>,
    /// Where the head is.
    pub head: usize,
    pub compression: Compression,
    pub local_steps: u64,
    /// How many of them are made while the exchange before them goes on.
    pub delay: u64,
}

impl Candidate {
    pub fn workers(&self) -> usize {
        self.hosts.len()
    }

    /// Whether the head's host has a worker, too.
    pub fn head_works(&self) -> bool {
        self.hosts.contains(&self.head)
    }

    /// Whether what is learnt is not the same as without it.
    pub fn is_lossy(&self) -> bool {
        !matches!(self.compression, Compression::None | Compression::Lossless) || self.local_steps > 1
    }

    /// The hosts that take part, the head's first and servers last, as a launcher wants them.
    pub fn places(&self) -> Vec<usize> {
        let others = self.hosts.iter().chain(&self.servers).copied().filter(|&host| host != self.head);
        std::iter::once(self.head).chain(others).collect()
    }

    /// The keys of a run file that make it so.
    pub fn keys(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        let workers = self.workers();
        let mut keys = match self.arch {
            Arch::Single | Arch::Hierarchical => {
                vec![("arch", "single".to_owned()), ("workers", workers.to_string())]
            }
            Arch::Flat => {
                let server = format!("{{aggr_type: sync, num_workers: {workers}}}");
                vec![("arch", "flat".to_owned()), ("parameter_server", server)]
            }
            Arch::Allreduce => {
                let op = match settings.topology {
                    Topology::Allreduce { op: ReduceOp::Adasum, .. } => ", op: adasum",
                    _ => "",
                };
                let servers = match self.servers.len() {
                    0 => String::new(),
                    servers => format!(", servers: {servers}"),
                };
                let group = format!("{{num_workers: {workers}{servers}{op}}}");
                vec![("arch", "allreduce".to_owned()), ("allreduce", group)]
            }
        };
        keys.push(("head", format!("{{works: {}}}", self.head_works())));
        if self.compression != Compression::None {
            keys.push(("compression", compression_in_yaml(self.compression)));
        }
        if self.local_steps > 1 {
            keys.push(("local_steps", self.local_steps.to_string()));
            if self.delay > 0 || settings.says("outer") {
                keys.push(("outer", outer_in_yaml(settings, self.delay)));
            }
        }
        keys
    }

    /// The text of a run file with this in it.
    pub fn write(&self, settings: &Settings, text: &str) -> Result<String, YamlError> {
        with_keys(settings, text, &self.keys(settings))
    }

    /// The settings of such a run.
    pub fn settings(&self, settings: &Settings, text: &str) -> Result<Settings, YamlError> {
        Settings::read("plan", &self.write(settings, text)?, &Overrides::default(), 1)
    }

    /// `allreduce of 4, int8, 8 local steps`
    pub fn in_words(&self, pool: &[HostFigures]) -> String {
        let mut words = match self.arch {
            Arch::Single | Arch::Hierarchical => format!("one machine ({})", pool[self.head].name),
            Arch::Flat if self.head_works() => format!("server of {}, head works", self.workers()),
            Arch::Flat => format!("server of {}", self.workers()),
            Arch::Allreduce => format!("allreduce of {}", self.workers()),
        };
        match self.servers.len() {
            0 => {}
            1 => words += ", 1 server",
            servers => words += &format!(", {servers} servers"),
        }
        if self.compression != Compression::None {
            words += &format!(", {}", name(self.compression));
        }
        if self.local_steps > 1 {
            words += &format!(", {} local steps", self.local_steps);
        }
        if self.delay > 0 {
            words += &format!(", {} of them ahead", self.delay);
        }
        words
    }
}

/// As `--json` has it.
pub fn name(compression: Compression) -> String {
    match compression {
        Compression::None => "none".to_owned(),
        Compression::F16 => "f16".to_owned(),
        Compression::Int8 => "int8".to_owned(),
        Compression::Lossless => "lossless".to_owned(),
        Compression::PowerSgd(rank) => format!("powersgd {rank}"),
        Compression::TopK(part) => format!("top_k {part}"),
        Compression::Auto => "auto".to_owned(),
    }
}

fn compression_in_yaml(compression: Compression) -> String {
    match compression {
        Compression::PowerSgd(rank) => format!("{{powersgd: {rank}}}"),
        Compression::TopK(part) => format!("{{top_k: {part}}}"),
        other => name(other),
    }
}

/// The step that all make together as the run file has it, but for its delay.
fn outer_in_yaml(settings: &Settings, delay: u64) -> String {
    let mut parts = Vec::new();
    if let Some(outer) = settings.file.outer.as_ref().filter(|_| settings.says("outer")) {
        parts.push(format!("lr: {}", outer.lr));
        parts.push(format!("nesterov: {}", outer.nesterov));
        // What was not said depends on how many workers there are.
        let momentum = outer.momentum.filter(|_| settings.says("outer.momentum"));
        parts.extend(momentum.map(|momentum| format!("momentum: {momentum}")));
    }
    if delay > 0 {
        parts.push(format!("delay: {delay}"));
    }
    format!("{{{}}}", parts.join(", "))
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}, {}, {}", self.arch, self.workers(), name(self.compression), self.local_steps)
    }
}

/// The rank of the factors that are proposed.
const RANK: usize = 2;

/// What makes sense on hosts that are given with the fastest first, and what the run file's own checks let pass.
pub(super) fn candidates(
    settings: &Settings,
    text: &str,
    samples: usize,
    fastest: &[usize],
) -> Vec<Candidate> {
    let mut all = vec![Candidate {
        arch: Arch::Single,
        hosts: fastest[..1].to_vec(),
        servers: Vec::new(),
        head: fastest[0],
        compression: Compression::None,
        local_steps: 1,
        delay: 0,
    }];
    let none = &fastest[..0];
    let mut ways = Vec::new();
    for workers in sizes(fastest.len()) {
        ways.extend([Arch::Allreduce, Arch::Flat].map(|arch| (arch, &fastest[..workers], none)));
    }
    // A server that does nothing else, and the workers on the other hosts.
    for workers in sizes(fastest.len() - 1) {
        ways.push((Arch::Flat, &fastest[1..=workers], none));
    }
    for servers in servers(settings, fastest.len()) {
        let (workers, servers) = fastest.split_at(fastest.len() - servers);
        ways.push((Arch::Allreduce, workers, servers));
    }
    for (arch, hosts, servers) in ways {
        for (compression, local_steps) in manners(settings, samples, hosts.len()) {
            for delay in delays(settings, compression, local_steps) {
                let (hosts, servers, head) = (hosts.to_vec(), servers.to_vec(), fastest[0]);
                // Who makes steps by itself hardly waits for sums.
                if servers.is_empty() || local_steps == 1 || local_steps == settings.file.local_steps.steps()
                {
                    all.push(Candidate { arch, hosts, servers, head, compression, local_steps, delay });
                }
            }
        }
    }
    let is_right = |candidate: &Candidate| candidate.settings(settings, text).is_ok();
    all.retain(|candidate| workers_fit(candidate, samples) && is_right(candidate));
    all
}

fn workers_fit(candidate: &Candidate, samples: usize) -> bool {
    candidate.workers() <= samples
}

/// 2, 4, 8 and so on, and all.
fn sizes(hosts: usize) -> Vec<usize> {
    let doubling = std::iter::successors(Some(2), |size| Some(size * 2));
    let mut sizes: Vec<usize> = doubling.take_while(|&size| size < hosts).collect();
    if hosts > 1 {
        sizes.push(hosts);
    }
    sizes
}

/// How many of all hosts may only sum for the others: one, a quarter or a half, and what the run file says. More than
/// there are workers have nothing to do.
fn servers(settings: &Settings, hosts: usize) -> Vec<usize> {
    let own = match settings.topology {
        Topology::Allreduce { servers, .. } => servers,
        _ => 0,
    };
    let mut servers = vec![1, hosts / 4, hosts / 2, own];
    servers.retain(|&servers| servers > 0 && hosts > servers + 1 && 2 * servers <= hosts);
    servers.sort_unstable();
    servers.dedup();
    servers
}

/// Factors are known to go well with SGD alone.
fn goes_with_factors(file: &RunFile) -> bool {
    matches!(file.optimizer, OptimizerSpec::Sgd(_))
}

/// What rank factors of this run have, if they may be proposed.
#[must_use]
pub fn rank_of_factors(file: &RunFile) -> Option<usize> {
    match file.compression {
        Compression::PowerSgd(rank) => Some(rank),
        _ => goes_with_factors(file).then_some(RANK),
    }
}

/// How gradients may travel, and how many batches there may be between two exchanges.
fn manners(settings: &Settings, samples: usize, workers: usize) -> Vec<(Compression, u64)> {
    let file = &settings.file;
    let mut compressions = vec![Compression::None, Compression::F16, Compression::Int8];
    if goes_with_factors(file) {
        compressions.push(Compression::PowerSgd(RANK));
    }
    if !compressions.contains(&file.compression) && file.compression != Compression::Auto {
        compressions.push(file.compression);
    }
    let round_size = (file.batch_size * workers).min(samples).max(1);
    let rounds_per_epoch = samples.div_ceil(round_size) as u64;
    let rounds = match settings.length {
        Span::Epochs(epochs) => epochs.saturating_mul(rounds_per_epoch),
        Span::Rounds(rounds) => rounds,
    };
    let most = most_steps(rounds_per_epoch, rounds);
    // A run whose length is given in rounds would become longer.
    let is_free = file.num_server_rounds.is_none();
    let own = file.local_steps.steps();
    let mut steps: Vec<u64> =
        [1, 8, 16].into_iter().filter(|&steps| steps == 1 || (is_free && steps <= most)).collect();
    if !steps.contains(&own) {
        steps.push(own);
    }
    let all = |compression: &Compression| {
        let compression = *compression;
        steps.iter().map(move |&steps| (compression, steps)).collect::<Vec<_>>()
    };
    compressions.iter().flat_map(all).collect()
}

/// How many of some local steps may be made ahead: none or three quarters, and what the run file says. Not of factors,
/// whose second exchange cannot begin before the first is over.
fn delays(settings: &Settings, compression: Compression, steps: u64) -> Vec<u64> {
    let is_two = matches!(compression, Compression::PowerSgd(_));
    if steps == 1 || is_two || settings.file.easgd.is_some() {
        return vec![0];
    }
    let own = settings.file.outer.as_ref().map_or(0, |outer| outer.delay);
    let mut delays = vec![0, steps * 3 / 4, own];
    delays.retain(|&delay| delay < steps);
    delays.sort_unstable();
    delays.dedup();
    delays
}

/// How many rounds of one batch a worker an epoch has, and how many of them end with a checkpoint.
pub(super) fn rounds(settings: &Settings, samples: usize) -> (f64, f64) {
    let schedule = RunSchedule::of(settings, samples);
    let updates = schedule.updates_per_epoch as f64;
    let exact = match settings.file.checkpoint_every {
        Every::Span(Span::Epochs(epochs)) => 1.0 / epochs.max(1) as f64,
        Every::Span(Span::Rounds(rounds)) => updates / rounds.max(1) as f64,
        Every::Never => 0.0,
    };
    (updates, exact.min(updates))
}

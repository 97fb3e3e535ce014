//! What a candidate would take, found by letting its processes go through some rounds.

use std::collections::{BTreeMap, VecDeque};

use bonfire_exchange::owners::{self, is_linkless};
use bonfire_learn::random::Random;
use bonfire_run::run_file::arch::Arch;
use bonfire_run::run_file::{Compression, Settings};
use serde::Serialize;

use super::candidate::{Candidate, name, rounds};
use super::figures::{CodecFigures, HostFigures, LinkFigures};
use super::group::{Books, Member};
use super::group_server::GroupServer;
use super::script::{Manner, Stage, round};
use super::server::{Server, Worker};
use super::traffic::{Exchange, Traffic};
use super::world::World;
use crate::bench::trial::TrialRound;

/// What a candidate would take, all of it an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    pub candidate: Candidate,
    pub seconds: f64,
    /// Where they go, as the mean of the workers sees it: at work, waiting for the wire, for slower workers.
    pub computing_s: f64,
    pub wire_s: f64,
    pub waiting_s: f64,
    /// By all together.
    pub bytes_per_round: f64,
    /// How many samples of a round each worker has.
    pub shares: Vec<usize>,
    /// Of the hosts that take part, if their watts are known.
    pub wh: Option<f64>,
}

/// A line of `bonfire plan --json`.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastLine {
    pub arch: Arch,
    pub workers: usize,
    /// Hosts that only sum for the workers.
    #[serde(skip_serializing_if = "is_none")]
    pub servers: usize,
    pub head_works: bool,
    pub hosts: Vec<String>,
    pub compression: String,
    pub local_steps: u64,
    /// How many local steps are made while the exchange before them goes on.
    #[serde(skip_serializing_if = "is_none")]
    pub delay: usize,
    pub seconds_per_epoch: f64,
    pub computing_s: f64,
    pub wire_s: f64,
    pub waiting_s: f64,
    pub bytes_per_round: u64,
    /// Samples of a round by the workers' hosts, where they have not as many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<BTreeMap<String, usize>>,
    pub wh_per_epoch: Option<f64>,
    pub best: bool,
}

impl Forecast {
    pub fn line(&self, pool: &[HostFigures], best: bool) -> ForecastLine {
        let Self { candidate, .. } = self;
        ForecastLine {
            arch: candidate.arch,
            workers: candidate.workers(),
            servers: candidate.servers.len(),
            head_works: candidate.head_works(),
            hosts: candidate.places().into_iter().map(|host| pool[host].name.clone()).collect(),
            compression: name(candidate.compression),
            local_steps: candidate.local_steps,
            delay: candidate.delay as usize,
            seconds_per_epoch: self.seconds,
            computing_s: self.computing_s,
            wire_s: self.wire_s,
            waiting_s: self.waiting_s,
            bytes_per_round: self.bytes_per_round.round() as u64,
            shares: self.unequal_shares(pool),
            wh_per_epoch: self.wh,
            best,
        }
    }

    fn unequal_shares(&self, pool: &[HostFigures]) -> Option<BTreeMap<String, usize>> {
        let differ = self.shares.iter().any(|share| *share != self.shares[0]);
        let names = self.candidate.hosts.iter().map(|&host| pool[host].name.clone());
        differ.then(|| names.zip(self.shares.iter().copied()).collect())
    }
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Before the rounds that count everything gets into its stride.
const WARM: usize = 2;

/// A large group evens out by itself what few workers do by more rounds.
fn counted(workers: usize) -> usize {
    (48 / workers).clamp(2, 12)
}

/// Who takes part, and what goes between them.
pub(super) struct Scene<'a> {
    candidate: &'a Candidate,
    pub settings: &'a Settings,
    /// As they are when all of these are at work.
    pub hosts: Vec<HostFigures>,
    /// Of the workers, then servers of a group, then the head: which of the hosts each is on.
    pub processes: Vec<usize>,
    /// How many samples of a round each worker has.
    pub shares: Vec<usize>,
    exchanges: Vec<Exchange>,
    /// The same in few chunks, for members between whom links count for nothing and whose shares differ.
    few: Option<Vec<Exchange>>,
    /// The exchange of a round in which all travels as it is, and whether there is such a round.
    exact: usize,
    pub has_exact: bool,
}

/// How fast each of some hosts would hear the one before it.
pub(super) fn heard<'h>(hosts: impl IntoIterator<Item = &'h HostFigures>) -> Vec<f64> {
    let links: Vec<&LinkFigures> = hosts.into_iter().map(|host| &host.link).collect();
    let before = links.iter().cycle().skip(links.len().saturating_sub(1));
    links.iter().zip(before).map(|(link, before)| before.up.min(link.down)).collect()
}

/// What a candidate would take with these figures; `settings` are its own.
pub(super) fn forecast(
    candidate: &Candidate,
    settings: &Settings,
    pool: &[HostFigures],
    (traffic, samples, grain): (&mut Traffic<'_>, usize, u32),
) -> Forecast {
    let mut scene = Scene::new(candidate, settings, pool, traffic);
    let mut played = scene.settle(grain);
    if let (Arch::Single, Some(alone_s)) = (candidate.arch, pool[candidate.head].work.alone_s) {
        played.round_s = alone_s;
    }
    let (updates, exact_rounds) = rounds(settings, samples);
    // The last round of an epoch may be a short one.
    let batches = samples as f64 / (settings.file.batch_size * candidate.workers()) as f64;
    let full = batches / candidate.local_steps as f64;
    let short = (updates - full).clamp(0.0, 1.0) * played.busy_s;
    let mut seconds = played.round_s * updates - short;
    if candidate.compression != Compression::None {
        seconds += exact_rounds * (played.exact_s - played.round_s);
    }
    let part = seconds / played.round_s;
    // What a head and the worker in its process hand to each other goes over no wire.
    let is_alone = candidate.hosts.len() == 1;
    let computing_s = if is_alone { seconds } else { played.busy_s * part };
    let waiting_s = (played.most_busy_s - played.busy_s).max(0.0) * part;
    Forecast {
        candidate: candidate.clone(),
        seconds,
        computing_s: computing_s.min(seconds),
        waiting_s: waiting_s.min((seconds - computing_s).max(0.0)),
        wire_s: (seconds - computing_s - waiting_s).max(0.0),
        bytes_per_round: played.bytes,
        wh: scene.watt_hours(&played, seconds),
        shares: scene.shares,
    }
}

/// A host while all workers of a candidate are at work on its machine.
fn crowded(host: usize, candidate: &Candidate, pool: &[HostFigures]) -> HostFigures {
    let mut figures = pool[host].clone();
    let there = candidate.hosts.iter().filter(|&&other| pool[other].machine == figures.machine).count();
    let beside = if candidate.workers() > 1 { figures.in_rounds.of(candidate.compression).work } else { 1.0 };
    let speed = 1.0 / (figures.work.crowd(there) * beside);
    figures.work = figures.work.at(speed);
    figures
}

/// Some rounds that were played.
pub(super) struct Played {
    pub round_s: f64,
    exact_s: f64,
    /// Of every worker, in a round; their mean, and that of the busiest.
    pub busy: Vec<f64>,
    busy_s: f64,
    most_busy_s: f64,
    bytes: f64,
    /// Of every host, which part of its machine's cores was at work.
    pub utilisation: Vec<f64>,
    /// Of every host, seconds of a core in a round beside those of its wire, and of its wire.
    pub worked: Vec<f64>,
    pub wired: Vec<f64>,
    /// By all together, in a round.
    frames: f64,
}

impl Played {
    /// In the mean of all hosts, as real rounds are told.
    pub(super) fn as_tried(&self) -> TrialRound {
        let hosts = self.worked.len().max(1) as f64;
        let mean = |of: &[f64]| of.iter().sum::<f64>() / hosts;
        let (work_s, wire_s) = (mean(&self.worked), mean(&self.wired));
        let (frames, bytes) = (self.frames / hosts, self.bytes / hosts);
        TrialRound { seconds: self.round_s, work_s, wire_s, frames, bytes }
    }
}

impl<'a> Scene<'a> {
    /// Before anything is known of unequal shares.
    pub(super) fn new(
        candidate: &'a Candidate,
        settings: &'a Settings,
        pool: &[HostFigures],
        traffic: &mut Traffic<'_>,
    ) -> Self {
        let places = candidate.places();
        let place = |host: usize| places.iter().position(|&place| place == host).unwrap_or(0);
        let mut processes: Vec<usize> = candidate.hosts.iter().map(|&host| place(host)).collect();
        processes.extend(candidate.servers.iter().chain([&candidate.head]).map(|&host| place(host)));
        let workers = candidate.workers();
        let hosts: Vec<HostFigures> = places.iter().map(|&host| crowded(host, candidate, pool)).collect();
        let is_group = candidate.arch == Arch::Allreduce && candidate.servers.is_empty() && workers > 1;
        let is_linkless =
            is_group && is_linkless(&heard(processes[..workers].iter().map(|&host| &hosts[host])));
        let mut exchanges = |way, is_few| traffic.exchanges(way, (workers, is_few), candidate.local_steps);
        let exact = exchanges(candidate.compression, false).len();
        let mut all =
            |is_few| [candidate.compression, Compression::None].map(|way| exchanges(way, is_few)).concat();
        let (exchanges, few) = (all(false), is_linkless.then(|| all(true)));
        let shares = vec![settings.file.batch_size * candidate.local_steps as usize; workers];
        let has_exact = candidate.compression != Compression::None;
        Self { candidate, settings, hosts, processes, shares, exchanges, few, exact, has_exact }
    }
}

impl Scene<'_> {
    pub(super) fn workers(&self) -> usize {
        self.candidate.workers()
    }

    fn is_exact(&self, number: usize) -> bool {
        self.has_exact && number == WARM + counted(self.workers())
    }

    fn rounds(&self) -> usize {
        WARM + counted(self.workers()) + 2
    }

    /// How many threads a worker on a host has: the cores of a machine are shared out among all that train on it.
    pub(super) fn threads(&self, host: usize) -> usize {
        let machine = &self.hosts[host].machine;
        let workers = &self.processes[..self.workers()];
        let there = workers.iter().filter(|&&other| self.hosts[other].machine == *machine).count();
        self.settings.file.threads_on(self.hosts[host].cores, there)
    }

    /// The rounds of a worker: what it does, and which exchanges that uses.
    fn script(&self, worker: usize) -> VecDeque<(Vec<Stage>, Vec<usize>)> {
        let host = self.processes[worker];
        let mut random = Random::at(self.settings.file.seed, &[worker as u64]);
        let round = |number: usize| {
            let exact = self.is_exact(number);
            let (batch, steps) = self.steps(worker);
            let manner = Manner {
                threads: self.threads(host),
                batch,
                steps,
                delay: self.candidate.delay,
                overlaps: self.settings.file.overlap && self.waits_for_links(),
                compression: self.candidate.compression,
                exact,
            };
            let of = if exact { vec![self.exact] } else { (0..self.exact).collect() };
            (round(&self.hosts[host], &manner, &mut random), of)
        };
        (0..self.rounds()).map(round).collect()
    }

    pub(super) fn local_steps(&self) -> u64 {
        self.candidate.local_steps
    }

    /// How many samples a worker trains on at a time, and how often in a round, where it does so by itself.
    pub(super) fn steps(&self, worker: usize) -> (usize, Option<u64>) {
        let (share, batch) = (self.shares[worker], self.settings.file.batch_size);
        if self.local_steps() > 1 { (batch, Some((share / batch) as u64)) } else { (share, None) }
    }

    /// Whether gradients leave while they are computed, as members have it.
    fn waits_for_links(&self) -> bool {
        let is_group = self.candidate.arch == Arch::Allreduce;
        !is_group || self.workers() > 1 && !(self.few.is_some() && self.shares_differ())
    }

    fn shares_differ(&self) -> bool {
        self.shares.iter().any(|share| *share != self.shares[0])
    }

    fn exchanges(&self) -> &[Exchange] {
        self.few.as_deref().filter(|_| self.shares_differ()).unwrap_or(&self.exchanges)
    }

    fn codecs(&self, host: usize) -> [CodecFigures; 2] {
        let (HostFigures { work, in_rounds, .. }, way) = (&self.hosts[host], self.candidate.compression);
        let take_s = if self.workers() > 1 { in_rounds.of(way).take_s } else { 0.0 };
        [work.codec(&name(way)), work.codec("none")].map(|codec| CodecFigures { take_s, ..codec })
    }

    pub(super) fn play(&self) -> Played {
        let mut world = World::new(&self.hosts, &self.processes, self.candidate.compression);
        let books = match self.candidate.arch {
            Arch::Allreduce => self.play_group(&mut world),
            Arch::Single | Arch::Flat | Arch::Hierarchical => self.play_server(&mut world),
        };
        self.count(&books, &world)
    }

    /// Which part of the sums each member has, by the speeds that they would measure: each hears the one before it.
    pub(super) fn parts(&self) -> Vec<f64> {
        let members = self.workers();
        if !self.candidate.servers.is_empty() {
            return owners::parts(members, self.candidate.servers.len());
        }
        let heard = heard(self.processes[..members].iter().map(|&host| &self.hosts[host]));
        let shares: Vec<f64> = self.shares.iter().map(|share| *share as f64).collect();
        owners::parts_by_speed(&heard, members, &shares)
    }

    fn play_group(&self, world: &mut World) -> Vec<Books> {
        let (workers, exchanges) = (self.workers(), self.exchanges());
        let (parts, head) = (self.parts(), self.processes.len() - 1);
        let member = |index: usize| {
            let codecs = self.codecs(self.processes[index]);
            Member::new((index, index), (&parts, workers, head), codecs, self.script(index))
        };
        let server = |process: usize| {
            let exchanges = self.script(0).into_iter().flat_map(|(_, of)| of).collect();
            GroupServer::new(process, workers, self.codecs(self.processes[process]), exchanges)
        };
        let mut members: Vec<Member> = (0..workers).map(member).collect();
        let mut servers: Vec<GroupServer> = (workers..head).map(server).collect();
        while let Some(process) = world.next() {
            match (members.get_mut(process), servers.get_mut(process.wrapping_sub(workers))) {
                (Some(member), _) => member.wake(world, exchanges),
                (_, Some(server)) => server.wake(world, exchanges),
                // The head counts.
                _ => while world.take(process).is_some() {},
            }
        }
        members.into_iter().map(|member| member.books).collect()
    }

    fn play_server(&self, world: &mut World) -> Vec<Books> {
        let workers = self.workers();
        let shares_differ = self.local_steps() == 1 && self.shares_differ();
        let worker = |index: usize| {
            let codecs = self.codecs(self.processes[index]);
            let rounds = self.script(index).into_iter().map(|(stages, of)| (stages, of[0])).collect();
            Worker::new((index, workers), codecs, rounds, shares_differ)
        };
        let mut all: Vec<Worker> = (0..workers).map(worker).collect();
        let head = self.processes[workers];
        let rounds = self.script(0).into_iter().map(|(_, of)| of[0]).collect();
        let work = &self.hosts[head].work;
        let update = if self.local_steps() > 1 { work.together } else { work.update };
        let mut server = Server::new(workers, workers, self.codecs(head), (update, work.hop_s), rounds);
        while let Some(process) = world.next() {
            match all.get_mut(process) {
                Some(worker) => worker.wake(world, &self.exchanges),
                None => server.wake(world, &self.exchanges),
            }
        }
        all.into_iter().map(|worker| worker.books).collect()
    }

    fn count(&self, books: &[Books], world: &World) -> Played {
        let (counted, workers) = (counted(self.workers()), books.len() as f64);
        let last = |number: usize| {
            books.iter().filter_map(|books| books.ends.get(number)).copied().fold(0.0, f64::max)
        };
        let (from, to) = (WARM - 1, WARM - 1 + counted);
        let round_s = (last(to) - last(from)) / counted as f64;
        let exact_s = last(to + 2) - last(to) - round_s;
        let busy_s = |books: &Books| books.busy_s[WARM..=to].iter().sum::<f64>() / counted as f64;
        let busy: Vec<f64> = books.iter().map(busy_s).collect();
        let carried = |number: usize| books[0].carried[number];
        let a_round = |of: &dyn Fn(usize) -> f64| {
            (0..self.hosts.len()).map(|host| of(host) / self.rounds() as f64).collect()
        };
        let used = |host: usize| world.used(host) / (world.now * self.hosts[host].cores as f64).max(1e-9);
        Played {
            round_s,
            exact_s,
            busy_s: busy.iter().sum::<f64>() / workers,
            most_busy_s: busy.iter().copied().fold(0.0, f64::max),
            busy,
            bytes: (carried(to) - carried(from)) / counted as f64,
            utilisation: (0..self.hosts.len()).map(used).collect(),
            worked: a_round(&|host| world.worked(host)),
            wired: a_round(&|host| world.used(host) - world.worked(host)),
            frames: world.frames / self.rounds() as f64,
        }
    }

    fn watt_hours(&self, played: &Played, seconds: f64) -> Option<f64> {
        let of = |(host, &busy): (&HostFigures, &f64)| {
            let watts = host.power?.watts;
            Some((watts.idle + (watts.full - watts.idle) * busy.min(1.0)) * seconds / 3600.0)
        };
        self.hosts.iter().zip(&played.utilisation).map(of).sum()
    }
}

//! What is simulated, against what must come of it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use bonfire_data::Dataset;
use bonfire_exchange::codec::Coding;
use bonfire_exchange::owners;
use bonfire_exchange::peers::{Early, Peers};
use bonfire_exchange::sharded::ShardedSums;
use bonfire_learn::{Gradient, Layout};
use bonfire_run::Overrides;
use bonfire_run::run_file::arch::Arch;
use bonfire_run::run_file::{Compression, Settings};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Incoming, Outbox, memory_link, proto};
use bytes::Bytes;

use super::figures::{HostFigures, Pool, Work};
use super::{Candidate, Forecast, Plan, Question, sample};

pub(super) const RUN: &str = "{model: {mlp: {hidden: [128]}}, data: {name: digits, train: 640, test: 10}, \
                              batch_size: 32, epochs: 2, checkpoint_every: 9 epochs, optimizer: {sgd: {lr: 0.1}}}";

pub(super) struct Scene {
    settings: Settings,
    text: String,
    dataset: Dataset,
    layout: Layout,
}

impl Scene {
    pub(super) fn new(text: &str) -> Self {
        let settings = Settings::read("run.yml", text, &Overrides::default(), 1).expect("a run file");
        let dataset = settings.file.data.load().expect("data");
        let layout = settings.file.model.build(&dataset.shape).expect("a model").layout().clone();
        Self { settings, text: text.to_owned(), dataset, layout }
    }

    pub(super) fn question(&self) -> Question<'_> {
        let Self { settings, text, dataset, layout } = self;
        Question { settings, text, dataset, layout }
    }

    fn gradient_bytes(&self) -> f64 {
        self.layout.len() as f64 * 4.0
    }

    fn forecast(&self, hosts: &[HostFigures], candidate: &Candidate) -> Forecast {
        let plan = Plan::among(&self.question(), hosts, std::slice::from_ref(candidate)).expect("a plan");
        plan.best().clone()
    }
}

fn hosts(count: usize, rate: f64) -> Vec<HostFigures> {
    (0..count).map(|i| sample::host(&format!("pi{i}"), rate, 0.0)).collect()
}

fn candidate(arch: Arch, workers: usize) -> Candidate {
    let hosts = (0..workers).collect();
    Candidate {
        arch,
        hosts,
        servers: Vec::new(),
        head: 0,
        compression: Compression::None,
        local_steps: 1,
        delay: 0,
    }
}

#[track_caller]
fn near(found: f64, expect: f64, part: f64) {
    assert!((found / expect - 1.0).abs() < part, "{found} instead of {expect}");
}

/// A step takes a second; the bounds are those of docs/strategies.md.
#[test]
fn exchanges_take_what_their_bounds_say() {
    let scene = Scene::new(RUN);
    // A gradient takes ten seconds over a link.
    let rate = scene.gradient_bytes() / 10.0;
    for workers in [2, 4, 5] {
        let (n, rounds) = (workers as f64, (20.0 / workers as f64).ceil());
        let group = scene.forecast(&hosts(workers, rate), &candidate(Arch::Allreduce, workers));
        let bound = 1.0 + 2.0 * (n - 1.0) / n * 10.0;
        // Chunks are not so small that the first and the last of them cost nothing.
        assert!(group.seconds > bound * (rounds - 1.0), "{} of {workers}", group.seconds / rounds);
        near(group.seconds / rounds, bound, 0.2);
        let mut server = candidate(Arch::Flat, workers);
        server.head = workers;
        let server = scene.forecast(&hosts(workers + 1, rate), &server);
        near(server.seconds / rounds, 1.0 + n * 10.0, 0.2);
    }
}

#[test]
fn servers_of_a_group_carry_their_part() {
    // Of 48 chunks; of fewer it takes longer until the first are summed, and the last are back.
    let scene = Scene::new(&RUN.replace("[128]", "[512]"));
    let rate = scene.gradient_bytes() / 10.0;
    for (workers, servers) in [(4, 1), (4, 2), (3, 3)] {
        let (n, k, rounds) = (workers as f64, servers as f64, (20.0 / workers as f64).ceil());
        let group = Candidate {
            servers: (workers..workers + servers).collect(),
            ..candidate(Arch::Allreduce, workers)
        };
        let found = scene.forecast(&hosts(workers + servers, rate), &group);
        let bound = 1.0 + 2.0 * n * (n - 1.0) / (n * n + k * n - 2.0 * k) * 10.0;
        assert!(found.seconds > bound * (rounds - 1.0), "{} of {workers} and {servers}", found.seconds);
        near(found.seconds / rounds, bound, 0.25);
        let keys = group.keys(&scene.settings);
        let expect = format!("{{num_workers: {workers}, servers: {servers}}}");
        assert!(keys.contains(&("allreduce", expect)), "{keys:?}");
    }
}

#[test]
fn where_the_time_goes_adds_up() {
    let scene = Scene::new(&RUN.replace("epochs: 2,", "epochs: 2, shares: equal,"));
    let mut pool = hosts(3, scene.gradient_bytes());
    pool[2].work.steps.iter_mut().for_each(|step| step.work.core_s *= 3.0);
    let found = scene.forecast(&pool, &candidate(Arch::Allreduce, 3));
    near(found.computing_s + found.wire_s + found.waiting_s, found.seconds, 1e-6);
    let rounds = found.seconds / (found.computing_s + found.wire_s + found.waiting_s) * 7.0;
    assert!(rounds > 0.0 && found.waiting_s > found.computing_s * 0.5, "two wait for the third: {found:?}");
    let alone = scene.forecast(&pool, &candidate(Arch::Single, 1));
    near(alone.seconds, 20.0, 0.01);
    assert_eq!(alone.bytes_per_round, 0.0);
}

#[test]
fn unequal_hosts_share_out_a_round_as_a_run_would() {
    let mut pool = hosts(3, 1e12);
    pool[2].work.steps.iter_mut().for_each(|step| step.work.core_s *= 2.0);
    let check = |key: &str, arch: Arch, shares: &[usize], round_s: f64| {
        let scene = Scene::new(&RUN.replace("epochs: 2,", &format!("epochs: 2,{key}")));
        let found = scene.forecast(&pool, &candidate(arch, 3));
        assert_eq!(found.shares, shares, "{key} {arch:?}");
        near(found.seconds, 640.0 / 96.0 * round_s, 0.08);
        let line = found.line(&pool, true).shares.map(|shares| shares.into_values().collect::<Vec<_>>());
        assert_eq!(line, shares.iter().any(|share| *share != 32).then(|| shares.to_vec()));
    };
    for arch in [Arch::Allreduce, Arch::Flat] {
        check("", arch, &[40, 40, 16], 1.25);
        check(" shares: equal,", arch, &[32, 32, 32], 2.0);
        check(" shares: {pi0: 2, pi1: 1, pi2: 1},", arch, &[48, 24, 24], 1.5);
    }
    // Four steps of 32 a worker are twelve in all: five, five and two of those that take twice as long.
    let scene = Scene::new(RUN);
    let steps = Candidate { local_steps: 4, ..candidate(Arch::Allreduce, 3) };
    assert_eq!(scene.forecast(&pool, &steps).shares, [160, 160, 64]);
}

#[test]
fn hosts_of_one_machine_share_its_cores() {
    let scene = Scene::new(RUN);
    let mut pool = hosts(4, 1e12);
    for host in &mut pool {
        (host.machine, host.cores, host.allowance) = ("desk".to_owned(), 2, 2.0);
    }
    let found = scene.forecast(&pool, &candidate(Arch::Allreduce, 4));
    near(found.seconds, 5.0 * 2.0, 0.02);
    // Who gets a tenth of a core takes ten times as long.
    pool.iter_mut().for_each(|host| host.allowance = 0.1);
    near(scene.forecast(&pool, &candidate(Arch::Allreduce, 4)).seconds, 50.0, 0.02);
}

#[test]
fn what_is_settled_early_leaves_early() {
    let scene = Scene::new(RUN);
    let rate = scene.gradient_bytes() * 2.0;
    let mut pool = hosts(2, rate);
    let late = scene.forecast(&pool, &candidate(Arch::Allreduce, 2)).seconds;
    let len = scene.layout.len();
    for step in pool.iter_mut().flat_map(|host| &mut host.work.steps) {
        step.settled = (1..=20).map(|i| (len - len * i / 20, 0.3 + 0.035 * f64::from(i as u32))).collect();
    }
    let early = scene.forecast(&pool, &candidate(Arch::Allreduce, 2)).seconds;
    assert!(early < late * 0.85, "{early} instead of {late}");
}

#[test]
fn fewer_bytes_and_rarer_exchanges_take_less() {
    let scene = Scene::new(RUN);
    let pool = hosts(4, scene.gradient_bytes() / 10.0);
    let of = |compression, local_steps| {
        let base = candidate(Arch::Allreduce, 4);
        scene.forecast(&pool, &Candidate { compression, local_steps, ..base }).seconds
    };
    let (none, f16, int8) = (of(Compression::None, 1), of(Compression::F16, 1), of(Compression::Int8, 1));
    near((f16 - 5.0) / (none - 5.0), 0.5, 0.1);
    near((int8 - 5.0) / (none - 5.0), 0.25, 0.1);
    assert!(of(Compression::None, 5) < none / 2.0);
    let ahead = Candidate { local_steps: 5, delay: 4, ..candidate(Arch::Allreduce, 4) };
    let hidden = scene.forecast(&pool, &ahead).seconds;
    assert!(hidden < of(Compression::None, 5) * 0.9, "{hidden}");
    assert!(of(Compression::PowerSgd(2), 1) < int8);
}

#[test]
fn hosts_without_the_memory_for_a_worker_are_left_out_and_named() {
    let scene = Scene::new(RUN);
    let mut pool = Pool { hosts: hosts(4, scene.gradient_bytes()), ..Pool::default() };
    pool.hosts.iter_mut().for_each(|host| (host.memory_mb, host.work.memory_mb) = (Some(1000), Some(400.0)));
    let most = |pool: &Pool| {
        let plan = Plan::make(&scene.question(), pool).expect("a plan");
        let workers = plan.forecasts.iter().map(|forecast| forecast.candidate.workers()).max();
        (workers, plan.left_out)
    };
    assert_eq!(most(&pool), (Some(4), Vec::new()));
    pool.hosts[1].memory_mb = Some(300);
    let (workers, left_out) = most(&pool);
    assert_eq!(workers, Some(3));
    assert_eq!(left_out, ["pi1 has 300 MB of memory, and a worker takes 400 MB"]);
    // Three of them are on one machine, whose memory is for two.
    pool.hosts.iter_mut().for_each(|host| host.machine = "lab".to_owned());
    pool.hosts[1].memory_mb = Some(1000);
    let (workers, left_out) = most(&pool);
    assert_eq!(workers, Some(2));
    assert_eq!(left_out, ["3 workers on one machine take 1200 MB, and it has 1000 MB"]);
    pool.hosts.iter_mut().for_each(|host| host.memory_mb = Some(100));
    let error = Plan::make(&scene.question(), &pool).expect_err("no host").to_string();
    assert!(error.contains("has 100 MB of memory, and a worker takes 400 MB"), "{error}");
}

#[test]
fn the_best_is_what_the_wire_allows() {
    let scene = Scene::new(RUN);
    let best = |rate: f64| {
        let pool = Pool { hosts: hosts(4, rate), ..Pool::default() };
        let plan = Plan::make(&scene.question(), &pool).expect("a plan");
        let advice = super::advice::advice(&scene.question(), &pool, &plan).expect("advice");
        (plan.best().candidate.clone(), advice)
    };
    let (slow, advice) = best(scene.gradient_bytes() / 100.0);
    assert_eq!(slow.arch, Arch::Single);
    assert_eq!(advice.map(|advice| advice.change).as_deref(), Some("a gigabit switch"));
    let (fast, _) = best(1e12);
    assert_eq!((fast.arch, fast.workers(), fast.is_lossy()), (Arch::Allreduce, 4, false));
}

#[test]
fn a_host_that_is_slower_comes_last() {
    let scene = Scene::new(RUN);
    let mut pool = hosts(3, 1e9);
    pool[0].work.update = Work { core_s: 0.0, width: 1.0 };
    pool[0].work.steps.iter_mut().for_each(|step| step.work.core_s *= 4.0);
    let plan = Plan::make(&scene.question(), &Pool { hosts: pool, ..Pool::default() }).expect("a plan");
    let two = plan.forecasts.iter().find(|forecast| forecast.candidate.workers() == 2).expect("two");
    assert_eq!(two.candidate.hosts, [1, 2]);
}

/// What a member hears.
type Mail = (usize, proto::Piece, Bytes);

/// The way from a member to another, and what the other hears.
fn link(from: usize, inbox: Sender<Mail>) -> Outbox {
    let (here, there) = memory_link(
        Box::new(|_: Incoming| ()),
        Box::new(move |incoming: Incoming| {
            if let Incoming::Frame(Frame { body: Body::Piece(piece), payload }) = incoming {
                let _ = inbox.send((from, piece, payload));
            }
        }),
    );
    // It lasts as long as the process.
    std::mem::forget(there);
    here
}

/// Bytes of payloads that real members send in a round, over all of them.
fn really_sent(layout: &Layout, members: usize, coding: Coding) -> (f64, usize) {
    let (senders, inboxes): (Vec<Sender<Mail>>, Vec<Receiver<Mail>>) =
        (0..members).map(|_| channel()).unzip();
    let sent = thread::scope(|scope| {
        let members: Vec<_> = inboxes
            .into_iter()
            .enumerate()
            .map(|(index, inbox)| {
                let senders = senders.clone();
                scope.spawn(move || {
                    let links: Vec<Option<Outbox>> = senders
                        .into_iter()
                        .enumerate()
                        .map(|(to, inbox)| (to != index).then(|| link(index, inbox)))
                        .collect();
                    let mut sums = ShardedSums::new(layout, coding);
                    sums.share_out(&owners::parts(links.len(), 0));
                    let mut gradient = Gradient::new(layout);
                    gradient.weight = 1.0;
                    (0..layout.tensors().len()).for_each(|tensor| gradient.write(tensor).fill(0.5));
                    let mut receive = move |_| inbox.recv().map(Some).map_err(|_| Closed);
                    let mut early = Early::new();
                    let mut peers: Peers<'_, Closed> = Peers {
                        index,
                        links: &links,
                        servers: &[],
                        receive: &mut receive,
                        early: &mut early,
                        generation: 0,
                        round: 1,
                        step: 0,
                    };
                    sums.sum(&mut peers, &mut gradient, false).expect("a sum");
                    let traffic = links.iter().flatten().map(Outbox::traffic);
                    traffic.fold((0, 0), |sum, link| (sum.0 + link.sent_bytes, sum.1 + link.sent_frames))
                })
            })
            .collect();
        members.into_iter().map(|member| member.join().expect("no panic")).collect::<Vec<(u64, u64)>>()
    });
    let bytes: u64 = sent.iter().map(|(bytes, _)| bytes).sum();
    let frames: u64 = sent.iter().map(|(_, frames)| frames).sum();
    (bytes as f64, frames as usize)
}

/// The simulated members say what real ones say: as many frames, with as many bytes.
#[test]
fn simulated_members_send_what_real_ones_do() {
    let scene = Scene::new(RUN);
    let codings: BTreeMap<u32, (Compression, Coding)> = [
        (32, (Compression::None, Coding::PLAIN)),
        (16, (Compression::F16, Coding::F16)),
        (8, (Compression::Int8, Coding::INT8)),
    ]
    .into();
    for members in [2, 3, 5] {
        for &(compression, coding) in codings.values() {
            let (bytes, frames) = really_sent(&scene.layout, members, coding);
            let found = scene.forecast(
                &hosts(members, 1e9),
                &Candidate { compression, ..candidate(Arch::Allreduce, members) },
            );
            // Around each are what TLS and HTTP/2 add, and a word to the head, which all but one send it.
            let around = found.bytes_per_round - bytes;
            let most = 110.0 * (frames + members) as f64 + bytes * 0.003;
            assert!(around > 0.0 && around < most, "{members}, {compression:?}: {bytes} and {around} around");
        }
    }
}

#[test]
fn one_machine_takes_what_a_run_of_it_took() {
    let (scene, mut hosts) = (Scene::new(RUN), hosts(2, 1e6));
    let alone = candidate(Arch::Single, 1);
    // 20 batches of a second each.
    assert!((scene.forecast(&hosts, &alone).seconds - 20.0).abs() < 0.1);
    hosts[0].work.alone_s = Some(1.5);
    let found = scene.forecast(&hosts, &alone);
    assert!((found.seconds - 30.0).abs() < 1e-9 && found.computing_s == found.seconds, "{found:?}");
}

//! Figures of hosts held against real rounds of them: what frames take in a run, what computing takes beside them, how
//! long cores rest around frames, and what links carry of an exchange.

use std::collections::BTreeMap;

use bonfire_exchange::owners::parts_by_links;
use bonfire_run::run_file::arch::Arch;
use bonfire_run::run_file::{Compression, ShareRule};

use super::figures::{Beside, FrameFigures, HostFigures, LinkFigures, Pool, Tried};
use super::forecast::{Played, Scene};
use super::{Candidate, Question, name, rank_of_factors};
use crate::bench::trial::{TrialRound, ways};

/// Rounds that would take longer are not tried.
const LONGEST_S: f64 = 6.0;

/// Which part of the sums each host of a pool has in a trial; none if a round would take too long, or nobody is there
/// to exchange with.
#[must_use]
pub fn trial_parts(question: &Question<'_>, hosts: &[HostFigures]) -> Option<Vec<f64>> {
    let speed = |host: &HostFigures| host.link.up.min(host.link.down);
    let slowest = hosts.iter().map(speed).fold(f64::INFINITY, f64::min);
    let batch = question.settings.file.batch_size;
    let step_s = |host: &HostFigures| host.work.step(1, batch).core_s / host.allowance.min(1.0);
    let longest_s = hosts.iter().map(step_s).fold(0.0, f64::max);
    let round_s = longest_s + 2.0 * question.layout.len() as f64 * 4.0 / slowest;
    let speeds: Vec<f64> = hosts.iter().map(speed).collect();
    (hosts.len() > 1 && round_s < LONGEST_S).then(|| parts_by_links(&speeds))
}

/// Corrects the figures of a pool by what every host says of the ways that were tried.
pub fn calibrate(question: &Question<'_>, pool: &mut Pool, trials: &[Vec<TrialRound>]) {
    let mut machines: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, host) in pool.hosts.iter().enumerate() {
        machines.entry(host.machine.clone()).or_default().push(place);
    }
    // Hosts of one machine have the same processor.
    let of = |places: &[usize], way: usize| mean(places.iter().filter_map(|&place| trials[place].get(way)));
    for places in machines.values() {
        if let Some(pair) = frame_figures(&of(places, 0), &of(places, 1)) {
            places.iter().for_each(|&place| take_frames(&mut pool.hosts[place].link, pair));
        }
    }
    // What the run file's checks refuse is no candidate either.
    let ways = ways(rank_of_factors(&question.settings.file));
    let is_right = |&way: &Compression| play(question, &pool.hosts, way).is_some();
    let tried: Vec<Compression> = ways.into_iter().take_while(is_right).collect();
    if tried.len() <= SMALL {
        return;
    }
    for (way, &compression) in tried.iter().enumerate() {
        let Some(simulated) = play(question, &pool.hosts, compression) else { return };
        for places in machines.values() {
            let worked =
                places.iter().map(|&place| simulated.worked[place]).sum::<f64>() / places.len() as f64;
            let real = of(places, way);
            for &place in places {
                take_work(pool.hosts[place].in_rounds.by_way(way), &real, worked, way);
            }
        }
    }
    let all: Vec<usize> = (0..pool.hosts.len()).collect();
    let real = (0..tried.len()).map(|way| of(&all, way).seconds).collect();
    let mut fit = Fit { question, hosts: &mut pool.hosts, ways: &tried, real };
    // Each has a bearing on the other.
    for _ in 0..2 {
        fit.take_rest();
        fit.take_links();
    }
    if tried.len() > FACTORS {
        fit.take_factors();
    }
    let told = |(way, &compression): (usize, &Compression)| {
        let simulated = play(question, &pool.hosts, compression)?.as_tried();
        Some(Tried { compression: name(compression), real: of(&all, way), simulated })
    };
    pool.tried = tried.iter().enumerate().filter_map(told).collect();
}

/// Rounds as those that were tried.
fn play(question: &Question<'_>, hosts: &[HostFigures], compression: Compression) -> Option<Played> {
    let candidate = Candidate {
        arch: Arch::Allreduce,
        hosts: (0..hosts.len()).collect(),
        servers: Vec::new(),
        head: 0,
        compression,
        local_steps: 1,
        delay: 0,
    };
    let mut settings = candidate.settings(question.settings, question.text).ok()?;
    settings.shares = ShareRule::Equal;
    let mut scene = Scene::new(&candidate, &settings, hosts, &mut question.traffic());
    scene.has_exact = false;
    Some(scene.play())
}

fn mean<'a>(rounds: impl Iterator<Item = &'a TrialRound> + Clone) -> TrialRound {
    let count = rounds.clone().count().max(1) as f64;
    let mean = |of: fn(&TrialRound) -> f64| rounds.clone().map(of).sum::<f64>() / count;
    TrialRound {
        seconds: mean(|round| round.seconds),
        work_s: mean(|round| round.work_s),
        wire_s: mean(|round| round.wire_s),
        frames: mean(|round| round.frames),
        bytes: mean(|round| round.bytes),
    }
}

/// What a frame and a byte take, sent and received together, by rounds with large frames and with small ones; none if
/// the system does not tell what threads take.
pub fn frame_figures(large: &TrialRound, small: &TrialRound) -> Option<FrameFigures> {
    if large.wire_s <= 0.0 || large.frames <= 0.0 || large.bytes <= 0.0 {
        return None;
    }
    // Two rounds, two unknowns. At least some of it is for bytes, and not all.
    let apart = large.bytes * small.frames - small.bytes * large.frames;
    let byte_s = (large.wire_s * small.frames - small.wire_s * large.frames) / apart.max(1e-9);
    let most = large.wire_s / large.bytes;
    let byte_s = byte_s.clamp(0.2 * most, most);
    Some(FrameFigures { frame_s: (large.wire_s - byte_s * large.bytes) / large.frames, byte_s })
}

/// Frames of a run wake threads as often as they do in a trial: that is in their figures then.
fn take_frames(link: &mut LinkFigures, pair: FrameFigures) {
    let before_s = link.send.frame_s + link.receive.frame_s + 2.0 * link.wake_s;
    let one_way_s = link.latency_s + before_s;
    let part = |of: f64, other: f64| if of + other > 0.0 { of / (of + other) } else { 0.5 };
    let sent = part(link.send.of(LIKE), link.receive.of(LIKE));
    link.send = FrameFigures { frame_s: pair.frame_s * sent, byte_s: pair.byte_s * sent };
    let received = 1.0 - sent;
    link.receive = FrameFigures { frame_s: pair.frame_s * received, byte_s: pair.byte_s * received };
    link.wake_s = 0.0;
    link.latency_s = (one_way_s - pair.frame_s).max(link.latency_s * 0.1);
}

/// Sending and receiving are told apart by frames of this size.
const LIKE: f64 = 65536.0;

/// A frame takes no more than this of who computes. Of factors it stands for what computing them takes longer, too.
const MOST_TAKE_S: [f64; 3] = [200e-6, 200e-6, 2e-3];

/// What computing takes in rounds beyond what it takes alone goes with frames, by which it is woken. So a way with
/// fewer frames for as much computing takes less.
fn take_work(beside: &mut Beside, real: &TrialRound, worked: f64, way: usize) {
    let more_s = real.work_s - worked;
    beside.take_s = (more_s / real.frames.max(1.0)).clamp(0.0, MOST_TAKE_S[way]);
    beside.work = (real.work_s / worked.max(1e-9)).clamp(0.7, 1.0);
}

/// Over links that carry this part rounds take so many times as long where they wait for links, and where they wait for
/// nothing else.
const SLOWER: f64 = 0.8;
const WAITS: f64 = 1.1;
const ONLY_WAITS: f64 = 1.2;

/// What makes something fit that grows with it, between two values.
fn halve((mut low, mut high): (f64, f64), mut is_too_much: impl FnMut(f64) -> bool) -> f64 {
    for _ in 0..9 {
        let middle = f64::midpoint(low, high);
        if is_too_much(middle) { high = middle } else { low = middle }
    }
    f64::midpoint(low, high)
}

/// A core rests for no more times as long as a frame takes.
const MOST_REST: f64 = 4.0;

/// Links may carry so much less or more of an exchange than of a stream.
const CARRY: (f64, f64) = (0.5, 1.3);

const LARGE: usize = 0;
const SMALL: usize = 1;
const FACTORS: usize = 2;

/// Frames are no later than this.
const LATEST_S: f64 = 5e-3;

/// Hosts whose figures are changed until simulated rounds take as long as real ones.
struct Fit<'a> {
    question: &'a Question<'a>,
    hosts: &'a mut [HostFigures],
    /// The ways that were tried, and seconds of a round of each.
    ways: &'a [Compression],
    real: Vec<f64>,
}

impl Fit<'_> {
    fn round_s(&self, way: usize) -> f64 {
        play(self.question, self.hosts, self.ways[way]).map_or(0.0, |played| played.round_s)
    }

    /// Changes what is known of some ways.
    fn set(&mut self, ways: &[usize], change: impl Fn(&mut Beside)) {
        for host in self.hosts.iter_mut() {
            ways.iter().for_each(|&way| change(host.in_rounds.by_way(way)));
        }
    }

    /// How many times as long rounds of a way take over slower links.
    fn over_slower(&mut self, way: usize) -> f64 {
        let now = self.round_s(way);
        self.set(&[way], |beside| beside.carries *= SLOWER);
        let slower = self.round_s(way);
        self.set(&[way], |beside| beside.carries /= SLOWER);
        slower / now.max(1e-9)
    }

    /// Has cores rest around frames until simulated rounds take as long as real ones, by the ways that do not only wait
    /// for links. Real threads wake each other, and those of several hosts on one machine are late where simulated ones
    /// are not: the cores rest meanwhile.
    fn take_rest(&mut self) {
        let bounds = [WAITS, ONLY_WAITS];
        let ways: Vec<usize> =
            [LARGE, SMALL].into_iter().filter(|&way| self.over_slower(way) < bounds[way]).collect();
        let mut is_too_much = |times: f64| {
            for LinkFigures { rest_s, send, receive, .. } in self.hosts.iter_mut().map(|host| &mut host.link)
            {
                *rest_s = times * (send.frame_s + receive.frame_s) / 2.0;
            }
            ways.iter().map(|&way| (self.round_s(way) / self.real[way]).ln()).sum::<f64>() > 0.0
        };
        let times = match ways.is_empty() || is_too_much(0.0) {
            true => 0.0,
            false => halve((0.0, MOST_REST), &mut is_too_much),
        };
        is_too_much(times);
    }

    /// Corrects what links carry of large frames and of small ones, where these are what rounds wait for. Fewer bytes
    /// that are on their way at a time overflow fewer queues. Where small ones wait for processors too, the rest that
    /// was found says what is missing.
    fn take_links(&mut self) {
        self.set(&[LARGE, SMALL], |beside| beside.carries = 1.0);
        if self.over_slower(LARGE) > WAITS {
            self.take_link(LARGE, &[LARGE, SMALL]);
        }
        let (over_slower, is_too_long) = (self.over_slower(SMALL), self.round_s(SMALL) > self.real[SMALL]);
        if over_slower > ONLY_WAITS || (over_slower > WAITS && is_too_long) {
            self.take_link(SMALL, &[SMALL]);
        }
    }

    /// Where rounds of factors wait for links, corrects what these carry. Otherwise has frames be later until simulated
    /// rounds take as long as real ones: fewer hosts wait as long for each, but not for as many at a time.
    fn take_factors(&mut self) {
        if self.over_slower(FACTORS) > WAITS || self.round_s(FACTORS) > self.real[FACTORS] {
            return self.take_link(FACTORS, &[FACTORS]);
        }
        let mut is_too_much = |late_s: f64| {
            self.set(&[FACTORS], |beside| beside.late_s = late_s);
            self.round_s(FACTORS) > self.real[FACTORS]
        };
        let late_s = halve((0.0, LATEST_S), &mut is_too_much);
        is_too_much(late_s);
    }

    fn take_link(&mut self, way: usize, ways: &[usize]) {
        let mut is_too_much = |times: f64| {
            self.set(ways, |beside| beside.carries = times);
            self.round_s(way) < self.real[way]
        };
        let times = halve(CARRY, &mut is_too_much);
        is_too_much(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::figures::InRounds;
    use crate::plan::sample;
    use crate::plan::tests::{RUN, Scene};

    #[test]
    fn a_frame_and_a_byte_are_told_apart() {
        let round =
            |bytes: f64, wire_s: f64| TrialRound { frames: 10.0, bytes, wire_s, ..TrialRound::default() };
        let found = frame_figures(&round(4000.0, 0.05), &round(1000.0, 0.02)).expect("figures");
        assert!((found.byte_s - 1e-5).abs() < 1e-12 && (found.frame_s - 1e-3).abs() < 1e-12, "{found:?}");
        // Chance may make small frames dearer: then it is bytes that cost the least that they may.
        let found = frame_figures(&round(4000.0, 0.04), &round(1000.0, 0.05)).expect("figures");
        assert!((found.byte_s - 2e-6).abs() < 1e-12, "{found:?}");
        assert_eq!(frame_figures(&round(4000.0, 0.0), &round(1000.0, 0.0)), None);
    }

    #[test]
    fn what_frames_take_more_of_the_processor_is_no_latency() {
        let frame = FrameFigures { frame_s: 10e-6, byte_s: 1e-9 };
        let mut link = LinkFigures {
            latency_s: 80e-6,
            wake_s: 5e-6,
            send: frame,
            receive: frame,
            ..sample::host("pi", 1e8, 0.0).link
        };
        take_frames(&mut link, FrameFigures { frame_s: 60e-6, byte_s: 2e-9 });
        assert!((link.latency_s - 50e-6).abs() < 1e-9 && link.wake_s == 0.0, "{link:?}");
        assert!((link.send.frame_s - 30e-6).abs() < 1e-9 && (link.receive.byte_s - 1e-9).abs() < 1e-15);
    }

    #[test]
    fn cores_that_rest_are_found_by_real_rounds() {
        let scene = Scene::new(RUN);
        let question = scene.question();
        let frame = FrameFigures { frame_s: 20e-6, byte_s: 1e-10 };
        let host = |rest_s: f64| {
            let mut host = sample::host("pi", 1e9, 0.0);
            (host.cores, host.allowance) = (2, 2.0);
            host.work.steps.iter_mut().for_each(|step| step.work.core_s *= 1e-3);
            host.link = LinkFigures { rest_s, send: frame, receive: frame, ..host.link };
            host
        };
        let real = ways(rank_of_factors(&question.settings.file));
        let real = real
            .into_iter()
            .map(|way| play(&question, &vec![host(10e-6); 4], way).expect("rounds").as_tried());
        let real: Vec<TrialRound> = real.collect();
        let mut pool = Pool { hosts: vec![host(0.0); 4], ..Pool::default() };
        calibrate(&question, &mut pool, &vec![real; 4]);
        let found = pool.hosts[3].link.rest_s;
        assert!((found / 10e-6 - 1.0).abs() < 0.2, "{found}");
        for tried in &pool.tried {
            let part = tried.simulated.seconds / tried.real.seconds;
            assert!((part - 1.0).abs() < 0.05, "{tried:?}");
        }
    }

    #[test]
    fn frames_of_factors_that_are_late_are_found_by_real_rounds() {
        let scene = Scene::new(RUN);
        let question = scene.question();
        let host = |late_s: f64| {
            let mut host = sample::host("pi", 1e9, 0.0);
            host.work.steps.iter_mut().for_each(|step| step.work.core_s *= 1e-3);
            host.in_rounds.factors = Some(Beside { late_s, ..Beside::default() });
            host
        };
        let hosts = |late_s: f64| -> Vec<HostFigures> {
            let name = |number: usize| HostFigures { machine: number.to_string(), ..host(late_s) };
            (0..4).map(name).collect()
        };
        let tried = ways(rank_of_factors(&question.settings.file));
        let play = |&way: &Compression| play(&question, &hosts(1e-3), way).expect("rounds").as_tried();
        let real: Vec<TrialRound> = tried.iter().map(play).collect();
        assert!(
            real[FACTORS].seconds > real[SMALL].seconds + 2e-3,
            "two exchanges, there and back: {real:?}"
        );
        let mut pool = Pool { hosts: hosts(0.0), ..Pool::default() };
        calibrate(&question, &mut pool, &vec![real; 4]);
        let found = pool.hosts[1].in_rounds.of(Compression::PowerSgd(2)).late_s;
        assert!((found / 1e-3 - 1.0).abs() < 0.1, "{found}");
        assert_eq!(pool.hosts[1].in_rounds.of(Compression::Int8).late_s, 0.0);
    }

    #[test]
    fn work_that_goes_with_frames_is_told_apart() {
        let (mut beside, frames) = (Beside::default(), 50.0);
        let round = |work_s: f64| TrialRound { work_s, frames, ..TrialRound::default() };
        take_work(&mut beside, &round(3e-3), 2e-3, LARGE);
        assert!((beside.take_s - 20e-6).abs() < 1e-12 && beside.work == 1.0, "{beside:?}");
        take_work(&mut beside, &round(1.8e-3), 2e-3, LARGE);
        assert!(beside.take_s == 0.0 && (beside.work - 0.9).abs() < 1e-9, "{beside:?}");
    }

    #[test]
    fn links_carry_of_small_frames_what_real_rounds_say() {
        let scene = Scene::new(RUN);
        let question = scene.question();
        let host = |name: usize, [large, small]: [f64; 2]| {
            let mut host = sample::host(&format!("pi{name}"), 1e5, 0.0);
            host.work.steps.iter_mut().for_each(|step| step.work.core_s *= 1e-3);
            let beside = |carries: f64| Beside { carries, ..Beside::default() };
            host.in_rounds = InRounds { large: beside(large), small: beside(small), factors: None };
            host
        };
        let hosts = |carries: [f64; 2]| (0..4).map(|name| host(name, carries)).collect::<Vec<_>>();
        let real = ways(rank_of_factors(&question.settings.file));
        let real =
            real.into_iter().map(|way| play(&question, &hosts([0.8, 1.1]), way).expect("rounds").as_tried());
        let real: Vec<TrialRound> = real.collect();
        let mut pool = Pool { hosts: hosts([1.0; 2]), ..Pool::default() };
        calibrate(&question, &mut pool, &vec![real; 4]);
        let InRounds { large, small, .. } = pool.hosts[2].in_rounds;
        assert!(
            (large.carries - 0.8).abs() < 0.02 && (small.carries - 1.1).abs() < 0.02,
            "{large:?} {small:?}"
        );
        let half = pool.hosts[2].in_rounds.of(Compression::F16).carries;
        assert!(half > large.carries && half < small.carries, "{half}");
    }
}

//! Links of a simulated network: every frame takes its time, in order; links break, are blocked, and are given up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Incoming, Outbox, Sink, memory_link, proto};

use super::world::{Entry, State, World};
use crate::roles::network::Network;

/// A link between two machines.
pub(crate) struct Link {
    pub ends: [usize; 2],
    /// By who gets what is on it.
    lanes: [Lane; 2],
    /// Nothing gets onto it any more.
    is_cut: bool,
    pub blocked_until: Duration,
}

struct Lane {
    sink: Option<Sink>,
    queue: VecDeque<Incoming>,
    /// When the last of the queue arrives: order is kept.
    last: Duration,
    is_closed: bool,
}

/// Something that has arrived.
pub(crate) struct Delivery {
    pub link: usize,
    pub to: usize,
    pub sink: Sink,
    pub incoming: Incoming,
    pub is_last: bool,
}

/// How long nothing may be heard of a peer.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// How long a connection may take to come up.
const HANDSHAKE: Duration = Duration::from_secs(5);

impl Link {
    fn new(ends: [usize; 2]) -> Self {
        let lane = || Lane { sink: None, queue: VecDeque::new(), last: Duration::ZERO, is_closed: false };
        Self { ends, lanes: [lane(), lane()], is_cut: false, blocked_until: Duration::ZERO }
    }

    pub(crate) fn put_back(&mut self, to: usize, sink: Sink) {
        self.lanes[to].sink = Some(sink);
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.is_cut && !self.lanes.iter().any(|lane| lane.is_closed)
    }

    fn side_of(&self, machine: usize) -> Option<usize> {
        self.ends.iter().position(|&end| end == machine)
    }
}

impl State {
    /// Puts something onto a link, from where it arrives in time.
    fn dispatch(&mut self, link: usize, to: usize, incoming: Incoming) -> Option<Incoming> {
        self.overhear(link, to, &incoming);
        if self.links[link].is_cut || self.links[link].lanes[to].is_closed {
            return Some(incoming);
        }
        let from = self.links[link].ends[1 - to];
        let time = self.latency(from);
        self.enqueue(link, to, incoming, self.now + time);
        None
    }

    /// Whoever has a version has the same parameters: a node that finds otherwise says so to the head.
    fn overhear(&mut self, link: usize, to: usize, incoming: &Incoming) {
        if let Incoming::Frame(Frame { body: Body::Trouble(trouble), .. }) = incoming
            && trouble.reason.contains("other parameters")
        {
            let from = self.links[link].ends[1 - to];
            self.blame(format!("{} {}", self.machines[from].name, trouble.reason));
        }
    }

    fn enqueue(&mut self, link: usize, to: usize, incoming: Incoming, at: Duration) {
        let lane = &mut self.links[link].lanes[to];
        lane.last = lane.last.max(at);
        lane.is_closed |= matches!(incoming, Incoming::Closed(_));
        let at = lane.last;
        lane.queue.push_back(incoming);
        self.plan(at, Entry::Deliver { link, to });
    }

    /// Mostly short, now and then long.
    fn latency(&mut self, from: usize) -> Duration {
        let (lag, until) = self.machines[from].lag;
        let slowness = 1 + from as u64 % 3;
        let micros = match self.random.below(40) {
            0 => 50_000 + self.random.below(400_000) as u64,
            _ => 500 + self.random.below(15_000) as u64 * slowness,
        };
        Duration::from_micros(micros) + if until > self.now { lag } else { Duration::ZERO }
    }

    /// What has arrived on a link, unless it has to wait.
    pub(crate) fn take_delivery(&mut self, link: usize, to: usize) -> Option<Delivery> {
        let held = &self.links[link];
        let frozen = self.machines[held.ends[to]].frozen_until;
        let held_until = frozen.max(held.blocked_until);
        if held_until > self.now {
            self.plan(held_until, Entry::Deliver { link, to });
            return None;
        }
        let lane = &mut self.links[link].lanes[to];
        let incoming = lane.queue.pop_front()?;
        if self.is_told {
            let what = match &incoming {
                Incoming::Frame(frame) => format!("{:?}", frame.body),
                Incoming::Closed(reason) => format!("Closed({reason})"),
            };
            let ends = self.links[link].ends;
            let name = |side: usize| self.machines[ends[side]].name.clone();
            self.tell(format!("  {} -> {}: {what:.150}", name(1 - to), name(to)));
        }
        let lane = &mut self.links[link].lanes[to];
        let is_last = matches!(incoming, Incoming::Closed(_));
        Some(Delivery { link, to, sink: lane.sink.take()?, incoming, is_last })
    }

    /// Ends a link from outside: each side hears of it at its time. What is on its way to it arrives before.
    pub(crate) fn cut(&mut self, link: usize, at: [Duration; 2], reason: &str) {
        if self.links[link].is_cut {
            return;
        }
        self.links[link].is_cut = true;
        self.links[link].blocked_until = Duration::ZERO;
        for (to, at) in at.into_iter().enumerate() {
            if !self.links[link].lanes[to].is_closed {
                self.enqueue(link, to, Incoming::Closed(reason.to_owned()), at);
            }
        }
    }

    /// The links of a machine that stand.
    pub(crate) fn links_of(&self, machine: usize) -> Vec<usize> {
        let is_its =
            |&link: &usize| self.links[link].is_open() && self.links[link].side_of(machine).is_some();
        (0..self.links.len()).filter(is_its).collect()
    }

    /// Cuts all links of a machine: the others hear of it then, the machine itself when it can.
    pub(crate) fn cut_off(&mut self, machine: usize, others: Duration, itself: Duration, reason: &str) {
        for link in self.links_of(machine) {
            let side = self.links[link].side_of(machine).unwrap_or_default();
            let mut at = [others; 2];
            at[side] = itself;
            self.cut(link, at, reason);
        }
    }

    pub(crate) fn give_up_machine(&mut self, machine: usize, since: Duration) {
        let (frozen, is_down) = (self.machines[machine].frozen_until, self.machines[machine].is_down);
        if frozen > self.now || is_down {
            let reason = format!("silent for {:.1} s", (self.now - since).as_secs_f64());
            self.cut_off(machine, self.now, frozen.max(self.now), &reason);
        }
    }

    pub(crate) fn give_up_link(&mut self, link: usize, since: Duration) {
        if self.links[link].blocked_until > self.now {
            let reason = format!("silent for {:.1} s", (self.now - since).as_secs_f64());
            self.cut(link, [self.now; 2], &reason);
        }
    }
}

/// The way of a machine to the others.
#[derive(Debug)]
pub(crate) struct SimulatedNetwork {
    pub world: Arc<World>,
    pub machine: usize,
}

impl Network for SimulatedNetwork {
    fn connect(&self, peer: &proto::Peer, sink: Sink) -> Result<Outbox> {
        let (world, from) = (&self.world, self.machine);
        let time = world.lock().latency(from);
        world.sleep(from, 2 * time);
        let state = world.lock();
        let found = state.listeners.get(&peer.address).cloned();
        let (to, post) = found.ok_or_else(|| anyhow!("nobody is at {}", peer.address))?;
        let held_for = state.held_between(from, to).saturating_sub(state.now);
        drop(state);
        if !held_for.is_zero() {
            world.sleep(from, held_for.min(HANDSHAKE));
            let is_there = world.lock().listeners.contains_key(&peer.address);
            if held_for > HANDSHAKE || !is_there {
                bail!("{} does not answer", peer.address);
            }
        }
        let mut state = world.lock();
        let link = state.links.len();
        state.links.push(Link::new([from, to]));
        drop(state);
        let courier = |to: usize| -> Sink {
            let world = Arc::clone(world);
            Box::new(move |incoming: Incoming| {
                // What cannot be sent is dropped without the lock.
                let _unsent = world.lock().dispatch(link, to, incoming);
            })
        };
        let (here, there) = memory_link(courier(0), courier(1));
        let number = post.number();
        let mut state = world.lock();
        state.links[link].lanes[0].sink = Some(sink);
        state.links[link].lanes[1].sink = Some(post.sink(number));
        drop(state);
        post.announce(number, there);
        Ok(here)
    }
}

impl State {
    /// Until when nothing can be heard between two machines.
    fn held_between(&self, from: usize, to: usize) -> Duration {
        let blocked = |&(a, b, until): &(usize, usize, Duration)| {
            if (a, b) == (from, to) || (b, a) == (from, to) { until } else { Duration::ZERO }
        };
        let blocked = self.blocked.iter().map(blocked).max().unwrap_or_default();
        self.machines[to].frozen_until.max(blocked)
    }

    /// Lets nothing pass between two machines for a time.
    pub(crate) fn block(&mut self, a: usize, b: usize, until: Duration) {
        self.blocked.push((a, b, until));
        let now = self.now;
        let links = 0..self.links.len();
        for link in links.filter(|&link| self.links[link].is_open()).collect::<Vec<_>>() {
            let held = &mut self.links[link];
            if held.ends == [a, b] || held.ends == [b, a] {
                held.blocked_until = held.blocked_until.max(until);
                self.plan(now + SILENCE, Entry::Blocked { link, since: now });
            }
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("ends", &self.ends).field("is_cut", &self.is_cut).finish_non_exhaustive()
    }
}

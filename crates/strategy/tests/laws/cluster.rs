//! A head, relays and workers over links with random delays, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bonfire_strategy::server::Contribution;
use bonfire_strategy::{Deck, Relay, Server, Unit, relay, server};

use crate::chance::Chance;

/// One computed gradient, with a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gradient {
    number: u64,
    unit: Unit,
    version: u64,
}

/// What a child tells its parent.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    Joined { lease: u32 },
    Lease { lease: u32 },
    Pushed { order: u64, done: Vec<Unit>, unused: Vec<Unit>, sum: Vec<Gradient> },
    Closed,
}

#[derive(Clone, Debug)]
enum What {
    Start,
    Tick,
    /// A child tries to connect.
    Connect(usize),
    Up {
        child: usize,
        session: u64,
        note: Note,
    },
    Down {
        child: usize,
        session: u64,
        order: u64,
        version: u64,
        units: Vec<Unit>,
    },
    Computed {
        worker: usize,
        session: u64,
        order: u64,
        gradients: Vec<Gradient>,
    },
    Fault,
}

pub(crate) struct Node {
    /// `None`: the head.
    pub parent: Option<usize>,
    pub relay: Option<RelayNode>,
    pub connected: bool,
    /// Counts the connections to the parent: what was sent on an old one does not arrive.
    pub session: u64,
    /// The connection that the parent knows of.
    known: u64,
    up_free: Duration,
    down_free: Duration,
    busy_until: Duration,
    pub gone_for_good: bool,
}

pub(crate) struct RelayNode {
    pub rule: relay::Rule,
    relay: Relay,
    pushes: BTreeMap<(u64, u64), Vec<Gradient>>,
    sum: Vec<Gradient>,
}

/// The shape of a cluster: for each member of the head, a relay's kind and size, or a worker.
pub(crate) type Shape = Vec<Option<relay::Rule>>;

pub(crate) struct Cluster {
    pub chance: Chance,
    pub rule: server::Rule,
    head: Server,
    pub nodes: Vec<Node>,
    agenda: BTreeMap<(Duration, u64), What>,
    planned: u64,
    now: Duration,
    next_gradient: u64,
    kept: BTreeMap<(u64, u64), Vec<Gradient>>,
    applied: BTreeSet<u64>,
    units_applied: BTreeSet<Unit>,
    epochs_done: BTreeSet<u64>,
    version: u64,
}

impl Cluster {
    pub(crate) fn new(chance: Chance, rule: server::Rule, deck: Deck, shape: &Shape) -> Self {
        let node = |parent, rule: Option<relay::Rule>| Node {
            parent,
            relay: rule.map(RelayNode::new),
            connected: false,
            session: 0,
            known: 0,
            up_free: Duration::ZERO,
            down_free: Duration::ZERO,
            busy_until: Duration::ZERO,
            gone_for_good: false,
        };
        let mut nodes: Vec<Node> = shape.iter().map(|rule| node(None, rule.clone())).collect();
        for (member, rule) in shape.iter().enumerate() {
            let workers = rule.as_ref().map_or(0, |rule| rule.workers);
            nodes.extend((0..workers).map(|_| node(Some(member), None)));
        }
        Self {
            chance,
            head: Server::new(rule.clone(), deck, 0),
            rule,
            nodes,
            agenda: BTreeMap::new(),
            planned: 0,
            now: Duration::ZERO,
            next_gradient: 0,
            kept: BTreeMap::new(),
            applied: BTreeSet::new(),
            units_applied: BTreeSet::new(),
            epochs_done: BTreeSet::new(),
            version: 0,
        }
    }

    /// Runs to the end, with `faults` on the way, and checks what must hold.
    pub(crate) fn run(&mut self, faults: u64, units: u64, epochs: u64) {
        for child in 0..self.nodes.len() {
            self.reconnect(child, 20);
        }
        let start = self.chance.within(40);
        self.plan(start, What::Start);
        for _ in 0..faults {
            let at = self.chance.within(1500);
            self.plan(at, What::Fault);
        }
        let mut steps = 0;
        while !self.head.is_finished() {
            let Some(((at, _), what)) = self.agenda.pop_first() else {
                panic!("everybody waits: {:#?}", self.head);
            };
            self.now = at;
            self.happens(what);
            steps += 1;
            assert!(steps < 100_000, "no end in sight: {:#?}", self.head);
        }
        assert_eq!(self.units_applied.len() as u64, units, "each unit once");
        assert_eq!(self.epochs_done.len() as u64, epochs, "each epoch once");
    }

    fn plan(&mut self, at: Duration, what: What) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), what);
    }

    pub(crate) fn reconnect(&mut self, child: usize, within_ms: u64) {
        let at = self.now + self.chance.within(within_ms);
        self.plan(at, What::Connect(child));
    }

    fn happens(&mut self, what: What) {
        match what {
            What::Start => self.tell_head(server::Event::Start, None),
            What::Tick => self.tell_head(server::Event::Tick, None),
            What::Connect(child) => self.connect(child),
            What::Up { child, session, note } => self.arrives(child, session, note),
            What::Down { child, session, order, version, units } => {
                if self.nodes[child].connected && self.nodes[child].session == session {
                    self.ordered(child, order, version, units);
                }
            }
            What::Computed { worker, session, order, gradients: sum } => {
                if self.nodes[worker].connected && self.nodes[worker].session == session {
                    let done = sum.iter().map(|gradient| gradient.unit).collect();
                    let note = Note::Pushed { order, done, unused: Vec::new(), sum };
                    // Some links stutter.
                    if self.chance.percent(5) {
                        self.up(worker, note.clone());
                    }
                    self.up(worker, note);
                }
            }
            What::Fault => self.fault(),
        }
    }

    fn connect(&mut self, child: usize) {
        if self.nodes[child].connected || self.nodes[child].gone_for_good {
            return;
        }
        self.nodes[child].connected = true;
        self.nodes[child].session += 1;
        let lease = self.nodes[child].relay.as_ref().map_or(1, |node| node.relay.lease());
        self.up(child, Note::Joined { lease });
    }

    pub(crate) fn up(&mut self, child: usize, note: Note) {
        let at = (self.now + self.chance.within(10)).max(self.nodes[child].up_free + Duration::from_nanos(1));
        self.nodes[child].up_free = at;
        let session = self.nodes[child].session;
        self.plan(at, What::Up { child, session, note });
    }

    fn down(&mut self, child: usize, order: u64, version: u64, units: Vec<Unit>) {
        let at =
            (self.now + self.chance.within(10)).max(self.nodes[child].down_free + Duration::from_nanos(1));
        self.nodes[child].down_free = at;
        let session = self.nodes[child].known;
        self.plan(at, What::Down { child, session, order, version, units });
    }

    fn arrives(&mut self, child: usize, session: u64, note: Note) {
        if self.nodes[child].session != session {
            return;
        }
        if matches!(note, Note::Joined { .. }) {
            self.nodes[child].known = session;
        }
        let id = child as u64;
        if let Some(parent) = self.nodes[child].parent {
            let (event, gradients) = match note {
                Note::Joined { .. } => (relay::Event::Joined { worker: id }, None),
                Note::Closed => (relay::Event::Lost { worker: id }, None),
                Note::Lease { .. } => return,
                Note::Pushed { order, done, sum, .. } => {
                    (relay::Event::Pushed { worker: id, order, units: done }, Some(sum))
                }
            };
            return self.tell_relay(parent, event, gradients);
        }
        match note {
            Note::Joined { lease } => self.tell_head(server::Event::Joined { member: id, lease }, None),
            Note::Lease { lease } => self.tell_head(server::Event::Lease { member: id, lease }, None),
            Note::Closed => self.tell_head(server::Event::Lost { member: id }, None),
            Note::Pushed { order, done, unused, sum } => {
                let units: Vec<Unit> = sum.iter().map(|gradient| gradient.unit).collect();
                assert_eq!(units, done, "the sum is what it says");
                let empty = sum.is_empty();
                let event = server::Event::Pushed { member: id, order, done, unused, empty };
                self.tell_head(event, Some(sum));
            }
        }
    }

    /// A worker begins to compute; a relay asks its rule.
    fn ordered(&mut self, child: usize, order: u64, version: u64, units: Vec<Unit>) {
        if self.nodes[child].relay.is_some() {
            let steps = self.rule.pace.steps_in(version + 1);
            return self.tell_relay(child, relay::Event::Order { order, version, units, steps }, None);
        }
        let slow = if self.chance.percent(10) { 400 } else { 60 };
        let at = self.nodes[child].busy_until.max(self.now) + self.chance.within(slow);
        self.nodes[child].busy_until = at;
        assert!(
            units.len() as u64 <= self.rule.pace.steps_in(version + 1),
            "no more than it is to do by itself"
        );
        let gradients = units.into_iter().map(|unit| {
            self.next_gradient += 1;
            Gradient { number: self.next_gradient, unit, version }
        });
        let gradients = gradients.collect();
        let session = self.nodes[child].session;
        self.plan(at, What::Computed { worker: child, session, order, gradients });
    }

    pub(crate) fn tell_relay(&mut self, relay: usize, event: relay::Event, sum: Option<Vec<Gradient>>) {
        let Some(node) = &mut self.nodes[relay].relay else { panic!("node {relay} is a worker") };
        let pushed = match &event {
            relay::Event::Pushed { worker, order, .. } => Some((*worker, *order)),
            _ => None,
        };
        let actions = node.relay.on(event);
        let refused = matches!(actions.first(), Some(relay::Action::Discard { .. }));
        if let (Some(key), Some(sum), false) = (pushed, sum, refused) {
            let replaced = node.pushes.insert(key, sum);
            assert!(replaced.is_none(), "a push was taken in twice");
        }
        for action in actions {
            self.relay_does(relay, action);
        }
    }

    fn relay_does(&mut self, relay: usize, action: relay::Action) {
        let connected = self.nodes[relay].connected;
        let Some(node) = &mut self.nodes[relay].relay else { panic!("node {relay} is a worker") };
        match action {
            relay::Action::Release { worker, order, version, units } => {
                self.down(worker as usize, order, version, units);
            }
            relay::Action::Accumulate { worker, order } => {
                node.sum.extend(node.pushes.remove(&(worker, order)).expect("a push to add"));
            }
            relay::Action::PushUp { order, shares, done, unused, oldest, .. } => {
                let mut sum = std::mem::take(&mut node.sum);
                if !node.rule.is_async {
                    let in_order = shares.is_sorted_by_key(|share| (share.worker, share.order));
                    assert!(in_order, "a sync sum goes by worker");
                    let mut push = |share: &relay::Share| node.pushes.remove(&(share.worker, share.order));
                    sum.extend(shares.iter().flat_map(|share| push(share).expect("a push to sum up")));
                }
                assert!(sum.iter().all(|gradient| gradient.version >= oldest));
                assert!(connected, "it answers a parent it has");
                self.up(relay, Note::Pushed { order, done, unused, sum });
            }
            relay::Action::Offer { lease } => {
                if connected {
                    self.up(relay, Note::Lease { lease });
                }
            }
            relay::Action::Discard { .. } => {}
            relay::Action::Forget { .. } => {
                node.pushes.clear();
                node.sum.clear();
            }
        }
    }

    fn tell_head(&mut self, event: server::Event, sum: Option<Vec<Gradient>>) {
        let pushed = match &event {
            server::Event::Pushed { member, order, .. } => Some((*member, *order)),
            _ => None,
        };
        let actions = self.head.on(event, self.now);
        let refused = matches!(actions.first(), Some(server::Action::Discard { late: false, .. }));
        if let (Some(key), Some(sum), false) = (pushed, sum, refused) {
            let replaced = self.kept.insert(key, sum);
            assert!(replaced.is_none(), "a push was taken in twice");
        }
        for action in actions {
            self.head_does(action);
        }
        if let Some(deadline) = self.head.next_deadline() {
            self.plan(deadline.max(self.now), What::Tick);
        }
    }

    fn head_does(&mut self, action: server::Action) {
        match action {
            server::Action::Apply { pushes, version, .. } => {
                self.version += 1;
                assert_eq!(version, self.version);
                assert!(pushes.is_sorted_by_key(|push| (push.member, push.order)));
                for push in pushes {
                    self.apply(&push);
                }
            }
            server::Action::Release { member, order, version, units, .. } => {
                assert_eq!(version, self.version);
                self.down(member as usize, order, version, units);
            }
            server::Action::Discard { member, order, late: true, .. } => {
                assert!(self.kept.remove(&(member, order)).is_some(), "what is late was taken in");
            }
            server::Action::EpochDone(epoch) => assert!(self.epochs_done.insert(epoch), "an epoch ends once"),
            _ => {}
        }
    }

    fn apply(&mut self, push: &Contribution) {
        let bound = self.rule.max_staleness;
        assert!(push.staleness <= bound, "{push:?} with a bound of {bound}");
        let sum = self.kept.remove(&(push.member, push.order)).expect("a push to apply");
        let member = &self.nodes[push.member as usize];
        let is_async = member.relay.as_ref().is_some_and(|node| node.rule.is_async);
        for gradient in sum {
            assert!(self.applied.insert(gradient.number), "{gradient:?} is applied twice");
            assert!(self.units_applied.insert(gradient.unit), "{} counts twice", gradient.unit);
            let staleness = self.version - 1 - gradient.version;
            assert!(is_async || staleness == push.staleness, "{gradient:?} is not as stale as {push:?}");
        }
    }
}

impl RelayNode {
    pub(crate) fn new(rule: relay::Rule) -> Self {
        Self { relay: Relay::new(rule.clone()), rule, pushes: BTreeMap::new(), sum: Vec::new() }
    }
}

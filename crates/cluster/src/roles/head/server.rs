//! A head that is a parameter server: to workers, or to relays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bonfire_learn::{Gradient, Tally};
use bonfire_report::{Event as Told, Exit};
use bonfire_strategy::server::{Action, Contribution, Event, Rule, Server};
use bonfire_strategy::{Deck, Unit};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, proto};
use bytes::Bytes;

use super::super::claim::wrong_push;
use super::super::feed::{Entry, Feed, Order};
use super::super::registry::{Node, Notice, Role};
use super::super::worker::from_proto;
use super::Head;
use super::stamps::Stamps;
use super::update_log::UpdateLog;
use crate::exchange::{Codec, Parcel};
use bonfire_run::course::Due;
use bonfire_run::replica::StepSize;
use bonfire_run::run::Update;
use bonfire_run::run_file::{ServerRule, Topology};

/// Leads a run as its parameter server.
pub fn lead(head: &mut Head<'_>) -> Result<Exit> {
    let mut serving = Serving::new(head);
    serving.enroll()?;
    loop {
        if let Some(exit) = serving.turn()? {
            serving.log.flush(serving.head);
            return Ok(exit);
        }
    }
}

/// A parameter server at work.
struct Serving<'h, 'a> {
    head: &'h mut Head<'a>,
    server: Server,
    rule: ServerRule,
    codec: Codec,
    /// The sum of an update's gradients.
    sum: Gradient,
    feed: Feed,
    held: HashMap<(u64, u64), Held>,
    /// The version that each member was last brought to.
    has: BTreeMap<u64, u64>,
    stamps: Option<Stamps>,
    /// All parameters as a payload, of a version.
    packed: Option<(u64, Bytes)>,
    log: UpdateLog,
    /// Relays that have said how many workers they have.
    offered: BTreeMap<u64, u32>,
    /// Which worker cannot reach which relay.
    apart: BTreeSet<(u64, u64)>,
    started: bool,
    start_by: Instant,
    finished: bool,
}

/// A push that waits to be applied.
struct Held {
    /// None if it was unfit.
    parcel: Option<Parcel>,
    tally: proto::Tally,
    units: Vec<Unit>,
}

/// How long relays may take to gather their workers.
const RELAYS_GATHER: Duration = Duration::from_secs(30);

impl<'h, 'a> Serving<'h, 'a> {
    fn new(head: &'h mut Head<'a>) -> Self {
        let job = &head.run.job;
        let (course, settings) = (&job.course, &job.settings);
        let rule = settings.topology.rule();
        let (epochs, max_updates) = course.ends();
        let take = match settings.topology {
            Topology::Flat { workers, backup: 1.., .. } => Some(workers),
            _ => None,
        };
        let strategy = Rule {
            max_staleness: rule.max_staleness,
            take,
            straggler: rule.straggler,
            min_members: settings.file.min_workers,
            max_updates,
        };
        let units_per_epoch = course.units_per_epoch() as u32;
        let progress = &head.run.progress;
        let open: Vec<Unit> = progress.open.iter().map(|&(epoch, index)| Unit { epoch, index }).collect();
        let deck = Deck::resume(units_per_epoch, epochs, progress.units, &open);
        let server = Server::new(strategy, deck, progress.round);
        let layout = job.layout();
        let touched_only = settings.file.optimizer.changes_touched_rows_only();
        Self {
            server,
            rule,
            codec: Codec::new(layout, settings.file.compression),
            sum: Gradient::new(layout),
            feed: Feed::default(),
            held: HashMap::new(),
            has: BTreeMap::new(),
            stamps: (rule.max_staleness > 0 && touched_only).then(|| Stamps::new(layout)),
            packed: None,
            log: UpdateLog::default(),
            offered: BTreeMap::new(),
            apart: BTreeSet::new(),
            started: false,
            start_by: head.mailbox.now() + RELAYS_GATHER,
            finished: false,
            head,
        }
    }

    /// Takes those who work for the head itself as members.
    fn enroll(&mut self) -> Result<()> {
        let members: Vec<(u64, Role)> =
            self.head.registry.nodes().filter_map(|node| Some((node.number, node.role?))).collect();
        for (node, role) in members {
            self.join(node, role)?;
        }
        self.start_if_ready()
    }

    fn join(&mut self, node: u64, role: Role) -> Result<()> {
        let lease = match role {
            Role::Worker { relay: None, .. } => 1,
            // It will say how many workers it has.
            Role::Relay { .. } => 0,
            _ => return Ok(()),
        };
        if self.head.run.progress.round == 0 {
            // All replicas begin alike.
            self.has.insert(node, 0);
        }
        self.decide(Event::Joined { member: node, lease })
    }

    /// The first round begins with all workers.
    fn start_if_ready(&mut self) -> Result<()> {
        let wanted = match &self.head.run.job.settings.topology {
            Topology::Hierarchical { relays, .. } => relays.iter().map(|relay| relay.workers as u32).sum(),
            _ => 0,
        };
        let is_own = |node: &&Node| matches!(node.role, Some(Role::Worker { relay: None, .. }));
        let own = self.head.registry.nodes().filter(is_own).count() as u32;
        let here = self.offered.values().sum::<u32>() + own;
        if !self.started && (here >= wanted || self.head.mailbox.now() >= self.start_by) {
            self.started = true;
            self.decide(Event::Start)?;
        }
        Ok(())
    }

    /// Deals with the next thing that happens. Some if the run is at its end.
    fn turn(&mut self) -> Result<Option<Exit>> {
        let now = self.head.now();
        let timeout = self.server.next_deadline().map_or(Duration::MAX, |at| at.saturating_sub(now));
        if let Some(notice) = self.head.next(timeout) {
            let begun = Instant::now();
            let version = self.server.version();
            self.notice(notice)?;
            if self.server.version() > version {
                self.head.stats.busy(begun.elapsed());
            }
        }
        if self.server.next_deadline().is_some_and(|at| at <= self.head.now()) {
            self.decide(Event::Tick)?;
        }
        self.start_if_ready()?;
        if self.head.stats.is_due(self.head.mailbox.now()) {
            self.log.flush(self.head);
            self.head.tell_nodes_if_due();
        }
        if self.finished && self.head.is_measured() {
            self.head.exit.get_or_insert(Exit::Done);
        }
        if self.head.exit.is_none() && self.head.is_stopped() {
            return Ok(Some(self.head.run.interrupt()));
        }
        Ok(self.head.exit)
    }

    fn notice(&mut self, notice: Notice) -> Result<()> {
        match self.head.settle(notice) {
            Some(Notice::Ready(node)) => {
                let relay = self.smallest_relay(node);
                let role = self.head.employ(node, |number| Role::Worker { number, relay });
                self.join(node, role)
            }
            Some(Notice::Lost { node, reason }) => self.lost(&node, reason),
            Some(Notice::Frame(node, Frame { body: Body::Push(push), payload })) => {
                self.pushed(node, push, payload)
            }
            Some(Notice::Frame(node, Frame { body: Body::Offer(offer), .. })) => self.offered(node, &offer),
            Some(Notice::Frame(node, Frame { body: Body::Trouble(trouble), .. })) => {
                self.move_away(node, trouble.unreachable)
            }
            _ => Ok(()),
        }
    }

    /// A relay's workers have changed. Nobody else has any, and none more than there are nodes.
    fn offered(&mut self, node: u64, offer: &proto::Offer) -> Result<()> {
        let is_relay = |node: &Node| matches!(node.role, Some(Role::Relay { .. }));
        if !self.head.registry.get(node).is_some_and(is_relay) {
            // One that was a relay may still have said this.
            return Ok(());
        }
        let nodes = u32::try_from(self.head.registry.nodes().count()).unwrap_or(u32::MAX);
        self.offered.insert(node, offer.workers.min(nodes));
        self.decide(Event::Lease { member: node, lease: offer.lease.min(nodes.saturating_mul(2)) })
    }

    /// The relay with the fewest workers of those that a worker can reach, if there is any.
    fn smallest_relay(&self, worker: u64) -> Option<u64> {
        let nodes = || self.head.registry.nodes();
        let workers = |relay: u64| {
            nodes()
                .filter(|node| matches!(node.role, Some(Role::Worker { relay: Some(at), .. }) if at == relay))
                .count()
        };
        let relays = nodes().filter(|node| matches!(node.role, Some(Role::Relay { .. })));
        let relays = relays.map(|node| node.number).filter(|&relay| !self.apart.contains(&(worker, relay)));
        relays.min_by_key(|&relay| workers(relay))
    }

    fn lost(&mut self, node: &Node, reason: String) -> Result<()> {
        let round = self.server.version() + 1;
        let consequence = match node.role {
            Some(Role::Worker { relay: None, .. }) => format!("round {round} goes on without it"),
            Some(Role::Worker { .. }) => "its relay goes on without it".to_owned(),
            Some(Role::Relay { .. }) => "its workers move elsewhere".to_owned(),
            Some(Role::Evaluator) => "the head measures instead".to_owned(),
            Some(Role::RingMember { .. }) | None => "the run goes on".to_owned(),
        };
        self.head.tell_lost(node, &reason, &consequence);
        self.has.remove(&node.number);
        self.offered.remove(&node.number);
        self.apart.retain(|&(worker, relay)| worker != node.number && relay != node.number);
        match node.role {
            Some(Role::Evaluator) => self.head.evaluator_lost(),
            Some(Role::Relay { .. }) => self.rehouse(node.number)?,
            _ => {}
        }
        self.decide(Event::Lost { member: node.number, reason })?;
        match self.head.recruit(Role::Worker { number: 0, relay: None }) {
            Some(node) => {
                self.has.remove(&node);
                self.offered.remove(&node);
                self.decide(Event::Joined { member: node, lease: 1 })
            }
            None => Ok(()),
        }
    }

    /// Gives the workers of a relay that is gone another parent.
    fn rehouse(&mut self, relay: u64) -> Result<()> {
        let orphans: Vec<(u64, usize)> = self
            .head
            .registry
            .nodes()
            .filter_map(|node| match node.role {
                Some(Role::Worker { number, relay: Some(at) }) if at == relay => Some((node.number, number)),
                _ => None,
            })
            .collect();
        for (node, number) in orphans {
            self.settle_worker(node, number)?;
        }
        Ok(())
    }

    /// Gives a worker that cannot reach its relay another parent: the head itself, if no relay is left for it.
    fn move_away(&mut self, node: u64, relay: u64) -> Result<()> {
        match self.head.registry.get(node).and_then(|node| node.role) {
            Some(Role::Worker { number, relay: Some(at) }) if at == relay => {
                self.apart.insert((node, relay));
                self.settle_worker(node, number)
            }
            // Said of a relay that it was taken from meanwhile.
            _ => Ok(()),
        }
    }

    fn settle_worker(&mut self, node: u64, number: usize) -> Result<()> {
        let role = Role::Worker { number, relay: self.smallest_relay(node) };
        if let Some(node) = self.head.registry.get_mut(node) {
            node.role = Some(role);
        }
        self.head.appoint(node, role, None);
        self.has.remove(&node);
        match role {
            Role::Worker { relay: None, .. } => self.decide(Event::Joined { member: node, lease: 1 }),
            _ => Ok(()),
        }
    }

    fn pushed(&mut self, node: u64, push: proto::Push, payload: Bytes) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        if self.held.contains_key(&(node, push.order)) {
            // The one that is held stays: it was here first.
            self.head.warn(format!("{} sent the same gradient twice", self.head.name(node)));
            return Ok(());
        }
        let mut tally = push.tally.unwrap_or_default();
        let batch_size = self.head.run.job.settings.file.batch_size;
        let wrong = match self.codec.check(&payload) {
            Err(error) => Some(format!("{error:#}")),
            Ok(()) => wrong_push(&push, batch_size),
        };
        if let Some(wrong) = &wrong {
            self.head.warn(format!("refused a gradient of {}: {wrong}", self.head.name(node)));
            // What is unfit does not count, nor does what is said of it.
            tally = proto::Tally::default();
        }
        self.head.stats.pushed(node, tally.samples, push.compute_s);
        for part in push.parts.iter().filter(|part| self.head.registry.get(part.node).is_some()) {
            self.head.stats.pushed(part.node, part.samples, part.compute_s);
            self.head.stats.aside(part.node, part.sent_bytes, part.received_bytes);
        }
        let done: Vec<Unit> = push.units.iter().map(from_proto).collect();
        let unused = push.unused.iter().map(from_proto).collect();
        let empty = wrong.is_some() || push.weight == 0.0;
        let parcel = wrong.is_none().then_some(Parcel { payload, weight: push.weight });
        let held = Held { parcel, tally, units: done.clone() };
        self.held.insert((node, push.order), held);
        self.decide(Event::Pushed { member: node, order: push.order, done, unused, empty })
    }

    /// Asks the strategy what to do, and does it.
    fn decide(&mut self, event: Event) -> Result<()> {
        let actions = self.server.on(event, self.head.now());
        // What the update ended: an epoch perhaps. What is due then comes after the members were sent to work.
        let mut updated: Option<Vec<u64>> = None;
        for action in actions {
            match action {
                Action::Apply { pushes, version, open, .. } => {
                    if let Some(epochs) = updated.take() {
                        self.after_update(&epochs);
                    }
                    self.apply(&pushes, version)?;
                    let open = open.iter().map(|unit| (unit.epoch, unit.index));
                    self.head.run.progress.open = open.collect();
                    updated = Some(Vec::new());
                }
                Action::EpochDone(epoch) => updated.get_or_insert_default().push(epoch + 1),
                Action::Release { member, order, version, units, .. } => {
                    self.release(member, Order { number: order, version, units });
                }
                Action::Discard { member, order, late, reason } => {
                    self.held.remove(&(member, order));
                    if late {
                        self.head.stats.dropped(member);
                    }
                    self.head.tell_late(member, reason);
                }
                Action::Late { member, reason } => self.head.tell_late(member, reason),
                Action::Left { .. } => {}
                Action::Waiting { reason } => self.head.run.tell(Told::Noted { message: reason }),
                Action::Finished { .. } => self.finished = true,
            }
        }
        if let Some(epochs) = updated {
            self.after_update(&epochs);
        }
        Ok(())
    }

    fn after_update(&mut self, epochs: &[u64]) {
        let due: Due = self.head.run.after_update(epochs);
        if due.evaluation || due.checkpoint {
            self.head.carry_out(due);
        }
    }

    /// One update by some pushes.
    fn apply(&mut self, pushes: &[Contribution], version: u64) -> Result<()> {
        let (mut parcels, mut tally, mut units) = (Vec::new(), Tally::default(), 0);
        let mut learnt = Vec::new();
        for push in pushes {
            self.head.stats.applied(push.member, push.staleness);
            let Some(held) = self.held.remove(&(push.member, push.order)) else { continue };
            units += held.units.len() as u64;
            if let Some(parcel) = held.parcel {
                tally.loss += held.tally.loss;
                tally.weight += held.tally.weight;
                tally.answers += held.tally.answers;
                tally.correct += held.tally.correct;
                learnt.extend(held.units);
                parcels.push(parcel);
            }
        }
        if parcels.is_empty() && !pushes.is_empty() {
            let lr = self.head.run.job.course.step(self.head.run.progress.units).lr;
            bail!(
                "no gradient of round {version} is a number: a smaller learning rate (now {lr}) or `clip_norm: 1.0` may help"
            );
        }
        let step = self.step(pushes);
        self.update(&parcels, version, step)?;
        if self.rule.is_async {
            self.log.add(version, pushes);
        }
        let samples =
            self.head.run.job.course.samples_by_epoch(learnt.iter().map(|unit| (unit.epoch, unit.index)));
        self.head.run.count(Update { tally: &tally, samples: &samples, units, lr: step.lr })
    }

    /// The step of an update; smaller for stale gradients, if the run file says so.
    fn step(&self, pushes: &[Contribution]) -> StepSize {
        let step = self.head.run.job.course.step(self.head.run.progress.units);
        let staleness: u64 = pushes.iter().map(|push| push.staleness).sum();
        let mean = staleness as f64 / pushes.len().max(1) as f64;
        let damped = f64::from(step.lr) * (1.0 + mean).powf(-self.rule.damping);
        StepSize { lr: if self.rule.damping > 0.0 { damped as f32 } else { step.lr }, ..step }
    }

    fn update(&mut self, parcels: &[Parcel], version: u64, step: StepSize) -> Result<()> {
        let (codec, sum, job) = (&mut self.codec, &mut self.sum, &mut self.head.run.job);
        job.pool.install(|| codec.sum(parcels, sum))?;
        if self.rule.max_staleness == 0 {
            let (payload, weight) = (codec.pack(sum), sum.weight);
            if codec.rounds() {
                // The head applies what the members apply.
                job.pool.install(|| codec.sum(&[Parcel { payload: payload.clone(), weight }], sum))?;
            }
            let entry = Entry {
                from: version - 1,
                to: version,
                news: proto::News::Update,
                lr: step.lr,
                weight,
                payload,
            };
            let state_bytes = job.replica.parameters.len() * 4 * (1 + job.replica.optimizer.moments().len());
            self.feed.forget(self.has.values().copied());
            self.feed.add(entry, state_bytes);
        }
        if let Some(stamps) = &mut self.stamps {
            stamps.stamp(sum, version);
        }
        job.pool.install(|| job.replica.step(std::slice::from_ref(&*sum), step));
        #[cfg(test)]
        crate::simulation::witness::made(version, &job.replica);
        Ok(())
    }

    /// Sends a member to work, with what is new to it. One that is gone is heard of in the mail.
    fn release(&mut self, member: u64, order: Order) {
        let Some(node) = self.head.registry.get(member) else { return };
        let has = self.has.insert(member, order.version);
        let replica = &self.head.run.job.replica;
        if self.rule.max_staleness == 0 || has == Some(order.version) {
            let _ = self.feed.send(&node.outbox, has, order, replica);
            return;
        }
        let version = order.version;
        let mut entry = Entry {
            from: has.unwrap_or(0),
            to: version,
            news: proto::News::Parameters,
            lr: 0.0,
            weight: 0.0,
            payload: Bytes::new(),
        };
        match (&mut self.stamps, has) {
            (Some(stamps), Some(has)) => {
                entry.news = proto::News::Changes;
                entry.payload = self.codec.pack_changes(&replica.parameters, &stamps.since(has));
            }
            _ => {
                if self.packed.as_ref().is_none_or(|(packed, _)| *packed != version) {
                    self.packed = Some((version, self.codec.pack_parameters(&replica.parameters)));
                }
                entry.payload = self.packed.as_ref().map(|(_, bytes)| bytes.clone()).unwrap_or_default();
            }
        }
        let mut feed = Feed::default();
        feed.add(entry, usize::MAX);
        let _ = feed.send(&node.outbox, Some(has.unwrap_or(0)), order, replica);
    }
}

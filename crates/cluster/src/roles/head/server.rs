//! A head that is a parameter server: to workers, or to relays.

mod choosing;
mod cutting;
mod members;
mod update;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bonfire_data::Cut;
use bonfire_learn::Tally;
use bonfire_report::{self as report, Exit};
use bonfire_strategy::server::{self, Contribution};
use bonfire_strategy::{Deck, Server, Unit};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, proto};
use bytes::Bytes;

use super::super::claim::{seconds, wrong_push};
use super::super::feed::Feed;
use super::super::member::pace_of;
use super::super::registry::{Node, Notice, Role};
use super::super::worker::from_proto;
use super::Head;
use super::balance::Told;
use super::stamps::Stamps;
use super::update_log::UpdateLog;
use bonfire_exchange::codec::Parcel;
use bonfire_exchange::collector::{Answer, Collector};
use bonfire_exchange::parameters::ParameterEncoder;
use bonfire_run::run::Update;
use bonfire_run::run_file::{ServerRule, Topology};
use bonfire_run::schedule::Due;
use choosing::{Rounds, coding_of, relayed_bytes};
use cutting::Release;
use update::{Asked, is_exact};

/// Leads a run as its parameter server.
pub(crate) fn lead(head: &mut Head<'_>) -> Result<Exit> {
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
    /// Pushes as they come in, and their sum.
    collector: Collector,
    feed: Feed,
    held: HashMap<Answer, Held>,
    /// The orders that are to be answered before the next update, where that waits for all members: then chunks are
    /// summed and sent back as soon as all have pushed them.
    awaited: Option<BTreeMap<u64, u64>>,
    /// The order that each member was given last.
    orders: BTreeMap<u64, u64>,
    /// Which parts units are that were dealt out unequally and are not done.
    cuts: BTreeMap<Unit, Cut>,
    /// How many units were dealt at least once.
    dealt: u64,
    /// Whether nothing is rounded in the update that is to come.
    exact: bool,
    /// Who was asked for its moments.
    asked: Option<Asked>,
    rounds: Rounds,
    stamps: Option<Stamps>,
    parameters: ParameterEncoder,
    /// All parameters on their way, of a version.
    packed: Option<(u64, Vec<Parcel>)>,
    /// Of the newest parameters, where members compare theirs with it.
    digest: Option<u64>,
    log: UpdateLog,
    /// Members that are new and take the state, with how many units they can have.
    behind: BTreeMap<u64, u32>,
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
    /// Whether it can be used.
    is_fit: bool,
    tally: proto::Tally,
    units: Vec<Unit>,
    compute_s: f64,
    /// Of a relay: what its workers sent to it or received from it, whichever is more.
    relayed_bytes: u64,
}

/// How long relays may take to gather their workers.
const RELAYS_GATHER: Duration = Duration::from_secs(30);

impl<'h, 'a> Serving<'h, 'a> {
    fn new(head: &'h mut Head<'a>) -> Self {
        let job = &head.run.job;
        let (schedule, settings) = (&job.schedule, &job.settings);
        let rule = settings.topology.rule();
        let (epochs, max_updates) = schedule.ends();
        let take = match settings.topology {
            Topology::Flat { workers, backup: 1.., .. } => Some(workers),
            _ => None,
        };
        let strategy = server::Rule {
            max_staleness: rule.max_staleness,
            take,
            straggler: rule.straggler,
            min_members: settings.file.min_workers,
            max_updates,
            pace: pace_of(schedule),
        };
        let units_per_epoch = schedule.units_per_epoch() as u32;
        let progress = &head.run.progress;
        let open: Vec<Unit> = progress.open.iter().map(|&(epoch, index)| Unit { epoch, index }).collect();
        let deck = Deck::resume(units_per_epoch, epochs, progress.units, &open);
        let server = Server::new(strategy, deck, progress.round);
        let layout = job.layout();
        let touched_only = settings.file.optimizer.changes_touched_rows_only();
        Self {
            server,
            rule,
            collector: Collector::new(layout, coding_of(job)),
            feed: Feed::default(),
            held: HashMap::new(),
            awaited: settings.topology.waits_for_all().then(BTreeMap::new),
            orders: BTreeMap::new(),
            cuts: progress
                .cuts
                .iter()
                .cloned()
                .map(|(epoch, index, cut)| (Unit { epoch, index }, cut))
                .collect(),
            dealt: progress.units.saturating_add(open.len() as u64),
            exact: is_exact(schedule, progress.round + 1),
            asked: None,
            rounds: Rounds::after(progress.round),
            stamps: (rule.max_staleness > 0 && touched_only).then(|| Stamps::new(layout)),
            parameters: ParameterEncoder::new(layout),
            packed: None,
            digest: None,
            log: UpdateLog::default(),
            behind: BTreeMap::new(),
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
        self.admit(node, lease)
    }

    /// Takes a member. One that is behind takes the state first, while the others go on.
    fn admit(&mut self, node: u64, lease: u32) -> Result<()> {
        let Some(outbox) = self.head.registry.get(node).map(|node| node.outbox.clone()) else {
            return Ok(());
        };
        let round = self.head.run.progress.round;
        // All replicas begin alike; an asynchronous server sends parameters with every order.
        let has = (round == 0 || self.rule.max_staleness > 0).then_some(0);
        self.feed.admit(node, outbox, has);
        if lease > 0 {
            self.send_echo(node);
        }
        if has.is_none() {
            self.behind.insert(node, lease);
            self.feed.give_state(node);
            // What it was to do as a member before is dealt again.
            return self.decide(server::Event::Lost { member: node });
        }
        self.decide(server::Event::Joined { member: node, lease })
    }

    /// A member has all of the state.
    fn state_taken(&mut self, node: u64) -> Result<()> {
        if self.feed.state_taken(node, self.server.version()) {
            return Ok(());
        }
        let lease = self.behind.remove(&node).unwrap_or(1);
        self.decide(server::Event::Joined { member: node, lease })?;
        self.start_if_ready()
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
        if !self.started
            && self.behind.is_empty()
            && self.has_echoed()
            && (here >= wanted || self.head.mailbox.now() >= self.start_by)
        {
            self.started = true;
            self.decide(server::Event::Start)?;
        }
        Ok(())
    }

    /// Deals with the next thing that happens. Some if the run is at its end.
    fn turn(&mut self) -> Result<Option<Exit>> {
        let now = self.head.now();
        let timeout = self.server.next_deadline().map_or(Duration::MAX, |at| at.saturating_sub(now));
        if let Some(notice) = self.head.next(timeout)? {
            let begun = Instant::now();
            let version = self.server.version();
            self.notice(notice)?;
            if self.server.version() > version {
                self.head.stats.busy(begun.elapsed());
            }
        }
        if self.server.next_deadline().is_some_and(|at| at <= self.head.now()) {
            self.decide(server::Event::Tick)?;
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
        match notice {
            Notice::Ready(node) => {
                let relay = self.smallest_relay(node);
                let role = self.head.employ(node, |number| Role::Worker { number, relay });
                self.join(node, role)
            }
            Notice::Lost { node, reason } => self.lost(&node, &reason),
            Notice::Frame(node, Frame { body: Body::Piece(piece), payload }) => {
                self.piece(node, &piece, payload);
                Ok(())
            }
            Notice::Frame(node, Frame { body: Body::Push(push), .. }) => self.pushed(node, &push),
            Notice::Frame(node, Frame { body: Body::State(state), payload }) => {
                self.take_moments(node, &state, &payload);
                Ok(())
            }
            Notice::Frame(node, Frame { body: Body::StateWanted(wanted), .. }) => {
                let (replica, version) = (&self.head.run.job.replica, self.server.version());
                self.feed.answer(node, &wanted, replica, version);
                Ok(())
            }
            Notice::Frame(node, Frame { body: Body::StateTaken(_), .. }) => self.state_taken(node),
            Notice::Frame(node, Frame { body: Body::Offer(offer), .. }) => self.offered(node, &offer),
            Notice::Frame(node, Frame { body: Body::Echo(_), .. }) => {
                self.echoed(node);
                Ok(())
            }
            Notice::Frame(node, Frame { body: Body::Trouble(trouble), .. }) => {
                self.move_away(node, trouble.unreachable)
            }
            _ => Ok(()),
        }
    }

    /// What a member has pushed so far, or has of the parameters, does not count any more.
    fn remove(&mut self, node: u64) {
        self.feed.remove(node);
        self.rounds.forget(node);
        self.behind.remove(&node);
        self.orders.remove(&node);
        if let Some(awaited) = &mut self.awaited {
            awaited.remove(&node);
        }
        let held = &self.held;
        self.asked = self.asked.take_if(|asked| asked.answer.0 != node || held.contains_key(&asked.answer));
        // A push that is whole outlives its member.
        self.collector.forget(node, |answer| held.contains_key(answer));
    }

    /// Takes a chunk of a member's push. If all members have pushed it, its sum goes back to them at once.
    fn piece(&mut self, node: u64, piece: &proto::Piece, payload: Bytes) {
        let answer = (node, piece.round);
        if self.finished || self.held.contains_key(&answer) || self.orders.get(&node) != Some(&piece.round) {
            return;
        }
        let index = piece.index as usize;
        if let Err(error) = self.collector.take(node, piece, payload) {
            self.head.warn(format!("refused a gradient of {}: {error:#}", self.head.name(node)));
            self.collector.discard(answer);
            return;
        }
        self.sum_ahead(index);
    }

    /// A member has nothing to push: the others' chunks need not wait for it.
    fn nothing_comes(&mut self, node: u64) {
        if self.awaited.as_mut().and_then(|awaited| awaited.remove(&node)).is_some() {
            (0..self.collector.chunks()).for_each(|index| self.sum_ahead(index));
        }
    }

    /// Sums a chunk and sends it back, if all have pushed it.
    fn sum_ahead(&mut self, index: usize) {
        let Some(awaited) = self.awaited.as_ref().filter(|awaited| !awaited.is_empty()) else { return };
        let answers: Vec<Answer> = awaited.iter().map(|(&member, &order)| (member, order)).collect();
        let begun = Instant::now();
        if let Some((attempt, sum)) = self.collector.sum_ahead(&answers, index, self.exact) {
            self.feed.send_ahead(self.server.version() + 1, attempt, index, &sum);
            self.head.stats.busy(begun.elapsed());
        }
    }

    fn pushed(&mut self, node: u64, push: &proto::Push) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        let answer = (node, push.order);
        if self.held.contains_key(&answer) {
            // The one that is held stays: it was here first.
            self.head.warn(format!("{} sent the same gradient twice", self.head.name(node)));
            return Ok(());
        }
        let mut tally = push.tally.unwrap_or_default();
        // What answers no order is not looked at.
        let is_answer = self.orders.get(&node) == Some(&push.order);
        let chunks = || self.collector.check(answer, push.weight).err().filter(|_| is_answer);
        let most = push.units.iter().map(|unit| self.most_in(from_proto(unit))).sum();
        let wrong = wrong_push(push, most).or_else(|| chunks().map(|error| format!("{error:#}")));
        if let Some(wrong) = &wrong {
            self.head.warn(format!("refused a gradient of {}: {wrong}", self.head.name(node)));
            // What is unfit does not count, nor does what is said of it.
            tally = proto::Tally::default();
            self.collector.discard(answer);
        }
        self.head.stats.pushed(node, tally.samples, push.compute_s);
        if is_answer && wrong.is_none() {
            let &proto::Push { busy_s, compute_s, most_samples, .. } = push;
            self.head.took(node, self.server.version() + 1, &Told { tally, busy_s, compute_s, most_samples });
            self.took_parts(&push.parts);
        }
        for part in push.parts.iter().filter(|part| self.head.registry.get(part.node).is_some()) {
            self.head.stats.pushed(part.node, part.samples, part.compute_s);
            self.head.stats.aside(part.node, part.sent_bytes, part.received_bytes);
        }
        let done: Vec<Unit> = push.units.iter().map(from_proto).collect();
        let unused = push.unused.iter().map(from_proto).collect();
        let empty = wrong.is_some() || push.weight == 0.0;
        if empty && is_answer {
            self.nothing_comes(node);
        }
        let (is_fit, compute_s) = (wrong.is_none() && is_answer, seconds(push.compute_s));
        let relayed_bytes = relayed_bytes(&push.parts);
        self.held.insert(answer, Held { is_fit, tally, units: done.clone(), compute_s, relayed_bytes });
        self.decide(server::Event::Pushed { member: node, order: push.order, done, unused, empty })
    }

    /// Asks the strategy what to do, and does it.
    fn decide(&mut self, event: server::Event) -> Result<()> {
        let actions = self.server.on(event, self.head.now());
        // What the update ended: an epoch perhaps. What is due then comes after the members were sent to work.
        let mut updated: Option<Vec<u64>> = None;
        let mut releases = Vec::new();
        for action in actions {
            match action {
                server::Action::Apply { pushes, version, open } => {
                    if let Some(epochs) = updated.take() {
                        self.after_update(&epochs);
                    }
                    self.apply(&pushes, version)?;
                    self.keep_open(&open);
                    updated = Some(Vec::new());
                }
                server::Action::EpochDone(epoch) => updated.get_or_insert_default().push(epoch + 1),
                server::Action::Release { member, order, version, units } => {
                    releases.push(Release { member, order, version, units });
                }
                server::Action::Discard { member, order, late, reason } => {
                    self.held.remove(&(member, order));
                    self.collector.discard((member, order));
                    self.feed.drop_push(member);
                    if late {
                        self.head.stats.dropped(member);
                    }
                    self.head.tell_late(member, reason);
                }
                server::Action::Late { member, reason } => self.head.tell_late(member, reason),
                server::Action::Waiting { reason } => {
                    self.head.run.tell(report::Event::Noted { message: reason })
                }
                server::Action::Finished => self.finished = true,
            }
        }
        self.release_all(releases, updated.as_ref().map(Vec::len));
        if let Some(epochs) = updated {
            self.after_update(&epochs);
        }
        self.use_measures()
    }

    fn after_update(&mut self, epochs: &[u64]) {
        let due: Due = self.head.run.after_update(epochs);
        if due.evaluation || due.checkpoint {
            // What comes meanwhile waits.
            self.rounds.disturb();
            self.head.have_done(due);
        }
    }

    /// One update by some pushes.
    fn apply(&mut self, pushes: &[Contribution], version: u64) -> Result<()> {
        let (mut tally, mut units) = (Tally::default(), 0);
        let (mut done, mut learnt, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        let mut counted = Vec::new();
        for push in pushes {
            self.head.stats.applied(push.member, push.staleness);
            let answer = (push.member, push.order);
            let Some(held) = self.held.remove(&answer) else { continue };
            units += held.units.len() as u64;
            done.extend(held.units.iter().copied());
            if held.is_fit {
                tally.loss += held.tally.loss;
                tally.weight += held.tally.weight;
                tally.answers += held.tally.answers;
                tally.correct += held.tally.correct;
                learnt.extend(held.units.iter().copied());
                answers.push((push.empty, answer));
                counted.push(held);
            }
        }
        if answers.is_empty() && !pushes.is_empty() {
            let lr = self.head.run.job.schedule.step(self.head.run.progress.units).lr;
            bail!(
                "no gradient of round {version} is a number: a smaller learning rate (now {lr}) or `clip_norm: 1.0` \
                 may help"
            );
        }
        let step = self.step(pushes);
        // Those that have pushed something, as their chunks were summed.
        let has_learnt = answers.iter().any(|(empty, _)| !empty);
        let answers: Vec<Answer> = answers
            .into_iter()
            .filter(|(empty, _)| !(has_learnt && *empty))
            .map(|(_, answer)| answer)
            .collect();
        self.update(&answers, version, step);
        self.measure(version, &counted);
        if self.rule.is_async {
            self.log.add(version, pushes);
        }
        let samples = self.samples_by_epoch(&learnt);
        done.iter().for_each(|unit| drop(self.cuts.remove(unit)));
        self.head.run.count(Update { tally: &tally, samples: &samples, units, lr: step.lr })
    }
}

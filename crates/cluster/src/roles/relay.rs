//! A relay: a parameter server to its workers, a worker to its own parent.

mod echo;
mod parent_order;
mod sum;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_learn::Layout;
use bonfire_report::Phases;
use bonfire_strategy::{Relay, Unit, relay};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, LinkTraffic, Outbox, proto};
use bytes::Bytes;

use super::claim::{seconds, wrong_push};
use super::feed::{self, Entry, Feed, Order};
use super::node::{Connections, Next};
use super::worker::{ask, cuts_of, from_proto, is_for_a_worker};
use crate::mail::{Mail, News};
use crate::trainer::compare;
use bonfire_exchange::codec::{Coding, Parcel};
use bonfire_exchange::collector::{Answer, Collector};
use bonfire_exchange::parameters::ParameterEncoder;
use bonfire_exchange::state;
use bonfire_exchange::updates::{Updates, is_sum, step};
use bonfire_run::replica::Replica;
use bonfire_run::run_file::Settings;
use parent_order::ParentOrder;
use sum::{Pushed, Sum};

/// Relays between the head and some workers until the head has something else to do for this node.
pub(crate) fn relay(
    connections: &mut Connections,
    settings: &Settings,
    layout: &Layout,
    role: &proto::Relay,
) -> Result<Next> {
    let mut relaying = Relaying::new(connections.head.clone(), settings, layout, role);
    loop {
        for caller in std::mem::take(&mut connections.callers) {
            relaying.welcome(caller.link, caller.outbox, caller.hello.node)?;
        }
        connections.tell_vitals(&mut Phases::default());
        let Some(mail) = connections.mailbox.next(Duration::from_secs(1)) else { continue };
        let worker = relaying.worker_of(mail.link);
        match (mail.news, worker) {
            (News::Frame(frame), Some(worker)) => relaying.hear_worker(worker, frame)?,
            (News::Closed(_), Some(worker)) => relaying.lost(worker)?,
            (News::Frame(frame), None)
                if mail.link == connections.head_link && is_for_a_worker(&frame.body) =>
            {
                relaying.hear_parent(frame).context("the head sent something that does not fit")?;
            }
            (news, _) => {
                let mail = Mail { link: mail.link, news };
                if let Some(next) = connections.hear(mail)? {
                    relaying.close();
                    return Ok(next);
                }
            }
        }
    }
}

/// A relay at work.
struct Relaying {
    parent: Outbox,
    strategy: Relay,
    is_async: bool,
    replica: Replica,
    /// What is new, on its way into the replica.
    updates: Updates,
    batch_size: usize,
    /// What the replica's parameters have.
    version: u64,
    /// Of the head's parameters of that version, where members compare theirs with it.
    digest: Option<u64>,
    /// How the parent's order is to be answered: the push is not rounded; it is in int8, because that was chosen; and
    /// a worker does so many units by itself for it.
    exact: bool,
    int8: bool,
    steps: u64,
    /// Whether a worker is yet to be asked for its moments, and who was.
    moments: bool,
    asked: Option<u64>,
    /// What comes in and is passed on: which attempt at an update it is, and its chunks.
    coming: (u64, BTreeMap<u32, Parcel>),
    /// Under an asynchronous parent: its newest parameters, as they came.
    newest: Option<Entry>,
    feed: Feed,
    parameters: ParameterEncoder,
    workers: BTreeMap<u64, RelayWorker>,
    /// Workers that are new and take the state.
    behind: BTreeSet<u64>,
    collector: Collector,
    /// As the run file says.
    coding: Coding,
    /// What was said of pushes that were not summed yet.
    pushes: BTreeMap<Answer, Pushed>,
    task: ParentOrder,
    sum: Sum,
    /// Whether the parent waits for an echo.
    echoes: bool,
}

struct RelayWorker {
    link: u64,
    outbox: Outbox,
    /// What it did since that was last told.
    part: proto::Part,
    /// What had been sent and received then.
    told: LinkTraffic,
}

impl RelayWorker {
    /// What the member did since this was last asked.
    fn part(&mut self) -> proto::Part {
        let traffic = self.outbox.traffic();
        let before = std::mem::replace(&mut self.told, traffic);
        proto::Part {
            // What the relay receives, the worker has sent.
            sent_bytes: traffic.received_bytes - before.received_bytes,
            received_bytes: traffic.sent_bytes - before.sent_bytes,
            ..std::mem::take(&mut self.part)
        }
    }
}

impl Relaying {
    fn new(parent: Outbox, settings: &Settings, layout: &Layout, role: &proto::Relay) -> Self {
        let file = &settings.file;
        let rule = relay::Rule { is_async: role.is_async, workers: role.workers as usize };
        let coding = Coding::of(file.compression);
        Self {
            parent,
            strategy: Relay::new(rule),
            is_async: role.is_async,
            replica: Replica::of(settings, layout),
            updates: Updates::new(layout, file.clip_norm),
            batch_size: settings.most_samples(),
            version: 0,
            digest: None,
            exact: false,
            int8: false,
            steps: 1,
            moments: false,
            asked: None,
            coming: (0, BTreeMap::new()),
            newest: None,
            feed: Feed::default(),
            parameters: ParameterEncoder::new(layout),
            workers: BTreeMap::new(),
            behind: BTreeSet::new(),
            collector: Collector::new(layout, coding),
            coding,
            pushes: BTreeMap::new(),
            task: ParentOrder::default(),
            sum: Sum::new(layout, coding.of_sums()),
            echoes: false,
        }
    }

    fn worker_of(&self, link: u64) -> Option<u64> {
        self.workers.iter().find(|(_, member)| member.link == link).map(|(&node, _)| node)
    }

    fn welcome(&mut self, link: u64, outbox: Outbox, node: u64) -> Result<()> {
        outbox.accept_payloads_up_to(self.collector.most_bytes().max(state::MOST_BYTES));
        if self.workers.contains_key(&node) {
            // It comes back before its old link is known to be gone.
            self.lost(node)?;
        }
        // All replicas begin alike; those of an asynchronous relay's workers follow its parameters.
        let has = (self.version == 0 || self.sends_parameters()).then_some(0);
        self.feed.admit(node, outbox.clone(), has);
        let (part, told) = Default::default();
        self.workers.insert(node, RelayWorker { link, outbox, part, told });
        if has.is_none() {
            // It takes the state first, while the others go on.
            self.behind.insert(node);
            self.feed.give_state(node);
            return Ok(());
        }
        let actions = self.strategy.on(relay::Event::Joined { worker: node });
        self.act(actions)
    }

    fn lost(&mut self, worker: u64) -> Result<()> {
        self.workers.remove(&worker);
        self.feed.remove(worker);
        let pushes = &self.pushes;
        // A push that is whole outlives its worker.
        self.collector.forget(worker, |answer| pushes.contains_key(answer));
        self.task.answers.retain(|answer, _| answer.0 != worker || pushes.contains_key(answer));
        // Another does its units, and tells its moments.
        self.moments |= self.asked.take_if(|asked| *asked == worker).is_some();
        if self.behind.remove(&worker) {
            return Ok(());
        }
        let actions = self.strategy.on(relay::Event::Lost { worker });
        self.act(actions)
    }

    fn hear_worker(&mut self, worker: u64, frame: Frame) -> Result<()> {
        match frame.body {
            Body::Piece(piece) => self.piece(worker, &piece, frame.payload),
            Body::Push(push) => self.pushed(worker, &push),
            Body::State(_) if self.asked == Some(worker) => {
                let _ = self.parent.send(frame);
                Ok(())
            }
            Body::Echo(echo) => {
                self.echo_up(echo);
                Ok(())
            }
            Body::StateWanted(wanted) => {
                self.feed.answer(worker, &wanted, &self.replica, self.version);
                Ok(())
            }
            Body::StateTaken(_) => {
                if self.feed.state_taken(worker, self.version) || !self.behind.remove(&worker) {
                    return Ok(());
                }
                let actions = self.strategy.on(relay::Event::Joined { worker });
                self.act(actions)
            }
            _ => Ok(()),
        }
    }

    /// Takes a chunk of a worker's push. If all workers have pushed it, its sum goes up at once.
    fn piece(&mut self, worker: u64, piece: &proto::Piece, payload: Bytes) -> Result<()> {
        let answer = (worker, piece.round);
        if self.pushes.contains_key(&answer) || !self.task.answers.contains_key(&answer) {
            return Ok(());
        }
        if self.collector.take(worker, piece, payload).is_err() {
            return self.turn_away(worker);
        }
        self.sum_ahead(piece.index as usize);
        Ok(())
    }

    /// Sums a chunk and sends it up, if all have pushed it that push anything.
    fn sum_ahead(&mut self, index: usize) {
        if self.is_async || self.task.answers.values().sum::<usize>() != self.task.units {
            return;
        }
        let answers = self.with_weight(self.task.answers.keys().copied().collect());
        if let Some((attempt, sum)) = self.collector.sum_ahead(&answers, index, self.exact) {
            let _ = self.parent.send(feed::piece(step::PUSH, attempt, self.task.number, index, &sum));
        }
    }

    fn turn_away(&mut self, worker: u64) -> Result<()> {
        if let Some(member) = self.workers.get(&worker) {
            member.outbox.abort("its push does not fit the run");
        }
        self.lost(worker)
    }

    fn pushed(&mut self, worker: u64, push: &proto::Push) -> Result<()> {
        let answer = (worker, push.order);
        if self.pushes.contains_key(&answer) {
            // Sent twice; the one that is held was here first.
            return Ok(());
        }
        // What answers no order is not looked at.
        let is_answer = self.task.answers.contains_key(&answer);
        let is_whole = !is_answer || self.collector.check(answer, push.weight).is_ok();
        let units: Vec<Unit> = push.units.iter().map(from_proto).collect();
        let most = if is_answer {
            self.task.most_batches_in(&units).saturating_mul(self.batch_size) as u64
        } else {
            u64::MAX
        };
        if !is_whole || units.is_empty() || wrong_push(push, most).is_some() {
            return self.turn_away(worker);
        }
        let (tally, weight) = (push.tally.unwrap_or_default(), push.weight);
        let pushed = Pushed { tally, weight, seconds: seconds(push.compute_s) };
        if let Some(member) = self.workers.get_mut(&worker) {
            member.part.samples += tally.samples;
            member.part.words = member.part.words.saturating_add(tally.words);
            member.part.compute_s += pushed.seconds;
            member.part.busy_s += seconds(push.busy_s);
            member.part.most_samples = push.most_samples;
        }
        self.pushes.insert(answer, pushed);
        if weight == 0.0 && is_answer {
            // The others' chunks need not wait for it.
            (0..self.collector.chunks()).for_each(|index| self.sum_ahead(index));
        }
        let actions = self.strategy.on(relay::Event::Pushed { worker, order: push.order, units });
        self.act(actions)
    }

    /// Those of some answers that are more than nothing, as far as is known.
    fn with_weight(&self, mut answers: Vec<Answer>) -> Vec<Answer> {
        let is_something = |answer: &Answer| self.pushes.get(answer).is_none_or(|pushed| pushed.weight > 0.0);
        if answers.iter().any(is_something) {
            answers.retain(is_something);
        }
        answers
    }

    fn hear_parent(&mut self, frame: Frame) -> Result<()> {
        match frame.body {
            Body::Piece(piece) => self.coming(&piece, frame.payload),
            Body::TakeState(_) => {
                ask(&self.parent, self.updates.take_state(&self.replica));
                Ok(())
            }
            Body::State(state) => {
                match self.updates.state(&mut self.replica, &state, &frame.payload)? {
                    Some(wanted) => ask(&self.parent, wanted),
                    None => {
                        // What the workers have is of no use.
                        (self.version, self.digest) = (state.round, None);
                        self.feed.restart();
                        let _ = self.parent.send(Body::StateTaken(proto::StateTaken {}));
                    }
                }
                Ok(())
            }
            Body::Go(go) => self.ordered(&go),
            Body::Echo(echo) => {
                self.echo_down(echo);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes a chunk of what is new, and passes it on to workers that can use it.
    fn coming(&mut self, piece: &proto::Piece, payload: Bytes) -> Result<()> {
        self.updates.piece(piece, payload.clone())?;
        if self.is_async {
            return Ok(());
        }
        let attempt = piece.generation;
        if self.coming.0 != attempt {
            self.coming = (attempt, BTreeMap::new());
        }
        let parcel = Parcel { payload, is_plain: piece.plain, weight: piece.weight };
        if piece.step == step::SUM {
            self.feed.send_ahead(piece.round, attempt, piece.index as usize, &parcel);
        }
        self.coming.1.insert(piece.index, parcel);
        Ok(())
    }

    /// Takes what the parent has said last of what is new, and what to do with it.
    fn ordered(&mut self, go: &proto::Go) -> Result<()> {
        self.updates.apply(&mut self.replica, go)?;
        if let Some(trouble) = compare(&self.replica, go).filter(|_| !self.updates.is_behind()) {
            let _ = self.parent.send(Body::Trouble(trouble));
        }
        if go.news() != proto::News::Nothing && !self.is_async {
            let state_bytes =
                self.replica.parameters.len() * 4 * (1 + self.replica.optimizer.moments().len());
            let (attempt, parcels) = std::mem::take(&mut self.coming);
            let entry = Entry {
                from: self.version,
                to: go.version,
                news: go.news(),
                lr: go.lr,
                weight: go.weight,
                parcels: parcels.into_values().collect(),
                attempt,
                digest: go.digest,
            };
            self.version = go.version;
            match go.news() {
                news if is_sum(news) => self.feed.add(entry, state_bytes),
                _ => self.newest = Some(entry),
            }
        }
        (self.version, self.digest) = (go.version, go.digest);
        // Without an order it was news only.
        let Some(order) = go.order else { return Ok(()) };
        match go.dropped {
            true => self.sum.encoder.roll_back(),
            false => self.sum.encoder.commit(),
        }
        self.collector.set_coding(if go.int8 { Coding::INT8 } else { self.coding });
        if (self.steps > 1) != (go.steps > 1) {
            // What was lost is of another kind.
            self.collector.reset();
        }
        (self.exact, self.int8, self.steps) = (go.exact, go.int8, go.steps.max(1));
        (self.moments, self.asked) = (go.moments, None);
        if !self.is_async && self.task.is_open {
            // It is void.
            self.task = ParentOrder::default();
        }
        (self.task.number, self.task.is_open) = (order, true);
        self.task.units += go.units.len();
        self.task.cuts.extend(cuts_of(go));
        let units = go.units.iter().map(from_proto).collect();
        let actions =
            self.strategy.on(relay::Event::Order { order, version: go.version, units, steps: self.steps });
        self.act(actions)
    }

    fn act(&mut self, actions: Vec<relay::Action>) -> Result<()> {
        for action in actions {
            match action {
                relay::Action::Release { worker, order, units, .. } => self.release(worker, order, units),
                relay::Action::Accumulate { worker, order } => self.accumulate(worker, order)?,
                relay::Action::PushUp { order, shares, done, unused, .. } => {
                    self.push_up(order, &shares, &done, &unused)?;
                }
                // A parent that is gone is heard of in the mail.
                relay::Action::Offer { lease } => {
                    let offer = proto::Offer { lease, workers: self.workers.len() as u32 };
                    let _ = self.parent.send(Body::Offer(offer));
                }
                relay::Action::Discard { worker, order, reason } => {
                    self.pushes.remove(&(worker, order));
                    self.collector.discard((worker, order));
                    self.feed.drop_push(worker);
                    self.complain(format!("dropped a gradient: node {worker} {reason}"));
                }
                relay::Action::Forget { reason } => {
                    for (answer, _) in std::mem::take(&mut self.pushes) {
                        self.collector.discard(answer);
                    }
                    self.sum.clear();
                    self.complain(format!("dropped what was done: {reason}"));
                }
            }
        }
        Ok(())
    }

    /// Tells the head what those who watch it should know.
    fn complain(&self, reason: String) {
        let _ = self.parent.send(Body::Trouble(proto::Trouble { reason, ..proto::Trouble::default() }));
    }

    /// Whether the workers get parameters, and not updates: from an asynchronous relay, and below an asynchronous
    /// parent.
    fn sends_parameters(&self) -> bool {
        self.is_async || self.newest.is_some()
    }

    /// Sends a worker to work. One that is gone is heard of in the mail.
    fn release(&mut self, worker: u64, number: u64, units: Vec<Unit>) {
        self.task.answers.insert((worker, number), units.len());
        let moments = std::mem::take(&mut self.moments);
        if moments {
            self.asked = Some(worker);
        }
        let order = Order {
            number,
            version: self.version,
            cuts: units.iter().map(|unit| self.task.cuts.get(unit).cloned()).collect(),
            units,
            steps: self.steps,
            int8: self.int8,
            exact: self.exact && !self.is_async,
            moments,
            digest: self.digest,
        };
        let has = self.feed.has(worker);
        if !self.sends_parameters() || has == Some(self.version) {
            return self.feed.order(worker, order);
        }
        if let Some(newest) = self.newest.as_ref().filter(|newest| has == Some(newest.from)) {
            return self.feed.order_with(worker, newest, order);
        }
        // Its workers see the parameters only, at whatever version the relay has.
        let entry = Entry {
            from: 0,
            to: self.version,
            news: proto::News::Parameters,
            lr: 0.0,
            weight: 0.0,
            parcels: self.parameters.all(&self.replica.parameters),
            attempt: 0,
            digest: self.digest,
        };
        self.feed.order_with(worker, &entry, order);
    }

    /// The workers hear from the head itself what comes next.
    fn close(&self) {
        self.workers.values().for_each(|member| member.outbox.close());
    }
}

#[cfg(test)]
mod tests;

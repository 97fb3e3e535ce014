//! A relay: a parameter server to its workers, a worker to its own parent.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_learn::{Gradient, Layout};
use bonfire_strategy::Unit;
use bonfire_strategy::relay::{Action, Event, Relay, RelayRule, Share};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, Traffic, proto};
use bytes::Bytes;

use super::claim::{seconds, wrong_push};
use super::feed::{Entry, Feed, Order};
use super::node::{Desk, Next};
use super::worker::{from_proto, to_proto};
use crate::exchange::{Codec, Parcel};
use crate::mail::{Mail, News};
use crate::station::{take, unpack_state};
use bonfire_run::replica::Replica;
use bonfire_run::run_file::Settings;

/// Relays between the head and some workers until the head has something else to do for this node.
pub fn relay(desk: &mut Desk, settings: &Settings, layout: &Layout, role: &proto::Relay) -> Result<Next> {
    let mut relaying = Relaying::new(desk.head.clone(), settings, layout, role);
    loop {
        for caller in std::mem::take(&mut desk.callers) {
            relaying.welcome(caller.link, caller.outbox, caller.hello.node)?;
        }
        let Some(mail) = desk.mailbox.next(Duration::from_secs(1)) else { continue };
        let worker = relaying.worker_of(mail.link);
        match (mail.news, worker) {
            (News::Frame(Frame { body: Body::Push(push), payload }), Some(worker)) => {
                relaying.pushed(worker, push, payload)?;
            }
            (News::Closed(_), Some(worker)) => relaying.lost(worker)?,
            (News::Frame(Frame { body: Body::Go(go), payload }), None) if mail.link == desk.head_link => {
                relaying.ordered(&go, payload).context("the head sent something that does not fit")?;
            }
            (News::Frame(Frame { body: Body::State(state), payload }), None)
                if mail.link == desk.head_link =>
            {
                unpack_state(&mut relaying.replica, &state, &payload)?;
                relaying.restart(state.round);
            }
            (news, _) => {
                let mail = Mail { link: mail.link, news };
                if let Some(next) = desk.hear(mail)? {
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
    codec: Codec,
    clip: Option<f32>,
    batch_size: usize,
    /// What the replica's parameters have.
    version: u64,
    feed: Feed,
    workers: BTreeMap<u64, Member>,
    /// Pushes of workers that were not summed yet, by worker and order.
    pushes: BTreeMap<(u64, u64), Pushed>,
    sum: Sum,
    update: Gradient,
}

struct Member {
    link: u64,
    outbox: Outbox,
    /// The version that it was last brought to.
    has: Option<u64>,
    /// What it did since that was last told.
    part: proto::Part,
    /// What had been sent and received then.
    told: Traffic,
}

impl Member {
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

struct Pushed {
    parcel: Parcel,
    tally: proto::Tally,
    seconds: f64,
}

/// What goes up with the next push.
struct Sum {
    gradient: Gradient,
    spare: Gradient,
    tally: proto::Tally,
    seconds: f64,
}

impl Relaying {
    fn new(parent: Outbox, settings: &Settings, layout: &Layout, role: &proto::Relay) -> Self {
        let file = &settings.file;
        let rule = RelayRule { is_async: role.is_async, workers: role.workers.len() };
        let empty = || Gradient::new(layout);
        let tally = proto::Tally::default();
        Self {
            parent,
            strategy: Relay::new(rule),
            is_async: role.is_async,
            replica: Replica::new(layout, file.optimizer.clone(), file.seed),
            codec: Codec::new(layout, file.compression),
            clip: file.clip_norm,
            batch_size: file.batch_size,
            version: 0,
            feed: Feed::default(),
            workers: BTreeMap::new(),
            pushes: BTreeMap::new(),
            sum: Sum { gradient: empty(), spare: empty(), tally, seconds: 0.0 },
            update: empty(),
        }
    }

    fn worker_of(&self, link: u64) -> Option<u64> {
        self.workers.iter().find(|(_, member)| member.link == link).map(|(&node, _)| node)
    }

    fn welcome(&mut self, link: u64, outbox: Outbox, node: u64) -> Result<()> {
        outbox.accept_payloads_up_to(self.codec.most_bytes());
        if self.workers.contains_key(&node) {
            // It comes back before its old link is known to be gone.
            self.lost(node)?;
        }
        // All replicas begin alike.
        let (part, told) = Default::default();
        let member = Member { link, outbox, has: Some(0), part, told };
        self.workers.insert(node, member);
        let actions = self.strategy.on(Event::Joined { worker: node });
        self.act(actions)
    }

    fn lost(&mut self, worker: u64) -> Result<()> {
        self.workers.remove(&worker);
        let actions = self.strategy.on(Event::Lost { worker });
        self.act(actions)
    }

    fn pushed(&mut self, worker: u64, push: proto::Push, payload: Bytes) -> Result<()> {
        if self.pushes.contains_key(&(worker, push.order)) {
            // Sent twice; the one that is held was here first.
            return Ok(());
        }
        let is_fit = self.codec.check(&payload).is_ok() && wrong_push(&push, self.batch_size).is_none();
        let unit = match push.units.as_slice() {
            [unit] if is_fit => from_proto(unit),
            _ => {
                if let Some(member) = self.workers.get(&worker) {
                    member.outbox.abort("its push does not fit the run");
                }
                return self.lost(worker);
            }
        };
        let parcel = Parcel { payload, weight: push.weight };
        let pushed =
            Pushed { parcel, tally: push.tally.unwrap_or_default(), seconds: seconds(push.compute_s) };
        if let Some(member) = self.workers.get_mut(&worker) {
            member.part.samples += pushed.tally.samples;
            member.part.compute_s += pushed.seconds;
        }
        self.pushes.insert((worker, push.order), pushed);
        let actions = self.strategy.on(Event::Pushed { worker, order: push.order, unit });
        self.act(actions)
    }

    /// Takes what the parent sent: something new, and what to do with it.
    fn ordered(&mut self, go: &proto::Go, payload: Bytes) -> Result<()> {
        take(&mut self.replica, &mut self.codec, &mut self.update, self.clip, go, payload.clone())?;
        if go.news() != proto::News::Nothing && !self.is_async {
            let state_bytes =
                self.replica.parameters.len() * 4 * (1 + self.replica.optimizer.moments().len());
            self.feed.forget(self.workers.values().filter_map(|worker| worker.has));
            self.feed.add(Entry::of(go, self.version, payload), state_bytes);
        }
        self.version = go.version;
        if go.order == 0 {
            return Ok(());
        }
        let units = go.units.iter().map(from_proto).collect();
        let actions = self.strategy.on(Event::Order { order: go.order, version: go.version, units });
        self.act(actions)
    }

    /// After another state came, what the workers have is of no use.
    fn restart(&mut self, version: u64) {
        self.version = version;
        self.feed.clear();
        for member in self.workers.values_mut() {
            member.has = None;
        }
    }

    fn act(&mut self, actions: Vec<Action>) -> Result<()> {
        for action in actions {
            match action {
                Action::Release { worker, order, unit, .. } => self.release(worker, order, unit),
                Action::Accumulate { worker, order } => self.accumulate(worker, order)?,
                Action::PushUp { order, shares, done, unused, .. } => {
                    self.push_up(order, &shares, &done, &unused)?;
                }
                // A parent that is gone is heard of in the mail.
                Action::Offer { lease } => {
                    let offer = proto::Offer { lease, workers: self.workers.len() as u32 };
                    let _ = self.parent.send(Body::Offer(offer));
                }
                Action::Discard { worker, order, .. } => drop(self.pushes.remove(&(worker, order))),
                Action::Forget { .. } => self.pushes.clear(),
            }
        }
        Ok(())
    }

    /// Sends a worker to work. One that is gone is heard of in the mail.
    fn release(&mut self, worker: u64, number: u64, unit: Unit) {
        let Some(member) = self.workers.get_mut(&worker) else { return };
        let order = Order { number, version: self.version, units: vec![unit] };
        if self.is_async && member.has != Some(self.version) {
            // Its workers see the parameters only, at whatever version the relay has.
            self.feed.clear();
            let payload = self.codec.pack_parameters(&self.replica.parameters);
            let entry = Entry {
                from: 0,
                to: self.version,
                news: proto::News::Parameters,
                lr: 0.0,
                weight: 0.0,
                payload,
            };
            self.feed.add(entry, usize::MAX);
        }
        let _ = self.feed.send(&member.outbox, member.has, order, &self.replica);
        member.has = Some(self.version);
    }

    fn accumulate(&mut self, worker: u64, order: u64) -> Result<()> {
        let Some(pushed) = self.pushes.remove(&(worker, order)) else { return Ok(()) };
        self.sum.count(&pushed);
        self.codec.add(&pushed.parcel, &mut self.sum.gradient, &mut self.sum.spare)
    }

    fn push_up(&mut self, order: u64, shares: &[Share], done: &[Unit], unused: &[Unit]) -> Result<()> {
        if !self.is_async {
            let taken = shares.iter().filter_map(|share| self.pushes.remove(&(share.worker, share.order)));
            let taken: Vec<Pushed> = taken.collect();
            taken.iter().for_each(|pushed| self.sum.count(pushed));
            let parcels: Vec<Parcel> = taken.into_iter().map(|pushed| pushed.parcel).collect();
            self.codec.sum(&parcels, &mut self.sum.gradient)?;
        }
        let payload = self.codec.pack(&self.sum.gradient);
        let push = proto::Push {
            order,
            weight: self.sum.gradient.weight,
            tally: Some(self.sum.tally),
            units: done.iter().copied().map(to_proto).collect(),
            unused: unused.iter().copied().map(to_proto).collect(),
            compute_s: self.sum.seconds,
            parts: self
                .workers
                .iter_mut()
                .map(|(&node, member)| proto::Part { node, ..member.part() })
                .collect(),
        };
        self.sum.clear();
        let _ = self.parent.send(Frame { body: Body::Push(push), payload });
        Ok(())
    }

    /// The workers hear from the head itself what comes next.
    fn close(&self) {
        self.workers.values().for_each(|member| member.outbox.close());
    }
}

impl Sum {
    fn count(&mut self, pushed: &Pushed) {
        let tally = &pushed.tally;
        self.tally.loss += tally.loss;
        self.tally.weight += tally.weight;
        self.tally.answers += tally.answers;
        self.tally.correct += tally.correct;
        self.tally.samples += tally.samples;
        self.seconds = self.seconds.max(pushed.seconds);
    }

    fn clear(&mut self) {
        self.gradient.clear();
        self.gradient.finish();
        self.tally = proto::Tally::default();
        self.seconds = 0.0;
    }
}

//! A member of an all-reduce: computes, sums its gradient with the others', and steps as all of them do.

pub(crate) mod apart;
mod incoming;
mod summing;

use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_run::run_file::{ReduceOp, Settings, Topology};
use bonfire_run::schedule::RunSchedule;
use bonfire_strategy::group;
use bonfire_wire::payload::Precision;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, proto};
use bytes::Bytes;

use super::node::{Caller, Connections, Next};
use crate::trainer::{Computed, Trainer};
use apart::Apart;
use bonfire_exchange::gradient_sums::GradientSums;
use bonfire_exchange::precision;
use bonfire_exchange::sharded::Early;
use bonfire_exchange::state::{Intake, Snapshot};
use bonfire_exchange::sums;
use bonfire_exchange::world::World;
use incoming::{Giver, Heard, Incoming};

/// Takes part in the run's sums until the head has something else to do for this node.
pub(crate) fn take_part(
    connections: &mut Connections,
    settings: &Settings,
    trainer: &mut Trainer,
    world: Option<&World>,
) -> Result<Next> {
    let mut member = Participant::new(settings, trainer, world);
    loop {
        let outcome = match member.formed.is_some() {
            true => member.round(connections, trainer),
            false => member.wait(connections, trainer),
        };
        match outcome {
            Ok(()) => {}
            Err(Break::Over(next)) => return Ok(next),
            Err(Break::Halted(generation)) => {
                member.formed = None;
                member.answer(connections, generation, "told to stop")?;
            }
            Err(Break::Neighbour(reason)) => {
                member.formed = None;
                member.answer(connections, member.generation, &reason)?;
            }
            // The head's word to this member is on its way.
            Err(Break::Parted) => member.formed = None,
            Err(Break::Failed(error)) => return Err(error),
        }
    }
}

/// What all members have to do together on the schedule of a run.
pub(crate) fn plan_of(schedule: &RunSchedule) -> group::Plan {
    let (epochs, max_rounds) = schedule.ends();
    let pace = group::Pace { after: schedule.pace.after, steps: schedule.pace.steps };
    group::Plan { units_per_epoch: schedule.units_per_epoch() as u32, epochs, max_rounds, pace }
}

/// Why a round, or a wait, was left.
enum Break {
    /// The node has another role, or none.
    Over(Next),
    /// The head wants to know how far this member is.
    Halted(u64),
    /// A link to another member broke.
    Neighbour(String),
    /// Another member was told to leave, and so all stop.
    Parted,
    Failed(anyhow::Error),
}

impl From<Closed> for Break {
    fn from(_: Closed) -> Self {
        Self::Neighbour("the connection to another member closed".to_owned())
    }
}

impl From<anyhow::Error> for Break {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

struct Participant<'w> {
    op: ReduceOp,
    /// Whether gradients leave while they are computed.
    overlaps: bool,
    /// What carries the sums, if that is MPI.
    world: Option<&'w World>,
    plan: group::Plan,
    schedule: RunSchedule,
    /// The last round that this member has done; 0 also as long as it lacks the state that it is to begin with.
    round: u64,
    formed: Option<Formed>,
    /// The newest generation that was heard of.
    generation: u64,
    /// As the run file says.
    precision: Precision,
    sums: GradientSums,
    memory: sums::Memory,
    apart: Apart,
    incoming: Incoming,
    /// Pieces that came before this member was ready for them.
    early: Early,
    giver: Giver,
}

/// The members as they were named last, this one among them.
struct Formed {
    view: group::View,
    index: usize,
    /// To every member; none to this one.
    links: Vec<Option<Outbox>>,
    /// Whether the head wants to know what an exchange of nothing takes.
    is_measured: bool,
}

impl<'w> Participant<'w> {
    fn new(settings: &Settings, trainer: &Trainer, world: Option<&'w World>) -> Self {
        let op = match settings.topology {
            Topology::Allreduce { op, .. } => op,
            _ => ReduceOp::default(),
        };
        let schedule = RunSchedule::of(settings, trainer.samples());
        Self {
            op,
            overlaps: trainer.overlaps() && op == ReduceOp::Mean && world.is_none(),
            world,
            plan: plan_of(&schedule),
            schedule,
            round: 0,
            formed: None,
            generation: 0,
            precision: precision(settings.file.compression),
            sums: GradientSums::new(trainer.layout(), settings.file.compression, settings.file.seed),
            memory: sums::Memory::default(),
            apart: Apart::default(),
            incoming: Incoming::default(),
            early: Early::new(),
            giver: Giver::default(),
        }
    }

    fn answer(&self, connections: &Connections, generation: u64, reason: &str) -> Result<()> {
        let broken = proto::GroupBroken { generation, round: self.round, reason: reason.to_owned() };
        // A head that is gone is heard of in the mail.
        let _ = connections.head.send(Body::GroupBroken(broken));
        Ok(())
    }

    /// Waits until the members are named, or something else happens.
    fn wait(&mut self, connections: &mut Connections, trainer: &mut Trainer) -> Result<(), Break> {
        loop {
            self.giver.give(&mut self.incoming, connections, &trainer.replica, self.round);
            if let Heard::Group(group) = self.incoming.next(connections, LOOK)? {
                self.generation = group.generation;
                return self.form(connections, trainer, &group);
            }
        }
    }

    /// Connects to all other members, and takes the state if this member is behind.
    fn form(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        group: &proto::Group,
    ) -> Result<(), Break> {
        let members: Vec<u64> = group.members.iter().map(|peer| peer.node).collect();
        let index = members.iter().position(|&node| node == connections.node);
        let index = index.context("the head named members without this one")?;
        let parts = vec![1.0; members.len()];
        let view = group::View {
            generation: group.generation,
            members,
            round: group.round,
            units_done: group.units_done,
            pace: group::Pace { after: group.steps_after, steps: group.steps.max(1) },
        };
        if group.behind {
            self.round = 0;
        }
        if group.behind && group.round == 0 {
            trainer.restart();
        }
        // Links of the group before close when they are dropped.
        self.incoming.members.clear();
        self.early.clear();
        let links = self.connect(connections, trainer, group, index)?;
        if group.behind && group.round > 0 {
            self.take_state(connections, trainer, group.round)?;
        }
        self.sums.share_out(&parts);
        self.sums.set_precision(if group.int8 { Precision::Int8 } else { self.precision });
        self.round = group.round;
        let formed = Formed { view, index, links, is_measured: group.measured };
        if group.behind {
            // The head counts on this member only from here on.
            let _ = connections.head.send(Body::GroupRound(self.done(&formed, Computed::default())));
        }
        self.formed = Some(formed);
        Ok(())
    }

    /// Links to all others: those with a higher number are called, those with a lower one call.
    fn connect(
        &mut self,
        connections: &mut Connections,
        trainer: &Trainer,
        group: &proto::Group,
        index: usize,
    ) -> Result<Vec<Option<Outbox>>, Break> {
        let mut links = vec![None; group.members.len()];
        if self.world.is_some() {
            return Ok(links);
        }
        for (other, peer) in group.members.iter().enumerate().skip(index + 1) {
            let link = connections.post.number();
            let outbox = connections
                .network
                .connect(peer, connections.post.sink(link))
                .map_err(|error| Break::Neighbour(format!("{error:#}")))?;
            outbox
                .send(Body::Hello(proto::Hello { node: connections.node, generation: group.generation }))?;
            outbox.accept_payloads_up_to(self.sums.most_bytes());
            self.incoming.members.insert(link, (other, peer.node));
            links[other] = Some(outbox);
        }
        while links[..index].iter().any(Option::is_none) {
            let place = |caller: &Caller| {
                let is_now = caller.hello.generation == group.generation;
                group.members[..index].iter().position(|peer| is_now && peer.node == caller.hello.node)
            };
            let called =
                connections.callers.iter().enumerate().find_map(|(at, caller)| Some((at, place(caller)?)));
            if let Some((at, other)) = called {
                let caller = connections.callers.swap_remove(at);
                let said = caller.said.into_iter().filter_map(piece);
                self.early.extend(said.map(|(piece, payload)| (other, piece, payload)));
                caller.outbox.accept_payloads_up_to(self.sums.most_bytes());
                self.incoming.members.insert(caller.link, (other, caller.hello.node));
                links[other] = Some(caller.outbox);
                continue;
            }
            self.giver.give(&mut self.incoming, connections, &trainer.replica, self.round);
            if let Heard::Piece(from, piece, payload) = self.incoming.next(connections, LOOK)? {
                self.early.push_back((from, piece, payload));
            }
        }
        Ok(links)
    }

    /// Takes the state of a round from the head.
    fn take_state(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        round: u64,
    ) -> Result<(), Break> {
        let mut intake = Intake::new(&trainer.replica, round, false);
        while !intake.is_whole() {
            for wanted in intake.wanted() {
                let _ = connections.head.send(Body::StateWanted(wanted));
            }
            match self.incoming.next(connections, LOOK)? {
                Heard::State(state, payload) => {
                    intake.take(&mut trainer.replica, &state, &payload)?;
                }
                Heard::Piece(from, piece, payload) => self.early.push_back((from, piece, payload)),
                Heard::Silence | Heard::Nothing | Heard::Group(_) => {}
            }
        }
        Ok(())
    }

    /// One round, or after the last one a wait for the end.
    fn round(&mut self, connections: &mut Connections, trainer: &mut Trainer) -> Result<(), Break> {
        self.giver.give(&mut self.incoming, connections, &trainer.replica, self.round);
        let Some(formed) = self.formed.take() else { return Ok(()) };
        let outcome = match self.plan.is_last(&formed.view, self.round) {
            true => self.incoming.next(connections, LOOK).map(drop),
            false => self.work(connections, trainer, &formed),
        };
        // Kept also when a link broke: its generation is part of the answer.
        self.formed = Some(formed);
        outcome
    }

    fn work(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
    ) -> Result<(), Break> {
        let (view, round) = (&formed.view, self.round + 1);
        let units = self.plan.units_done(view, self.round);
        let epoch = self.plan.epoch_done(view, round).map(|epoch| epoch + 1);
        let due = self.schedule.due(round, epoch.as_slice(), self.plan.is_last(view, round));
        let is_apart = view.pace.steps_in(round) > 1;
        if self.apart.turn(is_apart) {
            self.sums.forget();
        }
        // Checkpoints do not have what rounding has lost: so nothing is lost by then, nor when what is summed changes.
        let exact = due.checkpoint || view.pace.steps_in(round + 1) != view.pace.steps_in(round);
        let latency_s = self.measure_latency(connections, trainer, formed)?;
        let before = sent_bytes(formed);
        let unit = self.plan.units_of(view, round, formed.index).next();
        let overlaps = self.overlaps && !is_apart && unit.is_some() && formed.links.len() > 1;
        let computed = match unit {
            _ if is_apart => self.learn_apart(connections, trainer, formed, round)?,
            Some(unit) if overlaps => {
                self.compute_and_send(connections, trainer, formed, (round, unit), exact)?
            }
            Some(unit) => trainer.compute(unit),
            None => trainer.idle(),
        };
        let started = connections.mailbox.now();
        self.exchange(connections, trainer, formed, (round, overlaps), exact)?;
        let exchange_s = (connections.mailbox.now() - started).as_secs_f64();
        match is_apart {
            true => trainer.step_together(),
            false => trainer.step(self.schedule.step(units).lr),
        }
        self.round = round;
        let is_due = due.evaluation || due.checkpoint;
        let done = proto::GroupRound {
            exchange_s,
            sent_bytes: sent_bytes(formed) - before,
            latency_s,
            digest: is_due.then(|| trainer.replica.digest()),
            ..self.done(formed, computed)
        };
        if formed.index == 0 && is_due {
            self.keep_state(connections, trainer)?;
        }
        let _ = connections.head.send(Body::GroupRound(done));
        Ok(())
    }

    /// Trains on this member's units of a round, one after the other. The trainer's gradient is how far it went; its
    /// parameters are those of the round's start again, whatever happens.
    fn learn_apart(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        round: u64,
    ) -> Result<Computed, Break> {
        let members = formed.view.members.len() as u64;
        let mut place = self.plan.units_done(&formed.view, self.round);
        let mut all = trainer.idle();
        self.apart.begin(&trainer.replica);
        for unit in self.plan.units_of(&formed.view, round, formed.index) {
            all.add(&trainer.compute(unit));
            trainer.step(self.schedule.step(place).lr);
            self.apart.weight += trainer.gradient.weight;
            place += members;
            // Who is to stop does not go on until the end of a long round.
            if let Err(stopped) = self.hear_now(connections) {
                self.apart.give_up(&mut trainer.replica);
                return Err(stopped);
            }
        }
        self.apart.end(trainer);
        Ok(all)
    }

    /// Takes what has come, and waits for nothing.
    fn hear_now(&mut self, connections: &mut Connections) -> Result<(), Break> {
        loop {
            match self.incoming.next(connections, Duration::ZERO)? {
                Heard::Silence => return Ok(()),
                Heard::Piece(from, piece, payload) => self.early.push_back((from, piece, payload)),
                Heard::Nothing | Heard::State(..) | Heard::Group(_) => {}
            }
        }
    }

    /// Keeps the state of the last round, which the head will ask for once all have said that they have done the round.
    /// If it is not done with the one before, that is waited for, but not for ever; with MPI not at all, because there
    /// nobody may leave between two sums.
    fn keep_state(&mut self, connections: &mut Connections, trainer: &Trainer) -> Result<(), Break> {
        let until = connections.mailbox.now() + FETCHED;
        while self.world.is_none()
            && self.giver.snapshot.as_ref().is_some_and(|held| !held.is_given)
            && connections.mailbox.now() < until
        {
            match self.incoming.next(connections, LOOK)? {
                Heard::Piece(from, piece, payload) => self.early.push_back((from, piece, payload)),
                _ => self.giver.give(&mut self.incoming, connections, &trainer.replica, self.round),
            }
        }
        self.giver.snapshot = Some(Snapshot::of(&trainer.replica, self.round));
        Ok(())
    }

    /// What the head hears of a round.
    fn done(&self, formed: &Formed, computed: Computed) -> proto::GroupRound {
        proto::GroupRound {
            generation: formed.view.generation,
            round: self.round,
            tally: Some(computed.tally),
            compute_s: computed.seconds,
            ..proto::GroupRound::default()
        }
    }
}

/// How long the head may take to fetch a state before another one takes its place.
const FETCHED: Duration = Duration::from_secs(120);

/// How long a wait lasts at a time.
const LOOK: Duration = Duration::from_secs(1);

fn sent_bytes(formed: &Formed) -> u64 {
    formed.links.iter().flatten().map(|link| link.traffic().sent_bytes).sum()
}

fn piece(frame: Frame) -> Option<(proto::Piece, Bytes)> {
    match frame.body {
        Body::Piece(piece) => Some((piece, frame.payload)),
        _ => None,
    }
}

//! A member of a ring: computes, sums its gradient with the others', and steps as all of them do.

pub mod sums;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bonfire_strategy::ring::{Plan, View};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, Pool, proto};
use bytes::Bytes;

use super::node::{Caller, Desk, Next};
use crate::allreduce::{self, Circle};
use crate::mail::{Mail, News};
use crate::station::{Computed, Station, pack_state, unpack_state};
use crate::world::World;
use bonfire_run::course::Course;
use bonfire_run::run_file::{RingOp, Settings, Topology};

/// Takes part in the run's ring until the head has something else to do for this node.
pub fn take_part(
    desk: &mut Desk,
    settings: &Settings,
    station: &mut Station,
    world: Option<&World>,
) -> Result<Next> {
    let mut member = Member::new(settings, station, world);
    loop {
        let outcome = match member.formed.is_some() {
            true => member.round(desk, station),
            false => member.wait(desk, station),
        };
        match outcome {
            Ok(()) => {}
            Err(Break::Over(next)) => return Ok(next),
            Err(Break::Halted(generation)) => {
                member.formed = None;
                member.answer(desk, generation, "told to stop")?;
            }
            Err(Break::Neighbour(reason)) => {
                member.formed = None;
                member.answer(desk, member.generation, &reason)?;
            }
            // The head's word to this member is on its way.
            Err(Break::Parted) => member.formed = None,
            Err(Break::Failed(error)) => return Err(error),
        }
    }
}

/// Why a round, or a wait, was left.
enum Break {
    /// The node has another role, or none.
    Over(Next),
    /// The head wants to know how far this member is.
    Halted(u64),
    /// A link to a neighbour broke.
    Neighbour(String),
    /// Another member was told to leave, and so all stop.
    Parted,
    Failed(anyhow::Error),
}

impl From<Closed> for Break {
    fn from(_: Closed) -> Self {
        Self::Neighbour("the connection to the right neighbour closed".to_owned())
    }
}

impl From<anyhow::Error> for Break {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// What a ring has to do on the course of a run.
pub fn plan_of(course: &Course) -> Plan {
    let (epochs, max_rounds) = course.ends();
    Plan { units_per_epoch: course.units_per_epoch() as u32, epochs, max_rounds }
}

struct Member<'w> {
    op: RingOp,
    /// What carries the sums, if that is MPI.
    world: Option<&'w World>,
    plan: Plan,
    course: Course,
    /// The last round that this member has done; 0 also as long as it lacks the state of its ring.
    round: u64,
    formed: Option<Formed>,
    /// The newest generation that was heard of.
    generation: u64,
    /// What is summed, and memory for the sums.
    buffers: [Vec<f32>; 2],
    memory: sums::Memory,
    pool: Pool,
    state_wanted: bool,
    /// Pieces of the first round that came before this member was ready for them.
    early: VecDeque<(proto::Piece, Bytes)>,
}

/// A ring that this member is in.
struct Formed {
    view: View,
    index: usize,
    /// None if alone.
    right: Option<Outbox>,
    left: Option<u64>,
}

impl<'w> Member<'w> {
    fn new(settings: &Settings, station: &Station, world: Option<&'w World>) -> Self {
        let op = match settings.topology {
            Topology::Ring { op, .. } => op,
            _ => RingOp::default(),
        };
        let course = Course::of(settings, station.samples());
        Self {
            op,
            world,
            plan: plan_of(&course),
            course,
            round: 0,
            formed: None,
            generation: 0,
            buffers: Default::default(),
            memory: sums::Memory::default(),
            pool: Pool::default(),
            state_wanted: false,
            early: VecDeque::new(),
        }
    }

    fn answer(&self, desk: &Desk, generation: u64, reason: &str) -> Result<()> {
        let broken = proto::RingBroken { generation, round: self.round, reason: reason.to_owned() };
        // A head that is gone is heard of in the mail.
        let _ = desk.head.send(Body::RingBroken(broken));
        Ok(())
    }

    /// Waits until a ring is formed, or something else happens.
    fn wait(&mut self, desk: &mut Desk, station: &mut Station) -> Result<(), Break> {
        loop {
            let Some(mail) = desk.mailbox.next(Duration::from_secs(1)) else { continue };
            let is_head = mail.link == desk.head_link;
            match mail.news {
                News::Frame(Frame { body: Body::Halt(halt), .. }) if is_head => {
                    return Err(Break::Halted(halt.generation));
                }
                News::Frame(Frame { body: Body::StateWanted(_), .. }) if is_head => {
                    self.send_state(desk, station, true);
                }
                News::Frame(Frame { body: Body::State(state), payload }) if is_head => {
                    unpack_state(&mut station.replica, &state, &payload)?;
                    self.round = state.round;
                }
                News::Frame(Frame { body: Body::Ring(ring), .. }) if is_head => {
                    self.generation = ring.generation;
                    return self.form(desk, station, ring);
                }
                news => self.hear(desk, mail.link, news)?,
            }
        }
    }

    fn hear(&mut self, desk: &mut Desk, link: u64, news: News) -> Result<(), Break> {
        match desk.hear(Mail { link, news })? {
            Some(next) => Err(Break::Over(next)),
            None => Ok(()),
        }
    }

    /// Connects to the right, waits for the left, and for the state if this member is behind.
    fn form(&mut self, desk: &mut Desk, station: &mut Station, ring: proto::Ring) -> Result<(), Break> {
        let members: Vec<u64> = ring.members.iter().map(|peer| peer.node).collect();
        let index = members.iter().position(|&node| node == desk.node);
        let index = index.context("the head formed a ring without this member")?;
        let view =
            View { generation: ring.generation, members, round: ring.round, units_done: ring.units_done };
        if ring.behind {
            self.round = 0;
        }
        if ring.behind && ring.round == 0 {
            station.restart();
        }
        if ring.source {
            self.send_state(desk, station, true);
        }
        // Those of the ring before.
        desk.kept.clear();
        self.early.clear();
        let right = if self.world.is_none() { to_the_right(desk, &ring, index)? } else { None };
        let left = self.await_left(desk, station, &ring, &view, index)?;
        self.round = ring.round;
        let formed = Formed { view, index, right, left };
        if ring.behind {
            // The head counts on this member only from here on.
            let _ = desk.head.send(Body::RingRound(self.done(&formed, Computed::default())));
        }
        self.formed = Some(formed);
        Ok(())
    }

    /// Waits until the left neighbour has called, and the state has come if this member is behind. Returns the
    /// neighbour's link, unless this member is alone.
    fn await_left(
        &mut self,
        desk: &mut Desk,
        station: &mut Station,
        ring: &proto::Ring,
        view: &View,
        index: usize,
    ) -> Result<Option<u64>, Break> {
        let n = view.members.len();
        let neighbour = (view.members[(index + n - 1) % n], ring.generation);
        let mut left = None;
        let is_linked = n > 1 && self.world.is_none();
        while (is_linked && left.is_none()) || (ring.behind && self.round < ring.round) {
            let is_it = |caller: &Caller| (caller.hello.node, caller.hello.generation) == neighbour;
            if let Some(place) = desk.callers.iter().position(is_it) {
                let caller = desk.callers.swap_remove(place);
                self.early.extend(caller.said.into_iter().filter_map(piece));
                caller.outbox.accept_payloads_up_to(allreduce::most_bytes(station.layout().len()));
                // Nothing is sent on it, but it closes when it is dropped.
                desk.kept.push(caller.outbox);
                left = Some(caller.link);
                continue;
            }
            let Some(mail) = desk.mailbox.next(Duration::from_secs(1)) else { continue };
            let is_head = mail.link == desk.head_link;
            match mail.news {
                News::Frame(Frame { body: Body::Halt(halt), .. }) if is_head => {
                    return Err(Break::Halted(halt.generation));
                }
                News::Frame(Frame { body: Body::State(state), payload }) if is_head => {
                    unpack_state(&mut station.replica, &state, &payload)?;
                    self.round = state.round;
                }
                News::Frame(Frame { body: Body::StateWanted(_), .. }) if is_head => self.state_wanted = true,
                News::Frame(Frame { body: Body::Piece(piece), payload }) if Some(mail.link) == left => {
                    self.early.push_back((piece, payload));
                }
                News::Closed(reason) if Some(mail.link) == left => {
                    return Err(Break::Neighbour(format!("the left neighbour is gone: {reason}")));
                }
                news => self.hear(desk, mail.link, news)?,
            }
        }
        Ok(left)
    }

    /// One round, or after the last one a wait for the end.
    fn round(&mut self, desk: &mut Desk, station: &mut Station) -> Result<(), Break> {
        let Some(formed) = self.formed.take() else { return Ok(()) };
        let done = self.plan.is_last(&formed.view, self.round);
        let outcome = match done {
            true => self.rest(desk, station),
            false => self.work(desk, station, &formed),
        };
        // Kept also when the ring broke: its generation is part of the answer.
        self.formed = Some(formed);
        outcome
    }

    /// After the last round.
    fn rest(&mut self, desk: &mut Desk, station: &mut Station) -> Result<(), Break> {
        if std::mem::take(&mut self.state_wanted) {
            self.send_state(desk, station, true);
        }
        let Some(mail) = desk.mailbox.next(Duration::from_secs(1)) else { return Ok(()) };
        match mail.news {
            News::Frame(Frame { body: Body::Halt(halt), .. }) if mail.link == desk.head_link => {
                Err(Break::Halted(halt.generation))
            }
            News::Frame(Frame { body: Body::StateWanted(_), .. }) if mail.link == desk.head_link => {
                self.send_state(desk, station, true);
                Ok(())
            }
            news => self.hear(desk, mail.link, news),
        }
    }

    fn work(&mut self, desk: &mut Desk, station: &mut Station, formed: &Formed) -> Result<(), Break> {
        let round = self.round + 1;
        let units = self.plan.units_done(&formed.view, self.round);
        let lr = self.course.step(units).lr;
        let computed = match self.plan.unit_of(&formed.view, round, formed.index) {
            Some(unit) => station.compute(unit),
            None => station.idle(),
        };
        let sent = formed.right.as_ref().map_or(0, |right| right.traffic().sent_bytes);
        let started = Instant::now();
        self.exchange(desk, station, formed, round)?;
        let exchange_s = started.elapsed().as_secs_f64();
        station.step(lr);
        self.round = round;
        let sent = formed.right.as_ref().map_or(0, |right| right.traffic().sent_bytes) - sent;
        let epoch = self.plan.epoch_done(&formed.view, round).map(|epoch| epoch + 1);
        let due = self.course.due(round, epoch.as_slice(), self.plan.is_last(&formed.view, round));
        let is_due = due.evaluation || due.checkpoint;
        let done = proto::RingRound {
            exchange_s,
            sent_bytes: sent,
            digest: is_due.then(|| station.replica.digest()),
            ..self.done(formed, computed)
        };
        let _ = desk.head.send(Body::RingRound(done));
        if (formed.index == 0 && is_due) || std::mem::take(&mut self.state_wanted) {
            self.send_state(desk, station, true);
        }
        Ok(())
    }

    /// What the head hears of a round.
    fn done(&self, formed: &Formed, computed: Computed) -> proto::RingRound {
        proto::RingRound {
            generation: formed.view.generation,
            round: self.round,
            tally: Some(computed.tally),
            compute_s: computed.seconds,
            ..proto::RingRound::default()
        }
    }

    fn send_state(&self, desk: &Desk, station: &Station, moments: bool) {
        let (state, payload) = pack_state(&station.replica, self.round, moments);
        let _ = desk.head.send(Frame { body: Body::State(state), payload });
    }

    /// Takes what came while this member, which is alone, did not wait for anybody.
    fn overhear(&mut self, desk: &mut Desk) -> Result<(), Break> {
        while let Some(mail) = desk.mailbox.next(Duration::ZERO) {
            let is_head = mail.link == desk.head_link;
            match mail.news {
                News::Frame(Frame { body: Body::Halt(halt), .. }) if is_head => {
                    return Err(Break::Halted(halt.generation));
                }
                News::Frame(Frame { body: Body::StateWanted(_), .. }) if is_head => self.state_wanted = true,
                news => self.hear(desk, mail.link, news)?,
            }
        }
        Ok(())
    }

    /// The same by MPI. Who waits in a sum hears nothing, so nobody leaves alone: first all learn whether one of them was
    /// told to.
    fn exchange_by_mpi(
        &mut self,
        desk: &mut Desk,
        station: &mut Station,
        world: &World,
    ) -> Result<(), Break> {
        let heard = self.overhear(desk);
        let agreed = world.agree(station.gradient.weight, heard.is_err());
        heard?;
        if agreed.leave {
            return Err(Break::Parted);
        }
        let layout = station.layout().clone();
        let gradient = &mut station.gradient;
        match self.op {
            RingOp::Mean => sums::mean_by_mpi(world, &layout, gradient, agreed.weight, &mut self.memory),
            RingOp::Adasum => sums::combined(&mut { world }, &layout, gradient),
        }
    }

    /// Replaces the station's gradient by that of all members.
    fn exchange(
        &mut self,
        desk: &mut Desk,
        station: &mut Station,
        formed: &Formed,
        round: u64,
    ) -> Result<(), Break> {
        if let Some(world) = self.world {
            return self.exchange_by_mpi(desk, station, world);
        }
        let Some(right) = &formed.right else { return self.overhear(desk) };
        let mut wanted = false;
        let early = &mut self.early;
        let mut receive = || loop {
            if let Some(piece) = early.pop_front() {
                return Ok(piece);
            }
            let Some(mail) = desk.mailbox.next(Duration::from_secs(1)) else { continue };
            let is_head = mail.link == desk.head_link;
            match mail.news {
                News::Frame(Frame { body: Body::Piece(piece), payload })
                    if Some(mail.link) == formed.left =>
                {
                    return Ok((piece, payload));
                }
                News::Closed(reason) if Some(mail.link) == formed.left => {
                    return Err(Break::Neighbour(format!("the left neighbour is gone: {reason}")));
                }
                News::Frame(Frame { body: Body::Halt(halt), .. }) if is_head => {
                    return Err(Break::Halted(halt.generation));
                }
                News::Frame(Frame { body: Body::StateWanted(_), .. }) if is_head => wanted = true,
                news => {
                    if let Some(next) = desk.hear(Mail { link: mail.link, news })? {
                        return Err(Break::Over(next));
                    }
                }
            }
        };
        let mut circle = Circle {
            index: formed.index,
            members: formed.view.members.len(),
            right,
            receive: &mut receive,
            generation: formed.view.generation,
            round,
            pool: &self.pool,
        };
        let layout = station.layout().clone();
        let exchanged = match self.op {
            RingOp::Mean => sums::mean(&mut circle, &layout, &mut station.gradient, &mut self.buffers),
            RingOp::Adasum => sums::combined(&mut circle, &layout, &mut station.gradient),
        };
        self.state_wanted |= wanted;
        exchanged
    }
}

fn piece(frame: Frame) -> Option<(proto::Piece, Bytes)> {
    match frame.body {
        Body::Piece(piece) => Some((piece, frame.payload)),
        _ => None,
    }
}

/// The link to the right neighbour, unless this member is alone.
fn to_the_right(desk: &Desk, ring: &proto::Ring, index: usize) -> Result<Option<Outbox>, Break> {
    let n = ring.members.len();
    if n == 1 {
        return Ok(None);
    }
    let outbox = desk
        .network
        .connect(&ring.members[(index + 1) % n], desk.post.sink(desk.post.number()))
        .map_err(|error| Break::Neighbour(format!("{error:#}")))?;
    outbox.send(Body::Hello(proto::Hello { node: desk.node, generation: ring.generation }))?;
    Ok(Some(outbox))
}

//! A member of a ring: computes, sums its gradient with the others', and steps as all of them do.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bonfire_learn::Gradient;
use bonfire_learn::layout::{Kind, Layout};
use bonfire_strategy::ring::{Plan, View};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, Pool, proto};
use bytes::Bytes;

use super::node::{Desk, Next};
use crate::allreduce::{Circle, adasum};
use crate::course::Course;
use crate::exchange::{bytes_to_floats, floats_to_bytes};
use crate::mail::{Mail, News};
use crate::run_file::{RingOp, Settings, Topology};
use crate::station::{Computed, Station, pack_state, unpack_state};

/// Takes part in the run's ring until the head has something else to do for this node.
pub fn take_part(desk: &mut Desk, settings: &Settings, station: &mut Station) -> Result<Next> {
    let mut member = Member::new(settings, station);
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

struct Member {
    op: RingOp,
    plan: Plan,
    course: Course,
    /// The last round that this member has done; 0 also as long as it lacks the state of its ring.
    round: u64,
    formed: Option<Formed>,
    /// The newest generation that was heard of.
    generation: u64,
    /// What is summed, and memory for the sums.
    buffers: [Vec<f32>; 2],
    pool: Pool,
    state_wanted: bool,
}

/// A ring that this member is in.
struct Formed {
    view: View,
    index: usize,
    /// None if alone.
    right: Option<Outbox>,
    left: Option<u64>,
}

impl Member {
    fn new(settings: &Settings, station: &Station) -> Self {
        let op = match settings.topology {
            Topology::Ring { op, .. } => op,
            _ => RingOp::default(),
        };
        let course = Course::of(settings, station.samples());
        Self {
            op,
            plan: course.ring(),
            course,
            round: 0,
            formed: None,
            generation: 0,
            buffers: Default::default(),
            pool: Pool::default(),
            state_wanted: false,
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
        let n = ring.members.len();
        let right = if n == 1 {
            None
        } else {
            let link = desk.post.number();
            let outbox = desk
                .network
                .connect(&ring.members[(index + 1) % n], desk.post.sink(link))
                .map_err(|error| Break::Neighbour(format!("{error:#}")))?;
            outbox.send(Body::Hello(proto::Hello { node: desk.node, generation: ring.generation }))?;
            Some(outbox)
        };
        let left_node = view.members[(index + n - 1) % n];
        let mut left = None;
        while (n > 1 && left.is_none()) || (ring.behind && self.round < ring.round) {
            if let Some(place) = desk
                .callers
                .iter()
                .position(|(.., hello)| (hello.node, hello.generation) == (left_node, ring.generation))
            {
                let (link, outbox, _) = desk.callers.swap_remove(place);
                outbox.accept_payloads_up_to(usize::MAX);
                left = Some((link, outbox));
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
                news => self.hear(desk, mail.link, news)?,
            }
        }
        // The left neighbour's link is kept by its number; nothing is sent on it.
        let left = left.map(|(link, outbox)| {
            desk.kept.push(outbox);
            link
        });
        self.round = ring.round;
        let formed = Formed { view, index, right, left };
        if ring.behind {
            // The head counts on this member only from here on.
            self.report(desk, &formed, Computed::default(), 0.0, 0);
        }
        self.formed = Some(formed);
        Ok(())
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
        self.report(desk, formed, computed, exchange_s, sent);
        let epoch = self.plan.epoch_done(&formed.view, round).map(|epoch| epoch + 1);
        let last = self.plan.is_last(&formed.view, round);
        let due = self.course.due(round, epoch, last);
        if (formed.index == 0 && (due.evaluation || due.checkpoint)) || std::mem::take(&mut self.state_wanted)
        {
            self.send_state(desk, station, true);
        }
        Ok(())
    }

    fn report(&self, desk: &Desk, formed: &Formed, computed: Computed, exchange_s: f64, sent_bytes: u64) {
        let done = proto::RingRound {
            generation: formed.view.generation,
            round: self.round,
            tally: Some(computed.tally),
            compute_s: computed.seconds,
            exchange_s,
            sent_bytes,
        };
        let _ = desk.head.send(Body::RingRound(done));
    }

    fn send_state(&self, desk: &Desk, station: &Station, moments: bool) {
        let (state, payload) = pack_state(&station.replica, self.round, moments);
        let _ = desk.head.send(Frame { body: Body::State(state), payload });
    }

    /// Replaces the station's gradient by that of all members.
    fn exchange(
        &mut self,
        desk: &mut Desk,
        station: &mut Station,
        formed: &Formed,
        round: u64,
    ) -> Result<(), Break> {
        let Some(right) = &formed.right else { return Ok(()) };
        let mut wanted = false;
        let mut receive = || loop {
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
            RingOp::Mean => mean(&mut circle, &layout, &mut station.gradient, &mut self.buffers),
            RingOp::Adasum => combined(&mut circle, &layout, &mut station.gradient),
        };
        self.state_wanted |= wanted;
        exchanged
    }
}

/// The sum over all members: of dense tensors all values, of tables the rows that any member touched.
fn mean(
    circle: &mut Circle<'_, Break>,
    layout: &Layout,
    gradient: &mut Gradient,
    [buffer, spare]: &mut [Vec<f32>; 2],
) -> Result<(), Break> {
    let union = touched_by_any(circle, layout, gradient)?;
    let weight = gradient.weight as f32;
    pack(layout, gradient, &union, weight, buffer);
    circle.sum(buffer, spare)?;
    unpack(layout, gradient, &union, buffer);
    Ok(())
}

/// The rows of every table that some member touched, each list in order. Costs a bit a row.
fn touched_by_any(
    circle: &mut Circle<'_, Break>,
    layout: &Layout,
    gradient: &Gradient,
) -> Result<Vec<Vec<u32>>, Break> {
    let tables: Vec<(usize, usize)> = layout
        .tensors()
        .iter()
        .enumerate()
        .filter_map(|(i, tensor)| match tensor.kind {
            Kind::Rows { width } => Some((i, tensor.range.len() / width)),
            Kind::Dense | Kind::Buffer => None,
        })
        .collect();
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = |rows: usize| rows.div_ceil(8);
    let mut bits = vec![0u8; tables.iter().map(|&(_, rows)| bytes(rows)).sum()];
    let mut start = 0;
    for &(tensor, rows) in &tables {
        for &row in gradient.rows(tensor).into_iter().flat_map(|rows| &rows.touched) {
            bits[start + row as usize / 8] |= 1 << (row % 8);
        }
        start += bytes(rows);
    }
    for other in circle.gather(Bytes::from(bits.clone()))? {
        if other.len() != bits.len() {
            return Err(Break::Failed(anyhow::anyhow!("a member of the ring has another model")));
        }
        bits.iter_mut().zip(&other).for_each(|(bits, other)| *bits |= other);
    }
    let mut start = 0;
    let mut union = Vec::new();
    for &(_, rows) in &tables {
        let is_set = |row: &u32| bits[start + *row as usize / 8] >> (row % 8) & 1 == 1;
        union.push((0..rows as u32).filter(is_set).collect());
        start += bytes(rows);
    }
    Ok(union)
}

/// Lays what is summed in one buffer: dense tensors, statistics times the weight, rows, and at the end the weight.
fn pack(layout: &Layout, gradient: &Gradient, union: &[Vec<u32>], weight: f32, buffer: &mut Vec<f32>) {
    buffer.clear();
    let mut tables = union.iter();
    for (i, tensor) in layout.tensors().iter().enumerate() {
        let values = &gradient.values[tensor.range.clone()];
        match tensor.kind {
            Kind::Dense => buffer.extend_from_slice(values),
            Kind::Buffer => buffer.extend(values.iter().map(|value| value * weight)),
            Kind::Rows { width } => {
                let rows = gradient.rows(i);
                for &row in tables.next().into_iter().flatten() {
                    let own = rows.is_some_and(|rows| rows.is_touched(row));
                    match own {
                        true => buffer.extend_from_slice(&values[row as usize * width..][..width]),
                        false => buffer.resize(buffer.len() + width, 0.0),
                    }
                }
            }
        }
    }
    buffer.push(weight);
}

/// The way back.
fn unpack(layout: &Layout, gradient: &mut Gradient, union: &[Vec<u32>], buffer: &[f32]) {
    let weight = buffer[buffer.len() - 1];
    gradient.clear();
    gradient.weight = f64::from(weight);
    let (mut tables, mut at) = (union.iter(), 0);
    let mut next = |len: usize| {
        at += len;
        &buffer[at - len..at]
    };
    for (i, tensor) in layout.tensors().iter().enumerate() {
        match tensor.kind {
            Kind::Dense => gradient.write(i).copy_from_slice(next(tensor.range.len())),
            Kind::Buffer => {
                let sums = next(tensor.range.len());
                let share = if weight > 0.0 { 1.0 / weight } else { 0.0 };
                for (value, sum) in gradient.write(i).iter_mut().zip(sums) {
                    *value = sum * share;
                }
            }
            Kind::Rows { width } => {
                for &row in tables.next().into_iter().flatten() {
                    gradient.touch(i, row).copy_from_slice(next(width));
                }
            }
        }
    }
}

/// Adasum of the members' mean gradients, tensor by tensor. Everybody hears everybody's and combines them alike.
fn combined(circle: &mut Circle<'_, Break>, layout: &Layout, gradient: &mut Gradient) -> Result<(), Break> {
    let union = touched_by_any(circle, layout, gradient)?;
    let weight = gradient.weight as f32;
    let mut own = Vec::new();
    pack(layout, gradient, &union, weight, &mut own);
    let all = circle.gather(floats_to_bytes([own.as_slice()]))?;
    let mut vectors = Vec::new();
    for bytes in &all {
        let mut vector = vec![0.0; own.len()];
        bytes_to_floats(bytes, &mut vector)?;
        vectors.push(vector);
    }
    let weights: Vec<f32> = vectors.iter().map(|vector| vector[vector.len() - 1]).collect();
    let total: f32 = weights.iter().sum();
    let mut at = 0;
    let mut tables = union.iter();
    for tensor in layout.tensors() {
        let len = match tensor.kind {
            Kind::Rows { width } => tables.next().map_or(0, Vec::len) * width,
            Kind::Dense | Kind::Buffer => tensor.range.len(),
        };
        let part = at..at + len;
        at += len;
        if tensor.kind == Kind::Buffer {
            // Statistics are averaged as ever.
            for i in part {
                own[i] = vectors.iter().map(|vector| vector[i]).sum();
            }
            continue;
        }
        let mean = |(vector, weight): (&Vec<f32>, &f32)| {
            let share = if *weight > 0.0 { 1.0 / weight } else { 0.0 };
            vector[part.clone()].iter().map(|value| value * share).collect()
        };
        let mut means: Vec<Vec<f32>> = vectors.iter().zip(&weights).map(mean).collect();
        adasum(&mut means);
        // The optimiser divides by the weight.
        for (own, value) in own[part.clone()].iter_mut().zip(&means[0]) {
            *own = value * total;
        }
    }
    let last = own.len() - 1;
    own[last] = total;
    unpack(layout, gradient, &union, &own);
    Ok(())
}

//! A worker of a parameter server: pull, compute, push.

mod alone;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bonfire_data::Cut;
use bonfire_learn::Gradient;
use bonfire_report::Phase;
use bonfire_strategy::Unit;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, proto};

use super::feed::piece;
use super::member::apart::Apart;
use super::node::{Connections, Next};
use crate::mail::{Mail, News};
use crate::trainer::{Task, Trainer, Unreadable, compare};
use alone::Learning;
use bonfire_exchange::codec::{ChunkEncoder, Coding};
use bonfire_exchange::updates::step;
use bonfire_run::run_file::Settings;
use bonfire_run::schedule::RunSchedule;

/// What a worker is at between two orders.
struct Working {
    schedule: RunSchedule,
    /// As the run file says.
    coding: Coding,
    /// How many chunks may be on their way at a time.
    window: usize,
    /// When it last computed a gradient: from, and to.
    computed: Option<(Instant, Instant)>,
    /// What it trains on by itself.
    learning: Option<Learning>,
    apart: Apart,
    /// What is pushed.
    push: Option<GradientPush>,
}

/// Works for a parent until the head has something else to do for this node.
pub(crate) fn work(
    connections: &mut Connections,
    settings: &Settings,
    trainer: &mut Trainer,
    parent: Option<&proto::Peer>,
) -> Result<Next> {
    let (link, outbox) = match parent {
        None => (connections.head_link, connections.head.clone()),
        Some(peer) => match reach(connections, peer)? {
            Reached::Relay(link, outbox) => (link, outbox),
            Reached::Word(next) => return Ok(next),
        },
    };
    let window = match parent.is_none() && trainer.hears_sums_meanwhile() {
        true => window(trainer.encoder.chunks().count()),
        false => usize::MAX,
    };
    let mut working = Working {
        schedule: RunSchedule::of(settings, trainer.samples()),
        coding: Coding::of(settings.file.compression),
        window,
        computed: None,
        learning: None,
        apart: Apart::of(settings),
        push: None,
    };
    loop {
        let begun = Instant::now();
        let patience = if working.learning.is_some() { Duration::ZERO } else { SILENCE };
        let Some(mail) = connections.mailbox.next(patience) else {
            match working.learning.is_some() {
                true => {
                    working.learn(connections, trainer, &outbox)?;
                    working.go_on(trainer, &outbox);
                    connections.tell_vitals(&mut trainer.phases);
                }
                false => {
                    // Nobody knows what the sums wait for: they shall not wait for this worker.
                    working.push.iter_mut().for_each(|push| push.window = usize::MAX);
                    working.go_on(trainer, &outbox);
                }
            }
            continue;
        };
        trainer.waited(begun.elapsed());
        let is_parent = mail.link == link;
        match mail.news {
            News::Frame(frame) if is_parent && is_for_a_worker(&frame.body) => {
                let answered = working.answer(connections, trainer, &outbox, frame);
                if let Err(error) = answered {
                    // What cannot be read here is none of the parent's faults.
                    let unfit = "the parent sent something that does not fit";
                    return Err(if error.is::<Unreadable>() { error } else { error.context(unfit) });
                }
                working.go_on(trainer, &outbox);
                connections.tell_vitals(&mut trainer.phases);
            }
            News::Closed(_) if is_parent && parent.is_some() => return word_or_again(connections),
            news => {
                if let Some(next) = connections.hear(Mail { link: mail.link, news })? {
                    close(parent, &outbox);
                    return Ok(next);
                }
            }
        }
    }
}

/// Whether a frame is what a parent says to who works for it.
pub(crate) fn is_for_a_worker(body: &Body) -> bool {
    matches!(body, Body::Go(_) | Body::Piece(_) | Body::TakeState(_) | Body::State(_) | Body::Echo(_))
}

/// What the head says about a relay that is gone; if it says nothing, only the link broke, and the relay takes this
/// node again as one that is new.
fn word_or_again(connections: &mut Connections) -> Result<Next> {
    let deadline = connections.mailbox.now() + WORD;
    loop {
        let left = deadline.saturating_duration_since(connections.mailbox.now());
        if left.is_zero() {
            return Ok(Next::Again);
        }
        if let Some(mail) = connections.mailbox.next(left)
            && let Some(next) = connections.hear(mail)?
        {
            return Ok(next);
        }
    }
}

/// The head hears of the end of a relay, or of the run, about when its workers do.
const WORD: Duration = Duration::from_secs(1);

enum Reached {
    Relay(u64, Outbox),
    /// The head had something else to say meanwhile.
    Word(Next),
}

/// How often a relay is tried in vain before the head is asked for another parent.
const TRIES: u32 = 3;

/// How long, where a firewall lets every try take its time.
const PATIENCE: Duration = Duration::from_secs(4);

/// Connects to a relay. One that cannot be reached is tried again, until the head says otherwise: it knows who is gone,
/// and who else there is.
fn reach(connections: &mut Connections, peer: &proto::Peer) -> Result<Reached> {
    let (begun, mut tries, mut told) = (connections.mailbox.now(), 0, false);
    loop {
        tries += 1;
        let link = connections.post.number();
        let reason = match connections.network.connect(peer, connections.post.sink(link)) {
            Ok(outbox) => {
                match outbox.send(Body::Hello(proto::Hello { node: connections.node, generation: 0 })) {
                    Ok(()) => return Ok(Reached::Relay(link, outbox)),
                    Err(closed) => format!("{}: {closed}", peer.name),
                }
            }
            Err(error) => format!("{error:#}"),
        };
        let is_enough = tries >= TRIES || connections.mailbox.now() - begun >= PATIENCE;
        if is_enough && !std::mem::replace(&mut told, true) {
            let reason = format!("{reason}; it needs another parent");
            // A head that is gone is heard of in the mail.
            let _ = connections.head.send(Body::Trouble(proto::Trouble {
                reason,
                unreachable: peer.node,
                sample: None,
            }));
        }
        if let Some(mail) = connections.mailbox.next(Duration::from_secs(1))
            && let Some(next) = connections.hear(mail)?
        {
            return Ok(Reached::Word(next));
        }
    }
}

/// A link to a relay is this role's own, that to the head is the node's.
fn close(parent: Option<&proto::Peer>, outbox: &Outbox) {
    if parent.is_some() {
        outbox.close();
    }
}

/// This part of all chunks may be on its way at a time, to a server that sends sums back meanwhile: so no worker's
/// chunks lag behind the others', and the server's link is busy both ways.
const WINDOW: usize = 8;

/// And so many at least.
const LEAST_WINDOW: usize = 4;

/// How many of so many chunks may be on their way at a time to such a server.
pub(crate) fn window(chunks: usize) -> usize {
    (chunks / WINDOW).max(LEAST_WINDOW)
}

/// Whether rounds wait for links for less than half of the time: then unequal shares leave without a window.
pub(crate) fn waits_little(computed_s: f64, waited_s: f64) -> bool {
    waited_s < computed_s
}

/// After such a silence what is left of a push is sent, whether or not sums come back.
const SILENCE: Duration = Duration::from_secs(1);

impl Working {
    /// Takes what is new, and computes what is asked for: that is pushed then, as a window allows.
    fn answer(
        &mut self,
        connections: &Connections,
        trainer: &mut Trainer,
        outbox: &Outbox,
        frame: Frame,
    ) -> Result<()> {
        if !matches!(frame.body, Body::Piece(_) | Body::Echo(_)) {
            self.give_up(trainer);
        }
        let Trainer { replica, updates, phases, .. } = trainer;
        match frame.body {
            Body::Piece(piece) => updates.piece(&piece, frame.payload),
            Body::TakeState(_) => {
                ask(outbox, updates.take_state(replica));
                Ok(())
            }
            Body::State(state) => {
                match updates.state(replica, &state, &frame.payload)? {
                    Some(wanted) => ask(outbox, wanted),
                    None => drop(outbox.send(Body::StateTaken(proto::StateTaken {}))),
                }
                Ok(())
            }
            Body::Go(go) => {
                let begun = connections.mailbox.now();
                let applying = Instant::now();
                updates.apply(replica, &go)?;
                phases.add(Phase::Apply, applying.elapsed());
                if let Some(trouble) = compare(replica, &go).filter(|_| !updates.is_behind()) {
                    let _ = connections.head.send(Body::Trouble(trouble));
                }
                // Without an order it was news only.
                if let Some(order) = go.order {
                    self.take_order(trainer, outbox, order, (&go, begun))?;
                    if let Some(push) = &mut self.push {
                        let (ended, used) = (connections.mailbox.now(), connections.mailbox.used());
                        self.computed = Some((begun, ended));
                        push.whole.busy_s = trainer.exertion.stretch_s(begun, ended, used);
                    }
                }
                Ok(())
            }
            Body::Echo(echo) => {
                let _ = outbox.send(Body::Echo(echo));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes an order: a gradient is computed at once, several steps are made one after the other from now on.
    fn take_order(
        &mut self,
        trainer: &mut Trainer,
        outbox: &Outbox,
        order: u64,
        (go, begun): (&proto::Go, Instant),
    ) -> Result<()> {
        match go.dropped {
            true => trainer.encoder.roll_back(),
            false => trainer.encoder.commit(),
        }
        trainer.encoder.set_coding(if go.int8 { Coding::INT8 } else { self.coding });
        if self.apart.turn(go.steps > 1) {
            // What was lost is of another kind.
            trainer.encoder.reset();
        }
        self.push = None;
        match go.steps > 1 {
            true => self.begin(trainer, go, begun),
            false => self.compute(trainer, outbox, order, (go, begun)),
        }
    }

    /// Computes what an order asks for. What is settled leaves meanwhile, as the window allows; the rest is to be
    /// pushed.
    fn compute(
        &mut self,
        trainer: &mut Trainer,
        outbox: &Outbox,
        order: u64,
        (go, begun): (&proto::Go, Instant),
    ) -> Result<()> {
        let Some(task) = tasks(go).next() else { return Ok(()) };
        let unit = task.unit;
        ensure!(trainer.has(&task), "{unit} is none of this run's");
        let mut push = GradientPush::new(&trainer.encoder, order, go.exact);
        push.window = self.window_for(&task, begun);
        let overlaps = trainer.overlaps();
        let computed = trainer.compute_by_layers(task, &mut |encoder, gradient, settled_from| {
            if overlaps {
                push.advance(encoder, gradient, settled_from, push.window, send_to(outbox));
            }
        })?;
        push.version = go.version;
        push.whole = proto::Push {
            order,
            weight: trainer.gradient.weight,
            tally: Some(computed.tally),
            units: vec![to_proto(unit)],
            compute_s: computed.seconds,
            most_samples: computed.most_samples,
            ..proto::Push::default()
        };
        self.push = Some(push);
        Ok(())
    }

    /// How many chunks of a gradient may be on their way. Shares that differ let all be done at the same time, with
    /// what they send, too: then one with a slow processor sends while the others still compute. Not where it is links
    /// that a round waits for, more than half of the time.
    fn window_for(&self, task: &Task, begun: Instant) -> usize {
        let waited_little = |(from, to): (Instant, Instant)| {
            waits_little((to - from).as_secs_f64(), (begun - to).as_secs_f64())
        };
        if task.cut.is_some() && self.computed.is_some_and(waited_little) { usize::MAX } else { self.window }
    }

    /// Sends what a window allows of a push that is under way.
    fn go_on(&mut self, trainer: &mut Trainer, outbox: &Outbox) {
        let Some(going) = &mut self.push else { return };
        let Trainer { encoder, gradient, updates, phases, .. } = trainer;
        let begun = Instant::now();
        let back = updates.arrived(going.version + 1);
        going.advance(encoder, gradient, 0, going.window.saturating_add(back), send_to(outbox));
        phases.add(Phase::Encode, begun.elapsed());
        if going.left == 0 || gradient.weight == 0.0 {
            // A parent that is gone is heard of in the mail.
            let _ = outbox.send(Body::Push(std::mem::take(&mut going.whole)));
            self.push = None;
        }
    }
}

/// Asks for pieces of a state.
pub(crate) fn ask(outbox: &Outbox, wanted: Vec<proto::StateWanted>) {
    for wanted in wanted {
        // A parent that is gone is heard of in the mail.
        let _ = outbox.send(Body::StateWanted(wanted));
    }
}

fn send_to(outbox: &Outbox) -> impl FnMut(Frame) {
    // A parent that is gone is heard of in the mail.
    |frame| {
        let _ = outbox.send(frame);
    }
}

/// A gradient that is pushed to answer an order, chunk by chunk: what the last layers have learnt first. Nothing of one
/// that weighs nothing.
pub(crate) struct GradientPush {
    order: u64,
    exact: bool,
    /// How many chunks may be on their way at a time.
    window: usize,
    /// How many chunks are not sent yet.
    left: usize,
    /// Of the parameters that it was computed with.
    version: u64,
    /// What is said of it once all has been sent.
    whole: proto::Push,
}

impl GradientPush {
    pub(crate) fn new(encoder: &ChunkEncoder, order: u64, exact: bool) -> Self {
        let (window, left) = (usize::MAX, encoder.chunks().count());
        Self { order, exact, window, left, version: 0, whole: proto::Push::default() }
    }

    /// Sends the chunks of a gradient that is settled from a place on, until so many have been sent.
    pub(crate) fn advance(
        &mut self,
        encoder: &mut ChunkEncoder,
        gradient: &Gradient,
        settled_from: usize,
        most: usize,
        mut send: impl FnMut(Frame),
    ) {
        let count = encoder.chunks().count();
        while gradient.weight > 0.0
            && count - self.left < most
            && let Some(index) = self.left.checked_sub(1)
            && encoder.chunks()[index].range.start >= settled_from
        {
            self.left = index;
            send(piece(step::PUSH, 0, self.order, index, &encoder.encode(gradient, index, self.exact)));
        }
    }
}

pub(crate) fn from_proto(unit: &proto::Unit) -> Unit {
    Unit { epoch: unit.epoch, index: unit.index }
}

pub(crate) fn to_proto(unit: Unit) -> proto::Unit {
    proto::Unit { epoch: unit.epoch, index: unit.index }
}

/// Which part of several units each unit is; nothing if each is as it is.
pub(crate) fn cuts_to_proto(cuts: Vec<Option<Cut>>) -> Vec<proto::Cut> {
    if cuts.iter().all(Option::is_none) {
        return Vec::new();
    }
    let to_proto = |Cut { first, place, shares }| proto::Cut { first, place, shares };
    cuts.into_iter().map(|cut| cut.map(to_proto).unwrap_or_default()).collect()
}

/// What an order asks for.
fn tasks(go: &proto::Go) -> impl Iterator<Item = Task> {
    go.units.iter().enumerate().map(|(i, unit)| {
        let cut = go.cuts.get(i).filter(|cut| !cut.shares.is_empty());
        let cut = cut.map(|cut| Cut { first: cut.first, place: cut.place, shares: cut.shares.clone() });
        Task { unit: from_proto(unit), cut }
    })
}

/// Which of the units that an order asks for are parts of several, and which.
pub(crate) fn cuts_of(go: &proto::Go) -> impl Iterator<Item = (Unit, Cut)> {
    tasks(go).filter_map(|task| Some((task.unit, task.cut?)))
}

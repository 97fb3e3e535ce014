//! What comes to a member of an all-reduce, and what it answers at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bonfire_run::replica::Replica;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, proto};
use bytes::Bytes;

use super::Break;
use crate::mail::{Mail, News};
use crate::roles::node::{Caller, Connections};
use bonfire_exchange::peers::Early;
use bonfire_exchange::state::{Snapshot, nothing, piece_of};

/// What comes to a member, from the head and from the others.
#[derive(Default)]
pub(crate) struct Incoming {
    /// Which member is at the other end of a link: its index and its node's number.
    pub members: BTreeMap<u64, (usize, u64)>,
    /// What was asked for of the state of this member, and waits for the end of a round.
    state_wanted: Vec<proto::StateWanted>,
    /// The same by learners, with the index of each.
    learners_want: Vec<(usize, proto::StateWanted)>,
    /// Pieces of the state that members have sent this one, which learns, and when the last one came.
    pub states: Vec<(proto::State, Bytes)>,
    pub states_at: Option<Instant>,
    /// How long this member has waited since that was last asked.
    waited: Duration,
}

/// No honest peer has more questions or answers on their way.
const MOST_WAITING: usize = 1 << 12;

/// What a member hears while it waits.
pub(crate) enum Heard {
    /// Nothing, for as long as it was to wait.
    Silence,
    /// Nothing that is for it.
    Nothing,
    /// Of the member with this index.
    Piece(usize, proto::Piece, Bytes),
    State(proto::State, Bytes),
    Group(proto::Group),
}

impl Incoming {
    /// The next thing that concerns this member, if one comes in time. What stops it is an error, whatever it waits
    /// for.
    pub(crate) fn next(&mut self, connections: &mut Connections, timeout: Duration) -> Result<Heard, Break> {
        let begun = connections.mailbox.now();
        let mail = connections.mailbox.next(timeout);
        self.waited += connections.mailbox.now() - begun;
        let Some(mail) = mail else { return Ok(Heard::Silence) };
        let from = self.members.get(&mail.link).copied();
        match (mail.news, from) {
            (News::Frame(Frame { body, payload }), _) if mail.link == connections.head_link => match body {
                Body::Halt(halt) => Err(Break::Halted(halt.generation)),
                Body::StateWanted(wanted) => {
                    self.state_wanted.push(wanted);
                    Ok(Heard::Nothing)
                }
                Body::State(state) => Ok(Heard::State(state, payload)),
                Body::Group(group) => Ok(Heard::Group(group)),
                body => overhear(connections, mail.link, News::Frame(Frame { body, payload })),
            },
            (News::Frame(Frame { body: Body::Piece(piece), payload }), Some((from, _))) => {
                Ok(Heard::Piece(from, piece, payload))
            }
            (News::Frame(Frame { body: Body::StateWanted(wanted), .. }), Some((from, _)))
                if self.learners_want.len() < MOST_WAITING =>
            {
                self.learners_want.push((from, wanted));
                Ok(Heard::Nothing)
            }
            (News::Frame(Frame { body: Body::State(state), payload }), Some(_))
                if self.states.len() < MOST_WAITING =>
            {
                self.states.push((state, payload));
                self.states_at = Some(connections.mailbox.now());
                Ok(Heard::Nothing)
            }
            (News::Closed(reason), Some((_, node))) => {
                Err(Break::Neighbour(format!("the connection to node {node} is gone: {reason}")))
            }
            (news, _) => overhear(connections, mail.link, news),
        }
    }

    /// The members are others.
    pub(crate) fn forget_members(&mut self) {
        self.members.clear();
        self.learners_want.clear();
        self.states.clear();
    }

    /// Gives learners what they want of a replica that has done `round`. One that is a round ahead waits for it.
    pub(crate) fn teach(&mut self, links: &[Option<Outbox>], replica: &Replica, round: u64) {
        let (now, later) = std::mem::take(&mut self.learners_want)
            .into_iter()
            .partition(|(_, wanted): &(usize, proto::StateWanted)| wanted.round <= round);
        self.learners_want = later;
        let now: Vec<(usize, proto::StateWanted)> = now;
        for (from, wanted) in now {
            let (state, payload) = match wanted.round == round {
                true => piece_of(replica, round, &wanted),
                false => (nothing(&wanted), Bytes::new()),
            };
            if let Some(link) = links.get(from).and_then(Option::as_ref) {
                // One that is gone is heard of in the mail.
                let _ = link.send(Frame { body: Body::State(state), payload });
            }
        }
    }

    /// How long this member has waited since this was last asked.
    pub(crate) fn waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// Takes the link of one of the first members who has called, if any has: its number, and the way to it.
    pub(crate) fn answer_call(
        &mut self,
        connections: &mut Connections,
        (generation, first): (u64, &[proto::Peer]),
        most_bytes: usize,
        early: &mut Early,
    ) -> Option<(usize, Outbox)> {
        let place = |caller: &Caller| {
            let is_now = caller.hello.generation == generation;
            first.iter().position(|peer| is_now && peer.node == caller.hello.node)
        };
        let called = connections.callers.iter().enumerate();
        let (at, other) = called.into_iter().find_map(|(at, caller)| Some((at, place(caller)?)))?;
        let caller = connections.callers.swap_remove(at);
        early.extend(caller.said.into_iter().filter_map(|frame| match frame.body {
            Body::Piece(piece) => Some((other, piece, frame.payload)),
            _ => None,
        }));
        caller.outbox.accept_payloads_up_to(most_bytes);
        self.members.insert(caller.link, (other, caller.hello.node));
        Some((other, caller.outbox))
    }

    /// The next piece that has come; none if there is none yet. For who has something else to do than to wait.
    pub(crate) fn piece_now(
        &mut self,
        connections: &mut Connections,
    ) -> Result<Option<(usize, proto::Piece, Bytes)>, Break> {
        loop {
            match self.next(connections, Duration::ZERO)? {
                Heard::Piece(from, piece, payload) => return Ok(Some((from, piece, payload))),
                Heard::Silence => return Ok(None),
                Heard::Nothing | Heard::State(..) | Heard::Group(_) => {}
            }
        }
    }

    /// Takes what came while this member did not wait for anybody.
    pub(crate) fn hear_all(&mut self, connections: &mut Connections) -> Result<(), Break> {
        while !matches!(self.next(connections, Duration::ZERO)?, Heard::Silence) {}
        Ok(())
    }
}

/// Gives the head the state of this member.
#[derive(Default)]
pub(crate) struct Giver {
    /// The state of the last round after which something is due, or that was asked for.
    pub snapshot: Option<Snapshot>,
}

impl Giver {
    /// Answers what was asked for of the state of a member that has done `round`.
    pub(crate) fn give(
        &mut self,
        incoming: &mut Incoming,
        connections: &Connections,
        replica: &Replica,
        round: u64,
    ) {
        for mut wanted in std::mem::take(&mut incoming.state_wanted) {
            if wanted.round == 0 {
                wanted.round = round;
            }
            if round == wanted.round && self.snapshot.as_ref().is_none_or(|held| held.round != round) {
                self.snapshot = Some(Snapshot::of(replica, round));
            }
            let held = self.snapshot.as_mut().filter(|held| held.round == wanted.round && held.round > 0);
            let (state, payload) =
                held.map_or_else(|| (nothing(&wanted), Bytes::new()), |held| held.piece(&wanted));
            let _ = connections.head.send(Frame { body: Body::State(state), payload });
        }
    }
}

/// What is the node's own business; some of it ends the role.
fn overhear(connections: &mut Connections, link: u64, news: News) -> Result<Heard, Break> {
    match connections.hear(Mail { link, news })? {
        Some(next) => Err(Break::Over(next)),
        None => Ok(Heard::Nothing),
    }
}

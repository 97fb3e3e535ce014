//! One that is behind takes the state while the members go on.
//!
//! It takes part in their sums without anything of its own, and so hears every sum. In each round it asks the members
//! for some pieces of the state that the round begins with, and applies the sum to all that it has so far. So what it
//! has is always of one round, and once it has all it is equal to the others, bit for bit.

use std::collections::BTreeMap;
use std::time::Duration;

use bonfire_exchange::state::{Intake, PIECE};
use bonfire_run::replica::Replica;
use bonfire_wire::Outbox;
use bonfire_wire::proto::{self, frame::Body};

use super::incoming::Heard;
use super::{Break, Formed, LOOK, Participant, is_exact};
use crate::roles::node::Connections;
use crate::trainer::Trainer;

/// The state on its way to one that learns it.
#[derive(Debug)]
pub(super) struct Learning {
    intake: Intake,
    /// How many pieces are asked for in a round.
    pieces: usize,
}

/// In one round no member is asked for more pieces.
const MOST_OF_ONE: usize = 32;

impl Learning {
    /// Begins to learn from the members of a group. Who has learnt a part of the very state that the group begins with
    /// keeps it.
    pub(super) fn begin(before: Option<Self>, replica: &Replica, round: u64, group: &proto::Group) -> Self {
        let is_kept = |learning: &Self| round == group.round && !learning.is_whole();
        let new = || Self { intake: Intake::moving(replica), pieces: group.members.len() };
        before.filter(is_kept).unwrap_or_else(new)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.intake.is_whole()
    }

    /// Asks the members for the next pieces of the state of a round, each for as many. How many pieces these are.
    fn ask(&self, members: &[Option<Outbox>], round: u64) -> usize {
        let asked = self.pieces.min(self.intake.left()).min(MOST_OF_ONE * members.len());
        for (place, member) in (0..asked).zip(members.iter().flatten().cycle()) {
            let offset = (self.intake.have + place * PIECE) as u64;
            // One that is gone is heard of in the mail.
            let _ =
                member.send(Body::StateWanted(proto::StateWanted { round, offset, parameters_only: false }));
        }
        asked
    }

    /// Takes what came of the state of a round, as far as it follows on what is there: somebody may have gone on.
    fn take(
        &mut self,
        replica: &mut Replica,
        round: u64,
        states: Vec<(proto::State, bytes::Bytes)>,
    ) -> anyhow::Result<()> {
        let came = states.into_iter().filter(|(state, payload)| state.round == round && !payload.is_empty());
        let came: BTreeMap<u64, _> = came.map(|(state, payload)| (state.offset, (state, payload))).collect();
        came.into_values().try_for_each(|(state, payload)| self.intake.take(replica, &state, &payload))
    }

    /// Asks for as many pieces in the next round as would have come in half of this one.
    fn adapt(&mut self, asked: usize, took: Duration, round: Duration) {
        let fit = asked as f64 * round.as_secs_f64() / (2.0 * took.as_secs_f64()).max(1e-6);
        self.pieces = (fit as usize).clamp(1, 2 * self.pieces);
    }
}

impl Participant<'_> {
    /// One round of the members, from which this one learns.
    pub(super) fn learn(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
    ) -> Result<(), Break> {
        self.share_out_by_speed(connections, trainer, formed)?;
        let (view, round) = (&formed.view, self.round + 1);
        let is_apart = view.pace.steps_in(round) > 1;
        if self.apart.turn(is_apart) {
            self.sums.forget();
        }
        let exact = is_exact(&self.schedule, &self.plan, view, round);
        self.measure_latency(connections, trainer, formed)?;
        let begun = connections.mailbox.now();
        self.incoming.states.clear();
        let members = &formed.links[..view.members.len()];
        let asked = self.learning.as_ref().map_or(0, |learning| learning.ask(members, self.round));
        trainer.idle();
        self.exchange(connections, trainer, formed, (round, false), exact)?;
        while self.incoming.states.len() < asked {
            if let Heard::Piece(from, piece, payload) = self.incoming.next(connections, LOOK)? {
                self.early.push_back((from, piece, payload));
            }
        }
        let whole = self.take_pieces(connections, trainer, asked, begun)?;
        let lr = self.schedule.step(self.plan.units_done(view, self.round)).lr;
        if let Some(have) =
            self.learning.as_ref().map(|learning| learning.intake.have).filter(|have| *have > 0)
        {
            trainer.step_first(have, (!is_apart).then_some(lr));
        }
        self.round = round;
        let learned = proto::Learned { generation: view.generation, round, whole };
        let _ = connections.head.send(Body::Learned(learned));
        connections.tell_vitals(&mut trainer.phases);
        Ok(())
    }

    /// Takes the pieces that have come in a round, all that were asked for. Whether that makes the state whole.
    fn take_pieces(
        &mut self,
        connections: &Connections,
        trainer: &mut Trainer,
        asked: usize,
        begun: std::time::Instant,
    ) -> Result<bool, Break> {
        let Some(learning) = &mut self.learning else { return Ok(false) };
        let states = std::mem::take(&mut self.incoming.states);
        let took = self.incoming.states_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(begun));
        learning.take(&mut trainer.replica, self.round, states)?;
        learning.adapt(asked, took, connections.mailbox.now() - begun);
        Ok(learning.is_whole())
    }
}

//! How a member's gradient becomes that of all members: while it is computed, or once it is.

use std::time::Duration;

use bonfire_exchange::gradient_sums::GradientSums;
use bonfire_exchange::sharded::{Early, Peers, Receive};
use bonfire_exchange::sums;
use bonfire_exchange::world::World;
use bonfire_learn::Gradient;
use bonfire_run::run_file::ReduceOp;
use bonfire_strategy::Unit;
use rayon::ThreadPool;

use super::incoming::Heard;
use super::{Break, Formed, LOOK, Participant};
use crate::roles::node::Connections;
use crate::trainer::{Computed, Trainer};

impl Participant<'_> {
    /// The exchange by MPI. Who waits in a sum hears nothing, so nobody leaves alone: first all learn whether one of
    /// them was told to.
    fn exchange_by_mpi(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        world: &World,
    ) -> Result<(), Break> {
        let heard = self.incoming.hear_all(connections);
        let agreed = world.agree(trainer.gradient.weight, heard.is_err());
        heard?;
        if agreed.leave {
            return Err(Break::Parted);
        }
        let layout = trainer.layout().clone();
        let gradient = &mut trainer.gradient;
        match self.op {
            ReduceOp::Mean => sums::mean_by_mpi(world, &layout, gradient, agreed.weight, &mut self.memory),
            ReduceOp::Adasum => sums::combined(&mut { world }, &layout, gradient),
        }
    }

    /// Computes a unit. What is settled of its gradient leaves meanwhile, and what comes is taken.
    pub(super) fn compute_and_send(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        (round, unit): (u64, Unit),
        exact: bool,
    ) -> Result<Computed, Break> {
        let Self { incoming, sums, early, .. } = self;
        let mut receive = |_| loop {
            match incoming.next(connections, Duration::ZERO)? {
                Heard::Piece(from, piece, payload) => return Ok(Some((from, piece, payload))),
                Heard::Silence => return Ok(None),
                Heard::Nothing | Heard::State(..) | Heard::Group(_) => {}
            }
        };
        let mut peers = formed.peers(&mut receive, early, round);
        sums.begin(&peers, exact);
        let mut sent = Ok(());
        let computed = trainer.compute_by_layers(unit, &mut |_, gradient, settled_from| {
            if sent.is_ok() {
                sent = sums.advance(&mut peers, gradient, settled_from);
            }
        });
        sent.map(|()| computed)
    }

    /// Replaces the trainer's gradient, which has left in part, by that of all members.
    pub(super) fn complete(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        round: u64,
        exact: bool,
    ) -> Result<(), Break> {
        self.among(connections, trainer, formed, round, |sums, peers, gradient, pool| {
            sums.complete(peers, gradient, exact, pool)
        })
    }

    /// Replaces the trainer's gradient by that of all members.
    pub(super) fn exchange(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        round: u64,
        exact: bool,
    ) -> Result<(), Break> {
        if let Some(world) = self.world {
            return self.exchange_by_mpi(connections, trainer, world);
        }
        if formed.links.len() == 1 {
            return self.incoming.hear_all(connections);
        }
        let (op, layout) = (self.op, trainer.layout().clone());
        self.among(connections, trainer, formed, round, |sums, peers, gradient, pool| match op {
            ReduceOp::Mean => sums.sum(peers, gradient, exact, pool),
            ReduceOp::Adasum => sums::combined(peers, &layout, gradient),
        })
    }

    /// Does something with the trainer's gradient and all other members, and answers the head meanwhile.
    fn among(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        round: u64,
        act: impl FnOnce(
            &mut GradientSums,
            &mut Peers<'_, Break>,
            &mut Gradient,
            &ThreadPool,
        ) -> Result<(), Break>,
    ) -> Result<(), Break> {
        let Self { incoming, sums, early, giver, round: done, .. } = self;
        let Trainer { replica, gradient, pool, .. } = trainer;
        let mut receive = |_| loop {
            // A member that is behind may wait for it.
            giver.give(incoming, connections, replica, *done);
            if let Heard::Piece(from, piece, payload) = incoming.next(connections, LOOK)? {
                return Ok(Some((from, piece, payload)));
            }
        };
        act(sums, &mut formed.peers(&mut receive, early, round), gradient, pool)
    }
}

impl Formed {
    /// All members as this one sees them in a round.
    fn peers<'a>(
        &'a self,
        receive: Receive<'a, Break>,
        early: &'a mut Early,
        round: u64,
    ) -> Peers<'a, Break> {
        let (index, links, generation) = (self.index, &self.links, self.view.generation);
        Peers { index, links, receive, early, generation, round, step: 0 }
    }
}

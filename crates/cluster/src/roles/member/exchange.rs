//! What the members of an all-reduce exchange in a round.

use bonfire_exchange::sharded::{Gather, Peers, ShardedSums};
use bonfire_exchange::sums;
use bonfire_exchange::world::World;
use bonfire_learn::Gradient;
use bonfire_run::run_file::ReduceOp;
use bytes::Bytes;

use super::incoming::Heard;
use super::{Break, Formed, LOOK, Participant};
use crate::roles::node::Connections;
use crate::trainer::Trainer;

/// After which round of a group it is measured what an exchange of nothing takes.
const LATENCY_AFTER: u64 = 2;

/// So many hops are measured, of which the shortest counts.
const HOPS: u32 = 3;

impl Participant<'_> {
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
        self.among_peers(connections, trainer, formed, (round, 0), |peers, sums, gradient| match op {
            ReduceOp::Mean => sums.sum(peers, gradient, exact),
            ReduceOp::Adasum => sums::combined(peers, &layout, gradient),
        })
    }

    /// What an exchange of nothing takes, if that is to be measured now: two hops. All members come to it between the
    /// same two rounds.
    pub(super) fn measure_latency(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
    ) -> Result<Option<f64>, Break> {
        let is_now = formed.is_measured && self.round == formed.view.round + LATENCY_AFTER;
        if !is_now || self.world.is_some() || formed.links.len() == 1 {
            return Ok(None);
        }
        let hop = |peers: &mut Peers<'_, Break>, _: &mut ShardedSums, _: &mut Gradient| {
            peers.gather(Bytes::new()).map(drop)
        };
        // Some may be late from the round; after the first hop all are in step.
        self.among_peers(connections, trainer, formed, (self.round, 1), hop)?;
        let mut least = f64::MAX;
        for step in 2..2 + HOPS {
            let started = connections.mailbox.now();
            self.among_peers(connections, trainer, formed, (self.round, step), hop)?;
            least = least.min((connections.mailbox.now() - started).as_secs_f64());
        }
        Ok(Some(2.0 * least))
    }

    /// Has something done in an exchange of a round, given with its number there.
    fn among_peers<T>(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        (round, step): (u64, u32),
        act: impl FnOnce(&mut Peers<'_, Break>, &mut ShardedSums, &mut Gradient) -> Result<T, Break>,
    ) -> Result<T, Break> {
        let Self { incoming, sums, early, giver, round: done, .. } = self;
        let Trainer { replica, gradient, .. } = trainer;
        let mut receive = || loop {
            // A member that is behind may wait for it.
            giver.give(incoming, connections, replica, *done);
            if let Heard::Piece(from, piece, payload) = incoming.next(connections, LOOK)? {
                return Ok((from, piece, payload));
            }
        };
        let mut peers = Peers {
            index: formed.index,
            links: &formed.links,
            receive: &mut receive,
            early,
            generation: formed.view.generation,
            round,
            step,
        };
        act(&mut peers, sums, gradient)
    }

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
}

//! How a member's gradient becomes that of all members: while it is computed, or once it is.

use std::ops::Range;

use bonfire_exchange::gradient_sums::GradientSums;
use bonfire_exchange::owners::{are_fast, is_linkless, parts_by_speed};
use bonfire_exchange::peers::{Early, Gather, Peers, Receive};
use bonfire_exchange::sums;
use bonfire_exchange::world::World;
use bonfire_learn::Gradient;
use bonfire_run::run_file::ReduceOp;
use bytes::Bytes;
use rayon::ThreadPool;

use super::incoming::Heard;
use super::{Break, Formed, LOOK, Participant};
use crate::roles::node::Connections;
use crate::trainer::{Computed, Task, Trainer};

/// After which round of a group it is measured what an exchange of nothing takes.
const LATENCY_AFTER: u64 = 2;

/// So many hops are measured, of which the shortest counts.
const HOPS: u32 = 3;

/// The number of the first of them among the exchanges of a round. A sum has fewer.
const FIRST_HOP: u32 = 1 << 20;

/// The numbers of the exchanges by which links are measured; and so many bytes go over each.
const FIRST_PROBE: u32 = FIRST_HOP + 1024;
const PROBE: usize = 256 << 10;

/// So often. The first does not count: a link that has rested may take it at once.
const PROBES: u32 = 3;

/// The number of the first of more of them. There are so many where busy processors may hide that links are very fast,
/// and so many where they may make some links look slow.
const NEXT_PROBE: u32 = FIRST_PROBE + 512;
const PROBES_IF_FAST: u32 = 8;
const PROBES_IF_UNEQUAL: u32 = 3;

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

    /// Computes what is asked for. What is settled of its gradient leaves meanwhile, and what comes is taken.
    pub(super) fn compute_and_send(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        (round, task): (u64, Task),
        exact: bool,
    ) -> Result<Computed, Break> {
        let Self { incoming, sums, early, .. } = self;
        let mut receive = |_| incoming.piece_now(connections);
        let mut peers = formed.peers(&mut receive, early, round);
        sums.begin(&peers, exact);
        let mut sent = Ok(());
        let computed = trainer.compute_by_layers(task, &mut |_, gradient, settled_from| {
            if sent.is_ok() {
                sent = sums.advance(&mut peers, gradient, settled_from);
            }
        });
        sent.and_then(|()| Ok(computed?))
    }

    /// Replaces the trainer's gradient, of which some may have left already, by that of all members.
    pub(super) fn exchange(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        (round, has_begun): (u64, bool),
        exact: bool,
    ) -> Result<(), Break> {
        if let Some(world) = self.world {
            return self.exchange_by_mpi(connections, trainer, world);
        }
        if formed.links.len() == 1 {
            return self.incoming.hear_all(connections);
        }
        if self.op == ReduceOp::Adasum {
            let layout = trainer.layout().clone();
            return self.among(connections, trainer, formed, (round, 0), |_, peers, gradient, _| {
                sums::combined(peers, &layout, gradient)
            });
        }
        self.among(connections, trainer, formed, (round, 0), |sums, peers, gradient, pool| {
            if !has_begun {
                sums.begin(peers, exact);
            }
            sums.complete(peers, gradient, exact, pool)
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
        let mut hop = |connections: &mut Connections, step| {
            self.among(connections, trainer, formed, (self.round, step), |_, peers, _, _| {
                peers.gather(Bytes::new()).map(drop)
            })
        };
        // Some may be late from the round; after the first hop all are in step.
        hop(connections, FIRST_HOP)?;
        let mut least = f64::MAX;
        for step in FIRST_HOP + 1..=FIRST_HOP + HOPS {
            let started = connections.mailbox.now();
            hop(connections, step)?;
            least = least.min((connections.mailbox.now() - started).as_secs_f64());
        }
        Ok(Some(2.0 * least))
    }

    /// Has the members whose links are slow sum less, as soon as all are there: before the first round of a group, when
    /// nothing was summed yet. Where shares differ and links count for nothing it is those that are slow themselves,
    /// and chunks are fewer and larger.
    pub(super) fn share_out_by_speed(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
    ) -> Result<(), Break> {
        let members = formed.view.members.len();
        let is_by_speed = formed.servers.is_empty() && (members > 2 || formed.shares.is_some());
        let is_now = self.round == formed.view.round && is_by_speed;
        if !is_now || self.world.is_some() || self.op != ReduceOp::Mean {
            return Ok(());
        }
        let shares = formed.shares.iter().flatten().map(|share| f64::from(*share)).collect::<Vec<_>>();
        let mut heard = self.probe(connections, trainer, formed, FIRST_PROBE..FIRST_PROBE + 2 * PROBES)?;
        let mut parts = parts_by_speed(&heard, members, &shares);
        let more = match (are_fast(&heard), is_linkless(&heard)) {
            (true, false) if formed.shares.is_some() => PROBES_IF_FAST,
            (false, _) if parts.iter().any(|part| *part != parts[0]) => PROBES_IF_UNEQUAL,
            _ => 0,
        };
        if more > 0 {
            let more = self.probe(connections, trainer, formed, NEXT_PROBE..NEXT_PROBE + 2 * more)?;
            heard.iter_mut().zip(more).for_each(|(heard, more)| *heard = heard.max(more));
            parts = parts_by_speed(&heard, members, &shares);
        }
        parts.resize(heard.len(), 0.0);
        self.waits_for_links = formed.shares.is_none() || !is_linkless(&heard);
        match self.waits_for_links {
            true => self.sums.share_out(&parts),
            false => self.sums.share_out_few(&parts),
        }
        Ok(())
    }

    /// How fast each member heard the one before it, as that one found, in exchanges with these numbers and the one
    /// after them.
    fn probe(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        steps: Range<u32>,
    ) -> Result<Vec<f64>, Break> {
        let bytes = PROBE.min(trainer.layout().len() * 4);
        let mut speed = 0.0f64;
        // The best counts: others may be late, or processors busy.
        for step in steps.clone().step_by(2) {
            self.among(connections, trainer, formed, (self.round, step), |_, peers, _, _| {
                peers.gather(Bytes::new()).map(drop)
            })?;
            let (clock, started) = (connections.mailbox.clock(), connections.mailbox.now());
            let mut seconds = 0.0;
            self.among(connections, trainer, formed, (self.round, step + 1), |_, peers, _, _| {
                let told = || seconds = (clock.now() - started).as_secs_f64();
                peers.pass_on(Bytes::from(vec![0; bytes]), told)
            })?;
            if step > FIRST_PROBE {
                speed = speed.max(bytes as f64 / seconds.max(1e-6));
            }
        }
        let mut heard = Vec::new();
        self.among(connections, trainer, formed, (self.round, steps.end), |_, peers, _, _| {
            heard = peers.gather(Bytes::copy_from_slice(&speed.to_le_bytes()))?;
            Ok(())
        })?;
        // What one says is how fast the next has heard it.
        heard.rotate_right(1);
        let heard = heard.iter().map(|bytes| bytes.as_ref().try_into().map_or(0.0, f64::from_le_bytes));
        Ok(heard.map(|speed| if speed.is_finite() { speed } else { 0.0 }).collect())
    }

    /// Does something with the trainer's gradient and all other members in an exchange of a round, given with its
    /// number there, and answers the head meanwhile.
    fn among(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        (round, step): (u64, u32),
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
            // Others may wait for it.
            giver.give(incoming, connections, replica, *done);
            incoming.teach(&formed.links, replica, *done);
            if let Heard::Piece(from, piece, payload) = incoming.next(connections, LOOK)? {
                return Ok(Some((from, piece, payload)));
            }
        };
        let mut peers = Peers { step, ..formed.peers(&mut receive, early, round) };
        act(sums, &mut peers, gradient, pool)
    }
}

impl Formed {
    /// All members as this one sees them in a round.
    pub(super) fn peers<'a>(
        &'a self,
        receive: Receive<'a, Break>,
        early: &'a mut Early,
        round: u64,
    ) -> Peers<'a, Break> {
        let (index, generation) = (self.index, self.view.generation);
        let (links, servers) = (&self.links, &self.servers);
        Peers { index, links, servers, receive, early, generation, round, step: 0 }
    }
}

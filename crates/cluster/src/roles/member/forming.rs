//! How a member comes into its group: links to all others, and the state if all begin with that of the head.

use anyhow::Context;
use bonfire_exchange::codec::Coding;
use bonfire_exchange::owners::parts_with_learners;
use bonfire_exchange::state::Intake;
use bonfire_strategy::group;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Outbox, proto};

use super::incoming::Heard;
use super::learning::Learning;
use super::{Break, Formed, LOOK, Participant};
use crate::roles::node::Connections;
use crate::trainer::{Computed, Trainer};

impl Participant<'_> {
    /// Connects to all others, and takes the state if all members have to.
    pub(super) fn form(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        group: &proto::Group,
    ) -> Result<(), Break> {
        let (members, learners) = (group.members.len(), group.learners.len());
        let callers = callers_of(group);
        let index = callers.iter().position(|peer| peer.node == connections.node);
        let index = index.context("the head named members without this one")?;
        let parts = parts_with_learners(members, learners, group.servers.len());
        let view = view_of(group);
        self.learning = match index >= members {
            true => Some(Learning::begin(self.learning.take(), &trainer.replica, self.round, group)),
            false => None,
        };
        if group.behind {
            self.round = 0;
        }
        if group.behind && group.round == 0 {
            trainer.restart();
        }
        self.apart.forget();
        // Links of the group before close when they are dropped.
        self.incoming.forget_members();
        self.early.clear();
        let servers = self.call(connections, group, &group.servers, callers.len())?;
        let links = self.connect(connections, trainer, group, (&callers, index))?;
        if group.behind && group.round > 0 {
            self.take_state(connections, trainer, group.round)?;
        }
        self.waits_for_links = true;
        self.sums.share_out(&parts);
        self.sums.set_coding(if group.int8 { Coding::INT8 } else { self.coding });
        self.round = group.round;
        let shares = Some(group.shares.clone()).filter(|shares| shares.len() == view.members.len());
        let formed = Formed { view, index, links, servers, is_measured: group.measured, shares };
        if group.behind {
            // The head counts on this member only from here on.
            let _ = connections.head.send(Body::GroupRound(self.done(&formed, Computed::default())));
        }
        self.formed = Some(formed);
        Ok(())
    }

    /// Calls others, the first of whom has this number.
    fn call(
        &mut self,
        connections: &mut Connections,
        group: &proto::Group,
        peers: &[proto::Peer],
        first: usize,
    ) -> Result<Vec<Outbox>, Break> {
        let mut links = Vec::with_capacity(peers.len());
        for (other, peer) in (first..).zip(peers) {
            let link = connections.post.number();
            let outbox = connections
                .network
                .connect(peer, connections.post.sink(link))
                .map_err(|error| Break::Neighbour(format!("{error:#}")))?;
            outbox
                .send(Body::Hello(proto::Hello { node: connections.node, generation: group.generation }))?;
            outbox.accept_payloads_up_to(self.sums.most_bytes());
            self.incoming.members.insert(link, (other, peer.node));
            links.push(outbox);
        }
        Ok(links)
    }

    /// Links to all others: those with a higher number are called, those with a lower one call.
    fn connect(
        &mut self,
        connections: &mut Connections,
        trainer: &Trainer,
        group: &proto::Group,
        (all, index): (&[proto::Peer], usize),
    ) -> Result<Vec<Option<Outbox>>, Break> {
        let mut links = vec![None; all.len()];
        if self.world.is_some() {
            return Ok(links);
        }
        let called = self.call(connections, group, &all[index + 1..], index + 1)?;
        links[index + 1..].iter_mut().zip(called).for_each(|(link, called)| *link = Some(called));
        while links[..index].iter().any(Option::is_none) {
            let (first, most) = ((group.generation, &all[..index]), self.sums.most_bytes());
            if let Some((other, outbox)) =
                self.incoming.answer_call(connections, first, most, &mut self.early)
            {
                links[other] = Some(outbox);
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
}

/// Those who sum among themselves: the members, then those who learn.
pub(in crate::roles) fn callers_of(group: &proto::Group) -> Vec<proto::Peer> {
    [group.members.as_slice(), group.learners.as_slice()].concat()
}

/// The members of a group, and where they begin.
pub(in crate::roles) fn view_of(group: &proto::Group) -> group::View {
    group::View {
        generation: group.generation,
        members: group.members.iter().map(|peer| peer.node).collect(),
        round: group.round,
        units_done: group.units_done,
        pace: group::Pace { after: group.steps_after, steps: group.steps.max(1) },
    }
}

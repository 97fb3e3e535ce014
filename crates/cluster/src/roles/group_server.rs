//! A server of an all-reduce: sums some chunks for the members, and has no parameters of its own.

use anyhow::{Context, Result};
use bonfire_exchange::codec::Coding;
use bonfire_exchange::owners::parts_with_learners;
use bonfire_exchange::peers::{Early, Peers};
use bonfire_exchange::sharded::ShardedSums;
use bonfire_learn::Layout;
use bonfire_report::Phases;
use bonfire_run::run_file::Settings;
use bonfire_run::schedule::RunSchedule;
use bonfire_strategy::group;
use bonfire_wire::{Outbox, proto};

use super::member::forming::{callers_of, view_of};
use super::member::incoming::{Heard, Incoming};
use super::member::{Break, LOOK, is_exact, plan_of};
use super::node::{Connections, Next};

/// Sums for the run's group until the head has something else to do for this node.
pub(crate) fn sum(
    connections: &mut Connections,
    settings: &Settings,
    layout: &Layout,
    samples: u64,
) -> Result<Next> {
    let schedule = RunSchedule::of(settings, usize::try_from(samples)?);
    let mut server = GroupServer {
        plan: plan_of(&schedule),
        schedule,
        coding: Coding::of(settings.file.compression),
        sums: ShardedSums::new(layout, Coding::of(settings.file.compression)),
        incoming: Incoming::default(),
        early: Early::new(),
        group: None,
    };
    loop {
        match server.serve(connections) {
            // The head will name the members anew.
            Ok(()) | Err(Break::Halted(_) | Break::Neighbour(_) | Break::Parted) => {}
            Err(Break::Named(group)) => server.group = Some(*group),
            Err(Break::Over(next)) => return Ok(next),
            Err(Break::Failed(error)) => return Err(error),
        }
    }
}

struct GroupServer {
    plan: group::Plan,
    schedule: RunSchedule,
    /// As the run file says.
    coding: Coding,
    sums: ShardedSums,
    incoming: Incoming,
    /// Pieces that came before this server was ready for them.
    early: Early,
    /// The members that were named last and are not served yet.
    group: Option<proto::Group>,
}

impl GroupServer {
    /// Serves the members that were named last, until something else happens.
    fn serve(&mut self, connections: &mut Connections) -> Result<(), Break> {
        // Links of the group before close when they are dropped.
        self.incoming.forget_members();
        self.early.clear();
        let Some(group) = self.group.take() else {
            return self.incoming.next(connections, LOOK).and_then(named);
        };
        let place = group.servers.iter().position(|peer| peer.node == connections.node);
        let (members, learners) = (group.members.len(), group.learners.len());
        let index = members + learners + place.context("the head named servers without this one")?;
        let links = self.answer_calls(connections, &group)?;
        self.sums.share_out(&parts_with_learners(members, learners, group.servers.len()));
        self.sums.set_coding(if group.int8 { Coding::INT8 } else { self.coding });
        let view = view_of(&group);
        let mut round = view.round;
        while !self.plan.is_last(&view, round) && links.len() > 1 {
            round += 1;
            self.sum_round(connections, &links, (&view, index), round)?;
            connections.tell_vitals(&mut Phases::default());
        }
        loop {
            self.incoming.next(connections, LOOK).and_then(named)?;
        }
    }

    /// Links to all members and learners, who call.
    fn answer_calls(
        &mut self,
        connections: &mut Connections,
        group: &proto::Group,
    ) -> Result<Vec<Option<Outbox>>, Break> {
        let callers = callers_of(group);
        let mut links = vec![None; callers.len()];
        while links.iter().any(Option::is_none) {
            let (first, most) = ((group.generation, callers.as_slice()), self.sums.most_bytes());
            match self.incoming.answer_call(connections, first, most, &mut self.early) {
                Some((member, outbox)) => links[member] = Some(outbox),
                None => match self.incoming.next(connections, LOOK)? {
                    Heard::Piece(from, piece, payload) => self.early.push_back((from, piece, payload)),
                    heard => named(heard)?,
                },
            }
        }
        Ok(links)
    }

    /// Sums this server's chunks of one round.
    fn sum_round(
        &mut self,
        connections: &mut Connections,
        links: &[Option<Outbox>],
        (view, index): (&group::View, usize),
        round: u64,
    ) -> Result<(), Break> {
        if view.pace.steps_in(round) != view.pace.steps_in(round - 1) {
            // What is summed from now on is of another kind.
            self.sums.forget();
        }
        let exact = is_exact(&self.schedule, &self.plan, view, round);
        let Self { incoming, sums, early, .. } = self;
        let mut receive = |_| loop {
            match incoming.next(connections, LOOK)? {
                Heard::Piece(from, piece, payload) => return Ok(Some((from, piece, payload))),
                heard => named(heard)?,
            }
        };
        let generation = view.generation;
        let mut peers =
            Peers { index, links, servers: &[], receive: &mut receive, early, generation, round, step: 0 };
        sums.serve(&mut peers, exact)
    }
}

/// Other members end what goes on.
fn named(heard: Heard) -> Result<(), Break> {
    match heard {
        Heard::Group(group) => Err(Break::Named(Box::new(group))),
        _ => Ok(()),
    }
}

//! How the members of a server exchange, where the run file leaves that open: chosen once, by what the first rounds
//! took. Where it does not, it is said what would suit.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use bonfire_run::job::Job;
use bonfire_run::schedule::Chosen;
use bonfire_strategy::choice::{self, Measured, Through};
use bonfire_strategy::{group, server};
use bonfire_wire::proto;
use bonfire_wire::proto::frame::Body;

use super::super::super::registry::{Node, Role};
use super::super::first_rounds::{FirstRounds, RoundTook};
use super::super::group::choosing::is_one_machine;
use super::{Held, Serving};
use crate::remote::machine_id;
use bonfire_exchange::codec::Coding;

/// What a server knows of how long its rounds take.
#[derive(Debug)]
pub(super) struct Rounds {
    first: FirstRounds,
    /// When the last update was made, and how many bytes had gone through the head's link then; none if what came after
    /// it is no measure.
    last: Option<(Instant, u64)>,
    /// By how many members that was.
    members: usize,
    /// The shortest way to a worker and back.
    latency_s: Option<f64>,
    /// Whose link is the busiest.
    through: Through,
    /// What the first rounds took, until something is made of it.
    measured: Option<Measured>,
    /// Before the first round: who was sent an echo, when, and how often it has answered.
    echoes: BTreeMap<u64, (Instant, u32)>,
}

/// So many echoes are sent to each member. The first finds it at its preparations.
const ECHOES: u32 = 3;

/// Nobody is waited for longer, in seconds.
const ECHO_S: u64 = 2;

impl Rounds {
    pub(super) fn after(round: u64) -> Self {
        let (last, members, latency_s, measured, echoes) = Default::default();
        let (first, through) = (FirstRounds::after(round), Through::Server);
        Self { first, last, members, latency_s, through, measured, echoes }
    }

    /// What comes before the next update is no measure.
    pub(super) fn disturb(&mut self) {
        self.last = None;
    }

    /// A member is gone.
    pub(super) fn forget(&mut self, node: u64) {
        self.echoes.remove(&node);
    }
}

impl Serving<'_, '_> {
    /// Measures what an exchange of nothing takes with a new member, if that is wanted. With a relay, that is all the
    /// way to a worker: so only with one that has workers.
    pub(super) fn send_echo(&mut self, node: u64) {
        if !self.started && self.head.leaves_open() && !self.rounds.echoes.contains_key(&node) {
            self.rounds.echoes.insert(node, (self.head.mailbox.now(), 0));
            self.echo(node);
        }
    }

    fn echo(&self, node: u64) {
        if let Some(node) = self.head.registry.get(node) {
            // One that is gone is heard of in the mail.
            let _ = node.outbox.send(Body::Echo(proto::Echo {}));
        }
    }

    /// A member has answered an echo.
    pub(super) fn echoed(&mut self, node: u64) {
        let now = self.head.mailbox.now();
        let Some((sent, count)) = self.rounds.echoes.get_mut(&node).filter(|(_, count)| *count < ECHOES)
        else {
            return;
        };
        let took = (now - *sent).as_secs_f64();
        (*sent, *count) = (now, *count + 1);
        if *count > 1 {
            self.rounds.latency_s = Some(self.rounds.latency_s.map_or(took, |least| least.min(took)));
        }
        if *count < ECHOES {
            self.echo(node);
        }
    }

    /// Whether nobody is waited for who was sent an echo.
    pub(super) fn has_echoed(&self) -> bool {
        let now = self.head.mailbox.now();
        let is_over = |(sent, count): &(Instant, u32)| *count >= ECHOES || (now - *sent).as_secs() >= ECHO_S;
        self.rounds.echoes.values().all(is_over)
    }

    /// An update is made of some pushes. What the round took, once that is known well enough, is looked at after all
    /// were sent on.
    pub(super) fn measure(&mut self, version: u64, pushes: &[Held]) {
        if self.rule.max_staleness > 0 {
            // It has no rounds.
            return;
        }
        let now = self.head.mailbox.now();
        let traffic = self.head.registry.traffic();
        // Both ways at once.
        let bytes = traffic.sent_bytes.max(traffic.received_bytes);
        let before = self.rounds.last.replace((now, bytes));
        if std::mem::replace(&mut self.rounds.members, pushes.len()) != pushes.len() {
            self.rounds.first.begin_again(version);
            return;
        }
        let Some((last, bytes_before)) = before else { return };
        let slowest = pushes.iter().map(|push| push.compute_s).fold(0.0, f64::max);
        let exchange_s = ((now - last).as_secs_f64() - slowest).max(0.0);
        let sent_bytes = self.busiest(bytes.saturating_sub(bytes_before), pushes);
        let steps = self.server.steps_on(version - 1);
        for push in pushes {
            let workers = (push.units.len() as u64).div_ceil(steps).max(1);
            let took = RoundTook {
                compute_s: push.compute_s,
                exchange_s,
                sent_bytes,
                samples: push.tally.samples / workers,
                all_samples: push.tally.samples,
            };
            let measured = self.rounds.first.take(version, took, pushes.len(), (self.head.now(), false));
            self.rounds.measured = measured.or(self.rounds.measured);
        }
    }

    /// What went through the busiest link since the last update, of which so many bytes went through the head's. A
    /// relay has what its workers exchange with it and what it exchanges with the head on one link.
    fn busiest(&mut self, here: u64, pushes: &[Held]) -> u64 {
        let below = pushes.iter().map(|push| push.relayed_bytes).max().filter(|bytes| *bytes > 0);
        let relays = below.map_or(0, |below| below + here / pushes.len() as u64);
        self.rounds.through = if relays > here { Through::Relay } else { Through::Server };
        relays.max(here)
    }

    /// Chooses what suits, or says it, once the first rounds are measured. Those who are at work go on as they are, and
    /// all are told with their next orders.
    pub(super) fn use_measures(&mut self) -> Result<()> {
        let Some(measured) = self.rounds.measured.take().filter(|_| !self.finished) else { return Ok(()) };
        let works = |node: &&Node| matches!(node.role, Some(Role::Worker { .. } | Role::Relay { .. }));
        let nodes = || self.head.registry.nodes().filter(works);
        let is_here = nodes().all(|node| node.machine == machine_id());
        let members = nodes().filter(|node| !matches!(node.role, Some(Role::Relay { .. }))).count();
        let is_one_machine = is_here && is_one_machine(nodes());
        let latency_s = self.rounds.latency_s.unwrap_or(0.0);
        let through = self.rounds.through;
        let measured = Measured { members, latency_s, through, is_one_machine, ..measured };
        if !self.head.leaves_open() {
            self.head.advise(&measured);
            return Ok(());
        }
        let choice = self.head.suits(&measured);
        let steps = choice.way.steps;
        let (schedule, version) = (&self.head.run.job.schedule, self.server.version());
        // The update after the next one is the first that all can know of before they work for it.
        let after = if steps > 1 { choice::together_up_to(schedule.updates()).max(version + 2) } else { 0 };
        self.head.run.settle(Chosen { int8: choice.way.int8, steps, after }, choice.reason);
        self.collector.set_coding(coding_of(&self.head.run.job));
        match steps > 1 {
            true => self.decide(server::Event::Paced { pace: group::Pace { after, steps } }),
            false => Ok(()),
        }
    }
}

/// How the gradients of a job travel, as far as that is decided.
pub(super) fn coding_of(job: &Job) -> Coding {
    if job.schedule.int8 { Coding::INT8 } else { Coding::of(job.settings.file.compression) }
}

/// What went between a relay and its workers, by what it says of them: the larger of both ways.
pub(super) fn relayed_bytes(parts: &[proto::Part]) -> u64 {
    let sum = |of: fn(&proto::Part) -> u64| parts.iter().map(of).fold(0, u64::saturating_add);
    sum(|part| part.sent_bytes).max(sum(|part| part.received_bytes)).min(MOST_BYTES)
}

/// No round has so many bytes: sums of these do not overflow.
const MOST_BYTES: u64 = 1 << 50;

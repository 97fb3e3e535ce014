//! A member of an all-reduce: computes, sums its gradient with the others', and steps as all of them do.

mod ahead;
pub(crate) mod apart;
pub(super) mod forming;
pub(super) mod incoming;
mod learning;
mod summing;
mod tasks;

use std::time::Duration;

use anyhow::Result;
use bonfire_run::run_file::{ReduceOp, Settings, Topology};
use bonfire_run::schedule::{Due, RunSchedule};
use bonfire_strategy::group;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Outbox, proto};

use super::node::{Connections, Next};
use crate::trainer::{Computed, Trainer};
use apart::Apart;
use bonfire_exchange::codec::Coding;
use bonfire_exchange::gradient_sums::GradientSums;
use bonfire_exchange::peers::Early;
use bonfire_exchange::state::Snapshot;
use bonfire_exchange::sums;
use bonfire_exchange::world::World;
use incoming::{Giver, Heard, Incoming};
use learning::Learning;
use tasks::LocalStep;

/// Takes part in the run's sums until the head has something else to do for this node.
pub(crate) fn take_part(
    connections: &mut Connections,
    settings: &Settings,
    trainer: &mut Trainer,
    world: Option<&World>,
) -> Result<Next> {
    let mut member = Participant::new(settings, trainer, world);
    loop {
        let outcome = match member.formed.is_some() {
            true => member.round(connections, trainer),
            false => member.wait(connections, trainer),
        };
        match outcome {
            Ok(()) => {}
            Err(Break::Over(next)) => return Ok(next),
            Err(Break::Halted(generation)) => {
                member.formed = None;
                member.answer(connections, generation, "told to stop")?;
            }
            Err(Break::Neighbour(reason)) => {
                member.formed = None;
                member.answer(connections, member.generation, &reason)?;
            }
            // The head's word to this member is on its way.
            Err(Break::Parted | Break::Named(_)) => member.formed = None,
            Err(Break::Failed(error)) => return Err(error),
        }
    }
}

/// How many units a worker does by itself between two exchanges.
pub(crate) fn pace_of(schedule: &RunSchedule) -> group::Pace {
    group::Pace { after: schedule.pace.after, steps: schedule.pace.steps }
}

/// What all members have to do together on the schedule of a run.
pub(crate) fn plan_of(schedule: &RunSchedule) -> group::Plan {
    let (epochs, max_rounds) = schedule.ends();
    let pace = pace_of(schedule);
    let turns = schedule.turns().map(|(members, seed)| group::Turns { members, seed });
    group::Plan { units_per_epoch: schedule.units_per_epoch() as u32, epochs, max_rounds, pace, turns }
}

/// Why a round, or a wait, was left.
pub(super) enum Break {
    /// The node has another role, or none.
    Over(Next),
    /// The head wants to know how far this member is.
    Halted(u64),
    /// A link to another member broke.
    Neighbour(String),
    /// Another member was told to leave, and so all stop.
    Parted,
    /// The members were named anew while a server was at work.
    Named(Box<proto::Group>),
    Failed(anyhow::Error),
}

impl From<Closed> for Break {
    fn from(_: Closed) -> Self {
        Self::Neighbour("the connection to another member closed".to_owned())
    }
}

impl From<anyhow::Error> for Break {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

struct Participant<'w> {
    op: ReduceOp,
    /// Whether gradients leave while they are computed.
    overlaps: bool,
    /// What carries the sums, if that is MPI.
    world: Option<&'w World>,
    plan: group::Plan,
    schedule: RunSchedule,
    /// The last round that this member has done; 0 also as long as it lacks the state that it is to begin with. Of one
    /// that learns: to which it has brought what it has of the state.
    round: u64,
    /// It takes the state while the others go on.
    learning: Option<Learning>,
    formed: Option<Formed>,
    /// Not where shares differ and links count for nothing: there processors set the pace.
    waits_for_links: bool,
    /// The newest generation that was heard of.
    generation: u64,
    /// As the run file says.
    coding: Coding,
    sums: GradientSums,
    memory: sums::Memory,
    apart: Apart,
    incoming: Incoming,
    /// Pieces that came before this member was ready for them.
    early: Early,
    giver: Giver,
}

/// The members as they were named last, this one among them.
struct Formed {
    view: group::View,
    index: usize,
    /// To every member, then to those who learn; none to this one.
    links: Vec<Option<Outbox>>,
    /// To every machine that only sums.
    servers: Vec<Outbox>,
    /// Whether the head wants to know what an exchange of nothing takes.
    is_measured: bool,
    /// How large the share of each member is beside the others', where that is not as large for all: of the samples of
    /// a round, or of its steps.
    shares: Option<Vec<u32>>,
}

/// How a round begins.
struct Beginning {
    round: u64,
    due: Due,
    /// Members train by themselves before they exchange.
    is_apart: bool,
    /// Nothing is rounded.
    exact: bool,
    lr: f32,
    /// What an exchange of nothing takes, if that is wanted.
    latency_s: Option<f64>,
}

impl<'w> Participant<'w> {
    fn new(settings: &Settings, trainer: &Trainer, world: Option<&'w World>) -> Self {
        let op = match settings.topology {
            Topology::Allreduce { op, .. } => op,
            _ => ReduceOp::default(),
        };
        let schedule = RunSchedule::of(settings, trainer.samples());
        Self {
            op,
            overlaps: trainer.overlaps() && op == ReduceOp::Mean && world.is_none(),
            world,
            plan: plan_of(&schedule),
            schedule,
            round: 0,
            learning: None,
            formed: None,
            waits_for_links: true,
            generation: 0,
            coding: Coding::of(settings.file.compression),
            sums: GradientSums::new(trainer.layout(), settings.file.compression, settings.file.seed),
            memory: sums::Memory::default(),
            apart: Apart::of(settings),
            incoming: Incoming::default(),
            early: Early::new(),
            giver: Giver::default(),
        }
    }

    fn answer(&self, connections: &Connections, generation: u64, reason: &str) -> Result<()> {
        let has_state = self.learning.as_ref().is_none_or(Learning::is_whole);
        let round = if has_state { self.round } else { 0 };
        let broken = proto::GroupBroken { generation, round, reason: reason.to_owned() };
        // A head that is gone is heard of in the mail.
        let _ = connections.head.send(Body::GroupBroken(broken));
        Ok(())
    }

    /// Waits until the members are named, or something else happens.
    fn wait(&mut self, connections: &mut Connections, trainer: &mut Trainer) -> Result<(), Break> {
        loop {
            self.giver.give(&mut self.incoming, connections, &trainer.replica, self.round);
            if let Heard::Group(group) = self.incoming.next(connections, LOOK)? {
                self.generation = group.generation;
                return self.form(connections, trainer, &group);
            }
        }
    }

    /// One round, or after the last one a wait for the end.
    fn round(&mut self, connections: &mut Connections, trainer: &mut Trainer) -> Result<(), Break> {
        self.giver.give(&mut self.incoming, connections, &trainer.replica, self.round);
        let Some(formed) = self.formed.take() else { return Ok(()) };
        self.incoming.teach(&formed.links, &trainer.replica, self.round);
        let waits = self.learning.as_ref().is_some_and(Learning::is_whole);
        let outcome = match waits || self.plan.is_last(&formed.view, self.round) {
            true => self.incoming.next(connections, LOOK).map(drop),
            false if self.learning.is_some() => self.learn(connections, trainer, &formed),
            false => self.work(connections, trainer, &formed),
        };
        // Kept also when a link broke: its generation is part of the answer.
        self.formed = Some(formed);
        outcome
    }

    /// What members and those who learn from them do first in a round.
    fn begin(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
    ) -> Result<Beginning, Break> {
        self.share_out_by_speed(connections, trainer, formed)?;
        let (view, round) = (&formed.view, self.round + 1);
        let is_apart = view.pace.steps_in(round) > 1;
        if self.apart.turn(is_apart) {
            self.sums.forget();
        }
        let due = due_after(&self.schedule, &self.plan, view, round);
        let lr = self.schedule.step(self.plan.units_done(view, self.round)).lr;
        let latency_s = self.measure_latency(connections, trainer, formed)?;
        Ok(Beginning {
            round,
            due,
            is_apart,
            exact: is_exact(&self.schedule, &self.plan, view, round),
            lr,
            latency_s,
        })
    }

    fn work(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
    ) -> Result<(), Break> {
        let Beginning { round, due, is_apart, exact, lr, latency_s } =
            self.begin(connections, trainer, formed)?;
        let (begun, used) = (connections.mailbox.now(), connections.mailbox.used());
        self.incoming.waited();
        let before = sent_bytes(formed);
        let task = formed.task(&self.plan, round);
        // What leaves early is copied. Where processors set the pace and links do not, that is for nothing.
        let is_worth_it = self.waits_for_links && formed.links.len() > 1;
        let overlaps = self.overlaps && !is_apart && task.is_some() && is_worth_it;
        let computed = match task {
            _ if is_apart => self.learn_apart(connections, trainer, formed, round)?,
            Some(task) if overlaps => {
                self.compute_and_send(connections, trainer, formed, (round, task), exact)?
            }
            Some(task) => trainer.compute(task)?,
            None => trainer.idle(),
        };
        let is_due = due.evaluation || due.checkpoint;
        let goes_ahead = is_apart && !is_due && !exact && self.goes_ahead(formed);
        if goes_ahead {
            self.go_ahead(connections, trainer, formed, round)?;
        }
        if is_apart && !due.checkpoint {
            self.apart.draw_to_centre(trainer);
        }
        let started = connections.mailbox.now();
        self.exchange(connections, trainer, formed, (round, overlaps || goes_ahead), exact)?;
        let exchange_s = (connections.mailbox.now() - started).as_secs_f64();
        trainer.waited(Duration::from_secs_f64(exchange_s));
        match is_apart {
            true => {
                trainer.step_together();
                self.apart.keep_apart(&trainer.replica);
            }
            false => trainer.step(lr),
        }
        self.round = round;
        let worked = connections.mailbox.used().zip(used).map(|(now, before)| now.saturating_sub(before));
        let passed = connections.mailbox.now() - begun;
        let busy_s = trainer.exertion.busy_s(passed, self.incoming.waited(), worked);
        let done = proto::GroupRound {
            exchange_s,
            sent_bytes: sent_bytes(formed) - before,
            latency_s,
            busy_s,
            digest: is_due.then(|| trainer.replica.digest()),
            ..self.done(formed, computed)
        };
        if formed.index == 0 && is_due {
            self.keep_state(connections, trainer)?;
        }
        let _ = connections.head.send(Body::GroupRound(done));
        connections.tell_vitals(&mut trainer.phases);
        Ok(())
    }

    /// Trains on this member's units of a round, one after the other. The trainer's gradient is how far it went; its
    /// parameters are those of the round's start again, whatever happens.
    fn learn_apart(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        round: u64,
    ) -> Result<Computed, Break> {
        trainer.idle();
        let (mut all, done) = self.apart.begin(&mut trainer.replica);
        for LocalStep { unit, place } in formed.steps(&self.plan, round).into_iter().skip(done as usize) {
            all.add(&trainer.compute(unit)?);
            let computed = connections.mailbox.now();
            trainer.step(self.schedule.step(place).lr);
            // Who makes fewer steps is spared this, too.
            all.seconds += (connections.mailbox.now() - computed).as_secs_f64();
            self.apart.weight += trainer.gradient.weight;
            // Who is to stop does not go on until the end of a long round.
            if let Err(stopped) = self.hear_now(connections) {
                self.apart.give_up(&mut trainer.replica);
                return Err(stopped);
            }
        }
        self.apart.end(trainer);
        Ok(all)
    }

    /// Takes what has come, and waits for nothing.
    fn hear_now(&mut self, connections: &mut Connections) -> Result<(), Break> {
        loop {
            match self.incoming.next(connections, Duration::ZERO)? {
                Heard::Silence => return Ok(()),
                Heard::Piece(from, piece, payload) => self.early.push_back((from, piece, payload)),
                Heard::Nothing | Heard::State(..) | Heard::Group(_) => {}
            }
        }
    }

    /// Keeps the state of the last round, which the head will ask for once all have said that they have done the round.
    /// If it is not done with the one before, that is waited for, but not for ever; with MPI not at all, because there
    /// nobody may leave between two sums.
    fn keep_state(&mut self, connections: &mut Connections, trainer: &Trainer) -> Result<(), Break> {
        let until = connections.mailbox.now() + FETCHED;
        while self.world.is_none()
            && self.giver.snapshot.as_ref().is_some_and(|held| !held.is_given)
            && connections.mailbox.now() < until
        {
            match self.incoming.next(connections, LOOK)? {
                Heard::Piece(from, piece, payload) => self.early.push_back((from, piece, payload)),
                _ => self.giver.give(&mut self.incoming, connections, &trainer.replica, self.round),
            }
        }
        self.giver.snapshot = Some(Snapshot::of(&trainer.replica, self.round));
        Ok(())
    }

    /// What the head hears of a round.
    fn done(&self, formed: &Formed, computed: Computed) -> proto::GroupRound {
        proto::GroupRound {
            generation: formed.view.generation,
            round: self.round,
            tally: Some(computed.tally),
            compute_s: computed.seconds,
            most_samples: computed.most_samples,
            ..proto::GroupRound::default()
        }
    }
}

/// How long the head may take to fetch a state before another one takes its place.
const FETCHED: Duration = Duration::from_secs(120);

/// How long a wait lasts at a time.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// What is due after a round of a view.
fn due_after(schedule: &RunSchedule, plan: &group::Plan, view: &group::View, round: u64) -> Due {
    schedule.due(round, ended(plan, view, round).as_slice(), plan.is_last(view, round))
}

/// Whether nothing is rounded in a round. Checkpoints do not have what rounding has lost: so nothing is lost by then,
/// nor when what is summed changes. After the end of a run nobody goes on.
pub(super) fn is_exact(schedule: &RunSchedule, plan: &group::Plan, view: &group::View, round: u64) -> bool {
    schedule.due(round, ended(plan, view, round).as_slice(), false).checkpoint
        || view.pace.steps_in(round + 1) != view.pace.steps_in(round)
}

/// The epoch that a round ends, counted from 1.
fn ended(plan: &group::Plan, view: &group::View, round: u64) -> Option<u64> {
    plan.epoch_done(view, round).map(|epoch| epoch + 1)
}

fn sent_bytes(formed: &Formed) -> u64 {
    formed.links.iter().flatten().chain(&formed.servers).map(|link| link.traffic().sent_bytes).sum()
}

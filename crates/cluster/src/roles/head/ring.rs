//! A head whose workers are a ring: it keeps membership, the log and the checkpoints; the parameters are the members'.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bonfire_learn::Tally;
use bonfire_report::{Event as Told, Exit};
use bonfire_strategy::Unit;
use bonfire_strategy::ring::{Action, Event, Ring, RingRule, View};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, proto};
use bytes::Bytes;

use super::super::registry::{Node, Notice, Role};
use super::super::ring::plan_of;
use super::Head;
use crate::station::{check_state, pack_state, unpack_state};
use bonfire_run::course::Due;
use bonfire_run::run::Update;

/// How many rounds members can be ahead of what all have said that they have done: what they say waits in their links.
const AHEAD: u64 = 1 << 16;

/// Leads a run whose workers are a ring.
pub fn lead(head: &mut Head<'_>) -> Result<Exit> {
    let mut leading = Leading::new(head);
    leading.enroll()?;
    loop {
        if let Some(exit) = leading.turn()? {
            return Ok(exit);
        }
    }
}

struct Leading<'h, 'a> {
    head: &'h mut Head<'a>,
    ring: Ring,
    view: Option<View>,
    /// What the members said of rounds that not all have done.
    rounds: BTreeMap<u64, Round>,
    /// What is to be done with the state of the last round that was done by all, as soon as it comes.
    due: Option<(u64, Due)>,
    /// A state that came before all have said that they have done its round.
    early: Option<(proto::State, Bytes)>,
    /// Who waits for the state of a round.
    behind: Vec<u64>,
    finished: bool,
    stopping: bool,
}

#[derive(Default)]
struct Round {
    tally: Tally,
    /// Of the first member that said it.
    digest: Option<u64>,
}

impl<'h, 'a> Leading<'h, 'a> {
    fn new(head: &'h mut Head<'a>) -> Self {
        let job = &head.run.job;
        let silence = Duration::from_secs_f64(job.settings.file.silence_s);
        let rule = RingRule { min_members: job.settings.file.min_workers, answer: 2 * silence };
        Self {
            ring: Ring::new(plan_of(&job.course), rule),
            view: None,
            rounds: BTreeMap::new(),
            due: None,
            early: None,
            behind: Vec::new(),
            finished: false,
            stopping: false,
            head,
        }
    }

    fn enroll(&mut self) -> Result<()> {
        let place = |node: &Node| match node.role {
            Some(Role::RingMember { number }) => Some((number, node.number)),
            _ => None,
        };
        let mut members: Vec<(usize, u64)> = self.head.registry.nodes().filter_map(place).collect();
        members.sort_unstable();
        for (_, member) in members {
            self.decide(Event::Joined { member })?;
        }
        let progress = &self.head.run.progress;
        self.decide(Event::Start { round: progress.round, units_done: progress.units })
    }

    fn turn(&mut self) -> Result<Option<Exit>> {
        let now = self.head.now();
        let timeout = self.ring.next_deadline().map_or(Duration::MAX, |at| at.saturating_sub(now));
        if let Some(notice) = self.head.next(timeout) {
            let begun = Instant::now();
            self.notice(notice)?;
            self.head.stats.busy(begun.elapsed());
        }
        if self.ring.next_deadline().is_some_and(|at| at <= self.head.now()) {
            self.decide(Event::Tick)?;
        }
        self.head.tell_nodes_if_due();
        if self.finished && self.due.is_none() && self.head.is_measured() {
            self.head.exit.get_or_insert(Exit::Done);
        }
        if self.head.is_stopped() && !self.stopping && self.head.exit.is_none() {
            self.stopping = true;
            let first = self.view.as_ref().and_then(|view| self.head.registry.get(*view.members.first()?));
            match first {
                Some(node) => drop(node.outbox.send(Body::StateWanted(proto::StateWanted {}))),
                None => return Ok(Some(self.head.run.interrupt())),
            }
        }
        Ok(self.head.exit)
    }

    fn notice(&mut self, notice: Notice) -> Result<()> {
        match self.head.settle(notice) {
            Some(Notice::Ready(node)) if self.uses_mpi() => {
                self.turn_away(node);
                Ok(())
            }
            Some(Notice::Ready(node)) => match self.head.employ(node, |number| Role::RingMember { number }) {
                Role::RingMember { .. } => self.decide(Event::Joined { member: node }),
                _ => Ok(()),
            },
            Some(Notice::Lost { node, reason }) => self.lost(&node, reason),
            Some(Notice::Frame(node, Frame { body, payload })) => match body {
                Body::RingRound(done) => self.done(node, &done),
                Body::RingBroken(broken) => {
                    let (generation, round) = (broken.generation, broken.round);
                    self.decide(Event::Broken { member: node, generation, round })
                }
                Body::State(state) => self.offered(node, state, payload),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn uses_mpi(&self) -> bool {
        self.head.run.job.settings.topology.uses_mpi()
    }

    /// MPI knows those whom its launcher started, and nobody else.
    fn turn_away(&mut self, node: u64) {
        if let Some(node) = self.head.registry.get(node) {
            node.outbox.abort("a ring by MPI takes no newcomers");
        }
    }

    fn lost(&mut self, node: &Node, reason: String) -> Result<()> {
        if self.uses_mpi() && node.role.is_some() {
            self.head.tell_lost(node, &reason, "MPI cannot go on without it");
            bail!(
                "{} is gone ({reason}), and MPI cannot go on without it: resume the run with all ranks",
                node.name
            );
        }
        let consequence = match node.role {
            Some(Role::RingMember { .. }) => "the ring forms anew without it",
            Some(Role::Evaluator) => "the head measures instead",
            _ => "the run goes on",
        };
        self.head.tell_lost(node, &reason, consequence);
        if node.role == Some(Role::Evaluator) {
            self.head.evaluator_lost();
        }
        self.decide(Event::Lost { member: node.number, reason })?;
        if let Some(node) = self.head.recruit(Role::RingMember { number: 0 }) {
            self.decide(Event::Joined { member: node })?;
        }
        if self.stopping || (self.finished && self.due.is_some()) {
            // It may have been the one that was to send the last state; any other has the same.
            let is_member = |node: &&Node| matches!(node.role, Some(Role::RingMember { .. }));
            let other = self.head.registry.nodes().find(is_member).map(|node| node.number);
            self.send(other.as_slice(), &Body::StateWanted(proto::StateWanted {}));
        }
        Ok(())
    }

    /// A member has done a round.
    fn done(&mut self, node: u64, done: &proto::RingRound) -> Result<()> {
        let tally = done.tally.unwrap_or_default();
        let is_now = self.view.as_ref().is_some_and(|view| view.generation == done.generation);
        if !is_now || done.round > self.head.run.progress.round.saturating_add(AHEAD) {
            // Of a ring that is no more.
            return Ok(());
        }
        self.head.stats.pushed(node, tally.samples, done.compute_s);
        // Around a ring everybody receives as much as it sends.
        self.head.stats.aside(node, done.sent_bytes, done.sent_bytes);
        if tally.samples > 0 || done.compute_s > 0.0 {
            self.add(done.round, &tally);
        }
        if let Some(digest) = done.digest {
            self.compare(node, done.round, digest);
        }
        self.decide(Event::Done { member: node, generation: done.generation, round: done.round })
    }

    /// All members must have the same parameters. One that differs computes wrongly: bad memory does that to old machines.
    fn compare(&mut self, node: u64, round: u64, digest: u64) {
        let first = *self.rounds.entry(round).or_default().digest.get_or_insert(digest);
        if first != digest {
            let name = self.head.name(node);
            let message =
                format!("{name} has other parameters than another member of the ring after round {round}");
            self.head.run.tell(Told::Warned { message });
        }
    }

    fn add(&mut self, round: u64, tally: &proto::Tally) {
        let round = self.rounds.entry(round).or_default();
        round.tally.loss += tally.loss;
        round.tally.weight += tally.weight;
        round.tally.answers = round.tally.answers.saturating_add(tally.answers);
        round.tally.correct = round.tally.correct.saturating_add(tally.correct);
    }

    fn decide(&mut self, event: Event) -> Result<()> {
        let mut is_lost = false;
        for action in self.ring.on(event, self.head.now()) {
            match action {
                Action::Halt { generation, members, reason } => {
                    if !reason.is_empty() {
                        self.head.run.tell(Told::Noted { message: reason });
                    }
                    self.send(&members, &Body::Halt(proto::Halt { generation }));
                }
                Action::Form { view, source, behind, .. } => self.form(view, source, behind),
                Action::RoundDone { round, epoch_done } => {
                    self.round_done(round, epoch_done.map(|epoch| epoch + 1))?
                }
                Action::Expel { member, reason } => {
                    if let Some(node) = self.head.registry.get(member) {
                        node.outbox.abort(&reason);
                    }
                }
                Action::Waiting { reason } => self.head.run.tell(Told::Noted { message: reason }),
                Action::StateLost { .. } => is_lost = true,
                Action::Finished { .. } => self.finished = true,
            }
        }
        if is_lost { self.go_back() } else { Ok(()) }
    }

    /// The head has the parameters of its newest checkpoint. When all members are lost, those are the newest there are.
    fn go_back(&mut self) -> Result<()> {
        self.head.run.go_back("no member of the ring is left that has the parameters")?;
        self.rounds.clear();
        self.behind.clear();
        (self.due, self.early) = (None, None);
        let progress = &self.head.run.progress;
        self.decide(Event::Start { round: progress.round, units_done: progress.units })
    }

    fn send(&self, members: &[u64], body: &Body) {
        for node in members.iter().filter_map(|&member| self.head.registry.get(member)) {
            // One that is gone is heard of in the mail.
            let _ = node.outbox.send(body.clone());
        }
    }

    fn form(&mut self, view: View, source: Option<u64>, behind: Vec<u64>) {
        let peers: Vec<proto::Peer> = view
            .members
            .iter()
            .filter_map(|&member| self.head.registry.get(member))
            .map(Node::peer)
            .collect();
        // Without a source all begin from a checkpoint, which only the head has, or from the seed, which all have.
        let from_head = source.is_none() && view.round > 0;
        let from_seed = view.round == 0;
        // What is due with the state of an earlier round is lost with who had it.
        self.due = self.due.take_if(|(round, _)| *round == view.round);
        // Also when nobody is behind: what is due after this round may become known only now.
        let gives = source.or(view.members.first().copied()).filter(|_| !from_head && !from_seed);
        for &member in &view.members {
            let ring = proto::Ring {
                generation: view.generation,
                members: peers.clone(),
                round: view.round,
                units_done: view.units_done,
                behind: from_head || behind.contains(&member),
                source: gives == Some(member),
            };
            self.send(&[member], &Body::Ring(ring));
        }
        if from_head {
            let (state, payload) = pack_state(&self.head.run.job.replica, view.round, true);
            self.forward(&view.members.clone(), state, &payload);
        } else {
            self.behind = if from_seed { Vec::new() } else { behind };
        }
        self.rounds.retain(|round, _| *round <= view.round);
        self.view = Some(view);
    }

    fn forward(&self, members: &[u64], state: proto::State, payload: &Bytes) {
        for node in members.iter().filter_map(|&member| self.head.registry.get(member)) {
            let _ = node.outbox.send(Frame { body: Body::State(state), payload: payload.clone() });
        }
    }

    /// All members have done a round.
    fn round_done(&mut self, round: u64, epoch: Option<u64>) -> Result<()> {
        let Round { tally, .. } = self.rounds.remove(&round).unwrap_or_default();
        let course = &self.head.run.job.course;
        let step = course.step(self.head.run.progress.units);
        let plan = plan_of(course);
        let before = self.head.run.progress.units;
        let after = self.view.as_ref().map_or(before, |view| plan.units_done(view, round));
        let units = after.saturating_sub(before);
        // By the plan: one who is lost may have done its part and not said so.
        let done = (before..before + units).map(|place| Unit::at(place, course.units_per_epoch() as u32));
        let samples = course.samples_by_epoch(done.map(|unit| (unit.epoch, unit.index)));
        self.head.run.count(Update { tally: &tally, samples: &samples, units, lr: step.lr })?;
        let due = self.head.run.after_update(epoch.as_slice());
        if due.evaluation || due.checkpoint {
            self.due = Some((round, due));
        }
        if let Some((state, payload)) = self.early.take() {
            self.state(state, payload)?;
        }
        Ok(())
    }

    /// A member sends its state. One that does not fit costs the member, not the run.
    fn offered(&mut self, node: u64, state: proto::State, payload: Bytes) -> Result<()> {
        let Err(error) = check_state(&self.head.run.job.replica, &state, &payload) else {
            return self.state(state, payload);
        };
        self.head.warn(format!("refused the state of {}: {error:#}", self.head.name(node)));
        if let Some(node) = self.head.registry.get(node) {
            node.outbox.abort("its state does not fit the run");
        }
        Ok(())
    }

    /// The state of a round, from one of the members.
    fn state(&mut self, state: proto::State, payload: Bytes) -> Result<()> {
        // One of an earlier round may have been under way when the ring was formed.
        if self.view.as_ref().is_some_and(|view| view.round == state.round) {
            let behind = std::mem::take(&mut self.behind);
            self.forward(&behind, state, &payload);
        }
        let round = self.head.run.progress.round;
        if state.round > round {
            self.early = Some((state, payload));
            return Ok(());
        }
        if state.round < round {
            return Ok(());
        }
        unpack_state(&mut self.head.run.job.replica, &state, &payload)?;
        self.head.run.progress.optimizer_steps = state.steps;
        if self.stopping {
            let exit = self.head.run.interrupt();
            self.head.exit = Some(exit);
        } else if let Some((_, due)) = self.due.take_if(|(round, _)| *round == state.round) {
            self.head.carry_out(due);
        }
        Ok(())
    }
}

//! A head whose workers are a group: it keeps membership, the log and the checkpoints; the parameters are the members'.

pub(super) mod choosing;
mod forming;
mod rounds;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bonfire_report::{self as report, Exit};
use bonfire_strategy::choice::Choice;
use bonfire_strategy::{Group, Unit, group};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, proto};

use super::super::member::plan_of;
use super::super::registry::{Node, Notice, Role};
use super::Head;
use super::first_rounds::FirstRounds;
use bonfire_exchange::state::{Intake, piece_of};
use bonfire_run::run::Update;
use bonfire_run::schedule::Due;
use rounds::Round;

/// How many rounds members can be ahead of what all have said that they have done: what they say waits in their links.
const AHEAD: u64 = 1 << 16;

/// Leads a run whose workers are a group.
pub(crate) fn lead(head: &mut Head<'_>) -> Result<Exit> {
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
    group: Group,
    view: Option<group::View>,
    /// Whether somebody takes the state while the members go on.
    teaches: bool,
    /// What the members said of rounds that not all have done.
    rounds: BTreeMap<u64, Round>,
    /// Rounds that all have done and that are not counted yet: before them, something is due with the state of an
    /// earlier one, which is on its way.
    uncounted: VecDeque<Uncounted>,
    /// What is to be done with the state of the last round that was done by all, as soon as it is here.
    due: Option<(u64, Due)>,
    /// The round of which the head's replica has the parameters, if it has all of them.
    has: Option<u64>,
    /// Whether it has the moments of that round, too.
    has_moments: bool,
    /// The state that is on its way from a member into the head's replica.
    fetch: Option<Fetch>,
    first_rounds: FirstRounds,
    /// How members are to exchange as soon as the group is formed anew.
    choosing: Option<Choice>,
    /// Whether the members stop to go on with other shares.
    reshares: bool,
    /// How many epochs have ended since shares were looked at.
    ended: usize,
    finished: bool,
    stopping: bool,
}

/// A round that all members have done.
#[derive(Debug)]
struct Uncounted {
    round: u64,
    /// Counted from 1.
    epoch_done: Option<u64>,
    /// How many units are done with it.
    units: u64,
}

/// A state on its way.
#[derive(Debug)]
struct Fetch {
    from: u64,
    intake: Intake,
}

/// A group without members.
fn new_group(head: &Head<'_>) -> Group {
    let job = &head.run.job;
    let silence = Duration::from_secs_f64(job.settings.file.silence_s);
    let rule = group::Rule { min_members: job.settings.file.min_workers, answer: 2 * silence };
    Group::new(plan_of(&job.schedule), rule)
}

impl<'h, 'a> Leading<'h, 'a> {
    fn new(head: &'h mut Head<'a>) -> Self {
        Self {
            group: new_group(head),
            view: None,
            teaches: false,
            rounds: BTreeMap::new(),
            uncounted: VecDeque::new(),
            due: None,
            has: Some(head.run.progress.round),
            has_moments: true,
            fetch: None,
            first_rounds: FirstRounds::after(head.run.progress.round),
            choosing: None,
            reshares: false,
            ended: 0,
            finished: false,
            stopping: false,
            head,
        }
    }

    fn enroll(&mut self) -> Result<()> {
        self.enroll_members()?;
        let progress = &self.head.run.progress;
        self.decide(group::Event::Start { round: progress.round, units_done: progress.units })
    }

    fn enroll_members(&mut self) -> Result<()> {
        let place = |node: &Node| match node.role {
            Some(Role::GroupMember { number }) => Some((number, node.number)),
            _ => None,
        };
        let mut members: Vec<(usize, u64)> = self.head.registry.nodes().filter_map(place).collect();
        members.sort_unstable();
        for (_, member) in members {
            self.decide(group::Event::Joined { member })?;
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<Option<Exit>> {
        let now = self.head.now();
        let timeout = self.group.next_deadline().map_or(Duration::MAX, |at| at.saturating_sub(now));
        if let Some(notice) = self.head.next(timeout)? {
            let begun = Instant::now();
            self.notice(notice)?;
            self.head.stats.busy(begun.elapsed());
        }
        if self.group.next_deadline().is_some_and(|at| at <= self.head.now()) {
            self.decide(group::Event::Tick)?;
        }
        self.head.tell_nodes_if_due();
        if self.finished && self.due.is_none() && self.uncounted.is_empty() && self.head.is_measured() {
            self.head.exit.get_or_insert(Exit::Done);
        }
        if self.head.is_stopped() && !self.stopping && self.head.exit.is_none() {
            self.stopping = true;
            // A member that begins with the head's state could not give it back.
            let has_newest = self.has == Some(self.head.run.progress.round) && self.has_moments;
            match self.view.as_ref().and_then(|view| view.members.first().copied()) {
                Some(first) if !has_newest => self.fetch(first, 0, false),
                _ => return Ok(Some(self.head.run.interrupt())),
            }
        }
        Ok(self.head.exit)
    }

    fn notice(&mut self, notice: Notice) -> Result<()> {
        match notice {
            Notice::Ready(node) if self.uses_mpi() => {
                self.turn_away(node);
                Ok(())
            }
            Notice::Ready(node) => {
                let vacant = self.vacant_server();
                let role = |number| match vacant {
                    Some(number) => Role::GroupServer { number },
                    None => Role::GroupMember { number },
                };
                match self.head.employ(node, role) {
                    Role::GroupMember { .. } => self.decide(group::Event::Joined { member: node }),
                    Role::GroupServer { .. } => self.decide(group::Event::Changed { pace: None }),
                    _ => Ok(()),
                }
            }
            Notice::Lost { node, reason } => self.lost(&node, reason),
            Notice::Frame(node, Frame { body, payload }) => match body {
                Body::GroupRound(done) => self.done(node, &done),
                Body::GroupBroken(broken) => {
                    let (generation, round) = (broken.generation, broken.round);
                    self.decide(group::Event::Broken { member: node, generation, round })
                }
                Body::State(state) => self.take_piece(node, &state, &payload),
                Body::Learned(learned) => {
                    let proto::Learned { generation, round, whole } = learned;
                    self.decide(group::Event::Learned { member: node, generation, round, whole })
                }
                Body::StateWanted(wanted) => {
                    self.give_state(node, &wanted);
                    Ok(())
                }
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
            node.outbox.abort("a group by MPI takes no newcomers");
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
            Some(Role::GroupMember { .. } | Role::GroupServer { .. }) => "the group forms anew without it",
            Some(Role::Evaluator) => "the head measures instead",
            _ => "the run goes on",
        };
        self.head.tell_lost(node, &reason, consequence);
        if node.role == Some(Role::Evaluator) {
            self.head.evaluator_lost();
        }
        self.decide(match node.role {
            Some(Role::GroupServer { .. }) => group::Event::Changed { pace: None },
            _ => group::Event::Lost { member: node.number, reason },
        })?;
        if let Some(node) = self.head.recruit(Role::GroupMember { number: 0 }) {
            self.decide(group::Event::Joined { member: node })?;
        }
        if self.fetch.as_ref().is_some_and(|fetch| fetch.from == node.number) {
            self.fetch = None;
            self.fetch_from_another()?;
        }
        Ok(())
    }

    /// The member that was to give its state is gone. While rounds go on there will be other states. At the end of the
    /// run, another member has the same; if none is left, the last rounds are done again.
    fn fetch_from_another(&mut self) -> Result<()> {
        let registry = &self.head.registry;
        let members = self.view.as_ref().map(|view| view.members.as_slice()).unwrap_or_default();
        match members.iter().copied().find(|&member| registry.get(member).is_some()) {
            Some(other) if self.stopping || self.finished => self.fetch(other, 0, false),
            None if self.finished => {
                self.finished = false;
                self.choosing = None;
                self.group = new_group(self.head);
                self.enroll_members()?;
                return self.go_back("no member is left that has the parameters");
            }
            // What is due is lost with that member.
            _ => self.due = None,
        }
        self.count_rounds()
    }

    fn decide(&mut self, event: group::Event) -> Result<()> {
        let mut lost = None;
        for action in self.group.on(event, self.head.now()) {
            match action {
                group::Action::Halt { generation, members, reason } => {
                    if !reason.is_empty() {
                        self.head.run.tell(report::Event::Noted { message: reason });
                    }
                    self.send(&members, &Body::Halt(proto::Halt { generation }));
                }
                group::Action::Form { view, source, learners, reason } => {
                    // Of the first ones the joins tell, of a change what was chosen.
                    if self.view.is_some() && self.choosing.is_none() && !self.reshares {
                        let message = format!("the group goes on: {reason}");
                        self.head.run.tell(report::Event::Noted { message });
                    }
                    self.form(view, source, &learners);
                }
                group::Action::RoundDone { round, epoch_done } => {
                    let plan = plan_of(&self.head.run.job.schedule);
                    let units = self.view.as_ref().map_or(0, |view| plan.units_done(view, round));
                    let epoch_done = epoch_done.map(|epoch| epoch + 1);
                    self.uncounted.push_back(Uncounted { round, epoch_done, units });
                }
                group::Action::Expel { member, reason } => {
                    if let Some(node) = self.head.registry.get(member) {
                        node.outbox.abort(&reason);
                    }
                }
                group::Action::Waiting { reason } => {
                    self.head.run.tell(report::Event::Noted { message: reason })
                }
                group::Action::StateLost { reason, .. } => lost = Some(reason),
                group::Action::Finished { .. } => self.finished = true,
            }
        }
        match lost {
            Some(reason) => self.go_back(&reason),
            None => self.count_rounds(),
        }
    }

    /// The head has the parameters of its newest checkpoint. When all members are lost, those are the newest there are.
    fn go_back(&mut self, reason: &str) -> Result<()> {
        self.head.run.go_back(reason)?;
        self.rounds.clear();
        self.uncounted.clear();
        (self.due, self.fetch) = (None, None);
        let progress = &self.head.run.progress;
        (self.has, self.has_moments) = (Some(progress.round), true);
        self.decide(group::Event::Start { round: progress.round, units_done: progress.units })
    }

    fn send(&self, members: &[u64], body: &Body) {
        for node in members.iter().filter_map(|&member| self.head.registry.get(member)) {
            // One that is gone is heard of in the mail.
            let _ = node.outbox.send(body.clone());
        }
    }

    /// Begins to take the state of a round from a member; of its last one, if the round is 0.
    fn fetch(&mut self, from: u64, round: u64, parameters_only: bool) {
        if round > 0 && self.has == Some(round) && (self.has_moments || parameters_only) {
            return;
        }
        // From the first piece on, what the head had is no state any more.
        (self.has, self.has_moments) = (None, !parameters_only);
        let intake = Intake::new(&self.head.run.job.replica, round, parameters_only);
        self.fetch = Some(Fetch { from, intake });
        self.ask();
    }

    /// Asks for what is to come next of the state that is on its way.
    fn ask(&mut self) {
        let Some(Fetch { from, intake }) = &mut self.fetch else { return };
        let Some(node) = self.head.registry.get(*from) else { return };
        for wanted in intake.wanted() {
            let _ = node.outbox.send(Body::StateWanted(wanted));
        }
    }

    /// Takes a piece of the state that is on its way. One that does not fit costs the member, not the run.
    fn take_piece(&mut self, node: u64, state: &proto::State, payload: &[u8]) -> Result<()> {
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.from == node) else { return Ok(()) };
        if payload.is_empty() && !fetch.intake.is_whole() {
            // It has gone on meanwhile. What is due is lost.
            self.fetch = None;
            self.due = None;
            return self.count_rounds();
        }
        if let Err(error) = fetch.intake.take(&mut self.head.run.job.replica, state, payload) {
            self.head.warn(format!("refused the state of {}: {error:#}", self.head.name(node)));
            if let Some(node) = self.head.registry.get(node) {
                node.outbox.abort("its state does not fit the run");
            }
            return Ok(());
        }
        if !fetch.intake.is_whole() {
            self.ask();
            return Ok(());
        }
        self.has = Some(fetch.intake.round);
        self.fetch = None;
        self.head.run.progress.optimizer_steps = state.steps;
        self.use_state()
    }

    /// Answers a member that begins with the head's state.
    fn give_state(&self, node: u64, wanted: &proto::StateWanted) {
        let has_it = self.has == Some(wanted.round) && self.has_moments && self.fetch.is_none();
        if let Some(node) = self.head.registry.get(node).filter(|_| has_it) {
            let (state, payload) = piece_of(&self.head.run.job.replica, wanted.round, wanted);
            let _ = node.outbox.send(Frame { body: Body::State(state), payload });
        }
    }

    /// Does what is due with the state that the head has, once all members have done its round, and goes on from there.
    fn use_state(&mut self) -> Result<()> {
        self.carry_out_due();
        self.count_rounds()
    }

    fn carry_out_due(&mut self) {
        if self.has != Some(self.head.run.progress.round) {
            return;
        }
        if self.stopping {
            let exit = self.head.run.interrupt();
            self.head.exit = Some(exit);
        } else if let Some((_, due)) = self.due.take_if(|(round, _)| Some(*round) == self.has) {
            self.head.have_done(due);
        }
    }

    /// Counts the rounds that all members have done, up to one after which something is due with its state.
    fn count_rounds(&mut self) -> Result<()> {
        while self.due.is_none()
            && !self.is_taking_the_last_state()
            && let Some(done) = self.uncounted.pop_front()
        {
            self.count_round(&done)?;
        }
        Ok(())
    }

    /// Whether the run is to stop with a state that is on its way: the rounds after it do not count.
    fn is_taking_the_last_state(&self) -> bool {
        let round = self.head.run.progress.round;
        self.stopping && self.fetch.as_ref().is_some_and(|fetch| round > 0 && fetch.intake.round == round)
    }

    fn count_round(&mut self, done: &Uncounted) -> Result<()> {
        let Round { tally, .. } = self.rounds.remove(&done.round).unwrap_or_default();
        let schedule = &self.head.run.job.schedule;
        let before = self.head.run.progress.units;
        let step = schedule.step(before);
        let units = done.units.saturating_sub(before);
        // By the plan: one who is lost may have done its part and not said so.
        let units_done =
            (before..before + units).map(|place| Unit::at(place, schedule.units_per_epoch() as u32));
        let samples = schedule.samples_by_epoch(units_done.map(|unit| (unit.epoch, unit.index)));
        self.head.run.count(Update { tally: &tally, samples: &samples, units, lr: step.lr })?;
        let due = self.head.run.after_update(done.epoch_done.as_slice());
        if due.evaluation || due.checkpoint {
            self.due = Some((done.round, due));
            self.fetch_due()?;
        }
        self.carry_out_due();
        Ok(())
    }

    /// Asks for the state that something is due with, if it is not on its way.
    fn fetch_due(&mut self) -> Result<()> {
        let (Some((round, due)), false, None) = (self.due, self.stopping, &self.fetch) else { return Ok(()) };
        // The first member has kept it.
        let first = self.view.as_ref().and_then(|view| view.members.first().copied());
        match first.filter(|&first| self.head.registry.get(first).is_some()) {
            Some(first) => {
                self.fetch(first, round, !due.checkpoint);
                Ok(())
            }
            None => self.fetch_from_another(),
        }
    }
}

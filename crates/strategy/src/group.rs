use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use crate::keyed;
use crate::words::counted;

mod event;
mod plan;
#[cfg(test)]
mod tests;

pub use event::{Action, Event, Rule};
pub use plan::{Pace, Plan, Turns, View};

/// How many rounds a member can have done of which the head has not heard. Reports may be under way when a connection
/// ends, but not that many.
const MOST_UNREPORTED: u64 = 1000;

/// The head's side of an all-reduce group: who is in it, and where it goes on after a change.
///
/// The members exchange gradients among themselves; the head only forms groups, each with a generation of its own, so
/// that nothing that was said in a former group is taken for news of this one.
#[derive(Clone, Debug)]
pub struct Group {
    plan: Plan,
    /// Of the next view and those after it, if that is another.
    pace: Option<Pace>,
    rule: Rule,
    generation: u64,
    live: BTreeSet<u64>,
    phase: Phase,
    /// How many units are in the state that the run was started from, as long as no round was reported since: until
    /// then that state is as good as a member's.
    start: Option<u64>,
    /// The group that was formed last.
    view: Option<View>,
    /// The last group in which everybody had the state it began with. What is reported is counted from there.
    settled: Option<View>,
    /// Who has a state that this group has made, if perhaps an older one. A state from elsewhere, or of one that was
    /// out while a group was formed, may be of a round that the others have done differently.
    holders: BTreeSet<u64>,
    /// The members of the view that have not taken the state of the start yet.
    behind: BTreeSet<u64>,
    /// How far each member of the view is.
    done: BTreeMap<u64, u64>,
    /// Those who take the state while the members of the view go on.
    learners: BTreeMap<u64, Learner>,
    /// The last round of the view that all members and learners have done.
    in_step: u64,
    /// The last round that was reported as done.
    round: u64,
    /// How many members were missing when it was last said.
    missing: usize,
}

/// One who takes the state piece by piece, and hears the sums of all rounds meanwhile.
#[derive(Clone, Copy, Debug)]
struct Learner {
    /// Up to which round it has heard them.
    round: u64,
    /// It has all of the state, and waits to be named a member: until then no round is done.
    is_whole: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Not started.
    Gathering,
    /// Started; waiting for the members of the first group.
    Started,
    /// Halted: waiting until everybody has said how far it is.
    Halting {
        answers: BTreeMap<u64, u64>,
        since: Duration,
    },
    Running,
    Finished,
}

impl Group {
    /// A group without members.
    pub fn new(plan: Plan, rule: Rule) -> Self {
        assert!(plan.units_per_epoch > 0, "an epoch without a unit never ends");
        assert!(plan.pace.steps > 0, "rounds without a unit never end");
        Self {
            plan,
            pace: None,
            rule,
            generation: 0,
            live: BTreeSet::new(),
            phase: Phase::Gathering,
            start: None,
            view: None,
            settled: None,
            holders: BTreeSet::new(),
            behind: BTreeSet::new(),
            done: BTreeMap::new(),
            learners: BTreeMap::new(),
            in_step: 0,
            round: 0,
            missing: 0,
        }
    }

    /// What to do about `event`, in this order.
    pub fn on(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Joined { member } => {
                let is_new = self.live.insert(member);
                // Who has to take a state anyway waits for the end of a round.
                if !is_new || self.phase != Phase::Running || self.start.is_some() {
                    self.halt(format!("member {member} joins"), now, &mut actions);
                }
            }
            Event::Start { round, units_done } => self.start(round, units_done),
            Event::Lost { member, reason } => {
                let is_missed = self.phase != Phase::Running || self.takes_part(member);
                if self.live.remove(&member) && is_missed {
                    self.halt(format!("member {member} is lost: {reason}"), now, &mut actions);
                }
            }
            Event::Broken { member, generation, round } => {
                self.broken(member, generation, round, now, &mut actions);
            }
            Event::Done { member, generation, round } => {
                self.done(member, generation, round, &mut actions);
                self.take_in(now, &mut actions);
            }
            Event::Learned { member, generation, round, whole } => {
                self.learned(member, generation, Learner { round, is_whole: whole });
                self.take_in(now, &mut actions);
            }
            Event::Changed { pace } => {
                self.pace = pace.or(self.pace);
                self.halt(String::new(), now, &mut actions);
            }
            Event::Tick => self.expel_silent(now, &mut actions),
        }
        self.go_on(&mut actions);
        actions
    }

    /// When to send the next [`Event::Tick`], if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Halting { answers, since } if answers.len() < self.live.len() => {
                Some(*since + self.rule.answer)
            }
            _ => None,
        }
    }

    /// The live members in order of id.
    fn members(&self) -> impl Iterator<Item = u64> {
        self.live.iter().copied()
    }

    /// The group as it was formed last.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// Whether [`Action::Finished`] was said.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    fn start(&mut self, round: u64, units_done: u64) {
        if self.phase == Phase::Gathering {
            self.phase = Phase::Started;
            self.round = round;
            self.start = Some(units_done);
        }
    }

    /// Stops the group that runs or is about to, under a new generation. Whoever was asked before is asked again: an
    /// answer counts only for the membership it was asked in.
    fn halt(&mut self, reason: String, now: Duration, actions: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Running | Phase::Halting { .. }) {
            return;
        }
        self.generation += 1;
        self.phase = Phase::Halting { answers: BTreeMap::new(), since: now };
        let members: Vec<u64> = self.members().collect();
        if !members.is_empty() {
            actions.push(Action::Halt { generation: self.generation, members, reason });
        }
    }

    fn broken(&mut self, id: u64, generation: u64, round: u64, now: Duration, actions: &mut Vec<Action>) {
        if generation != self.generation || !self.live.contains(&id) {
            return;
        }
        match &mut self.phase {
            Phase::Halting { answers, .. } => {
                answers.insert(id, round);
            }
            Phase::Running => {
                self.halt(format!("the group broke at member {id} after round {round}"), now, actions);
            }
            _ => {}
        }
    }

    /// Also counts during a halt: what was done is done, and who has taken the state can hand it on.
    fn done(&mut self, member: u64, generation: u64, round: u64, actions: &mut Vec<Action>) {
        let Some(view) = self.view.as_ref().filter(|view| view.generation == generation) else { return };
        if !self.live.contains(&member) || self.phase == Phase::Finished {
            return;
        }
        if self.behind.contains(&member) {
            if round == view.round {
                self.behind.remove(&member);
                self.holders.insert(member);
            }
        } else if let Some(last) = self.done.get_mut(&member).filter(|last| **last + 1 == round) {
            // Rounds are done one after the other; anything else was said twice, or is a mistake.
            *last = round;
        }
        self.report(actions);
    }

    /// A learner has heard another round.
    fn learned(&mut self, member: u64, generation: u64, now: Learner) {
        if self.view.as_ref().is_none_or(|view| view.generation != generation) || !self.live.contains(&member)
        {
            return;
        }
        if let Some(learner) = self.learners.get_mut(&member).filter(|before| before.round + 1 == now.round) {
            *learner = now;
            if now.is_whole {
                self.holders.insert(member);
            }
        }
    }

    /// Whether somebody is in the group that was formed last.
    fn takes_part(&self, id: u64) -> bool {
        self.done.contains_key(&id) || self.learners.contains_key(&id)
    }

    /// Forms the group anew when all have done a round, if that makes a learner a member or takes a newcomer in: then
    /// the least is lost.
    fn take_in(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let learners = self.learners.values().map(|learner| learner.round);
        let by_all = self.done.values().copied().chain(learners).min().unwrap_or(0);
        if self.phase != Phase::Running || !self.behind.is_empty() || by_all <= self.in_step {
            return;
        }
        self.in_step = by_all;
        let whole = self.learners.iter().find(|(_, learner)| learner.is_whole && learner.round == by_all);
        let reason = match (whole, self.members().find(|&id| !self.takes_part(id))) {
            (Some((id, _)), _) => format!("member {id} has the state"),
            (None, Some(id)) => format!("member {id} joins"),
            (None, None) => return,
        };
        self.halt(reason, now, actions);
    }

    /// Reports what all members of the view have done, and the end when that is all there is to do.
    fn report(&mut self, actions: &mut Vec<Action>) {
        if !self.behind.is_empty() {
            return;
        }
        let Some(view) = self.view.clone() else { return };
        let by_all = self.done.values().copied().min().unwrap_or(view.round);
        self.report_up_to(view.round, actions);
        self.settled = Some(view.clone());
        self.report_up_to(by_all, actions);
        if self.plan.is_last(&view, self.round) {
            self.phase = Phase::Finished;
            actions.push(Action::Finished { members: view.members });
        }
    }

    fn report_up_to(&mut self, round: u64, actions: &mut Vec<Action>) {
        let Some(settled) = &self.settled else { return };
        while self.round < round && !self.plan.is_last(settled, self.round) {
            self.round += 1;
            self.start = None;
            let epoch_done = self.plan.epoch_done(settled, self.round);
            actions.push(Action::RoundDone { round: self.round, epoch_done });
        }
    }

    fn expel_silent(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Phase::Halting { answers, since } = &self.phase else { return };
        let waited = now.saturating_sub(*since);
        if waited < self.rule.answer {
            return;
        }
        let silent: Vec<u64> = self.members().filter(|id| !answers.contains_key(id)).collect();
        if silent.is_empty() {
            return;
        }
        for &member in &silent {
            self.live.remove(&member);
            let reason = format!("is out: it did not answer the halt for {:.1} s", waited.as_secs_f64());
            actions.push(Action::Expel { member, reason });
        }
        self.halt(format!("{} did not answer", counted(silent.len() as u64, "member")), now, actions);
    }

    fn go_on(&mut self, actions: &mut Vec<Action>) {
        match &self.phase {
            Phase::Gathering | Phase::Running | Phase::Finished => {}
            Phase::Started => {
                if !self.is_short(actions) {
                    self.generation += 1;
                    self.form_first(actions);
                }
            }
            Phase::Halting { answers, .. } => {
                let all_answered = answers.len() == self.live.len();
                let answers = if all_answered { answers.clone() } else { return };
                if !self.is_short(actions) {
                    self.form_again(&answers, actions);
                }
            }
        }
    }

    fn is_short(&mut self, actions: &mut Vec<Action>) -> bool {
        let at_least = self.rule.min_members.max(1);
        let missing = at_least.saturating_sub(self.live.len());
        if missing != mem::replace(&mut self.missing, missing) && missing > 0 {
            let reason = format!("{} of at least {at_least} members are there", self.live.len());
            actions.push(Action::Waiting { reason });
        }
        missing > 0
    }

    /// Begins from the state that the run was started from, which nobody is known to have yet.
    fn form_first(&mut self, actions: &mut Vec<Action>) {
        let Some(units_done) = self.start else { return self.lose_state(actions) };
        let view = self.view_at(self.round, units_done, self.members().collect());
        self.holders.clear();
        self.settled = None;
        self.form(view, None, Vec::new(), actions);
    }

    /// Goes on from the members that are farthest of those that have the group's state. All others learn it.
    fn form_again(&mut self, answers: &BTreeMap<u64, u64>, actions: &mut Vec<Action>) {
        let Some(round) =
            answers.iter().filter(|&(&id, &at)| self.has_state(id, at)).map(|(_, &at)| at).max()
        else {
            return self.form_first(actions);
        };
        let (ahead, learners): (Vec<u64>, Vec<u64>) =
            self.members().partition(|id| answers.get(id) == Some(&round) && self.has_state(*id, round));
        let source = ahead.first().copied();
        let units_done = self.units_done_after(round, actions);
        let view = self.view_at(round, units_done, ahead);
        self.form(view, source, learners, actions);
    }

    /// Whether a member that says it is after `round` can hand on that state. One that says 0 has none, and one that
    /// says less than what all had done has lost it.
    fn has_state(&self, id: u64, round: u64) -> bool {
        let plausible = round >= self.round && round - self.round <= MOST_UNREPORTED;
        self.holders.contains(&id) && round > 0 && plausible
    }

    fn lose_state(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Gathering;
        self.view = None;
        let reason = "no member of the group is left that has the parameters".to_owned();
        actions.push(Action::StateLost { round: self.round, reason });
    }

    /// How many units are in the state of `round`, which a member of the last view has.
    fn units_done_after(&mut self, round: u64, actions: &mut Vec<Action>) -> u64 {
        let Some(view) = self.view.clone() else { return 0 };
        if round > view.round && self.settled.as_ref() != Some(&view) {
            // A round takes everybody's part, so everybody had the state, whether we were told or not.
            self.report_up_to(view.round, actions);
            self.settled = Some(view.clone());
        }
        let began = if round >= view.round { Some(&view) } else { self.settled.as_ref() };
        began.map_or(0, |view| self.plan.units_done(view, round))
    }

    fn view_at(&mut self, round: u64, units_done: u64, members: Vec<u64>) -> View {
        if let Some(Pace { after, steps }) = self.pace.take() {
            assert!(steps > 0, "rounds without a unit never end");
            self.plan.pace = Pace { after: after.max(round), steps };
        }
        let (generation, pace) = (self.generation, self.plan.pace);
        View { generation, members, round, units_done, pace }
    }

    /// Without a source all members take the state of the start first.
    fn form(&mut self, view: View, source: Option<u64>, learners: Vec<u64>, actions: &mut Vec<Action>) {
        self.phase = Phase::Running;
        self.holders.retain(|id| view.members.contains(id));
        self.behind = keyed::set(view.members.iter().copied().filter(|_| source.is_none()));
        self.done = keyed::map(view.members.iter().map(|&id| (id, view.round)));
        let learner = Learner { round: view.round, is_whole: false };
        self.learners = keyed::map(learners.iter().map(|&id| (id, learner)));
        self.in_step = view.round;
        self.view = Some(view.clone());
        let meanwhile = match learners.len() {
            0 => String::new(),
            1 => ", 1 takes the state meanwhile".to_owned(),
            count => format!(", {count} take the state meanwhile"),
        };
        let members = counted(view.members.len() as u64, "member");
        let reason = format!("{members} after round {}{meanwhile}", view.round);
        actions.push(Action::Form { view, source, learners, reason });
        self.report(actions);
    }
}

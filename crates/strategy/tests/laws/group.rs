//! A group under joins, losses and broken links: whoever is left agrees, and everything counts once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bonfire_strategy::{Group, Unit, group};

use crate::chance::Chance;
use crate::for_each_seed;

/// The units of each round that made it, in place of parameters: two states are equal when their histories are.
type State = Vec<Vec<Unit>>;

#[derive(Clone, Debug)]
enum Order {
    Halt(u64),
    Form { view: group::View, learners: Vec<u64>, is_first: bool },
}

#[derive(Debug, Default)]
struct Member {
    alive: bool,
    state: State,
    /// The group it is in with who learns there, if it was not halted.
    view: Option<(group::View, Vec<u64>)>,
    /// Up to which round it has heard sums, as long as it does not have all of the state.
    learns: Option<u64>,
    /// It has learnt the state, and does nothing until it is named a member.
    waits: bool,
    /// Whether it has sent its part of the next round.
    entered: bool,
    orders: VecDeque<Order>,
    notes: VecDeque<group::Event>,
}

impl Member {
    /// Leaves its group. The last round of which it has the state.
    fn stop(&mut self) -> u64 {
        (self.view, self.entered, self.waits) = (None, false, false);
        match self.learns.take() {
            Some(_) => {
                self.state.clear();
                0
            }
            None => self.state.len() as u64,
        }
    }
}

struct Loop {
    chance: Chance,
    plan: group::Plan,
    group: Group,
    members: Vec<Member>,
    /// Who has sent its part of a round: (generation, round) to members and the state they sent it in. Learners have
    /// none.
    parts: BTreeMap<(u64, u64), BTreeMap<u64, Option<State>>>,
    /// The newest state that all had done, which the head could have saved.
    saved: State,
    round: u64,
    epochs_done: Vec<u64>,
    state_lost: bool,
    faults: u64,
    changes: u64,
    needed: usize,
}

impl Loop {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let plan = group::Plan {
            units_per_epoch: 1 + chance.below(12) as u32,
            epochs: Some(1 + chance.below(3)),
            max_rounds: None,
            pace: group::Pace { after: chance.below(6), steps: 1 + chance.below(5) },
            turns: seed.is_multiple_of(3).then_some(group::Turns { members: 1 + seed % 4, seed }),
        };
        let count = 1 + chance.index(5);
        let needed = 1 + chance.index(count.min(2));
        let rule = group::Rule { min_members: needed, answer: Duration::from_secs(5) };
        Self {
            group: Group::new(plan.clone(), rule),
            plan,
            members: (0..count).map(|_| Member::default()).collect(),
            parts: BTreeMap::new(),
            saved: Vec::new(),
            round: 0,
            epochs_done: Vec::new(),
            state_lost: false,
            faults: chance.below(10),
            changes: chance.below(3),
            needed,
            chance,
        }
    }

    fn run(&mut self) {
        for id in 0..self.members.len() {
            self.join(id);
        }
        self.tell(group::Event::Start { round: 0, units_done: 0 });
        let mut steps = 0;
        while !self.group.is_finished() || self.is_catching_up() {
            self.step();
            steps += 1;
            assert!(steps < 50_000, "no end in sight: {:#?} {:#?}", self.group, self.members);
        }
        self.check_end();
    }

    /// One thing that can happen next, whichever.
    fn step(&mut self) {
        let id = self.chance.index(self.members.len());
        if self.changes > 0 && self.chance.percent(2) {
            self.changes -= 1;
            let pace =
                group::Pace { after: self.round + self.chance.below(4), steps: 1 + self.chance.below(5) };
            let is_same = self.chance.percent(20);
            self.tell(group::Event::Changed { pace: (!is_same).then_some(pace) });
        }
        match self.chance.below(12) {
            0..4 => self.deliver_order(id),
            4..7 => {
                if let Some(note) = self.members[id].notes.pop_front() {
                    self.tell(note);
                }
            }
            7..10 => self.progress(id),
            10 => self.notice_break(id),
            _ => self.fault(id),
        }
    }

    fn join(&mut self, id: usize) {
        let unnoticed = self.chance.percent(30);
        let member = &mut self.members[id];
        member.alive = true;
        // It may be back before its loss was noticed.
        if unnoticed && matches!(member.notes.back(), Some(group::Event::Lost { .. })) {
            member.notes.pop_back();
        }
        member.notes.push_back(group::Event::Joined { member: id as u64 });
    }

    fn fault(&mut self, id: usize) {
        if self.members[id].alive {
            let happens = self.faults > 0 && !self.group.is_finished() && self.chance.percent(20);
            if happens {
                self.faults -= 1;
                self.lose(id);
            }
        } else if id < self.needed || self.chance.percent(50) {
            self.join(id);
        }
    }

    /// The connection ends, and often the process with it. What was on its way may be lost with it.
    fn lose(&mut self, id: usize) {
        let process_ends = self.chance.percent(60);
        let member = &mut self.members[id];
        if process_ends {
            member.state.clear();
        }
        member.alive = false;
        member.stop();
        member.orders.clear();
        let kept = self.chance.index(member.notes.len() + 1);
        member.notes.truncate(kept);
        let reason = "closed".to_owned();
        member.notes.push_back(group::Event::Lost { member: id as u64, reason });
    }

    fn deliver_order(&mut self, id: usize) {
        let member = &mut self.members[id];
        match member.orders.pop_front() {
            None => {}
            Some(Order::Halt(generation)) => {
                let round = member.stop();
                member.notes.push_back(group::Event::Broken { member: id as u64, generation, round });
            }
            Some(Order::Form { view, learners, is_first }) => {
                member.learns = learners.contains(&(id as u64)).then_some(view.round);
                if is_first {
                    member.state = self.saved.clone();
                    let (generation, round) = (view.generation, view.round);
                    member.notes.push_back(group::Event::Done { member: id as u64, generation, round });
                }
                let is_there = member.state.len() as u64 == view.round;
                assert!(member.learns.is_some() || is_there, "it is where the group is");
                member.view = Some((view, learners));
            }
        }
    }

    /// A member sends its part of a round, or ends the round when all parts are there.
    fn progress(&mut self, id: usize) {
        let Some((view, learners)) = self.members[id].view.clone() else { return };
        let member = &mut self.members[id];
        let last = member.learns.unwrap_or(member.state.len() as u64);
        if member.waits || self.plan.is_last(&view, last) {
            return;
        }
        let round = last + 1;
        let parts = self.parts.entry((view.generation, round)).or_default();
        if !member.entered {
            parts.insert(id as u64, member.learns.is_none().then(|| member.state.clone()));
            member.entered = true;
        } else if parts.len() == view.members.len() + learners.len() {
            let states: BTreeSet<&State> = parts.values().flatten().collect();
            let generation = view.generation;
            assert_eq!(states.len(), 1, "round {round} of generation {generation} from unequal states");
            let state = states.first().map(|state| (*state).clone()).unwrap_or_default();
            let units = self.units_in(&view, round);
            self.end_round(id, (generation, round), [state, vec![units]].concat());
        }
    }

    /// A member has done a round, after which all who have the state have this one. A learner may have it, too.
    fn end_round(&mut self, id: usize, (generation, round): (u64, u64), state: State) {
        let whole = self.chance.percent(40);
        let member = &mut self.members[id];
        member.entered = false;
        let id = id as u64;
        let note = match &mut member.learns {
            Some(learns) if !whole => {
                *learns = round;
                group::Event::Learned { member: id, generation, round, whole }
            }
            Some(_) => {
                (member.learns, member.waits) = (None, true);
                group::Event::Learned { member: id, generation, round, whole }
            }
            None => group::Event::Done { member: id, generation, round },
        };
        if member.learns.is_none() {
            member.state = state;
        }
        member.notes.push_back(note);
    }

    /// The units of all members in a round: the first ones of all, the second ones of all, and so on.
    fn units_in(&self, view: &group::View, round: u64) -> Vec<Unit> {
        let of = |index| self.plan.units_of(view, round, index).collect();
        let all: Vec<Vec<Unit>> = (0..view.members.len()).map(of).collect();
        let steps = all.iter().map(Vec::len).max().unwrap_or(0);
        assert!(steps as u64 <= view.pace.steps_in(round));
        (0..steps).flat_map(|step| all.iter().filter_map(move |units| units.get(step)).copied()).collect()
    }

    /// A member sees its neighbour gone before the head does; or a link fails between two that are well.
    fn notice_break(&mut self, id: usize) {
        let Some((view, learners)) = self.members[id].view.clone() else { return };
        let mut others = view.members.iter().chain(&learners);
        let neighbour_gone = others.any(|&other| !self.members[other as usize].alive);
        let link_fails = self.faults > 0 && self.chance.percent(5);
        if !(neighbour_gone || link_fails) || self.group.is_finished() {
            return;
        }
        self.faults -= u64::from(!neighbour_gone);
        let member = &mut self.members[id];
        let (generation, round) = (view.generation, member.stop());
        member.notes.push_back(group::Event::Broken { member: id as u64, generation, round });
    }

    fn tell(&mut self, event: group::Event) {
        for action in self.group.on(event, Duration::ZERO) {
            self.does(action);
        }
    }

    fn does(&mut self, action: group::Action) {
        match action {
            group::Action::Halt { generation, members, .. } => {
                for id in members {
                    self.order(id, Order::Halt(generation));
                }
            }
            group::Action::Form { view, source, learners, .. } => {
                assert!(view.members.len() + learners.len() >= self.needed);
                for &id in view.members.iter().chain(&learners) {
                    let (view, learners, is_first) = (view.clone(), learners.clone(), source.is_none());
                    self.order(id, Order::Form { view, learners, is_first });
                }
            }
            group::Action::RoundDone { round, epoch_done } => {
                assert_eq!(round, self.round + 1, "every round is reported once");
                self.round = round;
                self.epochs_done.extend(epoch_done);
                // Only a member of this group has its state; another may have done the round differently.
                let view = self.group.view();
                let has_it = |m: &&Member| {
                    let is_in = m.view.as_ref().map(|(view, _)| view) == view && m.learns.is_none();
                    is_in && m.state.len() as u64 >= round
                };
                if let Some(member) = self.members.iter().find(has_it) {
                    self.saved = member.state[..round as usize].to_vec();
                }
            }
            group::Action::StateLost { round, .. } => {
                assert_eq!(round, self.round);
                self.state_lost = true;
                self.round = self.saved.len() as u64;
                let units_done = self.saved.iter().map(|units| units.len() as u64).sum();
                self.tell(group::Event::Start { round: self.round, units_done });
            }
            group::Action::Finished { members, .. } => assert!(!members.is_empty()),
            group::Action::Expel { .. } => panic!("no time passes here"),
            group::Action::Waiting { .. } => {}
        }
    }

    /// An order to a member that is gone, or back on another connection of which the head has not heard, is lost.
    fn order(&mut self, id: u64, order: Order) {
        let member = &mut self.members[id as usize];
        let reconnected = member.notes.iter().any(|note| matches!(note, group::Event::Joined { .. }));
        if member.alive && !reconnected {
            member.orders.push_back(order);
        }
    }

    fn is_catching_up(&self) -> bool {
        self.members.iter().any(|member| member.alive && !member.orders.is_empty())
    }

    fn check_end(&self) {
        let last = self.group.view().expect("a group was formed");
        let at_the_end =
            |member: &&Member| member.alive && member.view.as_ref().is_some_and(|(view, _)| view == last);
        let survivors = last.members.iter().map(|&id| &self.members[id as usize]).filter(at_the_end);
        let states: BTreeSet<&State> = survivors.map(|member| &member.state).collect();
        assert!(states.len() <= 1, "survivors are equal");
        // Everybody may be gone after the last round was reported.
        let Some(state) = states.first() else { return };
        let total = u64::from(self.plan.units_per_epoch) * self.plan.epochs.unwrap_or(0);
        let all: Vec<Unit> = state.iter().flatten().copied().collect();
        let expect: Vec<Unit> = (0..total).map(|place| Unit::at(place, self.plan.units_per_epoch)).collect();
        assert_eq!(all, expect, "every unit is done once, in order");
        if !self.state_lost {
            assert_eq!(self.round, state.len() as u64);
            assert_eq!(self.epochs_done, self.epochs_of(state), "an epoch ends once, with its last round");
        }
        assert_eq!(self.epochs_done.last().map(|epoch| epoch + 1), self.plan.epochs);
    }

    /// The epochs that end with a round of this history; the last one, when several end with the same.
    fn epochs_of(&self, state: &State) -> Vec<u64> {
        let (mut units, mut ended, mut epochs) = (0, 0, Vec::new());
        for round in state {
            units += round.len() as u64;
            let now = units / u64::from(self.plan.units_per_epoch);
            epochs.extend((now > ended).then(|| now - 1));
            ended = now;
        }
        epochs
    }
}

#[test]
fn survivors_agree() {
    for_each_seed(4000, |seed| Loop::new(seed).run());
}

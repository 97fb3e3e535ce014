use std::ops::Range;

use crate::Unit;

/// What a group has to do in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub units_per_epoch: u32,
    /// `None` for endless epochs.
    pub epochs: Option<u64>,
    /// The round the run ends with, if the epochs do not end it before.
    pub max_rounds: Option<u64>,
    /// Of the views to come.
    pub pace: Pace,
    /// Who works in a round, if not all members do.
    pub turns: Option<Turns>,
}

/// Some members work in a round, others in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// So many at a time.
    pub members: u64,
    /// Who these are follows from it, and from the round.
    pub seed: u64,
}

/// How many units a member does in a round, one after the other, before all exchange what they have learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Up to this round it is one.
    pub after: u64,
    /// And from then on as many.
    pub steps: u64,
}

/// A group as it was formed: who is in it, in which order, and where it began.
///
/// Rounds are numbered as versions are: round 1 makes version 1. A view at `round` begins with round `round + 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub generation: u64,
    /// In order.
    pub members: Vec<u64>,
    /// The last round that was done before this view.
    pub round: u64,
    /// How many units were done before this view.
    pub units_done: u64,
    pub pace: Pace,
}

impl Plan {
    /// The units that the `index`-th member of `view` does in `round`, one after the other; none when the round has no
    /// unit for it. All members do their first one, then all their second one: so each unit lies where it would lie if
    /// there were as many rounds of one unit a member.
    pub fn units_of(&self, view: &View, round: u64, index: usize) -> impl Iterator<Item = Unit> + use<> {
        let members = self.workers(view);
        let is_in = round > view.round && self.max_rounds.is_none_or(|bound| round <= bound);
        assert!(index < view.members.len(), "a group of {} has no member {index}", view.members.len());
        let turn = self.turn(view, round, index).filter(|_| is_in);
        let steps = if turn.is_some() { view.pace.steps_in(round) } else { 0 };
        let begin = self.place(view, round.saturating_sub(1)).saturating_add(turn.unwrap_or(0));
        let (total, units_per_epoch) = (self.total(), self.units_per_epoch);
        (0..steps)
            .map(move |step| begin.saturating_add(step.saturating_mul(members)))
            .take_while(move |place| total.is_none_or(|total| *place < total))
            .map(move |place| Unit::at(place, units_per_epoch))
    }

    /// The first of the units of one epoch that some members do at the same time in `round`, the `index`-th among them,
    /// and who they are, where members do one unit a round. None when the round has no unit for it.
    pub fn together(&self, view: &View, round: u64, index: usize) -> Option<(Unit, Range<usize>)> {
        let unit = |index| self.units_of(view, round, index).next();
        let epoch = unit(index)?.epoch;
        let is_of_it = |index: &usize| unit(*index).is_some_and(|unit| unit.epoch == epoch);
        let begin = (0..index).rev().take_while(is_of_it).last().unwrap_or(index);
        let end = (index + 1..view.members.len()).take_while(is_of_it).last().unwrap_or(index) + 1;
        Some((unit(begin)?, begin..end))
    }

    /// Whether nothing is left to do after `round`.
    pub fn is_last(&self, view: &View, round: u64) -> bool {
        self.max_rounds.is_some_and(|bound| round >= bound)
            || self.total().is_some_and(|total| self.place(view, round) >= total)
    }

    /// How many units are done after `round`.
    pub fn units_done(&self, view: &View, round: u64) -> u64 {
        let place = self.place(view, round);
        self.total().map_or(place, |total| place.min(total))
    }

    /// The last epoch that is complete after `round` and was not before it.
    pub fn epoch_done(&self, view: &View, round: u64) -> Option<u64> {
        let epochs = |round| self.units_done(view, round) / u64::from(self.units_per_epoch);
        let (before, after) = (epochs(round - 1), epochs(round));
        (after > before).then(|| after - 1)
    }

    /// How many members of a view work in a round.
    pub fn workers(&self, view: &View) -> u64 {
        let members = view.members.len() as u64;
        self.turns.map_or(members, |turns| turns.members.min(members))
    }

    /// The place of the `index`-th member among those who work in `round`; none if it does not.
    fn turn(&self, view: &View, round: u64, index: usize) -> Option<u64> {
        let Some(turns) = self.turns.filter(|turns| turns.members < view.members.len() as u64) else {
            return Some(index as u64);
        };
        let lot = |index: usize| (lot(turns.seed, round, view.members[index]), index);
        let is_among = |index: usize| {
            let own = lot(index);
            let before = (0..view.members.len()).filter(|&other| lot(other) < own).count();
            (before as u64) < turns.members
        };
        is_among(index).then(|| (0..index).filter(|&other| is_among(other)).count() as u64)
    }

    /// How many units lie before the first one after `round`, in a plan without end.
    fn place(&self, view: &View, round: u64) -> u64 {
        let steps = view.pace.steps_up_to(round).saturating_sub(view.pace.steps_up_to(view.round));
        view.units_done.saturating_add(steps.saturating_mul(self.workers(view)))
    }

    fn total(&self) -> Option<u64> {
        self.epochs.map(|epochs| epochs.saturating_mul(u64::from(self.units_per_epoch)))
    }
}

impl Pace {
    /// One unit a member and round, always.
    pub const UNIT: Self = Self { after: 0, steps: 1 };

    /// How many units a member does in a round.
    pub fn steps_in(self, round: u64) -> u64 {
        if round > self.after { self.steps } else { 1 }
    }

    /// How many units a member does in all rounds up to this one.
    fn steps_up_to(self, round: u64) -> u64 {
        let later = round.saturating_sub(self.after);
        round.min(self.after).saturating_add(later.saturating_mul(self.steps))
    }
}

/// What a member draws in a round: the lowest ones work.
fn lot(seed: u64, round: u64, member: u64) -> u64 {
    // The finaliser of SplitMix64, one number after the other.
    [round, member].iter().fold(seed, |lot, number| {
        let mixed = (lot ^ number).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The units of all members of a view in a round.
    fn units(plan: &Plan, view: &View, round: u64) -> Vec<Vec<(u64, u32)>> {
        let of = |i| plan.units_of(view, round, i).map(|unit| (unit.epoch, unit.index)).collect();
        (0..view.members.len()).map(of).collect()
    }

    #[test]
    fn every_unit_is_somebodys_once() {
        let plan =
            Plan { units_per_epoch: 4, epochs: Some(2), max_rounds: None, pace: Pace::UNIT, turns: None };
        let view = View { generation: 2, members: vec![3, 5, 8], round: 10, units_done: 1, pace: Pace::UNIT };
        let rounds = 11..=13;
        assert!(rounds.clone().all(|round| plan.is_last(&view, round) == (round == 13)));
        let units: Vec<_> = rounds.map(|round| units(&plan, &view, round)).collect();
        assert_eq!(
            units,
            [
                vec![vec![(0, 1)], vec![(0, 2)], vec![(0, 3)]],
                vec![vec![(1, 0)], vec![(1, 1)], vec![(1, 2)]],
                vec![vec![(1, 3)], vec![], vec![]],
            ]
        );
        let epochs: Vec<_> = (11..=13).map(|round| plan.epoch_done(&view, round)).collect();
        assert_eq!(epochs, [Some(0), None, Some(1)]);
        assert_eq!(plan.units_done(&view, 13), 8);
    }

    #[test]
    fn members_take_turns() {
        let turns = Some(Turns { members: 2, seed: 7 });
        let plan = Plan { units_per_epoch: 10, epochs: Some(30), max_rounds: None, pace: Pace::UNIT, turns };
        let view =
            View { generation: 1, members: vec![4, 5, 6, 9], round: 0, units_done: 0, pace: Pace::UNIT };
        let (mut worked, mut done) = ([0; 4], Vec::new());
        for round in 1..=150 {
            let all = units(&plan, &view, round);
            assert_eq!(all.iter().filter(|units| !units.is_empty()).count(), 2, "round {round}");
            all.iter().enumerate().for_each(|(i, units)| worked[i] += units.len());
            done.extend(all.into_iter().flatten());
        }
        assert!(plan.is_last(&view, 150) && !plan.is_last(&view, 149));
        done.sort_unstable();
        let expect: Vec<(u64, u32)> = (0..30).flat_map(|epoch| (0..10).map(move |i| (epoch, i))).collect();
        assert_eq!(done, expect, "every unit once");
        assert!(worked.iter().all(|worked| (55..=95).contains(worked)), "{worked:?}");
        let few = View { members: vec![4], ..view };
        assert_eq!(units(&plan, &few, 1), [vec![(0, 0)]], "who is left works always");
    }

    #[test]
    fn units_of_one_epoch_are_done_together() {
        let plan =
            Plan { units_per_epoch: 4, epochs: Some(2), max_rounds: None, pace: Pace::UNIT, turns: None };
        let view = View { generation: 2, members: vec![3, 5, 8], round: 0, units_done: 0, pace: Pace::UNIT };
        let check = |round, index, expect: Option<((u64, u32), Range<usize>)>| {
            let found = plan.together(&view, round, index);
            assert_eq!(found.map(|(unit, range)| ((unit.epoch, unit.index), range)), expect);
        };
        (0..3).for_each(|index| check(1, index, Some(((0, 0), 0..3))));
        check(2, 0, Some(((0, 3), 0..1)));
        (1..3).for_each(|index| check(2, index, Some(((1, 0), 1..3))));
        (0..2).for_each(|index| check(3, index, Some(((1, 2), 0..2))));
        check(3, 2, None);
    }

    #[test]
    fn several_units_a_round_lie_where_they_would_in_several_rounds() {
        let pace = Pace { after: 6, steps: 3 };
        let plan = Plan { units_per_epoch: 8, epochs: Some(1), max_rounds: None, pace, turns: None };
        let view = View { generation: 1, members: vec![0, 1], round: 5, units_done: 1, pace };
        assert_eq!(units(&plan, &view, 6), [vec![(0, 1)], vec![(0, 2)]], "one each at first");
        assert_eq!(units(&plan, &view, 7), [vec![(0, 3), (0, 5), (0, 7)], vec![(0, 4), (0, 6)]]);
        assert_eq!(units(&plan, &view, 8), [vec![], vec![]]);
        assert!(!plan.is_last(&view, 6) && plan.is_last(&view, 7));
        assert_eq!((plan.units_done(&view, 6), plan.units_done(&view, 7)), (3, 8));
        assert_eq!(plan.epoch_done(&view, 7), Some(0));
    }

    #[test]
    fn a_bound_on_rounds_ends_endless_epochs() {
        let plan =
            Plan { units_per_epoch: 4, epochs: None, max_rounds: Some(2), pace: Pace::UNIT, turns: None };
        let view = View { generation: 1, members: vec![0], round: 0, units_done: 0, pace: Pace::UNIT };
        assert!(!plan.is_last(&view, 1));
        assert!(plan.is_last(&view, 2));
        assert_eq!(plan.units_of(&view, 0, 0).next(), None, "before the view");
        assert_eq!(plan.units_of(&view, 3, 0).next(), None, "after the bound");
    }
}

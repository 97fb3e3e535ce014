//! What a member is to compute in a round.

use bonfire_data::Cut;
use bonfire_strategy::shares::whole_steps;
use bonfire_strategy::{Unit, group};

use super::Formed;
use crate::trainer::Task;

/// A step that a member makes by itself.
pub(super) struct LocalStep {
    pub unit: Unit,
    /// How many units are done before it by the schedule.
    pub place: u64,
}

impl Formed {
    /// What this member is to compute in a round, if anything: with unequal shares a part of what all have together.
    pub(super) fn task(&self, plan: &group::Plan, round: u64) -> Option<Task> {
        let unit = plan.units_of(&self.view, round, self.index).next()?;
        let Some(shares) = &self.shares else { return Some(unit.into()) };
        let (first, members) = plan.together(&self.view, round, self.index)?;
        let shares = shares[members.clone()].to_vec();
        let differ = shares.iter().any(|share| *share != shares[0]);
        let place = (self.index - members.start) as u32;
        Some(Task { unit, cut: differ.then_some(Cut { first: first.index, place, shares }) })
    }

    /// The steps that this member makes by itself in a round. Where shares are unequal it is the number of steps that
    /// differs: the units of the round are dealt out like cards, to who makes more of them more often.
    pub(super) fn steps(&self, plan: &group::Plan, round: u64) -> Vec<LocalStep> {
        let (begin, members) = (plan.units_done(&self.view, round - 1), plan.workers(&self.view));
        let units_per_epoch = plan.units_per_epoch;
        let step = |unit: Unit| {
            let offset = unit.place(units_per_epoch) - begin;
            LocalStep { unit, place: begin + offset - offset % members }
        };
        let Some(shares) = &self.shares else {
            return plan.units_of(&self.view, round, self.index).map(step).collect();
        };
        let is_over = plan.is_last(&self.view, round - 1);
        let end = if is_over { begin } else { plan.units_done(&self.view, round) };
        let all = self.view.pace.steps_in(round).saturating_mul(members) as u32;
        let cut = Cut { first: 0, place: self.index as u32, shares: whole_steps(shares, all) };
        let places = cut.places(all as usize).map(|place| begin + place as u64);
        places.filter(|place| *place < end).map(|place| step(Unit::at(place, units_per_epoch))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_strategy::group::{Pace, Plan, View};

    /// The units of all members in the rounds of a run of two epochs of 10 units, with what the schedule has before.
    fn steps(shares: Option<&[u32]>, steps: u64, max_rounds: Option<u64>) -> Vec<Vec<Vec<(u64, u64)>>> {
        let pace = Pace { after: 0, steps };
        let epochs = max_rounds.is_none().then_some(2);
        let plan = Plan { units_per_epoch: 10, epochs, max_rounds, pace, turns: None };
        let view = View { generation: 1, members: vec![3, 5], round: 0, units_done: 0, pace };
        let of = |index: usize, round: u64| {
            let shares = shares.map(<[u32]>::to_vec);
            let (links, servers) = (Vec::new(), Vec::new());
            let formed = Formed { view: view.clone(), index, links, servers, is_measured: false, shares };
            let steps = formed.steps(&plan, round);
            steps.iter().map(|step| (step.unit.place(10), step.place)).collect()
        };
        (1..=8).map(|round| (0..2).map(|index| of(index, round)).collect()).collect()
    }

    #[test]
    fn who_is_faster_makes_more_steps() {
        let rounds = steps(Some(&[1, 3]), 4, None);
        assert_eq!(rounds[0][0], [(1, 0), (5, 4)]);
        assert_eq!(rounds[0][1], [(0, 0), (2, 2), (3, 2), (4, 4), (6, 6), (7, 6)]);
        assert_eq!(rounds[2], [vec![(17, 16)], vec![(16, 16), (18, 18), (19, 18)]], "what is left");
        assert_eq!(rounds[3], [vec![], vec![]]);
        for shares in [[1, 3], [0, 1], [7, 1], [100, 1]] {
            for count in [2, 3, 4, 7] {
                let all = steps(Some(&shares), count, None);
                let mut units: Vec<u64> = all.iter().flatten().flatten().map(|step| step.0).collect();
                units.sort_unstable();
                assert_eq!(units, (0..20).collect::<Vec<u64>>(), "{shares:?} of {count}: every unit once");
            }
        }
    }

    #[test]
    fn equal_shares_are_those_of_equal_members() {
        for count in [2, 3, 5] {
            assert_eq!(steps(Some(&[32, 32]), count, None), steps(None, count, None));
        }
        assert_eq!(steps(Some(&[1, 3]), 4, Some(2))[2], [vec![], vec![]], "rounds end the run");
    }
}

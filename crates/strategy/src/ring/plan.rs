use crate::Unit;

/// What a ring has to do in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub units_per_epoch: u32,
    /// `None` for endless epochs.
    pub epochs: Option<u64>,
    /// The round the run ends with, if the epochs do not end it before.
    pub max_rounds: Option<u64>,
}

/// A ring as it was formed: who is in it, in which order, and where it began.
///
/// Rounds are numbered as versions are: round 1 makes version 1. A view at `round` begins with round `round + 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub generation: u64,
    /// In order around the ring.
    pub members: Vec<u64>,
    /// The last round that was done before this view.
    pub round: u64,
    /// How many units were done before this view.
    pub units_done: u64,
}

impl Plan {
    /// The unit that the `index`-th member of `view` does in `round`; `None` when the round has no unit for it.
    pub fn unit_of(&self, view: &View, round: u64, index: usize) -> Option<Unit> {
        if round <= view.round || self.max_rounds.is_some_and(|bound| round > bound) {
            return None;
        }
        assert!(index < view.members.len(), "a ring of {} has no member {index}", view.members.len());
        let place = view.place(round - 1).saturating_add(index as u64);
        let within = self.total().is_none_or(|total| place < total);
        within.then(|| Unit::at(place, self.units_per_epoch))
    }

    /// Whether nothing is left to do after `round`.
    pub fn is_last(&self, view: &View, round: u64) -> bool {
        self.max_rounds.is_some_and(|bound| round >= bound)
            || self.total().is_some_and(|total| view.place(round) >= total)
    }

    /// How many units are done after `round`.
    pub fn units_done(&self, view: &View, round: u64) -> u64 {
        let place = view.place(round);
        self.total().map_or(place, |total| place.min(total))
    }

    /// The last epoch that is complete after `round` and was not before it.
    pub fn epoch_done(&self, view: &View, round: u64) -> Option<u64> {
        let epochs = |round| self.units_done(view, round) / u64::from(self.units_per_epoch);
        let (before, after) = (epochs(round - 1), epochs(round));
        (after > before).then(|| after - 1)
    }

    fn total(&self) -> Option<u64> {
        self.epochs.map(|epochs| epochs.saturating_mul(u64::from(self.units_per_epoch)))
    }
}

impl View {
    /// How many units lie before the first one after `round`, in a plan without end.
    fn place(&self, round: u64) -> u64 {
        let rounds = round.saturating_sub(self.round);
        self.units_done.saturating_add(rounds.saturating_mul(self.members.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_somebodys_once() {
        let plan = Plan { units_per_epoch: 4, epochs: Some(2), max_rounds: None };
        let view = View { generation: 2, members: vec![3, 5, 8], round: 10, units_done: 1 };
        let rounds = 11..=13;
        assert!(rounds.clone().all(|round| plan.is_last(&view, round) == (round == 13)));
        let units: Vec<Vec<_>> = rounds
            .map(|round| (0..3).map(|i| plan.unit_of(&view, round, i).map(|u| (u.epoch, u.index))).collect())
            .collect();
        assert_eq!(
            units,
            [
                vec![Some((0, 1)), Some((0, 2)), Some((0, 3))],
                vec![Some((1, 0)), Some((1, 1)), Some((1, 2))],
                vec![Some((1, 3)), None, None],
            ]
        );
        let epochs: Vec<_> = (11..=13).map(|round| plan.epoch_done(&view, round)).collect();
        assert_eq!(epochs, [Some(0), None, Some(1)]);
        assert_eq!(plan.units_done(&view, 13), 8);
    }

    #[test]
    fn a_bound_on_rounds_ends_endless_epochs() {
        let plan = Plan { units_per_epoch: 4, epochs: None, max_rounds: Some(2) };
        let view = View { generation: 1, members: vec![0], round: 0, units_done: 0 };
        assert!(!plan.is_last(&view, 1));
        assert!(plan.is_last(&view, 2));
        assert_eq!(plan.unit_of(&view, 0, 0), None, "before the view");
        assert_eq!(plan.unit_of(&view, 3, 0), None, "after the bound");
    }
}

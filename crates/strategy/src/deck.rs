use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::keyed;

/// One batch of the training data: the `index`-th of its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit {
    /// Which pass over the data, from 0.
    pub epoch: u64,
    /// Which batch of that pass, from 0.
    pub index: u32,
}

impl Unit {
    /// The `place`-th unit of all epochs laid end to end.
    pub fn at(place: u64, units_per_epoch: u32) -> Self {
        let per_epoch = u64::from(units_per_epoch);
        Self { epoch: place / per_epoch, index: (place % per_epoch) as u32 }
    }

    /// Where it lies when all epochs are laid end to end.
    pub fn place(self, units_per_epoch: u32) -> u64 {
        self.epoch.saturating_mul(u64::from(units_per_epoch)).saturating_add(u64::from(self.index))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {} of epoch {}", self.index, self.epoch)
    }
}

/// A unit was named that nobody has in work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOut(pub(crate) Unit);

impl fmt::Display for NotOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not in anybody's hands; only a unit that was dealt can be done or given back",
            self.0
        )
    }
}

impl std::error::Error for NotOut {}

/// Which units are still to be done.
///
/// A unit is in the deck, out (somebody works on it) or done. It leaves `out` exactly once per deal, so that no unit
/// can be counted twice, whatever the members claim.
#[derive(Clone, Debug)]
pub struct Deck {
    units_per_epoch: u32,
    epochs: Option<u64>,
    /// The place of the next unit that was never dealt.
    next: u64,
    /// Ordered, so that what comes back is dealt oldest first, in whatever order it came.
    returned: BTreeSet<Unit>,
    out: BTreeSet<Unit>,
    /// How many units of an epoch are done, for the epochs that have begun and not ended.
    begun: BTreeMap<u64, u32>,
    done: u64,
}

impl Deck {
    /// A deck of all units of `epochs` epochs; of endless ones when that is `None`.
    pub fn new(units_per_epoch: u32, epochs: Option<u64>) -> Self {
        Self::resume(units_per_epoch, epochs, 0, &[])
    }

    /// A deck of which `done_units` units are done already: the first ones, but for those that were `open`.
    pub fn resume(units_per_epoch: u32, epochs: Option<u64>, done_units: u64, open: &[Unit]) -> Self {
        assert!(units_per_epoch > 0, "an epoch without a unit never ends");
        let open = keyed::set(open.iter().copied());
        let mut deck = Self {
            units_per_epoch,
            epochs,
            next: done_units.saturating_add(open.len() as u64),
            returned: BTreeSet::new(),
            out: BTreeSet::new(),
            begun: BTreeMap::new(),
            done: 0,
        };
        if let Some(total) = deck.total() {
            deck.next = deck.next.min(total);
        }
        // What lies beyond is dealt anyway.
        deck.returned = keyed::set(open.into_iter().filter(|unit| unit.place(units_per_epoch) < deck.next));
        deck.done = deck.next - deck.returned.len() as u64;
        deck.count_begun();
        deck
    }

    /// Counts what is done of the epochs that have begun and not ended.
    fn count_begun(&mut self) {
        let per_epoch = self.units_per_epoch;
        let last = Unit::at(self.next, per_epoch);
        let first = self.returned.first().map_or(last.epoch, |unit| unit.epoch.min(last.epoch));
        for epoch in first..=last.epoch {
            let dealt = if epoch == last.epoch { last.index } else { per_epoch };
            let open = self.returned.iter().filter(|unit| unit.epoch == epoch).count() as u32;
            let done = dealt - open;
            if done > 0 && done < per_epoch {
                self.begun.insert(epoch, done);
            }
        }
    }

    /// The units that were dealt and are not done. With the number of those that are it says where to resume.
    pub(crate) fn open(&self) -> Vec<Unit> {
        self.returned.union(&self.out).copied().collect()
    }

    /// The next unit to do: what was given back first, the oldest of it first, then what was never dealt. `None` when
    /// all units are out or done.
    pub(crate) fn deal(&mut self) -> Option<Unit> {
        let unit = match self.returned.pop_first() {
            Some(unit) => unit,
            None if self.total().is_some_and(|total| self.next >= total) => return None,
            None => {
                self.next += 1;
                Unit::at(self.next - 1, self.units_per_epoch)
            }
        };
        self.out.insert(unit);
        Some(unit)
    }

    /// Takes back a unit that was not done.
    pub(crate) fn give_back(&mut self, unit: Unit) -> Result<(), NotOut> {
        if !self.out.remove(&unit) {
            return Err(NotOut(unit));
        }
        self.returned.insert(unit);
        Ok(())
    }

    /// Counts a unit as done; `Some(epoch)` when it was the last one of its epoch. With members far apart a later
    /// epoch may be complete before an earlier one.
    pub(crate) fn done(&mut self, unit: Unit) -> Result<Option<u64>, NotOut> {
        if !self.out.remove(&unit) {
            return Err(NotOut(unit));
        }
        self.done += 1;
        let count = self.begun.entry(unit.epoch).or_insert(0);
        *count += 1;
        if *count < self.units_per_epoch {
            return Ok(None);
        }
        self.begun.remove(&unit.epoch);
        Ok(Some(unit.epoch))
    }

    /// Whether every unit of every epoch is done.
    pub(crate) fn is_complete(&self) -> bool {
        self.remaining() == Some(0)
    }

    /// How many units are not done yet; `None` for endless epochs.
    fn remaining(&self) -> Option<u64> {
        Some(self.total()? - self.done)
    }

    fn total(&self) -> Option<u64> {
        self.epochs.map(|epochs| epochs.saturating_mul(u64::from(self.units_per_epoch)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(epoch: u64, index: u32) -> Unit {
        Unit { epoch, index }
    }

    #[test]
    fn deals_in_order_and_ends() {
        let mut deck = Deck::new(2, Some(2));
        let dealt: Vec<_> = std::iter::from_fn(|| deck.deal()).collect();
        assert_eq!(dealt, [unit(0, 0), unit(0, 1), unit(1, 0), unit(1, 1)]);
        assert_eq!(deck.remaining(), Some(4));
        assert!(!deck.is_complete());
    }

    #[test]
    fn what_comes_back_is_dealt_first_and_oldest_first() {
        let mut deck = Deck::new(4, None);
        for _ in 0..3 {
            deck.deal();
        }
        deck.give_back(unit(0, 2)).unwrap();
        deck.give_back(unit(0, 0)).unwrap();
        let dealt: Vec<_> = (0..4).map(|_| deck.deal().unwrap()).collect();
        assert_eq!(dealt, [unit(0, 0), unit(0, 2), unit(0, 3), unit(1, 0)]);
        assert_eq!(deck.remaining(), None);
    }

    #[test]
    fn an_epoch_is_done_with_its_last_unit() {
        let mut deck = Deck::new(2, Some(2));
        while deck.deal().is_some() {}
        let check = |deck: &mut Deck, at, expect| assert_eq!(deck.done(at), expect, "{at}");
        check(&mut deck, unit(0, 1), Ok(None));
        check(&mut deck, unit(1, 0), Ok(None));
        check(&mut deck, unit(1, 1), Ok(Some(1)));
        check(&mut deck, unit(0, 0), Ok(Some(0)));
        assert!(deck.is_complete());
    }

    #[test]
    fn a_unit_that_is_not_out_is_refused() {
        let mut deck = Deck::new(2, Some(1));
        assert_eq!(deck.done(unit(0, 0)), Err(NotOut(unit(0, 0))));
        let dealt = deck.deal().unwrap();
        assert_eq!(deck.done(dealt), Ok(None));
        assert_eq!(deck.done(dealt), Err(NotOut(dealt)), "done twice");
        assert_eq!(deck.give_back(dealt), Err(NotOut(dealt)), "given back after it was done");
        assert_eq!(deck.remaining(), Some(1));
    }

    #[test]
    fn resumes_in_the_middle_of_an_epoch() {
        let mut deck = Deck::resume(3, Some(2), 4, &[]);
        assert_eq!(deck.deal(), Some(unit(1, 1)));
        assert_eq!(deck.deal(), Some(unit(1, 2)));
        assert_eq!(deck.deal(), None);
        assert_eq!(deck.done(unit(1, 1)), Ok(None));
        assert_eq!(deck.done(unit(1, 2)), Ok(Some(1)));
        assert!(deck.is_complete());
        assert!(Deck::resume(3, Some(2), 6, &[]).is_complete());
        assert!(Deck::resume(3, Some(2), 99, &[]).is_complete(), "a shorter run than before");
    }

    #[test]
    fn resumes_with_the_units_that_others_overtook() {
        let mut before = Deck::new(3, Some(3));
        for _ in 0..6 {
            before.deal();
        }
        for done in [unit(0, 0), unit(0, 2), unit(1, 1)] {
            before.done(done).unwrap();
        }
        before.give_back(unit(1, 0)).unwrap();
        let open = before.open();
        assert_eq!(open, [unit(0, 1), unit(1, 0), unit(1, 2)]);
        let mut deck = Deck::resume(3, Some(3), before.done, &open);
        assert_eq!(deck.remaining(), Some(6));
        let dealt: Vec<_> = std::iter::from_fn(|| deck.deal()).collect();
        let rest = [unit(2, 0), unit(2, 1), unit(2, 2)];
        assert_eq!(dealt, [open, rest.to_vec()].concat());
        let ended: Vec<_> = dealt.iter().filter_map(|&unit| deck.done(unit).unwrap()).collect();
        assert_eq!(ended, [0, 1, 2], "every epoch ends once");
        assert!(deck.is_complete());
    }
}

//! What a relay is at.

use std::collections::BTreeMap;

use bonfire_data::Cut;
use bonfire_strategy::Unit;

use super::Answer;

/// What the parent has ordered.
#[derive(Default)]
pub(super) struct ParentOrder {
    pub number: u64,
    pub is_open: bool,
    pub units: usize,
    /// Who works for it, under which order, and on how many units.
    pub answers: BTreeMap<Answer, usize>,
    /// Which parts units are that were dealt out unequally.
    pub cuts: BTreeMap<Unit, Cut>,
}

impl ParentOrder {
    /// No more batches can be in these units: of several that were put together and dealt out again, all.
    pub(super) fn most_batches_in(&self, units: &[Unit]) -> usize {
        units.iter().map(|unit| self.cuts.get(unit).map_or(1, |cut| cut.shares.len())).sum()
    }
}

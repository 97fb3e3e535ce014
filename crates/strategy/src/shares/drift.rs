//! When shares follow times that drift, and when that is chance.

use super::{Balancer, Change, LEAST_GAIN, SURENESS};

/// Rounds by which shares are weighed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub rounds: u64,
    /// A gain must show in each of so many parts: what lasts for less than them moves nothing, such as somebody else
    /// who wants the processor for a moment.
    pub parts: u64,
    /// What is not gained by that is no reason to move.
    pub least_gain: f64,
}

/// A machine that is suddenly much slower is followed soon,
const SOON: Window = Window { rounds: 15, parts: 3, least_gain: 0.15 };

/// and what differs a little, when it has lasted.
const LATE: Window = Window { rounds: 60, parts: 4, least_gain: LEAST_GAIN };

const LEAST_GAIN_OF_UNEQUAL: f64 = 0.03;

/// So many moves are made for small gains. Each further one has to gain as much more, until times change suddenly.
const FEW_MOVES: u32 = 3;

/// Where rounds are shorter, not all of them count for drift: what befalls a machine takes its time in seconds.
const LEAST_ROUND_S: f64 = 0.02;
const MOST_STRIDE: f64 = 1000.0;

impl Balancer {
    /// Which rounds count from now on, by what those after one took.
    pub(super) fn stride_after(&self, round: u64) -> u64 {
        let costs = self.workers.values().filter_map(|sharer| sharer.times.cost_after(round));
        let longest_s = costs.map(|cost| cost.seconds).fold(f64::MIN_POSITIVE, f64::max);
        (LEAST_ROUND_S / longest_s).ceil().clamp(1.0, MOST_STRIDE) as u64
    }

    /// Follows times that drift.
    pub(super) fn follow(&mut self, round: u64) -> Option<Change> {
        let since = (round - self.moved) / self.stride;
        let is_due = |every| round.is_multiple_of(every * self.stride);
        let (is_soon, is_late) = (since >= SOON.rounds && is_due(2), since >= LATE.rounds && is_due(10));
        if is_soon && let Some(change) = self.weigh(round, SOON, SURENESS) {
            self.moves = 1;
            self.forget_before(round, SOON);
            return Some(change);
        }
        let late = match self.moves {
            // Machines that are known to be unequal are not so by chance.
            moves if (1..FEW_MOVES).contains(&moves) => Window { least_gain: LEAST_GAIN_OF_UNEQUAL, ..LATE },
            moves => {
                let further = f64::from(1 + moves.saturating_sub(FEW_MOVES - 1));
                Window { least_gain: further * LATE.least_gain, ..LATE }
            }
        };
        let change = is_late.then(|| self.weigh(round, late, SURENESS))??;
        self.forget_before(round, LATE);
        Some(change)
    }

    /// What was before a window tells nothing of how it is now.
    fn forget_before(&mut self, round: u64, window: Window) {
        let before = round.saturating_sub(window.rounds * self.stride);
        self.workers.values_mut().for_each(|sharer| sharer.times.forget_up_to(before));
    }
}

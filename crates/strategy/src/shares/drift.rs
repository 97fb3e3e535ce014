//! When shares follow times that drift, and when that is chance.

use std::collections::BTreeMap;

use super::cost::median;
use super::{Balancer, Change, FIRST_CHECKS, LEAST_GAIN, SURENESS, Why};
use crate::keyed;

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

/// What a move was to gain.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    /// The shares before it.
    pub before: BTreeMap<u64, u32>,
    /// How many rounds told it.
    pub rounds: u64,
    /// What rounds took then who was the last.
    pub longest_s: f64,
    pub gain: f64,
}

/// Rounds that are longer by this part are longer.
const WORSE: f64 = 0.03;

/// More are no reason to wait even longer until a sudden change is followed.
const MOST_DOUBTS: u32 = 3;

/// After so many rounds without a move small gains are worth one again.
const FORGIVEN: u64 = 1000;

/// Times that differ by less than this factor have not changed.
const CHANGED: f64 = 1.1;

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
        let stride = self.stride;
        let is_due = |every| round.is_multiple_of(every * stride);
        if since >= FORGIVEN {
            self.doubts = 0;
        }
        if let Some(promise) = self.promise.take_if(|promise| since >= promise.rounds.max(SOON.rounds)) {
            let back = self.keep_promise(promise, round);
            if back.is_some() {
                return back;
            }
        }
        // Who was wrong twice waits four times as long, and so on.
        let doublings = 2 * self.doubts.saturating_sub(1).min(MOST_DOUBTS);
        let is_soon = since >= SOON.rounds << doublings && is_due(2);
        if is_soon
            && self.has_changed(round)
            && let Some(change) = self.weigh(round, SOON, SURENESS)
        {
            self.moves = 1;
            self.forget_before(round, SOON);
            return Some(change);
        }
        if since < LATE.rounds || !is_due(10) || self.doubts > 0 {
            return None;
        }
        let late = match self.moves {
            // Machines that are known to be unequal are not so by chance.
            moves if (1..FEW_MOVES).contains(&moves) => Window { least_gain: LEAST_GAIN_OF_UNEQUAL, ..LATE },
            moves => {
                let further = f64::from(1 + moves.saturating_sub(FEW_MOVES - 1));
                Window { least_gain: further * LATE.least_gain, ..LATE }
            }
        };
        let change = self.weigh(round, late, SURENESS)?;
        self.forget_before(round, LATE);
        Some(change)
    }

    /// Whether somebody's rounds take another time than they did at first with the same share. What was so from the
    /// beginning is no drift.
    fn has_changed(&mut self, round: u64) -> bool {
        let after = round.saturating_sub(SOON.rounds * self.stride);
        let mut has_changed = false;
        for sharer in self.workers.values_mut().filter(|sharer| sharer.share > 0) {
            let Some(cost) = sharer.times.cost_between(after, round) else { continue };
            let usual_s = *sharer.usual_s.get_or_insert(cost.seconds);
            has_changed |= cost.seconds > CHANGED * usual_s || usual_s > CHANGED * cost.seconds;
        }
        has_changed
    }

    /// Looks whether the last move has gained what it was to gain. If rounds are longer since, it is taken back. If
    /// they are not much shorter, costs are not what they seem, and there are no more moves for small gains: machines
    /// with a quota take half as long for a little less work.
    fn keep_promise(&mut self, promise: Promise, round: u64) -> Option<Change> {
        let Promise { before, longest_s, gain, .. } = promise;
        let now_s = self.longest_after(self.moved)?;
        let is_worse = now_s > longest_s * (1.0 + WORSE);
        // The first moves are made by a few rounds, which tell badly what is gained.
        let is_first = self.moved <= self.begin + FIRST_CHECKS[2];
        match now_s > longest_s * (1.0 - gain / 2.0) {
            false => self.doubts = 0,
            true => self.doubts += u32::from(is_worse || !is_first),
        }
        if !is_worse {
            return None;
        }
        let seconds = keyed::map(self.workers.keys().map(|&id| (id, 0.0)));
        Some(self.move_to(&before, &seconds, round, Why::NoGain { seconds: now_s, before_s: longest_s }))
    }

    /// What the rounds after one took who was the last in each, the median.
    pub(super) fn longest_after(&self, round: u64) -> Option<f64> {
        let mut longest: BTreeMap<u64, f64> = BTreeMap::new();
        for took in self.workers.values().flat_map(|sharer| sharer.times.after(round)) {
            let longest = longest.entry(took.round).or_default();
            *longest = longest.max(took.seconds);
        }
        (!longest.is_empty()).then(|| median(longest.into_values()))
    }

    /// What was before a window tells nothing of how it is now.
    fn forget_before(&mut self, round: u64, window: Window) {
        let before = round.saturating_sub(window.rounds * self.stride);
        self.workers.values_mut().for_each(|sharer| sharer.times.forget_up_to(before));
    }
}

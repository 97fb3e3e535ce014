//! Batches that let all finish together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cost::Cost;

/// What a worker may get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub least: u32,
    pub most: u32,
}

/// Splits so many samples, a grain at a time, such that the last one is done as early as can be: each grain goes to who
/// is done with it first. Where all have as much as they may and some is left, bounds are no bounds.
pub(crate) fn equal_finish(costs: &[Cost], bounds: &[Bounds], samples: u32, grain: u32) -> Vec<u32> {
    let mut shares: Vec<u32> = bounds.iter().map(|bounds| bounds.least.min(bounds.most)).collect();
    let mut left = samples.saturating_sub(shares.iter().sum());
    if shares.iter().sum::<u32>() > samples {
        return by_weights(&vec![1.0; costs.len()], samples);
    }
    for is_bounded in [true, false] {
        let most = |i: usize| if is_bounded { bounds[i].most } else { u32::MAX };
        let next = |i: usize, share: u32| Reverse((Finish(costs[i].of(share.saturating_add(grain))), i));
        let mut heap: BinaryHeap<_> =
            (0..costs.len()).filter(|&i| shares[i] < most(i)).map(|i| next(i, shares[i])).collect();
        while left > 0
            && let Some(Reverse((_, i))) = heap.pop()
        {
            let more = grain.min(left).min(most(i) - shares[i]);
            shares[i] += more;
            left -= more;
            if shares[i] < most(i) {
                heap.push(next(i, shares[i]));
            }
        }
    }
    shares
}

/// When the last one is done.
pub(crate) fn last_finish(costs: &[Cost], shares: &[u32]) -> f64 {
    costs.iter().zip(shares).map(|(cost, share)| cost.of(*share)).fold(0.0, f64::max)
}

/// Splits so many samples by weights: each has its part rounded down or up, and at least one sample if there are
/// enough.
pub(crate) fn by_weights(weights: &[f64], samples: u32) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    let least = u32::from(samples as usize >= weights.len());
    let free = f64::from(samples) - f64::from(least) * weights.len() as f64;
    // Only what is beyond the least is shared out, of those who would get more than it.
    let beyond = |weight: &f64| (f64::from(samples) * weight / sum - f64::from(least)).max(0.0);
    let all: f64 = weights.iter().map(beyond).sum();
    let (mut before, mut shares) = (0.0, Vec::with_capacity(weights.len()));
    for weight in weights {
        let after = before + if all > 0.0 { beyond(weight) * free / all } else { 0.0 };
        shares.push(least + (after.round() - before.round()) as u32);
        before = after;
    }
    shares
}

/// How many of so many steps each worker makes, given its share: at least one, and none who has no share.
pub fn whole_steps(shares: &[u32], steps: u32) -> Vec<u32> {
    let weights = shares.iter().filter(|share| **share > 0).map(|share| f64::from(*share));
    let mut counts = by_weights(&weights.collect::<Vec<_>>(), steps).into_iter();
    shares.iter().map(|share| if *share > 0 { counts.next().unwrap_or(0) } else { 0 }).collect()
}

/// Seconds in order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Finish(f64);

impl Eq for Finish {}

impl Ord for Finish {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Finish {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_whole() {
        let check = |shares: &[u32], steps, expect: &[u32]| {
            assert_eq!(whole_steps(shares, steps), expect, "{shares:?} of {steps}");
        };
        check(&[16, 16, 32, 64], 32, &[4, 4, 8, 16]);
        check(&[1, 1, 2, 12], 16, &[1, 1, 2, 12]);
        check(&[32, 32, 32], 24, &[8, 8, 8]);
        check(&[1, 63], 8, &[1, 7]);
        check(&[0, 96, 32], 12, &[0, 9, 3]);
        check(&[0, 0, 5], 6, &[0, 0, 6]);
        for steps in [3, 7, 12, 100] {
            let found = whole_steps(&[5, 23, 4], steps);
            assert_eq!(found.iter().sum::<u32>(), steps);
            assert_eq!(whole_steps(&found, steps), found, "what is whole stays");
        }
    }
}

//! What a batch costs a worker, by the times of its rounds.

use std::collections::VecDeque;

/// A round of a worker, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Took {
    pub round: u64,
    /// How many samples it had; where these differ in length, as many of the mean length as have its words.
    pub samples: f64,
    /// From its order to its answer, without waiting for others.
    pub seconds: f64,
    /// What of that does not grow with its samples as far as it can tell: wire, codec, update.
    pub fixed_s: f64,
}

/// A worker's cost: a round of b samples takes `fixed_s` + `sample_s`·b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    pub fixed_s: f64,
    pub sample_s: f64,
    /// By what part of themselves rounds vary.
    pub noise: f64,
    /// How many tell it.
    pub rounds: f64,
    /// What a round took, the median.
    pub seconds: f64,
}

/// So many rounds are remembered.
pub(crate) const REMEMBERED: usize = 60;

/// Fewer rounds than that tell nothing.
pub(crate) const FEWEST: usize = 3;

/// How far from the median, in deviations, a round may be to count: beyond, something else held it up.
const FAR: f64 = 4.0;

/// The smallest deviation that is believed.
const LEAST_NOISE: f64 = 0.01;

/// How much what the worker itself says of its fixed cost is trusted against what its rounds of different sizes say: it
/// may be wrong by so much of the cost of a sample.
const TRUST: f64 = 0.5;

impl Cost {
    pub(crate) fn of(self, samples: u32) -> f64 {
        self.fixed_s + self.sample_s * f64::from(samples)
    }

    /// What a round takes who rests: it has no samples and sends nothing, but takes what the others send to be up to
    /// date, which is half of what a round takes anyway.
    pub(crate) fn resting_s(self) -> f64 {
        self.fixed_s / 2.0
    }

    /// By what part of itself it may be wrong, where rounds are said to vary by at least so much.
    pub(crate) fn error(self, noise: f64) -> f64 {
        1.25 * self.noise.max(noise) / self.rounds.sqrt()
    }

    /// The cost by some rounds; none if they are too few.
    ///
    /// Where all rounds are of one size, nothing but the worker's own word tells its fixed cost. Rounds of other sizes
    /// tell the slope, the better the more they differ and the less they vary: the two are weighed by how far each may
    /// be wrong.
    pub(crate) fn by<'a>(rounds: impl Iterator<Item = &'a Took> + Clone) -> Option<Self> {
        let rounds = rounds.filter(|took| took.samples > 0.0 && took.seconds > 0.0);
        if rounds.clone().count() < FEWEST {
            return None;
        }
        let seconds = median(rounds.clone().map(|took| took.seconds));
        let samples = median(rounds.clone().map(|took| took.samples));
        let said = median(rounds.clone().map(|took| took.fixed_s)).clamp(0.0, 0.9 * seconds);
        let slope = (seconds - said) / samples;
        let rough = middle_slope(rounds.clone(), samples).unwrap_or(slope);
        let start = median(rounds.clone().map(|took| took.seconds - rough * took.samples));
        let off = |took: &Took| (took.seconds - start - rough * took.samples).abs() / seconds;
        let noise = (1.48 * median(rounds.clone().map(off))).max(LEAST_NOISE);
        let near = rounds.filter(|took| off(took) <= FAR * noise);
        let count = near.clone().count() as f64;
        let mean = |of: fn(&Took) -> f64| near.clone().map(of).sum::<f64>() / count;
        let (mean_samples, mean_seconds) = (mean(|took| took.samples), mean(|took| took.seconds));
        let (mut spread, mut product) = (0.0, 0.0);
        for took in near.clone() {
            let off = took.samples - mean_samples;
            spread += off * off;
            product += off * (took.seconds - mean_seconds);
        }
        // Weights are one over the square of what each may be wrong by.
        let measured = spread / (noise * seconds).powi(2);
        let trusted = 1.0 / (TRUST * slope).powi(2);
        let sum = if spread > 0.0 { product / spread * measured } else { 0.0 } + slope * trusted;
        let sample_s = (sum / (measured + trusted)).clamp(0.1 * slope, seconds / samples);
        let fixed_s = median(near.map(|took| took.seconds - sample_s * took.samples)).max(0.0);
        Some(Self { fixed_s, sample_s, noise, rounds: count, seconds })
    }
}

/// The median over all pairs of rounds that differ in size, if there are any.
fn middle_slope<'a>(rounds: impl Iterator<Item = &'a Took> + Clone, samples: f64) -> Option<f64> {
    let mut slopes = Vec::new();
    for (i, one) in rounds.clone().enumerate() {
        for other in rounds.clone().skip(i + 1) {
            let more = other.samples - one.samples;
            if more.abs() > 0.1 * samples {
                slopes.push((other.seconds - one.seconds) / more);
            }
        }
    }
    (slopes.len() >= FEWEST).then(|| median(slopes.into_iter()))
}

/// The rounds of a worker that were measured last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    rounds: VecDeque<Took>,
}

impl Times {
    pub(crate) fn add(&mut self, took: Took) {
        if self.rounds.len() == REMEMBERED {
            self.rounds.pop_front();
        }
        self.rounds.push_back(took);
    }

    /// The cost by the rounds after one.
    pub(crate) fn cost_after(&self, round: u64) -> Option<Cost> {
        self.cost_between(round, u64::MAX)
    }

    /// The cost by the rounds after one, up to another.
    pub(crate) fn cost_between(&self, after: u64, to: u64) -> Option<Cost> {
        Cost::by(self.rounds.iter().filter(|took| after < took.round && took.round <= to))
    }

    /// The rounds after one.
    pub(crate) fn after(&self, round: u64) -> impl Iterator<Item = &Took> {
        self.rounds.iter().filter(move |took| took.round > round)
    }

    /// Forgets all rounds up to one.
    pub(crate) fn forget_up_to(&mut self, round: u64) {
        self.rounds.retain(|took| took.round > round);
    }
}

/// The middle one; of no values nothing.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(samples: f64, seconds: f64, fixed_s: f64) -> Took {
        Took { round: 1, samples, seconds, fixed_s }
    }

    #[track_caller]
    fn check(rounds: &[Took], fixed_s: f64, sample_s: f64) {
        let cost = Cost::by(rounds.iter()).expect("a cost");
        let near = |found: f64, expect: f64| (found - expect).abs() <= 0.03 * (fixed_s + 32.0 * sample_s);
        assert!(near(cost.fixed_s, fixed_s) && near(32.0 * cost.sample_s, 32.0 * sample_s), "{cost:?}");
    }

    #[test]
    fn rounds_of_one_size_are_split_by_the_worker_itself() {
        check(&[took(32.0, 1.0, 0.2); 5], 0.2, 0.025);
        check(&[took(32.0, 1.0, 0.0); 5], 0.0, 0.03125);
    }

    #[test]
    fn rounds_of_several_sizes_tell_the_fixed_cost() {
        // The worker knows nothing of the half second that a round takes anyway.
        let rounds: Vec<Took> =
            (0..10).map(|i| 16.0 * f64::from(1 + i % 2)).map(|b| took(b, 0.5 + 0.02 * b, 0.0)).collect();
        check(&rounds, 0.5, 0.02);
    }

    #[test]
    fn single_slow_rounds_count_for_nothing() {
        let mut rounds: Vec<Took> =
            (0..12).map(|i| 16.0 * f64::from(1 + i % 3)).map(|b| took(b, 0.1 + 0.02 * b, 0.1)).collect();
        rounds[3].seconds = 9.0;
        rounds[8].seconds = 5.0;
        check(&rounds, 0.1, 0.02);
    }

    #[test]
    fn too_few_rounds_tell_nothing() {
        assert_eq!(Cost::by([took(32.0, 1.0, 0.0); 2].iter()), None);
        assert_eq!(Cost::by([took(0.0, 1.0, 0.0); 9].iter()), None, "without samples");
    }
}

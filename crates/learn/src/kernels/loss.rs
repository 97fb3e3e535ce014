//! Losses, with their gradients in one pass.

use super::pointwise::exp;
use super::vectorized;
use crate::batch::IGNORED;
use crate::class_weights::ClassWeights;
use crate::tally::Tally;

/// Softmax and cross-entropy over rows of `classes` scores. Turns the scores into the gradient of the summed loss;
/// rows whose target is [`IGNORED`] get none, all others count by their target's weight.
pub(crate) fn cross_entropy(
    scores: &mut [f32],
    targets: &[u32],
    classes: usize,
    weights: &ClassWeights,
    tally: &mut Tally,
) {
    assert_eq!(scores.len(), targets.len() * classes, "a row of scores for every target");
    vectorized(
        #[inline(always)]
        || {
            for (row, &target) in scores.chunks_exact_mut(classes).zip(targets) {
                if target == IGNORED {
                    row.fill(0.0);
                    continue;
                }
                let (best, top) = largest(row);
                tally.count(best, target as usize);
                if tally.wants_place() {
                    tally.place(before(row, target as usize));
                }
                let score = row[target as usize] - top;
                let mut sum = 0.0;
                for x in row.iter_mut() {
                    *x = exp(*x - top);
                    sum += *x;
                }
                let weight = weights.of(target as usize);
                tally.add_loss(weight * (sum.ln() - score), weight);
                let scale = weight / sum;
                for x in row.iter_mut() {
                    *x *= scale;
                }
                row[target as usize] -= weight;
            }
        },
    );
}

/// Binary cross-entropy of one score a sample: class 1 where it is not below 0. Targets from `positive_from` on are
/// class 1, whose losses are scaled by `positive_weight`; that is no weight of a mean, unlike those of both classes.
/// Turns the scores into the gradient of the summed loss.
pub(crate) fn binary_cross_entropy(
    scores: &mut [f32],
    targets: &[u32],
    positive_from: u32,
    positive_weight: f32,
    weights: &ClassWeights,
    tally: &mut Tally,
) {
    assert_eq!(scores.len(), targets.len(), "a score for every target");
    for (score, &target) in scores.iter_mut().zip(targets) {
        if target == IGNORED {
            *score = 0.0;
            continue;
        }
        let (x, positive) = (*score, target >= positive_from);
        tally.count(usize::from(x >= 0.0), usize::from(positive));
        let weight = weights.of(usize::from(positive));
        let (scale, sign) = if positive { (weight * positive_weight, 1.0) } else { (weight, -1.0) };
        // ln(1 + e^-sx) without overflow, and its derivative -s / (1 + e^sx).
        let sx = sign * x;
        let loss = (-sx.abs()).exp().ln_1p() + (-sx).max(0.0);
        tally.add_loss(scale * loss, weight);
        *score = -sign * scale / (1.0 + sx.exp());
    }
}

/// The squared error of one score a sample, whose targets are the bits of numbers. Turns the scores into the gradient
/// of the summed loss.
pub(crate) fn squared_error(scores: &mut [f32], targets: &[u32], tally: &mut Tally) {
    assert_eq!(scores.len(), targets.len(), "a score for every target");
    for (score, &target) in scores.iter_mut().zip(targets) {
        let right = f32::from_bits(target);
        let error = *score - right;
        tally.miss(error, right);
        tally.add_loss(error * error, 1.0);
        *score = 2.0 * error;
    }
}

/// How many values come before the one at a place when the largest comes first, and the first of equals.
fn before(row: &[f32], place: usize) -> usize {
    let value = row[place];
    row.iter().enumerate().filter(|&(i, &x)| x > value || (x == value && i < place)).count()
}

/// The place of the largest value, the first of equals, and the value.
#[inline(always)]
fn largest(row: &[f32]) -> (usize, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, &x) in row.iter().enumerate() {
        if x > best.1 {
            best = (i, x);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_numbers_are_squared() {
        let (mut scores, right) = ([1.0f32, 4.0, -2.0], [2.0f32, 2.0, -2.0].map(f32::to_bits));
        let mut tally = Tally::measuring(0);
        squared_error(&mut scores, &right, &mut tally);
        assert_eq!(scores, [-2.0, 4.0, 0.0]);
        assert_eq!((tally.loss, tally.weight), (5.0, 3.0));
        assert!(tally.accuracy().is_nan(), "no class was given");
        assert_eq!(tally.mean_absolute_error(), Some(1.0));
        // The squares around the mean of the right numbers, 2/3, are 32/3.
        let r2 = tally.r2().expect("numbers that differ");
        assert!((r2 - (1.0 - 15.0 / 32.0)).abs() < 1e-12, "{r2}");
    }

    #[test]
    fn a_value_has_its_place_among_the_others() {
        let row = [0.5, 2.0, 2.0, -1.0];
        assert_eq!([0, 1, 2, 3].map(|place| before(&row, place)), [2, 0, 1, 3]);
    }
}

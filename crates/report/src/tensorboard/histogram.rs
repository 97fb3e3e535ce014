//! How the values of a tensor are spread.

use super::proto::HistogramProto;

/// The limits of buckets grow by this factor, as TensorFlow's do.
const GROWTH: f64 = 1.1;
const SMALLEST: f64 = 1e-12;
const LARGEST: f64 = 1e20;

/// Upper limits of the buckets, from far below zero to far above.
fn limits() -> Vec<f64> {
    let above = std::iter::successors(Some(SMALLEST), |limit| Some(limit * GROWTH));
    let above: Vec<f64> = above.take_while(|&limit| limit < LARGEST).chain([f64::MAX]).collect();
    above.iter().rev().map(|limit| -limit).chain([0.0]).chain(above.iter().copied()).collect()
}

/// Of finite values; empty buckets at both ends are left out.
pub(super) fn histogram(values: &[f32]) -> HistogramProto {
    let limits = limits();
    let mut counts = vec![0.0; limits.len()];
    let mut histogram = HistogramProto { min: f64::MAX, max: f64::MIN, ..HistogramProto::default() };
    for value in values.iter().map(|&value| f64::from(value)).filter(|value| value.is_finite()) {
        counts[limits.partition_point(|&limit| limit < value)] += 1.0;
        histogram.min = histogram.min.min(value);
        histogram.max = histogram.max.max(value);
        histogram.num += 1.0;
        histogram.sum += value;
        histogram.sum_squares += value * value;
    }
    let first = counts.iter().position(|&count| count > 0.0).unwrap_or(0);
    let last = counts.iter().rposition(|&count| count > 0.0).unwrap_or(0);
    // The bucket before the first says where that one begins.
    let first = first.saturating_sub(1);
    histogram.bucket_limit = limits[first..=last].to_vec();
    histogram.bucket = counts[first..=last].to_vec();
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_whose_limits_are_around_it() {
        let values = [-2.5, -1e-3, 0.0, 0.0, 0.3, 0.31, 7.0, f32::NAN];
        let histogram = histogram(&values);
        assert_eq!((histogram.min, histogram.max, histogram.num), (-2.5, 7.0, 7.0));
        assert_eq!(histogram.bucket.iter().sum::<f64>(), 7.0);
        let below = |limit: f64| values.iter().filter(|&&value| f64::from(value) <= limit).count() as f64;
        let mut so_far = 0.0;
        for (limit, count) in histogram.bucket_limit.iter().zip(&histogram.bucket) {
            so_far += count;
            assert_eq!(so_far, below(*limit), "up to {limit}");
        }
    }

    #[test]
    fn no_values_are_a_histogram_too() {
        assert_eq!(histogram(&[]).num, 0.0);
    }
}

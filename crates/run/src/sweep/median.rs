use serde::{Deserialize, Serialize};

/// Stops a run that is not worth going on with: its best evaluation so far is worse than the median of what the others
/// had at their best after as many evaluations (the median stopping rule of Golovin et al., Google Vizier, 2017).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MedianStop {
    /// No run is stopped before it has so many evaluations,
    pub after: usize,
    /// and so many others have as many.
    pub runs: usize,
}

impl Default for MedianStop {
    fn default() -> Self {
        Self { after: 2, runs: 3 }
    }
}

impl MedianStop {
    /// What is wrong with it.
    pub(super) fn wrong(self) -> Option<&'static str> {
        (self.after == 0 || self.runs == 0).then_some("after and runs must be at least 1")
    }

    /// Whether a run with these evaluations is to be stopped, given those of the others. Smaller is better.
    pub fn is_hopeless<'a>(self, own: &[f64], others: impl IntoIterator<Item = &'a [f64]>) -> bool {
        let so_far = own.len();
        if so_far < self.after {
            return false;
        }
        let mut bests: Vec<f64> = others
            .into_iter()
            .filter(|other| other.len() >= so_far)
            .map(|other| best(&other[..so_far]))
            .collect();
        if bests.len() < self.runs {
            return false;
        }
        bests.sort_by(f64::total_cmp);
        let middle = bests.len() / 2;
        let median = match bests.len() % 2 {
            1 => bests[middle],
            _ => (bests[middle - 1] + bests[middle]) / 2.0,
        };
        best(own) > median
    }
}

/// A loss that is no number is worse than all.
fn best(costs: &[f64]) -> f64 {
    costs.iter().copied().filter(|cost| !cost.is_nan()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_below_the_median_is_stopped() {
        let rule = MedianStop { after: 2, runs: 3 };
        let others: [&[f64]; 4] = [&[9.0, 1.0], &[2.0, 5.0, 0.0], &[3.0, 8.0], &[0.5]];
        let check = |own: &[f64], expect| assert_eq!(rule.is_hopeless(own, others), expect, "{own:?}");
        check(&[9.0], false);
        check(&[9.0, 2.5], true);
        check(&[9.0, 2.0], false);
        check(&[1.5, f64::NAN], false);
        check(&[f64::NAN, f64::NAN], true);
        // Only one other is as far.
        check(&[9.0, 9.0, 9.0], false);
    }
}

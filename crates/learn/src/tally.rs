//! How many answers of a model were right, and their loss.

/// Sums over the answers of a model. Sums, not means: they can be added up in any grouping.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// The summed loss.
    pub loss: f64,
    /// The summed weight of the answers in the loss: their number, unless classes have weights.
    pub weight: f64,
    /// How many answers were given: samples, or words of a tagger, without padding.
    pub answers: u64,
    pub correct: u64,
    /// Answers by (right class, given class), if asked for.
    confusion: Option<Confusion>,
}

#[derive(Clone, Debug, PartialEq)]
struct Confusion {
    classes: usize,
    counts: Vec<u64>,
}

impl Tally {
    /// A tally that also knows which class was taken for which.
    pub fn with_confusion(classes: usize) -> Self {
        let counts = vec![0; classes * classes];
        Self { confusion: Some(Confusion { classes, counts }), ..Self::default() }
    }

    /// Counts one answer.
    #[inline]
    pub fn count(&mut self, given: usize, right: usize) {
        self.answers += 1;
        self.correct += u64::from(given == right);
        if let Some(Confusion { classes, counts }) = &mut self.confusion {
            counts[right * *classes + given] += 1;
        }
    }

    /// Adds the loss of an answer. It is already scaled by the answer's weight.
    #[inline]
    pub(crate) fn add_loss(&mut self, loss: f32, weight: f32) {
        self.loss += f64::from(loss);
        self.weight += f64::from(weight);
    }

    /// Adds another tally of the same kind.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.weight += other.weight;
        self.answers += other.answers;
        self.correct += other.correct;
        if let (Some(mine), Some(other)) = (&mut self.confusion, &other.confusion) {
            assert_eq!(mine.classes, other.classes, "tallies of one model");
            for (mine, other) in mine.counts.iter_mut().zip(&other.counts) {
                *mine += other;
            }
        }
    }

    /// The loss of an answer on average; NaN without answers.
    pub fn mean_loss(&self) -> f64 {
        mean_loss(self.loss, self.weight, self.answers)
    }

    /// The share of right answers; NaN without answers.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.answers as f64
    }

    /// The mean of the classes' F1 scores, over the classes that occur or were answered; none without a confusion.
    pub fn macro_f1(&self) -> Option<f64> {
        let Confusion { classes, counts } = self.confusion.as_ref()?;
        let scores: Vec<f64> = (0..*classes)
            .filter_map(|class| {
                let hits = counts[class * classes + class];
                let right: u64 = counts[class * classes..(class + 1) * classes].iter().sum();
                let given: u64 = (0..*classes).map(|row| counts[row * classes + class]).sum();
                (right + given > 0).then(|| 2.0 * hits as f64 / (right + given) as f64)
            })
            .collect();
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    }
}

/// The mean of losses with a summed weight. It is 0 if the answers weigh nothing, and NaN without answers.
pub fn mean_loss(loss: f64, weight: f64, answers: u64) -> f64 {
    if weight == 0.0 && answers > 0 { 0.0 } else { loss / weight }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_give_the_same_as_the_whole() {
        let answers = [(0, 0), (0, 1), (1, 1), (1, 1), (0, 0), (1, 0)];
        let mut whole = Tally::with_confusion(3);
        let mut parts = Tally::with_confusion(3);
        for (given, right) in answers {
            whole.count(given, right);
            let mut part = Tally::with_confusion(3);
            part.count(given, right);
            parts.add(&part);
        }
        assert_eq!(whole, parts);
        assert_eq!(whole.accuracy(), 4.0 / 6.0);
        // Both classes: 2 hits, 3 right, 3 given. The third class never occurs and does not count.
        assert_eq!(whole.macro_f1(), Some(2.0 / 3.0));
        assert_eq!(Tally::default().macro_f1(), None);
    }
}

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
    /// How far numbers were off, if asked for.
    errors: Option<Errors>,
}

/// Of answers that are numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Errors {
    absolute: f64,
    /// Of the right numbers.
    sum: f64,
    squares: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct Confusion {
    classes: usize,
    counts: Vec<u64>,
    /// Answers whose right class was among the [`NEAR`] that the model thought most likely.
    near: u64,
}

/// How many classes are looked at for what is called precision at 5.
const NEAR: usize = 5;

/// How often one class was right, was given, and was both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCount {
    pub right: u64,
    pub given: u64,
    pub hits: u64,
}

impl ClassCount {
    /// The share of the answers with this class that were right; none if it was never given.
    pub fn precision(self) -> Option<f64> {
        (self.given > 0).then(|| self.hits as f64 / self.given as f64)
    }

    /// The share of this class that was recognised; none if it never occurred.
    pub fn recall(self) -> Option<f64> {
        (self.right > 0).then(|| self.hits as f64 / self.right as f64)
    }

    /// Both in one number; none if the class neither occurred nor was given.
    pub fn f1(self) -> Option<f64> {
        let sum = self.right + self.given;
        (sum > 0).then(|| 2.0 * self.hits as f64 / sum as f64)
    }
}

impl Tally {
    /// A tally that also knows which class was taken for which.
    pub fn with_confusion(classes: usize) -> Self {
        let counts = vec![0; classes * classes];
        Self { confusion: Some(Confusion { classes, counts, near: 0 }), ..Self::default() }
    }

    /// A tally that also counts which class was taken for which; without classes, how far numbers are off.
    pub fn measuring(classes: usize) -> Self {
        match classes {
            0 => Self { errors: Some(Errors::default()), ..Self::default() },
            _ => Self::with_confusion(classes),
        }
    }

    /// Hears that a number is off. It is no answer that could be right, so that there is no accuracy.
    #[inline]
    pub(crate) fn miss(&mut self, error: f32, right: f32) {
        if let Some(errors) = &mut self.errors {
            let right = f64::from(right);
            errors.absolute += f64::from(error.abs());
            errors.sum += right;
            errors.squares += right * right;
        }
    }

    /// How far numbers are off on average; none for classes.
    pub fn mean_absolute_error(&self) -> Option<f64> {
        self.errors.filter(|_| self.weight > 0.0).map(|errors| errors.absolute / self.weight)
    }

    /// Which part of the variance of the numbers is explained: 1 if all are right, 0 if their mean would do as well.
    /// None for classes, and where all right numbers are equal.
    pub fn r2(&self) -> Option<f64> {
        let errors = self.errors.filter(|_| self.weight > 0.0)?;
        let spread = errors.squares - errors.sum * errors.sum / self.weight;
        (spread > 0.0).then(|| 1.0 - self.loss / spread)
    }

    /// Counts one answer.
    #[inline]
    pub fn count(&mut self, given: usize, right: usize) {
        self.answers += 1;
        self.correct += u64::from(given == right);
        if let Some(Confusion { classes, counts, .. }) = &mut self.confusion {
            counts[right * *classes + given] += 1;
        }
    }

    /// Whether it is to be told how many classes were thought more likely than the right one.
    #[inline]
    pub(crate) fn wants_place(&self) -> bool {
        self.confusion.is_some()
    }

    /// So many classes were thought more likely than the right one.
    #[inline]
    pub(crate) fn place(&mut self, before: usize) {
        if let Some(Confusion { near, .. }) = &mut self.confusion {
            *near += u64::from(before < NEAR);
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
        if let (Some(mine), Some(other)) = (&mut self.errors, &other.errors) {
            mine.absolute += other.absolute;
            mine.sum += other.sum;
            mine.squares += other.squares;
        }
        if let (Some(mine), Some(other)) = (&mut self.confusion, &other.confusion) {
            assert_eq!(mine.classes, other.classes, "tallies of one model");
            mine.near += other.near;
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
        let scores: Vec<f64> = self.by_class()?.into_iter().filter_map(ClassCount::f1).collect();
        (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
    }

    /// What was counted of every class; none without a confusion.
    pub fn by_class(&self) -> Option<Vec<ClassCount>> {
        let Confusion { classes, counts, .. } = self.confusion.as_ref()?;
        let count = |class: usize| ClassCount {
            right: counts[class * classes..(class + 1) * classes].iter().sum(),
            given: (0..*classes).map(|row| counts[row * classes + class]).sum(),
            hits: counts[class * classes + class],
        };
        Some((0..*classes).map(count).collect())
    }

    /// Answers by class: a row for each right class, in it a number for each given one. None without a confusion.
    pub fn confusion(&self) -> Option<Vec<Vec<u64>>> {
        let Confusion { classes, counts, .. } = self.confusion.as_ref()?;
        Some(counts.chunks_exact((*classes).max(1)).map(<[u64]>::to_vec).collect())
    }

    /// The share of answers whose right class was among the five most likely; none where there are no more than five.
    pub fn top5(&self) -> Option<f64> {
        let Confusion { classes, near, .. } = self.confusion.as_ref()?;
        (*classes > NEAR && self.answers > 0).then(|| *near as f64 / self.answers as f64)
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
        let count = ClassCount { right: 3, given: 3, hits: 2 };
        assert_eq!(whole.by_class(), Some(vec![count, count, ClassCount { right: 0, given: 0, hits: 0 }]));
        assert_eq!((count.precision(), count.recall()), (Some(2.0 / 3.0), Some(2.0 / 3.0)));
        assert_eq!(whole.confusion(), Some(vec![vec![2, 1, 0], vec![1, 2, 0], vec![0, 0, 0]]));
        assert_eq!(whole.top5(), None, "three classes are always among five");
    }

    #[test]
    fn the_five_most_likely_are_counted() {
        let mut tally = Tally::with_confusion(7);
        for before in [0, 4, 5, 6] {
            tally.count(before, 0);
            tally.place(before);
        }
        let mut sum = Tally::with_confusion(7);
        sum.add(&tally);
        sum.add(&tally);
        assert_eq!(sum.top5(), Some(0.5));
    }
}

//! The label of a text: stars, or one of two classes.

use serde::{Deserialize, Serialize};

/// The whole numbers that a rating may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RatingScale {
    /// One to five stars.
    #[default]
    #[serde(rename = "1-5")]
    Stars,
    /// 0 is worse, 1 is better.
    #[serde(rename = "0-1")]
    Classes,
}

impl RatingScale {
    fn holds(self, rating: u8) -> bool {
        match self {
            Self::Stars => (1..=5).contains(&rating),
            Self::Classes => rating <= 1,
        }
    }

    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Stars => "expected a whole number of stars from 1 to 5",
            Self::Classes => "expected 0 or 1",
        }
    }

    /// The rating that these letters are: `5`, `5.0`, `5e0`.
    pub(crate) fn parse(self, letters: &[u8]) -> Option<u8> {
        let rating = match letters {
            [digit @ b'0'..=b'9'] | [digit @ b'0'..=b'9', b'.', b'0'] => digit - b'0',
            _ => {
                let number: f64 = std::str::from_utf8(letters).ok()?.trim().parse().ok()?;
                let is_whole = (0.0..=5.0).contains(&number) && number.fract() == 0.0;
                is_whole.then_some(number as u8)?
            }
        };
        self.holds(rating).then_some(rating)
    }
}

/// How often one text got each rating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ratings(pub [u64; 6]);

impl Ratings {
    pub(crate) fn one(rating: u8) -> Self {
        let mut ratings = Self::default();
        ratings.0[usize::from(rating)] = 1;
        ratings
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The most frequent rating; of several the smallest.
    pub(crate) fn mode(&self) -> u8 {
        let most = self.0.iter().max();
        self.0.iter().position(|count| Some(count) == most).unwrap_or(0) as u8
    }
}

/// The class of two that a number of stars belongs to.
pub(crate) fn class_of_two(stars: u8) -> u8 {
    u8::from(stars >= 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_are_whole_numbers_however_they_are_written() {
        let check = |letters: &str, stars: Option<u8>, class: Option<u8>| {
            let parse = |scale: RatingScale| scale.parse(letters.as_bytes());
            assert_eq!((parse(RatingScale::Stars), parse(RatingScale::Classes)), (stars, class), "{letters}");
        };
        check("5", Some(5), None);
        check("1", Some(1), Some(1));
        check("1.0", Some(1), Some(1));
        check("0", None, Some(0));
        check("-0.0", None, Some(0));
        check("5.00", Some(5), None);
        check("4e0", Some(4), None);
        check(" 3 ", Some(3), None);
        for wrong in ["", "six", "6", "4.5", "-1", "55", "nan", "inf", "1e400", "5 stars"] {
            check(wrong, None, None);
        }
    }

    #[test]
    fn the_mode_is_the_most_frequent_and_of_several_the_smallest() {
        let check = |ratings: &[u8], expect: u8| {
            let mut sum = Ratings::default();
            ratings.iter().for_each(|&rating| sum.add(&Ratings::one(rating)));
            assert_eq!((sum.mode(), sum.count()), (expect, ratings.len() as u64), "{ratings:?}");
        };
        check(&[3], 3);
        check(&[5, 5, 5, 2], 5);
        check(&[2, 5, 5, 5], 5);
        check(&[5, 1], 1);
        check(&[5, 4, 4, 5], 4);
        check(&[1, 2, 3, 4, 5], 1);
        check(&[1, 2, 2, 3, 3], 2);
        check(&[0, 1], 0);
        check(&[1, 1, 0], 1);
    }

    #[test]
    fn three_stars_are_the_worse_class() {
        assert_eq!([1, 2, 3, 4, 5].map(class_of_two), [0, 0, 0, 1, 1]);
    }
}

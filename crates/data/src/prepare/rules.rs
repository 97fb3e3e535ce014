//! What decides about the result: the options of a preparation, without those that only say how fast.

use super::clean::{Cleaner, Other};
use super::mapper::Mapper;
use super::part::Split;
use super::rating::{RatingScale, class_of_two};
use super::stop::StopWords;
use crate::error::{Error, Result};
use crate::source::MOST;
use serde::{Deserialize, Serialize};

/// The options of a preparation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// The key or column of the text; none looks for the usual ones.
    pub text: Option<String>,
    /// The same for the rating.
    pub label: Option<String>,
    /// What ratings there are.
    pub ratings: RatingScale,
    /// What becomes of characters that belong to no word.
    pub other: Other,
    /// `english`, `none`, or a file with a word a line.
    pub stop_words: String,
    /// Which texts belong to which part.
    pub seed: u64,
    /// The share of texts to measure on in the end.
    pub test: f64,
    /// The share of texts to measure on meanwhile.
    pub validation: f64,
    /// The texts whose words are counted.
    pub vocabulary: Counted,
    /// So many words have numbers.
    pub words: usize,
    /// So many words of a text are kept.
    pub length: usize,
    /// 2: up to three stars against four and five. None: labels as they are.
    pub classes: Option<u8>,
}

/// The texts whose words are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Those to train on.
    #[default]
    Train,
    All,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            text: None,
            label: None,
            ratings: RatingScale::default(),
            other: Other::default(),
            stop_words: "english".to_owned(),
            seed: 1234,
            test: 0.1,
            validation: 0.1,
            vocabulary: Counted::default(),
            words: 10_000,
            length: 100,
            classes: None,
        }
    }
}

/// No text is read further.
const LENGTH_LIMIT: usize = 1 << 20;

impl Rules {
    /// Whether the options make sense together.
    pub fn check(&self) -> Result<()> {
        self.split()?;
        for (name, value, limit) in [("words", self.words, MOST), ("length", self.length, LENGTH_LIMIT)] {
            if !(1..=limit).contains(&value) {
                return Err(Error::mismatch(format!("{name} is {value}, it must be from 1 to {limit}")));
            }
        }
        match (self.classes, self.ratings) {
            (None, _) | (Some(2), RatingScale::Stars) => Ok(()),
            (Some(2), RatingScale::Classes) => {
                Err(Error::mismatch("classes: ratings of 0 and 1 are two classes already"))
            }
            (Some(other), _) => Err(Error::mismatch(format!(
                "classes is {other}, expected 2 (up to three stars against four and five), or nothing for stars"
            ))),
        }
    }

    pub fn split(&self) -> Result<Split> {
        Split::new(self.seed, self.test, self.validation)
    }

    pub fn mapper(&self) -> Result<Mapper> {
        let cleaner = Cleaner::new(self.other, StopWords::named(&self.stop_words)?);
        Ok(Mapper::new(self.text.as_deref(), self.label.as_deref(), self.ratings, cleaner))
    }

    /// The label of a text whose ratings have this mode.
    pub(crate) fn label_of(&self, mode: u8) -> u8 {
        if self.classes.is_some() { class_of_two(mode) } else { mode }
    }

    /// The labels that there may be.
    pub(crate) fn labels(&self) -> &'static str {
        match (self.ratings, self.classes) {
            (RatingScale::Stars, None) => "1-5",
            _ => "0-1",
        }
    }

    /// Everything that decides about the result, as text. Stop words of a file are there by their content.
    pub(crate) fn fingerprint(&self) -> Result<String> {
        let list = match self.stop_words.as_str() {
            "english" | "none" => String::new(),
            path => std::fs::read_to_string(path).map_err(Error::io(path.as_ref()))?,
        };
        let rules = serde_json::to_string(self).map_err(|error| Error::mismatch(error.to_string()))?;
        Ok(format!("{rules}\n{list}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_options_are_refused() {
        let check = |rules: Rules, expect: &str| {
            let error = rules.check().unwrap_err().to_string();
            assert!(error.contains(expect), "{error:?} should say {expect:?}");
        };
        Rules::default().check().unwrap();
        check(Rules { words: 0, ..Rules::default() }, "words is 0, it must be from 1 to");
        check(Rules { length: 0, ..Rules::default() }, "length is 0");
        check(Rules { classes: Some(3), ..Rules::default() }, "classes is 3, expected 2");
        check(Rules { test: 0.9, ..Rules::default() }, "leaves nothing to train on");
        let both = Rules { classes: Some(2), ratings: RatingScale::Classes, ..Rules::default() };
        check(both, "are two classes already");
    }
}

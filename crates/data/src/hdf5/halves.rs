//! Rows of word numbers become texts to train on and texts to measure on.

use super::table::{CellError, Whole};
use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::source::text;
use crate::{Dataset, Samples, Source, Texts, Vocabulary};
use bonfire_learn::Shape;
use std::path::Path;
use std::sync::Arc;

/// The number of the padding in a file.
const PADDING: i64 = 1;

/// A number of a file less this is the number of the same word here.
const SHIFT: i64 = PADDING - Vocabulary::PADDING as i64;

const LABELS: &str = "expected 0 and 1, or stars from 1 to 5";

/// What has been read so far.
pub(super) struct Halves<'a> {
    source: &'a Source,
    train: Half,
    test: Half,
    draw: Draw,
    labels: LabelScale,
}

/// Texts with the labels of the file.
struct Half {
    texts: Texts,
    limit: usize,
}

/// Which labels there are: 1 is one star, or the better of two classes, and only the others can tell.
#[derive(Default)]
struct LabelScale {
    has_zero: bool,
    has_stars: bool,
}

impl<'a> Halves<'a> {
    /// Of a file with so many rows.
    pub(super) fn new(source: &'a Source, rows: u64) -> Self {
        let half = |limit: Option<usize>| Half {
            texts: Texts { starts: vec![0], ..Texts::default() },
            limit: limit.unwrap_or(usize::MAX),
        };
        Self {
            source,
            train: half(source.train),
            test: half(source.test),
            draw: Draw::of(source.seed, rows),
            labels: LabelScale::default(),
        }
    }

    /// Takes the next row.
    pub(super) fn add(&mut self, row: &[Whole]) -> Result<(), CellError> {
        let half = if self.draw.picks_next() { &mut self.test } else { &mut self.train };
        let Some((&Whole(label), words)) = row.split_last() else { return Ok(()) };
        if let Some(column) = words.iter().position(|&Whole(word)| word < PADDING) {
            let message = format!(
                "the number of a word is {}, expected 1 for padding, 2 for an unknown word, and from 3 on words",
                words[column].0
            );
            return Err(CellError { column, message });
        }
        let mut words = words.iter().map(|word| word.0).filter(|&word| word != PADDING).peekable();
        // Padding alone says nothing.
        if words.peek().is_none() {
            return Ok(());
        }
        let wrong = |message| CellError { column: row.len() - 1, message };
        let label = self.labels.note(label).map_err(wrong)?;
        let texts = &mut half.texts;
        if texts.labels.len() < half.limit {
            let known = Vocabulary::UNKNOWN as i64 + self.source.max_words as i64;
            let number = |word: i64| match word - SHIFT {
                number if number <= known => number as u32,
                _ => Vocabulary::UNKNOWN,
            };
            texts.words.in_memory().extend(words.take(self.source.max_length).map(number));
            let start =
                text::start(self.source, texts.words.len()).map_err(|error| wrong(error.to_string()))?;
            texts.starts.push(start);
            texts.labels.push(label);
        }
        Ok(())
    }

    /// After the last row.
    pub(super) fn into_dataset(self, path: &Path) -> Result<Dataset> {
        let Self { source, train, test, labels, .. } = self;
        if train.texts.labels.is_empty() || test.texts.labels.is_empty() {
            return Err(Error::format(path, "holds too few texts to train on some and measure on others"));
        }
        let samples = |mut texts: Texts| {
            texts.labels.iter_mut().for_each(|label| *label = labels.class(*label));
            Arc::new(Samples::Texts(texts))
        };
        Ok(Dataset {
            name: source.name.clone(),
            // Padding and unknown words have numbers too. It does not depend on which words the file has, so that what
            // was learned from a part can be used on the whole.
            shape: Shape::Texts { words: source.max_words + 2, classes: text::STARS.len() },
            train: samples(train.texts),
            test: samples(test.texts),
            dev: None,
            classes: text::STARS.map(str::to_owned).to_vec(),
            vocabulary: None,
        })
    }
}

impl LabelScale {
    /// Checks a label against those before it.
    fn note(&mut self, label: i64) -> Result<u8, String> {
        if !(0..=text::STARS.len() as i64).contains(&label) {
            return Err(format!("the label is {label}, {LABELS}"));
        }
        self.has_zero |= label == 0;
        self.has_stars |= label > 1;
        if self.has_zero && self.has_stars {
            let other = if label == 0 { "more than 1" } else { "0" };
            return Err(format!("the label is {label}, but a row before has {other}; {LABELS}"));
        }
        Ok(label as u8)
    }

    /// The class of a label: of two, the worse is one star and the better five.
    fn class(&self, label: u8) -> u8 {
        match (self.has_zero, label) {
            (true, 0) => 0,
            (true, _) => text::STARS.len() as u8 - 1,
            (false, stars) => stars - 1,
        }
    }
}

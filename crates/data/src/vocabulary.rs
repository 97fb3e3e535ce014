//! The words of a text data set and their numbers.

use crate::error::{Error, Result};
use crate::source::file::{self, NumberedLines};
use std::collections::HashMap;
use std::path::Path;

/// Numbers words from 2 on, the most frequent first. Numbers 0 and 1 are padding and every word that has no number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<String>,
    numbers: HashMap<String, u32>,
}

/// Words that are being counted. Each has a number for the time being, so that a text need not be kept as words until
/// all are counted.
#[derive(Debug, Default)]
pub(crate) struct Census {
    places: HashMap<String, u32>,
    frequencies: Vec<usize>,
}

impl Census {
    /// Counts a word and returns its number: words are numbered from 0 on as they first appear.
    pub(crate) fn note(&mut self, word: &str) -> u32 {
        if let Some(&place) = self.places.get(word) {
            self.frequencies[place as usize] += 1;
            return place;
        }
        let place = self.frequencies.len() as u32;
        self.places.insert(word.to_owned(), place);
        self.frequencies.push(1);
        place
    }

    /// The words in the order of their numbers.
    pub(crate) fn words(self) -> Vec<String> {
        let mut words: Vec<(String, u32)> = self.places.into_iter().collect();
        words.sort_unstable_by_key(|&(_, place)| place);
        words.into_iter().map(|(word, _)| word).collect()
    }

    /// The vocabulary of all words noted, as [`Vocabulary::count`] would make it, and for each number that
    /// [`Self::note`] returned the one that the word has now.
    pub(crate) fn vocabulary(mut self, min_frequency: usize, max_words: usize) -> (Vocabulary, Vec<u32>) {
        let frequencies = std::mem::take(&mut self.frequencies);
        let mut numbers = vec![Vocabulary::UNKNOWN; frequencies.len()];
        let mut places: Vec<usize> =
            (0..frequencies.len()).filter(|&place| frequencies[place] >= min_frequency).collect();
        // The sort is stable, which keeps first appearance as the second key.
        places.sort_by_key(|&place| std::cmp::Reverse(frequencies[place]));
        places.truncate(max_words.min((u32::MAX - Vocabulary::FIRST) as usize));
        let mut all = self.words();
        let words = places.iter().zip(Vocabulary::FIRST..).map(|(&place, number)| {
            numbers[place] = number;
            std::mem::take(&mut all[place])
        });
        (Vocabulary::numbered(words.collect()), numbers)
    }
}

impl Vocabulary {
    /// Fills the end of the shorter samples of a batch.
    pub const PADDING: u32 = bonfire_learn::PADDING;
    /// Stands for every word that has no number of its own.
    pub const UNKNOWN: u32 = 1;
    /// The number of the first real word.
    const FIRST: u32 = 2;

    /// Counts words and numbers those that occur at least `min_frequency` times, at most `max_words` of them, by
    /// falling frequency. Words of equal frequency go by first appearance, so that one text has one vocabulary.
    pub fn count<'a>(
        words: impl IntoIterator<Item = &'a str>,
        min_frequency: usize,
        max_words: usize,
    ) -> Self {
        let mut census = Census::default();
        for word in words {
            census.note(word);
        }
        census.vocabulary(min_frequency, max_words).0
    }

    /// The vocabulary of these words, each of which is there once, in their order.
    pub(crate) fn numbered(words: Vec<String>) -> Self {
        let numbers = words.iter().cloned().zip(Self::FIRST..).collect();
        Self { words, numbers }
    }

    /// The number of a word; [`Self::UNKNOWN`] if it has none.
    pub fn number(&self, word: &str) -> u32 {
        self.numbers.get(word).copied().unwrap_or(Self::UNKNOWN)
    }

    /// The word of a number.
    pub fn word(&self, number: u32) -> &str {
        match number {
            Self::PADDING => "<padding>",
            _ => number
                .checked_sub(Self::FIRST)
                .and_then(|place| self.words.get(place as usize))
                .map_or("<unknown>", String::as_str),
        }
    }

    /// The same with at most so many words, the most frequent.
    pub(crate) fn first(self, max_words: usize) -> Self {
        if self.words.len() <= max_words {
            return self;
        }
        Self::numbered(self.words.into_iter().take(max_words).collect())
    }

    /// How many numbers there are, padding and unknown included: the rows of an embedding.
    pub fn len(&self) -> usize {
        self.words.len() + Self::FIRST as usize
    }

    /// How many words have a number of their own.
    pub fn names(&self) -> usize {
        self.words.len()
    }

    /// Whether no word has a number of its own.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Writes one word a line; line 1 has number 2.
    pub fn save(&self, path: &Path) -> Result<()> {
        file::create(path, |out| self.words.iter().try_for_each(|word| writeln!(out, "{word}")))
    }

    /// Reads what [`Self::save`] wrote.
    pub fn load(path: &Path) -> Result<Self> {
        let mut lines = NumberedLines::open(path)?;
        let mut words = Vec::new();
        let mut first_lines: HashMap<String, usize> = HashMap::new();
        while let Some((number, word)) = lines.next()? {
            if word.is_empty() {
                return Err(Error::line(path, number, "the line is empty, expected one word a line"));
            }
            if let Some(first) = first_lines.insert(word.to_owned(), number) {
                return Err(Error::line(
                    path,
                    number,
                    format!("the word {word:?} is already on line {first}"),
                ));
            }
            words.push(word.to_owned());
        }
        Ok(Self::numbered(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "to be or not to be that is the question be";

    #[test]
    fn words_are_numbered_by_frequency_then_first_appearance() {
        let check = |min_frequency, max_words, expect: &[&str]| {
            let vocabulary = Vocabulary::count(TEXT.split(' '), min_frequency, max_words);
            assert_eq!(vocabulary.words, expect);
            assert_eq!(vocabulary.len(), expect.len() + 2);
        };
        check(1, 100, &["be", "to", "or", "not", "that", "is", "the", "question"]);
        check(1, 3, &["be", "to", "or"]);
        check(2, 100, &["be", "to"]);
        check(9, 100, &[]);
    }

    #[test]
    fn numbers_and_words_are_inverse() {
        let vocabulary = Vocabulary::count(TEXT.split(' '), 1, 4);
        let check = |word, number| assert_eq!(vocabulary.number(word), number, "{word}");
        check("be", 2);
        check("not", 5);
        check("question", Vocabulary::UNKNOWN);
        assert_eq!(vocabulary.word(2), "be");
        assert_eq!(vocabulary.word(0), "<padding>");
        assert_eq!(vocabulary.word(1), "<unknown>");
        assert_eq!(vocabulary.word(6), "<unknown>");
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words.txt");
        for max_words in [0, 5] {
            let vocabulary = Vocabulary::count(TEXT.split(' '), 1, max_words);
            vocabulary.save(&path).unwrap();
            assert_eq!(Vocabulary::load(&path).unwrap(), vocabulary);
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line() {
        let check = |content: &[u8], expect: &str| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("words.txt");
            std::fs::write(&path, content).unwrap();
            let error = Vocabulary::load(&path).unwrap_err().to_string();
            assert!(error.contains(expect), "{error:?} should say {expect:?}");
        };
        check(b"a\n\nb\n", "words.txt:2: the line is empty");
        check(b"a\nb\na\n", "words.txt:3: the word \"a\" is already on line 1");
        check(b"a\n\xC3\n", "words.txt:2: not valid UTF-8");
    }
}

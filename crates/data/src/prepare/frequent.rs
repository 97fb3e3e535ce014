//! The most frequent of all words that were counted, however many.

use super::segment::WordReader;
use super::tally::Tally;
use crate::error::Result;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::path::PathBuf;

/// The number of the first word of a vocabulary: 1 is padding, 2 an unknown word.
pub(crate) const FIRST_WORD: u32 = 3;
pub(crate) const UNKNOWN: u32 = 2;
pub(crate) const PADDING: u32 = 1;

/// The words that have numbers, the most frequent first.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrequentWords {
    pub words: Vec<Vec<u8>>,
    /// How many different words there are in all.
    pub distinct: u64,
}

/// A word that is more frequent than another, or as frequent and smaller, comes first.
#[derive(PartialEq, Eq)]
struct Candidate {
    count: u64,
    word: Vec<u8>,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.count.cmp(&other.count).then_with(|| other.word.cmp(&self.word))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The best so many candidates.
pub(crate) struct Election {
    best: BinaryHeap<Reverse<Candidate>>,
    limit: usize,
    distinct: u64,
}

impl Election {
    pub(crate) fn new(limit: usize) -> Self {
        Self { best: BinaryHeap::new(), limit, distinct: 0 }
    }

    /// A word with all its occurrences. One that does not occur is none.
    pub(crate) fn add(&mut self, word: &[u8], count: u64) {
        if count == 0 {
            return;
        }
        self.distinct += 1;
        let is_full = self.best.len() >= self.limit;
        let is_worse = |worst: &Reverse<Candidate>| {
            (count, Reverse(word)) <= (worst.0.count, Reverse(worst.0.word.as_slice()))
        };
        if is_full && self.best.peek().is_some_and(is_worse) {
            return;
        }
        if is_full {
            self.best.pop();
        }
        self.best.push(Reverse(Candidate { count, word: word.to_vec() }));
    }

    pub(crate) fn result(self) -> FrequentWords {
        let sorted = self.best.into_sorted_vec();
        let words = sorted.into_iter().map(|Reverse(candidate)| candidate.word).collect();
        FrequentWords { words, distinct: self.distinct }
    }
}

/// Elects from the words of many segments.
pub(crate) fn elect(paths: &[PathBuf], limit: usize) -> Result<FrequentWords> {
    let mut heap = BinaryHeap::new();
    for path in paths {
        let mut reader = WordReader::open(path)?;
        if reader.advance()? {
            heap.push(Reverse(ByWord(reader)));
        }
    }
    let mut election = Election::new(limit);
    let (mut word, mut count) = (Vec::new(), 0);
    while let Some(mut next) = heap.peek_mut() {
        if next.0.0.word != word {
            election.add(&word, count);
            count = 0;
            word.clone_from(&next.0.0.word);
        }
        count += next.0.0.count;
        if !next.0.0.advance()? {
            std::collections::binary_heap::PeekMut::pop(next);
        }
    }
    election.add(&word, count);
    Ok(election.result())
}

/// Orders readers by the words at which they are.
struct ByWord(WordReader);

impl Ord for ByWord {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.word.cmp(&other.0.word)
    }
}

impl PartialOrd for ByWord {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByWord {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByWord {}

/// Numbers words as a vocabulary does.
#[derive(Debug, Default)]
pub(crate) struct WordNumbers(Tally);

impl WordNumbers {
    /// Of words, the most frequent first, each once.
    pub(crate) fn new<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut tally = Tally::default();
        for word in words {
            tally.note(word, 0, word.len(), 0);
        }
        Self(tally)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of the word at this place of a text.
    pub(crate) fn number(&self, text: &[u8], start: usize, length: usize) -> u32 {
        self.0.find(text, start, length).map_or(UNKNOWN, |place| place + FIRST_WORD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::segment;

    #[test]
    fn words_are_elected_by_count_then_by_their_bytes() {
        let check = |words: &[(&str, u64)], limit, expect: &[&str]| {
            let mut election = Election::new(limit);
            words.iter().for_each(|(word, count)| election.add(word.as_bytes(), *count));
            let elected = election.result();
            let words: Vec<&str> =
                elected.words.iter().map(|word| std::str::from_utf8(word).unwrap()).collect();
            assert_eq!(words, expect);
        };
        let words = [("b", 2), ("a", 2), ("c", 3), ("'", 2), ("none", 0), ("aa", 2), ("z", 1)];
        check(&words, 10, &["c", "'", "a", "aa", "b", "z"]);
        check(&words, 4, &["c", "'", "a", "aa"]);
        check(&words, 3, &["c", "'", "a"]);
        check(&[], 3, &[]);
    }

    #[test]
    fn segments_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, words) in ["a a b", "b b c", "", "a c d d d d"].iter().enumerate() {
            let mut tally = Tally::default();
            for word in words.split_whitespace() {
                tally.note(word.as_bytes(), 0, word.len(), 1);
            }
            let path = folder.path().join(number.to_string());
            segment::write_words(&path, &tally).unwrap();
            paths.push(path);
        }
        let elected = elect(&paths, 3).unwrap();
        assert_eq!((elected.words, elected.distinct), (vec![b"d".to_vec(), b"a".to_vec(), b"b".to_vec()], 4));
        let numbers = WordNumbers::new([&b"d"[..], b"a"]);
        assert_eq!([b"d", b"a", b"b"].map(|word| numbers.number(word, 0, 1)), [3, 4, 2]);
    }
}

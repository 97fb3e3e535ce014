//! The numbers of the words of many texts, one after the other: in memory, or mapped from a file.

use crate::Vocabulary;
use crate::bytes::Bytes;
use std::ops::Range;

/// Numbers of words.
#[derive(Clone, Debug)]
pub enum Words {
    Owned(Vec<u32>),
    Mapped(MappedWords),
}

/// Numbers of words in a file.
#[derive(Clone, Debug)]
pub struct MappedWords {
    bytes: Bytes,
    /// Where the first stands.
    at: usize,
    count: usize,
    /// Bytes of a number.
    width: usize,
    /// A number of the file less this is the number here.
    shift: u32,
    /// From here on numbers mean unknown words.
    limit: u32,
}

impl Words {
    /// So many numbers that stand in a file from a place on, each of 2 or 4 bytes.
    pub(crate) fn mapped(
        bytes: Bytes,
        at: usize,
        count: usize,
        width: usize,
        shift: u32,
        limit: u32,
    ) -> Self {
        assert!(at + count * width <= bytes.len(), "words stand within their file");
        Self::Mapped(MappedWords { bytes, at, count, width, shift, limit })
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Owned(words) => words.len(),
            Self::Mapped(words) => words.count,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives each word of a range to `take`, in order.
    #[inline]
    pub fn each(&self, range: Range<usize>, mut take: impl FnMut(u32)) {
        match self {
            Self::Owned(words) => words[range].iter().for_each(|&word| take(word)),
            Self::Mapped(words) => {
                let MappedWords { bytes, at, width, .. } = words;
                let bytes = &bytes[at + range.start * width..at + range.end * width];
                match width {
                    2 => bytes.as_chunks().0.iter().for_each(|&two| {
                        take(words.here(u32::from(u16::from_le_bytes(two))));
                    }),
                    _ => bytes.as_chunks().0.iter().for_each(|&four| {
                        take(words.here(u32::from_le_bytes(four)));
                    }),
                }
            }
        }
    }

    /// The list in memory, to change it. What is mapped is read first.
    pub fn in_memory(&mut self) -> &mut Vec<u32> {
        if self.is_mapped() {
            *self = Self::Owned(self.to_vec());
        }
        match self {
            Self::Owned(words) => words,
            Self::Mapped(_) => unreachable!("it was just read"),
        }
    }

    /// All of them, in memory.
    pub fn to_vec(&self) -> Vec<u32> {
        let mut words = Vec::with_capacity(self.len());
        self.each(0..self.len(), |word| words.push(word));
        words
    }

    /// Tells the system that these words are wanted soon.
    pub(crate) fn fetch(&self, range: Range<usize>) {
        if let Self::Mapped(MappedWords { bytes, at, width, .. }) = self {
            bytes.fetch(at + range.start * width..at + range.end * width);
        }
    }

    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self, Self::Mapped(_))
    }
}

impl MappedWords {
    /// The number that a word has here. What no word has in a sound file is an unknown one.
    fn here(&self, number: u32) -> u32 {
        match number.checked_sub(self.shift) {
            Some(number) if number < self.limit => number,
            _ => Vocabulary::UNKNOWN,
        }
    }
}

impl From<Vec<u32>> for Words {
    fn from(words: Vec<u32>) -> Self {
        Self::Owned(words)
    }
}

impl Default for Words {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.to_vec() == other.to_vec()
    }
}

impl Eq for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_words_are_those_of_the_file() {
        let bytes = |width: usize| {
            let numbers = [9, 3, 2, 1, 4, 0, 500];
            let bytes = numbers.iter().flat_map(|&number: &u32| number.to_le_bytes()[..width].to_vec());
            Bytes::from([vec![7; 3], bytes.collect()].concat())
        };
        for width in [2, 4] {
            let words = Words::mapped(bytes(width), 3, 7, width, 1, 9);
            // Padding has its number, and what is no number is unknown.
            assert_eq!(words.to_vec(), [8, 2, 1, 0, 3, 1, 1], "{width}");
            assert_eq!(words, Words::from(vec![8, 2, 1, 0, 3, 1, 1]));
            let mut some = Vec::new();
            words.each(1..3, |word| some.push(word));
            assert_eq!(some, [2, 1]);
        }
    }
}

//! The words that every text has, and that say nothing about it.

use crate::error::{Error, Result};
use crate::source::file::NumberedLines;
use std::collections::HashSet;
use std::path::Path;

/// The English stop words of NLTK, and those that product reviews have just as often.
#[rustfmt::skip]
const ENGLISH: &[&str] = &[
    "i", "me", "my", "myself", "we", "our", "ours", "ourselves", "you", "you're", "you've", "you'll", "you'd", "your",
    "yours", "yourself", "yourselves", "he", "him", "his", "himself", "she", "she's", "her", "hers", "herself", "it",
    "it's", "its", "itself", "they", "them", "their", "theirs", "themselves", "what", "which", "who", "whom", "this",
    "that", "that'll", "these", "those", "am", "is", "are", "was", "were", "be", "been", "being", "have", "has", "had",
    "having", "do", "does", "did", "doing", "a", "an", "the", "and", "but", "if", "or", "because", "as", "until",
    "while", "of", "at", "by", "for", "with", "about", "against", "between", "into", "through", "during", "before",
    "after", "above", "below", "to", "from", "up", "down", "in", "out", "on", "off", "over", "under", "again",
    "further", "then", "once", "here", "there", "when", "where", "why", "how", "all", "any", "both", "each", "few",
    "more", "most", "other", "some", "such", "no", "nor", "not", "only", "own", "same", "so", "than", "too", "very",
    "s", "t", "can", "will", "just", "don", "don't", "should", "should've", "now", "d", "ll", "m", "o", "re", "ve",
    "y", "ain", "aren", "aren't", "couldn", "couldn't", "didn", "didn't", "doesn", "doesn't", "hadn", "hadn't", "hasn",
    "hasn't", "haven", "haven't", "isn", "isn't", "ma", "mightn", "mightn't", "mustn", "mustn't", "needn", "needn't",
    "shan", "shan't", "shouldn", "shouldn't", "wasn", "wasn't", "weren", "weren't", "won", "won't", "wouldn",
    "wouldn't", "get", "would", "product", "'", "''", "'em", "'s", "'the",
];

/// A word of up to so many bytes is compared as one number.
const SHORT: usize = 16;

/// A set of words that is asked for every word of every text.
#[derive(Clone, Debug, Default)]
pub struct StopWords {
    /// A power of two of places, at most half of them taken; 0 is free.
    places: Vec<u128>,
    /// The length of the longest.
    longest: usize,
    long: HashSet<Vec<u8>>,
}

impl StopWords {
    /// What `--stop-words` says: `english`, `none`, or a file with a word a line.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "english" => Ok(Self::english()),
            "none" => Ok(Self::none()),
            path => Self::read(Path::new(path)),
        }
    }

    pub fn none() -> Self {
        Self::default()
    }

    pub fn english() -> Self {
        Self::of(ENGLISH.iter().map(|word| word.as_bytes()))
    }

    /// Reads a word a line. Spaces around a word, and lines without one, say nothing.
    fn read(path: &Path) -> Result<Self> {
        if !path.is_file() {
            let message = "is no file; stop words are english, none, or a file with a word a line";
            return Err(Error::format(path, message));
        }
        let mut lines = NumberedLines::open(path)?;
        let mut words: Vec<Vec<u8>> = Vec::new();
        while let Some((number, line)) = lines.next()? {
            let word = line.trim().to_ascii_lowercase();
            if word.contains(' ') {
                return Err(Error::line(path, number, "has several words, expected one a line"));
            }
            words.push(word.into_bytes());
        }
        Ok(Self::of(words.iter().map(Vec::as_slice).filter(|word| !word.is_empty())))
    }

    fn of<'a>(words: impl Iterator<Item = &'a [u8]>) -> Self {
        let (short, long): (Vec<&[u8]>, Vec<&[u8]>) = words.partition(|word| word.len() <= SHORT);
        let mut set = Self {
            places: vec![0; (2 * short.len()).next_power_of_two().max(2)],
            longest: short.iter().chain(&long).map(|word| word.len()).max().unwrap_or(0),
            long: long.into_iter().map(<[u8]>::to_vec).collect(),
        };
        for word in short {
            let key = packed(word, 0, word.len());
            let place = set.place(key);
            set.places[place] = key;
        }
        set
    }

    /// Whether the word of this length at this place of a text is one.
    pub(crate) fn contains(&self, text: &[u8], start: usize, length: usize) -> bool {
        if length > self.longest {
            return false;
        }
        if length > SHORT {
            return self.long.contains(&text[start..start + length]);
        }
        let key = packed(text, start, length);
        self.places[self.place(key)] == key
    }

    /// Where a word is, or would be.
    fn place(&self, key: u128) -> usize {
        let mask = self.places.len() - 1;
        let mut place = hash(key) as usize & mask;
        while self.places[place] != 0 && self.places[place] != key {
            place = (place + 1) & mask;
        }
        place
    }
}

/// A word of at most 16 bytes as a number. What stands behind it in the text is read and masked, which is faster than
/// to copy so few bytes.
pub(crate) fn packed(text: &[u8], start: usize, length: usize) -> u128 {
    match text.get(start..start + SHORT) {
        Some(bytes) => {
            let mut sixteen = [0; SHORT];
            sixteen.copy_from_slice(bytes);
            let unused = 8 * (SHORT - length) as u32;
            u128::from_le_bytes(sixteen).checked_shl(unused).unwrap_or(0) >> unused.min(127)
        }
        None => {
            let mut sixteen = [0; SHORT];
            sixteen[..length].copy_from_slice(&text[start..start + length]);
            u128::from_le_bytes(sixteen)
        }
    }
}

/// Spreads words over a table.
pub(crate) fn hash(key: u128) -> u64 {
    let (low, high) = (key as u64, (key >> 64) as u64);
    let product = u128::from(low ^ 0x9E37_79B9_7F4A_7C15) * u128::from(high ^ 0xD6E8_FEB8_6659_FD93);
    let folded = (product as u64) ^ (product >> 64) as u64 ^ low;
    folded.wrapping_mul(0x9FB2_1C65_1E98_DF25) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(set: &StopWords, word: &str) -> bool {
        let alone = set.contains(word.as_bytes(), 0, word.len());
        let text = format!("before {word} and some more behind");
        assert_eq!(set.contains(text.as_bytes(), 7, word.len()), alone, "{word}");
        alone
    }

    #[test]
    fn words_are_found_wherever_they_stand() {
        let english = StopWords::english();
        assert!(ENGLISH.iter().all(|word| has(&english, word)));
        for other in ["good", "th", "thee", "em", "'''", "yourselvess", "a-very-long-word-indeed"] {
            assert!(!has(&english, other), "{other}");
        }
        assert!(!has(&StopWords::none(), "the"));
    }

    #[test]
    fn a_file_has_a_word_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stop.txt");
        std::fs::write(&path, "Good\n\n  bad \nincomprehensibilities\r\n").unwrap();
        let set = StopWords::named(path.to_str().unwrap()).unwrap();
        for word in ["good", "bad", "incomprehensibilities"] {
            assert!(has(&set, word), "{word}");
        }
        assert!(!has(&set, "the") && !has(&set, "incomprehensibilitiez"));
        std::fs::write(&path, "good\nvery bad\n").unwrap();
        let error = StopWords::named(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("stop.txt:2: has several words"), "{error}");
        let error = StopWords::named("englsh").unwrap_err().to_string();
        assert!(error.contains("english, none, or a file"), "{error}");
    }
}

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
pub(crate) const SHORT: usize = 16;

/// A set of words that is asked for every word of every text.
#[derive(Clone, Debug)]
pub struct StopWords {
    /// By the hash of a word, where it is among `short`. A power of two of places, of which so few are taken that the
    /// first one nearly always decides; 0 is free.
    places: Vec<u32>,
    /// Words as numbers, the empty one among them; at 0 is what no word is.
    short: Vec<u128>,
    long: HashSet<Vec<u8>>,
}

/// So many places there are for a word.
const PLACES_OF_WORD: usize = 8;

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
        Self::of(std::iter::empty())
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
            let word = line.trim().to_lowercase();
            if word.contains(' ') {
                return Err(Error::line(path, number, "has several words, expected one a line"));
            }
            words.push(word.into_bytes());
        }
        Ok(Self::of(words.iter().map(Vec::as_slice).filter(|word| !word.is_empty())))
    }

    fn of<'a>(words: impl Iterator<Item = &'a [u8]>) -> Self {
        let (short, long): (Vec<&[u8]>, Vec<&[u8]>) = words.partition(|word| word.len() <= SHORT);
        let count = PLACES_OF_WORD * (short.len() + 1);
        let mut set = Self {
            places: vec![0; count.next_power_of_two()],
            short: vec![u128::MAX],
            long: long.into_iter().map(<[u8]>::to_vec).collect(),
        };
        for word in short.into_iter().chain([&b""[..]]) {
            let key = packed(word, 0, word.len());
            let (place, _) = set.find(key);
            if set.places[place] == 0 {
                set.places[place] = set.short.len() as u32;
                set.short.push(key);
            }
        }
        set
    }

    /// Whether a word is one, which as a number is this, if it is short. No letters at all are one, too.
    pub(crate) fn contains<'a>(&self, key: u128, length: usize, word: impl FnOnce() -> &'a [u8]) -> bool {
        if length > SHORT {
            return !self.long.is_empty() && self.long.contains(word());
        }
        self.find(key).1 == key
    }

    /// Where a word is, or would be, and what is there.
    fn find(&self, key: u128) -> (usize, u128) {
        let mask = self.places.len() - 1;
        let mut place = hash(key) as usize & mask;
        loop {
            let number = self.places[place];
            let found = self.short[number as usize];
            // Both at once: which of them it is nobody can foresee, but that it is one of them is nearly certain.
            if (number == 0) | (found == key) {
                return (place, found);
            }
            place = (place + 1) & mask;
        }
    }
}

/// What belongs to a word of each length.
const MASKS: [u128; SHORT + 1] = {
    let mut masks = [u128::MAX; SHORT + 1];
    let mut length = 0;
    while length < SHORT {
        masks[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    masks
};

/// A word of at most 16 bytes as a number. What stands behind it in the text is read and masked, which is faster than
/// to copy so few bytes.
pub(crate) fn packed(text: &[u8], start: usize, length: usize) -> u128 {
    match text[start..].first_chunk::<SHORT>() {
        Some(sixteen) => u128::from_le_bytes(*sixteen) & MASKS[length],
        None => {
            let mut sixteen = [0; SHORT];
            sixteen[..length].copy_from_slice(&text[start..start + length]);
            u128::from_le_bytes(sixteen)
        }
    }
}

/// Spreads words over a table.
pub(crate) fn hash(key: u128) -> u64 {
    let both = key as u64 ^ ((key >> 64) as u64).rotate_left(32);
    let product = u128::from(both) * 0x9E37_79B9_7F4A_7C15;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(set: &StopWords, word: &str) -> bool {
        let short = word.len().min(SHORT);
        let key = packed(word.as_bytes(), 0, short);
        let text = format!("before {word} and some more behind");
        assert_eq!(packed(text.as_bytes(), 7, short), key, "{word}");
        set.contains(key, word.len(), || word.as_bytes())
    }

    #[test]
    fn words_are_found_wherever_they_stand() {
        let english = StopWords::english();
        assert!(ENGLISH.iter().all(|word| has(&english, word)));
        for other in ["good", "th", "thee", "em", "'''", "yourselvess", "a-very-long-word-indeed"] {
            assert!(!has(&english, other), "{other}");
        }
        assert!(!has(&StopWords::none(), "the") && !has(&StopWords::none(), "a-very-long-word-indeed"));
        assert!(has(&english, "") && has(&StopWords::none(), ""));
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

//! Words that are counted, each under a number for the time being: the texts are numbered once, before it is known
//! which words are the most frequent.

use super::stop::{hash, packed};

/// A word of up to so many bytes is its own key.
const SHORT: usize = 16;

/// What a place in the table takes.
const SLOT_BYTES: usize = size_of::<Slot>();

/// Words and their counts, in the order in which they were noted.
#[derive(Debug)]
pub(crate) struct Tally {
    /// A power of two of places, at most half of them taken.
    places: Vec<Slot>,
    letters: Vec<u8>,
    /// Where each word ends in `letters`.
    ends: Vec<usize>,
    counts: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Of a long word its hash and length.
    key: [u64; 2],
    /// [`FREE`] if there is none.
    number: u32,
}

const FREE: u32 = u32::MAX;

impl Default for Tally {
    fn default() -> Self {
        let free = Slot { key: [0; 2], number: FREE };
        Self { places: vec![free; 1 << 12], letters: Vec::new(), ends: Vec::new(), counts: Vec::new() }
    }
}

impl Tally {
    /// Adds to the count of the word at this place of a text, and returns its number.
    pub(crate) fn note(&mut self, text: &[u8], start: usize, length: usize, count: u64) -> u32 {
        let (key, hash) = key(text, start, length);
        let word = &text[start..start + length];
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let Slot { key: other, number } = self.places[place];
            if number == FREE {
                break;
            }
            if other == key && (length <= SHORT || self.word(number) == word) {
                self.counts[number as usize] += count;
                return number;
            }
            place = (place + 1) & mask;
        }
        let number = self.ends.len() as u32;
        self.places[place] = Slot { key, number };
        self.letters.extend_from_slice(word);
        self.ends.push(self.letters.len());
        self.counts.push(count);
        if self.ends.len() * 2 > self.places.len() {
            self.grow();
        }
        number
    }

    /// The number of a word, if it was noted.
    pub(crate) fn find(&self, text: &[u8], start: usize, length: usize) -> Option<u32> {
        let (key, hash) = key(text, start, length);
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let Slot { key: other, number } = self.places[place];
            if number == FREE {
                return None;
            }
            if other == key && (length <= SHORT || self.word(number) == &text[start..start + length]) {
                return Some(number);
            }
            place = (place + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let free = Slot { key: [0; 2], number: FREE };
        self.places = vec![free; 2 * self.places.len()];
        let mask = self.places.len() - 1;
        for number in 0..self.ends.len() as u32 {
            let word = self.word(number);
            let (key, hash) = key(word, 0, word.len());
            let mut place = hash as usize & mask;
            while self.places[place].number != FREE {
                place = (place + 1) & mask;
            }
            self.places[place] = Slot { key, number };
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn word(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.letters[start..self.ends[number]]
    }

    pub(crate) fn count(&self, number: u32) -> u64 {
        self.counts[number as usize]
    }

    /// The numbers of all words in the order of the words' bytes.
    pub(crate) fn by_word(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.ends.len() as u32).collect();
        numbers.sort_unstable_by(|&one, &other| self.word(one).cmp(self.word(other)));
        numbers
    }

    /// About how many bytes of memory this takes, with what it takes while it grows.
    pub(crate) fn bytes(&self) -> usize {
        3 * self.places.len() * SLOT_BYTES / 2 + 2 * self.letters.len() + 32 * self.ends.len()
    }
}

/// What a word is compared by, and its hash.
fn key(text: &[u8], start: usize, length: usize) -> ([u64; 2], u64) {
    if length <= SHORT {
        let key = packed(text, start, length);
        return ([key as u64, (key >> 64) as u64], hash(key));
    }
    let pieces = text[start..start + length].chunks(SHORT);
    let hash = pieces.fold(0, |sum: u64, piece| {
        hash(packed(piece, 0, piece.len()) ^ (u128::from(sum) << 64 | u128::from(sum)))
    });
    // A short word has letters there, which are never so large.
    ([hash, u64::MAX - length as u64], hash)
}

/// The places and lengths of the words of a cleaned text.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let length = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let word = (start, length);
        start += length + 1;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn words_are_counted() {
        let long = "x".repeat(40);
        let made: Vec<String> = (0..20_000).map(|i: usize| format!("w{}", i * i % 7919)).collect();
        let text =
            format!("good bad good {long} {long}y sixteen-letters! seventeen-letters {}", made.join(" "));
        let (mut tally, mut expect) = (Tally::default(), HashMap::new());
        for (start, length) in words(text.as_bytes()) {
            let number = tally.note(text.as_bytes(), start, length, 2);
            let word = &text[start..start + length];
            assert_eq!(tally.word(number), word.as_bytes());
            *expect.entry(word).or_insert(0) += 2;
        }
        assert_eq!(tally.len(), expect.len());
        let by_word = tally.by_word();
        assert!(by_word.windows(2).all(|pair| tally.word(pair[0]) < tally.word(pair[1])));
        for number in by_word {
            let word = std::str::from_utf8(tally.word(number)).unwrap();
            assert_eq!(tally.count(number), expect[word], "{word}");
            assert_eq!(tally.find(word.as_bytes(), 0, word.len()), Some(number));
        }
        assert_eq!(tally.find(b"never", 0, 5), None);
        assert_eq!(tally.find(&[b'y'; 40], 0, 40), None);
    }

    #[test]
    fn a_text_is_cut_at_spaces() {
        let check = |text: &str, expect: &[&str]| {
            let found: Vec<&str> =
                words(text.as_bytes()).map(|(start, length)| &text[start..start + length]).collect();
            assert_eq!(found, expect, "{text:?}");
        };
        check("", &[]);
        check("one", &["one"]);
        check("one two '", &["one", "two", "'"]);
    }
}

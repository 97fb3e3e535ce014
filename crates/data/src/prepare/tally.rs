//! Words that are counted, each under a number for the time being: the texts are numbered once, before it is known
//! which words are the most frequent.

use super::eight;
use super::stop::{SHORT, hash, packed};

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
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// A short word itself; of a long one its hash and length.
    key: u128,
    count: u64,
    /// [`FREE`] if there is none.
    number: u32,
}

const FREE: u32 = u32::MAX;

/// Such a place has the key of no word.
const FREE_SLOT: Slot = Slot { key: 0, count: 0, number: FREE };

/// A word that was noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotedWord {
    pub number: u32,
    pub count: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self { places: vec![FREE_SLOT; 1 << 12], letters: Vec::new(), ends: Vec::new() }
    }
}

impl Tally {
    /// Adds to the count of the word at this place of a text, and returns its number.
    pub(crate) fn note(&mut self, text: &[u8], start: usize, length: usize, count: u64) -> u32 {
        let (key, hash) = key(text, start, length);
        let mask = self.places.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let Slot { key: other, number, .. } = self.places[place];
            if other == key && (length <= SHORT || self.word(number) == &text[start..start + length]) {
                self.places[place].count += count;
                return number;
            }
            if number == FREE {
                break;
            }
            place = (place + 1) & mask;
        }
        let number = self.ends.len() as u32;
        self.places[place] = Slot { key, count, number };
        self.letters.extend_from_slice(&text[start..start + length]);
        self.ends.push(self.letters.len());
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
            let Slot { key: other, number, .. } = self.places[place];
            if other == key && (length <= SHORT || self.word(number) == &text[start..start + length]) {
                return Some(number);
            }
            if number == FREE {
                return None;
            }
            place = (place + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let free = vec![FREE_SLOT; 2 * self.places.len()];
        let old = std::mem::replace(&mut self.places, free);
        let mask = self.places.len() - 1;
        for slot in old.into_iter().filter(|slot| slot.number != FREE) {
            let word = self.word(slot.number);
            let mut place = key(word, 0, word.len()).1 as usize & mask;
            while self.places[place].number != FREE {
                place = (place + 1) & mask;
            }
            self.places[place] = slot;
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

    /// All words in the order of their bytes.
    pub(crate) fn by_word(&self) -> Vec<NotedWord> {
        let noted = self.places.iter().filter(|slot| slot.number != FREE);
        let mut words: Vec<(u128, NotedWord)> = noted
            .map(|&Slot { number, count, .. }| {
                let word = self.word(number);
                let prefix = packed(word, 0, word.len().min(SHORT)).swap_bytes();
                (prefix, NotedWord { number, count })
            })
            .collect();
        words.sort_unstable_by(|(prefix, one), (other_prefix, other)| {
            prefix.cmp(other_prefix).then_with(|| self.word(one.number).cmp(self.word(other.number)))
        });
        words.into_iter().map(|(_, word)| word).collect()
    }

    /// About how many bytes of memory this takes, with what it takes while it grows.
    pub(crate) fn bytes(&self) -> usize {
        3 * self.places.len() * SLOT_BYTES / 2 + 2 * self.letters.len() + 48 * self.ends.len()
    }
}

/// What a word is compared by, and its hash.
fn key(text: &[u8], start: usize, length: usize) -> (u128, u64) {
    if length <= SHORT {
        let key = packed(text, start, length);
        return (key, hash(key));
    }
    let pieces = text[start..start + length].chunks(SHORT);
    let hash = pieces.fold(0, |sum: u64, piece| {
        hash(packed(piece, 0, piece.len()) ^ (u128::from(sum) << 64 | u128::from(sum)))
    });
    // A short word has letters there, which are never so large.
    (u128::from(u64::MAX - length as u64) << 64 | u128::from(hash), hash)
}

/// The places and lengths of the words of a cleaned text.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let mut length = 0;
        while length < rest.len() {
            let before = eight::before(eight::equal(eight::load(&rest[length..]), b' '));
            length += before;
            if before < 8 {
                break;
            }
        }
        let word = (start, length.min(rest.len()));
        start += word.1 + 1;
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
        assert!(by_word.windows(2).all(|pair| tally.word(pair[0].number) < tally.word(pair[1].number)));
        for NotedWord { number, count } in by_word {
            let word = std::str::from_utf8(tally.word(number)).unwrap();
            assert_eq!(count, expect[word], "{word}");
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
        check("sevenxx eightxxx nine", &["sevenxx", "eightxxx", "nine"]);
        check(&"x".repeat(21), &[&"x".repeat(21)]);
    }
}

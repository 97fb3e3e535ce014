//! Texts that are sorted in memory, as many as it has room for.

use super::rating::Ratings;
use super::sorted::RunWriter;
use crate::error::Result;

/// One byte in so many is for the places of texts, the others for the texts.
const PLACES_SHARE: usize = 8;

/// Hardly any row of input is shorter.
const SHORT_ROW: usize = 32;

/// So few texts are compared as a whole.
const FEW: usize = 8;

/// So are texts that have so many letters in common: most of them are equal.
const DEEP: usize = 256;

/// Offsets are kept in 32 bits; a machine of 32 bits has no single block that is so large.
const MOST_BYTES: usize = if usize::BITS < 64 { 1 << 30 } else { 3 << 30 };

/// Cleaned texts with their ratings, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Sorter {
    /// All texts, one behind the other. What is appended here becomes a text by [`Self::add`].
    pub letters: Vec<u8>,
    places: Vec<TextPlace>,
}

/// A text, by its place.
#[derive(Clone, Copy, Debug)]
struct TextPlace {
    /// The first letters, which decide most comparisons.
    prefix: u64,
    start: u32,
    /// The length and, in the lowest byte, the rating. No row is longer than 2^24.
    length_and_rating: u32,
}

impl TextPlace {
    fn length(self) -> usize {
        (self.length_and_rating >> 8) as usize
    }
}

impl Sorter {
    /// For about so many bytes of memory.
    pub(crate) fn new(budget: usize) -> Self {
        let budget = budget.min(MOST_BYTES);
        // All at once: a list that grows is copied, and is there twice meanwhile. The system gives no memory to what
        // was not written to yet.
        let places = Vec::with_capacity(budget / PLACES_SHARE / size_of::<TextPlace>());
        Self { letters: Vec::with_capacity(budget - budget / PLACES_SHARE), places }
    }

    /// Makes a text of all letters from `start` on.
    pub(crate) fn add(&mut self, start: usize, rating: u8) {
        let length = self.letters.len() - start;
        self.places.push(TextPlace {
            prefix: prefix(&self.letters[start..]),
            start: start as u32,
            length_and_rating: (length as u32) << 8 | u32::from(rating),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the texts of so many more bytes of input might be too many.
    pub(crate) fn is_full_with(&self, more: usize) -> bool {
        self.letters.len() + more > self.letters.capacity()
            || self.places.len() + more / SHORT_ROW > self.places.capacity()
    }

    /// Gives all texts with their ratings to `take` in the order in which they came, and begins anew.
    pub(crate) fn pour(&mut self, mut take: impl FnMut(&[u8], u8)) {
        for place in &self.places {
            let start = place.start as usize;
            take(&self.letters[start..start + place.length()], place.length_and_rating as u8);
        }
        self.letters.clear();
        self.places.clear();
    }

    /// Writes all texts in the order of their bytes, equal ones as one, and begins anew.
    pub(crate) fn drain(&mut self, run: &mut RunWriter) -> Result<()> {
        let letters = &self.letters;
        let text = |entry: &TextPlace| &letters[entry.start as usize..entry.start as usize + entry.length()];
        sort(letters, &mut self.places, 0);
        let mut rest = self.places.as_slice();
        while let Some(first) = rest.first() {
            let equal = |entry: &&TextPlace| text(entry) == text(first);
            let count = rest.iter().take_while(equal).count();
            let mut ratings = Ratings::default();
            for entry in &rest[..count] {
                ratings.0[usize::from(entry.length_and_rating as u8)] += 1;
            }
            run.add(text(first), &ratings)?;
            rest = &rest[count..];
        }
        self.letters.clear();
        self.places.clear();
        Ok(())
    }
}

/// Sorts texts that have the first so many letters in common by the next eight, and those that are equal by the eight
/// after them, and so on: a text is looked at only as far as it takes to tell it from others, and one after the other.
fn sort(letters: &[u8], places: &mut [TextPlace], depth: usize) {
    if places.len() <= FEW || depth >= DEEP {
        let rest = |place: &TextPlace| {
            let start = place.start as usize;
            &letters[start + depth.min(place.length())..start + place.length()]
        };
        places.sort_unstable_by(|one, other| {
            one.prefix.cmp(&other.prefix).then_with(|| rest(one).cmp(rest(other)))
        });
        return;
    }
    places.sort_unstable_by_key(|place| place.prefix);
    for group in places.chunk_by_mut(|one, other| one.prefix == other.prefix) {
        // A prefix that ends in zero is that of a text without further letters.
        if group.len() == 1 || group[0].prefix.to_le_bytes()[0] == 0 {
            continue;
        }
        for place in group.iter_mut() {
            let start = place.start as usize;
            let text = &letters[start..start + place.length()];
            place.prefix = prefix(&text[text.len().min(depth + 8)..]);
        }
        sort(letters, group, depth + 8);
    }
}

/// The first eight letters as a number that sorts as they do.
pub(crate) fn prefix(text: &[u8]) -> u64 {
    match text.first_chunk::<8>() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => {
            let mut eight = [0; 8];
            eight[..text.len()].copy_from_slice(text);
            u64::from_be_bytes(eight)
        }
    }
}

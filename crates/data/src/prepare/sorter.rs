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

/// So many texts are fetched from memory at once.
const AHEAD: usize = 64;

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
        let letters = Vec::with_capacity(budget - budget / PLACES_SHARE);
        in_large_pages(&letters);
        Self { letters, places }
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
        let (mut rest, mut fetched) = (self.places.as_slice(), 0);
        while let Some((first, others)) = rest.split_first() {
            if fetched == 0 {
                // Texts lie anywhere. Asked for one after the other they are waited for together.
                let touch = |sum: u8, entry: &TextPlace| {
                    let text = text(entry);
                    sum ^ text.first().unwrap_or(&0) ^ text.last().unwrap_or(&0)
                };
                std::hint::black_box(rest.iter().take(AHEAD).fold(0, touch));
                fetched = AHEAD;
            }
            let equal = |entry: &&TextPlace| entry.length() == first.length() && text(entry) == text(first);
            let count = 1 + others.iter().take_while(equal).count();
            fetched = fetched.saturating_sub(count);
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

/// Asks the system to give memory in large pages: texts are read in an order in which small ones would have to be
/// looked up for nearly every text.
fn in_large_pages(letters: &Vec<u8>) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        let begin = (letters.as_ptr() as usize).next_multiple_of(PAGE);
        let end = (letters.as_ptr() as usize + letters.capacity()) / PAGE * PAGE;
        if begin < end {
            // SAFETY: these are whole pages within the memory of the list, and the advice leaves what is in it alone.
            unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = letters;
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
    let (mut rest, mut fetched) = (places, 0);
    while !rest.is_empty() {
        if fetched == 0 {
            fetch_equal(letters, &rest[..rest.len().min(AHEAD)], depth + 8);
            fetched = AHEAD;
        }
        let first = rest[0].prefix;
        let count = rest.iter().take_while(|place| place.prefix == first).count();
        fetched = fetched.saturating_sub(count);
        let group;
        (group, rest) = rest.split_at_mut(count);
        // A prefix that ends in zero is that of a text without further letters.
        if count == 1 || first.to_le_bytes()[0] == 0 {
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

/// Fetches the next letters of texts that are equal so far, all at once.
fn fetch_equal(letters: &[u8], places: &[TextPlace], depth: usize) {
    let touch = |sum: u8, pair: &[TextPlace]| match pair {
        [one, other] if one.prefix == other.prefix => {
            sum ^ letters.get(other.start as usize + depth).copied().unwrap_or(0)
        }
        _ => sum,
    };
    std::hint::black_box(places.windows(2).fold(0, touch));
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

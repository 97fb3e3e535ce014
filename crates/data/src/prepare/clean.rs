//! A text as its words: letters and apostrophes in lower case, between single spaces, without stop words.

use super::eight::{self, HIGHS};
use super::stop::{SHORT, StopWords};
use serde::{Deserialize, Serialize};

/// What becomes of a character that is no letter of `a-z` or `A-Z`, no apostrophe and no space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Other {
    /// It goes, and what it parted becomes one word.
    #[default]
    Delete,
    /// It parts words.
    Space,
}

/// Cleans texts.
#[derive(Clone, Debug)]
pub struct Cleaner {
    /// A character of several bytes is `other` in each of them, which comes to the same as once: spaces in a row are
    /// one.
    other: Other,
    stop: StopWords,
}

/// What is written beyond a text while it is cleaned.
const ROOM: usize = 8;

impl Cleaner {
    pub fn new(other: Other, stop: StopWords) -> Self {
        Self { other, stop }
    }

    /// Whether a byte that is no letter and no apostrophe ends a word.
    fn parts_words(&self, byte: u8) -> bool {
        byte == b' ' || self.other == Other::Space
    }

    /// Appends the words of a text to `out`, and says whether there are any.
    pub fn clean(&self, text: &str, out: &mut Vec<u8>) -> bool {
        let mut wash = self.begin(out);
        wash.add(text.as_bytes());
        wash.end()
    }

    /// Begins a text that comes in pieces, and is appended to `out`.
    pub(crate) fn begin<'a>(&'a self, out: &'a mut Vec<u8>) -> Wash<'a> {
        let start = out.len();
        Wash { cleaner: self, out, start, word: OpenWord::at(start) }
    }
}

/// A text that is being cleaned.
pub(crate) struct Wash<'a> {
    cleaner: &'a Cleaner,
    out: &'a mut Vec<u8>,
    /// Where the text begins in `out`.
    start: usize,
    /// The word that may go on.
    word: OpenWord,
}

/// A word of which more may come.
#[derive(Clone, Copy)]
struct OpenWord {
    /// Where it begins in `out`.
    start: usize,
    /// Counted for itself: where a word begins depends on whether all words before it were kept, and nothing else shall
    /// wait for that.
    length: usize,
    /// Its first letters as a number. Read back from `out`, they would have to be waited for.
    key: u128,
}

impl Wash<'_> {
    /// More of the text. Letters are taken eight at a time, up to the first that is none: how long words are cannot be
    /// foreseen, so that a loop over their letters would be left at the wrong place again and again.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        let mut word = self.word;
        self.out.resize(word.start + word.length + piece.len() + ROOM, 0);
        let out = self.out.as_mut_slice();
        let mut rest = piece;
        while !rest.is_empty() {
            let (letters, kept) = eight::letters(eight::load(rest));
            let end = word.start + word.length;
            out[end..end + 8].copy_from_slice(&letters.to_le_bytes());
            let others = !kept & HIGHS;
            let count = eight::before(others);
            if word.length < SHORT {
                word.key |= u128::from(letters & eight::mask_before(others)) << (8 * word.length);
            }
            word.length += count;
            if count == 8 {
                rest = &rest[8..];
                continue;
            }
            let Some(&other) = rest.get(count) else { break };
            rest = &rest[count + 1..];
            if self.cleaner.parts_words(other) {
                word = word.next(&self.cleaner.stop, out);
            }
        }
        self.out.truncate(word.start + word.length);
        self.word = word;
    }

    /// After the last piece: whether there are any words.
    pub(crate) fn end(self) -> bool {
        let Self { cleaner, out, start, word } = self;
        out.push(0);
        let end = word.next(&cleaner.stop, out).start;
        // Without the space that the last word has behind it.
        out.truncate(if end > start { end - 1 } else { start });
        end > start
    }
}

impl OpenWord {
    fn at(start: usize) -> Self {
        Self { start, length: 0, key: 0 }
    }

    /// Puts a space behind a word that counts, and takes away one that does not. There is room for the space: it comes
    /// from a character that is used up, or from the end of the text.
    fn next(self, stop: &StopWords, out: &mut [u8]) -> Self {
        let end = self.start + self.length;
        out[end] = b' ';
        // Without a branch, since nobody can foresee it.
        let is_kept = !stop.contains(self.key, self.length, || &out[self.start..end]);
        Self::at(self.start + usize::from(is_kept) * (self.length + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str, other: Other, stop: StopWords) -> String {
        let cleaner = Cleaner::new(other, stop);
        let mut out = b"before".to_vec();
        let any = cleaner.clean(text, &mut out);
        let cleaned = String::from_utf8(out).unwrap().split_off("before".len());
        assert_eq!(any, !cleaned.is_empty());
        // In pieces of every size it is the same.
        for size in 1..text.len().min(5) {
            let mut out = Vec::new();
            let mut wash = cleaner.begin(&mut out);
            text.as_bytes().chunks(size).for_each(|piece| wash.add(piece));
            wash.end();
            assert_eq!(String::from_utf8(out).unwrap(), cleaned, "{text:?} in pieces of {size}");
        }
        cleaned
    }

    #[test]
    fn letters_apostrophes_and_spaces_stay() {
        let check = |text, delete, space| {
            assert_eq!(cleaned(text, Other::Delete, StopWords::none()), delete, "{text:?}");
            assert_eq!(cleaned(text, Other::Space, StopWords::none()), space, "{text:?}");
        };
        check("", "", "");
        check("   ", "", "");
        check("Good", "good", "good");
        check("  two   words ", "two words", "two words");
        check("well-made", "wellmade", "well made");
        check("one\ttwo\nthree\r\nfour", "onetwothreefour", "one two three four");
        check("don't", "don't", "don't");
        check("don’t", "dont", "don t");
        check("'quoted' ''", "'quoted' ''", "'quoted' ''");
        check("naïve café", "nave caf", "na ve caf");
        check("ÀÉÎ", "", "");
        check("日本 good 語", "good", "good");
        check("😀good😀", "good", "good");
        check("5 stars!!!", "stars", "stars");
        check("a1b2c3", "abc", "a b c");
        check("non\u{a0}breaking", "nonbreaking", "non breaking");
        check("\u{212a}elvin \u{17f}", "elvin", "elvin");
        check("snake_case", "snakecase", "snake case");
        check("1 2 3", "", "");
    }

    #[test]
    fn stop_words_go() {
        let check = |text, expect| {
            let cleaned = cleaned(text, Other::Delete, StopWords::english());
            assert_eq!(cleaned, expect, "{text:?}");
        };
        check("The product is GOOD", "good");
        check("the and of", "");
        check("I'm not em 'em 's ' '' ''' 'the", "i'm em '''");
        check("wouldn't couldn't could", "could");
        check("themselves yourselves themselvess", "themselvess");
        check("would've gets", "would've gets");
        check("THE,END the.end", "theend theend");
        check("a good end is the", "good end");
    }
}

//! A text as its words: letters and apostrophes in lower case, between single spaces, without stop words.

use super::stop::StopWords;
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
    /// For every byte what it becomes; 0 is nothing. A character of several bytes is `Other` in each of them, which
    /// comes to the same as once: spaces in a row are one.
    table: [u8; 256],
    stop: StopWords,
}

impl Cleaner {
    pub fn new(other: Other, stop: StopWords) -> Self {
        let other = match other {
            Other::Delete => 0,
            Other::Space => b' ',
        };
        let mut table = [other; 256];
        for letter in b'a'..=b'z' {
            table[usize::from(letter)] = letter;
            table[usize::from(letter.to_ascii_uppercase())] = letter;
        }
        for kept in [b'\'', b' '] {
            table[usize::from(kept)] = kept;
        }
        Self { table, stop }
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
        Wash { cleaner: self, out, start, word: start }
    }
}

/// A text that is being cleaned.
pub(crate) struct Wash<'a> {
    cleaner: &'a Cleaner,
    out: &'a mut Vec<u8>,
    /// Where the text begins in `out`.
    start: usize,
    /// Where the word begins that may go on.
    word: usize,
}

impl Wash<'_> {
    /// More of the text.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        let mut end = self.out.len();
        let mut word = self.word;
        self.out.resize(end + piece.len(), 0);
        let out = self.out.as_mut_slice();
        for &byte in piece {
            let kept = self.cleaner.table[usize::from(byte)];
            if kept == b' ' {
                end = end_word(&self.cleaner.stop, out, word, end);
                word = end;
            } else {
                out[end] = kept;
                end += usize::from(kept != 0);
            }
        }
        self.out.truncate(end);
        self.word = word;
    }

    /// After the last piece: whether there are any words.
    pub(crate) fn end(self) -> bool {
        let Self { cleaner, out, start, word } = self;
        let end = out.len();
        out.push(0);
        let end = end_word(&cleaner.stop, out, word, end);
        // Without the space that the last word has behind it.
        out.truncate(if end > start { end - 1 } else { start });
        end > start
    }
}

/// Puts a space behind a word that counts, and takes away one that does not. Returns where the next begins. There is
/// room for the space: it comes from a character that is used up, or from the end of the text.
fn end_word(stop: &StopWords, out: &mut [u8], word: usize, end: usize) -> usize {
    if end == word || stop.contains(out, word, end - word) {
        return word;
    }
    out[end] = b' ';
    end + 1
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

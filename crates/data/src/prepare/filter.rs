//! The steps of a preparation as filters, for machines that somebody else lets work together: lines in, lines out, a
//! key and a tab before the value. Between two of them all lines are sorted by their bytes.
//!
//! | filter | takes | gives |
//! |---|---|---|
//! | [`map`] | JSON lines | text, tab, rating |
//! | [`reduce`] | the same, sorted | text, tab, rating; every text once |
//! | [`count`] | what `reduce` gives | word, tab, count; a word may come again |
//! | [`sum`] | the same, sorted | the most frequent words, one a line |
//! | [`encode`] | what `reduce` gives | part, tab, JSON; or the JSON of one part |

use super::frequent::{Election, FIRST_WORD, WordNumbers};
use super::input::{BOM, ROW_LIMIT};
use super::mapper::MappedLine;
use super::output::JsonLines;
use super::part::Part;
use super::rating::{RatingScale, Ratings};
use super::rules::{Counted, Rules};
use super::tally::{NotedWord, Tally, words};
use crate::error::{Error, Result};
use crate::source::file::NumberedLines;
use std::io::{BufRead, Read, Write};
use std::path::Path;

/// A tally that takes more memory is given out, and begins anew.
const TALLY_BYTES: usize = 256 << 20;

/// What the filters call what they read.
const INPUT: &str = "stdin";

/// What came of the lines that were mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapCounts {
    pub read: u64,
    pub bad: u64,
    pub empty: u64,
    /// The first bad line, and what is wrong with it.
    pub first_bad: Option<(u64, String)>,
}

/// Cleans the texts of JSON lines.
pub fn map(rules: &Rules, is_strict: bool, input: impl BufRead, mut out: impl Write) -> Result<MapCounts> {
    rules.check()?;
    let mapper = rules.mapper()?;
    let mut counts = MapCounts::default();
    let mut line = Vec::new();
    each_line(input, |number, bytes| {
        line.clear();
        let bytes = if number == 1 { bytes.strip_prefix(BOM).unwrap_or(bytes) } else { bytes };
        let mapped = mapper.json(bytes, &mut line);
        counts.read += u64::from(mapped != MappedLine::Blank);
        match mapped {
            MappedLine::Kept(rating) => {
                line.extend([b'\t', b'0' + rating, b'\n']);
                out.write_all(&line).map_err(unwritten)?;
            }
            MappedLine::Empty => counts.empty += 1,
            MappedLine::Blank => {}
            MappedLine::Bad(reason) if is_strict => return Err(wrong(number, reason)),
            MappedLine::Bad(reason) => {
                counts.bad += 1;
                counts.first_bad.get_or_insert((number, reason));
            }
        }
        Ok(())
    })?;
    out.flush().map_err(unwritten)?;
    Ok(counts)
}

/// Makes equal texts one, with the mode of their ratings.
pub fn reduce(rules: &Rules, input: impl BufRead, mut out: impl Write) -> Result<()> {
    rules.check()?;
    let mut current: Vec<u8> = Vec::new();
    let mut ratings = Ratings::default();
    let mut give = |text: &[u8], ratings: &Ratings| {
        if ratings.count() == 0 {
            return Ok(());
        }
        let mode = [b'\t', b'0' + ratings.mode(), b'\n'];
        out.write_all(text).and_then(|()| out.write_all(&mode)).map_err(unwritten)
    };
    each_line(input, |number, line| {
        let (text, rating) = text_and_rating(line, rules.ratings).map_err(|reason| wrong(number, reason))?;
        if text != current {
            if ratings.count() > 0 {
                check_order(number, &current, text)?;
            }
            give(&current, &ratings)?;
            current.clear();
            current.extend_from_slice(text);
            ratings = Ratings::default();
        }
        ratings.add(&Ratings::one(rating));
        Ok(())
    })?;
    give(&current, &ratings)?;
    out.flush().map_err(unwritten)
}

/// Counts the words of texts to train on, or of all if the rules say so.
pub fn count(rules: &Rules, input: impl BufRead, mut out: impl Write) -> Result<()> {
    rules.check()?;
    let split = rules.split()?;
    let mut tally = Tally::default();
    each_line(input, |number, line| {
        let (text, _) = text_and_rating(line, rules.ratings).map_err(|reason| wrong(number, reason))?;
        if rules.vocabulary == Counted::All || split.part(text) == Part::Train {
            for (start, length) in words(text) {
                tally.note(text, start, length, 1);
            }
        }
        if tally.bytes() > TALLY_BYTES {
            give_counts(&std::mem::take(&mut tally), &mut out)?;
        }
        Ok(())
    })?;
    give_counts(&tally, &mut out)?;
    out.flush().map_err(unwritten)
}

fn give_counts(tally: &Tally, out: &mut impl Write) -> Result<()> {
    for NotedWord { number, count } in tally.by_word() {
        let count = format!("\t{count}\n");
        let written = out.write_all(tally.word(number)).and_then(|()| out.write_all(count.as_bytes()));
        written.map_err(unwritten)?;
    }
    Ok(())
}

/// Adds up counts, and gives the most frequent words.
pub fn sum(rules: &Rules, input: impl BufRead, mut out: impl Write) -> Result<()> {
    rules.check()?;
    let mut election = Election::new(rules.words);
    let (mut current, mut total): (Vec<u8>, u64) = (Vec::new(), 0);
    each_line(input, |number, line| {
        let (word, count) = key_and_value(line)
            .ok_or("expected a word, a tab and a count")
            .and_then(|(word, count)| {
                let count =
                    std::str::from_utf8(count).ok().and_then(|count| count.trim().parse::<u64>().ok());
                Ok((word, count.ok_or("expected a word, a tab and a count")?))
            })
            .map_err(|reason| wrong(number, reason.to_owned()))?;
        if word != current {
            check_order(number, &current, word)?;
            election.add(&current, total);
            current.clear();
            current.extend_from_slice(word);
            total = 0;
        }
        total += count;
        Ok(())
    })?;
    election.add(&current, total);
    for word in election.result().words {
        out.write_all(&word).and_then(|()| out.write_all(b"\n")).map_err(unwritten)?;
    }
    out.flush().map_err(unwritten)
}

/// Numbers the words of texts by a vocabulary, and gives those of one part, or those of all with their part before.
pub fn encode(
    rules: &Rules,
    vocabulary: &Path,
    wanted: Option<Part>,
    input: impl BufRead,
    mut out: impl Write,
) -> Result<()> {
    rules.check()?;
    let split = rules.split()?;
    let known = read_vocabulary(vocabulary)?;
    let numbers = WordNumbers::new(known.iter().map(String::as_bytes));
    let lines = JsonLines::new(numbers.len() + FIRST_WORD as usize, rules.length);
    let (mut line, mut row) = (Vec::new(), Vec::new());
    each_line(input, |number, bytes| {
        let (text, rating) = text_and_rating(bytes, rules.ratings).map_err(|reason| wrong(number, reason))?;
        let part = split.part(text);
        if wanted.is_some_and(|wanted| wanted != part) {
            return Ok(());
        }
        row.clear();
        row.extend(words(text).take(rules.length).map(|(start, length)| numbers.number(text, start, length)));
        line.clear();
        if wanted.is_none() {
            line.extend_from_slice(part.name().as_bytes());
            line.push(b'\t');
        }
        lines.push(&mut line, text, rules.label_of(rating), &row);
        out.write_all(&line).map_err(unwritten)
    })?;
    out.flush().map_err(unwritten)
}

fn read_vocabulary(path: &Path) -> Result<Vec<String>> {
    let mut lines = NumberedLines::open(path)?;
    let mut words = Vec::new();
    while let Some((number, word)) = lines.next()? {
        // Hadoop takes a line without a tab for a key, and writes it with a tab and no value behind.
        let word = word.strip_suffix('\t').unwrap_or(word);
        if word.is_empty() {
            return Err(Error::line(path, number, "the line is empty, expected one word a line"));
        }
        words.push(word.to_owned());
    }
    Ok(words)
}

/// Gives every line to `take`, with its number, counted from 1.
fn each_line(mut input: impl BufRead, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        let length = (&mut input).take(ROW_LIMIT as u64).read_until(b'\n', &mut line);
        let length = length.map_err(|error| wrong(number, format!("cannot be read: {error}")))?;
        if length == 0 {
            return Ok(());
        }
        let bytes = line.strip_suffix(b"\n").unwrap_or(&line);
        if bytes.len() == ROW_LIMIT {
            return Err(wrong(number, format!("is longer than {} MiB", ROW_LIMIT >> 20)));
        }
        take(number, bytes.strip_suffix(b"\r").unwrap_or(bytes))?;
    }
}

fn key_and_value(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = line.iter().position(|&byte| byte == b'\t')?;
    Some((&line[..tab], &line[tab + 1..]))
}

fn text_and_rating(line: &[u8], scale: RatingScale) -> Result<(&[u8], u8), String> {
    let found = key_and_value(line).filter(|(text, _)| !text.is_empty());
    let (text, rating) = found.ok_or("expected a text, a tab and a rating")?;
    match scale.parse(rating) {
        Some(rating) => Ok((text, rating)),
        None => {
            let shown: String = String::from_utf8_lossy(rating).chars().take(20).collect();
            Err(format!("the rating is {shown:?}, {}", scale.in_words()))
        }
    }
}

/// Lines that are not sorted by their bytes would be taken for different ones where they are equal.
fn check_order(number: u64, before: &[u8], key: &[u8]) -> Result<()> {
    if before <= key {
        return Ok(());
    }
    Err(wrong(number, "is smaller than the line before; sort by bytes, such as by: LC_ALL=C sort".to_owned()))
}

fn wrong(number: u64, reason: String) -> Error {
    Error::line(Path::new(INPUT), number as usize, reason)
}

fn unwritten(source: std::io::Error) -> Error {
    Error::io(Path::new("stdout"))(source)
}

//! The third stage: the numbers of the vocabulary take the place of those that words had for the time being.
//!
//! Threads take blocks of rows in the order of the texts, and make of each what it is in the result. Where that belongs
//! is known as soon as all blocks before have been made: then the block is written there, beside those of others.

use super::Meter;
use super::feed::hold;
use super::frequent::WordNumbers;
use super::journal::StretchReport;
use super::mapping::joined;
use super::output::{PartFile, RegionBytes, RegionEnds, Writer};
use super::part::Part;
use super::segment::{BlockReader, Row, Segment, WordReader};
use crate::error::Result;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// What the stage works with.
pub(crate) struct Encoding<'a> {
    pub folder: &'a Path,
    pub numbers: &'a WordNumbers,
    /// In the order of [`Part::ALL`].
    pub files: &'a [PartFile; 3],
    /// In the order of the texts.
    pub stretches: &'a [StretchReport],
    pub threads: usize,
    pub meter: &'a Meter,
}

/// The blocks that are to be done.
struct Blocks {
    /// Of all stretches; the one that is being read is gone.
    segments: std::vec::IntoIter<Segment>,
    reader: Option<BlockReader>,
    /// For the numbers of the segment that is being read, those of the vocabulary.
    numbers: Arc<Vec<u32>>,
    next: u64,
}

/// Whose turn it is to be told its place in the files.
struct Turn {
    next: u64,
    ends: [RegionEnds; 3],
    /// Nobody's any more.
    is_over: bool,
}

impl Encoding<'_> {
    pub(crate) fn run(&self) -> Result<()> {
        let [train, validation, test] = self.files;
        let ends = [train.create()?, validation.create()?, test.create()?];
        let segments = (0..).zip(self.stretches).flat_map(|(stretch, report)| {
            (0..report.segments).map(move |number| Segment::of(self.folder, stretch, number))
        });
        let segments = segments.collect::<Vec<_>>().into_iter();
        let blocks = Mutex::new(Blocks { segments, reader: None, numbers: Arc::default(), next: 0 });
        let turn = (Mutex::new(Turn { next: 0, ends, is_over: false }), Condvar::new());
        let work = || {
            let guard = EndsTurn(&turn);
            let result = self.work(&blocks, &turn);
            if result.is_ok() {
                std::mem::forget(guard);
            }
            result
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(joined).collect::<Result<Vec<()>>>()
        })?;
        self.files.iter().try_for_each(PartFile::finish)
    }

    /// What one thread does.
    fn work(&self, blocks: &Mutex<Blocks>, turn: &(Mutex<Turn>, Condvar)) -> Result<()> {
        let writer = Writer::of(&self.files[0]);
        let keeps_text = self.files[0].format.keeps_text();
        let (mut block, mut row_numbers) = (Vec::new(), Vec::new());
        let mut parts: [RegionBytes; 3] = Default::default();
        loop {
            let Some((number, numbers)) = self.next_block(&mut hold(blocks), &mut block)? else {
                return Ok(());
            };
            parts.iter_mut().flatten().for_each(Vec::clear);
            let (mut rest, mut passed) = (block.as_slice(), 0);
            while let Some((row, more)) = Row::first(rest, keeps_text) {
                row_numbers.clear();
                row_numbers.extend(row.numbers().map(|number| numbers[number as usize]));
                writer.push(&mut parts[row.part as usize], row.text, row.label, &row_numbers);
                (rest, passed) = (more, passed + 4 * row_numbers.len() as u64);
            }
            if !rest.is_empty() {
                return Err(BlockReader::broken(self.folder));
            }
            let Some(places) = place(turn, number, &parts) else { return Ok(()) };
            for part in Part::ALL {
                self.files[part as usize].write(places[part as usize], &parts[part as usize])?;
            }
            self.meter.pass(passed);
        }
    }

    /// Reads the next block: its number, and for the numbers in it those of the vocabulary.
    fn next_block(&self, blocks: &mut Blocks, block: &mut Vec<u8>) -> Result<Option<(u64, Arc<Vec<u32>>)>> {
        loop {
            if let Some(reader) = &mut blocks.reader
                && reader.next(block)?
            {
                blocks.next += 1;
                return Ok(Some((blocks.next - 1, Arc::clone(&blocks.numbers))));
            }
            let Some(segment) = blocks.segments.next() else { return Ok(None) };
            blocks.numbers = Arc::new(self.translated(&segment)?);
            blocks.reader = Some(BlockReader::open(&segment.rows)?);
        }
    }

    /// The vocabulary's numbers of the words of a segment, by the numbers that they have there.
    fn translated(&self, segment: &Segment) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        let mut words = WordReader::open(&segment.words)?;
        while words.advance()? {
            let place = words.number as usize;
            if numbers.len() <= place {
                numbers.resize(place + 1, 0);
            }
            numbers[place] = self.numbers.number(&words.word, 0, words.word.len());
        }
        Ok(numbers)
    }
}

/// Waits until all blocks before this one have their places, and takes one for it. None if it came to an end.
fn place(turn: &(Mutex<Turn>, Condvar), number: u64, parts: &[RegionBytes; 3]) -> Option<[RegionEnds; 3]> {
    let (turn, changed) = turn;
    let is_early = |turn: &mut Turn| turn.next != number && !turn.is_over;
    let mut turn = changed.wait_while(hold(turn), is_early).unwrap_or_else(PoisonError::into_inner);
    if turn.is_over {
        return None;
    }
    let places = turn.ends;
    for (end, bytes) in turn.ends.iter_mut().flatten().zip(parts.iter().flatten()) {
        *end += bytes.len() as u64;
    }
    turn.next += 1;
    changed.notify_all();
    Some(places)
}

/// A thread that fails, even by a panic, lets nobody wait for its block.
struct EndsTurn<'a>(&'a (Mutex<Turn>, Condvar));

impl Drop for EndsTurn<'_> {
    fn drop(&mut self) {
        let (turn, changed) = self.0;
        hold(turn).is_over = true;
        changed.notify_all();
    }
}

//! The third stage: the numbers of the vocabulary take the place of those that words had for the time being.
//!
//! Threads take blocks of rows in the order of the texts, and make of each what it is in the result. One of them at a
//! time writes what is made, in that order, while the others go on.

use super::Meter;
use super::feed::hold;
use super::frequent::WordNumbers;
use super::journal::StretchReport;
use super::mapping::joined;
use super::output::{OpenPart, PartFile, RegionBytes, Writer};
use super::output_queue::OutputQueue;
use super::segment::{BlockReader, Row, Segment, WordReader};
use crate::error::Result;
use std::path::Path;
use std::sync::{Arc, Mutex};
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

/// What a block is in the files, in the order of [`Part::ALL`](super::Part::ALL).
type MadeBlock = [RegionBytes; 3];

impl Encoding<'_> {
    pub(crate) fn run(&self) -> Result<()> {
        let [train, validation, test] = self.files;
        let files = Mutex::new([train.create()?, validation.create()?, test.create()?]);
        let segments = (0..).zip(self.stretches).flat_map(|(stretch, report)| {
            (0..report.segments).map(move |number| Segment::of(self.folder, stretch, number))
        });
        let segments = segments.collect::<Vec<_>>().into_iter();
        let blocks = Mutex::new(Blocks { segments, reader: None, numbers: Arc::default(), next: 0 });
        let queue = OutputQueue::new(self.threads);
        let work = || {
            let guard = EndsQueue(&queue);
            let result = self.work(&blocks, &queue, &files);
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
    fn work(
        &self,
        blocks: &Mutex<Blocks>,
        queue: &OutputQueue<MadeBlock>,
        files: &Mutex<[OpenPart; 3]>,
    ) -> Result<()> {
        let writer = Writer::of(&self.files[0]);
        let keeps_text = self.files[0].format.keeps_text();
        let (mut block, mut row_numbers) = (Vec::new(), Vec::new());
        while let Some(mut made) = queue.room() {
            let Some((number, numbers)) = self.next_block(&mut hold(blocks), &mut block)? else { break };
            made.iter_mut().flatten().for_each(Vec::clear);
            let (mut rest, mut passed) = (block.as_slice(), 0);
            while let Some((row, more)) = Row::first(rest, keeps_text) {
                row_numbers.clear();
                row_numbers.extend(row.numbers().map(|number| numbers[number as usize]));
                writer.push(&mut made[row.part as usize], row.text, row.label, &row_numbers);
                (rest, passed) = (more, passed + 4 * row_numbers.len() as u64);
            }
            if !rest.is_empty() {
                return Err(BlockReader::broken(self.folder));
            }
            queue.put(number, made, |made| {
                hold(files).iter_mut().zip(made).try_for_each(|(file, bytes)| file.write(bytes))
            })?;
            self.meter.pass(passed);
        }
        Ok(())
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

/// A thread that fails, even by a panic, lets nobody wait for its block.
struct EndsQueue<'a>(&'a OutputQueue<MadeBlock>);

impl Drop for EndsQueue<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

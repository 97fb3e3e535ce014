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
use super::stop::SHORT;
use crate::error::Result;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

/// What the stage works with.
pub(crate) struct Encoding<'a> {
    pub folder: &'a Path,
    pub numbers: &'a WordNumbers,
    /// In the order of [`Part::ALL`](super::Part::ALL).
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
    /// Of the segment that is being read.
    words: Arc<SegmentWords>,
    next: u64,
}

/// The words of a segment, by the numbers that they have there.
#[derive(Default)]
struct SegmentWords {
    /// Their numbers in the vocabulary.
    numbers: Vec<u32>,
    /// Where their letters are, and how many, if texts are wanted.
    places: Vec<(usize, usize)>,
    letters: Vec<u8>,
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
        let blocks = Mutex::new(Blocks { segments, reader: None, words: Arc::default(), next: 0 });
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
        let (mut block, mut row_numbers, mut text) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(mut made) = queue.room() {
            let Some((number, words)) = self.next_block(&mut hold(blocks), &mut block)? else { break };
            made.iter_mut().flatten().for_each(Vec::clear);
            let (mut rest, mut passed) = (block.as_slice(), 0);
            while let Some((row, more)) = Row::first(rest, keeps_text) {
                row_numbers.clear();
                row_numbers.extend(row.numbers().map(|number| words.numbers[number as usize]));
                let whole = if keeps_text && row.text.is_empty() {
                    words.join(row.numbers(), &mut text);
                    text.as_slice()
                } else {
                    row.text
                };
                writer.push(&mut made[row.part as usize], whole, row.label, &row_numbers);
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

    /// Reads the next block: its number, and the words of its segment.
    fn next_block(
        &self,
        blocks: &mut Blocks,
        block: &mut Vec<u8>,
    ) -> Result<Option<(u64, Arc<SegmentWords>)>> {
        loop {
            if let Some(reader) = &mut blocks.reader
                && reader.next(block)?
            {
                blocks.next += 1;
                return Ok(Some((blocks.next - 1, Arc::clone(&blocks.words))));
            }
            let Some(segment) = blocks.segments.next() else { return Ok(None) };
            blocks.words = Arc::new(self.words_of(&segment)?);
            blocks.reader = Some(BlockReader::open(&segment.rows)?);
        }
    }

    fn words_of(&self, segment: &Segment) -> Result<SegmentWords> {
        let keeps_text = self.files[0].format.keeps_text();
        let mut found = SegmentWords::default();
        let mut words = WordReader::open(&segment.words)?;
        while words.advance()? {
            let place = words.number as usize;
            if found.numbers.len() <= place {
                found.numbers.resize(place + 1, 0);
                found.places.resize(if keeps_text { place + 1 } else { 0 }, (0, 0));
            }
            found.numbers[place] = self.numbers.number(&words.word, 0, words.word.len());
            if keeps_text {
                found.places[place] = (found.letters.len(), words.word.len());
                found.letters.extend_from_slice(&words.word);
            }
        }
        found.letters.extend_from_slice(&[0; SHORT]);
        Ok(found)
    }
}

impl SegmentWords {
    /// Makes `text` that of these words, with a space between them. Of a short word always as many letters are copied,
    /// of which the next takes the place of those that are not its own.
    fn join(&self, words: impl ExactSizeIterator<Item = u32>, text: &mut Vec<u8>) {
        text.clear();
        text.resize((SHORT + 1) * words.len(), 0);
        let mut end = 0;
        for number in words {
            let (start, length) = self.places[number as usize];
            if length > SHORT {
                text.resize(text.len() + length, 0);
                text[end..end + length].copy_from_slice(&self.letters[start..start + length]);
            } else {
                text[end..end + SHORT].copy_from_slice(&self.letters[start..start + SHORT]);
            }
            text[end + length] = b' ';
            end += length + 1;
        }
        text.truncate(end.saturating_sub(1));
    }
}

/// A thread that fails, even by a panic, lets nobody wait for its block.
struct EndsQueue<'a>(&'a OutputQueue<MadeBlock>);

impl Drop for EndsQueue<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

//! The first stage: all rows of all files become sorted runs, by as many threads as there are.

use super::feed::{ChunkId, Feed, Taken, hold};
use super::input::{Input, ROW_LIMIT};
use super::journal::{ChunkReport, Done, Entry, Workplace};
use super::mapper::{MappedLine, Mapper};
use super::sorted::RunWriter;
use super::sorter::Sorter;
use super::{Meter, feed};
use crate::error::Result;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// The bad lines of a chunk that are named; the others are counted.
const NAMED_FLAWS: usize = 20;

/// A journal and what it tells.
#[derive(Debug)]
pub(crate) struct Books {
    pub place: Workplace,
    pub done: Done,
}

impl Books {
    pub(crate) fn note(&mut self, entry: Entry) -> Result<()> {
        self.place.note(&entry)?;
        self.done.note(entry);
        Ok(())
    }
}

/// What the stage works with.
pub(crate) struct Mapping<'a> {
    pub inputs: &'a [Input],
    pub mapper: &'a Mapper,
    pub threads: usize,
    /// Bytes of memory for all threads.
    pub memory: usize,
    pub is_strict: bool,
    pub meter: &'a Meter,
}

impl Mapping<'_> {
    /// Maps all chunks; if it is strict, those up to the first that has a bad line, and perhaps some behind it.
    pub(crate) fn run(&self, books: Books) -> Result<Books> {
        let (chunks, ended) = (books.done.chunk_ids(), books.done.ended_files());
        let feed = Feed::new(self.inputs, &chunks, &ended, &self.meter.passed);
        let next_run = AtomicU32::new(books.done.next_run);
        let books = Mutex::new(books);
        let results: Vec<Result<()>> = thread::scope(|scope| {
            let work = || {
                let result = self.work(&feed, &books, &next_run);
                if result.is_err() {
                    feed.stop_at(ChunkId { file: 0, number: 0 });
                }
                result
            };
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(joined).collect()
        });
        results.into_iter().collect::<Result<Vec<()>>>()?;
        Ok(books.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// What one thread does.
    fn work(&self, feed: &Feed<'_>, books: &Mutex<Books>, next_run: &AtomicU32) -> Result<()> {
        let (mut bytes, mut reports) = (Vec::new(), Vec::new());
        let mut sorter = Sorter::new((self.memory / self.threads).saturating_sub(4 * feed::CHUNK));
        let flush = |sorter: &mut Sorter, reports: &mut Vec<ChunkReport>| {
            if reports.is_empty() {
                return Ok(());
            }
            let run = next_run.fetch_add(1, Ordering::Relaxed);
            let path = hold(books).place.run(run);
            let mut writer = RunWriter::create(&path)?;
            sorter.drain(&mut writer)?;
            writer.finish()?;
            hold(books).note(Entry::Sorted { run, chunks: std::mem::take(reports) })
        };
        while let Some(taken) = feed.next(&mut bytes)? {
            if sorter.is_full_with(bytes.len()) && !sorter.is_empty() {
                flush(&mut sorter, &mut reports)?;
            }
            let report = self.map(taken, &bytes, &mut sorter)?;
            if self.is_strict && report.bad > 0 {
                feed.stop_at(taken.id);
            }
            reports.push(report);
        }
        flush(&mut sorter, &mut reports)
    }

    /// Maps a chunk.
    fn map(&self, taken: Taken, bytes: &[u8], sorter: &mut Sorter) -> Result<ChunkReport> {
        let Taken { id: ChunkId { file, number }, is_last } = taken;
        let length = bytes.len() as u64;
        let report = ChunkReport { file, number, is_last, bytes: length, ..ChunkReport::default() };
        map_rows(self.mapper, &self.inputs[file as usize], bytes, report, sorter)
    }
}

/// Maps the rows of a chunk, whose report is filled in.
pub(crate) fn map_rows(
    mapper: &Mapper,
    input: &Input,
    bytes: &[u8],
    mut report: ChunkReport,
    sorter: &mut Sorter,
) -> Result<ChunkReport> {
    let columns = input.columns.as_ref();
    // Checked for all lines at once; only if that fails, line by line.
    let is_text = std::str::from_utf8(bytes).is_ok();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = match columns {
            Some(columns) => columns.end_of_row(rest),
            None => memchr::memchr(b'\n', rest),
        };
        let row = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[], |end| &rest[end + 1..]);
        if row.len() >= ROW_LIMIT {
            return Err(feed::too_long(input));
        }
        let line = report.lines;
        report.lines += 1;
        let start = sorter.letters.len();
        let mapped = match columns {
            Some(columns) => {
                report.lines += memchr::memchr_iter(b'\n', row).count() as u64;
                if columns.has_names && report.number == 0 && line == 0 {
                    continue;
                }
                columns.row(row, mapper, &mut sorter.letters)
            }
            None if is_text && row.first() == Some(&b'{') => mapper.checked_json(row, &mut sorter.letters),
            None => mapper.json(row, &mut sorter.letters),
        };
        report.read += u64::from(mapped != MappedLine::Blank);
        match mapped {
            MappedLine::Kept(rating) => sorter.add(start, rating),
            MappedLine::Empty => report.empty += 1,
            MappedLine::Blank => {}
            MappedLine::Bad(message) => {
                report.bad += 1;
                if report.flaws.len() < NAMED_FLAWS {
                    report.flaws.push((line, message));
                }
            }
        }
    }
    Ok(report)
}

/// What a thread came to.
pub(crate) fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

//! The second stage: sorted runs become texts, each once, with its part, label and words; and words are counted.

use super::Meter;
use super::feed::hold;
use super::journal::{Entry, StretchReport};
use super::mapping::{Books, joined};
use super::part::{Part, Split};
use super::rules::{Counted, Rules};
use super::segment::{self, RowWriter, Segment};
use super::sorted::{Merge, RunWriter, SortedRun, Stretch, cuts};
use super::tally::{Tally, words};
use crate::error::Result;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// So many runs are merged at once, each of which is a file that is open.
const MOST_RUNS: usize = 128;

/// A stretch has about so many bytes of runs.
const STRETCH_BYTES: u64 = 96 << 20;
const MOST_STRETCHES: u64 = 200;

/// What the stage works with.
pub(crate) struct Reducing<'a> {
    pub rules: &'a Rules,
    pub split: &'a Split,
    /// Whether the result has the texts themselves.
    pub keeps_text: bool,
    pub threads: usize,
    /// Bytes of memory for all threads.
    pub memory: usize,
    pub meter: &'a Meter,
}

impl Reducing<'_> {
    pub(crate) fn run(&self, mut books: Books) -> Result<Books> {
        if books.done.cuts.as_ref().is_some_and(|cuts| books.done.stretches.len() == cuts.len() + 1) {
            return Ok(books);
        }
        let runs = few_runs(&mut books)?;
        let bytes: u64 = runs.iter().map(|run| run.size).sum();
        if books.done.cuts.is_none() {
            let least = self.threads as u64;
            let count = (bytes / STRETCH_BYTES).clamp(least, MOST_STRETCHES.max(least));
            books.note(Entry::Cut(cuts(&runs, count as usize)))?;
        }
        let cuts = books.done.cuts.clone().unwrap_or_default();
        self.meter.begin_stage(1, bytes);
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let folder = books.place.path("");
        let books = Mutex::new(books);
        let work = || {
            while !is_over.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > cuts.len() {
                    break;
                }
                if hold(&books).done.stretches.contains_key(&(number as u32)) {
                    continue;
                }
                let from = number.checked_sub(1).map(|before| cuts[before].as_str());
                let stretch = Stretch { from, to: cuts.get(number).map(String::as_str) };
                let report = self.reduce(&folder, number as u32, Merge::open(&runs, stretch)?)?;
                hold(&books).note(Entry::Reduced(number as u32, report))?;
            }
            Ok(())
        };
        let guarded = || {
            let result: Result<()> = work();
            is_over.fetch_or(result.is_err(), Ordering::Relaxed);
            result
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(guarded)).collect();
            threads.into_iter().map(joined).collect::<Result<Vec<()>>>()
        })?;
        // All texts are in segments now.
        runs.iter().try_for_each(SortedRun::remove)?;
        Ok(books.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Reduces one stretch.
    fn reduce(&self, folder: &Path, stretch: u32, mut merge: Merge) -> Result<StretchReport> {
        let mut report = StretchReport::default();
        let mut numbers = Vec::new();
        let budget = self.memory / self.threads;
        let mut has_more = true;
        while has_more {
            let files = Segment::of(folder, stretch, report.segments);
            let (mut rows, mut tally) = (RowWriter::create(&files.rows)?, Tally::default());
            has_more = false;
            let mut passed = 0;
            while let Some((text, ratings)) = merge.next()? {
                let part = self.split.part(text);
                let is_counted = part == Part::Train || self.rules.vocabulary == Counted::All;
                numbers.clear();
                for (start, length) in words(text) {
                    numbers.push(tally.note(text, start, length, u64::from(is_counted)));
                }
                report.counted += if is_counted { numbers.len() as u64 } else { 0 };
                let is_whole = numbers.len() <= self.rules.length;
                numbers.truncate(self.rules.length);
                let label = self.rules.label_of(ratings.mode());
                let rest: &[u8] = if is_whole { &[] } else { text };
                rows.add(part, label, &numbers, self.keeps_text.then_some(rest))?;
                report.reviews += ratings.count();
                report.rows[part as usize] += 1;
                report.words[part as usize] += numbers.len() as u64;
                passed += text.len() as u64 + 2;
                if passed > 1 << 20 {
                    self.meter.pass(std::mem::take(&mut passed));
                    if tally.bytes() > budget {
                        has_more = true;
                        break;
                    }
                }
            }
            rows.finish()?;
            segment::write_words(&files.words, &tally)?;
            report.segments += 1;
        }
        Ok(report)
    }
}

/// All runs; where there are too many to be open at once, some of them are made one first.
fn few_runs(books: &mut Books) -> Result<Vec<SortedRun>> {
    let mut numbers: Vec<u32> = books.done.runs.iter().copied().collect();
    numbers.sort_unstable();
    let open = |books: &Books, number: &u32| SortedRun::open(&books.place.run(*number));
    while numbers.len() > MOST_RUNS {
        let of: Vec<u32> = numbers.drain(..MOST_RUNS / 2).collect();
        let old = of.iter().map(|number| open(books, number)).collect::<Result<Vec<_>>>()?;
        let run = books.done.next_run;
        let mut writer = RunWriter::create(&books.place.run(run))?;
        let mut merge = Merge::open(&old, Stretch::default())?;
        while let Some((text, ratings)) = merge.next()? {
            writer.add(text, &ratings)?;
        }
        writer.finish()?;
        books.note(Entry::Joined { run, of })?;
        old.iter().try_for_each(SortedRun::remove)?;
        numbers.push(run);
    }
    numbers.iter().map(|number| open(books, number)).collect()
}

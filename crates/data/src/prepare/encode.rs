//! The third stage: the numbers of the vocabulary take the place of those that words had for the time being.

use super::Meter;
use super::frequent::WordNumbers;
use super::journal::StretchReport;
use super::mapping::joined;
use super::output::{Amount, PartFile};
use super::part::Part;
use super::segment::{RowReader, Segment, WordReader};
use crate::error::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

impl Encoding<'_> {
    pub(crate) fn run(&self) -> Result<()> {
        self.files.iter().try_for_each(PartFile::create)?;
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            while !is_over.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.stretches.len() {
                    break;
                }
                let result = self.encode(number);
                is_over.fetch_or(result.is_err(), Ordering::Relaxed);
                result?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(joined).collect::<Result<Vec<()>>>()
        })?;
        for part in Part::ALL {
            let file = &self.files[part as usize];
            let beside: Vec<PathBuf> =
                (0..self.stretches.len()).map(|number| self.beside(part, number)).collect();
            file.join(&beside)?;
        }
        Ok(())
    }

    fn beside(&self, part: Part, stretch: usize) -> PathBuf {
        self.folder.join(format!("{}-{stretch}", part.name()))
    }

    /// Encodes a stretch.
    fn encode(&self, stretch: usize) -> Result<()> {
        let before = &self.stretches[..stretch];
        let amount = |part: Part| Amount {
            rows: before.iter().map(|stretch| stretch.rows[part as usize]).sum(),
            words: before.iter().map(|stretch| stretch.words[part as usize]).sum(),
        };
        let writer = |part: Part| {
            let file = &self.files[part as usize];
            file.stretch(amount(part), &self.beside(part, stretch))
        };
        let mut writers = [writer(Part::Train)?, writer(Part::Validation)?, writer(Part::Test)?];
        let keeps_text = self.files[0].format.keeps_text();
        for segment in 0..self.stretches[stretch].segments {
            let files = Segment::of(self.folder, stretch as u32, segment);
            let mut numbers: Vec<u32> = Vec::new();
            let mut words = WordReader::open(&files.words)?;
            while words.advance()? {
                let place = words.number as usize;
                if numbers.len() <= place {
                    numbers.resize(place + 1, 0);
                }
                numbers[place] = self.numbers.number(&words.word, 0, words.word.len());
            }
            let mut rows = RowReader::open(&files.rows, keeps_text)?;
            let mut passed = 0;
            while let Some((part, label)) = rows.next()? {
                rows.numbers.iter_mut().for_each(|number| *number = numbers[*number as usize]);
                writers[part as usize].add(&rows.text, label, &rows.numbers)?;
                passed += 4 * rows.numbers.len() as u64;
            }
            self.meter.pass(passed);
        }
        writers.into_iter().try_for_each(super::output::StretchWriter::finish)
    }
}

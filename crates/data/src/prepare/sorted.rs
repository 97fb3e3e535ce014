//! Sorted runs on disk, and many of them as one.
//!
//! A run is a row of texts in the order of their bytes, each once, with how often it got each rating. Beside it lies
//! an index: a text about every [`INDEX_EVERY`] bytes, by which a run can be read from the middle.

use super::rating::Ratings;
use super::sorter::prefix;
use super::varint;
use crate::error::{Error, Result};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How much of a run stands between two texts of its index.
const INDEX_EVERY: u64 = 1 << 20;

/// Texts in an index are cut to so many bytes.
const KEY_BYTES: usize = 64;

/// What one run that is merged may take of memory.
const CURSOR_BUFFER: usize = 1 << 17;

/// Marks a text that got more than one rating. Less is the rating.
const MANY: u8 = 0x80;

/// Where texts stand in a run, by their first bytes.
pub(crate) type Index = Vec<(String, u64)>;

/// A run that is being written. It has its name when it is whole.
pub(crate) struct RunWriter {
    path: PathBuf,
    file: File,
    /// What is not in the file yet.
    rows: Vec<u8>,
    /// Bytes of the file.
    written: u64,
    index: Index,
}

/// So much is written at once.
const WRITE_BYTES: usize = 1 << 20;

impl RunWriter {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let aside = path.with_extension("new");
        let file = File::create(&aside).map_err(Error::io(&aside))?;
        let rows = Vec::with_capacity(WRITE_BYTES + WRITE_BYTES / 16);
        Ok(Self { path: path.to_owned(), file, rows, written: 0, index: Vec::new() })
    }

    pub(crate) fn add(&mut self, text: &[u8], ratings: &Ratings) -> Result<()> {
        let place = self.written + self.rows.len() as u64;
        if self.index.len() as u64 * INDEX_EVERY <= place {
            let key = &text[..text.len().min(KEY_BYTES)];
            self.index.push((String::from_utf8_lossy(key).into_owned(), place));
        }
        let rows = &mut self.rows;
        varint::push(rows, text.len() as u64);
        rows.extend_from_slice(text);
        if ratings.count() == 1 {
            rows.push(ratings.mode());
        } else {
            rows.push(MANY);
            ratings.0.iter().for_each(|&count| varint::push(rows, count));
        }
        if self.rows.len() < WRITE_BYTES { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        self.file.write_all(&self.rows).map_err(Error::io(&self.path))?;
        self.written += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }

    /// The run has its name from now on.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.write()?;
        let index =
            serde_json::to_vec(&self.index).map_err(|error| Error::format(&self.path, error.to_string()))?;
        let index_path = self.path.with_extension("index");
        fs::write(&index_path, index).map_err(Error::io(&index_path))?;
        fs::rename(self.path.with_extension("new"), &self.path).map_err(Error::io(&self.path))
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub(crate) struct SortedRun {
    pub path: PathBuf,
    pub size: u64,
    pub index: Index,
}

impl SortedRun {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let size = fs::metadata(path).map_err(Error::io(path))?.len();
        let index_path = path.with_extension("index");
        let index = fs::read(&index_path).map_err(Error::io(&index_path))?;
        let index =
            serde_json::from_slice(&index).map_err(|error| Error::format(&index_path, error.to_string()))?;
        Ok(Self { path: path.to_owned(), size, index })
    }

    /// Forgets the run.
    pub(crate) fn remove(&self) -> Result<()> {
        fs::remove_file(self.path.with_extension("index")).map_err(Error::io(&self.path))?;
        fs::remove_file(&self.path).map_err(Error::io(&self.path))
    }
}

/// A stretch of texts: from one on, and up to but without another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stretch<'a> {
    pub from: Option<&'a str>,
    pub to: Option<&'a str>,
}

/// Cuts the texts of some runs into about so many stretches of equal size: the texts at which one ends.
pub(crate) fn cuts(runs: &[SortedRun], count: usize) -> Vec<String> {
    let mut keys: Vec<&str> = runs.iter().flat_map(|run| &run.index).map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    let mut cuts: Vec<String> =
        (1..count).filter_map(|i| keys.get(i * keys.len() / count)).map(|&key| key.to_owned()).collect();
    cuts.dedup();
    // Nothing comes before the first.
    cuts.retain(|cut| Some(&cut.as_str()) != keys.first());
    cuts
}

/// Where a run is read.
struct RunCursor {
    reader: BufReader<File>,
    path: PathBuf,
    /// How many bytes are left.
    left: u64,
    to: Option<Vec<u8>>,
    prefix: u64,
    text: Vec<u8>,
    ratings: Ratings,
}

impl RunCursor {
    /// At the first text of a stretch; none if there is none.
    fn open(run: &SortedRun, stretch: Stretch<'_>) -> Result<Option<Self>> {
        // The text of an entry begins with its key, so whatever has a smaller key than `from` is smaller than it.
        let is_before = |(key, _): &(String, u64)| stretch.from.is_some_and(|from| key.as_str() < from);
        let entry = run.index.partition_point(is_before).saturating_sub(1);
        let offset = run.index.get(entry).map_or(0, |(_, offset)| *offset);
        let mut file = File::open(&run.path).map_err(Error::io(&run.path))?;
        file.seek(SeekFrom::Start(offset)).map_err(Error::io(&run.path))?;
        let mut cursor = Self {
            reader: BufReader::with_capacity(CURSOR_BUFFER, file),
            path: run.path.clone(),
            left: run.size - offset,
            to: stretch.to.map(|to| to.as_bytes().to_vec()),
            prefix: 0,
            text: Vec::new(),
            ratings: Ratings::default(),
        };
        while cursor.advance()? {
            if stretch.from.is_none_or(|from| cursor.text.as_slice() >= from.as_bytes()) {
                return Ok(Some(cursor));
            }
        }
        Ok(None)
    }

    /// Goes to the next text. False if there is none.
    fn advance(&mut self) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.read().map_err(Error::io(&self.path))?;
        self.prefix = prefix(&self.text);
        Ok(self.to.as_ref().is_none_or(|to| self.text < *to))
    }

    fn read(&mut self) -> std::io::Result<()> {
        let (length, mut taken) = varint::read(&mut self.reader)?;
        self.text.resize(length as usize, 0);
        self.reader.read_exact(&mut self.text)?;
        let mut first = [0];
        self.reader.read_exact(&mut first)?;
        self.ratings = Ratings::default();
        if first[0] == MANY {
            for count in &mut self.ratings.0 {
                let (value, bytes) = varint::read(&mut self.reader)?;
                (*count, taken) = (value, taken + bytes);
            }
        } else if let Some(count) = self.ratings.0.get_mut(usize::from(first[0])) {
            *count = 1;
        }
        self.left = self.left.saturating_sub(taken + length + 1);
        Ok(())
    }
}

impl Ord for RunCursor {
    fn cmp(&self, other: &Self) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| self.text.cmp(&other.text))
    }
}

impl PartialOrd for RunCursor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RunCursor {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RunCursor {}

/// A stretch of several runs, in the order of the texts' bytes, equal ones as one.
pub(crate) struct Merge {
    heap: BinaryHeap<Reverse<RunCursor>>,
    text: Vec<u8>,
}

impl Merge {
    pub(crate) fn open(runs: &[SortedRun], stretch: Stretch<'_>) -> Result<Self> {
        let mut heap = BinaryHeap::new();
        for run in runs {
            heap.extend(RunCursor::open(run, stretch)?.map(Reverse));
        }
        Ok(Self { heap, text: Vec::new() })
    }

    /// The next text with all its ratings.
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], Ratings)>> {
        let Some(mut first) = self.heap.peek_mut() else { return Ok(None) };
        std::mem::swap(&mut self.text, &mut first.0.text);
        let mut ratings = first.0.ratings;
        if !first.0.advance()? {
            PeekMut::pop(first);
        } else {
            drop(first);
        }
        while let Some(mut other) = self.heap.peek_mut() {
            if other.0.text != self.text {
                // Nothing was changed, so nothing has to be moved.
                break;
            }
            ratings.add(&other.0.ratings);
            if !other.0.advance()? {
                PeekMut::pop(other);
            }
        }
        Ok(Some((&self.text, ratings)))
    }
}

#[cfg(test)]
mod tests;

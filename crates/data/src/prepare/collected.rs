//! Texts that other processes have mapped, as they come back: sorted runs for the second stage.

use super::feed::ChunkId;
use super::journal::{ChunkReport, Entry};
use super::mapping::Books;
use super::rating::Ratings;
use super::sorted::RunWriter;
use crate::error::{Error, Result};
use std::collections::HashSet;

/// Takes lines of `map`, each with how often it occurs. Lines that come in order become one run; where the order
/// breaks, the next begins.
pub struct Collector<'a> {
    books: &'a Books,
    next_run: u32,
    runs: Vec<u32>,
    writer: Option<RunWriter>,
    text: Vec<u8>,
    ratings: Ratings,
    /// How many reviews came.
    reviews: u64,
    chunks: Vec<ChunkReport>,
    /// Whether a chunk was told of more than once.
    has_twice: bool,
}

impl std::fmt::Debug for Collector<'_> {
    fn fmt(&self, form: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        form.debug_struct("Collector").field("runs", &self.runs).finish_non_exhaustive()
    }
}

impl<'a> Collector<'a> {
    pub(crate) fn new(books: &'a Books) -> Self {
        Self {
            books,
            next_run: books.done.next_run,
            runs: Vec::new(),
            writer: None,
            text: Vec::new(),
            ratings: Ratings::default(),
            reviews: 0,
            chunks: Vec::new(),
            has_twice: false,
        }
    }

    /// One more line, and how often there is one like it.
    pub fn add(&mut self, line: &[u8], count: u64) -> Result<()> {
        if let Some(report) = line.strip_prefix(b"\t") {
            let report = serde_json::from_slice(report).map_err(|_| strange(line))?;
            self.chunks.push(report);
            self.has_twice |= count != 1;
            return Ok(());
        }
        let (text, rating) = match line {
            [text @ .., b'\t', rating @ b'0'..=b'5'] if !text.is_empty() => {
                (text, usize::from(rating - b'0'))
            }
            _ => return Err(strange(line)),
        };
        if text != self.text {
            self.write()?;
            if text < self.text.as_slice() {
                self.end_run()?;
            }
            self.text.clear();
            self.text.extend_from_slice(text);
        }
        self.ratings.0[rating] += count;
        self.reviews += count;
        Ok(())
    }

    /// Whether all came, and all of it once: what chunks were told to hold, and no chunk again. Lines of a chunk are in
    /// other pieces than what is told of it, so a piece that is missing, or comes twice, shows.
    pub fn is_whole(&self) -> bool {
        let told: u64 = self.chunks.iter().map(|chunk| chunk.read - chunk.bad - chunk.empty).sum();
        let different: HashSet<ChunkId> = self.chunks.iter().map(ChunkReport::id).collect();
        !self.has_twice && different.len() == self.chunks.len() && told == self.reviews
    }

    /// Nothing of what came counts: it will come again.
    pub fn forget(&mut self) {
        *self = Self::new(self.books);
    }

    /// Writes the text that is at hand.
    fn write(&mut self) -> Result<()> {
        if self.ratings.count() == 0 {
            return Ok(());
        }
        if self.writer.is_none() {
            let path = self.books.place.run(self.next_run);
            self.writer = Some(RunWriter::create(&path)?);
            self.runs.push(self.next_run);
            self.next_run += 1;
        }
        if let Some(writer) = &mut self.writer {
            writer.add(&self.text, &self.ratings)?;
        }
        self.ratings = Ratings::default();
        Ok(())
    }

    fn end_run(&mut self) -> Result<()> {
        self.writer.take().map_or(Ok(()), RunWriter::finish)
    }

    /// After the last line: what the journal is to know.
    pub(crate) fn finish(mut self) -> Result<Entry> {
        if !self.is_whole() {
            let message = "texts came twice, or not at all, from those who map".to_owned();
            return Err(Error::mismatch(message));
        }
        self.write()?;
        self.end_run()?;
        Ok(Entry::Collected { runs: self.runs, chunks: self.chunks })
    }
}

fn strange(line: &[u8]) -> Error {
    let shown: String = String::from_utf8_lossy(line).chars().take(60).collect();
    Error::mismatch(format!("expected a text, a tab and a rating from those who map, found {shown:?}"))
}

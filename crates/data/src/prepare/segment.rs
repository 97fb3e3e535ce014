//! Texts as numbers of words for the time being, on disk until the vocabulary is known.
//!
//! A segment is two files. One has a row a text: its part and label, and the numbers of the words that are kept of it,
//! as a [`Tally`] gave them. The other has the words of the tally in the order of their bytes, each with its count and
//! its number. When a tally becomes too large, the next segment begins.

use super::part::Part;
use super::tally::Tally;
use super::varint;
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// The two files of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub rows: PathBuf,
    pub words: PathBuf,
}

impl Segment {
    /// A segment of a stretch in a folder.
    pub(crate) fn of(folder: &Path, stretch: u32, number: u32) -> Self {
        let path = |what: &str| folder.join(format!("{what}-{stretch}-{number}"));
        Self { rows: path("rows"), words: path("words") }
    }
}

/// Writes rows.
pub(crate) struct RowWriter {
    path: PathBuf,
    out: BufWriter<File>,
    row: Vec<u8>,
}

impl RowWriter {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(Error::io(path))?;
        Ok(Self { path: path.to_owned(), out: BufWriter::with_capacity(1 << 18, file), row: Vec::new() })
    }

    /// Writes a row. The text is for those who want it back.
    pub(crate) fn add(&mut self, part: Part, label: u8, numbers: &[u32], text: Option<&[u8]>) -> Result<()> {
        self.row.clear();
        self.row.push((part as u8) << 4 | label);
        varint::push(&mut self.row, numbers.len() as u64);
        self.row.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        if let Some(text) = text {
            varint::push(&mut self.row, text.len() as u64);
            self.row.extend_from_slice(text);
        }
        self.out.write_all(&self.row).map_err(Error::io(&self.path))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.out.flush().map_err(Error::io(&self.path))
    }
}

/// Reads rows.
pub(crate) struct RowReader {
    path: PathBuf,
    reader: BufReader<File>,
    has_text: bool,
    bytes: Vec<u8>,
    pub numbers: Vec<u32>,
    pub text: Vec<u8>,
}

impl RowReader {
    pub(crate) fn open(path: &Path, has_text: bool) -> Result<Self> {
        let reader = BufReader::with_capacity(1 << 18, File::open(path).map_err(Error::io(path))?);
        let (bytes, numbers, text) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { path: path.to_owned(), reader, has_text, bytes, numbers, text })
    }

    /// The part and label of the next row, whose words and text are here then.
    pub(crate) fn next(&mut self) -> Result<Option<(Part, u8)>> {
        let mut first = [0];
        let length = self.reader.read(&mut first).map_err(Error::io(&self.path))?;
        if length == 0 {
            return Ok(None);
        }
        self.rest().map_err(Error::io(&self.path))?;
        let part = Part::ALL.get(usize::from(first[0] >> 4)).copied().unwrap_or(Part::Train);
        Ok(Some((part, first[0] & 0xF)))
    }

    fn rest(&mut self) -> io::Result<()> {
        let (count, _) = varint::read(&mut self.reader)?;
        self.bytes.resize(4 * count as usize, 0);
        self.reader.read_exact(&mut self.bytes)?;
        self.numbers.clear();
        self.numbers.extend(self.bytes.as_chunks().0.iter().map(|&four| u32::from_le_bytes(four)));
        if self.has_text {
            let (length, _) = varint::read(&mut self.reader)?;
            self.text.resize(length as usize, 0);
            self.reader.read_exact(&mut self.text)?;
        }
        Ok(())
    }
}

/// Writes the words of a tally.
pub(crate) fn write_words(path: &Path, tally: &Tally) -> Result<()> {
    let write = || {
        let mut out = BufWriter::with_capacity(1 << 18, File::create(path)?);
        let mut line = Vec::new();
        for number in tally.by_word() {
            let word = tally.word(number);
            line.clear();
            varint::push(&mut line, word.len() as u64);
            line.extend_from_slice(word);
            varint::push(&mut line, tally.count(number));
            varint::push(&mut line, u64::from(number));
            out.write_all(&line)?;
        }
        out.flush()
    };
    write().map_err(Error::io(path))
}

/// Reads what [`write_words`] wrote, one word at a time.
pub(crate) struct WordReader {
    path: PathBuf,
    reader: BufReader<File>,
    left: u64,
    pub word: Vec<u8>,
    pub count: u64,
    pub number: u32,
}

impl WordReader {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io(path))?;
        let left = file.metadata().map_err(Error::io(path))?.len();
        let reader = BufReader::with_capacity(1 << 16, file);
        Ok(Self { path: path.to_owned(), reader, left, word: Vec::new(), count: 0, number: 0 })
    }

    /// Goes to the next word. False if there is none.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let mut read = || {
            let (length, a) = varint::read(&mut self.reader)?;
            self.word.resize(length as usize, 0);
            self.reader.read_exact(&mut self.word)?;
            let (count, b) = varint::read(&mut self.reader)?;
            let (number, c) = varint::read(&mut self.reader)?;
            (self.count, self.number) = (count, number as u32);
            self.left = self.left.saturating_sub(length + a + b + c);
            Ok(())
        };
        read().map_err(Error::io(&self.path))?;
        Ok(true)
    }
}

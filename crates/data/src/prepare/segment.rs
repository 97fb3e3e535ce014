//! Texts as numbers of words for the time being, on disk until the vocabulary is known.
//!
//! A segment is two files. One has a row a text: its part and label, and the numbers of the words that are kept of it,
//! as a [`Tally`] gave them; and the text, if it is wanted back and has more words than those. Rows come in blocks,
//! each with its length before it. The other file has the words of the tally in the order of their bytes, each with its
//! count and its number. When a tally becomes too large, the next segment begins.

use super::part::Part;
use super::tally::{NotedWord, Tally};
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

/// A block has about so many bytes.
const BLOCK: usize = 1 << 19;

/// Writes rows.
pub(crate) struct RowWriter {
    path: PathBuf,
    file: File,
    block: Vec<u8>,
}

impl RowWriter {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(Error::io(path))?;
        Ok(Self { path: path.to_owned(), file, block: vec![0; 4] })
    }

    /// Writes a row. The text is for those who want it back; an empty one is that of all its words.
    pub(crate) fn add(&mut self, part: Part, label: u8, numbers: &[u32], text: Option<&[u8]>) -> Result<()> {
        let block = &mut self.block;
        block.push((part as u8) << 4 | label);
        varint::push(block, numbers.len() as u64);
        push_numbers(block, numbers, u32::to_le_bytes);
        if let Some(text) = text {
            varint::push(block, text.len() as u64);
            block.extend_from_slice(text);
        }
        if block.len() > BLOCK { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let length = self.block.len() as u32 - 4;
        self.block[..4].copy_from_slice(&length.to_le_bytes());
        self.file.write_all(&self.block).map_err(Error::io(&self.path))?;
        self.block.truncate(4);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        if self.block.len() > 4 { self.write() } else { Ok(()) }
    }
}

/// Appends numbers, each as so many bytes. Room is made once: byte by byte it takes several times as long.
pub(crate) fn push_numbers<const N: usize>(
    out: &mut Vec<u8>,
    numbers: &[u32],
    bytes: impl Fn(u32) -> [u8; N],
) {
    let start = out.len();
    out.resize(start + N * numbers.len(), 0);
    for (place, &number) in out[start..].as_chunks_mut().0.iter_mut().zip(numbers) {
        *place = bytes(number);
    }
}

/// Reads blocks of rows.
pub(crate) struct BlockReader {
    path: PathBuf,
    file: File,
}

impl BlockReader {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Fills `block` with the next one. False if there is none.
    pub(crate) fn next(&mut self, block: &mut Vec<u8>) -> Result<bool> {
        block.clear();
        let mut read = || {
            (&mut self.file).take(4).read_to_end(block)?;
            let Some(&length) = block.first_chunk() else { return Ok(false) };
            block.resize(u32::from_le_bytes(length) as usize, 0);
            self.file.read_exact(block)?;
            Ok(true)
        };
        read().map_err(Error::io(&self.path))
    }

    /// An error for a block that is not what was written.
    pub(crate) fn broken(path: &Path) -> Error {
        Error::io(path)(io::ErrorKind::InvalidData.into())
    }
}

/// A row of a block.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub part: Part,
    pub label: u8,
    numbers: &'a [[u8; 4]],
    /// Empty if it is not wanted, or that of all words.
    pub text: &'a [u8],
}

impl<'a> Row<'a> {
    /// The row at the beginning of a block, and what follows it. None if there is no whole one.
    pub(crate) fn first(block: &'a [u8], has_text: bool) -> Option<(Self, &'a [u8])> {
        let (&[first], rest) = block.split_first_chunk()?;
        let (count, rest) = number(rest)?;
        let (bytes, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
        let (length, rest) = if has_text { number(rest)? } else { (0, rest) };
        let (text, rest) = rest.split_at_checked(length)?;
        let part = *Part::ALL.get(usize::from(first >> 4))?;
        Some((Self { part, label: first & 0xF, numbers: bytes.as_chunks().0, text }, rest))
    }

    pub(crate) fn numbers(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.numbers.iter().map(|&four| u32::from_le_bytes(four))
    }
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, taken) = varint::parse(bytes).ok()??;
    Some((usize::try_from(number).ok()?, &bytes[taken..]))
}

/// Writes the words of a tally.
pub(crate) fn write_words(path: &Path, tally: &Tally) -> Result<()> {
    let write = || {
        let mut out = BufWriter::with_capacity(1 << 18, File::create(path)?);
        let mut line = Vec::new();
        for NotedWord { number, count } in tally.by_word() {
            let word = tally.word(number);
            line.clear();
            varint::push(&mut line, word.len() as u64);
            line.extend_from_slice(word);
            varint::push(&mut line, count);
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

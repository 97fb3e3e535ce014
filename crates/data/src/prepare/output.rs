//! What a preparation writes: a file a part, in one of several formats.
//!
//! `texts` is what `bonfire train` maps into memory: a head, the length of every text, its label, and
//! the numbers of all words one after the other. How large each of these is follows from counts that are known
//! beforehand, so that every thread writes its stretch at its place.

use super::frequent::PADDING;
use super::part::Part;
use crate::error::{Error, Result};
use crate::prepared::Head;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What the result is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// What `bonfire train` reads fastest.
    #[default]
    Native,
    /// A JSON object a line.
    Jsonl,
    /// Rows of numbers, the label in the last column.
    Hdf5,
    /// A table of texts, labels and lists of numbers. Only in a program that was built with it.
    Parquet,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Jsonl => "jsonl",
            Self::Hdf5 => "hdf5",
            Self::Parquet => "parquet",
        }
    }

    /// The name of the file of a part.
    pub fn file(self, part: Part) -> String {
        let end = match self {
            Self::Native => "texts",
            Self::Jsonl => "jsonl",
            Self::Hdf5 => "h5",
            Self::Parquet => "parquet",
        };
        format!("{}.{end}", part.name())
    }

    pub(crate) fn keeps_text(self) -> bool {
        matches!(self, Self::Jsonl | Self::Parquet)
    }
}

/// Texts and words, of all or of a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub rows: u64,
    pub words: u64,
}

/// A file of the result, of which threads write stretches.
#[derive(Clone, Debug)]
pub(crate) struct PartFile {
    pub format: Format,
    pub path: PathBuf,
    pub all: Amount,
    /// How many numbers a vocabulary has, padding and unknown included.
    pub numbers: usize,
    /// So many words a text has, if all have the same.
    pub length: usize,
}

impl PartFile {
    fn head(&self) -> Head {
        Head { rows: self.all.rows, words: self.all.words, numbers: self.numbers as u64 }
    }

    /// Makes the file as large as it will be, with what stands before the texts.
    pub(crate) fn create(&self) -> Result<()> {
        let create = || {
            let mut file = File::create(&self.path)?;
            match self.format {
                Format::Native => {
                    file.write_all(&self.head().bytes())?;
                    file.set_len(self.head().size())
                }
                Format::Hdf5 => {
                    file.write_all(&super::hdf5::head(self.all.rows, self.length as u64 + 1))?;
                    file.set_len(super::hdf5::HEAD + 4 * (self.length as u64 + 1) * self.all.rows)
                }
                Format::Jsonl | Format::Parquet => Ok(()),
            }
        };
        create().map_err(Error::io(&self.path))
    }

    /// A writer for the texts that follow `before`. A stretch of lines, whose size nobody knows beforehand, is written
    /// beside.
    pub(crate) fn stretch(&self, before: Amount, beside: &Path) -> Result<StretchWriter> {
        let at = |offset: u64| -> Result<BufWriter<File>> {
            let mut file = OpenOptions::new().write(true).open(&self.path).map_err(Error::io(&self.path))?;
            file.seek(SeekFrom::Start(offset)).map_err(Error::io(&self.path))?;
            Ok(BufWriter::with_capacity(1 << 18, file))
        };
        let head = self.head();
        let outs = match self.format {
            Format::Native => {
                vec![
                    at(head.lengths_at(before.rows))?,
                    at(head.labels_at(before.rows))?,
                    at(head.words_at(before.words))?,
                ]
            }
            Format::Hdf5 => vec![at(super::hdf5::HEAD + 4 * (self.length as u64 + 1) * before.rows)?],
            Format::Jsonl | Format::Parquet => {
                let file = File::create(beside).map_err(Error::io(beside))?;
                vec![BufWriter::with_capacity(1 << 18, file)]
            }
        };
        let (path, line) = (self.path.clone(), Vec::new());
        Ok(StretchWriter { format: self.format, path, width: head.width(), length: self.length, outs, line })
    }
}

impl PartFile {
    /// Makes the file of the lines that were written beside.
    pub(crate) fn join(&self, beside: &[PathBuf]) -> Result<()> {
        match self.format {
            Format::Native | Format::Hdf5 => Ok(()),
            Format::Jsonl => beside.iter().try_for_each(|path| append(path, &self.path)),
            Format::Parquet => crate::parquet::write(beside, &self.path),
        }
    }
}

/// Appends a file to another, and removes it.
fn append(from: &Path, to: &Path) -> Result<()> {
    let mut out = OpenOptions::new().append(true).open(to).map_err(Error::io(to))?;
    let mut file = File::open(from).map_err(Error::io(from))?;
    std::io::copy(&mut file, &mut out).map_err(Error::io(to))?;
    fs::remove_file(from).map_err(Error::io(from))
}

/// Writes a stretch of the texts of a part.
pub(crate) struct StretchWriter {
    format: Format,
    path: PathBuf,
    width: usize,
    length: usize,
    outs: Vec<BufWriter<File>>,
    line: Vec<u8>,
}

impl StretchWriter {
    /// Writes a text with the numbers of its words.
    pub(crate) fn add(&mut self, text: &[u8], label: u8, numbers: &[u32]) -> Result<()> {
        let line = &mut self.line;
        line.clear();
        let mut write = || match (self.format, self.outs.as_mut_slice()) {
            (Format::Native, [lengths, labels, words]) => {
                lengths.write_all(&(numbers.len() as u32).to_le_bytes())?;
                labels.write_all(&[label])?;
                match self.width {
                    2 => line.extend(numbers.iter().flat_map(|&number| (number as u16).to_le_bytes())),
                    _ => line.extend(numbers.iter().flat_map(|number| number.to_le_bytes())),
                }
                words.write_all(line)
            }
            (Format::Hdf5, [out]) => {
                let row = numbers.iter().copied().chain(std::iter::repeat(PADDING)).take(self.length);
                line.extend(row.chain([u32::from(label)]).flat_map(u32::to_le_bytes));
                out.write_all(line)
            }
            (_, outs) => {
                json_line(line, text, label, numbers, self.length);
                outs.iter_mut().try_for_each(|out| out.write_all(line))
            }
        };
        write().map_err(Error::io(&self.path))
    }

    pub(crate) fn finish(self) -> Result<()> {
        let mut outs = self.outs.into_iter();
        outs.try_for_each(|mut out| out.flush()).map_err(Error::io(&self.path))
    }
}

/// A text as a line: `{"text":"…","stars":5,"ids":[…]}`. A cleaned text has nothing that needs an escape.
pub(crate) fn json_line(line: &mut Vec<u8>, text: &[u8], label: u8, numbers: &[u32], length: usize) {
    line.extend_from_slice(b"{\"text\":\"");
    line.extend_from_slice(text);
    line.extend_from_slice(b"\",\"stars\":");
    push_number(line, u32::from(label));
    line.extend_from_slice(b",\"ids\":[");
    for number in numbers.iter().copied().chain(std::iter::repeat(PADDING)).take(length) {
        push_number(line, number);
        line.push(b',');
    }
    line.pop();
    line.extend_from_slice(b"]}\n");
}

fn push_number(line: &mut Vec<u8>, mut number: u32) {
    let (mut digits, mut at) = ([0; 10], 10);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_spaces_outside_the_text() {
        let check = |numbers: &[u32], length, expect: &str| {
            let mut line = Vec::new();
            json_line(&mut line, b"good case", 5, numbers, length);
            assert_eq!(String::from_utf8(line).unwrap(), format!("{expect}\n"));
        };
        check(&[3, 10002], 4, r#"{"text":"good case","stars":5,"ids":[3,10002,1,1]}"#);
        check(&[3], 1, r#"{"text":"good case","stars":5,"ids":[3]}"#);
        check(&[0, u32::MAX, 100], 3, r#"{"text":"good case","stars":5,"ids":[0,4294967295,100]}"#);
    }
}

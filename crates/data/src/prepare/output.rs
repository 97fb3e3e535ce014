//! What a preparation writes: a file a part, in one of several formats.
//!
//! `texts` is what `bonfire train` maps into memory: a head, the length of every text, its label, and
//! the numbers of all words one after the other. How large each of these is follows from counts that are known
//! beforehand.

use super::eight;
use super::frequent::PADDING;
use super::part::Part;
use super::segment::push_numbers;
use crate::error::{Error, Result};
use crate::prepared::Head;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

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

/// A file of the result. It has up to three regions, such as lengths, labels and words; each is written in pieces that
/// follow each other.
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

/// What some texts are in each region.
pub(crate) type RegionBytes = [Vec<u8>; 3];

impl PartFile {
    fn head(&self) -> Head {
        Head { rows: self.all.rows, words: self.all.words, numbers: self.numbers as u64 }
    }

    /// Where texts are written: those that become something else in the end are lines first.
    fn written(&self) -> PathBuf {
        match self.format {
            Format::Parquet => self.path.with_extension("lines"),
            Format::Native | Format::Jsonl | Format::Hdf5 => self.path.clone(),
        }
    }

    /// Makes the file, as large as it will be if that is known, with what stands before the texts.
    pub(crate) fn create(&self) -> Result<OpenPart> {
        let path = self.written();
        let create = || {
            let mut file = File::create(&path)?;
            let ends = match self.format {
                Format::Native => {
                    let head = self.head();
                    file.write_all(&head.bytes())?;
                    file.set_len(head.size())?;
                    [head.lengths_at(0), head.labels_at(0), head.words_at(0)]
                }
                Format::Hdf5 => {
                    file.write_all(&super::hdf5::head(self.all.rows, self.length as u64 + 1))?;
                    file.set_len(super::hdf5::HEAD + 4 * (self.length as u64 + 1) * self.all.rows)?;
                    [super::hdf5::HEAD; 3]
                }
                Format::Jsonl | Format::Parquet => [0; 3],
            };
            Ok((file, ends))
        };
        let (file, ends) = create().map_err(Error::io(&path))?;
        Ok(OpenPart { path, file, ends, unsent: 0 })
    }

    /// After the last piece.
    pub(crate) fn finish(&self) -> Result<()> {
        match self.format {
            Format::Native | Format::Hdf5 | Format::Jsonl => Ok(()),
            Format::Parquet => crate::parquet::write(&[self.written()], &self.path),
        }
    }
}

/// A file of the result that is being written.
#[derive(Debug)]
pub(crate) struct OpenPart {
    path: PathBuf,
    file: File,
    /// Where the next piece of each region belongs.
    ends: [u64; 3],
    /// How many bytes the system was not told to write to the disk yet.
    unsent: usize,
}

/// After so many bytes the system is told to write them to the disk.
const SENT_BYTES: usize = 8 << 20;

impl OpenPart {
    /// Writes the next pieces of all regions.
    pub(crate) fn write(&mut self, bytes: &RegionBytes) -> Result<()> {
        let mut write = || {
            for (end, bytes) in self.ends.iter_mut().zip(bytes).filter(|(_, bytes)| !bytes.is_empty()) {
                self.file.seek(SeekFrom::Start(*end))?;
                self.file.write_all(bytes)?;
                *end += bytes.len() as u64;
            }
            Ok(())
        };
        write().map_err(Error::io(&self.path))?;
        self.unsent += bytes.iter().map(Vec::len).sum::<usize>();
        if self.unsent > SENT_BYTES {
            self.unsent = 0;
            begin_writing(&self.file);
        }
        Ok(())
    }
}

/// Has the system begin to write a file to the disk. At the end it is waited for: what is there by then is not.
fn begin_writing(file: &File) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is that of a file that is open. Whatever comes of it, nothing but time depends on it.
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}

/// Texts as the bytes of a format.
#[derive(Debug)]
pub(crate) struct Writer {
    format: Format,
    /// Bytes of a number.
    width: usize,
    length: usize,
    lines: JsonLines,
}

impl Writer {
    pub(crate) fn of(file: &PartFile) -> Self {
        let numbers = if file.format.keeps_text() { file.numbers } else { 0 };
        let lines = JsonLines::new(numbers, file.length);
        Self { format: file.format, width: file.head().width(), length: file.length, lines }
    }

    /// Appends a text with the numbers of its words.
    pub(crate) fn push(&self, out: &mut RegionBytes, text: &[u8], label: u8, numbers: &[u32]) {
        match (self.format, out) {
            (Format::Native, [lengths, labels, words]) => {
                lengths.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
                labels.push(label);
                match self.width {
                    2 => push_numbers(words, numbers, |number| (number as u16).to_le_bytes()),
                    _ => push_numbers(words, numbers, u32::to_le_bytes),
                }
            }
            (Format::Hdf5, [out, ..]) => {
                push_numbers(out, numbers, u32::to_le_bytes);
                for _ in numbers.len()..self.length {
                    out.extend_from_slice(&PADDING.to_le_bytes());
                }
                out.extend_from_slice(&u32::from(label).to_le_bytes());
            }
            (Format::Jsonl | Format::Parquet, [out, ..]) => self.lines.push(out, text, label, numbers),
        }
    }
}

/// Texts as lines: `{"text":"…","stars":5,"ids":[…]}`.
#[derive(Debug)]
pub(crate) struct JsonLines {
    /// Numbers as they are written, with a comma behind: the first seven bytes, and in the last how many there are.
    written: Vec<u64>,
    /// Padding for a whole line.
    padding: Vec<u8>,
}

/// Numbers of more digits are written one digit at a time.
const WRITTEN_LIMIT: usize = 1_000_000;

impl JsonLines {
    /// For so many numbers, and so many of them a line.
    pub(crate) fn new(numbers: usize, length: usize) -> Self {
        let written = |number: usize| {
            let mut digits = number.to_string().into_bytes();
            digits.push(b',');
            eight::load(&digits) | (digits.len() as u64) << 56
        };
        let padding = format!("{PADDING},").repeat(length).into_bytes();
        Self { written: (0..numbers.min(WRITTEN_LIMIT)).map(written).collect(), padding }
    }

    /// Appends a line. A cleaned text has nothing that needs an escape.
    pub(crate) fn push(&self, line: &mut Vec<u8>, text: &[u8], label: u8, numbers: &[u32]) {
        line.extend_from_slice(b"{\"text\":\"");
        line.extend_from_slice(text);
        line.extend_from_slice(b"\",\"stars\":");
        line.push(b'0' + label);
        line.extend_from_slice(b",\"ids\":[");
        let mut end = line.len();
        line.resize(end + LONGEST_NUMBER * numbers.len(), 0);
        for &number in numbers {
            end += match self.written.get(number as usize) {
                Some(written) => {
                    line[end..end + 8].copy_from_slice(&written.to_le_bytes());
                    (written >> 56) as usize
                }
                None => {
                    let digits = format!("{number},");
                    line[end..end + digits.len()].copy_from_slice(digits.as_bytes());
                    digits.len()
                }
            };
        }
        line.truncate(end);
        let padding = PADDING_BYTES * numbers.len();
        line.extend_from_slice(self.padding.get(padding..).unwrap_or_default());
        line.pop();
        line.extend_from_slice(b"]}\n");
    }
}

/// The digits of the largest number, and a comma.
const LONGEST_NUMBER: usize = 11;

/// One digit, and a comma.
const PADDING_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_spaces_outside_the_text() {
        let check = |numbers: &[u32], length, expect: &str| {
            for known in [0, 4, 20_000] {
                let mut line = Vec::new();
                JsonLines::new(known, length).push(&mut line, b"good case", 5, numbers);
                assert_eq!(String::from_utf8(line).unwrap(), format!("{expect}\n"));
            }
        };
        check(&[3, 10002], 4, r#"{"text":"good case","stars":5,"ids":[3,10002,1,1]}"#);
        check(&[3], 1, r#"{"text":"good case","stars":5,"ids":[3]}"#);
        check(&[999_999, 1_000_000], 2, r#"{"text":"good case","stars":5,"ids":[999999,1000000]}"#);
        check(&[0, u32::MAX, 100], 3, r#"{"text":"good case","stars":5,"ids":[0,4294967295,100]}"#);
    }
}

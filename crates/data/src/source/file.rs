//! How a data file is opened, whatever its kind: plain or gzip, and by lines where it has them.

use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::parquet;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// What a gzip file begins with.
const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// No line of any of our formats is longer; a longer one means that the file is something else.
const LINE_LIMIT: u64 = 16 << 20;

/// Opens a file to read. Gzip is recognised by content, because names lie more often than bytes.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(Error::io(path))?);
    let begin = reader.fill_buf().map_err(Error::io(path))?;
    if begin.starts_with(&GZIP_MAGIC) {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(reader))));
    }
    if begin.starts_with(parquet::MAGIC) {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, parquet::lines(path, &[])?)));
    }
    Ok(Box::new(reader))
}

/// A file of at least this size is mapped; a smaller one is read at once.
const MAP_FROM: u64 = 1 << 20;

/// No packed file with more content is unpacked into memory.
pub(crate) const UNPACKED_LIMIT: u64 = 4 << 30;

/// The whole content of a file: mapped if it is plain and large, otherwise in memory, and of that at most one byte more
/// than `limit`, which is how a caller notices that there is more. A plain file of any size can be mapped.
pub(crate) fn content(path: &Path, limit: u64) -> Result<Bytes> {
    let file = File::open(path).map_err(Error::io(path))?;
    let size = file.metadata().map_err(Error::io(path))?.len();
    if size >= MAP_FROM {
        let mapped = Bytes::map(path)?;
        if !mapped.starts_with(&GZIP_MAGIC) {
            return Ok(mapped);
        }
    }
    let mut bytes = Vec::new();
    // Memory grows with the bytes that really arrive, whatever anything claims.
    open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|source| Error::format(path, format!("breaks off after {} bytes: {source}", bytes.len())))?;
    Ok(Bytes::Owned(bytes))
}

/// The file of this name in a folder, or of this name packed. A name that begins with `*` is what names end with; of
/// several such files, the first by the alphabet.
pub(crate) fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    if let Some(end) = name.strip_prefix('*') {
        let packed = format!("{end}.gz");
        let ends = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (name.ends_with(end) || name.ends_with(&packed)) && path.is_file()
        };
        let entries = std::fs::read_dir(folder).ok()?;
        return entries.filter_map(|entry| Some(entry.ok()?.path())).filter(ends).min();
    }
    [folder.join(name), folder.join(format!("{name}.gz"))].into_iter().find(|path| path.is_file())
}

/// The same for a file that must be there.
pub(crate) fn need(folder: &Path, name: &str) -> Result<PathBuf> {
    find(folder, name).ok_or_else(|| Error::format(folder, format!("holds no {name} or {name}.gz")))
}

/// Creates a file, compressed if its name ends in `.gz`, and lets `content` fill it.
pub(crate) fn create(path: &Path, content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let write = || {
        let mut plain = BufWriter::new(File::create(path)?);
        if path.extension().is_some_and(|extension| extension == "gz") {
            let mut packed = GzEncoder::new(&mut plain, Compression::default());
            content(&mut packed)?;
            packed.finish()?;
        } else {
            content(&mut plain)?;
        }
        plain.flush()
    };
    write().map_err(Error::io(path))
}

/// The lines of a text file, one at a time, with their numbers.
pub(crate) struct NumberedLines {
    reader: Box<dyn BufRead>,
    path: PathBuf,
    number: usize,
    line: Vec<u8>,
}

impl NumberedLines {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self { reader: open(path)?, path: path.to_owned(), number: 0, line: Vec::new() })
    }

    /// The next line with its number, counted from 1, without its end; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, &str)>> {
        self.line.clear();
        self.number += 1;
        let mut bounded = (&mut self.reader).take(LINE_LIMIT);
        let length = bounded.read_until(b'\n', &mut self.line).map_err(|source| self.broken(&source))?;
        if length == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if length as u64 == LINE_LIMIT {
            return Err(
                self.error(format!("the line is longer than {} MiB; is this a text file?", LINE_LIMIT >> 20))
            );
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some((self.number, line))),
            Err(at) => {
                Err(self.error(format!("not valid UTF-8 at byte {} of the line", at.valid_up_to() + 1)))
            }
        }
    }

    /// An error at the line that was read last.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::line(&self.path, self.number, message)
    }

    fn broken(&self, source: &std::io::Error) -> Error {
        self.error(format!("cannot be read: {source}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(bytes: &[u8]) -> Result<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, bytes).unwrap();
        let mut lines = NumberedLines::open(&path)?;
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next()? {
            found.push(format!("{number} {line}"));
        }
        Ok(found)
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn lines_come_with_their_numbers_plain_or_packed() {
        let check = |text: &[u8], expect: &[&str]| {
            assert_eq!(lines_of(text).unwrap(), expect);
            assert_eq!(lines_of(&packed(text)).unwrap(), expect);
        };
        check(b"", &[]);
        check(b"a", &["1 a"]);
        check(b"a\n\nb\r\n", &["1 a", "2 ", "3 b"]);
    }

    #[test]
    fn a_broken_file_is_named_with_its_line() {
        let check = |bytes: &[u8], expect: &str| {
            let error = lines_of(bytes).unwrap_err().to_string();
            assert!(error.contains(expect), "{error:?} should say {expect:?}");
        };
        check(b"good\nb\xFFd\n", "text:2: not valid UTF-8 at byte 2");
        check(&packed(b"some text\n")[..15], "text:1: cannot be read");
        check(&vec![b'x'; LINE_LIMIT as usize + 1], "longer than 16 MiB");
    }
}

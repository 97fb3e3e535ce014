//! The files that a preparation reads: found, and recognised by what they hold.

use super::journal::Workplace;
use super::mapper::Mapper;
use super::table::Columns;
use crate::error::{Error, Result};
use crate::{parquet, prepared};
use flate2::bufread::GzDecoder;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

/// A file as it was when the preparation began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InputFile {
    pub path: PathBuf,
    pub size: u64,
    /// In nanoseconds since 1970.
    pub modified: u64,
}

/// How the content of a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
    /// Rows that come as JSON lines.
    Parquet,
}

/// A file and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub file: InputFile,
    pub packing: Packing,
    /// None for JSON lines.
    pub columns: Option<Columns>,
    /// The columns that a table of Parquet is read for.
    wanted: Vec<String>,
}

/// The ends of names that are taken from a folder, each perhaps with `.gz`, `.zst` or `.zstd` behind.
const ENDS: [&str; 6] = [".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt"];
const PACKED_ENDS: [&str; 3] = [".gz", ".zst", ".zstd"];

/// No row is longer. A longer one means that the file is something else.
pub(crate) const ROW_LIMIT: usize = 16 << 20;

/// All files that these paths name, in the order of their paths: of a folder all that it and its folders hold.
pub(crate) fn list(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        if path.is_dir() {
            add_folder(path, &mut found)?;
            if found.len() == before {
                let ends = ENDS.join(", ");
                let message = format!("holds no file that ends in {ends}, plain or packed by gzip or zstd");
                return Err(Error::format(path, message));
            }
        } else {
            found.push(path.clone());
        }
    }
    if found.is_empty() {
        return Err(Error::mismatch("no input is given"));
    }
    found.sort();
    if let Some(twice) = found.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::format(&twice[0], "is given twice"));
    }
    Ok(found)
}

fn add_folder(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if name.starts_with('.') {
            continue;
        }
        let plain = PACKED_ENDS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        if path.is_dir() {
            // Results may lie among the inputs, and so may what is kept for them meanwhile.
            if !Workplace::is_at(&path) && !path.join(prepared::REPORT).is_file() {
                add_folder(&path, found)?;
            }
        } else if ENDS.iter().any(|end| plain.ends_with(end)) || plain.ends_with(".parquet") {
            found.push(path);
        }
    }
    Ok(())
}

/// All files that these paths name, each with its size and when it was changed.
pub(crate) fn input_files(paths: &[PathBuf]) -> Result<Vec<(PathBuf, u64, u64)>> {
    let look = |path: &PathBuf| {
        let InputFile { path, size, modified } = InputFile::look(path)?;
        Ok((path, size, modified))
    };
    list(paths)?.iter().map(look).collect()
}

impl InputFile {
    pub(crate) fn look(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(Error::io(path))?;
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = modified.map_or(0, |time| time.as_nanos() as u64);
        Ok(Self { path: path.to_owned(), size: metadata.len(), modified })
    }
}

impl Input {
    /// Looks into a file.
    pub(crate) fn open(path: &Path, mapper: &Mapper) -> Result<Self> {
        let file = InputFile::look(path)?;
        let mut begin = Vec::new();
        let mut start = File::open(path).map_err(Error::io(path))?.take(4);
        start.read_to_end(&mut begin).map_err(Error::io(path))?;
        let packing = match begin.as_slice() {
            [0x1F, 0x8B, ..] => Packing::Gzip,
            // A frame, or one that is skipped: some programs begin with such.
            [0x28, 0xB5, 0x2F, 0xFD] | [0x50..=0x5F, 0x2A, 0x4D, 0x18] => Packing::Zstd,
            parquet::MAGIC => Packing::Parquet,
            _ => Packing::Plain,
        };
        let wanted = mapper.keys().text.iter().chain(&mapper.keys().label).cloned().collect();
        let mut input = Self { file, packing, columns: None, wanted };
        if packing == Packing::Parquet {
            // What is wrong with it, or with this program, is said before anything else is done.
            parquet::lines(path, &input.wanted)?;
        }
        // A table without even a first row has no rows, whatever its columns would be.
        if is_table(path)
            && let Some(row) = input.first_row()?
        {
            let columns = Columns::of(&row, mapper.keys(), mapper.scale());
            input.columns = Some(columns.map_err(|message| Error::line(path, 1, message))?);
        }
        Ok(input)
    }

    /// The unpacked content from its beginning on. `passed` counts the bytes of the file itself.
    pub(crate) fn content(&self, passed: &Arc<AtomicU64>) -> Result<Box<dyn Read + Send>> {
        let path = &self.file.path;
        let file = File::open(path).map_err(Error::io(path))?;
        let counted = BufReader::with_capacity(1 << 18, CountedRead { file, passed: Arc::clone(passed) });
        Ok(match self.packing {
            Packing::Parquet => {
                passed.fetch_add(self.file.size, Ordering::Relaxed);
                parquet::lines(path, &self.wanted)?
            }
            Packing::Plain => Box::new(counted),
            Packing::Gzip => Box::new(GzipMembers { member: Some(GzDecoder::new(counted)) }),
            Packing::Zstd => Box::new(zstd::Decoder::with_buffer(counted).map_err(Error::io(path))?),
        })
    }

    /// The first row of a table, if it has any; the names of columns have no newline in them.
    fn first_row(&self) -> Result<Option<Vec<u8>>> {
        let mut content = self.content(&Arc::default())?.take(1 << 20);
        let (mut row, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let length = content.read(&mut piece).map_err(|error| self.broken(&error))?;
            row.extend_from_slice(&piece[..length]);
            if let Some(end) = row.iter().position(|&byte| byte == b'\n') {
                row.truncate(end);
                break;
            }
            if length == 0 && row.is_empty() {
                return Ok(None);
            }
            if length == 0 {
                break;
            }
        }
        let row = row.strip_prefix(BOM).unwrap_or(&row);
        Ok(Some(row.strip_suffix(b"\r").unwrap_or(row).to_vec()))
    }

    /// An error while the content was read.
    pub(crate) fn broken(&self, error: &io::Error) -> Error {
        let message = match self.packing {
            // What zstd itself says of it is not built in.
            Packing::Zstd => "cannot be read as zstd: it is damaged, or not all of it is there".to_owned(),
            Packing::Gzip => {
                format!("cannot be read as gzip: {error}; is all of it there, and nothing else?")
            }
            Packing::Plain | Packing::Parquet => format!("cannot be read: {error}"),
        };
        Error::format(&self.file.path, message)
    }
}

/// What some programs mark UTF-8 with, at the beginning of a file.
pub(crate) const BOM: &[u8] = b"\xEF\xBB\xBF";

fn is_table(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = PACKED_ENDS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    plain.ends_with(".csv") || plain.ends_with(".tsv")
}

/// A file whose bytes are counted as they pass.
struct CountedRead {
    file: File,
    passed: Arc<AtomicU64>,
}

impl Read for CountedRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.passed.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

/// The members of a gzip file, one after the other. Zeros behind them are nothing: what was on a tape, or was made as
/// large as a block, has such, and other programs overlook them, too.
struct GzipMembers<R> {
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let length = member.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            self.member = next_member(self.member.take())?;
        }
        Ok(0)
    }
}

/// What comes behind a member that has ended.
fn next_member<R: BufRead>(ended: Option<GzDecoder<R>>) -> io::Result<Option<GzDecoder<R>>> {
    let Some(mut rest) = ended.map(GzDecoder::into_inner) else { return Ok(None) };
    loop {
        let bytes = rest.fill_buf()?;
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        match (zeros, bytes.len()) {
            (_, 0) => return Ok(None),
            (zeros, all) if zeros < all => {
                rest.consume(zeros);
                return Ok(Some(GzDecoder::new(rest)));
            }
            _ => rest.consume(zeros),
        }
    }
}

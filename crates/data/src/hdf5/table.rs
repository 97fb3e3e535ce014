//! The tables of an HDF5 file, read a block of rows at a time: a file may be larger than memory, texts are smaller.

use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::source::file;
use hdf5_reader::error::Error as ReadError;
use hdf5_reader::group::Group;
use hdf5_reader::{ByteOrder, Dataset, Datatype, H5Type, Hdf5File, OpenOptions, SliceInfo, SliceInfoElem};
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// About so many numbers are read at once.
const BLOCK: u64 = 1 << 19;

/// A block is never larger, whatever the size of the pieces in which the file stores a table.
const BLOCK_LIMIT: u64 = 1 << 25;

/// No text is longer.
const COLUMN_LIMIT: u64 = 1 << 20;

/// What deflate makes of the most repetitive data. A file that claims to hold more is damaged.
const MOST_EXPANSION: u64 = 1032;

const EXPECTED: &str = "expected a text in each row: the numbers of its words, then a label";

/// Rows of whole numbers.
pub(super) struct Hdf5Table {
    path: PathBuf,
    /// With the names of the groups around it.
    name: String,
    pub rows: u64,
    columns: u64,
    dataset: Dataset,
}

/// All tables of a file, by name, so that one file has one order.
pub(super) fn open(path: &Path) -> Result<Vec<Hdf5Table>> {
    let content = file::content(path, file::UNPACKED_LIMIT)?;
    let size = content.len() as u64;
    if size > file::UNPACKED_LIMIT && matches!(content, Bytes::Owned(_)) {
        return Err(Error::format(
            path,
            format!("holds more than {} bytes; unpack it", file::UNPACKED_LIMIT),
        ));
    }
    // Every piece is read once, in the order of the rows, so there is no use in keeping one.
    let options = OpenOptions::default().with_chunk_cache_bytes(0);
    let file = Hdf5File::from_owner(FileContent(content), options).map_err(|error| broken(path, &error))?;
    let mut found = datasets(&file).map_err(|error| broken(path, &error))?;
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let tables = found
        .into_iter()
        .map(|(name, dataset)| Hdf5Table::new(path, name, dataset))
        .collect::<Result<Vec<_>>>()?;
    let claim = tables.iter().fold(0, |sum: u64, table| sum.saturating_add(table.values()));
    if claim > size.saturating_mul(MOST_EXPANSION) {
        let message = format!("claims to hold {claim} numbers, which do not fit into {size} bytes");
        return Err(Error::format(path, message));
    }
    if claim == 0 {
        return Err(Error::format(path, format!("holds no rows, {EXPECTED}")));
    }
    Ok(tables)
}

/// The file's content as the reader wants to own it.
struct FileContent(Bytes);

impl AsRef<[u8]> for FileContent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// All datasets of a file with their names, wherever they are. Groups can be linked in circles, and a dataset under two
/// names; the address tells.
fn datasets(file: &Hdf5File) -> Result<Vec<(String, Dataset)>, ReadError> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut open: Vec<(String, Group)> = vec![(String::new(), file.root_group()?)];
    while let Some((prefix, group)) = open.pop() {
        if !seen.insert(group.address()) {
            continue;
        }
        let (groups, datasets) = group.members()?;
        open.extend(groups.into_iter().map(|group| (format!("{prefix}{}/", group.name()), group)));
        let new = datasets.into_iter().filter(|dataset| seen.insert(dataset.address()));
        found.extend(new.map(|dataset| (format!("{prefix}{}", dataset.name()), dataset)));
    }
    Ok(found)
}

fn broken(path: &Path, error: &ReadError) -> Error {
    match error {
        ReadError::InvalidMagic => Error::format(path, "is not an HDF5 file"),
        error => Error::format(path, format!("cannot be read as HDF5: {error}")),
    }
}

impl Hdf5Table {
    fn new(path: &Path, name: String, dataset: Dataset) -> Result<Self> {
        let wrong = |what: String| Err(Error::format(path, format!("{name} {what}, {EXPECTED}")));
        let &[rows, columns] = dataset.shape() else {
            return wrong(format!("has {} dimensions", dataset.ndim()));
        };
        if !(2..=COLUMN_LIMIT).contains(&columns) {
            return wrong(format!("has {columns} columns"));
        }
        if !matches!(dataset.dtype(), Datatype::FixedPoint { size: 1..=8, .. }) {
            return wrong("does not hold whole numbers".to_owned());
        }
        let table = Self { path: path.to_owned(), name, rows, columns, dataset };
        let step = table.rows_at_once().min(rows);
        if step.saturating_mul(columns) > BLOCK_LIMIT {
            let message = format!("{} is stored in pieces of {step} rows, expected smaller ones", table.name);
            return Err(Error::format(path, message));
        }
        Ok(table)
    }

    fn values(&self) -> u64 {
        self.rows.saturating_mul(self.columns)
    }

    /// Gives every row to `take`, which says what is wrong with it and in which column, if anything is.
    pub(super) fn each_row(&self, mut take: impl FnMut(&[Whole]) -> Result<(), CellError>) -> Result<()> {
        let columns: Vec<u64> = (0..self.columns).collect();
        let step = self.rows_at_once();
        let mut start = 0;
        while start < self.rows {
            let end = start.saturating_add(step).min(self.rows);
            let block = self.block(start..end, &columns).map_err(|error| self.broken(&error))?;
            for (number, row) in (start..).zip(block.chunks_exact(columns.len())) {
                take(row).map_err(|wrong| self.wrong(number, &wrong))?;
            }
            start = end;
        }
        Ok(())
    }

    /// Some rows, one after the other.
    fn block(&self, rows: Range<u64>, columns: &[u64]) -> Result<Vec<Whole>, ReadError> {
        let Range { start, end } = rows;
        // Of a table in pieces a slice would do too, but for each it would walk through the index of all pieces, and
        // there may be as many as there are rows.
        let block = match self.dataset.read_rows_columns_chunked((start, end, 1), columns)? {
            Some(block) => block,
            None => {
                let rows = SliceInfoElem::Slice { start, end, step: 1 };
                let columns = SliceInfoElem::Slice { start: 0, end: self.columns, step: 1 };
                self.dataset.read_slice(&SliceInfo { selections: vec![rows, columns] })?
            }
        };
        Ok(block.into_raw_vec_and_offset().0)
    }

    /// Whole pieces of the file, so that none is unpacked twice.
    fn rows_at_once(&self) -> u64 {
        let rows = (BLOCK / self.columns).max(1);
        let piece = self.dataset.chunks().and_then(|piece| piece.first().copied()).unwrap_or(1).max(1);
        rows.next_multiple_of(u64::from(piece))
    }

    fn broken(&self, error: &ReadError) -> Error {
        Error::format(&self.path, format!("{} cannot be read: {error}", self.name))
    }

    /// Names the place as one would ask for it in Python.
    fn wrong(&self, row: u64, CellError { column, message }: &CellError) -> Error {
        Error::format(&self.path, format!("{}[{row}, {column}]: {message}", self.name))
    }
}

/// What is wrong with a row.
pub(super) struct CellError {
    /// Counted from 0, as rows are.
    pub column: usize,
    pub message: String,
}

/// A whole number, stored in whatever size and order. What is too large for 64 bits with a sign is the largest.
#[derive(Clone, Copy)]
pub(super) struct Whole(pub i64);

impl Whole {
    fn decode(bytes: &[u8], signed: bool, order: ByteOrder) -> Self {
        let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = match order {
            ByteOrder::LittleEndian => bytes.iter().rev().fold(0, append),
            ByteOrder::BigEndian => bytes.iter().fold(0, append),
        };
        let unused = 64 - 8 * bytes.len().clamp(1, 8);
        // Shifted up and down again, a number keeps its sign.
        let signed_value = (value << unused) as i64 >> unused;
        Self(if signed { signed_value } else { i64::try_from(value).unwrap_or(i64::MAX) })
    }
}

impl H5Type for Whole {
    fn hdf5_type() -> Datatype {
        i64::hdf5_type()
    }

    fn from_bytes(bytes: &[u8], dtype: &Datatype) -> Result<Self, ReadError> {
        match dtype {
            Datatype::FixedPoint { signed, byte_order, .. } => Ok(Self::decode(bytes, *signed, *byte_order)),
            other => Err(ReadError::TypeMismatch {
                expected: "whole numbers".to_owned(),
                actual: format!("{other:?}"),
            }),
        }
    }

    fn element_size(dtype: &Datatype) -> usize {
        match dtype {
            Datatype::FixedPoint { size, .. } => usize::from(*size),
            _ => size_of::<Self>(),
        }
    }
}

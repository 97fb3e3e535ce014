//! Parquet as lines of JSON, a row each: whoever reads those reads this.

use crate::error::{Error, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a file of Parquet begins with.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// The rows of a file, with only these columns if there are any of them. A list or a group is an empty list.
#[cfg(feature = "parquet")]
pub(crate) fn lines(path: &Path, wanted: &[String]) -> Result<Box<dyn Read + Send>> {
    rows::open(path, wanted).map(|lines| Box::new(lines) as Box<dyn Read + Send>)
}

/// This program was built without a reader.
#[cfg(not(feature = "parquet"))]
pub(crate) fn lines(path: &Path, _: &[String]) -> Result<Box<dyn Read + Send>> {
    let message = "is Parquet, which this program was built without: build it with `--features parquet`, or write \
                   it as JSON lines or CSV, such as by: duckdb -c \"COPY (FROM 'reviews.parquet') TO 'reviews.json'\"";
    Err(Error::format(path, message))
}

/// Whether this program can write it.
pub(crate) fn is_built() -> Result<()> {
    if cfg!(feature = "parquet") {
        return Ok(());
    }
    Err(Error::mismatch("this program writes no Parquet: build it with `--features parquet`"))
}

/// Makes a file of the prepared lines that others hold, which are removed.
#[cfg(feature = "parquet")]
pub(crate) fn write(from: &[PathBuf], to: &Path) -> Result<()> {
    table::write(from, to)
}

#[cfg(not(feature = "parquet"))]
pub(crate) fn write(_: &[PathBuf], _: &Path) -> Result<()> {
    is_built()
}

#[cfg(feature = "parquet")]
mod table;

#[cfg(feature = "parquet")]
mod rows {
    use super::{Error, Result};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::reader::RowIter;
    use parquet::record::{Field, Row};
    use parquet::schema::types::Type;
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::path::Path;

    /// Rows that are written as lines when they are read.
    pub(super) struct RowLines {
        rows: RowIter<'static>,
        line: Vec<u8>,
        /// How much of the line was read.
        at: usize,
    }

    pub(super) fn open(path: &Path, wanted: &[String]) -> Result<RowLines> {
        let broken =
            |error: parquet::errors::ParquetError| Error::format(path, format!("cannot be read: {error}"));
        let file = File::open(path).map_err(Error::io(path))?;
        let reader = SerializedFileReader::new(file).map_err(broken)?;
        let schema = reader.metadata().file_metadata().schema();
        let mut fields = schema.get_fields().to_vec();
        if !wanted.is_empty() {
            fields.retain(|field| wanted.iter().any(|name| name == field.name()));
        }
        if fields.is_empty() {
            let known: Vec<&str> = schema.get_fields().iter().take(20).map(|field| field.name()).collect();
            let message =
                format!("has none of the columns {}; it has {}", wanted.join(", "), known.join(", "));
            return Err(Error::format(path, message));
        }
        let chosen = Type::group_type_builder(schema.name()).with_fields(fields).build().map_err(broken)?;
        let rows = RowIter::from_file_into(Box::new(reader)).project(Some(chosen)).map_err(broken)?;
        Ok(RowLines { rows, line: Vec::new(), at: 0 })
    }

    impl Read for RowLines {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            while self.at == self.line.len() {
                self.line.clear();
                self.at = 0;
                match self.rows.next() {
                    None => return Ok(0),
                    Some(row) => write(&row.map_err(io::Error::other)?, &mut self.line)?,
                }
            }
            let length = out.len().min(self.line.len() - self.at);
            out[..length].copy_from_slice(&self.line[self.at..self.at + length]);
            self.at += length;
            Ok(length)
        }
    }

    fn write(row: &Row, line: &mut Vec<u8>) -> io::Result<()> {
        for (i, (name, field)) in row.get_column_iter().enumerate() {
            line.push(if i == 0 { b'{' } else { b',' });
            serde_json::to_writer(&mut *line, name)?;
            line.push(b':');
            match field {
                Field::Null => line.extend_from_slice(b"null"),
                Field::Str(text) => serde_json::to_writer(&mut *line, text)?,
                // Some programs do not say that bytes are text.
                Field::Bytes(bytes) => {
                    serde_json::to_writer(&mut *line, &String::from_utf8_lossy(bytes.data()))?;
                }
                Field::Float(number) => serde_json::to_writer(&mut *line, number)?,
                Field::Double(number) => serde_json::to_writer(&mut *line, number)?,
                Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => {
                    line.extend_from_slice(b"[]")
                }
                Field::Bool(value) => write!(line, "{value}")?,
                Field::Byte(_)
                | Field::Short(_)
                | Field::Int(_)
                | Field::Long(_)
                | Field::UByte(_)
                | Field::UShort(_)
                | Field::UInt(_)
                | Field::ULong(_) => write!(line, "{field}")?,
                other => serde_json::to_writer(&mut *line, &other.to_string())?,
            }
        }
        line.extend_from_slice(b"}\n");
        Ok(())
    }
}

#[cfg(all(test, feature = "parquet"))]
mod tests;

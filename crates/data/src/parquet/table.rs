//! Prepared texts as a table of Parquet: the text, its label, and the numbers of its words as a list.

use super::{Error, Result};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SCHEMA: &str = "message reviews {
    required binary text (UTF8);
    required int32 stars;
    required group ids (LIST) { repeated group list { required int32 element; } }
}";

/// So many texts are in a row group.
const GROUP: usize = 1 << 15;

/// A prepared line.
#[derive(Deserialize)]
struct PreparedRow {
    text: String,
    stars: i32,
    ids: Vec<i32>,
}

/// The rows of a group, as columns.
#[derive(Default)]
struct RowGroup {
    texts: Vec<ByteArray>,
    stars: Vec<i32>,
    ids: Vec<i32>,
    /// 0 where a list begins, 1 where it goes on.
    repetition: Vec<i16>,
}

pub(super) fn write(from: &[PathBuf], to: &Path) -> Result<()> {
    let broken = |error: ParquetError| Error::io(to)(std::io::Error::other(error));
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(broken)?);
    let level = ZstdLevel::try_new(1).map_err(broken)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let file = File::create(to).map_err(Error::io(to))?;
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(broken)?;
    let mut group = RowGroup::default();
    for path in from {
        let file = File::open(path).map_err(Error::io(path))?;
        for line in BufReader::with_capacity(1 << 18, file).split(b'\n') {
            let line = line.map_err(Error::io(path))?;
            let row =
                serde_json::from_slice(&line).map_err(|error| Error::format(path, error.to_string()))?;
            group.add(row);
            if group.stars.len() == GROUP {
                std::mem::take(&mut group).write(&mut writer).map_err(broken)?;
            }
        }
    }
    if !group.stars.is_empty() {
        group.write(&mut writer).map_err(broken)?;
    }
    writer.close().map_err(broken)?;
    from.iter().try_for_each(|path| fs::remove_file(path).map_err(Error::io(path)))
}

impl RowGroup {
    fn add(&mut self, row: PreparedRow) {
        let PreparedRow { text, stars, ids } = row;
        self.texts.push(ByteArray::from(text.into_bytes()));
        self.stars.push(stars);
        self.repetition.extend((0..ids.len()).map(|place| i16::from(place > 0)));
        self.ids.extend(ids);
    }

    fn write(self, writer: &mut SerializedFileWriter<File>) -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        if let Some(mut column) = group.next_column()? {
            column.typed::<ByteArrayType>().write_batch(&self.texts, None, None)?;
            column.close()?;
        }
        if let Some(mut column) = group.next_column()? {
            column.typed::<Int32Type>().write_batch(&self.stars, None, None)?;
            column.close()?;
        }
        if let Some(mut column) = group.next_column()? {
            // A text has a word at least.
            let definition = vec![1; self.ids.len()];
            column.typed::<Int32Type>().write_batch(&self.ids, Some(&definition), Some(&self.repetition))?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

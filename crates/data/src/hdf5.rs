//! HDF5 files of reviews whose words are numbers already.
//!
//! A row is a text: the numbers of its words, filled up with padding, and in the last column the label. Number 1 is
//! padding, 2 stands for every word without a number of its own, and from 3 on are the words, the most frequent first.
//! The labels of a file are 0 and 1, worse and better, or one to five stars. A file may hold several tables, and a
//! folder several files, such as one from each machine that prepared a part; they have no halves, so chance picks a
//! tenth of the rows to measure on.

mod halves;
mod table;

use crate::error::{Error, Result};
use crate::{Dataset, Source};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Whether a file says by its name that it is of this format, packed with gzip or not.
pub(crate) fn is_named(path: &Path) -> bool {
    let plain = if ends_in(path, "gz") { path.with_extension("") } else { path.to_owned() };
    ends_in(&plain, "h5") || ends_in(&plain, "hdf5")
}

fn ends_in(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end))
}

/// Reads a file of this format.
pub(crate) fn load(path: &Path, source: &Source) -> Result<Dataset> {
    read(path, &[path.to_owned()], source)
}

/// Reads all files of a folder as one, in the order of their names.
pub(crate) fn load_folder(folder: &Path, source: &Source) -> Result<Dataset> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let paths = entries.map_err(Error::io(folder))?.into_iter().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths.filter(|path| is_named(path)).collect();
    files.sort();
    read(folder, &files, source)
}

fn read(path: &Path, files: &[PathBuf], source: &Source) -> Result<Dataset> {
    check_options(source)?;
    let mut tables = Vec::new();
    for file in files {
        tables.extend(table::open(file)?);
    }
    let mut halves = halves::Halves::new(source, tables.iter().map(|table| table.rows).sum());
    for table in &tables {
        table.each_row(|row| halves.add(row))?;
    }
    halves.into_dataset(path)
}

/// Refuses options that need the words themselves, rather than to leave a wish without effect.
fn check_options(source: &Source) -> Result<()> {
    let default = Source::new(source.name.clone());
    let same = [
        ("min_frequency", source.min_frequency == default.min_frequency),
        ("lower_case", source.lower_case == default.lower_case),
        ("stop_words", source.stop_words == default.stop_words),
    ];
    match same.iter().find(|(_, same)| !same) {
        Some((key, _)) => Err(Error::mismatch(format!(
            "data: {key} is for words, but those of {} are numbers already; max_words and max_length work",
            source.name
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;

//! HDF5 files of reviews whose words are numbers already.
//!
//! A row is a text: the numbers of its words, filled up with padding, and in the last column the label. Number 1 is
//! padding, 2 stands for every word without a number of its own, and from 3 on are the words, the most frequent first.
//! The labels of a file are 0 and 1, worse and better, or one to five stars. A file may hold several tables, such as
//! one from each machine that prepared a part; it has no halves, so chance picks a tenth of the rows to measure on.

#[cfg(feature = "hdf5")]
mod halves;
#[cfg(feature = "hdf5")]
mod table;

use crate::error::{Error, Result};
use crate::{Dataset, Source};
use std::path::Path;

/// Whether a file says by its name that it is of this format, packed with gzip or not.
pub(crate) fn is_named(path: &Path) -> bool {
    let plain = if ends_in(path, "gz") { path.with_extension("") } else { path.to_owned() };
    ends_in(&plain, "h5") || ends_in(&plain, "hdf5")
}

fn ends_in(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end))
}

/// Says how to get a program that reads this file.
#[cfg(not(feature = "hdf5"))]
pub(crate) fn load(path: &Path, _: &Source) -> Result<Dataset> {
    let message = "this program was built without HDF5; with it: cargo build --release --features hdf5";
    Err(Error::format(path, message))
}

/// Reads a file of this format.
#[cfg(feature = "hdf5")]
pub(crate) fn load(path: &Path, source: &Source) -> Result<Dataset> {
    check_options(source)?;
    let tables = table::open(path)?;
    let mut halves = halves::Halves::new(source, tables.iter().map(|table| table.rows).sum());
    for table in &tables {
        table.each_row(|row| halves.add(row))?;
    }
    halves.into_dataset(path)
}

/// Refuses options that need the words themselves, rather than to leave a wish without effect.
#[cfg(feature = "hdf5")]
fn check_options(source: &Source) -> Result<()> {
    let default = Source::new(source.name.clone());
    let same = [
        ("min_frequency", source.min_frequency == default.min_frequency),
        ("lower_case", source.lower_case == default.lower_case),
        ("stop_words", source.stop_words == default.stop_words),
    ];
    match same.iter().find(|(_, same)| !same) {
        Some((key, _)) => Err(Error::Mismatch(format!(
            "data: {key} is for words, but those of {} are numbers already; max_words and max_length work",
            source.name
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;

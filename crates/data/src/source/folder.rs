//! Folders of data that came from elsewhere, recognised by what they hold.
//!
//! To add a format: write its file, with a `load` that makes a data set of a folder, and add a row to [`FORMATS`].

use super::{Source, file};
use crate::error::{Error, Result};
use crate::{Dataset, cifar, conllu, csv, idx, prepared, reviews, svhn};
use std::path::Path;

/// A format that is read.
struct FolderFormat {
    name: &'static str,
    /// A folder that holds this file, plain or packed with gzip, is of this format.
    mark: &'static str,
    /// The other files, in words.
    others: &'static str,
    load: fn(&Path, &Source) -> Result<Dataset>,
}

const FORMATS: &[FolderFormat] = &[
    FolderFormat { name: "IDX", mark: "train-images-idx3-ubyte", others: "three more", load: idx::load },
    FolderFormat {
        name: "CIFAR-10",
        mark: "data_batch_1.bin",
        others: "test_batch.bin",
        load: cifar::load_ten,
    },
    FolderFormat { name: "CIFAR-100", mark: "train.bin", others: "test.bin", load: cifar::load_hundred },
    FolderFormat { name: "SVHN", mark: "train_32x32.mat", others: "test_32x32.mat", load: svhn::load },
    FolderFormat { name: "CoNLL-U", mark: "train.conllu", others: "test.conllu", load: conllu::load },
    FolderFormat {
        name: "prepared texts",
        mark: prepared::REPORT,
        others: "the rest of what bonfire prepare wrote",
        load: prepared::load,
    },
    FolderFormat { name: "JSON lines", mark: "train.jsonl", others: "test.jsonl", load: reviews::load },
    FolderFormat { name: "CSV", mark: "train.csv", others: "test.csv", load: csv::load },
];

/// Reads a folder of one of these formats.
pub(super) fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    match format(folder) {
        Some(format) => (format.load)(folder, source),
        None => {
            let row =
                |format: &FolderFormat| format!("{} and {} ({})", format.mark, format.others, format.name);
            let rows = FORMATS.iter().map(row).collect::<Vec<_>>().join(", ");
            let message = format!("no data found; looked for {rows}, each with or without .gz");
            Err(Error::format(folder, message))
        }
    }
}

/// Whether a folder has data of one of these formats.
pub(super) fn holds_data(folder: &Path) -> bool {
    format(folder).is_some()
}

fn format(folder: &Path) -> Option<&'static FolderFormat> {
    FORMATS.iter().find(|format| file::find(folder, format.mark).is_some())
}

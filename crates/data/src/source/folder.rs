//! Folders of data that came from elsewhere, recognised by what they hold.
//!
//! To add a format: write its file, with a `load` that makes a data set of a folder, and add a row to [`FORMATS`].

use super::{Source, file};
use crate::error::{Error, Result};
use crate::{
    Dataset, cifar, columns, conllu, csv, hdf5, idx, image_folder, numpy, prepared, reviews, svhn, udpos,
};
use std::path::Path;

/// A format that is read.
struct FolderFormat {
    name: &'static str,
    /// A folder that holds this file, plain or packed with gzip, is of this format.
    mark: &'static str,
    /// The other files, in words.
    others: &'static str,
    /// What the file to validate on may be called; not every folder has one.
    validation: &'static [&'static str],
    load: fn(&Path, &Source) -> Result<Dataset>,
}

const FORMATS: &[FolderFormat] = &[
    FolderFormat {
        name: "IDX",
        mark: "train-images-idx3-ubyte",
        others: "three more",
        validation: &[],
        load: idx::load,
    },
    FolderFormat {
        name: "CIFAR-10",
        mark: "data_batch_1.bin",
        others: "test_batch.bin",
        validation: &[],
        load: cifar::load_ten,
    },
    FolderFormat {
        name: "CIFAR-100",
        mark: "train.bin",
        others: "test.bin",
        validation: &[],
        load: cifar::load_hundred,
    },
    FolderFormat {
        name: "SVHN",
        mark: "train_32x32.mat",
        others: "test_32x32.mat",
        validation: &[],
        load: svhn::load,
    },
    FolderFormat {
        name: "CoNLL-U",
        mark: "train.conllu",
        others: "test.conllu",
        validation: &["dev.conllu"],
        load: conllu::load,
    },
    FolderFormat {
        name: "a treebank",
        mark: "*-ud-train.conllu",
        others: "*-ud-test.conllu",
        validation: &["*-ud-dev.conllu"],
        load: conllu::load_ud,
    },
    FolderFormat {
        name: "UDPOS",
        mark: "*-ud-tag.v2.train.txt",
        others: "*-ud-tag.v2.test.txt",
        validation: &["*-ud-tag.v2.dev.txt"],
        load: udpos::load,
    },
    FolderFormat {
        name: "prepared texts",
        mark: prepared::REPORT,
        others: "the rest of what bonfire prepare wrote",
        validation: &["validation.texts"],
        load: prepared::load,
    },
    FolderFormat {
        name: "JSON lines",
        mark: "train.jsonl",
        others: "test.jsonl",
        validation: &["validation.jsonl"],
        load: reviews::load,
    },
    FolderFormat {
        name: "CSV",
        mark: "train.csv",
        others: "test.csv",
        validation: &["validation.csv"],
        load: csv::load,
    },
    FolderFormat {
        name: "NumPy",
        mark: "x_train.npy",
        others: "y_train.npy, x_test.npy, y_test.npy",
        validation: &["x_validation.npy"],
        load: numpy::load_folder,
    },
    FolderFormat {
        name: "HDF5",
        mark: "*.h5",
        others: "perhaps more of them",
        validation: &[],
        load: hdf5::load_folder,
    },
];

/// Reads a folder of one of these formats.
pub(super) fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    if columns::are_named(source) {
        return columns::load_folder(folder, source);
    }
    match format(folder) {
        Some(format) => (format.load)(folder, source),
        None if image_folder::is_one(folder) => image_folder::load(folder, source),
        None => {
            let row =
                |format: &FolderFormat| format!("{} and {} ({})", format.mark, format.others, format.name);
            let rows = FORMATS.iter().map(row).collect::<Vec<_>>().join(", ");
            let message = format!(
                "no data found; looked for {rows}, each with or without .gz, and for folders of images, one for each \
                 class"
            );
            Err(Error::format(folder, message))
        }
    }
}

/// Whether a folder has data of one of these formats.
pub(super) fn holds_data(folder: &Path) -> bool {
    format(folder).is_some()
}

/// Whether a folder has a part to validate on.
pub(super) fn has_validation(folder: &Path, source: &Source) -> bool {
    if columns::are_named(source) {
        return columns::has_validation(folder);
    }
    match format(folder) {
        Some(format) => format.validation.iter().any(|name| file::find(folder, name).is_some()),
        None => image_folder::has_validation(folder),
    }
}

fn format(folder: &Path) -> Option<&'static FolderFormat> {
    FORMATS.iter().find(|format| file::find(folder, format.mark).is_some())
}

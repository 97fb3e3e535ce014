//! Where the data of a run comes from: the value of the key `data` in a run file.

mod fields;
pub(crate) mod file;
mod folder;
pub(crate) mod image;
mod known;
mod raw;
pub(crate) mod text;

use crate::augment::Augment;
use crate::cifar::CifarLabels;
use crate::conllu::TagColumn;
use crate::error::{Error, Result};
use crate::image_folder::Resize;
use crate::normalize::Normalize;
use crate::{Dataset, Samples, columns, digits, grammar, hdf5, numpy, reviews};
use bonfire_learn::random::mix;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use known::data_folders;

pub use known::{KNOWN, Known, known, nearest, user_folder};
pub use raw::RawReviews;

/// The seed of made data, unless told otherwise. It is not the run's: runs with different seeds are compared on the
/// same data.
pub const SEED: u64 = 2024;

/// The most samples or words that can be asked for: a slip of the finger must not fill the memory.
pub(crate) const MOST: usize = 100_000_000;

/// A data set and how to prepare it. In a run file either a name or folder alone, or a mapping of these fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// A known name, the path of a folder, or that of an HDF5 file.
    pub name: String,
    /// Made data: how many samples to make. Read data: keep the first so many.
    pub train: Option<usize>,
    /// The same for the samples to measure on.
    pub test: Option<usize>,
    /// What is made, and which texts of an HDF5 file are measured on.
    pub seed: u64,
    /// Words that occur less often in the training half have no number of their own.
    pub min_frequency: usize,
    /// At most so many words have numbers.
    pub max_words: usize,
    /// How many words of a text are kept.
    pub max_length: usize,
    /// Whether upper and lower case are one.
    pub lower_case: bool,
    /// Whether the words that every text has, such as "the", are left out of texts.
    pub stop_words: bool,
    /// Which tags of a treebank are learned.
    pub tags: TagColumn,
    /// Which labels of CIFAR-100 are learned.
    pub labels: CifarLabels,
    /// Values around zero; for rows of numbers that is the default.
    pub normalize: Option<Normalize>,
    /// How the images to train on are changed by chance.
    pub augment: Option<Augment>,
    /// The column or key of a text to read, of a file that has such.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The column or key of its label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The column of a number that is learned in the place of a class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The size that images of a folder get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<Resize>,
    /// Raw reviews that are prepared first, and stand for the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<RawReviews>,
    /// Which files of a folder are read.
    #[serde(skip)]
    pub part: SamplePart,
    /// Whether the part to validate on is wanted, too. A run says so by its key `validation`.
    #[serde(skip)]
    pub dev: bool,
}

/// Which part of the data is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SamplePart {
    /// That to train on and that to test on.
    #[default]
    Halves,
    /// That to validate on, in place of both.
    Validation,
}

impl Source {
    /// The data set of this name or in this folder, with defaults for everything else.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let made = known(&name).filter(|known| known.made);
        Self {
            train: made.map(|known| known.train),
            test: made.map(|known| known.test),
            name,
            seed: SEED,
            min_frequency: 2,
            max_words: 10_000,
            max_length: 400,
            lower_case: true,
            stop_words: false,
            tags: TagColumn::default(),
            labels: CifarLabels::default(),
            normalize: None,
            augment: None,
            text: None,
            label: None,
            value: None,
            resize: None,
            prepare: None,
            part: SamplePart::default(),
            dev: false,
        }
    }

    /// Makes or reads the data.
    pub fn load(&self) -> Result<Dataset> {
        let mut dataset = self.load_halves()?;
        if self.value.is_some() && !dataset.classes.is_empty() {
            let message = "data: value is for tables: a file that ends in .csv, or a folder with train.csv";
            return Err(Error::mismatch(message));
        }
        if self.dev {
            dataset.dev = self.load_validation(&dataset)?;
        }
        Ok(dataset)
    }

    fn load_halves(&self) -> Result<Dataset> {
        self.check()?;
        if self.prepare.is_some() {
            return folder::load(&self.prepared_folder()?, self);
        }
        match known(&self.name) {
            Some(known) if known.made => self.make(),
            Some(_) => folder::load(&self.find()?, self),
            None => {
                let path = Path::new(&self.name);
                if path.is_dir() {
                    folder::load(path, self)
                } else if hdf5::is_named(path) {
                    hdf5::load(path, self)
                } else if path.is_file() && numpy::is_named(path) {
                    numpy::load_file(path, self)
                } else if path.is_file() && columns::is_named(path) {
                    columns::load_file(path, self)
                } else {
                    Err(self.unknown(path))
                }
            }
        }
    }

    /// The part to validate on, with the words, classes and scales of a data set that this source has loaded; none if
    /// the data have no such part of their own.
    pub fn load_validation(&self, dataset: &Dataset) -> Result<Option<Arc<Samples>>> {
        let part = Self { dev: false, augment: None, ..self.clone() };
        let folder = match known(&self.name) {
            _ if self.prepare.is_some() => self.prepared_folder()?,
            Some(known) if known.made => {
                // As large as the test half, and as far from the others as they are from each other.
                let made = Self { train: self.test, test: Some(1), seed: mix(self.seed ^ 0xDE70), ..part };
                return made.validation_in_form(dataset).map(Some);
            }
            Some(_) => self.find()?,
            None => PathBuf::from(&self.name),
        };
        if !folder.is_dir() || !folder::has_validation(&folder, self) {
            return Ok(None);
        }
        let part = Self { part: SamplePart::Validation, ..part };
        part.validation_in_form(dataset).map(Some)
    }

    /// The folder with prepared texts: where raw reviews were prepared to, or the one that is named.
    pub(crate) fn prepared_folder(&self) -> Result<PathBuf> {
        self.prepare.as_ref().map_or_else(|| Ok(PathBuf::from(&self.name)), RawReviews::folder)
    }

    /// The seed of the half to measure on. It is far from the other half's, so the halves share no sample, and one half
    /// stays as it is when the size of the other changes.
    pub fn test_seed(&self) -> u64 {
        mix(self.seed ^ 0x7E57)
    }

    fn check(&self) -> Result<()> {
        let given = [
            ("train", self.train),
            ("test", self.test),
            ("max_words", Some(self.max_words)),
            ("max_length", Some(self.max_length)),
        ];
        match given.iter().find(|(_, value)| value.is_some_and(|value| !(1..=MOST).contains(&value))) {
            Some((key, Some(value))) => {
                Err(Error::mismatch(format!("data: {key} is {value}, it must be from 1 to {MOST}")))
            }
            _ => Ok(()),
        }
    }

    fn make(&self) -> Result<Dataset> {
        let (train, test) = (self.train.unwrap_or_default(), self.test.unwrap_or_default());
        let (seed, test_seed) = (self.seed, self.test_seed());
        match self.name.as_str() {
            "digits" => {
                let classes = known::class_names(&self.name, 10);
                let [train, test] = [digits::make(train, seed), digits::make(test, test_seed)];
                image::dataset(self, train, test, classes)
            }
            "grammar" => {
                let halves = [grammar::make(train, seed), grammar::make(test, test_seed)];
                text::tagging(self, halves.map(|half| half.into_iter().map(Ok)))
            }
            "reviews" => {
                let halves = [reviews::make(train, seed), reviews::make(test, test_seed)];
                text::texts(self, halves.map(|half| half.into_iter().map(Ok)))
            }
            name => Err(Error::mismatch(format!("data: nothing here makes {name}"))),
        }
    }

    /// The folder in which a known data set lies.
    fn find(&self) -> Result<PathBuf> {
        let folders = data_folders(&self.name);
        found(&self.name).ok_or_else(|| {
            let places =
                folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
            let how = format!("get it with: bonfire data get {}", self.name);
            Error::mismatch(format!("data: {} is not on this machine (looked in {places}); {how}", self.name))
        })
    }

    fn unknown(&self, path: &Path) -> Error {
        if path.is_file() {
            let message = if path.extension().is_some_and(|end| end == "parquet") {
                "Parquet is not read; write it as CSV, which is: `df.to_csv(\"data.csv\", index=False)`"
            } else {
                "is a file, expected the folder that holds both halves of the data, or a file that ends in .csv, \
                 .tsv, .jsonl, .npz, .h5 or .hdf5"
            };
            return Error::format(path, message);
        }
        let names = KNOWN.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
        Error::mismatch(format!(
            "data: {:?} is neither a folder nor a known name; known are {names}; did you mean {}?",
            self.name,
            nearest(&self.name)
        ))
    }
}

/// Where a known data set that is not made lies on this machine, if it does.
pub fn found(name: &str) -> Option<PathBuf> {
    data_folders(name).into_iter().find(|folder| folder::holds_data(folder))
}

impl Default for Source {
    fn default() -> Self {
        Self::new("digits")
    }
}

#[cfg(test)]
mod tests;

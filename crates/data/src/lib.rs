//! Data sets: made here from a seed, or read from the formats of the field, and laid out into batches.
//!
//! A [`Dataset`] is two [`Samples`], one to train on and one to measure on, with the [`Shape`] that a model must fit.
//! Text is kept as word numbers under a [`Vocabulary`]; images stay bytes, in memory or in their file, until a batch is
//! made of them.
//!
//! Read in this order: [`source`] (which data, and how they are prepared), the formats ([`idx`], `cifar`, `svhn` on
//! `mat`, `csv`, [`conllu`], [`reviews`], `hdf5`) and what is made here ([`digits`], [`grammar`], [`reviews`]),
//! [`Images`] and [`Vocabulary`] (what samples are kept as), [`EpochOrder`] (which samples come when, and to whom),
//! `batch` (how they are laid out for a model), [`Telling`] (what owners of data agree on), [`Validation`] (the part
//! that a run is judged by), [`pack`] (a data set on its way to other machines).
//!
//! ```
//! use bonfire_data::{EpochOrder, Source};
//! use bonfire_learn::Batch;
//!
//! let dataset = Source { train: Some(100), test: Some(10), ..Source::new("digits") }.load()?;
//! let mut order = EpochOrder::default();
//! // Rounds of 32 samples, of which each of two workers gets 16.
//! order.shuffle(&dataset.train, 32, 1234, 0);
//! let (mut share, mut batch) = (Vec::new(), Batch::default());
//! order.share(0, 1, 2, &mut share);
//! dataset.train.fill(&mut batch, &share);
//! assert_eq!((batch.samples, batch.targets.len()), (16, 16));
//! # Ok::<(), bonfire_data::Error>(())
//! ```

mod augment;
mod batch;
mod bytes;
mod cifar;
mod columns;
pub mod conllu;
mod csv;
pub mod digits;
mod draw;
mod error;
mod form;
pub mod grammar;
mod hdf5;
pub mod idx;
mod image_folder;
mod images;
mod mat;
mod normalize;
mod numpy;
mod order;
pub mod pack;
mod parallel;
mod parquet;
mod pixels;
pub mod prepare;
mod prepared;
pub mod reviews;
pub mod source;
mod svhn;
mod telling;
mod udpos;
mod unlabelled;
mod validation;
mod vocabulary;
mod words;

#[cfg(test)]
mod spoilt;

use bonfire_learn::Shape;
use std::sync::Arc;

pub use augment::{Augment, EpochSeed, Padding};
pub use cifar::CifarLabels;
pub use error::{Error, Result};
pub use image_folder::Resize;
pub use images::Images;
pub use normalize::{Moments, Normalize};
pub use order::{Cut, EpochOrder};
pub use pixels::{PixelFormat, Pixels};
pub use source::Source;
pub use telling::{Agreed, MOST_BYTES as MOST_TOLD, Telling};
pub use validation::Validation;
pub use vocabulary::Vocabulary;
pub use words::{MappedWords, Words};

#[cfg(test)]
#[global_allocator]
static COUNTING: bonfire_spoil::Counting = bonfire_spoil::Counting;

/// A data set. Its halves are shared: the workers read them, and so does the thread that loads ahead for them.
#[derive(Debug)]
pub struct Dataset {
    pub name: String,
    pub shape: Shape,
    pub train: Arc<Samples>,
    /// To measure on: the test half, or the validation part while that takes its place.
    pub test: Arc<Samples>,
    /// A third part that the data have of their own, if it was asked for.
    pub dev: Option<Arc<Samples>>,
    /// For text: what the word numbers stand for. Built from the training half alone.
    pub vocabulary: Option<Vocabulary>,
    /// What a class number stands for.
    pub classes: Vec<String>,
}

/// Samples of one kind, in one piece of memory each.
#[derive(Clone, Debug, PartialEq)]
pub enum Samples {
    Images(Images),
    Sentences(Sentences),
    Texts(Texts),
}

/// What it takes to make a batch of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// They lie in memory as the kernels want them, nearly.
    Copy,
    /// Every value is looked up, moved or scaled.
    Work,
    /// They may have to come from a disk, or be decoded, first.
    Wait,
}

/// Sentences with one tag a word. Sentence `i` is `starts[i]..starts[i + 1]` of both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentences {
    pub starts: Vec<u32>,
    pub words: Vec<u32>,
    pub tags: Vec<u8>,
}

/// Texts with one label each. Text `i` is `starts[i]..starts[i + 1]` of `words`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    pub starts: Vec<u32>,
    pub words: Words,
    pub labels: Vec<u8>,
}

impl Dataset {
    /// The same with so many samples to train on, taken evenly from all of them, and none to measure on but one. For
    /// those who are to find out how fast they are.
    pub fn excerpt(&self, count: usize) -> Self {
        let all = self.train.len();
        let numbers: Vec<usize> = (0..count.min(all)).map(|i| i * all / count.min(all)).collect();
        Self {
            name: self.name.clone(),
            shape: self.shape.clone(),
            train: Arc::new(self.train.some(&numbers)),
            test: Arc::new(self.train.some(&numbers[..numbers.len().min(1)])),
            dev: None,
            vocabulary: self.vocabulary.clone(),
            classes: self.classes.clone(),
        }
    }
}

impl Samples {
    /// Those of the given numbers, in memory.
    fn some(&self, numbers: &[usize]) -> Self {
        match self {
            Self::Images(images) => Self::Images(images.some(numbers)),
            Self::Sentences(Sentences { starts, words, tags }) => {
                let tags = numbers.iter().flat_map(|&i| &tags[starts[i] as usize..starts[i + 1] as usize]);
                let tags = tags.copied().collect();
                let (mut some_starts, mut some_words) = (vec![0], Vec::new());
                for &number in numbers {
                    some_words.extend(&words[starts[number] as usize..starts[number + 1] as usize]);
                    some_starts.push(some_words.len() as u32);
                }
                Self::Sentences(Sentences { starts: some_starts, words: some_words, tags })
            }
            Self::Texts(Texts { starts, words, labels }) => {
                let labels = numbers.iter().map(|&i| labels[i]).collect();
                let (mut some_starts, mut some_words) = (vec![0], Vec::new());
                for &number in numbers {
                    let range = starts[number] as usize..starts[number + 1] as usize;
                    words.each(range, |word| some_words.push(word));
                    some_starts.push(some_words.len() as u32);
                }
                Self::Texts(Texts { starts: some_starts, words: some_words.into(), labels })
            }
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Images(images) => images.labels.len(),
            Self::Sentences(sentences) => sentences.starts.len().saturating_sub(1),
            Self::Texts(texts) => texts.labels.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many words sample `i` has; 1 for an image.
    pub fn length(&self, i: usize) -> usize {
        let words = |starts: &[u32]| (starts[i + 1] - starts[i]) as usize;
        match self {
            Self::Images(_) => 1,
            Self::Sentences(sentences) => words(&sentences.starts),
            Self::Texts(texts) => words(&texts.starts),
        }
    }

    /// What it takes to make a batch of these.
    pub fn effort(&self) -> Effort {
        match self {
            Self::Images(images) if images.pixels.is_in_files() => Effort::Wait,
            Self::Texts(texts) if texts.words.is_mapped() => Effort::Wait,
            Self::Images(images)
                if images.augment.is_some() || images.pixels.format() != PixelFormat::Rows =>
            {
                Effort::Work
            }
            Self::Images(_) | Self::Sentences(_) | Self::Texts(_) => Effort::Copy,
        }
    }

    /// A sample that was wanted and whose file could not be read, if there is one, and why: samples that lie in files
    /// of their own are read while a run goes on.
    pub fn failure(&self) -> Option<(usize, &Error)> {
        match self {
            Self::Images(images) => images.failure(),
            Self::Sentences(_) | Self::Texts(_) => None,
        }
    }

    /// Whether a sample can be read, if it has a file of its own: what is wrong is a [`failure`](Self::failure) then.
    pub fn look_at(&self, number: usize) {
        if let Self::Images(images) = self
            && number < self.len()
        {
            images.pixels.image(number, images.values());
        }
    }

    /// Whether samples differ in length, so that batches of similar ones save padding.
    pub fn varies_in_length(&self) -> bool {
        !matches!(self, Self::Images(_))
    }
}

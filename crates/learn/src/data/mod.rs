//! Data sets: made here from a seed, or read from the formats of the field.
//!
//! A [`Dataset`] is two [`Samples`], one to train on and one to measure on, with the [`Shape`] that a model must fit.
//! Text is kept as word numbers under a [`Vocabulary`]; images stay bytes until a batch is made of them.

pub mod batch;
pub mod conllu;
pub mod digits;
pub mod grammar;
pub mod idx;
pub mod order;
pub mod reviews;
pub mod source;
pub mod vocabulary;

pub use batch::{Batch, IGNORED, Inputs};
pub use source::Source;
pub use vocabulary::Vocabulary;

/// A data set, whole in memory.
#[derive(Debug)]
pub struct Dataset {
    pub name: String,
    pub shape: Shape,
    pub train: Samples,
    pub test: Samples,
    /// For text: what the word numbers stand for. Built from the training half alone.
    pub vocabulary: Option<Vocabulary>,
    /// What a class number stands for.
    pub classes: Vec<String>,
}

/// What a model has to fit: the form of the inputs and the number of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Images {
        height: usize,
        width: usize,
        channels: usize,
        classes: usize,
    },
    /// One class for every word.
    Tagging {
        words: usize,
        tags: usize,
    },
    /// One class for every text. `classes` is always 5, the stars; a model may merge them.
    Texts {
        words: usize,
        classes: usize,
    },
}

/// Samples of one kind, in one piece of memory each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Samples {
    Images(Images),
    Sentences(Sentences),
    Texts(Texts),
}

/// Images of one size, `(N, H, W, C)`, a byte a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub pixels: Vec<u8>,
    pub labels: Vec<u8>,
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
    pub words: Vec<u32>,
    pub labels: Vec<u8>,
}

impl Samples {
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

    /// Whether samples differ in length, so that batches of similar ones save padding.
    pub fn varies_in_length(&self) -> bool {
        !matches!(self, Self::Images(_))
    }
}

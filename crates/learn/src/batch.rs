//! What goes into a model: its shape, and some samples of it at a time.

use crate::random::Random;

/// The target of a place that does not count: padding.
pub const IGNORED: u32 = u32::MAX;

/// The word number that fills the end of the shorter texts of a batch.
pub const PADDING: u32 = 0;

/// What a model has to fit: the form of the inputs and the number of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One class for every image, or for every row of numbers: an image of one place with a channel for each column.
    /// Without classes the answer is a number.
    Images { height: usize, width: usize, channels: usize, classes: usize },
    /// One class for every word.
    Tagging { words: usize, tags: usize },
    /// One class for every text. `classes` is always 5, the stars; a model may merge them.
    Texts { words: usize, classes: usize },
}

/// Some samples, laid out as the kernels want them. Filled in place, so that its memory is used again.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub samples: usize,
    pub inputs: Inputs,
    /// The right classes: one a sample, or one a word as `(T, B)` with [`IGNORED`] where there is padding. Without
    /// classes the right numbers, as the bits of an `f32`.
    pub targets: Vec<u32>,
}

/// What a model sees of a batch.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// `(N, H, W, C)`, from 0 to 1 unless the data are normalised.
    Images { size: [usize; 3], pixels: Vec<f32> },
    /// Word numbers `(T, B)`, with [`PADDING`] at the end; `lengths` are the numbers of real words.
    Words { steps: usize, numbers: Vec<u32>, lengths: Vec<u32> },
}

impl Default for Inputs {
    fn default() -> Self {
        Self::Images { size: [0; 3], pixels: Vec::new() }
    }
}

impl Batch {
    /// A batch of random contents, for measuring speed. Texts have `steps` words each.
    pub fn random(shape: &Shape, samples: usize, steps: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (inputs, targets, classes) = match *shape {
            Shape::Images { height, width, channels, classes } => {
                let pixels = (0..samples * height * width * channels).map(|_| random.unit()).collect();
                (Inputs::Images { size: [height, width, channels], pixels }, samples, classes)
            }
            Shape::Tagging { words, tags } => {
                (random_words(words, samples, steps, &mut random), samples * steps, tags)
            }
            Shape::Texts { words, classes } => {
                (random_words(words, samples, steps, &mut random), samples, classes)
            }
        };
        let mut target = || match classes {
            0 => random.unit().to_bits(),
            _ => random.below(classes) as u32,
        };
        let targets = (0..targets).map(|_| target()).collect();
        Self { samples, inputs, targets }
    }
}

fn random_words(words: usize, samples: usize, steps: usize, random: &mut Random) -> Inputs {
    let first = PADDING as usize + 1;
    let numbers = (0..samples * steps).map(|_| (first + random.below(words - first)) as u32).collect();
    Inputs::Words { steps, numbers, lengths: vec![steps as u32; samples] }
}

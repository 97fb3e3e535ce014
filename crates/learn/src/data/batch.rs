//! Samples on their way into a model.

use super::{Chance, Images, Samples, Sentences, Shape, Texts, Vocabulary};
use crate::random::Random;

/// The target of a place that does not count: padding.
pub const IGNORED: u32 = u32::MAX;

/// Some samples, laid out as the kernels want them. Filled in place, so that its memory is used again.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub samples: usize,
    pub inputs: Inputs,
    /// The right classes: one a sample, or one a word as `(T, B)` with [`IGNORED`] where there is padding.
    pub targets: Vec<u32>,
}

/// What a model sees of a batch.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// `(N, H, W, C)`, from 0 to 1 unless the data are normalised.
    Images { size: [usize; 3], pixels: Vec<f32> },
    /// Word numbers `(T, B)`, padded at the end; `lengths` are the numbers of real words.
    Words { steps: usize, numbers: Vec<u32>, lengths: Vec<u32> },
}

impl Default for Inputs {
    fn default() -> Self {
        Self::Images { size: [0; 3], pixels: Vec::new() }
    }
}

impl Batch {
    /// Becomes the samples of the given numbers, in that order, as they are.
    pub fn fill(&mut self, samples: &Samples, numbers: &[u32]) {
        self.become_samples(samples, numbers, None);
    }

    /// The same for training: changed by chance, where the data are to be augmented.
    pub fn fill_augmented(&mut self, samples: &Samples, numbers: &[u32], chance: Chance) {
        self.become_samples(samples, numbers, Some(chance));
    }

    fn become_samples(&mut self, samples: &Samples, numbers: &[u32], chance: Option<Chance>) {
        self.samples = numbers.len();
        self.targets.clear();
        match samples {
            Samples::Images(images) => self.fill_images(images, numbers, chance),
            Samples::Sentences(sentences) => self.fill_sentences(sentences, numbers),
            Samples::Texts(texts) => self.fill_texts(texts, numbers),
        }
    }

    fn fill_images(&mut self, images: &Images, numbers: &[u32], chance: Option<Chance>) {
        if !matches!(self.inputs, Inputs::Images { .. }) {
            self.inputs = Inputs::default();
        }
        let Inputs::Images { size, pixels } = &mut self.inputs else { return };
        *size = images.size();
        let values = images.values();
        pixels.resize(numbers.len() * values, 0.0);
        // All at once: a disk does better with many places to read than with one after the other.
        for &number in numbers {
            images.pixels.fetch(number as usize..number as usize + 1, values);
        }
        for (&number, image) in numbers.iter().zip(pixels.chunks_exact_mut(values)) {
            images.draw(number, chance, image);
            self.targets.push(u32::from(images.labels[number as usize]));
        }
    }

    fn fill_sentences(&mut self, sentences: &Sentences, numbers: &[u32]) {
        let steps = self.fill_words(&sentences.starts, &sentences.words, numbers);
        self.targets.resize(steps * numbers.len(), IGNORED);
        for (b, &number) in numbers.iter().enumerate() {
            let range =
                sentences.starts[number as usize] as usize..sentences.starts[number as usize + 1] as usize;
            for (t, &tag) in sentences.tags[range].iter().enumerate() {
                self.targets[t * numbers.len() + b] = u32::from(tag);
            }
        }
    }

    fn fill_texts(&mut self, texts: &Texts, numbers: &[u32]) {
        self.fill_words(&texts.starts, &texts.words, numbers);
        self.targets.extend(numbers.iter().map(|&number| u32::from(texts.labels[number as usize])));
    }

    /// Lays the words of some texts side by side and returns how many steps the longest takes.
    fn fill_words(&mut self, starts: &[u32], words: &[u32], samples: &[u32]) -> usize {
        if !matches!(self.inputs, Inputs::Words { .. }) {
            self.inputs = Inputs::Words { steps: 0, numbers: Vec::new(), lengths: Vec::new() };
        }
        let Inputs::Words { steps, numbers, lengths } = &mut self.inputs else { return 0 };
        lengths.clear();
        lengths.extend(samples.iter().map(|&sample| starts[sample as usize + 1] - starts[sample as usize]));
        *steps = lengths.iter().copied().max().unwrap_or(0) as usize;
        numbers.clear();
        numbers.resize(*steps * samples.len(), Vocabulary::PADDING);
        for (b, (&sample, &length)) in samples.iter().zip(lengths.iter()).enumerate() {
            let start = starts[sample as usize] as usize;
            for (t, &word) in words[start..start + length as usize].iter().enumerate() {
                numbers[t * samples.len() + b] = word;
            }
        }
        *steps
    }

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
        let targets = (0..targets).map(|_| random.below(classes) as u32).collect();
        Self { samples, inputs, targets }
    }
}

fn random_words(words: usize, samples: usize, steps: usize, random: &mut Random) -> Inputs {
    let first = Vocabulary::UNKNOWN as usize;
    let numbers = (0..samples * steps).map(|_| (first + random.below(words - first)) as u32).collect();
    Inputs::Words { steps, numbers, lengths: vec![steps as u32; samples] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_lie_side_by_side_with_padding_that_does_not_count() {
        let sentences = Sentences { starts: vec![0, 1, 4], words: vec![9, 5, 6, 7], tags: vec![0, 1, 2, 1] };
        let mut batch = Batch::default();
        batch.fill(&Samples::Sentences(sentences), &[1, 0]);
        let Inputs::Words { steps, numbers, lengths } = &batch.inputs else { unreachable!("words") };
        assert_eq!((*steps, lengths.as_slice()), (3, &[3, 1][..]));
        assert_eq!(numbers, &[5, 9, 6, 0, 7, 0]);
        assert_eq!(batch.targets, [1, 0, 2, IGNORED, 1, IGNORED]);
    }
}

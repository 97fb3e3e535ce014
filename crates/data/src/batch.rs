//! Samples on their way into a model.

use crate::{EpochSeed, Images, Samples, Sentences, Texts};
use bonfire_learn::{Batch, IGNORED, Inputs, PADDING};
use std::ops::Range;

impl Samples {
    /// Makes a batch of the samples of the given numbers, in that order, as they are.
    pub fn fill(&self, batch: &mut Batch, numbers: &[u32]) {
        self.fill_by(None, batch, numbers);
    }

    /// The same for training: changed by chance, where the data are to be augmented.
    pub fn fill_augmented(&self, batch: &mut Batch, numbers: &[u32], seed: EpochSeed) {
        self.fill_by(Some(seed), batch, numbers);
    }

    fn fill_by(&self, seed: Option<EpochSeed>, batch: &mut Batch, numbers: &[u32]) {
        batch.samples = numbers.len();
        batch.targets.clear();
        match self {
            Self::Images(images) => images.fill(seed, batch, numbers),
            Self::Sentences(sentences) => sentences.fill(batch, numbers),
            Self::Texts(texts) => texts.fill(batch, numbers),
        }
    }
}

impl Images {
    fn fill(&self, seed: Option<EpochSeed>, batch: &mut Batch, numbers: &[u32]) {
        if !matches!(batch.inputs, Inputs::Images { .. }) {
            batch.inputs = Inputs::default();
        }
        let Inputs::Images { size, pixels } = &mut batch.inputs else { return };
        *size = self.size();
        let values = self.values();
        pixels.resize(numbers.len() * values, 0.0);
        // All at once: a disk does better with many places to read than with one after the other.
        for &number in numbers {
            self.pixels.fetch(number as usize..number as usize + 1, values);
        }
        self.draw_all(numbers, seed, pixels);
        batch.targets.extend(numbers.iter().map(|&number| self.target(number as usize)));
    }
}

impl Sentences {
    fn fill(&self, batch: &mut Batch, numbers: &[u32]) {
        let each = |range: Range<usize>, take: &mut dyn FnMut(u32)| {
            self.words[range].iter().for_each(|&word| take(word));
        };
        let steps = fill_words(&mut batch.inputs, &self.starts, each, numbers);
        batch.targets.resize(steps * numbers.len(), IGNORED);
        for (b, &number) in numbers.iter().enumerate() {
            let range = self.starts[number as usize] as usize..self.starts[number as usize + 1] as usize;
            for (t, &tag) in self.tags[range].iter().enumerate() {
                batch.targets[t * numbers.len() + b] = u32::from(tag);
            }
        }
    }
}

impl Texts {
    fn fill(&self, batch: &mut Batch, numbers: &[u32]) {
        // All at once, as with images.
        for &number in numbers {
            self.words
                .fetch(self.starts[number as usize] as usize..self.starts[number as usize + 1] as usize);
        }
        let each = |range: Range<usize>, take: &mut dyn FnMut(u32)| self.words.each(range, take);
        fill_words(&mut batch.inputs, &self.starts, each, numbers);
        batch.targets.extend(numbers.iter().map(|&number| u32::from(self.labels[number as usize])));
    }
}

/// Lays the words of some texts side by side and returns how many steps the longest takes.
/// `each` gives the words of a range.
fn fill_words(
    inputs: &mut Inputs,
    starts: &[u32],
    each: impl Fn(Range<usize>, &mut dyn FnMut(u32)),
    samples: &[u32],
) -> usize {
    if !matches!(inputs, Inputs::Words { .. }) {
        *inputs = Inputs::Words { steps: 0, numbers: Vec::new(), lengths: Vec::new() };
    }
    let Inputs::Words { steps, numbers, lengths } = inputs else { return 0 };
    lengths.clear();
    lengths.extend(samples.iter().map(|&sample| starts[sample as usize + 1] - starts[sample as usize]));
    *steps = lengths.iter().copied().max().unwrap_or(0) as usize;
    numbers.clear();
    numbers.resize(*steps * samples.len(), PADDING);
    for (b, (&sample, &length)) in samples.iter().zip(lengths.iter()).enumerate() {
        let start = starts[sample as usize] as usize;
        let mut place = b;
        each(start..start + length as usize, &mut |word| {
            numbers[place] = word;
            place += samples.len();
        });
    }
    *steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_lie_side_by_side_with_padding_that_does_not_count() {
        let sentences = Sentences { starts: vec![0, 1, 4], words: vec![9, 5, 6, 7], tags: vec![0, 1, 2, 1] };
        let mut batch = Batch::default();
        Samples::Sentences(sentences).fill(&mut batch, &[1, 0]);
        let Inputs::Words { steps, numbers, lengths } = &batch.inputs else { unreachable!("words") };
        assert_eq!((*steps, lengths.as_slice()), (3, &[3, 1][..]));
        assert_eq!(numbers, &[5, 9, 6, 0, 7, 0]);
        assert_eq!(batch.targets, [1, 0, 2, IGNORED, 1, IGNORED]);
    }
}

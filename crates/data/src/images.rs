//! Images, and how one becomes the input of a model.

use crate::augment::{Augment, Crop, EpochSeed};
use crate::error::Error;
use crate::image_folder::Encoded;
use crate::normalize::Moments;
use crate::parallel::in_parallel;
use crate::pixels::{PixelFormat, Pixels};
use std::borrow::Cow;

/// Images of one size. Rows of numbers are images of one place with as many channels as there are columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Images {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub pixels: Pixels,
    pub labels: Vec<u8>,
    /// The right number of each, where they have no classes.
    pub numbers: Vec<f32>,
    /// For each channel the factor and the summand that make an input of a value; empty if a byte is from 0 to 1 and a
    /// number is as it is.
    pub scales: Vec<[f32; 2]>,
    /// What is done to an image each time that it is trained on.
    pub augment: Option<Augment>,
}

/// How many images are fetched at a time where all are looked at.
const AHEAD: u32 = 512;

/// How many of them are drawn at a time, so that cores can share what is to be decoded.
const BLOCK: usize = 16;

impl Images {
    /// Height, width and channels.
    pub fn size(&self) -> [usize; 3] {
        [self.height, self.width, self.channels]
    }

    /// How many values an image has.
    pub fn values(&self) -> usize {
        self.size().iter().product()
    }

    /// Keeps the first so many.
    pub(crate) fn truncate(&mut self, count: usize) {
        if count < self.labels.len() {
            self.labels.truncate(count);
            self.numbers.truncate(count);
            self.pixels.truncate(count, self.values());
        }
    }

    /// Those of the given numbers, in memory.
    pub(crate) fn some(&self, numbers: &[usize]) -> Self {
        let images: Vec<_> = numbers.iter().map(|&number| self.pixels.image(number, self.values())).collect();
        Self {
            pixels: Pixels::new(images.concat(), 0, 0, self.pixels.format()),
            labels: numbers.iter().map(|&number| self.labels[number]).collect(),
            numbers: numbers.iter().filter_map(|&number| self.numbers.get(number)).copied().collect(),
            scales: self.scales.clone(),
            ..*self
        }
    }

    /// Those of the given numbers, which grow. What lies in a file stays there.
    pub(crate) fn choose(&self, numbers: &[u32]) -> Self {
        Self {
            pixels: self.pixels.choose(numbers, self.values()),
            labels: numbers.iter().map(|&number| self.labels[number as usize]).collect(),
            numbers: numbers
                .iter()
                .filter_map(|&number| self.numbers.get(number as usize))
                .copied()
                .collect(),
            scales: self.scales.clone(),
            ..*self
        }
    }

    /// What a model has to answer: the class, or the bits of the number.
    pub(crate) fn target(&self, number: usize) -> u32 {
        self.numbers.get(number).map_or_else(|| u32::from(self.labels[number]), |right| right.to_bits())
    }

    /// The bytes of all images as they lie, in pieces: with what stands between them where all of a file are meant, and
    /// encoded where each has its own. A file that cannot be read is an empty piece.
    pub fn pieces(&self) -> Box<dyn Iterator<Item = Cow<'_, [u8]>> + '_> {
        if self.pixels.is_encoded() {
            return Box::new(self.files().map(|file| file.bytes().unwrap_or_default()));
        }
        match self.pixels.is_chosen() {
            true => Box::new((0..self.labels.len()).map(|number| self.pixels.image(number, self.values()))),
            false => Box::new(self.pixels.pieces().map(Cow::Borrowed)),
        }
    }

    /// All images as bytes without anything between them. Those that are to be decoded are by all cores.
    pub(crate) fn each_image<'s, E>(&'s self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let all: Vec<u32> = (0..self.labels.len() as u32).collect();
        all.chunks(BLOCK).try_for_each(|numbers| {
            let mut images = vec![Cow::Borrowed(&[][..]); numbers.len()];
            let each = images.iter_mut().zip(numbers);
            let get = |(image, &number): (&mut Cow<'s, [u8]>, &u32)| {
                *image = self.pixels.image(number as usize, self.values());
            };
            match self.pixels.are_at_hand(numbers) {
                true => each.for_each(get),
                false => in_parallel(each, get),
            }
            images.iter().try_for_each(|image| take(image))
        })
    }

    /// The files of all images, where each has its own.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Encoded> {
        (0..self.labels.len()).filter_map(|number| self.pixels.file(number))
    }

    /// An image that was wanted and whose file could not be read, if there is one, and why. It was black.
    pub fn failure(&self) -> Option<(usize, &Error)> {
        self.pixels.failure()
    }

    /// Writes images one after the other, as [`draw`](Self::draw) does. Those that are to be decoded are by all cores.
    pub(crate) fn draw_all(&self, numbers: &[u32], seed: Option<EpochSeed>, out: &mut [f32]) {
        let each = numbers.iter().zip(out.chunks_exact_mut(self.values()));
        match self.pixels.are_at_hand(numbers) {
            true => each.for_each(|(&number, image)| self.draw(number, seed, image)),
            false => in_parallel(each, |(&number, image)| self.draw(number, seed, image)),
        }
    }

    /// Subtracts the mean and divides by the deviation of each channel from now on.
    pub(crate) fn normalize(&mut self, moments: &Moments) {
        let [unit, _] = self.plain_scale();
        let of_channel = |(mean, deviation): (&f32, &f32)| [unit / deviation, -mean / deviation];
        self.scales = moments.mean.iter().zip(&moments.deviation).map(of_channel).collect();
    }

    /// What makes an input of a value where nothing else was asked for.
    fn plain_scale(&self) -> [f32; 2] {
        [if self.pixels.format() == PixelFormat::Floats { 1.0 } else { 1.0 / 255.0 }, 0.0]
    }

    /// Writes image `number` as `(H, W, C)`; changed by chance if there is a seed and the images are to be augmented.
    pub(crate) fn draw(&self, number: u32, seed: Option<EpochSeed>, out: &mut [f32]) {
        let bytes = &*self.pixels.image(number as usize, self.values());
        let crop = seed.and_then(|seed| Some(self.augment?.crop(seed, number)));
        match (crop, self.pixels.format()) {
            (None, PixelFormat::Rows) if self.scales.is_empty() => {
                let [factor, _] = self.plain_scale();
                for (value, &byte) in out.iter_mut().zip(bytes) {
                    *value = f32::from(byte) * factor;
                }
            }
            (_, PixelFormat::Floats) => {
                let (fours, _) = bytes.as_chunks();
                let numbers = fours.iter().map(|&four| f32::from_le_bytes(four));
                for (i, (value, number)) in out.iter_mut().zip(numbers).enumerate() {
                    let [factor, summand] = self.scale(i % self.channels);
                    *value = number * factor + summand;
                }
            }
            (crop, _) => self.draw_crop(bytes, &crop.unwrap_or_default(), out),
        }
    }

    /// The general case: every channel of every place is looked up.
    fn draw_crop(&self, bytes: &[u8], crop: &Crop, out: &mut [f32]) {
        let [down, right, deep] = self.pixels.format().strides(self.size());
        for channel in 0..self.channels {
            let ([factor, summand], plane) = (self.scale(channel), &bytes[channel * deep..]);
            for (y, row) in out.chunks_exact_mut(self.width * self.channels).enumerate() {
                let source = crop.row(y, self.height).map(|y| &plane[y * down..]);
                for (x, value) in row.iter_mut().skip(channel).step_by(self.channels).enumerate() {
                    // Padding is black before it is normalised, so that it looks like something dark.
                    let place = source.zip(crop.column(x, self.width));
                    let byte = place.map_or(0, |(row, x)| row[x * right]);
                    *value = f32::from(byte) * factor + summand;
                }
            }
        }
    }

    fn scale(&self, channel: usize) -> [f32; 2] {
        self.scales.get(channel).copied().unwrap_or_else(|| self.plain_scale())
    }

    /// What makes channels comparable: the mean and deviation of each over all images.
    pub(crate) fn moments(&self) -> Moments {
        let spread = self.spread();
        Moments {
            mean: spread.iter().map(|&[mean, _]| mean as f32).collect(),
            deviation: spread.iter().map(|&[_, deviation]| Moments::divisor(deviation)).collect(),
        }
    }

    /// The mean and deviation of each channel over all images.
    pub(crate) fn spread(&self) -> Vec<[f64; 2]> {
        let plain = Self { scales: Vec::new(), labels: Vec::new(), ..self.clone() };
        let mut block = vec![0.0; BLOCK * self.values()];
        // Sums of differences from a value of the channel keep their precision, however far from 0 the values are.
        let mut sums: Vec<[f64; 3]> = Vec::new();
        let all: Vec<u32> = (0..self.labels.len() as u32).collect();
        for numbers in all.chunks(BLOCK) {
            if numbers[0] % AHEAD == 0 {
                self.pixels.fetch(numbers[0] as usize..(numbers[0] + 2 * AHEAD) as usize, self.values());
            }
            let images = &mut block[..numbers.len() * self.values()];
            plain.draw_all(numbers, None, images);
            if sums.is_empty() {
                sums = images[..self.channels].iter().map(|&value| [f64::from(value), 0.0, 0.0]).collect();
            }
            for place in images.chunks_exact(self.channels) {
                for (&value, [pivot, sum, squares]) in place.iter().zip(&mut sums) {
                    let difference = f64::from(value) - *pivot;
                    *sum += difference;
                    *squares += difference * difference;
                }
            }
        }
        let count = (self.labels.len() * self.height * self.width).max(1) as f64;
        let of_sums = |[pivot, sum, squares]: &[f64; 3]| {
            [pivot + sum / count, (squares / count - (sum / count).powi(2)).max(0.0).sqrt()]
        };
        sums.iter().map(of_sums).collect()
    }
}

#[cfg(test)]
mod tests;

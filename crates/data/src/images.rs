//! Images, and how one becomes the input of a model.

use crate::augment::{Augment, Crop, EpochSeed};
use crate::normalize::Moments;
use crate::pixels::{PixelFormat, Pixels};

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
        let image = |&number: &usize| self.pixels.image(number, self.values());
        let bytes: Vec<u8> = numbers.iter().flat_map(image).copied().collect();
        Self {
            pixels: Pixels::new(bytes, 0, 0, self.pixels.format()),
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

    /// The bytes of all images, in pieces, with what stands between them where all of a file are meant.
    pub fn pieces(&self) -> Box<dyn Iterator<Item = &[u8]> + '_> {
        match self.pixels.is_chosen() {
            true => Box::new((0..self.labels.len()).map(|number| self.pixels.image(number, self.values()))),
            false => Box::new(self.pixels.pieces()),
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
        let bytes = self.pixels.image(number as usize, self.values());
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

    /// The mean and deviation of each channel over all images. A channel that never changes has deviation 1.
    pub(crate) fn moments(&self) -> Moments {
        let plain = Self { scales: Vec::new(), labels: Vec::new(), ..self.clone() };
        let mut image = vec![0.0; self.values()];
        // Sums of differences from a value of the channel keep their precision, however far from 0 the values are.
        let mut sums: Vec<[f64; 3]> = Vec::new();
        for number in 0..self.labels.len() as u32 {
            if number % AHEAD == 0 {
                self.pixels.fetch(number as usize..(number + 2 * AHEAD) as usize, self.values());
            }
            plain.draw(number, None, &mut image);
            if sums.is_empty() {
                sums = image[..self.channels].iter().map(|&value| [f64::from(value), 0.0, 0.0]).collect();
            }
            for place in image.chunks_exact(self.channels) {
                for (&value, [pivot, sum, squares]) in place.iter().zip(&mut sums) {
                    let difference = f64::from(value) - *pivot;
                    *sum += difference;
                    *squares += difference * difference;
                }
            }
        }
        let count = (self.labels.len() * self.height * self.width).max(1) as f64;
        let mean = |[pivot, sum, _]: &[f64; 3]| (pivot + sum / count) as f32;
        let deviation = |[_, sum, squares]: &[f64; 3]| {
            let deviation = (squares / count - (sum / count).powi(2)).max(0.0).sqrt();
            if deviation > 1e-12 { deviation as f32 } else { 1.0 }
        };
        Moments { mean: sums.iter().map(mean).collect(), deviation: sums.iter().map(deviation).collect() }
    }
}

#[cfg(test)]
mod tests;

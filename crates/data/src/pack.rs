//! A whole data set as one stream of bytes, for those who are to train on it and do not have it.
//!
//! What is unpacked trains to the same bits as what was packed: samples, their order, normalisation and augmentation
//! are all there. Numbers are written in groups of seven bits, the lowest first, so small ones take a byte; since
//! frequent words have small numbers, texts become short. The order is: the magic, the version, the name, the names of
//! the classes, the vocabulary, the kind of samples, the half to train on, the half to test on, a checksum.
//!
//! Without classes, rows have a number to learn in the place of the class.
//!
//! The shape is not written, because it follows from the rest: nothing can claim a shape that its bytes do not fill.

pub(crate) mod stream;

use crate::augment::{Augment, Padding};
use crate::error::Result;
use crate::image_folder::{Album, Encoded, Resize, Shelf};
use crate::pixels::{PixelFormat, Pixels};
use crate::{Dataset, Images, Samples, Sentences, Texts, Vocabulary, Words};
use bonfire_learn::Shape;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use stream::{PackReader, PackWriter};

const MAGIC: [u8; 8] = *b"bonfdata";
const VERSION: u64 = 1;

/// A class is kept in a byte.
const CLASS_LIMIT: u64 = 256;
/// Samples and words are counted in 32 bits.
const COUNT_LIMIT: u64 = u32::MAX as u64;
/// No side of an image is longer, and no table has more columns.
const SIDE_LIMIT: u64 = 1 << 24;
/// No image has more values.
const VALUES_LIMIT: u64 = 1 << 28;

/// So many words are read at once from a file.
const WORD_BLOCK: usize = 1 << 16;

const IMAGES: u64 = 0;
const SENTENCES: u64 = 1;
const TEXTS: u64 = 2;

const FORMATS: [PixelFormat; 4] =
    [PixelFormat::Rows, PixelFormat::Planes, PixelFormat::Columns, PixelFormat::Floats];
/// Images that are files: these travel as they are, and are decoded when they are wanted.
const FILES: u64 = FORMATS.len() as u64;
const FILLS: [Padding; 2] = [Padding::Zero, Padding::Reflect];

/// Writes a data set that some [`Source`](super::Source) has loaded. Images that lie in a file are read from there
/// piece by piece. What stands between the images of that file is left out.
pub fn write(dataset: &Dataset, out: &mut impl Write) -> io::Result<()> {
    let shape = shape(&dataset.train, dataset.vocabulary.as_ref(), dataset.classes.len());
    if shape.as_ref() != Some(&dataset.shape) || kind(&dataset.train) != kind(&dataset.test) {
        let message = format!("data {}: the shape does not fit the samples", dataset.name);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut out = PackWriter::new(out);
    out.bytes(&MAGIC)?;
    out.number(VERSION)?;
    out.string(&dataset.name)?;
    out.number(dataset.classes.len() as u64)?;
    dataset.classes.iter().try_for_each(|class| out.string(class))?;
    write_vocabulary(dataset.vocabulary.as_ref(), &mut out)?;
    out.number(kind(&dataset.train))?;
    for half in [&dataset.train, &dataset.test] {
        match &**half {
            Samples::Images(images) => write_images(images, &mut out)?,
            Samples::Sentences(Sentences { starts, words, tags }) => {
                write_lengths(starts, &mut out)?;
                words.iter().try_for_each(|&word| out.number(u64::from(word)))?;
                out.bytes(tags)?;
            }
            Samples::Texts(Texts { starts, words, labels }) => {
                write_lengths(starts, &mut out)?;
                write_words(words, &mut out)?;
                out.bytes(labels)?;
            }
        }
    }
    out.finish()
}

/// Reads what [`write()`] wrote and nothing beyond it. Memory grows with the bytes that really arrive, whatever they
/// claim; whoever does not trust their origin gives a source that ends, such as [`take`](io::Read::take) makes.
pub fn read(source: &mut impl BufRead) -> Result<Dataset> {
    let mut source = PackReader::new(source);
    read_magic(&mut source)?;
    let name = source.string("the name")?;
    let count = source.number("the number of classes", 0..=CLASS_LIMIT)?;
    let classes = (0..count).map(|_| source.string("the name of a class")).collect::<Result<Vec<_>>>()?;
    let vocabulary = read_vocabulary(&mut source)?;
    let kind = source.number("the kind of samples", IMAGES..=TEXTS)?;
    let words = vocabulary.as_ref().map_or(0, Vocabulary::len);
    let shelf = Shelf::new();
    let mut half = || match kind {
        IMAGES => read_images(&mut source, classes.len(), &shelf).map(Samples::Images),
        SENTENCES => read_sentences(&mut source, words, classes.len()).map(Samples::Sentences),
        _ => read_texts(&mut source, words, classes.len()).map(Samples::Texts),
    };
    let (train, test) = (half()?, half()?);
    source.finish()?;
    let shape_of = |half| shape(half, vocabulary.as_ref(), classes.len());
    let shape = match (shape_of(&train), shape_of(&test)) {
        (Some(train), Some(test)) if train == test => train,
        (train, test) => {
            return Err(source.wrong(format!("the halves do not fit each other: {train:?} and {test:?}")));
        }
    };
    Ok(Dataset { name, shape, train: Arc::new(train), test: Arc::new(test), dev: None, vocabulary, classes })
}

fn read_magic(source: &mut PackReader<'_, impl BufRead>) -> Result<()> {
    if source.bytes(MAGIC.len() as u64)? != MAGIC {
        return Err(source.wrong("does not begin as a packed data set does"));
    }
    match source.number("the version", 0..=u64::MAX)? {
        VERSION => Ok(()),
        other => Err(source.wrong(format!(
            "is of version {other}, this program reads version {VERSION}; use the same program everywhere"
        ))),
    }
}

/// The shape of a data set that has such samples. A text has no shape without a vocabulary.
fn shape(samples: &Samples, vocabulary: Option<&Vocabulary>, classes: usize) -> Option<Shape> {
    match samples {
        &Samples::Images(Images { height, width, channels, .. }) => {
            Some(Shape::Images { height, width, channels, classes })
        }
        Samples::Sentences(_) => Some(Shape::Tagging { words: vocabulary?.len(), tags: classes }),
        Samples::Texts(_) => Some(Shape::Texts { words: vocabulary?.len(), classes }),
    }
}

impl Dataset {
    /// Makes the shape that of samples, vocabulary and classes.
    pub(crate) fn fit_shape(&mut self) {
        if let Some(shape) = shape(&self.train, self.vocabulary.as_ref(), self.classes.len()) {
            self.shape = shape;
        }
    }
}

fn kind(samples: &Samples) -> u64 {
    match samples {
        Samples::Images(_) => IMAGES,
        Samples::Sentences(_) => SENTENCES,
        Samples::Texts(_) => TEXTS,
    }
}

fn write_vocabulary(vocabulary: Option<&Vocabulary>, out: &mut PackWriter<'_, impl Write>) -> io::Result<()> {
    let Some(vocabulary) = vocabulary else { return out.number(0) };
    out.number(vocabulary.len() as u64)?;
    let numbers = Vocabulary::UNKNOWN + 1..vocabulary.len() as u32;
    numbers.into_iter().try_for_each(|number| out.string(vocabulary.word(number)))
}

/// The vocabulary is counted anew: words that each come once are numbered in the order in which they come.
fn read_vocabulary(source: &mut PackReader<'_, impl BufRead>) -> Result<Option<Vocabulary>> {
    let len = source.number("the size of the vocabulary", 0..=COUNT_LIMIT)?;
    if len == 0 {
        return Ok(None);
    }
    let mut words = Vec::new();
    for _ in u64::from(Vocabulary::UNKNOWN) + 1..len {
        words.push(source.string("a word")?);
    }
    let vocabulary = Vocabulary::count(words.iter().map(String::as_str), 1, usize::MAX);
    if vocabulary.len() as u64 != len {
        return Err(source.wrong(format!("the vocabulary of {len} has some words twice or too few")));
    }
    Ok(Some(vocabulary))
}

fn write_images(images: &Images, out: &mut PackWriter<'_, impl Write>) -> io::Result<()> {
    for side in images.size() {
        out.number(side as u64)?;
    }
    let is_encoded = images.pixels.is_encoded();
    out.number(if is_encoded { FILES } else { place(&FORMATS, &images.pixels.format()) })?;
    out.number(images.scales.len() as u64)?;
    for value in images.scales.as_flattened() {
        out.bytes(&value.to_le_bytes())?;
    }
    out.number(u64::from(images.augment.is_some()))?;
    if let Some(Augment { pad, fill, flip }) = images.augment {
        out.number(pad as u64)?;
        out.number(place(&FILLS, &fill))?;
        out.number(u64::from(flip))?;
    }
    out.number(images.labels.len() as u64)?;
    match images.numbers.is_empty() {
        true => out.bytes(&images.labels)?,
        false => images.numbers.iter().try_for_each(|number| out.bytes(&number.to_le_bytes()))?,
    }
    match is_encoded {
        true => write_files(images, out),
        false => images.each_image(|image| out.bytes(image)),
    }
}

fn write_files(images: &Images, out: &mut PackWriter<'_, impl Write>) -> io::Result<()> {
    out.number(u64::from(images.pixels.is_resized()))?;
    images.files().try_for_each(|file| {
        let bytes =
            file.bytes().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        out.string(&file.name())?;
        out.number(bytes.len() as u64)?;
        out.bytes(&bytes)
    })
}

fn place<T: PartialEq>(all: &[T], one: &T) -> u64 {
    all.iter().take_while(|other| *other != one).count() as u64
}

fn read_images(source: &mut PackReader<'_, impl BufRead>, classes: usize, shelf: &Shelf) -> Result<Images> {
    let height = source.number("the height", 1..=SIDE_LIMIT)?;
    let width = source.number("the width", 1..=SIDE_LIMIT)?;
    let channels = source.number("the number of channels", 1..=SIDE_LIMIT)?;
    // Three such sides make 72 bits.
    let values = match u128::from(height) * u128::from(width) * u128::from(channels) {
        values if values <= u128::from(VALUES_LIMIT) => values as u64,
        values => {
            return Err(
                source.wrong(format!("an image has {values} values, at most {VALUES_LIMIT} can be read"))
            );
        }
    };
    let form = source.number("the form of the images", 0..=FILES)?;
    let format = FORMATS.get(form as usize).copied().unwrap_or_default();
    let scales = read_scales(source, channels)?;
    let augment = read_augment(source, format, height.min(width))?;
    let count = source.number("the number of images", 1..=COUNT_LIMIT)?;
    let (labels, numbers) = match classes {
        0 => read_numbers(source, count)?,
        _ => (read_classes(source, count, classes)?, Vec::new()),
    };
    let [height, width, channels] = [height, width, channels].map(|side| side as usize);
    let pixels = match form {
        FILES => Pixels::of_files(read_files(source, count, [height, width, channels], shelf)?),
        _ => Pixels::new(source.bytes(count * values * format.width() as u64)?, 0, 0, format),
    };
    Ok(Images { height, width, channels, pixels, labels, numbers, scales, augment })
}

fn read_files(
    source: &mut PackReader<'_, impl BufRead>,
    count: u64,
    size: [usize; 3],
    shelf: &Shelf,
) -> Result<Album> {
    if !matches!(size[2], 1 | 3) {
        return Err(source.wrong(format!("images in files have one channel or three, not {}", size[2])));
    }
    let resize = source.number("whether images are resized", 0..=1)? == 1;
    let resize = resize.then_some(Resize([size[0], size[1]]));
    let mut files = Vec::new();
    for _ in 0..count {
        let name = source.string("the name of an image")?;
        let len = source.number("the length of an image", 0..=COUNT_LIMIT)?;
        files.push(Encoded::sent(&name, source.bytes(len)?));
    }
    Ok(Album::new(files, size, resize, shelf))
}

fn read_scales(source: &mut PackReader<'_, impl BufRead>, channels: u64) -> Result<Vec<[f32; 2]>> {
    match source.number("the number of scales", 0..=channels)? {
        count if count == 0 || count == channels => {
            let bytes = source.bytes(8 * count)?;
            let scales = bytes.as_chunks().0.iter();
            Ok(scales
                .map(|&[a, b, c, d, e, f, g, h]| {
                    [f32::from_le_bytes([a, b, c, d]), f32::from_le_bytes([e, f, g, h])]
                })
                .collect())
        }
        count => Err(source.wrong(format!("has {count} scales, expected none or {channels}, one a channel"))),
    }
}

/// A pad of a whole side would look for pixels where there are none.
fn read_augment(
    source: &mut PackReader<'_, impl BufRead>,
    format: PixelFormat,
    side: u64,
) -> Result<Option<Augment>> {
    if source.number("whether images are augmented", 0..=1)? == 0 {
        return Ok(None);
    }
    let pad = source.number("the pad of augment", 0..=side - 1)? as usize;
    let fill = FILLS[source.number("the fill of augment", 0..=FILLS.len() as u64 - 1)? as usize];
    let flip = source.number("the flip of augment", 0..=1)? == 1;
    if format == PixelFormat::Floats {
        return Err(source.wrong("rows of numbers cannot be augmented"));
    }
    Ok(Some(Augment { pad, fill, flip }))
}

/// The length of every sample; then come the words of all.
fn write_lengths(starts: &[u32], out: &mut PackWriter<'_, impl Write>) -> io::Result<()> {
    out.number(starts.len().saturating_sub(1) as u64)?;
    starts.windows(2).try_for_each(|pair| out.number(u64::from(pair[1] - pair[0])))
}

/// Words that may lie in a file, a block at a time.
fn write_words(words: &Words, out: &mut PackWriter<'_, impl Write>) -> io::Result<()> {
    let mut block = Vec::new();
    for start in (0..words.len()).step_by(WORD_BLOCK) {
        block.clear();
        words.each(start..words.len().min(start + WORD_BLOCK), |word| block.push(word));
        block.iter().try_for_each(|&word| out.number(u64::from(word)))?;
    }
    Ok(())
}

/// The starts of all samples, then the words. A sample has words, and each is one of the vocabulary.
fn read_words(source: &mut PackReader<'_, impl BufRead>, vocabulary: usize) -> Result<(Vec<u32>, Vec<u32>)> {
    let last_word = (vocabulary as u64).checked_sub(1).ok_or_else(|| source.wrong("has no vocabulary"))?;
    let count = source.number("the number of samples", 1..=COUNT_LIMIT)?;
    let (mut starts, mut end) = (vec![0], 0);
    for _ in 0..count {
        end += source.number("the length of a sample", 1..=COUNT_LIMIT - end)?;
        starts.push(end as u32);
    }
    let mut words = Vec::new();
    for _ in 0..end {
        words.push(source.number("the number of a word", 0..=last_word)? as u32);
    }
    Ok((starts, words))
}

fn read_sentences(source: &mut PackReader<'_, impl BufRead>, words: usize, tags: usize) -> Result<Sentences> {
    let (starts, words) = read_words(source, words)?;
    let tags = read_classes(source, words.len() as u64, tags)?;
    Ok(Sentences { starts, words, tags })
}

fn read_texts(source: &mut PackReader<'_, impl BufRead>, words: usize, classes: usize) -> Result<Texts> {
    let (starts, words) = read_words(source, words)?;
    let labels = read_classes(source, starts.len() as u64 - 1, classes)?;
    Ok(Texts { starts, words: words.into(), labels })
}

/// Numbers to learn, in the place of classes.
fn read_numbers(source: &mut PackReader<'_, impl BufRead>, count: u64) -> Result<(Vec<u8>, Vec<f32>)> {
    let bytes = source.bytes(4 * count)?;
    let numbers: Vec<f32> = bytes.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect();
    match numbers.iter().find(|number| !number.is_finite()) {
        Some(wrong) => Err(source.wrong(format!("has {wrong} to learn"))),
        None => Ok((vec![0; numbers.len()], numbers)),
    }
}

/// Classes, of which each is one that has a name.
fn read_classes(source: &mut PackReader<'_, impl BufRead>, count: u64, classes: usize) -> Result<Vec<u8>> {
    let found = source.bytes(count)?;
    match found.iter().max() {
        Some(&largest) if usize::from(largest) >= classes => {
            Err(source
                .wrong(format!("has the class {largest}, but the last is {}", classes.saturating_sub(1))))
        }
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests;

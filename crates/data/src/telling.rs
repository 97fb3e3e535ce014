//! What owners of data tell of them, so that all have the same words, classes and scales. No sample is in it.
//!
//! A word is told by who has it at least `min_frequency` times, with how often that is: what is rare stays where it is.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufRead};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::form::kind;
use crate::normalize::{Moments, Normalize};
use crate::pack::stream::{PackReader, PackWriter};
use crate::pixels::PixelFormat;
use crate::{Dataset, Images, Samples, Source, Vocabulary, csv};

/// What one owner tells of the half to train on, and of the classes of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Telling {
    /// What the samples are, in words.
    kind: String,
    classes: Vec<String>,
    /// With how often each word is there.
    words: Vec<(String, u64)>,
    samples: u64,
    /// Mean and deviation of each channel, where the data are scaled by their own.
    moments: Vec<[f64; 2]>,
}

/// What all agree on.
#[derive(Debug)]
pub struct Agreed {
    pub form: Dataset,
    /// How many of its words are one owner's alone.
    pub lone_words: usize,
}

/// Nobody tells more bytes.
pub const MOST_BYTES: u64 = 64 << 20;

/// Longer words are not told.
const WORD_BYTES: usize = 1024;
/// A class is kept in a byte.
const CLASS_LIMIT: usize = 256;
/// No table has more columns.
const CHANNEL_LIMIT: u64 = 1 << 24;

impl Dataset {
    /// What is told of data that a source has [loaded with all words](Source::load_all_words).
    pub fn telling(&self, source: &Source) -> Telling {
        Telling {
            kind: kind(self),
            classes: self.classes.clone(),
            words: self.vocabulary.as_ref().map_or_else(Vec::new, |known| self.counted(known, source)),
            samples: self.train.len() as u64,
            moments: match &*self.train {
                Samples::Images(images) if scales_itself(source, images) => images.spread(),
                _ => Vec::new(),
            },
        }
    }

    /// The most frequent words of the half to train on.
    fn counted(&self, vocabulary: &Vocabulary, source: &Source) -> Vec<(String, u64)> {
        let mut counts = vec![0u64; vocabulary.len()];
        match &*self.train {
            Samples::Images(_) => {}
            Samples::Sentences(half) => half.words.iter().for_each(|&word| counts[word as usize] += 1),
            Samples::Texts(half) => half.words.each(0..half.words.len(), |word| counts[word as usize] += 1),
        }
        let numbers = Vocabulary::UNKNOWN + 1..vocabulary.len() as u32;
        let counted = numbers.map(|number| (vocabulary.word(number), counts[number as usize]));
        let least = source.min_frequency.max(1) as u64;
        let told = counted.filter(|(word, count)| *count >= least && wrong_word(word).is_none());
        told.take(source.max_words).map(|(word, count)| (word.to_owned(), count)).collect()
    }

    /// The form of data of this kind that all have told something of, whoever told first. The classes of these data are
    /// among the classes, too; their words and values count only if they are told.
    pub fn agree(&self, source: &Source, tellings: &[Telling]) -> Result<Agreed> {
        let mut form = self.form();
        form.classes = classes(tellings.iter().map(|telling| &telling.classes).chain([&self.classes]))?;
        let mut lone_words = 0;
        if form.vocabulary.is_some() {
            let (words, lone) = words(tellings, source.max_words);
            (form.vocabulary, lone_words) = (Some(Vocabulary::numbered(words)), lone);
        }
        let mut samples = (*form.train).clone();
        if let Samples::Images(images) = &mut samples
            && scales_itself(source, images)
        {
            images.normalize(&pooled(tellings, images.channels));
        }
        form.train = Arc::new(samples);
        form.test = Arc::clone(&form.train);
        form.fit_shape();
        Ok(Agreed { form, lone_words })
    }
}

/// Whether the data are scaled by what the half to train on is like.
fn scales_itself(source: &Source, images: &Images) -> bool {
    match source.normalize {
        Some(Normalize::Own) => true,
        Some(Normalize::By(_) | Normalize::Off) => false,
        None => images.pixels.format() == PixelFormat::Floats,
    }
}

/// The classes of all: as they are where somebody has all of them, otherwise numbers by size and words by the alphabet.
fn classes<'a>(lists: impl Iterator<Item = &'a Vec<String>>) -> Result<Vec<String>> {
    let mut lists: Vec<&Vec<String>> = lists.collect();
    lists.sort_by_key(|list| (std::cmp::Reverse(list.len()), *list));
    let all: BTreeSet<&String> = lists.iter().flat_map(|list| list.iter()).collect();
    if all.len() > CLASS_LIMIT {
        let message = format!(
            "the data of all have {} different classes together, at most {CLASS_LIMIT} can be learned",
            all.len()
        );
        return Err(Error::mismatch(message));
    }
    match lists.first() {
        Some(longest) if longest.len() == all.len() => Ok((*longest).clone()),
        _ => Ok(csv::sorted_classes(all.into_iter().map(String::as_str))),
    }
}

/// The most frequent words of all, and how many of them one has alone. Words of equal frequency go by the alphabet, so
/// that it does not matter who told first.
fn words(tellings: &[Telling], max_words: usize) -> (Vec<String>, usize) {
    let mut sums: HashMap<&str, (u64, u32)> = HashMap::new();
    for (word, count) in tellings.iter().flat_map(|telling| &telling.words) {
        let (sum, owners) = sums.entry(word).or_default();
        (*sum, *owners) = (sum.saturating_add(*count), *owners + 1);
    }
    let mut all: Vec<(&str, (u64, u32))> = sums.into_iter().collect();
    all.sort_unstable_by_key(|&(word, (sum, _))| (std::cmp::Reverse(sum), word));
    all.truncate(max_words);
    let lone = all.iter().filter(|(_, (_, owners))| *owners == 1).count();
    (all.into_iter().map(|(word, _)| word.to_owned()).collect(), lone)
}

/// The mean and deviation of each channel over the samples of all.
fn pooled(tellings: &[Telling], channels: usize) -> Moments {
    // Sums of floating-point numbers depend on their order, which shall not be that of who came first.
    let mut tellings: Vec<&Telling> = tellings.iter().filter(|one| one.moments.len() == channels).collect();
    let bits =
        |one: &Telling| one.moments.as_flattened().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    tellings.sort_by_cached_key(|one| (one.samples, bits(one)));
    let all: f64 = tellings.iter().map(|one| one.samples as f64).sum::<f64>().max(1.0);
    let over_all = |of: &dyn Fn(&[f64; 2]) -> f64, channel: usize| {
        tellings.iter().map(|one| one.samples as f64 * of(&one.moments[channel])).sum::<f64>() / all
    };
    let (mut mean, mut deviation) = (Vec::with_capacity(channels), Vec::with_capacity(channels));
    for channel in 0..channels {
        let middle = over_all(&|[mean, _]| *mean, channel);
        let square = over_all(&|[mean, deviation]| deviation.powi(2) + (mean - middle).powi(2), channel);
        mean.push(middle as f32);
        deviation.push(Moments::divisor(square.sqrt()));
    }
    Moments { mean, deviation }
}

fn wrong_word(word: &str) -> Option<&'static str> {
    match word.len() {
        0 => Some("is empty"),
        _ if word.len() > WORD_BYTES => Some("is too long"),
        _ if word.contains(['\n', '\r']) => Some("has a line break"),
        _ => None,
    }
}

impl Telling {
    /// Why data of this kind cannot be trained on together with those of a form, if they cannot.
    pub fn misfit(&self, form: &Dataset) -> Option<String> {
        let expect = kind(form);
        let channels = match &*form.train {
            Samples::Images(images) => images.channels,
            Samples::Sentences(_) | Samples::Texts(_) => 0,
        };
        if self.kind != expect {
            return Some(format!("its data are {}, but those of the head are {expect}", self.kind));
        }
        if self.classes.is_empty() != form.classes.is_empty() || self.samples == 0 {
            return Some("it tells of data without classes or samples".to_owned());
        }
        let is_scaled = self.moments.is_empty() || self.moments.len() == channels;
        (!is_scaled).then(|| format!("it tells of {} channels, not {channels}", self.moments.len()))
    }

    /// The bytes that travel.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut out = PackWriter::new(&mut bytes);
        out.string(&self.kind)?;
        out.number(self.classes.len() as u64)?;
        self.classes.iter().try_for_each(|class| out.string(class))?;
        out.number(self.words.len() as u64)?;
        for (word, count) in &self.words {
            out.string(word)?;
            out.number(*count)?;
        }
        out.number(self.samples)?;
        out.number(self.moments.len() as u64)?;
        self.moments.as_flattened().iter().try_for_each(|value| out.bytes(&value.to_le_bytes()))?;
        out.finish()?;
        Ok(bytes)
    }

    /// Reads what somebody told, who may have told anything. `max_words` is what the run file says.
    pub fn read(source: &mut impl BufRead, max_words: usize) -> Result<Self> {
        let mut source = PackReader::new(source);
        let kind = source.string("the kind of samples")?;
        let count = source.number("the number of classes", 0..=CLASS_LIMIT as u64)?;
        let mut classes = Vec::new();
        for _ in 0..count {
            classes.push(read_word(&mut source, "a class")?);
        }
        let count = source.number("the number of words", 0..=max_words as u64)?;
        let (mut words, mut known) = (Vec::new(), BTreeSet::new());
        for _ in 0..count {
            let word = read_word(&mut source, "a word")?;
            let count = source.number("how often a word is there", 1..=u64::from(u32::MAX))?;
            if !known.insert(word.clone()) {
                return Err(source.wrong("tells of a word twice"));
            }
            words.push((word, count));
        }
        let samples = source.number("the number of samples", 1..=u64::from(u32::MAX))?;
        let count = source.number("the number of channels", 0..=CHANNEL_LIMIT)?;
        let bytes = source.bytes(16 * count)?;
        let values: Vec<f64> = bytes.as_chunks().0.iter().map(|&eight| f64::from_le_bytes(eight)).collect();
        let moments = values.as_chunks().0.to_vec();
        if let Some([mean, deviation]) = moments.iter().find(|pair| !is_moment(pair)) {
            return Err(source.wrong(format!("has a mean of {mean} and a deviation of {deviation}")));
        }
        source.finish()?;
        Ok(Self { kind, classes, words, samples, moments })
    }
}

/// Sums of squares of such do not overflow.
fn is_moment([mean, deviation]: &[f64; 2]) -> bool {
    mean.abs() <= 1e100 && (0.0..=1e100).contains(deviation)
}

fn read_word(source: &mut PackReader<'_, impl BufRead>, what: &str) -> Result<String> {
    let word = source.string(what)?;
    match wrong_word(&word) {
        Some(wrong) => Err(source.wrong(format!("{what} {wrong}"))),
        None => Ok(word),
    }
}

#[cfg(test)]
mod tests;

//! From words to numbers.

use super::{SamplePart, Source, file};
use crate::conllu::TaggedSentence;
use crate::csv;
use crate::error::{Error, Result};
use crate::reviews::{self, Review, stop};
use crate::vocabulary::Census;
use crate::{Dataset, Samples, Sentences, Texts};
use bonfire_learn::Shape;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// Both halves of a folder, each of which must hold something, as far as the source says. `names` are those of the
/// files to train on, to test on and to validate on. Samples are read one at a time as they are taken, so that a file
/// may be larger than memory.
pub(crate) fn halves<T, I: Iterator<Item = Result<T>>>(
    folder: &Path,
    names: [&str; 3],
    source: &Source,
    open: impl Fn(&Path) -> Result<I>,
) -> Result<[impl Iterator<Item = Result<T>>; 2]> {
    let half = |name: &str, limit: Option<usize>| {
        let path = file::need(folder, name)?;
        let mut samples = open(&path)?.peekable();
        if samples.peek().is_none() {
            return Err(Error::format(&path, "holds no samples"));
        }
        Ok(samples.take(limit.unwrap_or(usize::MAX)))
    };
    match source.part {
        SamplePart::Halves => Ok([half(names[0], source.train)?, half(names[1], source.test)?]),
        SamplePart::Validation => Ok([half(names[2], None)?, half(names[2], Some(1))?]),
    }
}

/// A tag is kept in a byte.
const TAG_LIMIT: usize = 256;

/// A data set of sentences. The classes are the tags of all parts by name: a tag that only the test half has can
/// not be learned, but it is part of the language, and to refuse the data for its sake would help nobody.
pub(crate) fn tagging(
    source: &Source,
    [train, test]: [impl Iterator<Item = Result<TaggedSentence>>; 2],
) -> Result<Dataset> {
    let (mut words, mut tags) = (Census::default(), Census::default());
    let mut train = sentences(source, train, |word| words.note(word), &mut tags)?;
    let (vocabulary, numbers) = words.vocabulary(source.min_frequency, source.max_words);
    renumber(&mut train.words, &numbers);
    let mut test = sentences(source, test, |word| vocabulary.number(word), &mut tags)?;
    let names = tags.words();
    if names.len() > TAG_LIMIT {
        let message = format!(
            "data {}: has {} different tags, at most {TAG_LIMIT} can be learned",
            source.name,
            names.len()
        );
        return Err(Error::mismatch(message));
    }
    let mut classes = names.clone();
    classes.sort_unstable();
    let class = |name: &String| classes.partition_point(|known| known < name) as u8;
    let by_place: Vec<u8> = names.iter().map(class).collect();
    for tag in train.tags.iter_mut().chain(&mut test.tags) {
        *tag = by_place[usize::from(*tag)];
    }
    Ok(Dataset {
        name: source.name.clone(),
        shape: Shape::Tagging { words: vocabulary.len(), tags: classes.len() },
        train: Arc::new(Samples::Sentences(train)),
        test: Arc::new(Samples::Sentences(test)),
        dev: None,
        classes,
        vocabulary: Some(vocabulary),
    })
}

/// Sentences as numbers. Tags are numbered as they first appear; if there are too many for a byte, the caller refuses
/// them.
fn sentences(
    source: &Source,
    half: impl Iterator<Item = Result<TaggedSentence>>,
    mut number: impl FnMut(&str) -> u32,
    tags: &mut Census,
) -> Result<Sentences> {
    let mut sentences = Sentences { starts: vec![0], ..Sentences::default() };
    for sentence in half {
        let sentence = sentence?;
        sentences.words.extend(sentence.words.iter().map(|word| number(&fold(word, source.lower_case))));
        sentences.tags.extend(sentence.tags.iter().map(|tag| tags.note(tag) as u8));
        sentences.starts.push(start(source, sentences.words.len())?);
    }
    Ok(sentences)
}

/// Gives words that were numbered as they appeared the numbers of the vocabulary.
fn renumber(words: &mut [u32], numbers: &[u32]) {
    for word in words {
        *word = numbers[*word as usize];
    }
}

/// The classes of texts.
pub(crate) const STARS: [&str; 5] = ["1 star", "2 stars", "3 stars", "4 stars", "5 stars"];

/// A data set of texts with stars. Class 0 is one star.
pub(crate) fn texts(source: &Source, halves: [impl Iterator<Item = Result<Review>>; 2]) -> Result<Dataset> {
    let sample = |review: Result<Review>| review.map(|review| (review.text, review.stars - 1));
    of_classes(source, halves.map(|half| half.map(sample)), STARS.map(str::to_owned).to_vec())
}

fn of_classes(
    source: &Source,
    [train, test]: [impl Iterator<Item = Result<(String, u8)>>; 2],
    classes: Vec<String>,
) -> Result<Dataset> {
    let mut words = Census::default();
    let mut train = numbered_texts(source, train, "training half", |word| words.note(word))?;
    let (vocabulary, numbers) = words.vocabulary(source.min_frequency, source.max_words);
    renumber(train.words.in_memory(), &numbers);
    let test = numbered_texts(source, test, "test half", |word| vocabulary.number(word))?;
    Ok(Dataset {
        name: source.name.clone(),
        shape: Shape::Texts { words: vocabulary.len(), classes: classes.len() },
        train: Arc::new(Samples::Texts(train)),
        test: Arc::new(Samples::Texts(test)),
        dev: None,
        classes,
        vocabulary: Some(vocabulary),
    })
}

/// A text with its label, and the line on which it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelledText {
    pub text: String,
    pub label: String,
    pub line: usize,
}

/// A data set of texts with labels of any kind. `paths` are the files of both halves. Labels from 1 to 5 are stars.
pub(crate) fn labelled(
    source: &Source,
    paths: [&Path; 2],
    [train, test]: [Vec<LabelledText>; 2],
) -> Result<Dataset> {
    let labels: Vec<(String, usize)> = train.iter().map(|text| (text.label.clone(), text.line)).collect();
    let names = csv::classes(&labels);
    let stars = |name: &str| name.parse().ok().filter(|stars| [1.0, 2.0, 3.0, 4.0, 5.0].contains(stars));
    let are_stars = names.iter().all(|name| stars(name).is_some());
    if names.len() > TAG_LIMIT {
        let message = format!("has {} different labels, at most {TAG_LIMIT} can be learned", names.len());
        return Err(Error::format(paths[0], message));
    }
    let class = |name: &str| match are_stars {
        true => stars(name).map(|stars: f64| stars as u8 - 1),
        false => names.iter().position(|known| known == name).map(|class| class as u8),
    };
    let half = |path: &Path, texts: Vec<LabelledText>| {
        let texts = texts.into_iter().map(|LabelledText { text, label, line }| match class(&label) {
            Some(class) => Ok((text, class)),
            None => Err(Error::line(path, line, format!("the label {label:?} is not in the training half"))),
        });
        texts.collect::<Result<Vec<_>>>()
    };
    let halves = [half(paths[0], train)?, half(paths[1], test)?].map(|half| half.into_iter().map(Ok));
    let classes = if are_stars { STARS.map(str::to_owned).to_vec() } else { names.clone() };
    of_classes(source, halves, classes)
}

fn numbered_texts(
    source: &Source,
    half: impl Iterator<Item = Result<(String, u8)>>,
    name: &str,
    mut number: impl FnMut(&str) -> u32,
) -> Result<Texts> {
    let mut texts = Texts { starts: vec![0], ..Texts::default() };
    for sample in half {
        let (text, class) = sample?;
        let text = reviews::normal(&text, source.lower_case);
        let before = texts.words.len();
        texts.words.in_memory().extend(kept_words(source, &text).map(&mut number));
        // A text of signs and numbers alone says nothing that we could read.
        if texts.words.len() > before {
            texts.labels.push(class);
            texts.starts.push(start(source, texts.words.len())?);
        }
    }
    if texts.labels.is_empty() {
        return Err(Error::mismatch(format!("data {}: no text of the {name} has any words", source.name)));
    }
    Ok(texts)
}

/// The words of a text that are read.
pub(crate) fn kept_words<'a>(source: &Source, text: &'a str) -> impl Iterator<Item = &'a str> {
    let (all, limit) = (!source.stop_words, source.max_length);
    reviews::words(text).filter(move |word| all || !stop::is_stop_word(word)).take(limit)
}

/// The word in lower case if asked for; most are already, and those need no memory of their own.
pub(crate) fn fold(word: &str, lower_case: bool) -> Cow<'_, str> {
    let is_lower = || word.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if lower_case && !is_lower() { Cow::Owned(word.to_lowercase()) } else { Cow::Borrowed(word) }
}

/// Where a text begins that follows so many words.
pub(crate) fn start(source: &Source, words: usize) -> Result<u32> {
    u32::try_from(words).map_err(|_| {
        Error::mismatch(format!(
            "data {}: has more than 2^32 words; limit it with `train` and `test`",
            source.name
        ))
    })
}

//! From words to numbers.

use super::{Source, file};
use crate::data::conllu::TaggedSentence;
use crate::data::reviews::{self, Review, stop};
use crate::data::{Dataset, Samples, Sentences, Shape, Texts, Vocabulary};
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Reads both halves of a folder, each of which must hold something, and keeps as much of them as the source says.
pub fn halves<T>(
    folder: &Path,
    names: [&str; 2],
    source: &Source,
    read: impl Fn(&Path) -> Result<Vec<T>>,
) -> Result<[Vec<T>; 2]> {
    let half = |name: &str, limit: Option<usize>| {
        let path = file::need(folder, name)?;
        let mut samples = read(&path)?;
        if samples.is_empty() {
            return Err(Error::format(&path, "holds no samples"));
        }
        samples.truncate(limit.unwrap_or(usize::MAX));
        Ok(samples)
    };
    Ok([half(names[0], source.train)?, half(names[1], source.test)?])
}

/// A tag is kept in a byte.
const TAG_LIMIT: usize = 256;

/// A data set of sentences. The classes are the tags of both halves by name: a tag that only the test half has can
/// not be learned, but it is part of the language, and to refuse the data for its sake would help nobody.
pub fn tagging(source: &Source, train: &[TaggedSentence], test: &[TaggedSentence]) -> Result<Dataset> {
    let tags: BTreeSet<&str> =
        train.iter().chain(test).flat_map(|sentence| &sentence.tags).map(String::as_str).collect();
    if tags.len() > TAG_LIMIT {
        let message = format!(
            "data {}: has {} different tags, at most {TAG_LIMIT} can be learned",
            source.name,
            tags.len()
        );
        return Err(Error::Mismatch(message));
    }
    let tags: Vec<&str> = tags.into_iter().collect();
    let words: Vec<Cow<'_, str>> =
        train.iter().flat_map(|sentence| &sentence.words).map(|word| fold(word, source.lower_case)).collect();
    let vocabulary =
        Vocabulary::count(words.iter().map(|word| &**word), source.min_frequency, source.max_words);
    let encode = |half: &[TaggedSentence]| -> Result<Samples> {
        let mut sentences = Sentences { starts: vec![0], ..Sentences::default() };
        for sentence in half {
            let numbers = sentence.words.iter().map(|word| vocabulary.number(&fold(word, source.lower_case)));
            sentences.words.extend(numbers);
            // The list is sorted and holds every tag there is, so the search always finds one.
            sentences.tags.extend(
                sentence.tags.iter().map(|tag| tags.partition_point(|&known| known < tag.as_str()) as u8),
            );
            sentences.starts.push(start(source, sentences.words.len())?);
        }
        Ok(Samples::Sentences(sentences))
    };
    Ok(Dataset {
        name: source.name.clone(),
        shape: Shape::Tagging { words: vocabulary.len(), tags: tags.len() },
        train: Arc::new(encode(train)?),
        test: Arc::new(encode(test)?),
        classes: tags.iter().map(|&tag| tag.to_owned()).collect(),
        vocabulary: Some(vocabulary),
    })
}

/// The classes of texts.
pub const STARS: [&str; 5] = ["1 star", "2 stars", "3 stars", "4 stars", "5 stars"];

/// A data set of texts with stars. Class 0 is one star.
pub fn texts(source: &Source, train: &[Review], test: &[Review]) -> Result<Dataset> {
    let normal = |half: &[Review]| -> Vec<(String, u8)> {
        half.iter()
            .map(|review| (reviews::normal(&review.text, source.lower_case), review.stars - 1))
            .collect()
    };
    let (train, test) = (normal(train), normal(test));
    let vocabulary = Vocabulary::count(
        train.iter().flat_map(|(text, _)| kept_words(source, text)),
        source.min_frequency,
        source.max_words,
    );
    let encode = |half: &[(String, u8)], name: &str| -> Result<Samples> {
        let mut texts = Texts { starts: vec![0], ..Texts::default() };
        for (text, label) in half {
            let before = texts.words.len();
            texts.words.extend(kept_words(source, text).map(|word| vocabulary.number(word)));
            // A text of signs and numbers alone says nothing that we could read.
            if texts.words.len() > before {
                texts.labels.push(*label);
                texts.starts.push(start(source, texts.words.len())?);
            }
        }
        if texts.labels.is_empty() {
            return Err(Error::Mismatch(format!(
                "data {}: no text of the {name} half has any words",
                source.name
            )));
        }
        Ok(Samples::Texts(texts))
    };
    Ok(Dataset {
        name: source.name.clone(),
        shape: Shape::Texts { words: vocabulary.len(), classes: STARS.len() },
        train: Arc::new(encode(&train, "training")?),
        test: Arc::new(encode(&test, "test")?),
        classes: STARS.map(str::to_owned).to_vec(),
        vocabulary: Some(vocabulary),
    })
}

/// The words of a text that are read.
fn kept_words<'a>(source: &Source, text: &'a str) -> impl Iterator<Item = &'a str> {
    let (all, limit) = (!source.stop_words, source.max_length);
    reviews::words(text).filter(move |word| all || !stop::is_stop_word(word)).take(limit)
}

/// The word in lower case if asked for; most are already, and those need no memory of their own.
fn fold(word: &str, lower_case: bool) -> Cow<'_, str> {
    let is_lower = || word.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if lower_case && !is_lower() { Cow::Owned(word.to_lowercase()) } else { Cow::Borrowed(word) }
}

/// Where a text begins that follows so many words.
pub fn start(source: &Source, words: usize) -> Result<u32> {
    u32::try_from(words).map_err(|_| {
        Error::Mismatch(format!(
            "data {}: has more than 2^32 words; limit it with `train` and `test`",
            source.name
        ))
    })
}

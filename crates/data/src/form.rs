//! Data of several owners in one form: the same words, classes and scales, whoever's the samples are.

use std::sync::Arc;

use bonfire_learn::Shape;

use crate::error::{Error, Result};
use crate::pixels::{PixelFormat, Pixels};
use crate::source::MOST;
use crate::{Dataset, Images, Samples, Sentences, Source, Texts, Vocabulary};

impl Dataset {
    /// What data of others must agree with, and no sample: one that says nothing stands for all.
    pub fn form(&self) -> Self {
        let nothing = match &*self.train {
            Samples::Images(images) => {
                let bytes = vec![0; images.values() * images.pixels.format().width()];
                let pixels = Pixels::new(bytes, 0, 0, images.pixels.format());
                let (scales, augment) = (images.scales.clone(), images.augment);
                let [height, width, channels] = images.size();
                let numbers = vec![0.0; images.numbers.len().min(1)];
                let labels = vec![0];
                Samples::Images(Images { height, width, channels, pixels, labels, numbers, scales, augment })
            }
            Samples::Sentences(_) => Samples::Sentences(Sentences {
                starts: vec![0, 1],
                words: vec![Vocabulary::UNKNOWN],
                tags: vec![0],
            }),
            Samples::Texts(_) => Samples::Texts(Texts {
                starts: vec![0, 1],
                words: vec![Vocabulary::UNKNOWN].into(),
                labels: vec![0],
            }),
        };
        let nothing = Arc::new(nothing);
        let (name, shape) = (self.name.clone(), self.shape.clone());
        let (vocabulary, classes) = (self.vocabulary.clone(), self.classes.clone());
        Self { name, shape, train: Arc::clone(&nothing), test: nothing, dev: None, vocabulary, classes }
    }
}

impl Source {
    /// Loads data of one's own in the form of others.
    pub fn load_in_form(&self, form: &Dataset) -> Result<Dataset> {
        self.in_form(self.load_all_words()?, form)
    }

    /// Loads data with a number for every word: which of them count is decided later.
    pub fn load_all_words(&self) -> Result<Dataset> {
        Self { max_words: MOST, min_frequency: 1, ..self.clone() }.load()
    }

    /// Data with all their words in the form of others: a word that those do not have is an unknown one, a class that
    /// they do not have is an error.
    pub fn in_form(&self, own: Dataset, form: &Dataset) -> Result<Dataset> {
        let classes = own.classes.iter().map(|class| {
            let place = form.classes.iter().position(|other| other == class);
            place.map(|place| place as u8).ok_or_else(|| {
                let known = form.classes.join(", ");
                Error::mismatch(format!(
                    "data {}: the class {class} is not among those that the run learns: {known}",
                    self.name
                ))
            })
        });
        let classes = classes.collect::<Result<Vec<u8>>>()?;
        let numbers = numbers(&own, form);
        let [train, test] =
            [&own.train, &own.test].map(|half| in_form(half, &form.train, &classes, &numbers));
        let (Some(train), Some(test)) = (train, test) else {
            let message =
                format!("data {}: are {}, but those of the run are {}", self.name, kind(&own), kind(form));
            return Err(Error::mismatch(message));
        };
        let dev = own.dev.as_ref().and_then(|dev| in_form(dev, &form.train, &classes, &numbers));
        let (train, test, dev) = (Arc::new(train), Arc::new(test), dev.map(Arc::new));
        Ok(Dataset { name: own.name, train, test, dev, ..form.form() })
    }
}

/// For the number of every own word the one that it has among the others; none where words have no names.
fn numbers(own: &Dataset, form: &Dataset) -> Option<Vec<u32>> {
    let (own, form) = (own.vocabulary.as_ref()?, form.vocabulary.as_ref()?);
    let number = |number: u32| match number {
        Vocabulary::PADDING | Vocabulary::UNKNOWN => number,
        _ => form.number(own.word(number)),
    };
    Some((0..own.len() as u32).map(number).collect())
}

/// Samples with the numbers of others. None if they are of another kind or size.
fn in_form(own: &Samples, form: &Samples, classes: &[u8], numbers: &Option<Vec<u32>>) -> Option<Samples> {
    let classed =
        |labels: &[u8]| labels.iter().map(|&label| classes[usize::from(label)]).collect::<Vec<u8>>();
    let numbered = |words: &[u32]| match numbers {
        Some(numbers) => words.iter().map(|&word| numbers[word as usize]).collect::<Vec<u32>>(),
        None => words.to_vec(),
    };
    match (own, form) {
        (Samples::Images(own), Samples::Images(form))
            if own.size() == form.size()
                && own.numbers.is_empty() == form.numbers.is_empty()
                && is_in_numbers(own) == is_in_numbers(form) =>
        {
            let (scales, augment) = (form.scales.clone(), form.augment);
            let (numbers, pixels) = (own.numbers.clone(), own.pixels.clone());
            let labels = if numbers.is_empty() { classed(&own.labels) } else { own.labels.clone() };
            let [height, width, channels] = own.size();
            Some(Samples::Images(Images {
                height,
                width,
                channels,
                pixels,
                labels,
                numbers,
                scales,
                augment,
            }))
        }
        (Samples::Sentences(own), Samples::Sentences(_)) => Some(Samples::Sentences(Sentences {
            starts: own.starts.clone(),
            words: numbered(&own.words),
            tags: classed(&own.tags),
        })),
        (Samples::Texts(own), Samples::Texts(_)) => Some(Samples::Texts(Texts {
            starts: own.starts.clone(),
            words: numbered(&own.words.to_vec()).into(),
            labels: classed(&own.labels),
        })),
        _ => None,
    }
}

/// What samples are, in words: those of all must be of one kind.
pub(crate) fn kind(data: &Dataset) -> String {
    match (&data.shape, &*data.train) {
        (Shape::Images { channels, classes: 0, .. }, _) => {
            format!("rows of {channels} numbers with a number to learn")
        }
        (Shape::Images { height: 1, width: 1, channels, .. }, Samples::Images(images))
            if is_in_numbers(images) =>
        {
            format!("rows of {channels} numbers")
        }
        (Shape::Images { height, width, channels, .. }, Samples::Images(images)) if is_in_numbers(images) => {
            format!("images of {height} × {width} × {channels} in floating point")
        }
        (Shape::Images { height, width, channels, .. }, _) => {
            format!("images of {height} × {width} × {channels}")
        }
        (Shape::Tagging { .. }, _) => "sentences with tags".to_owned(),
        (Shape::Texts { .. }, _) => "texts with classes".to_owned(),
    }
}

/// Whether values are numbers, and not bytes: their scales differ.
fn is_in_numbers(images: &Images) -> bool {
    images.pixels.format() == PixelFormat::Floats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack;

    fn made(name: &str, train: usize, seed: u64) -> Source {
        Source { name: name.to_owned(), train: Some(train), test: Some(20), seed, ..Source::default() }
    }

    #[test]
    fn words_and_classes_are_those_of_the_others() {
        let heads = made("grammar", 300, 1).load().expect("data");
        let source = made("grammar", 40, 2);
        let (own, plain) = (source.load_in_form(&heads.form()).expect("data"), source.load().expect("data"));
        assert_eq!((&own.shape, &own.classes), (&heads.shape, &heads.classes));
        let (Samples::Sentences(a), Samples::Sentences(b)) = (&*own.train, &*plain.train) else {
            panic!("sentences");
        };
        let word = |data: &Dataset, number| data.vocabulary.as_ref().expect("words").word(number).to_owned();
        let mut known = 0;
        for (&a, &b) in a.words.iter().zip(&b.words) {
            let (a, b) = (word(&own, a), word(&plain, b));
            assert!(a == b || a == "<unknown>" || b == "<unknown>", "{a} for {b}");
            known += usize::from(a == b);
        }
        assert!(known * 2 > a.words.len(), "most words are known");
        for (&a, &b) in a.tags.iter().zip(&b.tags) {
            assert_eq!(own.classes[usize::from(a)], plain.classes[usize::from(b)]);
        }
    }

    #[test]
    fn a_form_has_no_sample_and_can_be_shipped() {
        for name in ["digits", "grammar", "reviews"] {
            let heads = made(name, 50, 3).load().expect("data");
            let form = heads.form();
            let mut bytes = Vec::new();
            pack::write(&form, &mut bytes).expect("a pack");
            let read = pack::read(&mut bytes.as_slice()).expect("a pack");
            assert_eq!((read.train.len(), &read.shape), (1, &heads.shape));
            let own = made(name, 70, 4).load_in_form(&read).expect("data");
            assert_eq!(own.train.len(), 70);
        }
    }

    #[test]
    fn data_of_another_kind_are_refused() {
        let heads = made("digits", 50, 3).load().expect("data").form();
        let error = made("reviews", 50, 3).load_in_form(&heads).expect_err("another kind").to_string();
        assert!(
            error.contains("is not among those that the run learns")
                || error.contains("but those of the head"),
            "{error}"
        );
    }
}

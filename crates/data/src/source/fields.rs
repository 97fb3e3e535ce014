//! The two forms of a source in a file: a name alone, or a mapping.

use super::raw::RawReviews;
use super::{SamplePart, Source};
use crate::augment::Augment;
use crate::cifar::CifarLabels;
use crate::conllu::TagColumn;
use crate::image_folder::Resize;
use crate::normalize::Normalize;
use crate::prepare::{Counted, Other, RatingScale, Rules};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::path::PathBuf;

/// The mapping form of a [`Source`], as it stands in a file. With files to prepare beside it, a key that both have is
/// one of the preparation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceFields {
    #[serde(alias = "path")]
    name: Option<String>,
    train: Option<usize>,
    test: Option<Extent>,
    seed: Option<u64>,
    min_frequency: Option<usize>,
    max_words: Option<usize>,
    max_length: Option<usize>,
    lower_case: Option<bool>,
    stop_words: Option<StopChoice>,
    tags: Option<TagColumn>,
    labels: Option<CifarLabels>,
    normalize: Option<Normalize>,
    augment: Option<Augment>,
    prepare: Option<PrepareField>,
    resize: Option<Resize>,
    text: Option<String>,
    label: Option<String>,
    value: Option<String>,
    ratings: Option<RatingScale>,
    other: Option<Other>,
    validation: Option<f64>,
    vocabulary: Option<Counted>,
    words: Option<usize>,
    length: Option<usize>,
    classes: Option<u8>,
}

/// How many samples, or which share of them.
#[derive(Clone, Copy)]
enum Extent {
    Count(usize),
    Share(f64),
}

/// Whether stop words go, or which.
enum StopChoice {
    Whether(bool),
    Which(String),
}

/// What is to be prepared: files alone, or as a resolved run file has it.
enum PrepareField {
    Files(Vec<PathBuf>),
    Resolved(RawReviews),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFields {
    inputs: Vec<PathBuf>,
    rules: Rules,
}

impl SourceFields {
    /// The first key that is for a preparation alone.
    fn prepare_key(&self) -> Option<&'static str> {
        let given = [
            ("ratings", self.ratings.is_some()),
            ("other", self.other.is_some()),
            ("validation", self.validation.is_some()),
            ("vocabulary", self.vocabulary.is_some()),
            ("words", self.words.is_some()),
            ("length", self.length.is_some()),
            ("classes", self.classes.is_some()),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(key, _)| *key)
    }

    /// The first key that prepared texts do not have.
    fn other_key(&self) -> Option<&'static str> {
        let given = [
            ("name", self.name.is_some()),
            ("min_frequency", self.min_frequency.is_some()),
            ("max_words", self.max_words.is_some()),
            ("max_length", self.max_length.is_some()),
            ("lower_case", self.lower_case.is_some()),
            ("tags", self.tags.is_some()),
            ("labels", self.labels.is_some()),
            ("normalize", self.normalize.is_some()),
            ("augment", self.augment.is_some()),
            ("resize", self.resize.is_some()),
            ("value", self.value.is_some()),
        ];
        given.iter().find(|(_, is_given)| *is_given).map(|(key, _)| *key)
    }

    /// The rules of a preparation whose options stand beside its files.
    fn rules(&self) -> Result<Rules, String> {
        let default = Rules::default();
        let stop_words = match &self.stop_words {
            None | Some(StopChoice::Whether(true)) => default.stop_words,
            Some(StopChoice::Whether(false)) => "none".to_owned(),
            Some(StopChoice::Which(name)) => name.clone(),
        };
        let test = match self.test {
            None => default.test,
            Some(Extent::Share(share)) => share,
            Some(Extent::Count(count)) => count as f64,
        };
        let rules = Rules {
            text: self.text.clone(),
            label: self.label.clone(),
            ratings: self.ratings.unwrap_or(default.ratings),
            other: self.other.unwrap_or(default.other),
            stop_words,
            seed: self.seed.unwrap_or(default.seed),
            test,
            validation: self.validation.unwrap_or(default.validation),
            vocabulary: self.vocabulary.unwrap_or(default.vocabulary),
            words: self.words.unwrap_or(default.words),
            length: self.length.unwrap_or(default.length),
            classes: self.classes,
        };
        rules.check().map_err(|error| error.to_string())?;
        Ok(rules)
    }

    /// A preparation whose options stand beside its files.
    fn into_raw(self, inputs: Vec<PathBuf>) -> Result<Source, String> {
        if let Some(key) = self.other_key() {
            let instead = match key {
                "max_words" => "; with prepare it is `words`",
                "max_length" => "; with prepare it is `length`",
                _ => "",
            };
            return Err(format!("`{key}` is no option of prepare{instead}"));
        }
        let raw = RawReviews { inputs, rules: self.rules()? };
        Ok(Source { train: self.train, prepare: Some(raw.clone()), ..Source::new(raw.name()) })
    }

    fn into_source(mut self) -> Result<Source, String> {
        let prepare = match self.prepare.take() {
            Some(PrepareField::Files(inputs)) => return self.into_raw(inputs),
            Some(PrepareField::Resolved(raw)) => Some(raw),
            None => None,
        };
        if let Some(key) = self.prepare_key() {
            return Err(format!("`{key}` is an option of prepare, which says what files to prepare"));
        }
        let other = [("label", self.label.is_some()), ("text", self.text.is_some())];
        if let (Some(_), Some((key, _))) = (&self.value, other.iter().find(|(_, given)| *given)) {
            return Err(format!("`value`, a number to learn from numbers, and `{key}` exclude each other"));
        }
        let stop_words = match self.stop_words {
            None => None,
            Some(StopChoice::Whether(stop)) => Some(stop),
            Some(StopChoice::Which(name)) => {
                return Err(format!("`stop_words` is {name:?}, expected true or false"));
            }
        };
        let test = match self.test {
            None => None,
            Some(Extent::Count(count)) => Some(count),
            Some(Extent::Share(share)) => {
                return Err(format!("`test` is {share}, expected a whole number of samples"));
            }
        };
        let default = Source::new(self.name.ok_or("missing field `name`")?);
        Ok(Source {
            train: self.train.or(default.train),
            test: test.or(default.test),
            seed: self.seed.unwrap_or(default.seed),
            min_frequency: self.min_frequency.unwrap_or(default.min_frequency),
            max_words: self.max_words.unwrap_or(default.max_words),
            max_length: self.max_length.unwrap_or(default.max_length),
            lower_case: self.lower_case.unwrap_or(default.lower_case),
            stop_words: stop_words.unwrap_or(default.stop_words),
            tags: self.tags.unwrap_or(default.tags),
            labels: self.labels.unwrap_or(default.labels),
            normalize: self.normalize,
            augment: self.augment,
            text: self.text,
            label: self.label,
            value: self.value,
            resize: self.resize,
            part: SamplePart::default(),
            dev: false,
            prepare,
            name: default.name,
        })
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrFields)
    }
}

/// Accepts both forms. Deriving this as an untagged enum would lose what is wrong inside the mapping.
struct NameOrFields;

impl<'de> Visitor<'de> for NameOrFields {
    type Value = Source;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a data set, a folder, or a mapping with a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Source, E> {
        Ok(Source::new(name))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Source, A::Error> {
        let fields = SourceFields::deserialize(MapAccessDeserializer::new(map))?;
        fields.into_source().map_err(A::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Extent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountOrShare;
        impl Visitor<'_> for CountOrShare {
            type Value = Extent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("usize")
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<Extent, E> {
                Ok(Extent::Count(count as usize))
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<Extent, E> {
                let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(count), &self);
                usize::try_from(count).map(Extent::Count).map_err(wrong)
            }

            fn visit_f64<E>(self, share: f64) -> Result<Extent, E> {
                Ok(Extent::Share(share))
            }
        }
        deserializer.deserialize_any(CountOrShare)
    }
}

impl<'de> Deserialize<'de> for StopChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BoolOrName;
        impl Visitor<'_> for BoolOrName {
            type Value = StopChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false, or with prepare english, none or a file")
            }

            fn visit_bool<E>(self, whether: bool) -> Result<StopChoice, E> {
                Ok(StopChoice::Whether(whether))
            }

            fn visit_str<E>(self, name: &str) -> Result<StopChoice, E> {
                Ok(StopChoice::Which(name.to_owned()))
            }
        }
        deserializer.deserialize_any(BoolOrName)
    }
}

impl<'de> Deserialize<'de> for PrepareField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Files;
        impl<'de> Visitor<'de> for Files {
            type Value = PrepareField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file, a folder, or a list of them")
            }

            fn visit_str<E>(self, path: &str) -> Result<PrepareField, E> {
                Ok(PrepareField::Files(vec![path.into()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<PrepareField, A::Error> {
                let paths: Vec<PathBuf> = Deserialize::deserialize(SeqAccessDeserializer::new(list))?;
                if paths.is_empty() {
                    return Err(A::Error::custom("the list is empty, expected files or folders"));
                }
                Ok(PrepareField::Files(paths))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PrepareField, A::Error> {
                let RawFields { inputs, rules } = RawFields::deserialize(MapAccessDeserializer::new(map))?;
                Ok(PrepareField::Resolved(RawReviews { inputs, rules }))
            }
        }
        deserializer.deserialize_any(Files)
    }
}

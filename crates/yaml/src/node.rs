use std::sync::Arc;

use serde::de::Unexpected;

/// A value of the tree.
#[derive(Clone, Debug)]
pub struct YamlNode {
    pub place: YamlPlace,
    pub data: YamlData,
}

/// What a value is. A mapping keeps the order of its keys.
#[derive(Clone, Debug)]
pub enum YamlData {
    Scalar(YamlScalar),
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
}

/// A key with its value. The key has a place of its own, because it alone may be wrong.
#[derive(Clone, Debug)]
pub struct YamlEntry {
    pub key: String,
    pub place: YamlPlace,
    pub value: YamlNode,
}

/// Where a key or value was given.
#[derive(Clone, Debug)]
pub enum YamlPlace {
    /// Somewhere in the file, or nowhere: a default.
    File,
    /// A line of the file, counted from 1.
    Line(usize),
    /// The text after `--set`.
    Set(Arc<str>),
}

/// A scalar as it was written. What it means depends on its form, and a key that wants text may take a plain `1.0`
/// as the text it is.
#[derive(Clone, Debug)]
pub struct YamlScalar {
    pub text: String,
    pub form: ScalarForm,
}

/// How a scalar was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScalarForm {
    /// Without quotes: its text may mean a number, true, false or nothing.
    Plain,
    /// In quotes or in a block, or with the tag `!!str`: it is text.
    Quoted,
    /// With this tag, which only the caller understands, such as `vault` for `!vault`. Here it is text.
    Tagged(String),
}

/// What a scalar means by the core schema of YAML 1.2.
#[derive(Debug, PartialEq)]
pub(crate) enum Meaning<'a> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'a str),
}

impl YamlPlace {
    /// The line of the file, or its first if the place is none of its lines.
    #[must_use]
    pub fn line(&self) -> usize {
        match self {
            Self::Line(line) => *line,
            Self::File | Self::Set(_) => 1,
        }
    }
}

impl YamlNode {
    pub(crate) fn map(place: YamlPlace) -> Self {
        Self { place, data: YamlData::Map(Vec::new()) }
    }

    /// Nothing, given at `place`.
    #[must_use]
    pub fn null(place: YamlPlace) -> Self {
        Self { place, data: YamlData::Scalar(YamlScalar::plain("")) }
    }

    /// Whether nothing was given: an empty value, `~` or `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.data, YamlData::Scalar(scalar) if scalar.meaning() == Meaning::Null)
    }

    /// The value of a key of this mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&YamlEntry> {
        match &self.data {
            YamlData::Map(entries) => entries.iter().find(|entry| entry.key == key),
            YamlData::Scalar(_) | YamlData::List(_) => None,
        }
    }

    pub(crate) fn item(&self, index: usize) -> Option<&YamlNode> {
        match &self.data {
            YamlData::List(items) => items.get(index),
            YamlData::Scalar(_) | YamlData::Map(_) => None,
        }
    }

    /// Says of everything in here that it was given at `place`.
    pub(crate) fn move_to(&mut self, place: &YamlPlace) {
        self.place = place.clone();
        match &mut self.data {
            YamlData::Scalar(_) => {}
            YamlData::List(items) => items.iter_mut().for_each(|item| item.move_to(place)),
            YamlData::Map(entries) => entries.iter_mut().for_each(|entry| {
                entry.place = place.clone();
                entry.value.move_to(place);
            }),
        }
    }

    /// How many nodes a copy of this one would make.
    pub(crate) fn size(&self) -> usize {
        match &self.data {
            YamlData::Scalar(_) => 1,
            YamlData::List(items) => 1 + items.iter().map(YamlNode::size).sum::<usize>(),
            YamlData::Map(entries) => 1 + entries.iter().map(|entry| entry.value.size()).sum::<usize>(),
        }
    }

    /// How many lists and mappings lie inside each other here.
    pub(crate) fn depth(&self) -> usize {
        match &self.data {
            YamlData::Scalar(_) => 0,
            YamlData::List(items) => 1 + items.iter().map(YamlNode::depth).max().unwrap_or(0),
            YamlData::Map(entries) => 1 + entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0),
        }
    }
}

impl YamlData {
    /// What it is, in serde's terms, where something else was expected.
    pub(crate) fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::List(_) => Unexpected::Seq,
            Self::Map(_) => Unexpected::Map,
            Self::Scalar(scalar) => match scalar.meaning() {
                Meaning::Null => Unexpected::Unit,
                Meaning::Bool(value) => Unexpected::Bool(value),
                Meaning::Unsigned(value) => Unexpected::Unsigned(value),
                Meaning::Signed(value) => Unexpected::Signed(value),
                Meaning::Float(value) => Unexpected::Float(value),
                Meaning::Text(value) => Unexpected::Str(value),
            },
        }
    }
}

impl YamlScalar {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), form: ScalarForm::Plain }
    }

    pub(crate) fn meaning(&self) -> Meaning<'_> {
        if self.form == ScalarForm::Plain { plain_meaning(&self.text) } else { Meaning::Text(&self.text) }
    }
}

fn plain_meaning(text: &str) -> Meaning<'_> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Meaning::Null,
        "true" | "True" | "TRUE" => Meaning::Bool(true),
        "false" | "False" | "FALSE" => Meaning::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Meaning::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Meaning::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => Meaning::Float(f64::NAN),
        _ => number(text).unwrap_or(Meaning::Text(text)),
    }
}

fn number(text: &str) -> Option<Meaning<'_>> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            // The standard parser would take a sign here, which YAML does not.
            let unsigned = digits.starts_with(|c: char| c.is_ascii_alphanumeric());
            return u64::from_str_radix(digits, radix).ok().filter(|_| unsigned).map(Meaning::Unsigned);
        }
    }
    // The standard parser also knows words such as `inf` and `nan`, which are text in YAML.
    if !text.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b)) {
        return None;
    }
    if let Ok(whole) = text.parse() {
        return Some(Meaning::Unsigned(whole));
    }
    if let Ok(whole) = text.parse() {
        return Some(Meaning::Signed(whole));
    }
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(Meaning::Float)
}

use std::fmt::Display;

use serde::de::DeserializeOwned;

use crate::error::{YamlError, short};
use crate::key_path::{KeyStep, steps};
use crate::load::{Dialect, load};
use crate::node::{YamlData, YamlEntry, YamlNode, YamlPlace};
use crate::read::NodeReader;
use crate::set;

/// Far more than anybody writes by hand.
const MAX_BYTES: usize = 1 << 20;

/// The keys and values of a file of settings, such as a run file.
#[derive(Clone, Debug)]
pub struct Tree {
    origin: String,
    root: YamlNode,
}

impl Tree {
    /// Reads a file of settings. `origin` is the file's name as errors shall show it.
    ///
    /// # Errors
    /// When the text is no YAML, is not a mapping of unique text keys, or is unreasonably large or deep.
    pub fn parse(origin: &str, text: &str) -> Result<Self, YamlError> {
        let wrong = |place, message: String| Err(YamlError::new(message).at(origin, place, ""));
        if text.len() > MAX_BYTES {
            let message = format!("expected at most {MAX_BYTES} bytes, found {}", text.len());
            return wrong(&YamlPlace::File, message);
        }
        let mut root = load(text, Dialect::Strict).map_err(|error| error.in_words(origin, text, None))?;
        let found = match &root.data {
            YamlData::Map(_) => {
                root.place = YamlPlace::File;
                return Ok(Self { origin: origin.to_owned(), root });
            }
            YamlData::Scalar(_) if root.is_null() => return Ok(Self::empty(origin)),
            YamlData::Scalar(scalar) => format!("the text \"{}\"", short(&scalar.text)),
            YamlData::List(_) => "a list".to_owned(),
        };
        wrong(&root.place, format!("expected keys with values, such as `epochs: 5`, found {found}"))
    }

    /// Reads a file that is a list: the same as a file with this list at `key` and no other key.
    ///
    /// # Errors
    /// As [`Tree::parse`].
    pub fn parse_list(origin: &str, text: &str, key: &str) -> Result<Self, YamlError> {
        if text.len() <= MAX_BYTES
            && let Ok(list) = load(text, Dialect::Strict)
            && let YamlData::List(_) = list.data
        {
            let entry = YamlEntry { key: key.to_owned(), place: list.place.clone(), value: list };
            let root = YamlNode { place: YamlPlace::File, data: YamlData::Map(vec![entry]) };
            return Ok(Self { origin: origin.to_owned(), root });
        }
        Self::parse(origin, text)
    }

    /// A tree without any key, for a run without a file.
    #[must_use]
    pub fn empty(origin: &str) -> Self {
        Self { origin: origin.to_owned(), root: YamlNode::map(YamlPlace::File) }
    }

    /// Lays one `--set key.path=value` over the tree; the value is YAML.
    ///
    /// `choices` are the paths below which exactly one key may stand, such as `optimizer`: naming another key
    /// there replaces the one before instead of joining it.
    ///
    /// # Errors
    /// When the assignment cannot be read, or leads through a list item that does not exist.
    pub fn set(&mut self, assignment: &str, choices: &[&str]) -> Result<(), YamlError> {
        set::assign(&mut self.root, assignment, choices)
    }

    /// Turns a bare value at a top-level key into the mapping that it is short for, such as `data: digits` into
    /// `data: {name: digits}`, so that more can be set beside it.
    pub fn spell_out(&mut self, key: &str, short_for: &str) {
        set::spell_out(&mut self.root, key, short_for);
    }

    /// Turns the tree into a configuration.
    ///
    /// # Errors
    /// ErrorPlace the first key or value that does not fit `T`, with its line and key path.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, YamlError> {
        NodeReader::new(&self.origin, &self.root).read()
    }

    /// Whether the tree gives a value at this key path. An empty value, as in `epochs:`, gives none.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        let Ok(steps) = steps(path) else { return false };
        let mut node = &self.root;
        for step in &steps {
            let Some((_, next)) = child(node, step) else { return false };
            node = next;
        }
        !node.is_null()
    }

    /// An error about the value at `path`, for what shows only after reading, such as settings that exclude
    /// each other.
    ///
    /// It points to where the key was given or, if it was not, to the nearest key above it that was.
    #[must_use]
    pub fn wrong(&self, path: &str, message: impl Display) -> YamlError {
        let mut place = &self.root.place;
        let mut node = &self.root;
        for step in steps(path).unwrap_or_default() {
            let Some((nearer, next)) = child(node, &step) else { break };
            (place, node) = (nearer, next);
        }
        YamlError::new(message).at(&self.origin, place, path)
    }
}

fn child<'a>(node: &'a YamlNode, step: &KeyStep) -> Option<(&'a YamlPlace, &'a YamlNode)> {
    let (key, value) = match step {
        KeyStep::Key(key) => node.entry(key).map(|entry| (&entry.place, &entry.value))?,
        KeyStep::Index(index) => node.item(*index).map(|item| (&item.place, item))?,
    };
    // A key of the file whose value came by `--set` stands for what the `--set` said.
    let place = if let YamlPlace::Set(_) = value.place { &value.place } else { key };
    Some((place, value))
}

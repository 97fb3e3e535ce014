//! A run file as a tree in which every key and value knows where it was given.
//!
//! The way of a setting: [`Tree::parse`] reads the file (`load.rs`), [`Tree::set`] lays `--set` over it
//! (`set.rs`), [`Tree::read`] turns the tree into ordinary structs (`read.rs`), and whatever is wrong on that
//! way is a [`Wrong`] (`wrong.rs`). [`to_yaml`] writes the resolved configuration (`emit.rs`).

mod emit;
mod load;
mod node;
mod read;
mod set;
#[cfg(test)]
mod tests;
mod wrong;

use std::fmt::Display;

use serde::de::DeserializeOwned;

pub use emit::to_yaml;
pub use wrong::Wrong;

use node::{Node, Place, Step, steps};
use read::Reader;

/// The keys and values of a run file.
#[derive(Clone, Debug)]
pub struct Tree {
    origin: String,
    root: Node,
}

impl Tree {
    /// Reads a run file. `origin` is the file's name as errors shall show it.
    ///
    /// # Errors
    /// When the text is no YAML, is not a mapping of unique text keys, or is unreasonably large or deep.
    pub fn parse(origin: &str, text: &str) -> Result<Self, Wrong> {
        let root = load::document(origin, text)?;
        Ok(Self { origin: origin.to_owned(), root })
    }

    /// A tree without any key, for a run without a file.
    #[must_use]
    pub fn empty(origin: &str) -> Self {
        Self { origin: origin.to_owned(), root: Node::map(Place::File) }
    }

    /// Lays one `--set key.path=value` over the tree; the value is YAML.
    ///
    /// `choices` are the paths below which exactly one key may stand, such as `optimizer`: naming another key
    /// there replaces the one before instead of joining it.
    ///
    /// # Errors
    /// When the assignment cannot be read, or leads through a list item that does not exist.
    pub fn set(&mut self, assignment: &str, choices: &[&str]) -> Result<(), Wrong> {
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
    /// At the first key or value that does not fit `T`, with its line and key path.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Wrong> {
        Reader::new(&self.origin, &self.root).read()
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
    pub fn wrong(&self, path: &str, message: impl Display) -> Wrong {
        let mut place = &self.root.place;
        let mut node = &self.root;
        for step in steps(path).unwrap_or_default() {
            let Some((nearer, next)) = child(node, &step) else { break };
            (place, node) = (nearer, next);
        }
        Wrong::new(message).at(&self.origin, place, path)
    }
}

fn child<'a>(node: &'a Node, step: &Step) -> Option<(&'a Place, &'a Node)> {
    let (key, value) = match step {
        Step::Key(key) => node.entry(key).map(|entry| (&entry.place, &entry.value))?,
        Step::Index(index) => node.item(*index).map(|item| (&item.place, item))?,
    };
    // A key of the file whose value came by `--set` stands for what the `--set` said.
    let place = if let Place::Set(_) = value.place { &value.place } else { key };
    Some((place, value))
}

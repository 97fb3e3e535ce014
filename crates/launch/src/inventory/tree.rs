//! YAML, and JSON with it, as a tree in which every key and value knows its line.

use std::collections::HashMap;
use std::path::Path;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::error::{InventoryError, short};
use super::variables::Content;

/// Far deeper than groups are nested, and shallow enough to walk by recursion.
const MAX_DEPTH: usize = 64;
/// Aliases of aliases grow exponentially.
const MAX_COPIED_NODES: usize = 100_000;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub line: usize,
    pub data: Data,
}

#[derive(Clone, Debug)]
pub(super) enum Data {
    Null,
    Text(String),
    /// Text that only ansible-vault can read.
    Encrypted,
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub line: usize,
    pub value: Node,
}

impl Node {
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    /// The value of a variable.
    pub fn content(&self) -> Content {
        match &self.data {
            Data::Null => Content::Nothing,
            Data::Text(text) => Content::Text(text.clone()),
            Data::Encrypted => Content::Encrypted,
            Data::List(_) | Data::Map(_) => Content::Compound,
        }
    }

    fn size(&self) -> usize {
        match &self.data {
            Data::List(items) => 1 + items.iter().map(Node::size).sum::<usize>(),
            Data::Map(entries) => 1 + entries.iter().map(|entry| entry.value.size()).sum::<usize>(),
            Data::Null | Data::Text(_) | Data::Encrypted => 1,
        }
    }

    fn depth(&self) -> usize {
        match &self.data {
            Data::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Data::Map(entries) => 1 + entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0),
            Data::Null | Data::Text(_) | Data::Encrypted => 0,
        }
    }
}

/// Reads a file, whose top level must be a mapping or nothing.
pub(super) fn read(path: &Path, text: &str) -> Result<Vec<Entry>, InventoryError> {
    let root = Loader::default().load(text).map_err(|(line, message)| {
        // What is missing at the end of a file is told of the line behind it.
        let last = text.lines().count().max(1);
        InventoryError::of_line(path, line.clamp(1, last), message)
    })?;
    match root.map(|node| (node.line, node.data)) {
        Some((_, Data::Map(entries))) => Ok(entries),
        None | Some((_, Data::Null)) => Ok(Vec::new()),
        Some((line, _)) => {
            let message = "expected a mapping, such as `all: {hosts: {pi1: {}, pi2: {}}}`";
            Err(InventoryError::of_line(path, line, message))
        }
    }
}

type Wrong = (usize, String);

/// Builds the tree from the parser's events, with a stack of its own, so that no input can exhaust the program's.
#[derive(Default)]
struct Loader {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    copied: usize,
    root: Option<Node>,
}

struct Open {
    line: usize,
    anchor: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: HashMap<String, usize>, key: Option<(String, usize)> },
}

impl Loader {
    fn load(mut self, text: &str) -> Result<Option<Node>, Wrong> {
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) =
                event.map_err(|error| (error.marker().line(), format!("is no YAML: {}", error.info())))?;
            self.take(event, span.start.line())?;
        }
        Ok(self.root)
    }

    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), Wrong> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err((line, "a second document begins here; an inventory is one".to_owned()))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                self.put_scalar(Node { line, data: scalar(&text, plain, tag.as_deref()) }, &text, anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(Inside::List(Vec::new()), line, anchor),
            Event::MappingStart(anchor, _) => {
                self.open(Inside::Map { entries: Vec::new(), seen: HashMap::new(), key: None }, line, anchor)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.put_alias(anchor, line),
            _ => Ok(()),
        }
    }

    fn open(&mut self, inside: Inside, line: usize, anchor: usize) -> Result<(), Wrong> {
        if self.expects_key() {
            return Err((line, "a key must be text, not a list or mapping".to_owned()));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err((line, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.open.push(Open { line, anchor, inside });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Wrong> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let data = match open.inside {
            Inside::List(items) => Data::List(items),
            Inside::Map { entries, .. } => Data::Map(merge(entries)),
        };
        self.put(Node { line: open.line, data }, open.anchor)
    }

    fn put_scalar(&mut self, node: Node, text: &str, anchor: usize) -> Result<(), Wrong> {
        if self.expects_key() { self.put_key(text, node.line) } else { self.put(node, anchor) }
    }

    fn put_alias(&mut self, anchor: usize, line: usize) -> Result<(), Wrong> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err((line, "an anchor cannot be used inside itself".to_owned()));
        };
        self.count_copy(&node)?;
        if self.open.len() + node.depth() > MAX_DEPTH {
            return Err((line, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        match (&node.data, self.expects_key()) {
            (Data::Text(text), true) => self.put_key(text, line),
            (_, true) => Err((line, "a key must be text".to_owned())),
            (_, false) => self.put(node, 0),
        }
    }

    fn put_key(&mut self, text: &str, line: usize) -> Result<(), Wrong> {
        let Some(Open { inside: Inside::Map { seen, key, .. }, .. }) = self.open.last_mut() else {
            return Ok(());
        };
        if let Some(first) = seen.insert(text.to_owned(), line) {
            return Err((line, format!("the key `{}` is given twice, first on line {first}", short(text))));
        }
        *key = Some((text.to_owned(), line));
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<(), Wrong> {
        // Anchors are numbered from 1; 0 is none.
        if anchor > 0 {
            self.count_copy(&node)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.root = Some(node),
            Some(Inside::List(items)) => items.push(node),
            Some(Inside::Map { entries, key, .. }) => {
                if let Some((key, line)) = key.take() {
                    entries.push(Entry { key, line, value: node });
                }
            }
        }
        Ok(())
    }

    fn count_copy(&mut self, node: &Node) -> Result<(), Wrong> {
        self.copied += node.size();
        if self.copied > MAX_COPIED_NODES {
            return Err((node.line, format!("anchors repeat more than {MAX_COPIED_NODES} values")));
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { inside: Inside::Map { key: None, .. }, .. }))
    }
}

fn scalar(text: &str, plain: bool, tag: Option<&Tag>) -> Data {
    match tag.map(|tag| tag.suffix.as_str()) {
        Some("vault" | "vault-encrypted") => Data::Encrypted,
        None if plain && matches!(text, "" | "~" | "null" | "Null" | "NULL") => Data::Null,
        _ => Data::Text(text.to_owned()),
    }
}

/// Takes the mappings of `<<` in, under the keys that stand beside it.
fn merge(entries: Vec<Entry>) -> Vec<Entry> {
    if entries.iter().all(|entry| entry.key != "<<") {
        return entries;
    }
    let (merges, mut own): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.key == "<<");
    let mut sources = Vec::new();
    for entry in merges {
        match entry.value.data {
            Data::List(items) => sources.extend(items),
            _ => sources.push(entry.value),
        }
    }
    for source in sources {
        let Data::Map(entries) = source.data else { continue };
        for entry in entries {
            if own.iter().all(|known| known.key != entry.key) {
                own.push(entry);
            }
        }
    }
    own
}

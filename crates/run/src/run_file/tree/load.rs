use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::node::{Data, Entry, Meaning, Node, Place, Scalar, below};
use super::wrong::{Wrong, short};

const MAX_BYTES: usize = 1 << 20;
/// As long as YAML lets an ordinary key be.
const MAX_KEY_BYTES: usize = 1024;
/// Far deeper than any configuration, and shallow enough to walk by recursion.
pub(super) const MAX_DEPTH: usize = 64;
pub(super) const TOO_DEEP: &str = "nested deeper than 64 levels";
/// Aliases of aliases grow exponentially; a run file repeats a handful of values.
const MAX_COPIED_NODES: usize = 100_000;

/// Reads a whole file, whose top level must be a mapping.
pub(super) fn document(origin: &str, text: &str) -> Result<Node, Wrong> {
    if text.len() > MAX_BYTES {
        let message = format!("expected at most {MAX_BYTES} bytes, found {}", text.len());
        return Err(Wrong::new(message).at(origin, &Place::File, ""));
    }
    let root = Loader::new(origin, None).load(text)?;
    let found = match root.data {
        Data::Map(_) => return Ok(Node { place: Place::File, ..root }),
        Data::Scalar(_) if root.is_null() => return Ok(Node::map(Place::File)),
        Data::Scalar(scalar) => format!("the text \"{}\"", short(&scalar.text)),
        Data::List(_) => "a list".to_owned(),
    };
    let message = format!("expected keys with values, such as `epochs: 5`, found {found}");
    Err(Wrong::new(message).at(origin, &root.place, ""))
}

/// Reads the value behind a `--set`.
pub(super) fn value(text: &str, assignment: &Arc<str>) -> Result<Node, Wrong> {
    Loader::new("", Some(Arc::clone(assignment))).load(text)
}

/// Reads JSON, of which YAML is a superset.
pub(super) fn json(text: &str) -> Result<Node, Wrong> {
    Loader::new("", None).load(text)
}

/// Builds the tree from the parser's events. It keeps the open lists and mappings on a stack of its own, so
/// that no input can exhaust the program's.
struct Loader<'a> {
    origin: &'a str,
    set: Option<Arc<str>>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    copied: usize,
    root: Option<Node>,
}

/// A list or mapping whose end has not been read yet.
struct Open {
    place: Place,
    anchor: usize,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: HashMap<String, Place>, key: Option<(String, Place)> },
}

impl<'a> Loader<'a> {
    fn new(origin: &'a str, set: Option<Arc<str>>) -> Self {
        Self { origin, set, open: Vec::new(), anchors: HashMap::new(), copied: 0, root: None }
    }

    fn load(mut self, text: &str) -> Result<Node, Wrong> {
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| self.unreadable(text, &error))?;
            self.take(event, self.place(span.start.line()))?;
        }
        Ok(self.root.unwrap_or_else(|| Node::null(Place::File)))
    }

    fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), Wrong> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(self.wrong(&place, "a second document starts here; a run file holds only one"))
            }
            Event::DocumentStart(_) | Event::DocumentEnd => Ok(()),
            Event::Nothing | Event::StreamStart | Event::StreamEnd => Ok(()),
            Event::Scalar(text, style, anchor, tag) => {
                let tagged_text = self.is_text_tag(tag.as_deref(), &place)?;
                let plain = style == ScalarStyle::Plain && !tagged_text;
                self.put_scalar(Scalar { text: text.into_owned(), plain }, place, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(Inside::List(Vec::new()), place, anchor, tag.as_deref())
            }
            Event::MappingStart(anchor, tag) => {
                let inside = Inside::Map { entries: Vec::new(), seen: HashMap::new(), key: None };
                self.open(inside, place, anchor, tag.as_deref())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.put_alias(anchor, &place),
        }
    }

    fn open(&mut self, inside: Inside, place: Place, anchor: usize, tag: Option<&Tag>) -> Result<(), Wrong> {
        if let Some(tag) = tag {
            return Err(self.tagged(tag, &place));
        }
        if self.expects_key() {
            return Err(self.wrong(&place, "a key must be text, not a list or mapping"));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(self.wrong(&place, TOO_DEEP));
        }
        let place = self.key_place().cloned().unwrap_or(place);
        self.open.push(Open { place, anchor, inside });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Wrong> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let data = match open.inside {
            Inside::List(items) => Data::List(items),
            Inside::Map { entries, .. } => Data::Map(entries),
        };
        self.put(Node { place: open.place, data }, open.anchor)
    }

    fn put_scalar(&mut self, scalar: Scalar, place: Place, anchor: usize) -> Result<(), Wrong> {
        // Nothing stands nowhere: the parser places an empty value at what follows it.
        let place = match self.key_place() {
            Some(key) if scalar.text.is_empty() => key.clone(),
            _ => place,
        };
        let node = Node { place, data: Data::Scalar(scalar) };
        if !self.expects_key() {
            return self.put(node, anchor);
        }
        self.remember(&node, anchor)?;
        self.put_key(node)
    }

    fn put_alias(&mut self, anchor: usize, place: &Place) -> Result<(), Wrong> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(self.wrong(place, "an anchor cannot be used inside itself"));
        };
        self.count_copy(&node, place)?;
        if self.open.len() + node.depth() > MAX_DEPTH {
            return Err(self.wrong(place, TOO_DEEP));
        }
        if self.expects_key() { self.put_key(node) } else { self.put(node, 0) }
    }

    fn put_key(&mut self, node: Node) -> Result<(), Wrong> {
        let Node { place, data: Data::Scalar(scalar) } = node else {
            return Err(self.wrong(&node.place, "a key must be text, not a list or mapping"));
        };
        if !matches!(scalar.meaning(), Meaning::Text(_)) {
            let message =
                format!("a key must be text; to make `{}` text, put it in quotes", short(&scalar.text));
            return Err(self.wrong(&place, message));
        }
        if scalar.text.len() > MAX_KEY_BYTES {
            return Err(self.wrong(&place, format!("expected a key of at most {MAX_KEY_BYTES} bytes")));
        }
        let path = self.path();
        let Some(Open { inside: Inside::Map { seen, key, .. }, .. }) = self.open.last_mut() else {
            return Ok(());
        };
        if let Some(first) = seen.insert(scalar.text.clone(), place.clone()) {
            let first =
                if let Place::Line(line) = first { format!(", first on line {line}") } else { String::new() };
            let wrong = Wrong::new(format!("the key is given twice{first}"));
            return Err(wrong.at(self.origin, &place, &below(&path, &scalar.text)));
        }
        *key = Some((scalar.text, place));
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<(), Wrong> {
        self.remember(&node, anchor)?;
        match self.open.last_mut().map(|open| &mut open.inside) {
            None => self.root = Some(node),
            Some(Inside::List(items)) => items.push(node),
            Some(Inside::Map { entries, key, .. }) => {
                if let Some((key, place)) = key.take() {
                    entries.push(Entry { key, place, value: node });
                }
            }
        }
        Ok(())
    }

    /// Anchors are numbered from 1; 0 is none.
    fn remember(&mut self, node: &Node, anchor: usize) -> Result<(), Wrong> {
        if anchor > 0 {
            self.count_copy(node, &node.place)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(())
    }

    fn count_copy(&mut self, node: &Node, place: &Place) -> Result<(), Wrong> {
        self.copied += node.size();
        if self.copied > MAX_COPIED_NODES {
            return Err(self.wrong(place, format!("anchors repeat more than {MAX_COPIED_NODES} values")));
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { inside: Inside::Map { key: None, .. }, .. }))
    }

    fn key_place(&self) -> Option<&Place> {
        match self.open.last() {
            Some(Open { inside: Inside::Map { key: Some((_, place)), .. }, .. }) => Some(place),
            _ => None,
        }
    }

    fn is_text_tag(&self, tag: Option<&Tag>, place: &Place) -> Result<bool, Wrong> {
        match tag {
            None => Ok(false),
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Ok(true),
            Some(tag) => Err(self.tagged(tag, place)),
        }
    }

    fn tagged(&self, tag: &Tag, place: &Place) -> Wrong {
        let name = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
        self.wrong(place, format!("the tag `{}` has no meaning here; leave it out", short(&name)))
    }

    fn unreadable(&self, text: &str, error: &ScanError) -> Wrong {
        let (line, message) = complaint(text, error.marker().line(), error.info());
        Wrong::new(message).at(self.origin, &self.place(line), "")
    }

    fn place(&self, line: usize) -> Place {
        match &self.set {
            Some(assignment) => Place::Set(Arc::clone(assignment)),
            None => Place::Line(line),
        }
    }

    fn wrong(&self, place: &Place, message: impl Display) -> Wrong {
        Wrong::new(message).at(self.origin, place, &self.path())
    }

    /// The key path of what is being read.
    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| match &open.inside {
            Inside::List(items) => format!("{path}[{}]", items.len()),
            Inside::Map { key: Some((key, _)), .. } => below(&path, key),
            Inside::Map { key: None, .. } => path,
        })
    }
}

/// The parser's commonest complaints, in words that say what to do.
const COMPLAINTS: &[(&str, &str)] = &[
    ("simple key expect", "a key must be followed by `: ` and its value"),
    (
        "mapping values are not allowed",
        "`: ` cannot stand here; look at the indentation, the space after each `:` and the quotes",
    ),
    ("illegal placement of ':'", "`:` cannot stand here; a `[` or `{` above may lack its end"),
    ("flow sequence, expected", "a list that opens with `[` lacks its `,` or `]`"),
    ("flow mapping, did not find", "a mapping that opens with `{` lacks its `,` or `}`"),
    ("unknown anchor", "no anchor of this name; put text that starts with `*` in quotes"),
    ("unexpected end of stream", "a text in quotes lacks its closing quote"),
    ("block mapping, did not find expected key", "expected a key, indented like the keys around it"),
    ("unexpected character", "text that starts with a special character must stand in quotes"),
    ("invalid trailing content", "nothing may follow the closing quote"),
    ("invalid indentation", "expected the line to be indented like the lines around it"),
    ("recursion limit", TOO_DEEP),
];

/// What to say about a text that the parser refused, and of which line.
fn complaint<'a>(text: &str, line: usize, info: &'a str) -> (usize, &'a str) {
    let lines = || text.lines().enumerate().map(|(index, text)| (index + 1, text));
    let tab = |text: &str| text.trim_start_matches(' ').starts_with('\t');
    if let Some((line, _)) = lines().find(|&(number, text)| number.abs_diff(line) <= 1 && tab(text)) {
        return (line, "a tab cannot indent a line; use spaces");
    }
    // That a line is no key, or that something is missing, shows only where the next thing begins.
    let late = info == "simple key expect ':'" || line > text.lines().count();
    let written = |text: &str| !text.trim().is_empty() && !text.trim().starts_with('#');
    let before = lines().filter(|&(number, text)| number < line && written(text)).last();
    let line = before.filter(|_| late).map_or(line, |(number, _)| number);
    (line, COMPLAINTS.iter().find(|(part, _)| info.contains(part)).map_or(info, |(_, words)| words))
}

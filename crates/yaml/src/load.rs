use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::error::short;
use crate::key_path::below;
use crate::node::{Meaning, ScalarForm, YamlData, YamlEntry, YamlNode, YamlPlace, YamlScalar};

/// As long as YAML lets an ordinary key be.
const MAX_KEY_BYTES: usize = 1024;
/// Far deeper than any configuration, and shallow enough to walk by recursion.
pub(crate) const MAX_DEPTH: usize = 64;
pub(crate) const TOO_DEEP: &str = "nested deeper than 64 levels";
/// Aliases of aliases grow exponentially; a file repeats a handful of values.
const MAX_COPIED_NODES: usize = 100_000;

/// How much of YAML a file may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// For files that are written for this program: every key is text, and the only tag is `!!str`.
    Strict,
    /// For files that other programs read too: every scalar may be a key, `<<` takes the keys of other mappings in, a
    /// scalar keeps its tag, and tags of lists and mappings mean nothing.
    Lenient,
}

/// Why a text was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Counted from 1. What is missing at the end of a text is found on the line behind it.
    pub line: usize,
    /// The keys that lead to the fault, such as `global_server.local_servers[1]`.
    pub path: String,
    pub fault: LoadFault,
}

/// What is wrong with a text. Callers have words of their own for some faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadFault {
    /// The text is no YAML, in the words of the parser.
    NoYaml(String),
    SecondDocument,
    KeyTwice {
        key: String,
        first_line: usize,
    },
    /// Anything else, in words.
    Refused(String),
}

/// Reads one document, in which every key and value has its line. A text without a value is a null.
///
/// # Errors
/// When the text is no YAML or has more than one document; where a mapping has a key twice, or a key that the dialect
/// does not allow; when values are nested too deep, or aliases repeat too many of them.
pub fn load(text: &str, dialect: Dialect) -> Result<YamlNode, LoadError> {
    let mut loader = TreeLoader { dialect, open: Vec::new(), anchors: HashMap::new(), copied: 0, root: None };
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| LoadError {
            line: error.marker().line(),
            path: String::new(),
            fault: LoadFault::NoYaml(error.info().to_owned()),
        })?;
        loader.take(event, span.start.line())?;
    }
    Ok(loader.root.unwrap_or_else(|| YamlNode::null(YamlPlace::File)))
}

/// Builds the tree from the parser's events. It keeps the open lists and mappings on a stack of its own, so
/// that no input can exhaust the program's.
struct TreeLoader {
    dialect: Dialect,
    open: Vec<OpenNode>,
    anchors: HashMap<usize, YamlNode>,
    copied: usize,
    root: Option<YamlNode>,
}

/// A list or mapping whose end has not been read yet.
struct OpenNode {
    line: usize,
    anchor: usize,
    content: OpenContent,
}

enum OpenContent {
    List(Vec<YamlNode>),
    Map { entries: Vec<YamlEntry>, seen: HashMap<String, usize>, key: Option<(String, usize)> },
}

impl TreeLoader {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), LoadError> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(LoadError { line, path: String::new(), fault: LoadFault::SecondDocument })
            }
            Event::DocumentStart(_) | Event::DocumentEnd => Ok(()),
            Event::Nothing | Event::StreamStart | Event::StreamEnd => Ok(()),
            Event::Scalar(text, style, anchor, tag) => {
                let form = self.form(style, tag.as_deref(), line)?;
                self.put_scalar(YamlScalar { text: text.into_owned(), form }, line, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(OpenContent::List(Vec::new()), line, anchor, tag.as_deref())
            }
            Event::MappingStart(anchor, tag) => {
                let content = OpenContent::Map { entries: Vec::new(), seen: HashMap::new(), key: None };
                self.open(content, line, anchor, tag.as_deref())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.put_alias(anchor, line),
        }
    }

    fn form(&self, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<ScalarForm, LoadError> {
        match tag {
            None if style == ScalarStyle::Plain => Ok(ScalarForm::Plain),
            None => Ok(ScalarForm::Quoted),
            Some(tag) if self.dialect == Dialect::Lenient => Ok(ScalarForm::Tagged(tag.suffix.clone())),
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Ok(ScalarForm::Quoted),
            Some(tag) => Err(self.tagged(tag, line)),
        }
    }

    fn open(
        &mut self,
        content: OpenContent,
        line: usize,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), LoadError> {
        if let Some(tag) = tag.filter(|_| self.dialect == Dialect::Strict) {
            return Err(self.tagged(tag, line));
        }
        if self.expects_key() {
            return Err(self.refused(line, "a key must be text, not a list or mapping"));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(self.refused(line, TOO_DEEP));
        }
        let line = self.key_line().unwrap_or(line);
        self.open.push(OpenNode { line, anchor, content });
        Ok(())
    }

    fn close(&mut self) -> Result<(), LoadError> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let data = match open.content {
            OpenContent::List(items) => YamlData::List(items),
            OpenContent::Map { entries, .. } => YamlData::Map(match self.dialect {
                Dialect::Strict => entries,
                Dialect::Lenient => merge(entries),
            }),
        };
        self.put(YamlNode { place: YamlPlace::Line(open.line), data }, open.anchor)
    }

    fn put_scalar(&mut self, scalar: YamlScalar, line: usize, anchor: usize) -> Result<(), LoadError> {
        // Nothing stands nowhere: the parser places an empty value at what follows it.
        let line = self.key_line().filter(|_| scalar.text.is_empty()).unwrap_or(line);
        let node = YamlNode { place: YamlPlace::Line(line), data: YamlData::Scalar(scalar) };
        if !self.expects_key() {
            return self.put(node, anchor);
        }
        self.remember(&node, anchor)?;
        self.put_key(node)
    }

    fn put_alias(&mut self, anchor: usize, line: usize) -> Result<(), LoadError> {
        let Some(mut node) = self.anchors.get(&anchor).cloned() else {
            return Err(self.refused(line, "an anchor cannot be used inside itself"));
        };
        self.count_copy(&node, line)?;
        if self.open.len() + node.depth() > MAX_DEPTH {
            return Err(self.refused(line, TOO_DEEP));
        }
        if !self.expects_key() {
            return self.put(node, 0);
        }
        if self.dialect == Dialect::Lenient {
            node.place = YamlPlace::Line(line);
        }
        self.put_key(node)
    }

    fn put_key(&mut self, node: YamlNode) -> Result<(), LoadError> {
        let line = node.place.line();
        let YamlData::Scalar(scalar) = node.data else {
            return Err(self.refused(line, "a key must be text, not a list or mapping"));
        };
        if self.dialect == Dialect::Strict {
            self.check_key(&scalar, line)?;
        }
        let Some(OpenNode { content: OpenContent::Map { seen, key, .. }, .. }) = self.open.last_mut() else {
            return Ok(());
        };
        if let Some(first_line) = seen.insert(scalar.text.clone(), line) {
            let path = below(&self.path(), &scalar.text);
            return Err(LoadError {
                line,
                path,
                fault: LoadFault::KeyTwice { key: scalar.text, first_line },
            });
        }
        *key = Some((scalar.text, line));
        Ok(())
    }

    fn check_key(&self, scalar: &YamlScalar, line: usize) -> Result<(), LoadError> {
        if !matches!(scalar.meaning(), Meaning::Text(_)) {
            let key = short(&scalar.text);
            return Err(
                self.refused(line, format!("a key must be text; to make `{key}` text, put it in quotes"))
            );
        }
        if scalar.text.len() > MAX_KEY_BYTES {
            return Err(self.refused(line, format!("expected a key of at most {MAX_KEY_BYTES} bytes")));
        }
        Ok(())
    }

    fn put(&mut self, node: YamlNode, anchor: usize) -> Result<(), LoadError> {
        self.remember(&node, anchor)?;
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(OpenContent::List(items)) => items.push(node),
            Some(OpenContent::Map { entries, key, .. }) => {
                if let Some((key, line)) = key.take() {
                    entries.push(YamlEntry { key, place: YamlPlace::Line(line), value: node });
                }
            }
        }
        Ok(())
    }

    /// Anchors are numbered from 1; 0 is none.
    fn remember(&mut self, node: &YamlNode, anchor: usize) -> Result<(), LoadError> {
        if anchor > 0 {
            self.count_copy(node, node.place.line())?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(())
    }

    fn count_copy(&mut self, node: &YamlNode, line: usize) -> Result<(), LoadError> {
        self.copied += node.size();
        if self.copied > MAX_COPIED_NODES {
            return Err(self.refused(line, format!("anchors repeat more than {MAX_COPIED_NODES} values")));
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(OpenNode { content: OpenContent::Map { key: None, .. }, .. }))
    }

    /// The line of the key whose value comes next.
    fn key_line(&self) -> Option<usize> {
        match &self.open.last()?.content {
            OpenContent::Map { key, .. } => key.as_ref().map(|&(_, line)| line),
            OpenContent::List(_) => None,
        }
    }

    fn tagged(&self, tag: &Tag, line: usize) -> LoadError {
        let name = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
        self.refused(line, format!("the tag `{}` has no meaning here; leave it out", short(&name)))
    }

    fn refused(&self, line: usize, message: impl Into<String>) -> LoadError {
        LoadError { line, path: self.path(), fault: LoadFault::Refused(message.into()) }
    }

    /// The key path of what is being read.
    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| match &open.content {
            OpenContent::List(items) => format!("{path}[{}]", items.len()),
            OpenContent::Map { key: Some((key, _)), .. } => below(&path, key),
            OpenContent::Map { key: None, .. } => path,
        })
    }
}

/// Takes the mappings of `<<` in, under the keys that stand beside it.
fn merge(entries: Vec<YamlEntry>) -> Vec<YamlEntry> {
    let (merges, mut own): (Vec<YamlEntry>, Vec<YamlEntry>) =
        entries.into_iter().partition(|entry| entry.key == "<<");
    let sources = merges.into_iter().flat_map(|entry| match entry.value.data {
        YamlData::List(items) => items,
        _ => vec![entry.value],
    });
    for source in sources {
        let YamlData::Map(entries) = source.data else { continue };
        for entry in entries {
            if own.iter().all(|known| known.key != entry.key) {
                own.push(entry);
            }
        }
    }
    own
}

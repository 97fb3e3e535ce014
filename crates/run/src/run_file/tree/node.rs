use std::sync::Arc;

/// A value of the tree.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub place: Place,
    pub data: Data,
}

#[derive(Clone, Debug)]
pub(super) enum Data {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value. The key has a place of its own, because it alone may be wrong.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub place: Place,
    pub value: Node,
}

/// Where a key or value was given.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Somewhere in the file, or nowhere: a default.
    File,
    /// A line of the file, counted from 1.
    Line(usize),
    /// The text after `--set`.
    Set(Arc<str>),
}

/// A scalar as it was written. What it means depends on whether it was quoted, and a key that wants text may
/// take a plain `1.0` as the text it is.
#[derive(Clone, Debug)]
pub(super) struct Scalar {
    pub text: String,
    pub plain: bool,
}

/// What a scalar means by the core schema of YAML 1.2.
#[derive(Debug, PartialEq)]
pub(super) enum Meaning<'a> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'a str),
}

/// One step of a key path such as `local_servers[1].num_workers`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

impl Node {
    pub fn map(place: Place) -> Self {
        Self { place, data: Data::Map(Vec::new()) }
    }

    pub fn null(place: Place) -> Self {
        Self { place, data: Data::Scalar(Scalar { text: String::new(), plain: true }) }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.data, Data::Scalar(scalar) if scalar.meaning() == Meaning::Null)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Data::Scalar(_) | Data::List(_) => None,
        }
    }

    pub fn item(&self, index: usize) -> Option<&Node> {
        match &self.data {
            Data::List(items) => items.get(index),
            Data::Scalar(_) | Data::Map(_) => None,
        }
    }

    /// How many nodes a copy of this one would make.
    pub fn size(&self) -> usize {
        match &self.data {
            Data::Scalar(_) => 1,
            Data::List(items) => 1 + items.iter().map(Node::size).sum::<usize>(),
            Data::Map(entries) => 1 + entries.iter().map(|entry| entry.value.size()).sum::<usize>(),
        }
    }

    /// How many lists and mappings lie inside each other here.
    pub fn depth(&self) -> usize {
        match &self.data {
            Data::Scalar(_) => 0,
            Data::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Data::Map(entries) => 1 + entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0),
        }
    }
}

impl Scalar {
    pub fn meaning(&self) -> Meaning<'_> {
        if self.plain { plain_meaning(&self.text) } else { Meaning::Text(&self.text) }
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

/// Takes a key path apart, or says what is wrong with it.
pub(super) fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, indices) = part.find('[').map_or((part, ""), |at| part.split_at(at));
        if key.is_empty() {
            return Err(format!("`{path}` is no key path; write it like `optimizer.adam.lr`"));
        }
        steps.push(Step::Key(key.to_owned()));
        for index in indices.split_inclusive(']') {
            let number = index.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let number = number.and_then(|digits| digits.parse().ok());
            let wrong = || format!("`{part}` is no list item; write it like `local_servers[0]`");
            steps.push(Step::Index(number.ok_or_else(wrong)?));
        }
    }
    Ok(steps)
}

/// The path of `key` in the mapping at `path`.
pub(super) fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

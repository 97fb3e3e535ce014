use std::sync::Arc;

use crate::error::YamlError;
use crate::load::{LoadError, LoadFault, TOO_DEEP};
use crate::node::YamlPlace;

impl LoadError {
    /// Says what to do about the fault, to somebody who wrote `text` into the file `origin` or behind `--set`.
    pub(crate) fn in_words(self, origin: &str, text: &str, assignment: Option<&Arc<str>>) -> YamlError {
        let mut line = self.line;
        let message = match self.fault {
            LoadFault::NoYaml(info) => {
                let (nearer, message) = complaint(text, line, &info);
                line = nearer;
                message.to_owned()
            }
            LoadFault::SecondDocument => {
                "a second document starts here; a run file holds only one".to_owned()
            }
            LoadFault::KeyTwice { .. } if assignment.is_some() => "the key is given twice".to_owned(),
            LoadFault::KeyTwice { first_line, .. } => {
                format!("the key is given twice, first on line {first_line}")
            }
            LoadFault::Refused(message) => message,
        };
        let place = assignment.map_or(YamlPlace::Line(line), |text| YamlPlace::Set(Arc::clone(text)));
        YamlError::new(message).at(origin, &place, &self.path)
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

use std::borrow::Cow;
use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};

use crate::node::YamlPlace;

/// Something in a file or behind `--set` that cannot be right: where, at which key, and what would be.
///
/// In a box, because reading any value may end with one: what is handed on at every step has to be small.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlError(Box<YamlFault>);

#[derive(Clone, Debug, PartialEq)]
struct YamlFault {
    message: String,
    /// Unknown while a value is being read: whoever knows the value adds it.
    at: Option<ErrorPlace>,
}

#[derive(Clone, Debug, PartialEq)]
struct ErrorPlace {
    place: String,
    path: String,
}

impl YamlError {
    pub fn new(message: impl Display) -> Self {
        Self::of(message.to_string())
    }

    fn of(message: String) -> Self {
        Self(Box::new(YamlFault { message, at: None }))
    }

    /// Adds the place, unless somebody nearer to the cause has done so.
    pub(crate) fn at(mut self, origin: &str, place: &YamlPlace, path: &str) -> Self {
        self.0.at.get_or_insert_with(|| ErrorPlace::new(origin, place, path));
        self
    }
}

impl ErrorPlace {
    fn new(origin: &str, place: &YamlPlace, path: &str) -> Self {
        let mut path = path.to_owned();
        let place = match place {
            YamlPlace::File => origin.to_owned(),
            YamlPlace::Line(line) => format!("{origin}:{line}"),
            YamlPlace::Set(assignment) => {
                // The assignment opens with its own path, which need not be read twice.
                if assignment.split_once('=').is_some_and(|(key, _)| key.trim() == path) {
                    path.clear();
                }
                format!("--set {assignment}")
            }
        };
        Self { place, path }
    }
}

impl Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.at.iter().flat_map(|at| [&at.place, &at.path]).filter(|part| !part.is_empty()) {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for YamlError {}

impl de::Error for YamlError {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(message)
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::of(format!("expected {}, found {}", words(&expected.to_string()), found_words(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::of(format!("expected {}, found {length}", words(&expected.to_string())))
    }

    fn unknown_variant(given: &str, known: &'static [&'static str]) -> Self {
        let list = known.join(", ");
        let hint = match nearest(given, known) {
            Some(near) => format!("did you mean `{near}`? Known: {list}"),
            None if known.is_empty() => "none is known here".to_owned(),
            None => format!("known: {list}"),
        };
        Self::of(format!("unknown choice `{}`; {hint}", short(given)))
    }

    fn unknown_field(given: &str, known: &'static [&'static str]) -> Self {
        let hint = match nearest(given, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "none is known here".to_owned(),
            None => format!("known: {}", known.join(", ")),
        };
        Self::of(format!("unknown key `{}`; {hint}", short(given)))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::of(format!("the key `{field}` is missing"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::of(format!("`{field}` is given twice, once by another of its names"))
    }
}

/// What serde calls expected, in the words of somebody who writes a run file. Hand-written visitors already
/// use such words, so what is not known here stays as it is.
fn words(expected: &str) -> Cow<'_, str> {
    if let Some(range) = whole_numbers(expected) {
        return range.into();
    }
    if let Some(size) =
        ["a tuple of size ", "an array of length "].iter().find_map(|p| expected.strip_prefix(p))
    {
        return format!("a list of {size} values").into();
    }
    match expected {
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" => "text".into(),
        "path string" => "a path".into(),
        "a sequence" => "a list".into(),
        "a map" => "a mapping".into(),
        _ if expected.starts_with("struct ") => "a mapping".into(),
        _ => expected.into(),
    }
}

fn whole_numbers(expected: &str) -> Option<String> {
    let (kind, zero) = match expected.strip_prefix("a nonzero ") {
        Some(kind) => (kind, false),
        None => (expected, true),
    };
    let range = match kind {
        "u8" => Some((0, i64::from(u8::MAX))),
        "u16" => Some((0, i64::from(u16::MAX))),
        "u32" => Some((0, i64::from(u32::MAX))),
        "i8" => Some((i64::from(i8::MIN), i64::from(i8::MAX))),
        "i16" => Some((i64::from(i16::MIN), i64::from(i16::MAX))),
        "i32" => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
        "u64" | "u128" | "usize" | "i64" | "i128" | "isize" => None,
        _ => return None,
    };
    Some(match (range, kind.starts_with('u'), zero) {
        (Some((0, most)), _, _) => format!("a whole number from {} to {most}", u8::from(!zero)),
        (None, true, _) => format!("a whole number, {} or more", u8::from(!zero)),
        (Some((least, most)), _, true) => format!("a whole number from {least} to {most}"),
        (None, false, true) => "a whole number".to_owned(),
        (_, _, false) => "a whole number other than 0".to_owned(),
    })
}

fn found_words(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => format!("{value:?}"),
        Unexpected::Char(value) => format!("the text \"{value}\""),
        Unexpected::Str(value) => format!("the text \"{}\"", short(value)),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a mapping".to_owned(),
        other => other.to_string(),
    }
}

/// Texts longer than this tell nothing more about the mistake.
const SHORT_CHARS: usize = 60;

pub(crate) fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHORT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// The known word that was probably meant. The edit distance finds slips of the finger, Jaro–Winkler words
/// left unfinished.
fn nearest(given: &str, known: &[&'static str]) -> Option<&'static str> {
    if given.chars().nth(SHORT_CHARS).is_some() {
        return None;
    }
    let fold = |word: &str| word.to_lowercase().replace(['-', ' '], "_");
    let given = fold(given);
    let scored = known.iter().filter_map(|&word| {
        let slips = strsim::normalized_damerau_levenshtein(&given, &fold(word));
        let start = strsim::jaro_winkler(&given, &fold(word));
        (slips >= 0.6 || start >= 0.88).then_some((slips + start, word))
    });
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
}

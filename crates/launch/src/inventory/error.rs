use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong with an inventory, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryError {
    file: Option<PathBuf>,
    line: Option<usize>,
    message: String,
}

impl InventoryError {
    /// About text that stands in no file.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { file: None, line: None, message: message.into() }
    }

    pub(super) fn of_file(file: &Path, message: impl Into<String>) -> Self {
        Self { file: Some(file.to_owned()), line: None, message: message.into() }
    }

    pub(super) fn of_line(file: &Path, line: usize, message: impl Into<String>) -> Self {
        Self { file: Some(file.to_owned()), line: Some(line), message: message.into() }
    }

    /// The line that is wrong, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for InventoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}: {}", file.display(), self.message),
            (Some(file), None) => write!(f, "{} {}", file.display(), self.message),
            (None, _) => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for InventoryError {}

/// As much of a text as an error can show.
pub(super) fn short(text: &str) -> String {
    const SHOWN: usize = 60;
    let clean = |text: &str| text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", clean(&text[..end]) as String),
        None => clean(text),
    }
}

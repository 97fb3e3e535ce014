use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong with an inventory, where, and what would be right. In a box, so that results stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryError(Box<InventoryFault>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct InventoryFault {
    file: Option<PathBuf>,
    line: Option<usize>,
    message: String,
}

impl InventoryError {
    /// About text that stands in no file.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::at(None, None, message.into())
    }

    pub(super) fn of_file(file: &Path, message: impl Into<String>) -> Self {
        Self::at(Some(file), None, message.into())
    }

    pub(super) fn of_line(file: &Path, line: usize, message: impl Into<String>) -> Self {
        Self::at(Some(file), Some(line), message.into())
    }

    fn at(file: Option<&Path>, line: Option<usize>, message: String) -> Self {
        Self(Box::new(InventoryFault { file: file.map(Path::to_owned), line, message }))
    }

    /// The line that is wrong, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.0.line
    }
}

impl fmt::Display for InventoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InventoryFault { file, line, message } = &*self.0;
        match (file, line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}: {message}", file.display()),
            (Some(file), None) => write!(f, "{} {message}", file.display()),
            (None, _) => f.write_str(message),
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

use std::fmt;
use std::path::{Path, PathBuf};

/// What can be wrong with what a user gave us. Each says where, and what would be right.
#[derive(Debug)]
pub enum Error {
    /// A file could not be read or written.
    Io { path: PathBuf, source: std::io::Error },
    /// A file is not what it should be; `line` counts from 1 where the format has lines.
    Format { path: PathBuf, line: Option<usize>, message: String },
    /// A data set or setting that does not fit the others.
    Mismatch(String),
}

/// The result of anything in this crate that depends on what a user gave.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// For `map_err` on an operation on `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// A file that is not what it should be, as a whole.
    pub(crate) fn format(path: &Path, message: impl Into<String>) -> Self {
        Self::Format { path: path.to_owned(), line: None, message: message.into() }
    }

    /// A file that is not what it should be, at a line counted from 1.
    pub(crate) fn line(path: &Path, line: usize, message: impl Into<String>) -> Self {
        Self::Format { path: path.to_owned(), line: Some(line), message: message.into() }
    }
}

/// For those who load data and build a model of their shape, and tell a user of either in the same way.
impl From<bonfire_learn::Error> for Error {
    fn from(error: bonfire_learn::Error) -> Self {
        Self::Mismatch(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Format { path, line: Some(line), message } => {
                write!(f, "{}:{line}: {message}", path.display())
            }
            Self::Format { path, line: None, message } => write!(f, "{}: {message}", path.display()),
            Self::Mismatch(message) => f.write_str(message),
        }
    }
}

// What a system said is in the words above, so it is no source: it would be said twice.
impl std::error::Error for Error {}

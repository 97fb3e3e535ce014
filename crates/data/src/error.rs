use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong with what a user gave us: where, and what would be right. In a box, so that results stay small.
#[derive(Debug)]
pub struct Error(Box<DataFault>);

/// The ways in which something can be wrong.
#[derive(Debug)]
pub(crate) enum DataFault {
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
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| DataFault::Io { path: path.to_owned(), source }.into()
    }

    /// A file that is not what it should be, as a whole.
    pub(crate) fn format(path: &Path, message: impl Into<String>) -> Self {
        DataFault::Format { path: path.to_owned(), line: None, message: message.into() }.into()
    }

    /// A file that is not what it should be, at a line counted from 1.
    pub(crate) fn line(path: &Path, line: usize, message: impl Into<String>) -> Self {
        DataFault::Format { path: path.to_owned(), line: Some(line), message: message.into() }.into()
    }

    /// A data set or setting that does not fit the others.
    pub fn mismatch(message: impl Into<String>) -> Self {
        DataFault::Mismatch(message.into()).into()
    }

    /// What the system said, if a file could not be read or written.
    pub fn system(&self) -> Option<&std::io::Error> {
        match self.fault() {
            DataFault::Io { source, .. } => Some(source),
            DataFault::Format { .. } | DataFault::Mismatch(_) => None,
        }
    }

    /// What does not fit, if it is no file that is at fault.
    pub fn misfit(&self) -> Option<&str> {
        match self.fault() {
            DataFault::Mismatch(message) => Some(message),
            DataFault::Io { .. } | DataFault::Format { .. } => None,
        }
    }

    pub(crate) fn fault(&self) -> &DataFault {
        &self.0
    }
}

impl From<DataFault> for Error {
    fn from(fault: DataFault) -> Self {
        Self(Box::new(fault))
    }
}

/// For those who load data and build a model of their shape, and tell a user of either in the same way.
impl From<bonfire_learn::Error> for Error {
    fn from(error: bonfire_learn::Error) -> Self {
        Self::mismatch(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault() {
            DataFault::Io { path, source } => write!(f, "{}: {source}", path.display()),
            DataFault::Format { path, line: Some(line), message } => {
                write!(f, "{}:{line}: {message}", path.display())
            }
            DataFault::Format { path, line: None, message } => write!(f, "{}: {message}", path.display()),
            DataFault::Mismatch(message) => f.write_str(message),
        }
    }
}

// What a system said is in the words above, so it is no source: it would be said twice.
impl std::error::Error for Error {}

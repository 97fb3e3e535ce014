use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong with which file or folder of a run. In a box, so that results stay small.
#[derive(Debug)]
pub struct Error(Box<FolderFault>);

#[derive(Debug)]
struct FolderFault {
    path: PathBuf,
    kind: ErrorKind,
}

/// The ways in which a file or folder of a run can be wrong.
#[derive(Debug)]
pub enum ErrorKind {
    /// It could not be read or written.
    Io(io::Error),
    /// A line, counted from 1, is not what it should be.
    Line { number: usize, message: String },
    /// The file or folder as a whole is not what it should be.
    Unfit(String),
}

/// The result of anything in this crate that touches a run folder.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(path: &Path, kind: ErrorKind) -> Self {
        Self(Box::new(FolderFault { path: path.to_owned(), kind }))
    }

    /// For `map_err` on an operation on `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::new(path, ErrorKind::Io(source))
    }

    pub(crate) fn line(path: &Path, number: usize, message: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Line { number, message: message.into() })
    }

    pub(crate) fn unfit(path: &Path, message: impl Into<String>) -> Self {
        Self::new(path, ErrorKind::Unfit(message.into()))
    }

    /// The file or folder that is at fault.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// What is wrong with it.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.path.display();
        match &self.0.kind {
            ErrorKind::Io(source) => write!(f, "{path}: {source}"),
            ErrorKind::Line { number, message } => write!(f, "{path}:{number}: {message}"),
            ErrorKind::Unfit(message) => write!(f, "{path}: {message}"),
        }
    }
}

// No `source`: the message above already holds the operating system's words, and a printed chain would repeat them.
impl std::error::Error for Error {}

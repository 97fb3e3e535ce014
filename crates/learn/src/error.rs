use std::fmt;

/// What does not fit: a model and its data, a setting and the machine. It says in words what would be right.
#[derive(Debug)]
pub struct Error {
    pub message: String,
    /// Which part of a model is meant, as a path of keys below `model` in a run file; empty if all of it.
    pub path: String,
}

/// The result of anything in this crate that depends on what a user gave.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), path: String::new() }
    }

    /// An error about one part of a model.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), path: path.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

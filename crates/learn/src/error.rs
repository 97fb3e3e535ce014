use std::fmt;

/// What does not fit: a model and its data, a setting and the machine. It says in words what would be right.
///
/// In a box, so that results stay small.
#[derive(Debug)]
pub struct Error(Box<Misfit>);

#[derive(Debug)]
struct Misfit {
    message: String,
    path: String,
}

/// The result of anything in this crate that depends on what a user gave.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(message: impl Into<String>) -> Self {
        Self::at("", message)
    }

    /// An error about one part of a model.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Box::new(Misfit { message: message.into(), path: path.into() }))
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Which part of a model is meant, as a path of keys below `model` in a run file; empty if all of it.
    pub fn path(&self) -> &str {
        &self.0.path
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path().is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

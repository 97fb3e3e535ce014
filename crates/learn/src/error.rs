use std::fmt;

/// What does not fit: a model and its data, a setting and the machine. It says in words what would be right.
#[derive(Debug)]
pub struct Error(pub String);

/// The result of anything in this crate that depends on what a user gave.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

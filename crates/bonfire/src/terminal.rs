//! What this program tells its user. Results go to stdout, everything else to stderr.
//!
//! The macros of the standard library panic when what they print cannot be written. Nothing here does.

use std::fmt;
use std::io::{self, ErrorKind, Write};

use anyhow::{Error, Result};

use crate::failure::Failed;

/// A line on stderr. A terminal that was closed is no reason to end: what cannot be said is not said.
pub(crate) fn say(line: &str) {
    write(&format!("{line}\n"));
}

/// A line about something that went wrong, but does not end the command.
pub(crate) fn warn(message: String) {
    say(&format!("warning: {message}"));
}

/// A text on stderr that ends where it ends, for lines that are written again and again.
pub(crate) fn write(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A line of the command's result, on stdout.
///
/// # Errors
/// [`ReaderGone`] if nobody reads stdout any more, as in `bonfire data list | head -1`: the program then ends quietly.
/// [`Failed`] if the line cannot be written for another reason.
pub(crate) fn print(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let printed = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    printed.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Error::new(ReaderGone),
        _ => Error::new(Failed(format!("the result cannot be written: {error}"))),
    })
}

/// The reader of stdout went away. That is no failure: it has read what it wanted.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads the result")
    }
}

impl std::error::Error for ReaderGone {}

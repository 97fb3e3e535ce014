//! What is said to whoever watches, on stderr.
//!
//! A terminal that was closed is no reason to end: what cannot be said is not said, where `eprintln!` would panic.

use std::io::Write;

/// A line.
pub fn say(line: &str) {
    write(&format!("{line}\n"));
}

/// A text that ends where it ends, for lines that are written again and again.
pub fn write(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

//! Files that are seen whole, or not at all.

use std::fs;
use std::io;
use std::path::Path;

/// Writes a file aside and renames it.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let aside = path.with_file_name(name);
    fs::write(&aside, content)?;
    fs::rename(&aside, path)
}

//! The content of a file: read into memory, or mapped and read as it is used.

use crate::error::{Error, Result};
use memmap2::Mmap;
use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

/// Some bytes, here or in a file.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    Owned(Vec<u8>),
    Mapped(Arc<Mmap>),
}

impl Bytes {
    /// Maps a whole file.
    pub(crate) fn map(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io(path))?;
        // SAFETY: the map is only read, and what is read are bytes of which any value is valid. Another program that
        // shortens the file during a run ends the run by a signal; the manual says so.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io(path))?;
        Ok(Self::Mapped(Arc::new(map)))
    }

    /// Tells the system that reads will jump about: what lies around a place that is read is not wanted. Otherwise a
    /// file that does not fit into memory costs 128 KiB of the disk for every image.
    pub(crate) fn will_jump(&self) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            // A wish, as below: its refusal costs time alone.
            let _ = map.advise(memmap2::Advice::Random);
        }
    }

    /// Tells the system that these bytes are wanted soon. It begins to read them and does not keep anybody waiting.
    pub(crate) fn fetch(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Self::Mapped(map) = self {
            let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes)
    }
}

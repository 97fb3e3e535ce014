//! Input in chunks of whole rows, to whoever of the threads is free.
//!
//! What is in a chunk depends on the files alone. A plain file of lines is cut at multiples of [`CHUNK`], and a line
//! belongs to the chunk in which it begins; so threads read their chunks themselves. What is packed, or has rows of
//! several lines, is read from its beginning, by one thread at a time.

use super::input::{BOM, Input, Packing, ROW_LIMIT};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// About so many bytes are handed out at once.
pub(crate) const CHUNK: usize = 4 << 20;

/// Which file, and which chunk of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ChunkId {
    pub file: u32,
    pub number: u32,
}

/// A chunk that was handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub id: ChunkId,
    /// Whether the file has no more. Only said of files that are read from their beginning.
    pub is_last: bool,
}

/// What is still to be read.
pub(crate) struct Feed<'a> {
    inputs: &'a [Input],
    done: &'a HashSet<ChunkId>,
    ranges: Mutex<VecDeque<ChunkId>>,
    streams: Vec<Mutex<FileStream<'a>>>,
    /// From here on nothing is handed out.
    limit: Mutex<Option<ChunkId>>,
    passed: &'a Arc<AtomicU64>,
}

/// A file that is read from its beginning.
struct FileStream<'a> {
    file: u32,
    input: &'a Input,
    content: Option<Box<dyn Read + Send>>,
    /// The beginning of the row that the last chunk did not hold.
    rest: Vec<u8>,
    next: u32,
    has_ended: bool,
}

impl<'a> Feed<'a> {
    /// Of these files without the chunks that are done, and without files that have been read to their end. `passed`
    /// counts the bytes of the files.
    pub(crate) fn new(
        inputs: &'a [Input],
        done: &'a HashSet<ChunkId>,
        ended: &HashSet<u32>,
        passed: &'a Arc<AtomicU64>,
    ) -> Self {
        let (mut ranges, mut streams) = (VecDeque::new(), Vec::new());
        for (file, input) in (0..).zip(inputs) {
            if ended.contains(&file) {
                passed.fetch_add(input.file.size, Ordering::Relaxed);
            } else if input.packing == Packing::Plain && input.columns.is_none() {
                let count = input.file.size.div_ceil(CHUNK as u64) as u32;
                let (known, new): (Vec<ChunkId>, Vec<ChunkId>) =
                    (0..count).map(|number| ChunkId { file, number }).partition(|id| done.contains(id));
                passed.fetch_add((known.len() * CHUNK) as u64, Ordering::Relaxed);
                ranges.extend(new);
            } else {
                let (content, rest) = (None, Vec::new());
                streams.push(Mutex::new(FileStream {
                    file,
                    input,
                    content,
                    rest,
                    next: 0,
                    has_ended: false,
                }));
            }
        }
        Self { inputs, done, ranges: Mutex::new(ranges), streams, limit: Mutex::new(None), passed }
    }

    /// Hands out the next chunk: fills `bytes` with whole rows. None when there is no more.
    pub(crate) fn next(&self, bytes: &mut Vec<u8>) -> Result<Option<Taken>> {
        let range = hold(&self.ranges).pop_front();
        if let Some(id) = range.filter(|&id| self.may_have(id)) {
            self.read_range(id, bytes)?;
            return Ok(Some(Taken { id, is_last: false }));
        }
        loop {
            let Some(mut stream) = self.free_stream() else { return Ok(None) };
            let id = ChunkId { file: stream.file, number: stream.next };
            if !self.may_have(id) {
                stream.has_ended = true;
                continue;
            }
            stream.pull(bytes, self.passed)?;
            let taken = Taken { id, is_last: stream.has_ended };
            drop(stream);
            if !self.done.contains(&id) {
                return Ok(Some(taken));
            }
        }
    }

    /// Nothing from this chunk on is wanted any more.
    pub(crate) fn stop_at(&self, id: ChunkId) {
        let mut limit = hold(&self.limit);
        *limit = Some(limit.map_or(id, |before| before.min(id)));
    }

    fn may_have(&self, id: ChunkId) -> bool {
        hold(&self.limit).is_none_or(|limit| id < limit)
    }

    /// A file that nobody else is reading, or else one to wait for.
    fn free_stream(&self) -> Option<MutexGuard<'_, FileStream<'a>>> {
        let mut busy = false;
        for stream in &self.streams {
            match stream.try_lock() {
                Ok(stream) if !stream.has_ended => return Some(stream),
                Ok(_) => {}
                Err(_) => busy = true,
            }
        }
        if !busy {
            return None;
        }
        self.streams.iter().map(hold).find(|stream| !stream.has_ended)
    }

    /// Reads the lines that begin in a range of a file.
    fn read_range(&self, id: ChunkId, bytes: &mut Vec<u8>) -> Result<()> {
        let input = &self.inputs[id.file as usize];
        let path = &input.file.path;
        let start = u64::from(id.number) * CHUNK as u64;
        let end = (start + CHUNK as u64).min(input.file.size);
        // From the byte before on: if that is the end of a line, another begins here.
        let from = start.saturating_sub(1);
        let mut file = File::open(path).map_err(Error::io(path))?;
        file.seek(SeekFrom::Start(from)).map_err(Error::io(path))?;
        bytes.clear();
        (&mut file).take(end - from).read_to_end(bytes).map_err(Error::io(path))?;
        if (bytes.len() as u64) < end - from {
            return Err(Error::format(path, "became shorter while it was read"));
        }
        self.passed.fetch_add(end - start, Ordering::Relaxed);
        if start > 0 {
            match memchr::memchr(b'\n', bytes) {
                Some(place) => drop(bytes.drain(..=place)),
                // All of it belongs to a line that began before.
                None => bytes.clear(),
            }
        }
        // A line that begins at the very end belongs to the next chunk.
        while !bytes.is_empty() && bytes.last() != Some(&b'\n') {
            let before = bytes.len();
            (&mut file).take(1 << 16).read_to_end(bytes).map_err(Error::io(path))?;
            if let Some(place) = memchr::memchr(b'\n', &bytes[before..]) {
                bytes.truncate(before + place + 1);
            } else if bytes.len() == before {
                break;
            } else if bytes.len() > CHUNK + ROW_LIMIT {
                return Err(too_long(input));
            }
        }
        if start == 0 && bytes.starts_with(BOM) {
            bytes.drain(..BOM.len());
        }
        Ok(())
    }
}

impl FileStream<'_> {
    /// Reads on up to the last row that ends within a chunk, or within as many chunks as one row takes.
    fn pull(&mut self, bytes: &mut Vec<u8>, passed: &Arc<AtomicU64>) -> Result<()> {
        bytes.clear();
        bytes.append(&mut self.rest);
        if self.content.is_none() {
            self.content = Some(self.input.content(passed)?);
        }
        let Some(content) = self.content.as_mut() else { return Ok(()) };
        loop {
            let wanted = CHUNK - bytes.len() % CHUNK;
            let read = content.take(wanted as u64).read_to_end(bytes);
            let read = read.map_err(|error| self.input.broken(&error))?;
            if self.next == 0 && bytes.starts_with(BOM) {
                bytes.drain(..BOM.len());
            }
            if read < wanted {
                (self.has_ended, self.content) = (true, None);
                break;
            }
            let end = last_end(self.input, bytes);
            if end > 0 {
                self.rest.extend_from_slice(&bytes[end..]);
                bytes.truncate(end);
                break;
            }
            if bytes.len() > ROW_LIMIT {
                return Err(too_long(self.input));
            }
        }
        self.next += 1;
        Ok(())
    }
}

/// Where the last row ends that these bytes hold as a whole.
fn last_end(input: &Input, bytes: &[u8]) -> usize {
    let Some(columns) = &input.columns else {
        return memchr::memrchr(b'\n', bytes).map_or(0, |place| place + 1);
    };
    let mut end = 0;
    while let Some(length) = columns.end_of_row(&bytes[end..]) {
        end += length + 1;
    }
    end
}

pub(crate) fn too_long(input: &Input) -> Error {
    let hint = match input.columns {
        Some(_) => "is a quotation mark never closed?",
        None => "is this a file of JSON lines? A list becomes one by: jq -c .[]",
    };
    Error::format(&input.file.path, format!("a row is longer than {} MiB; {hint}", ROW_LIMIT >> 20))
}

/// Locks. A thread that panicked has ended the preparation anyway.
pub(crate) fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

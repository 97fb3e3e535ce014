//! The input in shares that other processes read and map, each on its own.
//!
//! Whoever prepares cuts the input into shares ([`InputShare`]); whoever has a share reads its chunks ([`RawChunk`])
//! and maps them ([`ChunkMapper`]) to the lines of the filter `map`: a text, a tab and its rating. What became of a
//! chunk is one more line, which begins with a tab and so comes before all texts.

use super::feed::{CHUNK, ChunkId, Feed};
use super::input::{Input, InputFile, Packing};
use super::journal::{ChunkReport, Done};
use super::mapper::Mapper;
use super::mapping::map_rows;
use super::rules::Rules;
use super::sorter::Sorter;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What one process reads of the input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputShare {
    pieces: Vec<Piece>,
}

/// Some chunks of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Piece {
    /// The number of the file among all.
    number: u32,
    file: InputFile,
    /// From one chunk on, and up to but without another. None is a file that is read from its beginning to its end.
    chunks: Option<(u32, u32)>,
    /// Chunks of these that are known already.
    known: Vec<u32>,
}

/// Some rows of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawChunk {
    pub path: PathBuf,
    /// The number of the file among all, and of the chunk in it.
    pub file: u32,
    pub number: u32,
    /// Whether the file has no more, where that is known.
    pub is_last: bool,
    pub bytes: Vec<u8>,
}

/// A share has about so many chunks.
const SHARE_CHUNKS: u64 = 16;

/// Cuts what is not done of the input into shares: at least so many, if there are enough chunks.
pub(crate) fn shares(inputs: &[Input], done: &Done, least: usize) -> Vec<InputShare> {
    let (known, ended) = (done.chunk_ids(), done.ended_files());
    let all: u64 = inputs.iter().map(|input| input.file.size.div_ceil(CHUNK as u64)).sum();
    let size = all.div_ceil(least.max(1) as u64).clamp(1, SHARE_CHUNKS) as usize;
    let mut found = Vec::new();
    for (number, input) in (0..).zip(inputs).filter(|(number, _)| !ended.contains(number)) {
        let file = input.file.clone();
        let known = |number: u32, chunk: u32| known.contains(&ChunkId { file: number, number: chunk });
        if input.packing != Packing::Plain || input.columns.is_some() {
            let known = done.chunks.iter().filter(|chunk| chunk.file == number).map(|chunk| chunk.number);
            let piece = Piece { number, file, chunks: None, known: known.collect() };
            found.push(InputShare { pieces: vec![piece] });
            continue;
        }
        let count = input.file.size.div_ceil(CHUNK as u64) as u32;
        for begin in (0..count).step_by(size) {
            let end = count.min(begin + size as u32);
            let known: Vec<u32> = (begin..end).filter(|&chunk| known(number, chunk)).collect();
            if known.len() < (end - begin) as usize {
                let piece = Piece { number, file: file.clone(), chunks: Some((begin, end)), known };
                found.push(InputShare { pieces: vec![piece] });
            }
        }
    }
    joined(found, size)
}

/// Small files share a share.
fn joined(shares: Vec<InputShare>, size: usize) -> Vec<InputShare> {
    let mut found: Vec<InputShare> = Vec::new();
    for share in shares {
        match found.last_mut() {
            Some(last) if last.chunks() + share.chunks() <= size as u64 => last.pieces.extend(share.pieces),
            _ => found.push(share),
        }
    }
    found
}

impl InputShare {
    fn chunks(&self) -> u64 {
        let count = |piece: &Piece| match piece.chunks {
            Some((begin, end)) => u64::from(end - begin),
            None => piece.file.size.div_ceil(CHUNK as u64),
        };
        self.pieces.iter().map(count).sum()
    }

    /// How many bytes of files this is, about.
    pub fn bytes(&self) -> u64 {
        self.chunks() * CHUNK as u64
    }

    /// Reads all chunks one after the other, until `take` wants no more.
    pub fn read(&self, rules: &Rules, mut take: impl FnMut(RawChunk) -> bool) -> Result<()> {
        let mapper = rules.mapper()?;
        for piece in &self.pieces {
            let input = Input::open(&piece.file.path, &mapper)?;
            if input.file.size != piece.file.size {
                let message = format!(
                    "has {} bytes here and {} where the preparation was begun",
                    input.file.size, piece.file.size
                );
                return Err(Error::format(&piece.file.path, message));
            }
            let id = |number| ChunkId { file: 0, number };
            let mut done: HashSet<ChunkId> = piece.known.iter().copied().map(id).collect();
            if let Some((begin, end)) = piece.chunks {
                let count = input.file.size.div_ceil(CHUNK as u64) as u32;
                done.extend((0..begin).chain(end..count).map(id));
            }
            let (inputs, passed) = ([input], Arc::default());
            let feed = Feed::new(&inputs, &done, &HashSet::new(), &passed);
            let mut bytes = Vec::new();
            while let Some(taken) = feed.next(&mut bytes)? {
                let chunk = RawChunk {
                    path: piece.file.path.clone(),
                    file: piece.number,
                    number: taken.id.number,
                    is_last: taken.is_last,
                    bytes: std::mem::take(&mut bytes),
                };
                if !take(chunk) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Maps chunks to lines.
#[derive(Debug)]
pub struct ChunkMapper {
    mapper: Mapper,
    /// The columns of tables are looked up once.
    inputs: HashMap<PathBuf, Input>,
    sorter: Sorter,
}

impl ChunkMapper {
    pub fn new(rules: &Rules) -> Result<Self> {
        Ok(Self { mapper: rules.mapper()?, inputs: HashMap::new(), sorter: Sorter::new(2 * CHUNK) })
    }

    /// Gives the lines of a chunk to `take`.
    pub fn map(&mut self, chunk: &RawChunk, mut take: impl FnMut(&str)) -> Result<()> {
        let input = self.input(&chunk.path)?;
        let report = ChunkReport {
            file: chunk.file,
            number: chunk.number,
            is_last: chunk.is_last,
            bytes: chunk.bytes.len() as u64,
            ..ChunkReport::default()
        };
        let report = map_rows(&self.mapper, &input, &chunk.bytes, report, &mut self.sorter)?;
        let told = serde_json::to_string(&report).map_err(|error| Error::mismatch(error.to_string()))?;
        take(&format!("\t{told}"));
        let mut line = String::new();
        self.sorter.pour(|text, rating| {
            line.clear();
            // Cleaned texts are letters of ASCII.
            line.extend(text.iter().map(|&letter| char::from(letter)));
            line.push('\t');
            line.push(char::from(b'0' + rating));
            take(&line);
        });
        Ok(())
    }

    fn input(&mut self, path: &Path) -> Result<Input> {
        if let Some(known) = self.inputs.get(path) {
            return Ok(known.clone());
        }
        let input = Input::open(path, &self.mapper)?;
        self.inputs.insert(path.to_owned(), input.clone());
        Ok(input)
    }
}

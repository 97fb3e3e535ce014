//! What of a preparation is done, so that one that was killed goes on.
//!
//! The folder of a preparation lies beside the one that it will become, under the same name with `.partial` behind. A
//! line of its journal is written when what it tells of is whole.

use super::feed::ChunkId;
use super::input::InputFile;
use crate::error::{DataFault, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Another number means that what an earlier program left cannot be used.
const VERSION: u32 = 3;

/// What is prepared, and how. Another plan makes another result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PrepareSpec {
    pub version: u32,
    pub rules: String,
    pub format: String,
    pub inputs: Vec<InputFile>,
}

impl PrepareSpec {
    pub(crate) fn new(rules: String, format: &str, inputs: Vec<InputFile>) -> Self {
        Self { version: VERSION, rules, format: format.to_owned(), inputs }
    }
}

/// What came of a chunk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ChunkReport {
    pub file: u32,
    pub number: u32,
    pub is_last: bool,
    pub bytes: u64,
    pub lines: u64,
    pub read: u64,
    pub bad: u64,
    pub empty: u64,
    /// The first bad lines: which of the chunk, counted from 0, and what is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<(u64, String)>,
}

impl ChunkReport {
    pub(crate) fn id(&self) -> ChunkId {
        ChunkId { file: self.file, number: self.number }
    }
}

/// What came of a stretch of texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StretchReport {
    /// How many pieces it was written in.
    pub segments: u32,
    /// Texts of each part, and words that are kept of them.
    pub rows: [u64; 3],
    pub words: [u64; 3],
    /// How many reviews the texts come from.
    pub reviews: u64,
    /// Words whose occurrences were counted.
    pub counted: u64,
}

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    /// A run that holds all texts of these chunks.
    Sorted { run: u32, chunks: Vec<ChunkReport> },
    /// Runs that hold all texts of these chunks, which others have mapped.
    Collected { runs: Vec<u32>, chunks: Vec<ChunkReport> },
    /// A run that holds all texts of these others.
    Joined { run: u32, of: Vec<u32> },
    /// Where the texts are cut into stretches.
    Cut(Vec<String>),
    /// A stretch is reduced.
    Reduced(u32, StretchReport),
    /// All of the result is there, but for its name.
    Written,
}

/// What the journal of a folder tells.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub chunks: Vec<ChunkReport>,
    pub runs: HashSet<u32>,
    pub next_run: u32,
    pub cuts: Option<Vec<String>>,
    pub stretches: BTreeMap<u32, StretchReport>,
    pub is_written: bool,
}

impl Done {
    pub(crate) fn note(&mut self, entry: Entry) {
        match entry {
            Entry::Sorted { run, chunks } => {
                self.chunks.extend(chunks);
                self.runs.insert(run);
                self.next_run = self.next_run.max(run + 1);
            }
            Entry::Collected { runs, chunks } => {
                self.chunks.extend(chunks);
                self.next_run = runs.iter().map(|run| run + 1).fold(self.next_run, u32::max);
                self.runs.extend(runs);
            }
            Entry::Joined { run, of } => {
                self.runs.retain(|run| !of.contains(run));
                self.runs.insert(run);
                self.next_run = self.next_run.max(run + 1);
            }
            Entry::Cut(cuts) => self.cuts = Some(cuts),
            Entry::Reduced(stretch, report) => drop(self.stretches.insert(stretch, report)),
            Entry::Written => self.is_written = true,
        }
    }

    pub(crate) fn chunk_ids(&self) -> HashSet<ChunkId> {
        self.chunks.iter().map(ChunkReport::id).collect()
    }

    /// The files that have been read to their end.
    pub(crate) fn ended_files(&self) -> HashSet<u32> {
        let mut found: BTreeMap<u32, (u32, Option<u32>)> = BTreeMap::new();
        for chunk in &self.chunks {
            let (count, last) = found.entry(chunk.file).or_default();
            *count += 1;
            *last = last.or(chunk.is_last.then_some(chunk.number));
        }
        let is_whole = |(count, last): &(u32, Option<u32>)| last.is_some_and(|last| *count == last + 1);
        found.into_iter().filter(|(_, chunks)| is_whole(chunks)).map(|(file, _)| file).collect()
    }
}

/// The folder of a preparation and its journal.
#[derive(Debug)]
pub(crate) struct Workplace {
    folder: PathBuf,
    journal: File,
    /// Held as long as this process works there; the system lets go of it when the process ends.
    _lock: File,
}

/// How a preparation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    New,
    /// Another process did some of it.
    GoesOn,
    /// What another process did is of no use: inputs or options are others.
    Anew,
}

/// What the name of the folder ends in.
const PARTIAL: &str = "partial";
const PLAN: &str = "plan.json";
const JOURNAL: &str = "journal.jsonl";

impl Workplace {
    /// Where the folder for a result lies.
    pub(crate) fn beside(out: &Path) -> PathBuf {
        let mut name = out.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{PARTIAL}"));
        out.with_file_name(name)
    }

    /// Whether a folder is one that a preparation works in, or has worked in.
    pub(crate) fn is_at(folder: &Path) -> bool {
        folder.extension().is_some_and(|end| end == PARTIAL) && folder.join(PLAN).is_file()
    }

    /// Where the lock of that folder lies.
    pub(crate) fn lock_beside(out: &Path) -> PathBuf {
        lock_path(&Self::beside(out))
    }

    /// Opens the folder, and reads what is done there of this plan.
    pub(crate) fn open(folder: &Path, plan: &PrepareSpec) -> Result<(Self, Done, Beginning)> {
        let mut beginning = Beginning::New;
        let lock = lock(folder)?;
        if folder.exists() {
            if !folder.join(PLAN).is_file() && fs::read_dir(folder).is_ok_and(|mut all| all.next().is_some())
            {
                let message = "is in the way: it is not empty, and not what an earlier preparation left";
                return Err(Error::format(folder, message));
            }
            let known = fs::read(folder.join(PLAN)).ok().and_then(|text| serde_json::from_slice(&text).ok());
            if known.as_ref() == Some(plan) {
                beginning = Beginning::GoesOn;
            } else {
                beginning = Beginning::Anew;
                fs::remove_dir_all(folder).map_err(Error::io(folder))?;
            }
        }
        fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let path = folder.join(PLAN);
        if beginning != Beginning::GoesOn {
            let text =
                serde_json::to_vec_pretty(plan).map_err(|error| Error::format(&path, error.to_string()))?;
            let aside = folder.join("plan.new");
            fs::write(&aside, text).map_err(Error::io(&aside))?;
            fs::rename(&aside, &path).map_err(Error::io(&path))?;
        }
        let (journal, done) = read_journal(&folder.join(JOURNAL))?;
        if done.chunks.is_empty() && beginning == Beginning::GoesOn {
            beginning = Beginning::New;
        }
        Ok((Self { folder: folder.to_owned(), journal, _lock: lock }, done, beginning))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn run(&self, number: u32) -> PathBuf {
        self.folder.join(format!("run-{number}"))
    }

    /// Writes a line of the journal.
    pub(crate) fn note(&mut self, entry: &Entry) -> Result<()> {
        let path = self.folder.join(JOURNAL);
        let mut line = serde_json::to_vec(entry).map_err(|error| Error::format(&path, error.to_string()))?;
        line.push(b'\n');
        self.journal.write_all(&line).map_err(Error::io(&path))
    }

    /// Everything goes.
    pub(crate) fn remove(self) -> Result<()> {
        drop(self.journal);
        fs::remove_dir_all(&self.folder).map_err(Error::io(&self.folder))?;
        let path = lock_path(&self.folder);
        fs::remove_file(&path).map_err(Error::io(&path))
    }
}

fn lock_path(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    folder.with_file_name(name)
}

const BUSY: &str = "another process is at work on this";

/// Whether an error says that another process prepares the same.
pub fn is_busy(error: &Error) -> bool {
    matches!(error.fault(), DataFault::Format { message, .. } if message == BUSY)
}

/// Keeps other processes out, as long as the file is open.
fn lock(folder: &Path) -> Result<File> {
    let path = lock_path(folder);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
    }
    let file = File::create(&path).map_err(Error::io(&path))?;
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is that of a file that is open.
        let taken = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        if taken != 0 {
            return Err(Error::format(folder, BUSY));
        }
    }
    Ok(file)
}

/// Reads all whole lines, and cuts off one that was not finished.
fn read_journal(path: &Path) -> Result<(File, Done)> {
    let text = fs::read(path).unwrap_or_default();
    let (mut done, mut whole) = (Done::default(), 0);
    for line in text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        let Ok(entry) = serde_json::from_slice(line) else { break };
        done.note(entry);
        whole += line.len() as u64;
    }
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(Error::io(path))?;
    file.set_len(whole).map_err(Error::io(path))?;
    Ok((file, done))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rules: &str) -> PrepareSpec {
        PrepareSpec::new(rules.to_owned(), "native", Vec::new())
    }

    #[test]
    fn what_was_done_is_known_and_what_was_begun_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.partial");
        let chunk = |file, number, is_last| ChunkReport { file, number, is_last, ..ChunkReport::default() };
        {
            let (mut place, done, beginning) = Workplace::open(&path, &plan("a")).unwrap();
            assert_eq!((beginning, done.chunks.len()), (Beginning::New, 0));
            place
                .note(&Entry::Sorted { run: 4, chunks: vec![chunk(0, 0, false), chunk(0, 1, true)] })
                .unwrap();
            place.note(&Entry::Sorted { run: 5, chunks: vec![chunk(1, 1, true)] }).unwrap();
            place.note(&Entry::Joined { run: 6, of: vec![4, 5] }).unwrap();
            place.journal.write_all(b"{\"sorted\":{\"run\":9").unwrap();
        }
        let (mut place, done, beginning) = Workplace::open(&path, &plan("a")).unwrap();
        assert_eq!((beginning, done.chunks.len(), done.next_run), (Beginning::GoesOn, 3, 7));
        assert_eq!(done.runs, HashSet::from([6]));
        assert_eq!(done.ended_files(), HashSet::from([0]), "of the other a chunk is missing");
        place.note(&Entry::Written).unwrap();
        drop(place);
        let (_, done, _) = Workplace::open(&path, &plan("a")).unwrap();
        assert!(done.is_written);
        let (_, done, beginning) = Workplace::open(&path, &plan("b")).unwrap();
        assert_eq!((beginning, done.chunks.len()), (Beginning::Anew, 0));
    }

    #[test]
    fn a_folder_of_somebody_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("precious"), "").unwrap();
        let error = Workplace::open(folder.path(), &plan("a")).unwrap_err().to_string();
        assert!(error.contains("is in the way"), "{error}");
        assert!(folder.path().join("precious").exists());
    }
}

//! What a run left behind.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{json_lines, names};

/// A run folder, read as anybody could: without the program's own types.
#[derive(Debug)]
pub(crate) struct Record(pub PathBuf);

impl Record {
    pub(crate) fn of(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The only run below `runs`.
    #[track_caller]
    pub(crate) fn only_in(runs: &Path) -> Self {
        let names = names(runs);
        assert_eq!(names.len(), 1, "one run in {}: {names:?}", runs.display());
        Self(runs.join(&names[0]))
    }

    #[track_caller]
    pub(crate) fn json(&self, name: &str) -> Value {
        let path = self.0.join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        self.json("summary.json")
    }

    /// A number of the summary.
    #[track_caller]
    pub(crate) fn number(&self, key: &str) -> f64 {
        let summary = self.summary();
        summary[key].as_f64().unwrap_or_else(|| panic!("the number {key} in {summary}"))
    }

    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        json_lines(&fs::read_to_string(self.0.join("events.jsonl")).expect("events.jsonl"))
    }

    /// The events of one kind.
    #[track_caller]
    pub(crate) fn told(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// The same while the run goes on and the last line may be half-written.
    pub(crate) fn told_so_far(&self, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.0.join("events.jsonl")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        json_lines(whole).into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// Whether the log has its first event.
    pub(crate) fn has_started(&self) -> bool {
        fs::metadata(self.0.join("events.jsonl")).is_ok_and(|file| file.len() > 0)
    }

    /// The files of parameters, oldest first.
    pub(crate) fn checkpoints(&self) -> Vec<PathBuf> {
        let folder = self.0.join("checkpoints");
        let files = names(&folder).into_iter().filter(|name| name.ends_with(".safetensors"));
        files.map(|name| folder.join(name)).collect()
    }

    /// The newest file of parameters.
    #[track_caller]
    pub(crate) fn newest(&self) -> PathBuf {
        self.checkpoints().pop().unwrap_or_else(|| panic!("a checkpoint in {}", self.0.display()))
    }

    /// The round of the newest file of parameters; 0 if there is none.
    pub(crate) fn newest_round(&self) -> u64 {
        let number = |file: PathBuf| file.file_stem()?.to_str()?.strip_prefix("step-")?.parse().ok();
        self.checkpoints().pop().and_then(number).unwrap_or(0)
    }

    /// The numbers of the newest parameters, in the order of the file.
    #[track_caller]
    pub(crate) fn floats(&self) -> Vec<f32> {
        Self::floats_of(&self.parameters())
    }

    /// The numbers of a safetensors file, in its order.
    #[track_caller]
    pub(crate) fn floats_of(file: &[u8]) -> Vec<f32> {
        let (header, rest) = file.split_at(8);
        let header = u64::from_le_bytes(header.try_into().expect("eight bytes")) as usize;
        rest[header..]
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().expect("four bytes")))
            .collect()
    }

    /// The newest parameters.
    #[track_caller]
    pub(crate) fn parameters(&self) -> Vec<u8> {
        fs::read(self.newest()).expect("a checkpoint")
    }
}

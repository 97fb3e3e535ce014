//! How long nothing happened in a run, by its own log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;

use crate::record::Record;

/// Reads a log while it grows.
#[derive(Debug)]
pub(crate) struct Watch {
    path: PathBuf,
    /// How much of it was read.
    offset: u64,
    half: String,
    /// When rounds were told, by the clock of the log.
    told_s: Vec<f64>,
    round: u64,
    /// When the log's clock began; not earlier, and a little later by as long as a line takes to be seen.
    zero: Option<Instant>,
}

impl Watch {
    pub(crate) fn of(record: &Record) -> Self {
        let path = record.0.join("events.jsonl");
        Self { path, offset: 0, half: String::new(), told_s: Vec::new(), round: 0, zero: None }
    }

    /// Reads what is new. The last round that was told.
    pub(crate) fn look(&mut self) -> u64 {
        for event in self.read() {
            self.take(&event);
        }
        self.round
    }

    /// The same of a run that was resumed meanwhile: how many rounds this process has told.
    pub(crate) fn look_again(&mut self) -> usize {
        self.look();
        self.told_s.len()
    }

    fn take(&mut self, event: &Value) {
        let at_s = event["at_s"].as_f64().expect("a time");
        match event["event"].as_str() {
            // A resume begins a time of its own.
            Some("started") => (self.told_s, self.zero) = (Vec::new(), None),
            Some("progress") => {
                self.round = event["round"].as_u64().expect("a round");
                self.told_s.push(at_s);
            }
            _ => {}
        }
        let zero = Instant::now().checked_sub(std::time::Duration::from_secs_f64(at_s));
        self.zero = self.zero.into_iter().chain(zero).min();
    }

    fn read(&mut self) -> Vec<Value> {
        let Ok(mut file) = File::open(&self.path) else { return Vec::new() };
        file.seek(SeekFrom::Start(self.offset)).expect("a place in the log");
        let read = file.read_to_string(&mut self.half).expect("text");
        self.offset += read as u64;
        let Some(end) = self.half.rfind('\n') else { return Vec::new() };
        let rest = self.half.split_off(end + 1);
        let whole = std::mem::replace(&mut self.half, rest);
        crate::program::json_lines(&whole)
    }

    /// The time by the clock of the log.
    pub(crate) fn now_s(&self) -> f64 {
        self.zero.map_or(0.0, |zero| zero.elapsed().as_secs_f64())
    }

    /// The longest time after a moment in which no round was told. Rounds are told every 0.2 s, so that is the least.
    pub(crate) fn stall(&self, after_s: f64) -> f64 {
        let gaps = self.told_s.windows(2).filter(|pair| pair[1] > after_s);
        gaps.map(|pair| pair[1] - pair[0].max(after_s)).fold(0.0, f64::max)
    }
}

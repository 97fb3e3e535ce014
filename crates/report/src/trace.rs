//! The log as a timeline for `chrome://tracing` and Perfetto: a track for every worker and machine, and some for the
//! run.
//!
//! Phases are told as sums of about a second. So within such a stretch they stand one after the other, each as long as
//! it took in all; evaluations, checkpoints and epochs stand where they were.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::Result;
use crate::event::{Event, Stamped};
use crate::log::read_events;
use crate::page::encode_mark;

/// The timeline of a run.
///
/// # Errors
/// When its log cannot be read.
pub fn trace(folder: &Path) -> Result<String> {
    let events = read_events(&folder.join("events.jsonl"))?;
    Ok(json!({ "traceEvents": timeline(&events), "displayTimeUnit": "ms" }).to_string())
}

/// Tracks by their names, and where each has come to.
#[derive(Default)]
struct Tracks {
    numbers: BTreeMap<String, usize>,
    spans: Vec<Value>,
    ends: BTreeMap<usize, f64>,
}

impl Tracks {
    fn number(&mut self, name: &str) -> usize {
        let next = self.numbers.len() + 1;
        *self.numbers.entry(name.to_owned()).or_insert(next)
    }

    /// Adds a span. It begins no sooner than the one before it on its track ends: spans of a track do not overlap.
    fn span(&mut self, track: &str, name: &str, (from, to): (f64, f64), facts: Value) {
        let number = self.number(track);
        let end = self.ends.entry(number).or_insert(0.0);
        let (from, to) = (from.max(*end), to.max(*end));
        *end = to;
        let (at, time) = (micros(from), micros(to) - micros(from));
        self.spans.push(
            json!({"name": name, "cat": track, "ph": "X", "ts": at, "dur": time, "pid": 1, "tid": number,
            "args": facts}),
        );
    }
}

/// Whole, so that what touches does not overlap.
fn micros(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e6).round() as u64
}

fn timeline(events: &[Stamped]) -> Vec<Value> {
    let (mut tracks, mut offset, mut last, mut epoch_from) = (Tracks::default(), 0.0, 0.0_f64, 0.0);
    for (i, stamped) in events.iter().enumerate() {
        if i > 0 && matches!(stamped.event, Event::Started { .. }) {
            offset = last;
        }
        let at = offset + stamped.at_s;
        last = last.max(at);
        match &stamped.event {
            Event::EpochEnded { epoch, loss, accuracy, samples, .. } => {
                let facts = json!({"loss": loss, "accuracy": accuracy, "samples": samples});
                tracks.span("epochs", &format!("epoch {epoch}"), (epoch_from, at), facts);
                epoch_from = at;
            }
            Event::Evaluated { round, loss, accuracy, seconds, .. } => {
                let facts = json!({"round": round, "loss": loss, "accuracy": accuracy});
                tracks.span("evaluations", "evaluate", (at - seconds, at), facts);
            }
            Event::Checkpointed { round, bytes, seconds, .. } => {
                let facts = json!({"round": round, "bytes": bytes});
                tracks.span("checkpoints", "checkpoint", (at - seconds, at), facts);
            }
            Event::Sampled { round, seconds, lines } => {
                for line in lines {
                    let all: f64 = line.phases.iter().map(|(_, time)| time).sum();
                    let scale = if all > *seconds { seconds / all } else { 1.0 };
                    let mut from = at - seconds;
                    for (phase, time) in line.phases.iter() {
                        let to = from + time * scale;
                        let facts = json!({"round": round, "seconds": time});
                        tracks.span(&line.name, phase.name(), (from, to), facts);
                        from = to;
                    }
                }
            }
            Event::Progress { loss, samples_per_s, .. } => {
                for (name, figure) in [("loss", loss), ("samples/s", samples_per_s)] {
                    let args = json!({ name: figure });
                    tracks
                        .spans
                        .push(json!({"name": name, "ph": "C", "ts": micros(at), "pid": 1, "args": args}));
                }
            }
            _ => {}
        }
        if let Some((kind, text)) = encode_mark(stamped) {
            let facts = json!({ "text": text });
            tracks
                .spans
                .push(json!({"name": kind, "ph": "i", "s": "p", "ts": micros(at), "pid": 1, "tid": 0,
                "args": facts}));
        }
    }
    let names = tracks.numbers.iter().map(|(name, number)| {
        json!({"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": name}})
    });
    names.chain(tracks.spans).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn spans_of_a_track_do_not_overlap() {
        let events = (0..).zip(sample::events().into_iter().chain(sample::events()));
        let events: Vec<Stamped> =
            events.map(|(at, event)| Stamped { at_s: f64::from(at % 20), event }).collect();
        let spans = timeline(&events);
        let mut ends = BTreeMap::new();
        for span in spans.iter().filter(|span| span["ph"] == "X") {
            let (from, time) = (span["ts"].as_u64().unwrap(), span["dur"].as_u64().unwrap());
            let end = ends.entry(span["tid"].as_u64().unwrap()).or_insert(0);
            assert!(from >= *end, "{span}");
            *end = from + time;
        }
        let named = spans.iter().filter(|span| span["ph"] == "M").count();
        assert_eq!(named, ends.len(), "every track has a name");
        assert!(
            spans.iter().any(|span| span["name"] == "backward" && span["dur"] == 1_250_000),
            "{spans:#?}"
        );
        assert!(spans.iter().any(|span| span["name"] == "lost" && span["ph"] == "i"));
    }
}

//! A run's log made small enough for a page, without losing what stands out.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread::ScopedJoinHandle;

use serde_json::Value;

use super::encode::{encode, encode_text};
use crate::error::{Error, Result};
use crate::event::{Event, NodeLine, SampleLine, Stamped};
use crate::machine::MachineSample;

/// So many stretches of progress are shown, each by its first, lowest and highest points.
const STRETCHES: usize = 300;

/// Of nodes and machines so many figures, over all of them.
const FIGURES: usize = 6000;

/// Of lines of text, the first and the last.
const FIRST_TEXTS: usize = 200;
const LAST_TEXTS: usize = 600;

/// A core for every so many bytes of a log.
const PART_BYTES: u64 = if cfg!(test) { 256 } else { 8 << 20 };

/// The events of a log, short and thinned, in their order.
#[derive(Debug, Default)]
pub(crate) struct ThinLog {
    /// How many lines the log had.
    pub lines: u64,
    /// How many of them are no events.
    pub broken: u64,
    pub events: Vec<Value>,
}

/// What was read, by kind, each with its place.
#[derive(Default)]
struct Reading {
    lines: u64,
    broken: u64,
    progress: Vec<(u64, Stamped)>,
    nodes: Vec<(u64, Stamped)>,
    samples: Vec<(u64, Stamped)>,
    others: Vec<(u64, Value)>,
    texts: Vec<(u64, Value)>,
}

impl ThinLog {
    /// Reads a log, as much as there is of it. A broken last line is not there yet; any other is passed over and
    /// counted, as the rest of a run is worth seeing.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let length = std::fs::metadata(path).map_err(Error::io(path))?.len();
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let parts = (length / PART_BYTES).clamp(1, cores);
        // What is appended meanwhile belongs to the last part.
        let from = |part: u64| if part == parts { u64::MAX } else { length / parts * part };
        let parts: Vec<Reading> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..parts)
                .map(|part| scope.spawn(move || Reading::of_part(path, from(part)..from(part + 1))))
                .collect();
            let join =
                |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            threads.into_iter().map(join).collect::<Result<_>>()
        })?;
        let mut reading = Reading::default();
        for part in parts {
            reading.append(part);
        }
        Ok(Self { lines: reading.lines, broken: reading.broken, events: reading.thinned() })
    }

    /// The same of events that are there.
    #[cfg(test)]
    pub(crate) fn of(events: impl IntoIterator<Item = Stamped>) -> Self {
        let (mut reading, mut lines) = (Reading::default(), 0);
        for stamped in events {
            lines += 1;
            reading.take(lines, stamped);
        }
        Self { lines, broken: 0, events: reading.thinned() }
    }
}

impl Reading {
    /// Reads the lines that begin in a part of a file.
    fn of_part(path: &Path, part: Range<u64>) -> Result<Self> {
        let read = || -> io::Result<Self> {
            let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
            let (mut reading, mut line, mut at) = (Self::default(), Vec::new(), part.start);
            if let Some(before) = part.start.checked_sub(1) {
                // The rest of a line that begins before.
                reader.seek(SeekFrom::Start(before))?;
                at = before + reader.read_until(b'\n', &mut line)? as u64;
            }
            while at < part.end {
                line.clear();
                at += reader.read_until(b'\n', &mut line)? as u64;
                if line.pop() != Some(b'\n') {
                    break;
                }
                reading.lines += 1;
                match serde_json::from_slice::<Stamped>(&line) {
                    Ok(stamped) => reading.take(reading.lines, stamped),
                    Err(_) => reading.broken += 1,
                }
            }
            Ok(reading)
        };
        read().map_err(Error::io(path))
    }

    /// Adds what comes after this.
    fn append(&mut self, mut next: Self) {
        let lines = self.lines;
        let lists = [&mut next.progress, &mut next.nodes, &mut next.samples];
        for (all, more) in [&mut self.progress, &mut self.nodes, &mut self.samples].into_iter().zip(lists) {
            all.extend(more.drain(..).map(|(place, stamped)| (lines + place, stamped)));
        }
        for (all, more) in [(&mut self.others, next.others), (&mut self.texts, next.texts)] {
            all.extend(more.into_iter().map(|(place, value)| (lines + place, value)));
        }
        (self.lines, self.broken) = (lines + next.lines, self.broken + next.broken);
    }

    fn take(&mut self, place: u64, stamped: Stamped) {
        match &stamped.event {
            Event::Progress { .. } => self.progress.push((place, stamped)),
            Event::Nodes { .. } => self.nodes.push((place, stamped)),
            Event::Sampled { .. } => self.samples.push((place, stamped)),
            _ => {
                let texts = encode_text(&stamped).map(|text| (place, text));
                for (place, value) in encode(&stamped).map(|value| (place, value)).into_iter().chain(texts) {
                    let is_text = value[0] == "x";
                    if is_text { &mut self.texts } else { &mut self.others }.push((place, value));
                }
            }
        }
    }

    fn thinned(self) -> Vec<Value> {
        let mut events = self.others;
        let progress = peaks(&self.progress);
        events.extend(progress.filter_map(|(place, stamped)| Some((*place, encode(stamped)?))));
        for rows in [merged(&self.nodes), merged(&self.samples)] {
            events.extend(rows.iter().filter_map(|(place, stamped)| Some((*place, encode(stamped)?))));
        }
        let count = self.texts.len();
        let is_kept = |i: usize| i < FIRST_TEXTS || i + LAST_TEXTS >= count;
        let texts = self.texts.into_iter().enumerate().filter(|(i, _)| is_kept(*i)).map(|(_, text)| text);
        events.extend(texts);
        // Places are unique but for texts, which come after their events: the sort is stable.
        events.sort_by_key(|(place, _)| *place);
        events.into_iter().map(|(_, value)| value).collect()
    }
}

/// What is charted of progress.
fn charted(stamped: &Stamped) -> [f64; 4] {
    match &stamped.event {
        Event::Progress { loss, accuracy, lr, samples_per_s, .. } => [*loss, *accuracy, *lr, *samples_per_s],
        _ => [f64::NAN; 4],
    }
}

/// Of every stretch the first and last events, and those with the lowest and highest figures.
fn peaks(rows: &[(u64, Stamped)]) -> impl Iterator<Item = &(u64, Stamped)> {
    let stretch = rows.len().div_ceil(STRETCHES).max(1);
    let few = rows.len() <= STRETCHES * 4;
    rows.chunks(if few { 1 } else { stretch }).flat_map(move |rows| {
        let mut kept = vec![0, rows.len() - 1];
        for figure in 0..4 {
            let by =
                |&a: &usize, &b: &usize| charted(&rows[a].1)[figure].total_cmp(&charted(&rows[b].1)[figure]);
            kept.extend((0..rows.len()).min_by(by));
            kept.extend((0..rows.len()).max_by(by));
        }
        kept.sort_unstable();
        kept.dedup();
        kept.into_iter().map(move |i| &rows[i])
    })
}

/// Several events of nodes, or samples, made one: sums stay what they were.
fn merged(rows: &[(u64, Stamped)]) -> Vec<(u64, Stamped)> {
    let width = |stamped: &Stamped| match &stamped.event {
        Event::Nodes { nodes, .. } => nodes.len(),
        Event::Sampled { lines, .. } => lines.len(),
        _ => 0,
    };
    let widest = rows.iter().map(|(_, stamped)| width(stamped)).max().unwrap_or(0).max(1);
    let most = (FIGURES / widest).clamp(60, 1000);
    let together = rows.len().div_ceil(most).max(1);
    rows.chunks(together).map(merge).collect()
}

fn merge(rows: &[(u64, Stamped)]) -> (u64, Stamped) {
    let (mut place, mut sum) = rows[0].clone();
    for (next_place, next) in rows[1..].iter().cloned() {
        (place, sum.at_s) = (next_place, next.at_s);
        match (&mut sum.event, next.event) {
            (Event::Nodes { round, nodes }, Event::Nodes { round: later, nodes: more }) => {
                *round = later;
                more.into_iter().for_each(|line| add_node(nodes, line));
            }
            (
                Event::Sampled { round, seconds, lines },
                Event::Sampled { round: later, seconds: time, lines: more },
            ) => {
                (*round, *seconds) = (later, *seconds + time);
                more.into_iter().for_each(|line| add_sample(lines, line));
            }
            _ => {}
        }
    }
    (place, sum)
}

fn add_node(nodes: &mut Vec<NodeLine>, line: NodeLine) {
    let Some(sum) = nodes.iter_mut().find(|sum| sum.node == line.node) else {
        nodes.push(line);
        return;
    };
    *sum = NodeLine {
        sent_bytes: sum.sent_bytes.saturating_add(line.sent_bytes),
        received_bytes: sum.received_bytes.saturating_add(line.received_bytes),
        late: sum.late.saturating_add(line.late),
        samples_per_s: sum.samples_per_s.midpoint(line.samples_per_s),
        wait: sum.wait.zip(line.wait).map(|(a, b)| a.midpoint(b)).or(line.wait),
        ..line
    };
}

/// Peaks of memory and heat stay.
fn add_sample(lines: &mut Vec<SampleLine>, line: SampleLine) {
    let Some(sum) = lines.iter_mut().find(|sum| sum.name == line.name) else {
        lines.push(line);
        return;
    };
    sum.phases.add_all(&line.phases);
    let mean = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.midpoint(b)).or(a).or(b);
    let most = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.max(b)).or(a).or(b);
    sum.machine = match (sum.machine, line.machine) {
        (Some(a), Some(b)) => Some(MachineSample {
            cores: mean(a.cores, b.cores),
            busy: mean(a.busy, b.busy),
            rss_mb: most(a.rss_mb, b.rss_mb),
            received_bytes_per_s: mean(a.received_bytes_per_s, b.received_bytes_per_s),
            sent_bytes_per_s: mean(a.sent_bytes_per_s, b.sent_bytes_per_s),
            celsius: most(a.celsius, b.celsius),
            throttled: a.throttled.max(b.throttled),
            watts: mean(a.watts, b.watts),
            energy: a.energy.max(b.energy),
        }),
        (a, b) => a.or(b),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::{Phase, TimeBook};
    use crate::sample;

    fn progress(round: u64, loss: f64) -> Stamped {
        let mut event = sample::progress(round);
        let Event::Progress { loss: told, .. } = &mut event else { unreachable!() };
        *told = loss;
        Stamped { at_s: round as f64, event }
    }

    #[test]
    fn peaks_stay() {
        let loss = |round: u64| match round {
            77_777 => 9.0,
            123_456 => 0.001,
            _ => 0.5,
        };
        let thin = ThinLog::of((1..=200_000).map(|round| progress(round, loss(round))));
        assert_eq!(thin.lines, 200_000);
        assert!((STRETCHES..STRETCHES * 8).contains(&thin.events.len()), "{}", thin.events.len());
        for (round, expect) in [(1, 0.5), (77_777, 9.0), (123_456, 0.001), (200_000, 0.5)] {
            let found = thin.events.iter().find(|event| event[2] == round);
            assert_eq!(found.and_then(|event| event[4].as_f64()), Some(expect), "round {round}");
        }
    }

    #[test]
    fn sums_of_samples_stay() {
        let sampled = |round| Stamped { at_s: round as f64, event: sample::sampled(round) };
        let thin = merged(&(1..=50_000).map(|round| (round, sampled(round))).collect::<Vec<_>>());
        assert!(thin.len() <= 1000, "{}", thin.len());
        let mut book = TimeBook::default();
        thin.iter().for_each(|(_, stamped)| book.count(&stamped.event));
        let sum: f64 = thin
            .iter()
            .map(|(_, stamped)| match &stamped.event {
                Event::Sampled { lines, .. } => lines[0].phases.get(Phase::Backward),
                _ => 0.0,
            })
            .sum();
        assert!((sum - 1.25 * 50_000.0).abs() < 1e-3, "{sum}");
    }

    #[test]
    fn what_is_still_written_and_what_is_broken_is_passed_over() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("events.jsonl");
        let line = |round| serde_json::to_string(&progress(round, 0.5)).unwrap();
        std::fs::write(&path, format!("{}\nnonsense\n{}\n{{\"at_s\"", line(1), line(2))).unwrap();
        let thin = ThinLog::read(&path).unwrap();
        assert_eq!((thin.lines, thin.broken, thin.events.len()), (3, 1, 2));
    }

    #[test]
    fn parts_of_a_log_are_read_side_by_side() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("events.jsonl");
        let events: Vec<Stamped> = (0..100).map(|round| progress(round, 1.0 / round as f64)).collect();
        for cut in [0, 1, 100] {
            let lines = events.iter().map(|event| serde_json::to_string(event).unwrap() + "\n");
            let text: String = lines.collect();
            std::fs::write(&path, &text[..text.len() - cut]).unwrap();
            let whole = text[..text.len() - cut].matches('\n').count();
            let read = ThinLog::read(&path).unwrap();
            let expect = ThinLog::of(events[..whole].iter().cloned());
            assert_eq!((read.lines, read.events), (expect.lines, expect.events), "{cut} bytes are missing");
        }
    }
}

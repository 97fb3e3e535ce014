//! How far a run is, in lines for a terminal of 80 columns.

use std::path::Path;

use crate::error::Result;
use crate::event::Event;
use crate::log::read_events;
use crate::number;
use crate::transcript::Transcript;

/// No line is longer.
const WIDTH: usize = 80;

/// A run in one line: how it ended, or how far it is.
///
/// # Errors
/// When its log cannot be read.
pub fn status_line(folder: &Path) -> Result<String> {
    let events = read_events(&folder.join("events.jsonl"))?;
    let (mut rounds, mut state) = (0, "nothing has happened yet".to_owned());
    for stamped in &events {
        match &stamped.event {
            Event::Started { rounds: planned, .. } => {
                (rounds, state) = (*planned, "started".to_owned());
            }
            Event::Waiting { missing, .. } if !missing.is_empty() => state = format!("waits for {missing}"),
            Event::Progress { round, loss, .. } => {
                let share = *round as f64 / rounds.max(1) as f64;
                state = format!("{}, loss {}", number::short_percent(share), number::decimal(*loss));
            }
            Event::Ended { summary } => {
                let accuracy = summary
                    .accuracy
                    .map_or(String::new(), |accuracy| format!(", {}", number::percent(accuracy)));
                state = format!("{} in {}{accuracy}", summary.exit.name(), number::seconds(summary.seconds));
            }
            _ => {}
        }
    }
    Ok(state)
}

/// A run as its terminal would show it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusTable {
    /// Where it is, and its nodes.
    pub lines: Vec<String>,
    /// Whether it has ended.
    pub is_over: bool,
}

/// Where a run is now.
///
/// # Errors
/// When its log cannot be read.
pub fn status_table(folder: &Path) -> Result<StatusTable> {
    let (mut transcript, mut position, mut is_over) = (Transcript::default(), None, false);
    for stamped in read_events(&folder.join("events.jsonl"))? {
        transcript.lines(folder, &stamped);
        position = transcript.position(&stamped).map(|position| position.message).or(position);
        // One that is resumed goes on.
        is_over = matches!(stamped.event, Event::Ended { .. });
    }
    let mut lines = vec![status_line(folder)?];
    lines.extend(position);
    lines.extend(transcript.nodes());
    let lines = lines.into_iter().map(|line| line.chars().take(WIDTH).collect()).collect();
    Ok(StatusTable { lines, is_over })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::folder::RunFolder;
    use crate::log::Log;
    use crate::sample;

    #[test]
    fn says_how_far_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(&temp.path().join("run")).unwrap();
        let started = Instant::now();
        let mut log = Log::open(&folder, started, Vec::new()).unwrap();
        let mut check = |event, expect: &str| {
            log.record(started, event);
            assert_eq!(status_line(folder.path()).unwrap(), expect);
        };
        check(sample::started(), "started");
        check(sample::waiting(3, "2 workers"), "waits for 2 workers");
        check(sample::progress(469), "20.00 %, loss 0.5000");
        let nodes = (1..=40).map(sample::node_line).collect();
        check(Event::Nodes { round: 469, nodes }, "20.00 %, loss 0.5000");
        let StatusTable { lines, is_over } = status_table(folder.path()).unwrap();
        assert!(lines.len() > 10 && lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:#?}");
        assert!(!is_over);
        check(Event::Ended { summary: Box::new(sample::summary()) }, "done in 1m 23s, 88.75 %");
        assert!(status_table(folder.path()).unwrap().is_over);
    }
}

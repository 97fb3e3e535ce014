//! A run on other machines, shown as if it were here: its events are followed, and given to the same views.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bonfire_launch::seat::End;
use bonfire_launch::{Heard, Session, Trouble};
use bonfire_report::{Event, Stamped, View};

use super::super::fleet::Member;

/// The view of a run.
#[derive(Debug)]
pub struct Show {
    view: View,
    folder: PathBuf,
    /// Held back until the folder is here, which it names.
    last: Option<Stamped>,
    at_s: f64,
    pub has_begun: bool,
}

impl Show {
    pub fn new(folder: &Path, quiet: bool, json: bool) -> Self {
        let view = View::choose(quiet, json, std::io::stderr().is_terminal());
        // As a person here would name it.
        let here = std::env::current_dir().unwrap_or_default();
        let folder = folder.strip_prefix(&here).unwrap_or(folder).to_owned();
        Self { view, folder, last: None, at_s: 0.0, has_begun: false }
    }

    /// A line of the log.
    fn line(&mut self, line: &str) {
        // Half a line is what a full disk leaves.
        let Ok(stamped) = serde_json::from_str::<Stamped>(line) else { return };
        self.at_s = stamped.at_s;
        self.has_begun |= matches!(stamped.event, Event::NodeJoined { .. } | Event::Progress { .. });
        if matches!(stamped.event, Event::Ended { .. }) {
            self.last = Some(stamped);
        } else {
            self.view.show(&self.folder, &stamped);
        }
    }

    /// Something that this machine has noticed.
    pub fn warn(&mut self, message: String) {
        let event = Event::Warned { message };
        self.view.show(&self.folder, &Stamped { at_s: self.at_s, event });
    }

    /// The folder is here, as far as it came.
    pub fn finish(&mut self) {
        if let Some(last) = self.last.take() {
            self.view.show(&self.folder, &last);
        }
    }
}

/// The events of a run, as they are written on the head's host.
#[derive(Debug)]
pub struct Watching {
    session: Option<Session>,
}

impl Watching {
    pub fn start(head: &Member, place: &str, run: &str) -> Result<Self, Trouble> {
        let arguments = ["host", "follow", run, "0", "run/events.jsonl"];
        Ok(Self { session: Some(Session::start(&head.remote, place, &arguments, "")?) })
    }

    /// Shows what comes within a time; false at the end.
    pub fn show(&mut self, show: &mut Show, time: Duration) -> Result<bool, Trouble> {
        let until = Instant::now() + time;
        while let Some(session) = &self.session {
            match session.next(until.saturating_duration_since(Instant::now())) {
                Heard::Line(line) => show.line(&line),
                Heard::Nothing => return Ok(true),
                Heard::End => {
                    let ended = self.session.take().map(Session::end);
                    return ended.unwrap_or(Ok(())).map(|()| false);
                }
            }
            if Instant::now() > until {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// How the head of a run ended.
#[derive(Clone, Debug, Default)]
pub struct HeadEnd {
    pub code: Option<i32>,
    pub end: End,
}

impl HeadEnd {
    /// The last words of a head that failed.
    pub fn why(&self) -> String {
        let error = self.end.said.iter().rev().find_map(|line| line.strip_prefix("error: "));
        match (error, &self.end.reason, self.code) {
            (Some(error), ..) => error.to_owned(),
            (None, Some(reason), _) => format!("the head was ended: {reason},"),
            (None, None, Some(code)) => format!("the head ended with code {code}"),
            (None, None, None) => "the head was killed".to_owned(),
        }
    }
}

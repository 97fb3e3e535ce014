//! A run on other machines, shown as if it were here: its events are given to the same views.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use bonfire_launch::RunNews;
use bonfire_report::{Event, Stamped, View};

/// The view of a run.
#[derive(Debug)]
pub(crate) struct Show {
    view: View,
    folder: PathBuf,
    /// Held back until the folder is here, which it names.
    last: Option<Stamped>,
    at_s: f64,
}

/// Whether a line of the log says that nodes have joined.
pub(crate) fn begins(line: &str) -> bool {
    let event = serde_json::from_str::<Stamped>(line).map(|stamped| stamped.event);
    matches!(event, Ok(Event::NodeJoined { .. } | Event::Progress { .. }))
}

impl Show {
    pub(crate) fn new(folder: &Path, quiet: bool, json: bool) -> Self {
        let view = View::choose(quiet, json, std::io::stderr().is_terminal());
        // As a person here would name it.
        let here = std::env::current_dir().unwrap_or_default();
        let folder = folder.strip_prefix(&here).unwrap_or(folder).to_owned();
        Self { view, folder, last: None, at_s: 0.0 }
    }

    pub(crate) fn news(&mut self, news: RunNews<'_>) {
        match news {
            RunNews::Line(line) => self.line(line),
            RunNews::Warning(message) => {
                let event = Event::Warned { message };
                self.view.show(&self.folder, &Stamped { at_s: self.at_s, event });
            }
        }
    }

    /// A line of the log.
    pub(crate) fn line(&mut self, line: &str) {
        // Half a line is what a full disk leaves.
        let Ok(stamped) = serde_json::from_str::<Stamped>(line) else { return };
        self.at_s = stamped.at_s;
        if matches!(stamped.event, Event::Ended { .. }) {
            self.last = Some(stamped);
        } else {
            self.view.show(&self.folder, &stamped);
        }
    }

    /// The folder is here, as far as it came.
    pub(crate) fn finish(&mut self) {
        if let Some(last) = self.last.take() {
            self.view.show(&self.folder, &last);
        }
    }
}

//! What a process of a run writes to a file, line by line as it comes.

use std::time::{Duration, Instant};

use crate::fleet::FleetHost;
use crate::run_list::RunRecord;
use crate::session::{Session, SessionNews};
use crate::trouble::Trouble;

/// Reads a file on a host until the process has ended that writes it.
#[derive(Debug)]
pub(crate) struct Follower {
    /// None at the end.
    session: Option<Session>,
}

impl Follower {
    /// Follows a file in the folder of a process; with `once` only what is there now.
    pub(crate) fn start(
        host: &FleetHost,
        record: &RunRecord,
        number: usize,
        file: &str,
        once: bool,
    ) -> Result<Self, Trouble> {
        Self::start_at(host, record, (number, file, 0), once)
    }

    /// The same from an offset in the file on.
    pub(crate) fn start_at(
        host: &FleetHost,
        record: &RunRecord,
        (number, file, offset): (usize, &str, u64),
        once: bool,
    ) -> Result<Self, Trouble> {
        let (number, offset) = (number.to_string(), format!("--offset={offset}"));
        let mut arguments = vec!["host", "follow", record.id.as_str(), &number, file];
        if offset != "--offset=0" {
            arguments.push(&offset);
        }
        if once {
            arguments.push("--once");
        }
        Ok(Self { session: Some(Session::start(&host.remote, &record.program, &arguments, "")?) })
    }

    /// Hands on the lines that come within a time; false at the end.
    pub(crate) fn read(&mut self, time: Duration, line: &mut dyn FnMut(&str)) -> Result<bool, Trouble> {
        let until = Instant::now() + time;
        while let Some(session) = &self.session {
            match session.next(until.saturating_duration_since(Instant::now())) {
                SessionNews::Line(text) => line(&text),
                SessionNews::Nothing => return Ok(true),
                SessionNews::End => {
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

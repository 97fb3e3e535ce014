//! Who watches over a process on a host: as long as the launcher is there, and no longer.
//!
//! The launcher starts a guard over ssh. The guard starts the process, tells of it, and ends it when it is told to,
//! when its input ends, or when that brings no sign of life: then the terminal, the launcher or the network is gone.
//! The head's is first: it ends the run in order and tells its nodes, so that none of them is lost before the last
//! checkpoint. A detached guard lets its process go on.

mod host;
mod watch;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::run_process::ProcessEnd;

pub use host::guard;
pub(crate) use watch::{GuardNews, Watch};

/// What a guard is to do: the first line of its input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GuardOrder {
    pub run: String,
    /// Of the process in its run.
    #[serde(rename = "seat")]
    pub number: usize,
    /// For people: `worker 2`.
    pub role: String,
    /// What the program is started with, in its own folder.
    pub arguments: Vec<String>,
    /// Files of that folder: names and what is in them. Secrets travel this way, not among the arguments.
    pub files: Vec<(String, String)>,
    /// A folder of the run's folder that becomes one of the process's: what it is called, and is to be called.
    #[serde(default)]
    pub folder: Option<(String, String)>,
    /// A file that the process will write, and whose content is to be told and taken away.
    pub awaited: Option<String>,
    pub is_detached: bool,
}

/// A line of the input after the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// The launcher is there.
    Beat,
    /// End in order.
    Stop,
    /// End at once.
    Kill,
}

/// What a guard tells, a line each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    Started {
        process: ProcessId,
        command: Vec<String>,
    },
    /// The content of the awaited file.
    Awaited {
        content: String,
    },
    Ended {
        end: ProcessEnd,
    },
    /// The process was not started.
    Failed {
        reason: String,
    },
}

/// How often the launcher gives a sign of life.
pub(crate) const BEAT: Duration = Duration::from_secs(4);

/// After so long without one, the guard ends its process.
pub(crate) const SILENCE: Duration = Duration::from_secs(20);

/// So long the guard of a node waits for the head to end the run. The head's own may hear of it a sign of life later.
pub(crate) const FAREWELL: Duration = Duration::from_secs(6);

/// How long a process that was told to end may take: a head writes a checkpoint, perhaps to a slow card.
pub(crate) const GRACE: Duration = Duration::from_secs(20);

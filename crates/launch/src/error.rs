use std::fmt;

use crate::run_process::ProcessEnd;

/// Why a run is not on its hosts, or did not come to a good end there.
#[derive(Clone, Debug)]
pub enum LaunchError {
    /// What was asked for cannot be, and nothing was started.
    Unfit(String),
    /// A host, or something on it, failed.
    Failed(String),
    /// The head ended before it was ready. Nothing is left of the run.
    HeadEnded { host: String, end: Box<ProcessEnd> },
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(message) | Self::Failed(message) => f.write_str(message),
            Self::HeadEnded { host, end } => write!(f, "the head did not start: {} on {host}", end.why()),
        }
    }
}

impl std::error::Error for LaunchError {}

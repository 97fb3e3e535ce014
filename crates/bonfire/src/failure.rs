use std::fmt;

use anyhow::Error;
use bonfire_launch::{LabError, LaunchError};
use bonfire_run::YamlError;

/// Marks an error that is not the fault of the input: the program ends with exit code 1 instead of 2.
#[derive(Debug)]
pub(crate) struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// What it means for the input that a run ended so: some of what is wrong with a run file shows only when all nodes are
/// there.
pub(crate) fn of_run(error: Error) -> Error {
    if error.is::<YamlError>() { error } else { error.context(Failed("the run failed".to_owned())) }
}

/// Whether an error is not the fault of the input.
pub(crate) fn is_failure(error: &Error) -> bool {
    // Asked of the error as a whole: a `Failed` that was added as context is not among its causes.
    error.is::<Failed>()
        || error.downcast_ref().is_some_and(|error| !matches!(error, LaunchError::Unfit(_)))
        || error.downcast_ref().is_some_and(|error| matches!(error, LabError::Failed(_)))
}

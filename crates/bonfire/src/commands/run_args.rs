use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use bonfire_report::{Exit, Summary, View};

use super::INTERRUPTED;
use crate::Training;

/// What every command has that starts a run.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The run file (YAML). Without one, everything has its default: lenet5 on digits
    run_file: Option<PathBuf>,
    /// Change a key of the run file; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The run folder itself [default: a new one below runs/]
    #[arg(long, value_name = "RUN_DIR", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Go on with the run of a folder, from its newest whole checkpoint
    #[arg(long, value_name = "RUN_DIR", conflicts_with = "run_file")]
    resume: Option<PathBuf>,
    /// Show nothing but warnings and errors
    #[arg(long, short)]
    quiet: bool,
    /// Print every event as a line of JSON
    #[arg(long)]
    json: bool,
}

impl RunArgs {
    /// Whether little is to be said.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet || self.json
    }

    /// Whether what the run is read from is on this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.resume.as_ref().or(self.run_file.as_ref()).is_none_or(|path| path.exists())
    }

    /// The run that is asked for.
    pub(crate) fn training<'a>(self) -> Result<Training<'a>> {
        let training = match (&self.resume, &self.run_file) {
            (Some(folder), _) => Training::resume(folder)?,
            (None, Some(path)) => Training::of_file(path)?,
            (None, None) => Training::of(""),
        };
        let mut training =
            training.view(View::choose(self.quiet, self.json, std::io::stderr().is_terminal()));
        for assignment in self.set {
            training = training.set(assignment);
        }
        Ok(match self.out {
            Some(out) => training.out(out),
            None => training,
        })
    }
}

/// How the program ends after a run that did not fail.
pub(crate) fn exit_code(summary: &Summary) -> ExitCode {
    match summary.exit {
        Exit::Interrupted => ExitCode::from(INTERRUPTED),
        Exit::Done | Exit::TargetReached | Exit::StoppedEarly | Exit::Failed => ExitCode::SUCCESS,
    }
}

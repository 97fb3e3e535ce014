//! Where the processor time of this process goes, as a picture.

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result};
use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use crate::terminal::{say, warn};

/// So often a second of processor time it is looked at: no multiple of what else is done every millisecond or ten.
const LOOKS: i32 = 199;

/// A stack must not be looked at in the middle of a call in there.
const NOT_IN: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

#[derive(Debug, clap::Args)]
pub(crate) struct FlameArgs {
    /// Draw where the processor time of this process went, as a flame graph, into this file (SVG)
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
}

/// Looks until it is dropped, and draws what it saw.
pub(crate) struct Flame {
    guard: ProfilerGuard<'static>,
    file: File,
    path: PathBuf,
}

impl FlameArgs {
    /// Begins to look, if that is wanted. The file is made before anything is started: one that cannot be written is
    /// wrong input.
    pub(crate) fn start(&self) -> Result<Option<Flame>> {
        let Some(path) = self.flame.clone() else { return Ok(None) };
        let file =
            File::create(&path).with_context(|| format!("--flame: cannot write {}", path.display()))?;
        let guard = ProfilerGuardBuilder::default().frequency(LOOKS).blocklist(&NOT_IN).build();
        let guard = guard.context("--flame: this system has no timer of processor time")?;
        Ok(Some(Flame { guard, file, path }))
    }
}

impl Drop for Flame {
    fn drop(&mut self) {
        let drawn = self.guard.report().build().and_then(|report| report.flamegraph(&self.file));
        match drawn {
            Ok(()) => say(&format!("flame graph: {}", self.path.display())),
            Err(error) => warn(format!("--flame: {} cannot be drawn: {error}", self.path.display())),
        }
    }
}

//! What happens in a run, as typed events, and everything that is rendered from them.
//!
//! The run folder is the truth: each event becomes one line of its `events.jsonl`, and the terminal, the summary and
//! any later chart show what is in there, nothing else. This crate knows events only: no learning, no network. It
//! does not look at the clock either (git's deadline apart); when something happened is an argument.
//!
//! Reading order:
//!
//! 1. `event` and `summary`: what can happen, and what a run comes down to;
//! 2. `folder`: where a run keeps it;
//! 3. `log`: how an event gets there, and how a log is read back after a crash;
//! 4. `terminal` and `bars`: the views; `transcript`, `roster`, `heading` and [`number`] make their text;
//! 5. `page`: charts of a run, or of several; `serve`: the same while it goes on, and figures for Prometheus, over
//!    [`http`]; `tensorboard`: the same for others to show;
//! 6. `facts` and `git`: what a run was started on and from; `energy`, `machine` and `phases`: what it took, and when.
//!
//! # Example
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use bonfire_report::{Event, Log, RunFolder, View, read_events};
//!
//! # let temp = tempfile::tempdir()?;
//! # let path = temp.path().join("fashion");
//! # let path = path.as_path();
//! let folder = RunFolder::create(path)?;
//! let started = Instant::now();
//! let mut log = Log::open(&folder, started, vec![View::choose(true, false, false)])?;
//! log.record(started + Duration::from_secs(2), Event::Noted { message: "training on 4 of 4 cores".into() });
//!
//! let events = read_events(&folder.events())?;
//! assert_eq!(events[0].at_s, 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// In a test a panic is the report.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::print_stderr))]

mod bars;
mod date;
mod energy;
mod error;
mod event;
mod facts;
mod figures;
mod float;
mod folder;
mod git;
mod heading;
pub mod http;
mod log;
mod machine;
mod metrics;
pub mod number;
mod page;
#[cfg(test)]
mod pane;
mod phases;
mod roster;
#[cfg(test)]
mod sample;
mod serve;
mod status;
mod summary;
mod svg;
mod tensorboard;
mod terminal;
mod trace;
mod transcript;

pub use bars::Bars;
pub use energy::{EnergyBook, EnergyLabel, EnergyMeter, HostEnergy, Watts};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, NodeLine, SampleLine, ShareLine, Stamped};
pub use facts::{HostFacts, peak_rss_mb};
pub use figures::{csv, write_svgs};
pub use folder::{FORMAT, PartFile, RunFolder, newer_format, write_atomically, write_json};
pub use git::GitFacts;
pub use log::{Log, read_events};
pub use machine::{MachineSample, MachineWatch};
pub use page::{report_page, write_report};
pub use phases::{Phase, Phases, TimeBook};
pub use serve::{PageServer, PageSource};
pub use status::{StatusTable, status_line, status_table};
pub use summary::{ClassLine, Exit, Summary};
pub use tensorboard::{GraphLayer, TensorBoard, TensorBoardFacts};
pub use terminal::{Json, PlainLines, View};
pub use trace::trace;

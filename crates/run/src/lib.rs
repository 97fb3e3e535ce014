//! Training on one machine, from run file to checkpoint. Knows no wire: what happens between machines is `cluster`'s.
//!
//! Read in this order: [`run_file`] (what is asked for), [`job`] (data and models, ready to start), [`worker`] and
//! [`crew`] (one round), [`run`] (the loop with its events and files), [`checkpoint`], [`interchange`] (with PyTorch),
//! [`onnx`], [`predict`], [`evaluator`], [`sweep`] (many runs), [`bench`](mod@bench).
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//! use std::time::Instant;
//!
//! use bonfire_run::{Job, Overrides, Run, Scale, Settings};
//!
//! # let temp = tempfile::tempdir()?;
//! # let folder = temp.path().join("first");
//! let text = "{data: {name: digits, train: 500, test: 100}, epochs: 1}";
//! let settings = Settings::read("run.yml", text, &Overrides::default(), 2)?;
//! let job = Job::prepare(settings, Scale::Threads)?;
//! let run = Run::create(job, &folder, Vec::new(), Instant::now())?;
//! let summary = run.finish(&AtomicBool::new(false))?;
//! assert_eq!(summary.samples, 500);
//! # Ok::<(), anyhow::Error>(())
//! ```

pub mod bench;
pub mod checkpoint;
pub mod crew;
pub mod evaluator;
pub mod interchange;
pub mod job;
pub mod ledger;
pub mod loader;
pub mod onnx;
pub mod predict;
pub mod replica;
pub mod run;
pub mod run_file;
pub mod schedule;
pub mod state;
pub mod sweep;
pub mod worker;

pub use bonfire_yaml::YamlError;
pub use job::{Job, Scale};
pub use run::Run;
pub use run_file::{Overrides, Ranks, Settings};

//! Bonfire trains neural networks on the computers people already have.
//!
//! This crate is the command line and the library. The command line is [`commands`]; a program of your own starts with
//! [`Training`]: a run file, and if you like a model of your own made from the layers of [`learn`]. The data sets that
//! a run can train on are those of [`data`].
//!
//! ```
//! let folder = std::env::temp_dir().join(format!("bonfire-doc-{}", std::process::id()));
//! let run_file = "{data: {name: digits, train: 500, test: 100}, epochs: 1}";
//! let summary = bonfire::Training::of(run_file).quiet().out(&folder).run()?;
//! assert_eq!(summary.samples, 500);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), bonfire::Error>(())
//! ```

pub mod commands;
mod device_pool;
mod failure;
mod fetch;
mod foreign;
mod terminal;
mod training;

pub use anyhow::{Error, Result};
pub use bonfire_report::Summary;
pub use {bonfire_data as data, bonfire_learn as learn, bonfire_report as report};

pub use training::Training;

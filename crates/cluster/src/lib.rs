//! Runs: from a run file to a trained model. Here the learning, the reporting and, on more machines than one, the wire meet.
//!
//! Read in this order: [`run_file`] (what is asked for), [`job`] (data and models, ready to start), [`worker`] and [`crew`]
//! (one round), [`run`] (the loop with its events and files), [`checkpoint`], [`interchange`] (with PyTorch), [`evaluator`],
//! [`bench`](mod@bench).

pub mod allreduce;
pub mod bench;
pub mod checkpoint;
pub mod course;
pub mod crew;
pub mod evaluator;
pub mod exchange;
pub mod interchange;
pub mod job;
pub mod ledger;
pub mod loader;
mod local;
pub mod mail;
pub mod remote;
pub mod replica;
pub mod roles;
pub mod run;
pub mod run_file;
#[cfg(test)]
mod simulation;
mod state;
pub mod station;
pub mod worker;
pub mod world;

pub use bonfire_learn as learn;
pub use bonfire_report as report;
pub use bonfire_wire as wire;
pub use bonfire_wire::{Passphrase, Ticket};

pub use job::{Job, Scale};
pub use run::Run;
pub use run_file::{Overrides, Ranks, Settings};

#[cfg(test)]
mod spoilt;

#[cfg(test)]
#[global_allocator]
static COUNTING: bonfire_spoil::Counting = bonfire_spoil::Counting;

//! The program as its users meet it: every test starts the real binary in a folder of its own.
//!
//! `program` starts it and never waits without a deadline, `fire` starts a whole cluster of it, `bed` has hosts to
//! launch on, `adversary` comes to a cluster, `record` reads what a run left behind. The rest is one file for each
//! promise.

#![allow(clippy::print_stderr, reason = "a test tells its seed, and what it leaves out")]

mod adversary;
mod bed;
mod fire;
mod program;
mod record;
mod stall;

mod auto;
mod browser;
mod cluster;
mod comeback;
mod coming_from;
mod compression;
mod crash;
mod crates;
mod data;
mod elsewhere;
mod evaluator;
mod exchange;
mod faults;
mod formats;
mod full_disk;
mod group_servers;
mod house;
mod instructions;
mod interchange;
mod joining;
mod lab;
mod lab_shares;
mod launch;
mod launch_faults;
mod launchers;
mod layers;
mod learning;
mod libraries;
mod local_steps;
mod memory;
mod mixed;
mod mpi;
mod output;
mod own_data;
mod photos;
mod plan;
mod predict;
mod prepare;
mod prepare_on_hosts;
mod python;
mod readme;
mod real_launchers;
mod regression;
mod run_folder;
mod seed;
mod seeing;
mod serve;
mod shares;
mod spark;
mod stop;
mod strangers;
mod sweep;
mod validation;
mod wrong_input;

/// A run of a second or less: 160 rounds with two workers.
const SMALL: &str = "
    data={name: digits, train: 2048, test: 300}
    epochs=5
    workers=2
";

/// Of a run that is [`SMALL`].
const ROUNDS_PER_EPOCH: u64 = 2048 / (2 * 32);

/// A run of a moment.
const TINY: &str = "
    data={name: digits, train: 200, test: 50}
    num_server_rounds=2
    workers=2
";

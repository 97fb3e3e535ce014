//! Who waits for whom, and who gets which share of the data: pure decisions, no IO, no clock, no threads.
//!
//! A role of a run hands every event to one of these and does what it says, in that order: the same code decides in a
//! live run, in a test that moves the clock by hand, and in a simulation. The time since the run's start is an
//! argument, and whatever a person would ask about comes with its reason in words.
//!
//! Each strategy has its own `Event`, `Action` and `Rule`, which are named with their module: `server::Event`.
//!
//! Members are numbered in a fixed order, which is also the order in which their pushes are summed up. An *order* is
//! what a member is told to do: some units on a version. The push that answers it names the order, so that nothing is
//! taken in twice.
//!
//! Reading order:
//!
//! 1. `deck`: which units of the data are still to be done;
//! 2. [`server`]: a parameter server and its members, sync, async or with backup workers;
//! 3. [`relay`]: a member of a server that has workers of its own;
//! 4. [`group`]: the head of an all-reduce group;
//! 5. [`shares`]: how large each worker's part of a round is.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use bonfire_strategy::{Deck, Server, group, server};
//!
//! let pace = group::Pace::UNIT;
//! let rule = server::Rule { max_staleness: 0, take: None, straggler: None, min_members: 1, max_updates: None, pace };
//! let mut server = Server::new(rule, Deck::new(1, Some(1)), 0);
//! let now = Duration::from_secs(1);
//! server.on(server::Event::Joined { member: 7, lease: 1 }, now);
//!
//! let actions = server.on(server::Event::Start, now);
//! let server::Action::Release { member: 7, order, version: 0, units } = &actions[0] else { panic!("{actions:?}") };
//!
//! let push = server::Event::Pushed { member: 7, order: *order, done: units.clone(), unused: vec![], empty: false };
//! let actions = server.on(push, now);
//! assert!(matches!(&actions[0], server::Action::Apply { version: 1, .. }));
//! assert_eq!(actions[1], server::Action::EpochDone(0));
//! assert!(server.is_finished());
//! ```

// In a test a panic is the report.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod choice;
mod deck;
pub mod group;
mod keyed;
pub mod relay;
pub mod server;
pub mod shares;
mod words;

pub use deck::{Deck, Unit};
pub use group::Group;
pub use relay::Relay;
pub use server::Server;
pub use shares::Balancer;

//! Runs on several machines: the roles of a cluster, and the gradients that travel between them.
//!
//! What a run is, from its run file to its checkpoints, is `bonfire-run`'s; who waits for whom is `bonfire-strategy`'s;
//! frames between processes are `bonfire-wire`'s. Here they meet.
//!
//! Read in this order: `exchange` (gradients as payloads), `mail` (what comes over all links of a node), `roles` (the head
//! and what a node may be told to be), [`local`] (the roles as threads), [`remote`] (as processes), [`bench`](mod@bench).

mod allreduce;
pub mod bench;
mod exchange;
pub mod local;
mod mail;
pub mod remote;
mod roles;
#[cfg(test)]
mod simulation;
mod station;
mod world;

pub use exchange::Codec;
pub use world::check_engine;

#[cfg(test)]
mod spoilt;

#[cfg(test)]
#[global_allocator]
static COUNTING: bonfire_spoil::Counting = bonfire_spoil::Counting;

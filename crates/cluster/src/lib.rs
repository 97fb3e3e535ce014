//! Runs on several machines: the roles of a cluster.
//!
//! What a run is, from its run file to its checkpoints, is `bonfire-run`'s; who waits for whom is `bonfire-strategy`'s;
//! frames between processes are `bonfire-wire`'s; gradients on their way are `bonfire-exchange`'s. Here they meet.
//!
//! Read in this order: `mail` (what comes over all links of a node), `roles` (the head and what a node may be told to
//! be), [`local`] (the roles as threads), [`remote`] (as processes), [`bench`](mod@bench), [`plan`].

pub mod bench;
mod exertion;
mod forerunner;
pub mod local;
mod mail;
pub mod plan;
pub mod remote;
mod roles;
mod room;
#[cfg(test)]
mod simulation;
mod trainer;

pub use bonfire_exchange::world::check_engine;

/// A gradient as a worker pushes it to answer an order: frames with its chunks, as they are.
pub fn push_frames(
    gradient: &bonfire_learn::Gradient,
    layout: &bonfire_learn::Layout,
    order: u64,
) -> Vec<bonfire_wire::Frame> {
    let chunks = std::sync::Arc::new(bonfire_exchange::chunks::Chunks::of(layout));
    let mut encoder =
        bonfire_exchange::codec::ChunkEncoder::new(&chunks, bonfire_exchange::codec::Coding::PLAIN);
    let mut frames = Vec::new();
    let mut push = roles::worker::GradientPush::new(&encoder, order, false);
    push.advance(&mut encoder, gradient, 0, usize::MAX, |frame| frames.push(frame));
    frames
}

#[cfg(test)]
mod spoilt;

#[cfg(test)]
#[global_allocator]
static COUNTING: bonfire_spoil::Counting = bonfire_spoil::Counting;

//! Gradients, parameters and states on their way between machines: vectors in chunks, chunks as payloads, and payloads
//! as something that can be summed.
//!
//! Three things are apart. What travels is a flat vector in chunks ([`chunks`]). How a chunk is written is its codec
//! ([`codec`], and [`received`] for who reads it; [`parameters`] for what is never rounded). Who sums it is a way: a
//! server ([`collector`]), all members, each some chunks ([`sharded`]; [`low_rank`] for factors of matrices), or an MPI
//! library ([`world`]). Nobody waits here: the roles of `bonfire-cluster` do.
//!
//! Read in this order: [`chunks`], [`codec`], [`received`], [`collector`], [`updates`] (what a server sends back),
//! [`sharded`], [`low_rank`], [`gradient_sums`], [`sums`] (other ways to combine gradients), [`state`] (what a newcomer
//! needs).
//!
//! ```
//! use std::sync::Arc;
//! use bonfire_exchange::{chunks::Chunks, codec::{ChunkEncoder, Coding}, collector::Collector};
//! use bonfire_learn::{Gradient, Layout, layout::Init};
//! use bonfire_wire::proto;
//!
//! let mut layout = Layout::default();
//! layout.vector("weights".into(), 8, Init::Constant(0.0));
//! let mut gradient = Gradient::new(&layout);
//! (gradient.weight, gradient.values) = (1.0, vec![0.5; 8]);
//!
//! // Two workers push the same gradient; the server adds them up.
//! let mut collector = Collector::new(&layout, Coding::PLAIN);
//! for worker in [1, 2] {
//!     let mut encoder = ChunkEncoder::new(&Arc::new(Chunks::of(&layout)), Coding::PLAIN);
//!     let parcel = encoder.encode(&gradient, 0, false);
//!     let piece = proto::Piece { round: 1, weight: 1.0, plain: parcel.is_plain, ..proto::Piece::default() };
//!     collector.take(worker, &piece, parcel.payload)?;
//! }
//! let mut total = Gradient::new(&layout);
//! for worker in [1, 2] {
//!     collector.accumulate((worker, 1), &mut total)?;
//! }
//! assert_eq!(total.values, [1.0; 8]);
//! # anyhow::Ok(())
//! ```

mod adasum;
pub mod chunks;
pub mod codec;
pub mod collector;
pub mod gradient_sums;
mod lent;
pub mod low_rank;
pub mod owners;
mod packing;
mod pages;
pub mod parameters;
pub mod peers;
pub mod received;
pub mod sharded;
pub mod state;
pub mod sums;
pub mod updates;
pub mod world;

#[cfg(test)]
mod among;
#[cfg(test)]
mod spoilt;

#[cfg(test)]
#[global_allocator]
static COUNTING: bonfire_spoil::Counting = bonfire_spoil::Counting;

use anyhow::{Result, ensure};
use bytes::Bytes;

/// Vectors of floats, one after the other, in little-endian order.
pub fn floats_to_bytes<'a>(vectors: impl IntoIterator<Item = &'a [f32]>) -> Bytes {
    let mut bytes = Vec::new();
    for vector in vectors {
        bytes.reserve(vector.len() * 4);
        for chunk in vector.chunks(1024) {
            let mut block = [[0; 4]; 1024];
            for (block, value) in block.iter_mut().zip(chunk) {
                *block = value.to_le_bytes();
            }
            bytes.extend_from_slice(block[..chunk.len()].as_flattened());
        }
    }
    bytes.into()
}

/// The way back, into vectors of known length.
pub fn bytes_to_floats(bytes: &[u8], into: &mut [f32]) -> Result<()> {
    ensure!(bytes.len() == into.len() * 4, "{} bytes are not {} numbers", bytes.len(), into.len());
    for (value, bytes) in into.iter_mut().zip(bytes.as_chunks().0) {
        *value = f32::from_le_bytes(*bytes);
    }
    Ok(())
}

//! Gradients and parameters on their way: vectors in chunks, chunks as payloads, and payloads as something that can be
//! summed.
//!
//! Three things are apart. What travels is a flat vector in chunks ([`chunks`]). How a chunk is written is its codec
//! ([`codec`]; [`parameters`] for what is never rounded). Who sums it is a way: a server ([`collector`]), or all
//! members, each some chunks ([`sharded`]).

pub(crate) mod chunks;
pub(crate) mod codec;
pub(crate) mod collector;
mod pages;
pub(crate) mod parameters;
pub(crate) mod sharded;

use anyhow::{Result, ensure};
use bonfire_run::run_file::Compression;
use bonfire_wire::payload::Precision;
use bytes::Bytes;

/// How values travel under a compression.
pub(crate) fn precision(compression: Compression) -> Precision {
    match compression {
        Compression::None => Precision::F32,
        Compression::F16 => Precision::F16,
        Compression::Int8 => Precision::Int8,
    }
}

/// Vectors of floats, one after the other, in little-endian order.
pub(crate) fn floats_to_bytes<'a>(vectors: impl IntoIterator<Item = &'a [f32]>) -> Bytes {
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
pub(crate) fn bytes_to_floats(bytes: &[u8], into: &mut [f32]) -> Result<()> {
    ensure!(bytes.len() == into.len() * 4, "{} bytes are not {} numbers", bytes.len(), into.len());
    for (value, bytes) in into.iter_mut().zip(bytes.as_chunks().0) {
        *value = f32::from_le_bytes(*bytes);
    }
    Ok(())
}

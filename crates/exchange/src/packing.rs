//! Payloads packed without loss: the bytes of a kind put together, then Zstandard at its fastest. A gradient has many
//! zeros behind rectified units, and its exponents are much alike. (LZ4, which only finds repetitions, saved nothing of
//! a gradient without zeros.)
//!
//! | bytes | what |
//! |---|---|
//! | 3 + 1 | `bfz`, and whether the payload inside is all values as they are |
//! | 4 | how many bytes it has |
//! | the rest | its first, second, third and fourth bytes of every four, packed |

use std::fmt;

use anyhow::{Result, ensure};
use bytes::Bytes;
use zstd::bulk::Compressor;

use crate::chunks::Chunk;
use crate::codec::Parcel;

const MAGIC: [u8; 3] = *b"bfz";
const HEADER: usize = 8;

const LEVEL: i32 = 1;

/// Packs payloads. It keeps its memory.
#[derive(Default)]
pub(crate) struct Packer {
    compressor: Option<Compressor<'static>>,
    shuffled: Vec<u8>,
    packed: Vec<u8>,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    /// Packs a parcel, unless it would have more bytes then.
    pub(crate) fn pack(&mut self, parcel: Parcel) -> Parcel {
        let payload = &parcel.payload;
        self.shuffled.resize(payload.len(), 0);
        shuffle(payload, &mut self.shuffled);
        // No more than would be worth it.
        self.packed.resize(payload.len(), 0);
        let Some((header, room)) = self.packed.split_first_chunk_mut::<HEADER>() else { return parcel };
        header[..3].copy_from_slice(&MAGIC);
        header[3] = u8::from(parcel.is_plain);
        header[4..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        if self.compressor.is_none() {
            self.compressor = Compressor::new(LEVEL).ok();
        }
        let packed = self.compressor.as_mut().map(|packer| packer.compress_to_buffer(&self.shuffled, room));
        match packed {
            Some(Ok(len)) => Parcel {
                payload: Bytes::copy_from_slice(&self.packed[..HEADER + len]),
                is_plain: false,
                weight: parcel.weight,
            },
            _ => parcel,
        }
    }
}

impl Parcel {
    /// What is inside, if it was packed. Whatever came, no more is allocated than a chunk can have.
    pub fn unpacked(self, chunk: &Chunk) -> Result<Self> {
        let Some((header, packed)) = self.payload.split_first_chunk::<HEADER>() else { return Ok(self) };
        let [m0, m1, m2, plain, len @ ..] = *header;
        if self.is_plain || [m0, m1, m2] != MAGIC {
            return Ok(self);
        }
        let (len, most) = (u32::from_le_bytes(len) as usize, chunk.most_bytes());
        ensure!(plain <= 1 && len <= most, "it is packed from {len} bytes, but a chunk has at most {most}");
        let mut shuffled = vec![0; len];
        let unpacked = zstd::bulk::decompress_to_buffer(packed, &mut shuffled);
        ensure!(unpacked.is_ok_and(|unpacked| unpacked == len), "it cannot be unpacked to {len} bytes");
        let mut payload = vec![0; len];
        unshuffle(&shuffled, &mut payload);
        Ok(Self { payload: payload.into(), is_plain: plain == 1, weight: self.weight })
    }
}

/// The first bytes of all groups of four, then the second ones, and so on. What is left over stays at the end.
fn shuffle(bytes: &[u8], shuffled: &mut [u8]) {
    let (groups, rest) = bytes.as_chunks::<4>();
    let (planes, end) = shuffled.split_at_mut(groups.len() * 4);
    for (i, plane) in planes.chunks_exact_mut(groups.len().max(1)).enumerate() {
        plane.iter_mut().zip(groups).for_each(|(byte, group)| *byte = group[i]);
    }
    end.copy_from_slice(rest);
}

fn unshuffle(shuffled: &[u8], bytes: &mut [u8]) {
    let (groups, rest) = bytes.as_chunks_mut::<4>();
    let (planes, end) = shuffled.split_at(groups.len() * 4);
    for (i, plane) in planes.chunks_exact(groups.len().max(1)).enumerate() {
        groups.iter_mut().zip(plane).for_each(|(group, byte)| group[i] = *byte);
    }
    rest.copy_from_slice(end);
}

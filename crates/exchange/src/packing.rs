//! Payloads packed without loss: the bytes of a kind put together in planes, then each by Zstandard at its fastest. A
//! gradient has many zeros behind rectified units, and its exponents are much alike. Planes have a code each: one for
//! all saved half as much, since digits are chance and drown the exponents. (LZ4, which only finds repetitions, saved
//! nothing of a gradient without zeros.)
//!
//! | bytes | what |
//! |---|---|
//! | 3 + 1 | `bfz`, and whether the payload inside is all values as they are |
//! | 4 | how many bytes it has |
//! | 4 × 4 | how many each plane has, packed; one that has as many as it would unpacked is as it is |
//! | the rest | its first, second, third and fourth bytes of every four; what is left over |

use std::fmt;

use anyhow::{Result, ensure};
use bytes::Bytes;
use zstd::bulk::Compressor;

use crate::chunks::Chunk;
use crate::codec::Parcel;

const MAGIC: [u8; 3] = *b"bfz";
const PLANES: usize = 4;
const HEADER: usize = 8 + 4 * PLANES;

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
        self.packed.clear();
        self.packed.extend(MAGIC);
        self.packed.push(u8::from(parcel.is_plain));
        self.packed.extend((payload.len() as u32).to_le_bytes());
        self.packed.resize(HEADER, 0);
        if self.compressor.is_none() {
            self.compressor = Compressor::new(LEVEL).ok();
        }
        let Some(compressor) = &mut self.compressor else { return parcel };
        let (planes, rest) = self.shuffled.split_at(payload.len() / PLANES * PLANES);
        for (i, plane) in planes.chunks_exact((payload.len() / PLANES).max(1)).enumerate() {
            let start = self.packed.len();
            self.packed.extend_from_slice(plane);
            // No more than would be worth it.
            let room = &mut self.packed[start..start + plane.len() - 1];
            if let Ok(len) = compressor.compress_to_buffer(plane, room) {
                self.packed.truncate(start + len);
            } else {
                self.packed[start..].copy_from_slice(plane);
            }
            let len = (self.packed.len() - start) as u32;
            self.packed[8 + 4 * i..12 + 4 * i].copy_from_slice(&len.to_le_bytes());
        }
        self.packed.extend_from_slice(rest);
        if self.packed.len() >= payload.len() {
            return parcel;
        }
        let packed = Bytes::copy_from_slice(&self.packed);
        Parcel { payload: packed, is_plain: false, weight: parcel.weight }
    }
}

impl Parcel {
    /// What is inside, if it was packed. Whatever came, no more is allocated than a chunk can have.
    pub fn unpacked(self, chunk: &Chunk) -> Result<Self> {
        let Some((header, packed)) = self.payload.split_first_chunk::<HEADER>() else { return Ok(self) };
        let ([m0, m1, m2, plain, len @ ..], sizes) = split_header(header);
        if self.is_plain || [m0, m1, m2] != MAGIC {
            return Ok(self);
        }
        let (len, most) = (u32::from_le_bytes(len) as usize, chunk.most_bytes());
        ensure!(plain <= 1 && len <= most, "it is packed from {len} bytes, but a chunk has at most {most}");
        let mut shuffled = vec![0; len];
        let (planes, rest) = shuffled.split_at_mut(len / PLANES * PLANES);
        let mut packed = packed;
        for (plane, size) in planes.chunks_exact_mut((len / PLANES).max(1)).zip(sizes) {
            let came = packed.split_off(..size as usize);
            let unpacked = match came {
                Some(bytes) if bytes.len() == plane.len() => {
                    plane.copy_from_slice(bytes);
                    true
                }
                Some(bytes) => {
                    let unpacked = zstd::bulk::decompress_to_buffer(bytes, plane);
                    unpacked.is_ok_and(|unpacked| unpacked == plane.len())
                }
                None => false,
            };
            ensure!(unpacked, "it cannot be unpacked to {len} bytes");
        }
        ensure!(packed.len() == rest.len(), "it cannot be unpacked to {len} bytes");
        rest.copy_from_slice(packed);
        let mut payload = vec![0; len];
        unshuffle(&shuffled, &mut payload);
        Ok(Self { payload: payload.into(), is_plain: plain == 1, weight: self.weight })
    }
}

/// What a payload is packed from, and how many bytes its planes have.
fn split_header(header: &[u8; HEADER]) -> ([u8; 8], [u32; PLANES]) {
    let (words, _) = header.as_chunks::<4>();
    let [a, b, sizes @ ..] = [0, 1, 2, 3, 4, 5].map(|i| words[i]);
    let mut front = [0; 8];
    front[..4].copy_from_slice(&a);
    front[4..].copy_from_slice(&b);
    (front, sizes.map(u32::from_le_bytes))
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

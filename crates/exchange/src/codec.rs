//! Chunks of gradients as payloads.

use std::sync::Arc;

use bonfire_learn::Gradient;
use bonfire_learn::layout::TensorKind;
use bonfire_payload::{EncodedSection, EncodedVector, Encoder, Precision};
use bonfire_run::run_file::Compression;
use bytes::Bytes;

use crate::chunks::{Chunk, Chunks, Stretch};
use crate::lent::{LentChunk, OwnGradient};
use crate::packing::Packer;
use crate::pages::SendBuffers;
use crate::received::put_values;

/// How the values of chunks are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coding {
    /// All of them, in a precision.
    All(Precision),
    /// All of them as they are, packed without loss.
    Packed,
    /// This part of them, the largest, as they are.
    Largest(f32),
    /// Those that are not zero, as they are.
    Sparse,
}

impl Coding {
    /// As they are.
    pub const PLAIN: Self = Self::All(Precision::F32);
    pub const F16: Self = Self::All(Precision::F16);
    pub const INT8: Self = Self::All(Precision::Int8);

    /// How gradients travel under a compression; under one that is left open, until it is chosen.
    pub fn of(compression: Compression) -> Self {
        match compression {
            // Factors travel as they are.
            Compression::None | Compression::Auto | Compression::PowerSgd(_) => Self::PLAIN,
            Compression::Lossless => Self::Packed,
            Compression::F16 => Self::F16,
            Compression::Int8 => Self::INT8,
            Compression::TopK(part) => Self::Largest(part),
        }
    }

    /// How sums of what was written so travel: nothing is left out of them once more.
    pub fn of_sums(self) -> Self {
        match self {
            Self::Largest(_) => Self::Sparse,
            Self::All(_) | Self::Packed | Self::Sparse => self,
        }
    }

    /// Whether values lose digits on their way, or wait.
    pub fn is_lossy(self) -> bool {
        match self {
            Self::All(precision) => precision != Precision::F32,
            Self::Largest(_) => true,
            Self::Packed | Self::Sparse => false,
        }
    }
}

/// Turns chunks of gradients into payloads. What rounding loses of a chunk is added to the next one: error feedback.
#[derive(Debug)]
pub struct ChunkEncoder {
    chunks: Arc<Chunks>,
    coding: Coding,
    encoder: Encoder,
    packer: Packer,
    pages: SendBuffers,
    /// What was lost of each chunk so far; empty where nothing was.
    residuals: Vec<Vec<f32>>,
    /// The same with the round that goes on, which may yet break off.
    pending: Vec<Option<Vec<f32>>>,
    /// Memory of residuals that were replaced.
    spare: Vec<Vec<f32>>,
    /// Memory to use: a chunk with its residual, what is written of it, and what will be decoded.
    sent: Vec<f32>,
    kept: Vec<f32>,
    decoded: Vec<f32>,
}

/// A chunk on its way.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub payload: Bytes,
    /// The payload is all values as they are.
    pub is_plain: bool,
    /// How many losses were summed.
    pub weight: f64,
}

impl ChunkEncoder {
    pub fn new(chunks: &Arc<Chunks>, coding: Coding) -> Self {
        Self {
            chunks: Arc::clone(chunks),
            coding,
            encoder: Encoder::default(),
            packer: Packer::default(),
            pages: SendBuffers::default(),
            residuals: vec![Vec::new(); chunks.count()],
            pending: vec![None; chunks.count()],
            spare: Vec::new(),
            sent: Vec::new(),
            kept: Vec::new(),
            decoded: Vec::new(),
        }
    }

    /// Cuts otherwise from now on. What was lost so far stays lost.
    pub fn set_chunks(&mut self, chunks: &Arc<Chunks>) {
        self.chunks = Arc::clone(chunks);
        self.residuals = vec![Vec::new(); chunks.count()];
        self.pending = vec![None; chunks.count()];
    }

    pub fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// Writes otherwise from now on. What was lost so far stays lost.
    pub fn set_coding(&mut self, coding: Coding) {
        if coding != self.coding {
            self.coding = coding;
            self.reset();
        }
    }

    /// Whether values lose digits on their way.
    pub fn rounds(&self) -> bool {
        self.coding.is_lossy()
    }

    /// A chunk of a gradient. In an exact round nothing is rounded, and what was lost before is made up for.
    pub fn encode(&mut self, gradient: &Gradient, index: usize, exact: bool) -> Parcel {
        let parcel = self.encode_unpacked(gradient, index, exact);
        if self.coding == Coding::Packed { self.packer.pack(parcel) } else { parcel }
    }

    /// The same for who sums it here.
    pub fn encode_unpacked(&mut self, gradient: &Gradient, index: usize, exact: bool) -> Parcel {
        match self.rounds() {
            true => self.encode_lossy(gradient, index, exact),
            false => self.encode_exact(gradient, index),
        }
    }

    /// A chunk without a copy, if its values travel as they are and nobody writes them any more.
    pub(crate) fn lend(&mut self, gradient: OwnGradient<'_>, index: usize, exact: bool) -> Parcel {
        let chunk = &self.chunks[index];
        match gradient {
            OwnGradient::Done(done) if self.is_as_is() && chunk.is_plain() => {
                let payload = LentChunk::of(done, chunk.range.clone());
                Parcel { payload, is_plain: true, weight: done.weight }
            }
            _ => self.encode(&gradient, index, exact),
        }
    }

    fn encode_exact(&mut self, gradient: &Gradient, index: usize) -> Parcel {
        let (chunk, weight) = (&self.chunks[index], gradient.weight);
        let values = &gradient.values[chunk.range.clone()];
        let mut page = self.pages.take();
        let is_plain = chunk.is_plain() && self.coding != Coding::Sparse;
        if is_plain {
            page.put_floats(values);
        } else {
            let rows = touched(chunk, gradient, &[]);
            let lists: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
            let precision = if self.coding == Coding::Sparse { Precision::Sparse } else { Precision::F32 };
            self.encoder.encode(&chunk.schema, values, &lists, precision, page.bytes());
        }
        Parcel { payload: page.freeze(), is_plain, weight }
    }

    fn encode_lossy(&mut self, gradient: &Gradient, index: usize, exact: bool) -> Parcel {
        let chunks = Arc::clone(&self.chunks);
        let chunk = &chunks[index];
        let mut page = self.pages.take();
        let lost = &self.residuals[index];
        let rows = touched(chunk, gradient, if exact { lost } else { &[] });
        let lists: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        add_lost(chunk, gradient, lost, &rows, &mut self.sent);
        let (values, precision) = match self.coding {
            Coding::Largest(part) if !exact => {
                keep_largest(chunk, &self.sent, part, &mut self.kept);
                (&self.kept, Precision::Sparse)
            }
            Coding::All(precision) if !exact => (&self.sent, precision),
            _ => (&self.sent, Precision::F32),
        };
        self.encoder.encode(&chunk.schema, values, &lists, precision, page.bytes());
        let payload = page.freeze();
        let mut pending = self.pending[index].take().unwrap_or_else(|| self.spare.pop().unwrap_or_default());
        pending.clone_from(&self.residuals[index]);
        pending.resize(chunk.range.len(), 0.0);
        self.subtract(chunk, &payload, &rows, &mut pending);
        self.pending[index] = Some(pending);
        Parcel { payload, is_plain: false, weight: gradient.weight }
    }

    /// Whether memory is what travels.
    fn is_as_is(&self) -> bool {
        cfg!(target_endian = "little") && self.coding == Coding::PLAIN
    }

    /// Whether [`sum_as_is`](Self::sum_as_is) can sum a chunk: all of its values are dense, and none is rounded.
    pub fn sums_as_is(&self, index: usize) -> bool {
        let is_dense = |stretch: &Stretch| stretch.kind == TensorKind::Dense;
        self.is_as_is() && self.chunks[index].stretches.iter().all(is_dense)
    }

    /// The sum of a chunk of several gradients as they lie in memory, in their order: into `total`, and as a payload,
    /// which is written while a block of it is at hand. Anything else would go through memory twice as often.
    pub fn sum_as_is(&self, index: usize, parts: &[&[u8]], weight: f64, total: &mut Gradient) -> Parcel {
        let chunk = &self.chunks[index];
        for stretch in &chunk.stretches {
            total.write(stretch.tensor);
        }
        let mut page = self.pages.take();
        for (i, sum) in total.values[chunk.range.clone()].chunks_mut(SUMMED).enumerate() {
            let mut parts = parts.iter().map(|part| &part.as_chunks().0[i * SUMMED..]);
            add_first(parts.next(), parts.next(), sum);
            for part in parts {
                for (sum, bytes) in sum.iter_mut().zip(part) {
                    *sum += f32::from_le_bytes(*bytes);
                }
            }
            page.put_floats(sum);
        }
        Parcel { payload: page.freeze(), is_plain: true, weight }
    }

    /// Notes what the receivers of a payload lack.
    fn subtract(&mut self, chunk: &Chunk, payload: &[u8], rows: &[Vec<u32>], lost: &mut [f32]) {
        let Ok(view) = EncodedVector::parse(&chunk.schema, payload) else {
            unreachable!("what was encoded can be decoded");
        };
        self.decoded.resize(chunk.range.len(), 0.0);
        let mut rows = rows.iter();
        for (i, stretch) in chunk.stretches.iter().enumerate() {
            let place = stretch.range.start - chunk.range.start..stretch.range.end - chunk.range.start;
            let (sent, decoded) = (&self.sent[place.clone()], &mut self.decoded[place.clone()]);
            let lost = &mut lost[place];
            match (stretch.kind, view.section(i)) {
                (TensorKind::Buffer, _) => {}
                (TensorKind::Dense, part) => {
                    put_values(part, decoded);
                    difference(sent, decoded, lost);
                }
                (TensorKind::Rows { width }, part) => {
                    for (k, &row) in rows.next().into_iter().flatten().enumerate() {
                        let row = row as usize * width..(row as usize + 1) * width;
                        match part {
                            EncodedSection::Dense(values) => values.slice(row.clone()),
                            EncodedSection::Rows { values, .. } => values.slice(k * width..(k + 1) * width),
                        }
                        .copy_to(&mut decoded[row.clone()]);
                        difference(&sent[row.clone()], &decoded[row.clone()], &mut lost[row]);
                    }
                }
            }
        }
    }

    /// The round is done: what was lost in it is lost.
    pub fn commit(&mut self) {
        for (residual, pending) in self.residuals.iter_mut().zip(&mut self.pending) {
            if let Some(pending) = pending.take() {
                self.spare.push(std::mem::replace(residual, pending));
            }
        }
    }

    /// The round broke off: what was sent in it was not used.
    pub fn roll_back(&mut self) {
        self.spare.extend(self.pending.iter_mut().filter_map(Option::take));
    }

    /// Forgets what was lost.
    pub fn reset(&mut self) {
        self.roll_back();
        self.residuals.iter_mut().for_each(|residual| residual.clear());
    }
}

/// So many values are summed at a time: they stay in the first cache.
const SUMMED: usize = 2048;

/// The sum of the first parts, in one pass.
fn add_first(first: Option<&[[u8; 4]]>, second: Option<&[[u8; 4]]>, sum: &mut [f32]) {
    match (first, second) {
        (Some(first), Some(second)) => {
            for ((sum, a), b) in sum.iter_mut().zip(first).zip(second) {
                *sum = f32::from_le_bytes(*a) + f32::from_le_bytes(*b);
            }
        }
        (Some(only), None) => sum.iter_mut().zip(only).for_each(|(sum, a)| *sum = f32::from_le_bytes(*a)),
        _ => sum.fill(0.0),
    }
}

/// Of every dense stretch of a chunk only this part of its values, the largest; of those that are equally large the
/// first. All others are zero.
fn keep_largest(chunk: &Chunk, values: &[f32], part: f32, kept: &mut Vec<f32>) {
    kept.clear();
    kept.extend_from_slice(values);
    let mut magnitudes = Vec::new();
    for stretch in chunk.stretches.iter().filter(|stretch| stretch.kind == TensorKind::Dense) {
        let place = stretch.range.start - chunk.range.start..stretch.range.end - chunk.range.start;
        let kept = &mut kept[place];
        let count = ((kept.len() as f64 * f64::from(part)).ceil() as usize).clamp(1, kept.len());
        // They are in the order of their bits, and what is no number is above them all.
        magnitudes.clear();
        magnitudes.extend(kept.iter().map(|value| value.abs().to_bits()));
        let (_, &mut least, above) = magnitudes.select_nth_unstable(kept.len() - count);
        let mut equal = count - above.iter().filter(|magnitude| **magnitude > least).count();
        for value in kept {
            let magnitude = value.abs().to_bits();
            let is_among = magnitude == least && equal > 0;
            equal -= usize::from(is_among);
            if magnitude < least || (magnitude == least && !is_among) {
                *value = 0.0;
            }
        }
    }
}

fn difference(sent: &[f32], decoded: &[f32], lost: &mut [f32]) {
    for ((lost, sent), decoded) in lost.iter_mut().zip(sent).zip(decoded) {
        *lost = sent - decoded;
    }
}

/// The touched rows of every table of a chunk, in order and counted from where the chunk begins; with them those of
/// which something was lost before.
fn touched(chunk: &Chunk, gradient: &Gradient, lost: &[f32]) -> Vec<Vec<u32>> {
    let table = |stretch: &Stretch| {
        let TensorKind::Rows { width } = stretch.kind else { return None };
        let inside = stretch.rows(width);
        let rows = gradient.rows(stretch.tensor)?;
        let begin = stretch.range.start - chunk.range.start;
        let is_lost = |row: &u32| {
            let start = begin + (row - inside.start) as usize * width;
            lost.get(start..start + width).is_some_and(|lost| lost.iter().any(|value| *value != 0.0))
        };
        let mut list: Vec<u32> = match lost.is_empty() {
            true => rows.touched.iter().copied().filter(|row| inside.contains(row)).collect(),
            false => inside.clone().filter(|row| rows.is_touched(*row) || is_lost(row)).collect(),
        };
        list.sort_unstable();
        list.iter_mut().for_each(|row| *row -= inside.start);
        Some(list)
    };
    chunk.stretches.iter().filter_map(table).collect()
}

/// A chunk of a gradient plus what was lost of it before; of tables only these rows.
fn add_lost(chunk: &Chunk, gradient: &Gradient, lost: &[f32], rows: &[Vec<u32>], sum: &mut Vec<f32>) {
    sum.resize(chunk.range.len(), 0.0);
    let add = |place: std::ops::Range<usize>, sum: &mut [f32], counts: bool| {
        let at = chunk.range.start + place.start;
        let own = &gradient.values[at..at + place.len()];
        match (lost.get(place), counts) {
            (None, true) => sum.copy_from_slice(own),
            (Some(lost), true) => {
                for ((sum, own), lost) in sum.iter_mut().zip(own).zip(lost) {
                    *sum = own + lost;
                }
            }
            (lost, false) => sum.copy_from_slice(lost.unwrap_or_default()),
        }
    };
    let mut rows = rows.iter();
    for stretch in &chunk.stretches {
        let begin = stretch.range.start - chunk.range.start;
        match stretch.kind {
            TensorKind::Dense => {
                let place = begin..begin + stretch.range.len();
                add(place.clone(), &mut sum[place], true);
            }
            TensorKind::Buffer => {
                sum[begin..begin + stretch.range.len()]
                    .copy_from_slice(&gradient.values[stretch.range.clone()]);
            }
            TensorKind::Rows { width } => {
                let first = stretch.rows(width).start;
                for &row in rows.next().into_iter().flatten() {
                    let is_touched =
                        gradient.rows(stretch.tensor).is_some_and(|rows| rows.is_touched(first + row));
                    let place = begin + row as usize * width..begin + (row as usize + 1) * width;
                    add(place.clone(), &mut sum[place], is_touched);
                }
            }
        }
    }
}

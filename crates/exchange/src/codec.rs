//! Chunks as payloads, and payloads as something that can be summed.

use std::sync::Arc;

use anyhow::{Result, ensure};
use bonfire_learn::Gradient;
use bonfire_learn::layout::TensorKind;
use bonfire_wire::payload::{EncodedSection, EncodedVector, Encoder, Precision, Values};
use bytes::Bytes;

use crate::chunks::{Chunk, Chunks, Stretch};
use crate::pages::SendBuffers;

/// Turns chunks of gradients into payloads. What rounding loses of a chunk is added to the next one: error feedback.
#[derive(Debug)]
pub struct ChunkEncoder {
    chunks: Arc<Chunks>,
    precision: Precision,
    encoder: Encoder,
    pages: SendBuffers,
    /// What was lost of each chunk so far; empty where nothing was.
    residuals: Vec<Vec<f32>>,
    /// The same with the round that goes on, which may yet break off.
    pending: Vec<Option<Vec<f32>>>,
    /// Memory of residuals that were replaced.
    spare: Vec<Vec<f32>>,
    /// Memory to use: a chunk with its residual, and what will be decoded of it.
    sent: Vec<f32>,
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
    pub fn new(chunks: &Arc<Chunks>, precision: Precision) -> Self {
        Self {
            chunks: Arc::clone(chunks),
            precision,
            encoder: Encoder::default(),
            pages: SendBuffers::default(),
            residuals: vec![Vec::new(); chunks.count()],
            pending: vec![None; chunks.count()],
            spare: Vec::new(),
            sent: Vec::new(),
            decoded: Vec::new(),
        }
    }

    pub fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// Rounds otherwise from now on. What was lost so far stays lost.
    pub fn set_precision(&mut self, precision: Precision) {
        if precision != self.precision {
            self.precision = precision;
            self.reset();
        }
    }

    /// Whether values lose digits on their way.
    pub fn rounds(&self) -> bool {
        self.precision != Precision::F32
    }

    /// A chunk of a gradient. In an exact round nothing is rounded, and what was lost before is made up for.
    pub fn encode(&mut self, gradient: &Gradient, index: usize, exact: bool) -> Parcel {
        let chunks = Arc::clone(&self.chunks);
        let chunk = &chunks[index];
        let mut page = self.pages.take();
        let weight = gradient.weight;
        if !self.rounds() && chunk.is_plain() {
            page.put_floats(&gradient.values[chunk.range.clone()]);
            return Parcel { payload: page.freeze(), is_plain: true, weight };
        }
        let lost = &self.residuals[index];
        let rows = touched(chunk, gradient, if exact { lost } else { &[] });
        let lists: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        if !self.rounds() {
            let values = &gradient.values[chunk.range.clone()];
            self.encoder.encode(&chunk.schema, values, &lists, Precision::F32, page.bytes());
            return Parcel { payload: page.freeze(), is_plain: false, weight };
        }
        let precision = if exact { Precision::F32 } else { self.precision };
        add_lost(chunk, gradient, lost, &rows, &mut self.sent);
        self.encoder.encode(&chunk.schema, &self.sent, &lists, precision, page.bytes());
        let payload = page.freeze();
        let mut pending = self.pending[index].take().unwrap_or_else(|| self.spare.pop().unwrap_or_default());
        pending.clone_from(&self.residuals[index]);
        pending.resize(chunk.range.len(), 0.0);
        self.subtract(chunk, &payload, &rows, &mut pending);
        self.pending[index] = Some(pending);
        Parcel { payload, is_plain: false, weight }
    }

    /// Whether [`sum_as_is`](Self::sum_as_is) can sum a chunk: all of its values are dense, and none is rounded.
    pub fn sums_as_is(&self, index: usize) -> bool {
        let is_dense = |stretch: &Stretch| stretch.kind == TensorKind::Dense;
        cfg!(target_endian = "little") && !self.rounds() && self.chunks[index].stretches.iter().all(is_dense)
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
                (TensorKind::Dense, EncodedSection::Dense(values)) => {
                    values.copy_to(decoded);
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
                (TensorKind::Dense, EncodedSection::Rows { .. }) => unreachable!("a view fits its schema"),
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

/// A chunk that came, checked.
#[derive(Debug)]
pub struct ReceivedChunk<'a> {
    parts: Vec<EncodedSection<'a>>,
    weight: f64,
}

impl<'a> ReceivedChunk<'a> {
    /// Reads a chunk where it lies. Whatever came, nothing is allocated beyond a list of its stretches.
    pub fn read(chunk: &Chunk, parcel: &'a Parcel) -> Result<Self> {
        let Parcel { payload, is_plain, weight } = parcel;
        let parts = if *is_plain {
            let len = chunk.range.len() * 4;
            ensure!(chunk.is_plain() && payload.len() == len, "{} bytes are not this chunk", payload.len());
            let part = |stretch: &Stretch| {
                let start = (stretch.range.start - chunk.range.start) * 4;
                EncodedSection::Dense(Values::plain(&payload[start..start + stretch.range.len() * 4]))
            };
            chunk.stretches.iter().map(part).collect()
        } else {
            let view = EncodedVector::parse(&chunk.schema, payload)?;
            (0..chunk.stretches.len()).map(|i| view.section(i)).collect()
        };
        Ok(Self { parts, weight: *weight })
    }

    /// Whether all of its values are numbers.
    pub fn is_finite(&self) -> bool {
        self.parts.iter().all(|part| match part {
            EncodedSection::Dense(values) | EncodedSection::Rows { values, .. } => values.is_finite(),
        })
    }
}

/// Replaces a chunk of `total`, in which no row of it may count yet, by the sum of some that came, in their order; of
/// statistics it holds the mean. Those that weigh nothing are left out.
pub fn sum_chunk(chunk: &Chunk, arrived: &[ReceivedChunk<'_>], total: &mut Gradient) {
    let heavy = || arrived.iter().filter(|arrived| arrived.weight > 0.0);
    let weight: f64 = heavy().map(|arrived| arrived.weight).sum();
    for (i, stretch) in chunk.stretches.iter().enumerate() {
        match stretch.kind {
            TensorKind::Dense => {
                let sum = &mut total.write(stretch.tensor)[stretch.within()];
                let mut parts = heavy().map(|arrived| dense(arrived.parts[i]));
                match parts.next() {
                    Some(first) => first.copy_to(sum),
                    None => sum.fill(0.0),
                }
                parts.for_each(|part| part.add_to(sum));
            }
            TensorKind::Buffer => {
                let mean = &mut total.write(stretch.tensor)[stretch.within()];
                mean.fill(0.0);
                for arrived in heavy() {
                    dense(arrived.parts[i]).scaled_add_to(mean, (arrived.weight / weight) as f32);
                }
            }
            TensorKind::Rows { width } => {
                heavy().for_each(|arrived| add_rows(arrived.parts[i], stretch, width, total));
            }
        }
    }
}

/// Adds a chunk that came to a gradient, whose weight is without it yet; of statistics it holds the mean.
pub fn add_chunk(chunk: &Chunk, arrived: &ReceivedChunk<'_>, total: &mut Gradient) {
    let weight = total.weight + arrived.weight;
    let (before, share) = ((total.weight / weight) as f32, (arrived.weight / weight) as f32);
    for (i, stretch) in chunk.stretches.iter().enumerate() {
        match stretch.kind {
            TensorKind::Dense => {
                dense(arrived.parts[i]).add_to(&mut total.write(stretch.tensor)[stretch.within()])
            }
            TensorKind::Buffer => {
                let mean = &mut total.write(stretch.tensor)[stretch.within()];
                mean.iter_mut().for_each(|value| *value *= before);
                dense(arrived.parts[i]).scaled_add_to(mean, share);
            }
            TensorKind::Rows { width } => add_rows(arrived.parts[i], stretch, width, total),
        }
    }
}

fn dense(part: EncodedSection<'_>) -> Values<'_> {
    match part {
        EncodedSection::Dense(values) => values,
        EncodedSection::Rows { .. } => unreachable!("a view fits its schema"),
    }
}

/// Adds rows to those of a table.
fn add_rows(part: EncodedSection<'_>, stretch: &Stretch, width: usize, total: &mut Gradient) {
    let first = stretch.rows(width).start;
    let mut add = |row: u32, values: Values<'_>| {
        let is_touched = total.rows(stretch.tensor).is_some_and(|rows| rows.is_touched(first + row));
        let sum = total.touch(stretch.tensor, first + row);
        match is_touched {
            true => values.add_to(sum),
            false => values.copy_to(sum),
        }
    };
    match part {
        EncodedSection::Rows { rows, values } => {
            for (k, row) in rows.iter().enumerate() {
                add(row, values.slice(k * width..(k + 1) * width));
            }
        }
        EncodedSection::Dense(values) => {
            for row in 0..stretch.rows(width).len() {
                add(row as u32, values.slice(row * width..(row + 1) * width));
            }
        }
    }
}

/// Replaces what `total` has of a chunk by what came of it: in the end all have the same, also the one that summed it.
pub fn replace_chunk(chunk: &Chunk, arrived: &ReceivedChunk<'_>, total: &mut Gradient) {
    for (i, stretch) in chunk.stretches.iter().enumerate() {
        let TensorKind::Rows { width } = stretch.kind else {
            dense(arrived.parts[i]).copy_to(&mut total.write(stretch.tensor)[stretch.within()]);
            continue;
        };
        let first = stretch.rows(width).start;
        match arrived.parts[i] {
            EncodedSection::Rows { rows, values } => {
                for (k, row) in rows.iter().enumerate() {
                    values
                        .slice(k * width..(k + 1) * width)
                        .copy_to(total.touch(stretch.tensor, first + row));
                }
            }
            EncodedSection::Dense(values) => {
                for row in 0..stretch.rows(width).len() {
                    let to = total.touch(stretch.tensor, first + row as u32);
                    values.slice(row * width..(row + 1) * width).copy_to(to);
                }
            }
        }
    }
}

//! Chunks that came: read where they lie, summed in their order.

use anyhow::{Result, ensure};
use bonfire_learn::Gradient;
use bonfire_learn::layout::TensorKind;
use bonfire_payload::{EncodedSection, EncodedVector, Values};

use crate::chunks::{Chunk, Stretch};
use crate::codec::Parcel;

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
                let mut parts = heavy().map(|arrived| arrived.parts[i]);
                match parts.next() {
                    Some(first) => put_values(first, sum),
                    None => sum.fill(0.0),
                }
                parts.for_each(|part| add_values(part, sum));
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
                add_values(arrived.parts[i], &mut total.write(stretch.tensor)[stretch.within()]);
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

/// Statistics always come whole.
fn dense(part: EncodedSection<'_>) -> Values<'_> {
    match part {
        EncodedSection::Dense(values) => values,
        EncodedSection::Rows { .. } => unreachable!("a view fits its schema"),
    }
}

/// Replaces values by those that came; those that did not are zero.
pub(crate) fn put_values(part: EncodedSection<'_>, out: &mut [f32]) {
    match part {
        EncodedSection::Dense(values) => values.copy_to(out),
        EncodedSection::Rows { rows, values } => {
            out.fill(0.0);
            rows.iter().zip(values.iter()).for_each(|(place, value)| out[place as usize] = value);
        }
    }
}

fn add_values(part: EncodedSection<'_>, sum: &mut [f32]) {
    match part {
        EncodedSection::Dense(values) => values.add_to(sum),
        EncodedSection::Rows { rows, values } => {
            rows.iter().zip(values.iter()).for_each(|(place, value)| sum[place as usize] += value);
        }
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
            put_values(arrived.parts[i], &mut total.write(stretch.tensor)[stretch.within()]);
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

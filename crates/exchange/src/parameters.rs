//! Parameters on their way from an asynchronous server, chunk by chunk: all of them, or what has changed.

use std::sync::Arc;

use anyhow::{Result, ensure};
use bonfire_learn::Layout;
use bonfire_learn::layout::TensorKind;
use bonfire_payload::{EncodedSection, EncodedVector, Encoder, Precision, is_sent_whole};

use crate::chunks::{Chunk, Chunks};
use crate::codec::Parcel;
use crate::pages::SendBuffers;

/// Turns parameters into payloads. They are never rounded.
#[derive(Debug)]
pub struct ParameterEncoder {
    chunks: Arc<Chunks>,
    encoder: Encoder,
    pages: SendBuffers,
}

impl ParameterEncoder {
    pub fn new(layout: &Layout) -> Self {
        Self {
            chunks: Arc::new(Chunks::of(layout)),
            encoder: Encoder::default(),
            pages: SendBuffers::default(),
        }
    }

    /// All parameters.
    pub fn all(&self, parameters: &[f32]) -> Vec<Parcel> {
        let parcel = |chunk: &Chunk| {
            let mut page = self.pages.take();
            page.put_floats(&parameters[chunk.range.clone()]);
            Parcel { payload: page.freeze(), is_plain: true, weight: 0.0 }
        };
        self.chunks.iter().map(parcel).collect()
    }

    /// Those that changed: of tables only these rows, the list of each in rising order. What a chunk has of a table of
    /// which most rows changed is sent whole.
    pub fn changes(&mut self, parameters: &[f32], rows: &[(usize, &[u32])]) -> Vec<Parcel> {
        let chunks = Arc::clone(&self.chunks);
        let parcel = |chunk: &Chunk| {
            let lists: Vec<Vec<u32>> = changed(chunk, rows);
            let lists: Vec<&[u32]> = lists.iter().map(Vec::as_slice).collect();
            let mut page = self.pages.take();
            let values = &parameters[chunk.range.clone()];
            self.encoder.encode(&chunk.schema, values, &lists, Precision::F32, page.bytes());
            Parcel { payload: page.freeze(), is_plain: false, weight: 0.0 }
        };
        chunks.iter().map(parcel).collect()
    }
}

/// The changed rows of every table of a chunk, counted from where the chunk begins.
fn changed(chunk: &Chunk, rows: &[(usize, &[u32])]) -> Vec<Vec<u32>> {
    let mut lists = Vec::new();
    for stretch in &chunk.stretches {
        let TensorKind::Rows { width } = stretch.kind else { continue };
        let inside = stretch.rows(width);
        let all = rows.iter().find(|(tensor, _)| *tensor == stretch.tensor).map_or(&[][..], |(_, rows)| rows);
        let list: Vec<u32> =
            all.iter().filter(|row| inside.contains(row)).map(|row| row - inside.start).collect();
        // The encoder would send rows that are not listed as zeros, and these hold parameters, too.
        let is_whole = is_sent_whole(list.len(), inside.len(), width, Precision::F32);
        lists.push(if is_whole { (0..inside.len() as u32).collect() } else { list });
    }
    lists
}

/// Puts parameters in their places.
pub fn put_parameters(chunk: &Chunk, parcel: &Parcel, parameters: &mut [f32]) -> Result<()> {
    let payload = &parcel.payload;
    if parcel.is_plain {
        ensure!(payload.len() == chunk.range.len() * 4, "{} bytes are not this chunk", payload.len());
        for (value, bytes) in parameters[chunk.range.clone()].iter_mut().zip(payload.as_chunks().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        return Ok(());
    }
    let vector = EncodedVector::parse(&chunk.schema, payload)?;
    for (i, stretch) in chunk.stretches.iter().enumerate() {
        match (vector.section(i), stretch.kind) {
            (EncodedSection::Rows { rows, values }, TensorKind::Rows { width }) => {
                for (place, row) in rows.iter().enumerate() {
                    let at = stretch.range.start + row as usize * width;
                    values.slice(place * width..(place + 1) * width).copy_to(&mut parameters[at..at + width]);
                }
            }
            (EncodedSection::Dense(values), _) => values.copy_to(&mut parameters[stretch.range.clone()]),
            (EncodedSection::Rows { .. }, _) => unreachable!("what was parsed fits its schema"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::layout::Init;

    #[test]
    fn parameters_find_their_places_and_others_stay() {
        let mut layout = Layout::default();
        layout.rows("table".into(), 50, 4, Init::Uniform(1.0));
        layout.vector("dense".into(), 6, Init::Uniform(1.0));
        let (old, new) = (layout.initial(1), layout.initial(2));
        let mut encoder = ParameterEncoder::new(&layout);
        let chunks = Chunks::of(&layout);
        let mut check = |changed: Option<&[u32]>| {
            let parcels = match changed {
                Some(rows) => encoder.changes(&new, &[(0, rows)]),
                None => encoder.all(&new),
            };
            let mut found = old.clone();
            for (chunk, parcel) in chunks.iter().zip(&parcels) {
                put_parameters(chunk, parcel, &mut found).expect("a chunk");
            }
            for row in 0..50 {
                let is_new = changed.is_none_or(|rows| rows.contains(&row) || rows.len() > 40);
                let at = row as usize * 4..(row as usize + 1) * 4;
                assert_eq!(found[at.clone()], if is_new { &new } else { &old }[at], "row {row}");
            }
            assert_eq!(found[200..], new[200..], "what is dense has changed");
        };
        check(None);
        check(Some(&[]));
        check(Some(&[0, 7, 49]));
        let almost_all: Vec<u32> = (0..49).collect();
        check(Some(&almost_all));
    }
}

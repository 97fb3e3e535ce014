//! Gradients and parameters on their way: a model's vectors as payloads, and payloads as something that can be summed.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, ensure};
use bonfire_learn::layout::TensorKind;
use bonfire_learn::sum::{Addend, sum};
use bonfire_learn::{Gradient, Layout};
use bonfire_wire::payload::{Encoder, Form, Part, PartView, Precision, RowNumbers, View};
use bytes::Bytes;

use bonfire_run::run_file::Compression;

/// Turns vectors of one layout into payloads and back.
#[derive(Debug)]
pub struct Codec {
    layout: Layout,
    form: Form,
    precision: Precision,
    encoder: Encoder,
    shelf: Shelf,
    /// Gradients that came in another precision are unpacked into these.
    unpacked: Vec<Gradient>,
}

/// Memory of payloads that were sent, to be written again: after some rounds a push needs no new memory.
#[derive(Clone, Debug, Default)]
struct Shelf(Arc<Mutex<Vec<Vec<u8>>>>);

/// A payload's memory, which returns to its shelf with the last one who reads it.
#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    shelf: Shelf,
}

/// More pages than this are not on their way at a time.
const PAGES: usize = 8;

impl Shelf {
    fn pages(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty page.
    fn take(&self) -> Page {
        let mut bytes = self.pages().pop().unwrap_or_default();
        bytes.clear();
        Page { bytes, shelf: self.clone() }
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut pages = self.shelf.pages();
        if pages.len() < PAGES {
            pages.push(bytes);
        }
    }
}

/// A gradient that came, and how many losses it is the sum of.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub payload: Bytes,
    pub weight: f64,
}

impl Codec {
    pub fn new(layout: &Layout, compression: Compression) -> Self {
        let part = |tensor: &bonfire_learn::layout::Tensor| match tensor.kind {
            TensorKind::Dense | TensorKind::Buffer => Part::Dense { range: tensor.range.clone() },
            TensorKind::Rows { width } => Part::Rows { range: tensor.range.clone(), width },
        };
        Self {
            layout: layout.clone(),
            form: Form::new(layout.tensors().iter().map(part).collect()),
            precision: match compression {
                Compression::None => Precision::F32,
                Compression::F16 => Precision::F16,
            },
            encoder: Encoder::default(),
            shelf: Shelf::default(),
            unpacked: Vec::new(),
        }
    }

    /// No payload of this layout has more bytes.
    pub fn most_bytes(&self) -> usize {
        self.form.most_bytes(Precision::F32)
    }

    /// Whether a gradient loses digits on its way.
    pub fn rounds(&self) -> bool {
        self.precision != Precision::F32
    }

    /// The payload of a gradient.
    pub fn pack(&mut self, gradient: &Gradient) -> Bytes {
        let tables = (0..self.layout.tensors().len()).filter_map(|i| gradient.rows(i));
        let rows: Vec<&[u32]> = tables.map(|rows| rows.touched.as_slice()).collect();
        let mut page = self.shelf.take();
        self.encoder.encode(&self.form, &gradient.values, &rows, self.precision, &mut page.bytes);
        Bytes::from_owner(page)
    }

    /// Whether a payload is a gradient of this layout, and of numbers only.
    pub fn check(&self, payload: &[u8]) -> Result<()> {
        let view = View::parse(&self.form, payload)?;
        ensure!(view.is_finite(), "it has values that are no numbers");
        Ok(())
    }

    /// Replaces `total` by the sum of some gradients in their order. Payloads that weigh nothing are not read.
    pub fn sum(&mut self, parcels: &[Parcel], total: &mut Gradient) -> Result<()> {
        let heavy: Vec<&Parcel> = parcels.iter().filter(|parcel| parcel.weight > 0.0).collect();
        let arrived: Result<Option<Vec<Arrived<'_>>>> =
            heavy.iter().map(|parcel| Arrived::parse(&self.form, parcel)).collect();
        if let Some(arrived) = arrived? {
            sum(&self.layout, &arrived, total);
            return Ok(());
        }
        while self.unpacked.len() < heavy.len() {
            self.unpacked.push(Gradient::new(&self.layout));
        }
        for (parcel, gradient) in heavy.iter().zip(&mut self.unpacked) {
            unpack(&self.form, parcel, gradient)?;
        }
        sum(&self.layout, &self.unpacked[..heavy.len()], total);
        Ok(())
    }

    /// Adds a gradient to a sum; `spare` is memory to use.
    pub fn add(&mut self, parcel: &Parcel, total: &mut Gradient, spare: &mut Gradient) -> Result<()> {
        if let Some(arrived) = Arrived::parse(&self.form, parcel)? {
            let parts: [&dyn Addend; 2] = [&*total, &arrived];
            sum(&self.layout, &parts, spare);
        } else {
            if self.unpacked.is_empty() {
                self.unpacked.push(Gradient::new(&self.layout));
            }
            unpack(&self.form, parcel, &mut self.unpacked[0])?;
            sum(&self.layout, &[&*total, &self.unpacked[0]], spare);
        }
        std::mem::swap(total, spare);
        Ok(())
    }

    /// The payload of all parameters.
    pub fn pack_parameters(&self, parameters: &[f32]) -> Bytes {
        floats_to_bytes([parameters])
    }

    /// The payload of those parameters that changed: of tables only these rows, the list of each.
    pub fn pack_changes(&mut self, parameters: &[f32], rows: &[&[u32]]) -> Bytes {
        let mut page = self.shelf.take();
        self.encoder.encode(&self.form, parameters, rows, Precision::F32, &mut page.bytes);
        Bytes::from_owner(page)
    }

    /// Puts changed parameters in their places.
    pub fn unpack_changes(&self, payload: &[u8], parameters: &mut [f32]) -> Result<()> {
        let view = View::parse(&self.form, payload)?;
        for (i, part) in self.form.parts().iter().enumerate() {
            let range = part.range();
            match (view.part(i), part) {
                (PartView::Rows { rows, values }, Part::Rows { width, .. }) => {
                    for (place, row) in rows.iter().enumerate() {
                        let at = range.start + row as usize * width;
                        values
                            .slice(place * width..(place + 1) * width)
                            .copy_to(&mut parameters[at..at + width]);
                    }
                }
                (PartView::Dense(values), _) => values.copy_to(&mut parameters[range]),
                (PartView::Rows { .. }, Part::Dense { .. }) => unreachable!("a view fits its form"),
            }
        }
        Ok(())
    }
}

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

/// A gradient in single precision, read where it lies.
struct Arrived<'a> {
    parts: Vec<Lying<'a>>,
    weight: f64,
}

/// The values of a tensor, or of some of its rows.
struct Lying<'a> {
    start: usize,
    width: usize,
    rows: Option<RowNumbers<'a>>,
    values: &'a [f32],
}

impl<'a> Arrived<'a> {
    /// None if the values cannot be read where they lie.
    fn parse(form: &Form, parcel: &'a Parcel) -> Result<Option<Self>> {
        let view = View::parse(form, &parcel.payload)?;
        let lying = |(i, part): (usize, &Part)| {
            let (start, width) = match part {
                Part::Dense { range } => (range.start, 1),
                Part::Rows { range, width } => (range.start, *width),
            };
            let (rows, values) = match view.part(i) {
                PartView::Dense(values) => (None, values),
                PartView::Rows { rows, values } => (Some(rows), values),
            };
            Some(Lying { start, width, rows, values: values.floats()? })
        };
        let parts: Option<Vec<Lying<'_>>> = form.parts().iter().enumerate().map(lying).collect();
        Ok(parts.map(|parts| Self { parts, weight: parcel.weight }))
    }
}

impl Addend for Arrived<'_> {
    fn weight(&self) -> f64 {
        self.weight
    }

    fn values(&self, tensor: usize, range: Range<usize>) -> &[f32] {
        let part = &self.parts[tensor];
        &part.values[range.start - part.start..range.end - part.start]
    }

    fn row(&self, tensor: usize, row: u32) -> Option<&[f32]> {
        let part = &self.parts[tensor];
        let place = part.rows.map_or(Some(row as usize), |rows| rows.find(row))?;
        Some(&part.values[place * part.width..(place + 1) * part.width])
    }

    fn for_each_row(&self, tensor: usize, each: &mut dyn FnMut(u32)) {
        let part = &self.parts[tensor];
        match part.rows {
            Some(rows) => rows.iter().for_each(each),
            None => (0..(part.values.len() / part.width) as u32).for_each(each),
        }
    }
}

/// Replaces a gradient by one that came in half precision.
fn unpack(form: &Form, parcel: &Parcel, gradient: &mut Gradient) -> Result<()> {
    let view = View::parse(form, &parcel.payload)?;
    gradient.clear();
    gradient.weight = parcel.weight;
    for (i, part) in form.parts().iter().enumerate() {
        match (view.part(i), part) {
            (PartView::Dense(values), Part::Dense { .. }) => values.copy_to(gradient.write(i)),
            (PartView::Dense(values), Part::Rows { range, width }) => {
                for row in 0..range.len() / width {
                    values.slice(row * width..(row + 1) * width).copy_to(gradient.touch(i, row as u32));
                }
            }
            (PartView::Rows { rows, values }, part) => {
                let Part::Rows { width, .. } = part else { continue };
                for (place, row) in rows.iter().enumerate() {
                    values.slice(place * width..(place + 1) * width).copy_to(gradient.touch(i, row));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::layout::Init;

    /// A table of 50 rows of 4, a dense tensor of 6 and a statistic of 2.
    fn layout() -> Layout {
        let mut layout = Layout::default();
        layout.rows("table".into(), 50, 4, Init::Uniform(1.0));
        layout.vector("dense".into(), 6, Init::Uniform(1.0));
        layout.buffer("mean".into(), 2, Init::Constant(0.0));
        layout
    }

    /// A gradient by `weight` samples that touches some rows.
    fn gradient(weight: f64, rows: &[u32], value: f32) -> Gradient {
        let mut gradient = Gradient::new(&layout());
        gradient.values.fill(f32::NAN);
        gradient.weight = weight;
        for &row in rows {
            gradient.touch(0, row).fill(value + row as f32);
        }
        gradient.write(1).fill(value);
        gradient.write(2).fill(value);
        gradient
    }

    fn parcel(codec: &mut Codec, gradient: &Gradient) -> Parcel {
        Parcel { payload: codec.pack(gradient), weight: gradient.weight }
    }

    #[test]
    fn sums_of_payloads_are_sums_of_gradients() {
        let many: Vec<u32> = (0..50).collect();
        let gradients =
            [gradient(3.0, &[7, 2], 0.5), gradient(1.0, &[2, 40], 0.25), gradient(2.0, &many, 1.0)];
        let (layout, mut expect) = (layout(), Gradient::new(&layout()));
        sum(&layout, &gradients, &mut expect);
        for compression in [Compression::None, Compression::F16] {
            let mut codec = Codec::new(&layout, compression);
            let parcels: Vec<Parcel> =
                gradients.iter().map(|gradient| parcel(&mut codec, gradient)).collect();
            let mut total = Gradient::new(&layout);
            codec.sum(&parcels, &mut total).expect("a sum");
            // These numbers are exact in half precision too.
            assert_eq!(total.weight, 6.0);
            assert_eq!(total.values[200..], expect.values[200..], "{compression:?}");
            assert_eq!(total.row(0, 2), expect.row(0, 2));
            let (mut one_by_one, mut spare) = (Gradient::new(&layout), Gradient::new(&layout));
            one_by_one.finish();
            for parcel in &parcels {
                codec.add(parcel, &mut one_by_one, &mut spare).expect("added");
            }
            assert_eq!(one_by_one.values[200..206], expect.values[200..206], "{compression:?}");
        }
        // Statistics are means by samples, not sums.
        assert!((expect.values[206] - (3.0 * 0.5 + 0.25 + 2.0) / 6.0).abs() < 1e-6);
    }

    #[test]
    fn what_weighs_nothing_is_not_read() {
        let (layout, mut total) = (layout(), Gradient::new(&layout()));
        let mut codec = Codec::new(&layout, Compression::None);
        let empty = Parcel { payload: Bytes::from_static(b"nonsense"), weight: 0.0 };
        let parcels = [empty, parcel(&mut codec, &gradient(1.0, &[3], 2.0))];
        codec.sum(&parcels, &mut total).expect("a sum");
        assert_eq!(total.row(0, 3), Some(&[5.0; 4][..]));
    }

    #[test]
    fn what_is_no_number_or_does_not_fit_is_refused() {
        let mut codec = Codec::new(&layout(), Compression::None);
        let good = codec.pack(&gradient(1.0, &[3], 2.0));
        codec.check(&good).expect("a gradient");
        let bad = codec.pack(&gradient(1.0, &[3], f32::NAN));
        assert!(codec.check(&bad).is_err());
        assert!(codec.check(&good[..good.len() - 1]).is_err());
    }

    #[test]
    fn changed_rows_find_their_places() {
        let (layout, mut codec) = (layout(), Codec::new(&layout(), Compression::F16));
        let (old, new) = (layout.initial(1), layout.initial(2));
        let payload = codec.pack_changes(&new, &[&[9, 4]]);
        let mut found = old.clone();
        codec.unpack_changes(&payload, &mut found).expect("changes");
        assert_eq!(found[16..20], new[16..20]);
        assert_eq!(found[36..40], new[36..40]);
        assert_eq!(found[..16], old[..16]);
        assert_eq!(found[200..], new[200..], "parameters are never rounded");
    }

    #[test]
    fn memory_is_used_again() {
        let mut codec = Codec::new(&layout(), Compression::None);
        let gradient = gradient(1.0, &[3], 2.0);
        let first = codec.pack(&gradient).as_ptr();
        for _ in 0..10 {
            assert_eq!(codec.pack(&gradient).as_ptr(), first);
        }
    }
}

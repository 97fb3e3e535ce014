//! A flat vector of floats as bytes: a gradient on its way out, parameters on their way back.
//!
//! Everything is little-endian, and every piece begins at a multiple of four bytes from the beginning:
//!
//! | bytes | what |
//! |---|---|
//! | 3 + 1 | `bfp`, and the precision: 0 is `f32`, 1 is `f16`, 2 is `int8`, 3 is sparse `f32` |
//! | 4 | how many sections follow |
//! | 1 + 1 + 2 | of each section: 0 is dense, 1 is rows; a zero; the exponent of its scale, 0 but for `f16` |
//! | 4 | how many values follow, or how many rows |
//! | 4 a row | for rows: their numbers, rising |
//! | 4 a block | for `int8`: the scale of every 512 values, or of every row of a table |
//! | 4, 2 or 1 a value | the values; zeros up to the next multiple of four |
//!
//! Exact sections are `f32` in every precision. A dense section in sparse precision may be rows of one value.
//!
//! Both ends know the [`Schema`] of the vector, so nothing in the bytes decides how much memory is used: what does not
//! fit the schema is refused.

mod values;

use values::BLOCK;
pub use values::{Precision, Values};

use std::fmt;
use std::ops::Range;

/// What a flat vector is made of, in order and without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    parts: Vec<Section>,
    len: usize,
}

/// A part of a flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Section {
    /// All values count.
    Dense { range: Range<usize> },
    /// All values count, and none is rounded in any precision.
    Exact { range: Range<usize> },
    /// A table of which some rows count, such as an embedding.
    Rows { range: Range<usize>, width: usize },
}

/// Turns vectors into bytes. It keeps its memory, so that a later call needs no more.
#[derive(Debug, Default)]
pub struct Encoder {
    /// The touched rows of one table, in order.
    sorted: Vec<u32>,
}

/// The bytes of a vector, checked from beginning to end.
#[derive(Clone, Debug)]
pub struct EncodedVector<'a> {
    parts: Vec<EncodedSection<'a>>,
}

/// What came of a part.
#[derive(Clone, Copy, Debug)]
pub enum EncodedSection<'a> {
    /// All values of the part; of a table too, where its rows alone would have been more bytes.
    Dense(Values<'a>),
    /// Some rows of a table, and their values one row after the other; of a dense part its values that are not zero, as
    /// rows of one.
    Rows { rows: RowNumbers<'a>, values: Values<'a> },
}

/// The numbers of rows, rising.
#[derive(Clone, Copy, Debug)]
pub struct RowNumbers<'a> {
    numbers: &'a [[u8; 4]],
}

/// Bytes that are no vector of the schema that was expected, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadError {
    /// Counted from 0; none if it is the whole.
    part: Option<usize>,
    why: String,
}

const MAGIC: [u8; 3] = *b"bfp";
const HEADER: usize = 8;
const PART_HEADER: usize = 8;
const DENSE: u8 = 0;
const ROWS: u8 = 1;

impl Schema {
    /// A vector of these parts, each of which begins where the one before it ends.
    pub fn new(parts: Vec<Section>) -> Self {
        let mut len = 0;
        for part in &parts {
            let range = part.range();
            assert!(
                range.start == len && range.end >= len,
                "a part is {range:?}, but it should begin at {len}"
            );
            if let Section::Rows { width, .. } = part {
                assert!(*width > 0 && range.len().is_multiple_of(*width), "{range:?} is not rows of {width}");
            }
            len = range.end;
        }
        assert!(
            u32::try_from(len).is_ok(),
            "a vector of {len} values is too long to be counted in the bytes"
        );
        Self { parts, len }
    }

    /// The parts in order.
    pub fn sections(&self) -> &[Section] {
        &self.parts
    }

    /// How many values the vector has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the vector has no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// No payload of this schema has more bytes: what a receiver must be ready for.
    pub fn most_bytes(&self, precision: Precision) -> usize {
        let dense =
            |part: &Section| PART_HEADER + part.precision(precision).bytes(part.range().len(), part.block());
        HEADER + self.parts.iter().map(dense).sum::<usize>()
    }
}

impl Section {
    /// Its place in the vector.
    pub fn range(&self) -> Range<usize> {
        match self {
            Self::Dense { range } | Self::Exact { range } | Self::Rows { range, .. } => range.clone(),
        }
    }

    /// How many values share a scale, where they have one.
    fn block(&self) -> usize {
        match self {
            Self::Dense { .. } | Self::Exact { .. } => BLOCK,
            Self::Rows { width, .. } => *width,
        }
    }

    /// How its values are sent in a payload of some precision.
    fn precision(&self, precision: Precision) -> Precision {
        match self {
            Self::Exact { .. } => Precision::F32,
            Self::Dense { .. } | Self::Rows { .. } => precision,
        }
    }
}

impl Encoder {
    /// Appends the bytes of `values` to `out`. For each table of the schema `rows` has the rows that count, each once,
    /// in any order; what the others hold is not sent, and arrives as zeros if the table is sent whole because that is
    /// fewer bytes.
    pub fn encode(
        &mut self,
        schema: &Schema,
        values: &[f32],
        rows: &[&[u32]],
        precision: Precision,
        out: &mut Vec<u8>,
    ) {
        assert_eq!(values.len(), schema.len, "the values must be a vector of the schema");
        let tables = schema.parts.iter().filter(|part| matches!(part, Section::Rows { .. })).count();
        assert_eq!(rows.len(), tables, "every table needs its list of rows");
        out.extend(MAGIC);
        out.push(precision.code());
        out.extend((schema.parts.len() as u32).to_le_bytes());
        let mut rows = rows.iter();
        for part in &schema.parts {
            match part {
                Section::Dense { range } | Section::Exact { range } => {
                    encode_dense(&values[range.clone()], part.precision(precision), out);
                }
                Section::Rows { range, width } => {
                    self.sort(rows.next().copied().unwrap_or_default(), range.len() / width);
                    encode_table(&values[range.clone()], *width, &self.sorted, precision, out);
                }
            }
        }
    }

    /// Puts the rows in order.
    fn sort(&mut self, rows: &[u32], count: usize) {
        self.sorted.clear();
        self.sorted.extend_from_slice(rows);
        self.sorted.sort_unstable();
        assert!(self.sorted.is_sorted_by(|one, next| one < next), "a touched row must be listed once");
        assert!(self.sorted.last().is_none_or(|&last| (last as usize) < count), "a row is outside its table");
    }
}

fn encode_dense(values: &[f32], precision: Precision, out: &mut Vec<u8>) {
    let is_none = |value: f32| value.to_bits() == 0;
    let is_sparse = || {
        let some = values.iter().filter(|value| !is_none(**value)).count();
        !is_sent_whole(some, values.len(), 1, precision)
    };
    if precision == Precision::Sparse && is_sparse() {
        let places = || (0..values.len()).filter(|&place| !is_none(values[place]));
        write_part_header(ROWS, 0, places().count(), out);
        out.extend(places().flat_map(|place| (place as u32).to_le_bytes()));
        out.extend(places().flat_map(|place| values[place].to_le_bytes()));
        return;
    }
    let exponent = precision.exponent([values].into_iter());
    write_part_header(DENSE, exponent, values.len(), out);
    let begin = out.len();
    precision.write_scales(values.chunks(BLOCK), out);
    for block in values.chunks(BLOCK) {
        precision.write(block, exponent, out);
    }
    out.resize(begin + precision.bytes(values.len(), BLOCK), 0);
}

fn encode_table(table: &[f32], width: usize, rows: &[u32], precision: Precision, out: &mut Vec<u8>) {
    let values_of = |row: u32| &table[row as usize * width..][..width];
    let exponent = precision.exponent(rows.iter().map(|&row| values_of(row)));
    if !is_sent_whole(rows.len(), table.len() / width, width, precision) {
        write_part_header(ROWS, exponent, rows.len(), out);
        out.extend(rows.iter().flat_map(|row| row.to_le_bytes()));
        let begin = out.len();
        precision.write_scales(rows.iter().map(|&row| values_of(row)), out);
        rows.iter().for_each(|&row| precision.write(values_of(row), exponent, out));
        out.resize(begin + precision.bytes(rows.len() * width, width), 0);
        return;
    }
    write_part_header(DENSE, exponent, table.len(), out);
    let end = out.len() + precision.bytes(table.len(), width);
    let mut touched = rows.iter().peekable();
    // Rows that are not touched hold anything; zero is zero bytes in every precision.
    let all = (0..(table.len() / width) as u32).map(|row| match touched.next_if_eq(&&row) {
        Some(_) => values_of(row),
        None => &[],
    });
    precision.write_scales(all, out);
    let begin = out.len();
    for &row in rows {
        out.resize(begin + precision.size() * row as usize * width, 0);
        precision.write(values_of(row), exponent, out);
    }
    out.resize(end, 0);
}

/// Whether a table of `all` rows is sent whole if so many of them count: because that is fewer bytes than these rows
/// with their numbers.
pub fn is_sent_whole(rows: usize, all: usize, width: usize, precision: Precision) -> bool {
    rows_bytes(rows, width, precision) > precision.bytes(all * width, width)
}

/// How many bytes rows take with their numbers.
fn rows_bytes(rows: usize, width: usize, precision: Precision) -> usize {
    4 * rows + precision.bytes(rows * width, width)
}

fn write_part_header(kind: u8, exponent: i16, count: usize, out: &mut Vec<u8>) {
    out.extend([kind, 0]);
    out.extend(exponent.to_le_bytes());
    out.extend((count as u32).to_le_bytes());
}

impl<'a> EncodedVector<'a> {
    /// Checks that the bytes are a vector of the schema, all of them and nothing after them. Whatever they are, nothing
    /// is allocated beyond a list of the sections.
    pub fn parse(schema: &Schema, bytes: &'a [u8]) -> Result<Self, PayloadError> {
        let mut rest = Rest { bytes };
        let [header] = rest.take::<HEADER>(1)? else { return Err(wrong("has no header")) };
        let [m0, m1, m2, code, count @ ..] = *header;
        if [m0, m1, m2] != MAGIC {
            return Err(wrong("does not begin as a payload does"));
        }
        let precision = Precision::of_code(code)
            .ok_or_else(|| wrong(format!("is of precision {code}, which this program does not know")))?;
        let count = u32::from_le_bytes(count) as usize;
        if count != schema.parts.len() {
            return Err(wrong(format!("has {count} parts, expected {}", schema.parts.len())));
        }
        let mut parts = Vec::with_capacity(count);
        for (i, part) in schema.parts.iter().enumerate() {
            let view = rest.part(part, precision);
            parts.push(view.map_err(|error| PayloadError { part: Some(i), ..error })?);
        }
        match rest.bytes.len() {
            0 => Ok(Self { parts }),
            more => Err(wrong(format!("has {more} bytes after its last part"))),
        }
    }

    /// Section `i` of the schema.
    pub fn section(&self, i: usize) -> EncodedSection<'a> {
        self.parts[i]
    }

    /// Whether there is neither an infinity nor anything that is not a number among all values.
    pub fn is_finite(&self) -> bool {
        self.parts.iter().all(|part| match part {
            EncodedSection::Dense(values) | EncodedSection::Rows { values, .. } => values.is_finite(),
        })
    }
}

/// What has not been read yet.
struct Rest<'a> {
    bytes: &'a [u8],
}

impl<'a> Rest<'a> {
    /// The next `count` pieces of `SIZE` bytes.
    fn take<const SIZE: usize>(&mut self, count: usize) -> Result<&'a [[u8; SIZE]], PayloadError> {
        let wanted = count.saturating_mul(SIZE);
        let missing = wanted.saturating_sub(self.bytes.len());
        let (pieces, rest) = self
            .bytes
            .split_at_checked(wanted)
            .ok_or_else(|| wrong(format!("breaks off, at least {missing} bytes are missing")))?;
        self.bytes = rest;
        Ok(pieces.as_chunks().0)
    }

    fn part(&mut self, part: &Section, precision: Precision) -> Result<EncodedSection<'a>, PayloadError> {
        let precision = part.precision(precision);
        let [[kind, zero, e0, e1, count @ ..]] = *self.take::<PART_HEADER>(1)? else {
            return Err(wrong("has no header"));
        };
        if zero != 0 {
            return Err(wrong(format!("has {zero} in its header where 0 belongs")));
        }
        let exponent = i16::from_le_bytes([e0, e1]);
        if !precision.allows(exponent) {
            return Err(wrong(format!("has the scale 2^{exponent}, which no sender chooses")));
        }
        let (count, len) = (u32::from_le_bytes(count) as usize, part.range().len());
        match (kind, part) {
            (DENSE, _) if count == len => {
                Ok(EncodedSection::Dense(self.values(count, part.block(), precision, exponent)?))
            }
            (DENSE, _) => Err(wrong(format!("has {count} values, expected {len}"))),
            (ROWS, Section::Rows { width, .. }) => {
                let rows = self.rows(count, *width, len, precision)?;
                Ok(EncodedSection::Rows {
                    rows,
                    values: self.values(count * width, *width, precision, exponent)?,
                })
            }
            (ROWS, Section::Dense { .. }) if precision == Precision::Sparse => {
                let rows = self.rows(count, 1, len, precision)?;
                Ok(EncodedSection::Rows { rows, values: self.values(count, 1, precision, exponent)? })
            }
            (ROWS, Section::Dense { .. } | Section::Exact { .. }) => {
                Err(wrong("has rows, expected all values"))
            }
            (kind, _) => Err(wrong(format!("is of kind {kind}, expected 0 (dense) or 1 (rows)"))),
        }
    }

    fn rows(
        &mut self,
        count: usize,
        width: usize,
        len: usize,
        precision: Precision,
    ) -> Result<RowNumbers<'a>, PayloadError> {
        let all = len / width;
        // The first check keeps the product of the second from overflowing.
        if count > all || is_sent_whole(count, all, width, precision) {
            return Err(wrong(format!(
                "has {count} rows of a table of {all}, which should have been sent whole"
            )));
        }
        let rows = RowNumbers { numbers: self.take(count)? };
        if !rows.numbers.is_sorted_by(|&one, &next| u32::from_le_bytes(one) < u32::from_le_bytes(next)) {
            return Err(wrong("has rows out of order, each must have a higher number than the one before"));
        }
        match rows.numbers.last().map(|&last| u32::from_le_bytes(last)) {
            Some(last) if last as usize >= all => {
                Err(wrong(format!("has row {last} of a table that ends with row {}", all - 1)))
            }
            _ => Ok(rows),
        }
    }

    fn values(
        &mut self,
        count: usize,
        block: usize,
        precision: Precision,
        exponent: i16,
    ) -> Result<Values<'a>, PayloadError> {
        let before = self.bytes.len();
        let values = match precision {
            Precision::F32 | Precision::Sparse => Values::of_singles(self.take(count)?),
            Precision::F16 => Values::of_halves(self.take(count)?, exponent),
            Precision::Int8 => {
                let scales = self.take(count.div_ceil(block))?;
                Values::of_codes(self.take(count)?, scales, block)
            }
        };
        let padding = self.take::<1>(precision.bytes(count, block) - (before - self.bytes.len()))?;
        if padding.iter().any(|&byte| byte != [0]) {
            return Err(wrong("has something after its values where zeros belong"));
        }
        Ok(values)
    }
}

impl<'a> RowNumbers<'a> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether no row was sent.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Which of the rows has this number.
    pub fn find(&self, number: u32) -> Option<usize> {
        self.numbers.binary_search_by_key(&number, |&bytes| u32::from_le_bytes(bytes)).ok()
    }

    /// All numbers, rising.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        self.numbers.iter().map(|&number| u32::from_le_bytes(number))
    }
}

fn wrong(why: impl Into<String>) -> PayloadError {
    PayloadError { part: None, why: why.into() }
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            None => write!(f, "the payload {}", self.why),
            Some(part) => write!(f, "part {part} of the payload {}", self.why),
        }
    }
}

impl std::error::Error for PayloadError {}

#[cfg(test)]
mod tests;

#[cfg(test)]
#[global_allocator]
static COUNTING: bonfire_spoil::Counting = bonfire_spoil::Counting;

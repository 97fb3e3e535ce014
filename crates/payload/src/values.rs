//! The values of a section: floats as they are, halves under one scale, or whole numbers of a byte under a scale a
//! block.
//!
//! Half precision reaches from 2^-24 to 65504, and gradients reach lower. So each section is multiplied by the power of
//! two that brings its largest value just below 2^15; that changes no digit, and what is then too small for a half is
//! less than a hundred-billionth of the largest.
//!
//! Bytes have a scale a block, so that one large value costs its own block its small ones, and no other. A block with
//! an infinity or a value that is no number gets a scale that is none.

use half::f16;
use half::slice::HalfFloatSliceExt;
use std::ops::Range;

/// How precisely values are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// As they are.
    F32,
    /// Rounded to eleven binary digits, to the nearest, ties to even.
    F16,
    /// Rounded to 127 steps up to the largest value of a block, or of a row, to the nearest, ties to even.
    Int8,
    /// As they are, and of dense sections only those that are not zero, with their places, if that is fewer bytes.
    Sparse,
}

/// Some values that came.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a>(RawValues<'a>);

#[derive(Clone, Copy, Debug)]
enum RawValues<'a> {
    Singles(&'a [[u8; 4]]),
    /// `factor` undoes the scale.
    Halves {
        halves: &'a [[u8; 2]],
        factor: f32,
    },
    Codes {
        codes: &'a [[u8; 1]],
        /// Of every `block` of them.
        scales: &'a [[u8; 4]],
        block: usize,
    },
}

/// So many values share a scale, where they are not rows of a table.
pub(super) const BLOCK: usize = 512;

/// So many values are converted at a time, on the stack.
const CONVERTED: usize = 128;

/// The largest magnitude of a value as a byte.
const MOST: f32 = 127.0;

/// The exponent of the largest value of a part after scaling: one below what a half can hold, because of rounding.
const TOP: i32 = 14;

/// The exponents of scales. Below: the largest float. Above: a scale whose inverse is an ordinary float still.
const EXPONENTS: std::ops::RangeInclusive<i32> = TOP - 127..=126;

impl Precision {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Int8 => 2,
            Self::Sparse => 3,
        }
    }

    pub(super) fn of_code(code: u8) -> Option<Self> {
        [Self::F32, Self::F16, Self::Int8, Self::Sparse]
            .into_iter()
            .find(|precision| precision.code() == code)
    }

    /// The bytes of a value.
    pub(super) fn size(self) -> usize {
        match self {
            Self::F32 | Self::Sparse => 4,
            Self::F16 => 2,
            Self::Int8 => 1,
        }
    }

    /// The bytes of so many values with a scale a block, if they have one, and with what fills them up.
    pub(super) fn bytes(self, values: usize, block: usize) -> usize {
        let scales = if self == Self::Int8 { 4 * values.div_ceil(block) } else { 0 };
        scales + (self.size() * values).next_multiple_of(4)
    }

    /// Whether a part can have this scale.
    pub(super) fn allows(self, exponent: i16) -> bool {
        match self {
            Self::F32 | Self::Sparse | Self::Int8 => exponent == 0,
            Self::F16 => EXPONENTS.contains(&i32::from(exponent)),
        }
    }

    /// The exponent of the scale for a part of these pieces.
    pub(super) fn exponent<'a>(self, pieces: impl Iterator<Item = &'a [f32]>) -> i16 {
        let largest = match self {
            Self::F32 | Self::Sparse | Self::Int8 => 0.0,
            Self::F16 => f32::from_bits(pieces.map(largest_bits).max().unwrap_or(0)),
        };
        if largest == 0.0 {
            return 0;
        }
        // What is below the ordinary floats counts as the lowest of them: the range ends there anyway.
        let exponent = (largest.to_bits() >> 23) as i32 - 127;
        (TOP - exponent).clamp(*EXPONENTS.start(), *EXPONENTS.end()) as i16
    }

    /// Appends the scales of some blocks, if they have any. An empty block is one of zeros.
    pub(super) fn write_scales<'a>(self, blocks: impl Iterator<Item = &'a [f32]>, out: &mut Vec<u8>) {
        if self == Self::Int8 {
            out.extend(blocks.flat_map(|block| scale_of(block).to_le_bytes()));
        }
    }

    /// Appends values: in half precision times the scale, as bytes those of one block.
    pub(super) fn write(self, values: &[f32], exponent: i16, out: &mut Vec<u8>) {
        match self {
            Self::F32 | Self::Sparse => {
                let mut bytes = [[0; 4]; CONVERTED];
                for values in values.chunks(CONVERTED) {
                    for (bytes, value) in bytes.iter_mut().zip(values) {
                        *bytes = value.to_le_bytes();
                    }
                    out.extend_from_slice(bytes[..values.len()].as_flattened());
                }
            }
            Self::F16 => write_halves(values, power_of_two(i32::from(exponent)), out),
            Self::Int8 => write_codes(values, scale_of(values), out),
        }
    }
}

/// The value of one step of a block.
fn scale_of(block: &[f32]) -> f32 {
    const INFINITY: i32 = f32::INFINITY.to_bits() as i32;
    // Magnitudes are in the order of their bits, and what is no number is above them all.
    let largest = block.iter().map(|value| value.abs().to_bits() as i32).fold(0, i32::max);
    if largest >= INFINITY { f32::NAN } else { f32::from_bits(largest as u32) / MOST }
}

fn write_codes(values: &[f32], scale: f32, out: &mut Vec<u8>) {
    /// Adding it leaves a float whose last bits are the nearest whole number, ties to even.
    const ROUNDER: f32 = 12_582_912.0;
    // A scale below the ordinary floats has no inverse; what is so small is sent as nothing.
    let inverse = if scale.is_normal() { 1.0 / scale } else { 0.0 };
    let mut codes = [0u8; CONVERTED];
    for values in values.chunks(CONVERTED) {
        for (code, value) in codes.iter_mut().zip(values) {
            let steps = (value * inverse).clamp(-MOST, MOST);
            *code = (steps + ROUNDER).to_bits() as u8;
        }
        out.extend_from_slice(&codes[..values.len()]);
    }
}

fn write_halves(values: &[f32], factor: f32, out: &mut Vec<u8>) {
    let (mut scaled, mut halves, mut bytes) = ([0.0; CONVERTED], [f16::ZERO; CONVERTED], [[0; 2]; CONVERTED]);
    for values in values.chunks(CONVERTED) {
        let len = values.len();
        for (scaled, value) in scaled.iter_mut().zip(values) {
            *scaled = value * factor;
        }
        halves[..len].convert_from_f32_slice(&scaled[..len]);
        for (bytes, half) in bytes.iter_mut().zip(&halves) {
            *bytes = half.to_le_bytes();
        }
        out.extend_from_slice(bytes[..len].as_flattened());
    }
}

/// The bits of the largest magnitude among the finite values. Magnitudes are in the order of their bits, which are
/// compared with a sign because every processor can do that for many at a time.
fn largest_bits(values: &[f32]) -> u32 {
    const INFINITY: i32 = f32::INFINITY.to_bits() as i32;
    let finite = |value: &f32| {
        let bits = value.abs().to_bits() as i32;
        if bits < INFINITY { bits } else { 0 }
    };
    values.iter().map(finite).fold(0, i32::max) as u32
}

/// 2 to the power of an exponent for which that is an ordinary float.
fn power_of_two(exponent: i32) -> f32 {
    assert!((-126..=127).contains(&exponent), "2^{exponent} is not an ordinary float");
    f32::from_bits(((exponent + 127) as u32) << 23)
}

impl<'a> Values<'a> {
    /// Floats as they are, in little-endian order: four bytes each.
    pub fn plain(bytes: &'a [u8]) -> Self {
        Self::of_singles(bytes.as_chunks().0)
    }

    pub(super) fn of_singles(singles: &'a [[u8; 4]]) -> Self {
        Self(RawValues::Singles(singles))
    }

    pub(super) fn of_halves(halves: &'a [[u8; 2]], exponent: i16) -> Self {
        Self(RawValues::Halves { halves, factor: power_of_two(-i32::from(exponent)) })
    }

    pub(super) fn of_codes(codes: &'a [[u8; 1]], scales: &'a [[u8; 4]], block: usize) -> Self {
        Self(RawValues::Codes { codes, scales, block })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self.0 {
            RawValues::Singles(singles) => singles.len(),
            RawValues::Halves { halves, .. } => halves.len(),
            RawValues::Codes { codes, .. } => codes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One after the other: singles, of which few came.
    pub fn iter(&self) -> impl Iterator<Item = f32> + use<'a> {
        let singles = match self.0 {
            RawValues::Singles(singles) => singles,
            RawValues::Halves { .. } | RawValues::Codes { .. } => &[],
        };
        singles.iter().map(|&single| f32::from_le_bytes(single))
    }

    /// The values where they lie: single precision on a machine that keeps floats as they were sent, in memory that is
    /// aligned for them. That of a pool of the wire is.
    pub fn floats(&self) -> Option<&'a [f32]> {
        match self.0 {
            RawValues::Singles(singles) if cfg!(target_endian = "little") => {
                bytemuck::try_cast_slice(singles).ok()
            }
            _ => None,
        }
    }

    /// Some of them, such as a row. Bytes are cut where a block begins.
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self(match self.0 {
            RawValues::Singles(singles) => RawValues::Singles(&singles[range]),
            RawValues::Halves { halves, factor } => RawValues::Halves { halves: &halves[range], factor },
            RawValues::Codes { codes, scales, block } => {
                assert!(range.start.is_multiple_of(block), "bytes are cut where a block begins");
                let scales = &scales[range.start / block..range.end.div_ceil(block)];
                RawValues::Codes { codes: &codes[range], scales, block }
            }
        })
    }

    /// Replaces what is in `out`, which must be as long.
    pub fn copy_to(&self, out: &mut [f32]) {
        self.each(out, |old, new| *old = new);
    }

    /// Adds to what is in `out`, which must be as long.
    pub fn add_to(&self, out: &mut [f32]) {
        self.each(out, |sum, value| *sum += value);
    }

    /// Adds `scale` times the values to what is in `out`, which must be as long.
    pub fn scaled_add_to(&self, out: &mut [f32], scale: f32) {
        self.each(out, |sum, value| *sum += scale * value);
    }

    /// Whether each is a number and none is infinite, as `copy_to` gives them.
    pub fn is_finite(&self) -> bool {
        match self.0 {
            // No early end: a loop that always runs to its end is done many values at a time.
            RawValues::Singles(singles) => {
                singles.iter().fold(true, |all, &single| all & f32::from_le_bytes(single).is_finite())
            }
            // The largest decides, also whether the scale takes it beyond the floats. What is not a number has bits
            // above all numbers.
            RawValues::Halves { halves, factor } => {
                let magnitude = |&half: &[u8; 2]| u16::from_le_bytes(half) & 0x7FFF;
                let largest = halves.iter().map(magnitude).fold(0, u16::max);
                (f16::from_bits(largest).to_f32() * factor).is_finite()
            }
            // The largest of a block decides; what is no number, or infinite, is so whatever it is multiplied with.
            RawValues::Codes { codes, scales, block } => {
                let is_finite = |(codes, &scale): (&[[u8; 1]], &[u8; 4])| {
                    let largest =
                        codes.iter().map(|&[code]| code.cast_signed().unsigned_abs()).fold(0, u8::max);
                    let scale = f32::from_le_bytes(scale);
                    scale.is_finite() & (f32::from(largest) * scale).is_finite()
                };
                codes.chunks(block).zip(scales).fold(true, |all, block| all & is_finite(block))
            }
        }
    }

    /// Values are read as bytes, wherever these lie: the loops are as fast as over aligned floats.
    #[inline(always)]
    fn each(&self, out: &mut [f32], change: impl Fn(&mut f32, f32)) {
        assert_eq!(out.len(), self.len(), "values go into a slice of their own length");
        match self.0 {
            RawValues::Singles(singles) => {
                for (out, &single) in out.iter_mut().zip(singles) {
                    change(out, f32::from_le_bytes(single));
                }
            }
            RawValues::Halves { halves, factor } => {
                let (mut block, mut numbers) = ([f16::ZERO; CONVERTED], [0.0; CONVERTED]);
                for (out, halves) in out.chunks_mut(CONVERTED).zip(halves.chunks(CONVERTED)) {
                    for (half, &bytes) in block.iter_mut().zip(halves) {
                        *half = f16::from_le_bytes(bytes);
                    }
                    block[..halves.len()].convert_to_f32_slice(&mut numbers[..halves.len()]);
                    for (out, number) in out.iter_mut().zip(&numbers) {
                        change(out, number * factor);
                    }
                }
            }
            RawValues::Codes { codes, scales, block } => {
                let blocks = out.chunks_mut(block).zip(codes.chunks(block));
                for ((out, codes), &scale) in blocks.zip(scales) {
                    let scale = f32::from_le_bytes(scale);
                    for (out, &[code]) in out.iter_mut().zip(codes) {
                        change(out, f32::from(code.cast_signed()) * scale);
                    }
                }
            }
        }
    }
}

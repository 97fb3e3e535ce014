/// The type of the numbers of a stored tensor; all are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarType {
    F64,
    F32,
    F16,
    BF16,
    I64,
    I32,
    I16,
    I8,
    U8,
    Bool,
}

impl ScalarType {
    /// How many bytes a number has.
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// One number of exactly [`size`](Self::size) bytes, as near as `f32` comes to it.
    pub fn float(self, bytes: &[u8]) -> f32 {
        match self {
            Self::F64 => f64::from_le_bytes(array(bytes)) as f32,
            Self::F32 => f32::from_le_bytes(array(bytes)),
            Self::F16 => half(u16::from_le_bytes(array(bytes))),
            Self::BF16 => f32::from_bits(u32::from(u16::from_le_bytes(array(bytes))) << 16),
            Self::I64 => i64::from_le_bytes(array(bytes)) as f32,
            Self::I32 => i32::from_le_bytes(array(bytes)) as f32,
            Self::I16 => f32::from(i16::from_le_bytes(array(bytes))),
            Self::I8 => f32::from(i8::from_le_bytes(array(bytes))),
            Self::U8 => f32::from(bytes[0]),
            Self::Bool => f32::from(u8::from(bytes[0] != 0)),
        }
    }

    /// All numbers of some bytes.
    pub fn floats(self, bytes: &[u8]) -> Vec<f32> {
        bytes.chunks_exact(self.size()).map(|bytes| self.float(bytes)).collect()
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

/// A number of half precision: one bit of sign, five of exponent, ten of fraction.
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_exact() {
        let check = |bits: u16, expect: f32| {
            assert_eq!(half(bits), expect, "{bits:#06x}");
            assert_eq!(half(bits | 0x8000), -expect, "{bits:#06x} below zero");
        };
        check(0x0000, 0.0);
        check(0x0001, 2f32.powi(-24));
        check(0x03FF, 1023.0 * 2f32.powi(-24));
        check(0x0400, 2f32.powi(-14));
        check(0x3555, 0.333_251_95);
        check(0x3C00, 1.0);
        check(0x7BFF, 65504.0);
        check(0x7C00, f32::INFINITY);
        assert!(half(0x7E00).is_nan());
    }

    #[test]
    fn numbers_of_every_type_become_floats() {
        let check = |scalar: ScalarType, bytes: &[u8], expect: &[f32]| {
            assert_eq!(scalar.floats(bytes), expect, "{scalar:?}");
        };
        check(
            ScalarType::F64,
            &[1.5f64.to_le_bytes(), 1e300f64.to_le_bytes()].concat(),
            &[1.5, f32::INFINITY],
        );
        check(ScalarType::F32, &(-2.25f32).to_le_bytes(), &[-2.25]);
        check(ScalarType::BF16, &[0xC0, 0x3F, 0x80, 0xBF], &[1.5, -1.0]);
        check(ScalarType::I64, &(-3i64).to_le_bytes(), &[-3.0]);
        check(ScalarType::I32, &70_000i32.to_le_bytes(), &[70_000.0]);
        check(ScalarType::I16, &(-300i16).to_le_bytes(), &[-300.0]);
        check(ScalarType::I8, &[0xFF, 5], &[-1.0, 5.0]);
        check(ScalarType::U8, &[0xFF, 5], &[255.0, 5.0]);
        check(ScalarType::Bool, &[0, 1], &[0.0, 1.0]);
    }
}

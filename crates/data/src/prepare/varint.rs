//! Numbers in groups of seven bits, the lowest first: small ones take a byte.

use std::io::{self, Read};

pub(crate) fn push(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A number, and how many bytes it took.
pub(crate) fn read(reader: &mut impl Read) -> io::Result<(u64, u64)> {
    let mut number = 0;
    for taken in 0..10 {
        let mut byte = [0];
        reader.read_exact(&mut byte)?;
        number |= u64::from(byte[0] & 0x7F) << (7 * taken);
        if byte[0] < 0x80 {
            return Ok((number, taken + 1));
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a number of more than 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            push(&mut bytes, number);
            assert_eq!(read(&mut bytes.as_slice()).unwrap(), (number, bytes.len() as u64));
        }
        assert!(read(&mut [0xFF; 11].as_slice()).is_err());
        assert!(read(&mut [0x80].as_slice()).is_err());
    }
}

//! Numbers in groups of seven bits, the lowest first: small ones take a byte.

use std::io::{self, BufRead};

pub(crate) fn push(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number at the beginning of some bytes, and how many of them it takes. None if they end before it does.
pub(crate) fn parse(bytes: &[u8]) -> io::Result<Option<(u64, usize)>> {
    let mut number = 0;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7F) << (7 * place);
        if *byte < 0x80 {
            return Ok(Some((number, place + 1)));
        }
    }
    if bytes.len() < 10 {
        return Ok(None);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a number of more than 64 bits"))
}

/// A number, and how many bytes it took.
pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<(u64, u64)> {
    if let Some((number, taken)) = parse(reader.fill_buf()?)? {
        reader.consume(taken);
        return Ok((number, taken as u64));
    }
    // It goes on behind what is at hand.
    let mut bytes = Vec::with_capacity(10);
    loop {
        let mut byte = [0];
        reader.read_exact(&mut byte)?;
        bytes.push(byte[0]);
        if let Some((number, taken)) = parse(&bytes)? {
            return Ok((number, taken as u64));
        }
    }
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
            let mut in_pieces = io::BufReader::with_capacity(1, bytes.as_slice());
            assert_eq!(read(&mut in_pieces).unwrap(), (number, bytes.len() as u64));
        }
        assert!(read(&mut [0xFF; 11].as_slice()).is_err());
        assert!(read(&mut [0x80].as_slice()).is_err());
    }
}

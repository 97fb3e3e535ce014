//! How TensorFlow frames records in a file: a length, its checksum, the data, their checksum.

/// CRC-32C, Castagnoli's polynomial, bits reversed.
const POLYNOMIAL: u32 = 0x82F6_3B78;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

/// A checksum that is no checksum of data which contain checksums themselves.
fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// Appends a record.
pub(crate) fn frame(data: &[u8], out: &mut Vec<u8>) {
    let length = (data.len() as u64).to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&masked(&length));
    out.extend_from_slice(data);
    out.extend_from_slice(&masked(data));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_castagnolis() {
        // From RFC 3720, appendix B.4, and the customary test.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn a_record_is_framed_as_tensorflow_does() {
        let mut out = Vec::new();
        frame(b"", &mut out);
        assert_eq!(out.len(), 16);
        assert_eq!(out[..8], [0; 8]);
        // What TensorFlow writes after the length of an empty record.
        assert_eq!(out[8..12], [0x29, 0x03, 0x98, 0x07]);
        assert_eq!(out[12..], 0xa282_ead8_u32.to_le_bytes());
    }
}

//! Eight bytes of a text at once, in one number: the lowest byte is the first. Marks are the highest bits of bytes.

pub(crate) const ONES: u64 = 0x0101_0101_0101_0101;
pub(crate) const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The first eight bytes; fewer are filled up with zeros.
pub(crate) fn load(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(eight)
        }
    }
}

/// Marks the bytes that are this one. Only the lowest mark is always right.
pub(crate) fn equal(word: u64, byte: u8) -> u64 {
    let other = word ^ (ONES * byte as u64);
    other.wrapping_sub(ONES) & !other & HIGHS
}

/// Marks the bytes below this one, which is at most 0x80. Only the lowest mark is always right.
pub(crate) fn below(word: u64, byte: u8) -> u64 {
    word.wrapping_sub(ONES * byte as u64) & !word & HIGHS
}

/// Marks letters and apostrophes, and makes letters small. Every mark is right.
pub(crate) fn letters(word: u64) -> (u64, u64) {
    let folded = (word | (ONES * 0x20)) & !HIGHS;
    // No sum is larger than a byte.
    let from_a = folded + ONES * (0x80 - b'a' as u64);
    let behind_z = folded + ONES * (0x7F - b'z' as u64);
    let letter = from_a & !behind_z & !word & HIGHS;
    let other = word ^ (ONES * b'\'' as u64);
    let apostrophe = !(((other & !HIGHS) + !HIGHS) | other) & HIGHS;
    (word | letter >> 2, letter | apostrophe)
}

/// How many bytes stand before the first mark.
pub(crate) fn before(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// The bits of all bytes before the first mark.
pub(crate) fn mask_before(marks: u64) -> u64 {
    ((marks & marks.wrapping_neg()) >> 7).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::random::Random;

    #[test]
    fn marks_are_those_of_single_bytes() {
        let mut random = Random::at(3, &[]);
        for round in 0..20_000 {
            let bytes: [u8; 8] = std::array::from_fn(|_| match round % 2 {
                0 => random.below(256) as u8,
                _ => b"azAZ'@[`{& \x1f\x20\"\\\x80\xA7\xE1\xFF"[random.below(19)],
            });
            let word = load(&bytes);
            let first = |is: &dyn Fn(u8) -> bool| bytes.iter().position(|&byte| is(byte)).unwrap_or(8);
            assert_eq!(before(equal(word, b' ')), first(&|byte| byte == b' '), "{bytes:?}");
            assert_eq!(before(below(word, 0x20)), first(&|byte| byte < 0x20), "{bytes:?}");
            let (lower, kept) = letters(word);
            let is_kept = |byte: u8| byte.is_ascii_alphabetic() || byte == b'\'';
            let expect =
                bytes.iter().rev().fold(0, |marks, &byte| marks << 8 | u64::from(is_kept(byte)) << 7);
            assert_eq!((lower.to_le_bytes(), kept), (bytes.map(|byte| byte.to_ascii_lowercase()), expect));
        }
        let masks = [0x80, 0x8000, 1 << 63, HIGHS, 0].map(mask_before);
        assert_eq!(masks, [0, 0xFF, u64::MAX >> 8, 0, u64::MAX]);
        assert_eq!(load(b"ab"), u64::from(b'a') | u64::from(b'b') << 8);
    }
}

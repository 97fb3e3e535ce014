/// A small seeded generator (xorshift with a multiplied output), so that a case depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The chance of a seed under a name.
    pub fn new(name: &str, seed: u64) -> Self {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        let place = name.bytes().fold(0xCBF2_9CE4_8422_2325, mix);
        let mut chance = Self((place ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1);
        // Neighbouring seeds begin alike; a few steps part them.
        for _ in 0..8 {
            chance.bits();
        }
        chance
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((self.bits() >> 11) % (bound as u64).max(1)) as usize
    }

    /// True so many times of a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// A number as a peer might make it up: small, at an edge of some type, or anything.
    pub fn number(&mut self) -> u64 {
        let edge = 1u64 << self.below(64);
        match self.below(8) {
            0..=3 => self.bits() % 8,
            4 => edge.wrapping_sub(1),
            5 => edge,
            6 => *self.pick(&[u64::MAX, u64::from(u32::MAX), i64::MAX as u64]),
            _ => self.bits(),
        }
    }

    /// A float as a peer might make it up.
    pub fn float(&mut self) -> f64 {
        let odd =
            [0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE];
        match self.below(4) {
            0 => *self.pick(&odd),
            1 => f64::from_bits(self.bits()),
            _ => self.below(1000) as f64 / 8.0,
        }
    }

    /// A text as a peer might make it up, rarely a long one.
    pub fn text(&mut self) -> String {
        let len = if self.percent(3) { 10_000 } else { self.below(12) };
        let letters = ['a', '/', ':', '0', '\n', '\u{1b}', '\u{e9}', '\u{202e}', ' '];
        (0..len).map(|_| *self.pick(&letters)).collect()
    }

    /// Any bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.bits() as u8).collect()
    }

    /// Damages bytes: some are changed, cut out, put in or doubled, or the end is cut off. Preferably at the beginning,
    /// where headers are.
    pub fn spoil(&mut self, good: &[u8]) -> Vec<u8> {
        let mut bytes = good.to_vec();
        for _ in 0..1 + self.below(4) {
            if bytes.is_empty() {
                bytes.push(self.bits() as u8);
            }
            let reach = if self.percent(70) { bytes.len().min(64) } else { bytes.len() };
            let place = self.below(reach);
            let end = (place + 1 + self.below(8)).min(bytes.len());
            match self.below(9) {
                0 => bytes[place] = self.bits() as u8,
                1 => bytes[place] ^= 1 << self.below(8),
                2 => bytes[place] = bytes[place].wrapping_add(*self.pick(&[1, 255])),
                3 => bytes.truncate(place),
                4 => bytes.insert(place, self.bits() as u8),
                5 => drop(bytes.drain(place..end)),
                6 => {
                    let copy = bytes[place..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, copy);
                }
                7 => bytes[place..end].fill(*self.pick(&[0, 1, 0x7F, 0x80, 0xFF])),
                _ => {
                    // A length, in either order of its bytes.
                    let number = self.number();
                    let size = *self.pick(&[2, 4, 8]);
                    let number = if self.percent(50) { number.to_le_bytes() } else { number.to_be_bytes() };
                    let size = size.min(bytes.len() - place);
                    bytes[place..place + size].copy_from_slice(&number[..size]);
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_case() {
        let spoilt = |name, seed| Chance::new(name, seed).spoil(&[7; 50]);
        assert_eq!(spoilt("a", 3), spoilt("a", 3));
        assert!((0..100).all(|seed| spoilt("a", seed) != spoilt("b", seed) || seed % 7 == 0));
        let changed = (0..1000).filter(|&seed| spoilt("a", seed) != [7; 50]).count();
        assert!(changed > 900, "{changed}");
    }
}

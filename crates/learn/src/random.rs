//! Random numbers that depend on a seed and a place, and on nothing else.
//!
//! Every random number of a run is a function of the seed and of what it is for, so that two runs with one seed are
//! equal on every machine, in every order of execution, and after a resume. A general-purpose crate promises that
//! only within one of its versions; these thirty lines promise it for good.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed ^ 0x9E37_79B9_7F4A_7C15) }
    }

    /// The stream that belongs to one place under a seed: an epoch, a worker, a sample.
    pub fn at(seed: u64, place: &[u64]) -> Self {
        Self::new(
            place.iter().fold(seed, |hash, part| mix(hash ^ mix(part.wrapping_add(0x632B_E59B_D9B4_E019)))),
        )
    }

    /// The stream that belongs to a name under a seed.
    pub fn named(seed: u64, name: &str) -> Self {
        Self::new(name.bytes().fold(seed, |hash, byte| mix(hash ^ u64::from(byte).wrapping_add(1))))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// Uniform in `0..bound`; `bound` must not be 0.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "Random::below needs a bound above 0");
        // Multiply-shift: the bias is below bound / 2^64.
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Uniform in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Uniform in `[low, high)`.
    #[inline]
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// True with the given probability.
    #[inline]
    pub fn chance(&mut self, probability: f32) -> bool {
        self.unit() < probability
    }

    /// Standard normal (Box–Muller; one of the pair, so that each call draws the same number of bits).
    #[inline]
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * f64::from(1.0 - self.unit()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * f64::from(self.unit())).cos()) as f32
    }

    /// One of the items; the slice must not be empty.
    #[inline]
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Fisher–Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// The finaliser of SplitMix64: a bijection in which every output bit depends on every input bit.
#[inline]
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_different_places_differ_and_repeat() {
        let draw = |place: &[u64]| Random::at(7, place).bits();
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        assert_ne!(draw(&[1, 2]), draw(&[2, 1]));
        assert_ne!(draw(&[1]), draw(&[1, 0]));
        assert_ne!(Random::named(7, "a").bits(), Random::named(7, "b").bits());
    }

    #[test]
    fn numbers_have_the_moments_they_claim() {
        let mut random = Random::new(1);
        let n = 100_000;
        let normals: Vec<f32> = (0..n).map(|_| random.normal()).collect();
        let mean = normals.iter().sum::<f32>() / n as f32;
        let variance = normals.iter().map(|x| x * x).sum::<f32>() / n as f32;
        assert!(mean.abs() < 0.02, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
        let units: f32 = (0..n).map(|_| random.unit()).sum::<f32>() / n as f32;
        assert!((units - 0.5).abs() < 0.01, "mean of units {units}");
    }

    #[test]
    fn a_shuffle_is_a_permutation() {
        let mut items: Vec<usize> = (0..100).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}

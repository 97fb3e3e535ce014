use bonfire_learn::random::Random;

/// One sample in so many is measured on, where a file has no halves of its own.
pub(crate) const TEST_SHARE: u64 = 10;

/// Picks samples by chance: exactly so many, each as likely as any other, in the order in which they come.
pub(crate) struct Draw {
    random: Random,
    left: u64,
    picks_left: u64,
}

impl Draw {
    /// Of so many samples those to measure on.
    pub(crate) fn of(seed: u64, samples: u64) -> Self {
        let picks_left = (samples / TEST_SHARE).max(1);
        Self { random: Random::named(seed, "halves"), left: samples, picks_left }
    }

    pub(crate) fn picks_next(&mut self) -> bool {
        let picks = (self.random.below(self.left.max(1) as usize) as u64) < self.picks_left;
        self.left = self.left.saturating_sub(1);
        self.picks_left -= u64::from(picks);
        picks
    }

    /// Samples to train on, and those to measure on.
    pub(crate) fn split<T>(seed: u64, samples: Vec<T>) -> [Vec<T>; 2] {
        let mut draw = Self::of(seed, samples.len() as u64);
        let (test, train) = samples.into_iter().partition(|_| draw.picks_next());
        [train, test]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_ten_is_picked_whatever_the_seed() {
        for seed in 0..20 {
            let [train, test] = Draw::split(seed, (0..57).collect());
            assert_eq!((train.len(), test.len()), (52, 5));
            assert!(train.is_sorted() && test.is_sorted());
        }
        assert_ne!(Draw::split(1, (0..57).collect()), Draw::split(2, (0..57).collect::<Vec<_>>()));
        assert_eq!(Draw::split(1, vec!['a', 'b'])[1].len(), 1);
    }
}

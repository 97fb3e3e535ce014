//! Which samples come when, and whose they are.
//!
//! An epoch is one seeded permutation of the samples, new every epoch, cut into rounds of one global batch. Where
//! samples differ in length, those of a round are of similar length: less padding. Both depend on the seed, the epoch
//! and the global batch alone, so every node of a run can tell them without asking.

use crate::Samples;
use bonfire_learn::random::Random;

/// How many rounds' worth of samples are sorted by length together. More saves padding, fewer mixes better.
const WINDOW: usize = 10;

/// The permutation of one epoch.
#[derive(Debug, Default)]
pub struct EpochOrder {
    samples: Vec<u32>,
    round_size: usize,
}

impl EpochOrder {
    /// Becomes the order of `epoch` for rounds of `round_size` samples.
    pub fn shuffle(&mut self, samples: &Samples, round_size: usize, seed: u64, epoch: u64) {
        assert!(round_size > 0, "a round has at least one sample");
        let mut random = Random::at(seed, &[0x0DE5, epoch]);
        self.round_size = round_size;
        self.samples.clear();
        self.samples.extend(0..samples.len() as u32);
        random.shuffle(&mut self.samples);
        if samples.varies_in_length() {
            for window in self.samples.chunks_mut(WINDOW * round_size) {
                window.sort_by_key(|&sample| samples.length(sample as usize));
            }
            let whole = self.samples.len() - self.samples.len() % round_size;
            shuffle_chunks(&mut self.samples[..whole], round_size, &mut random);
        }
    }

    /// How many rounds an epoch of `samples` has.
    pub fn rounds(samples: usize, round_size: usize) -> usize {
        samples.div_ceil(round_size)
    }

    /// The samples of a round for one of `workers`, replacing what `share` held. Dealt out like cards, so that every
    /// worker has its part of the long ones; the last round of an epoch may leave a worker with none.
    pub fn share(&self, round: usize, worker: usize, workers: usize, share: &mut Vec<u32>) {
        let start = (round * self.round_size).min(self.samples.len());
        let end = (start + self.round_size).min(self.samples.len());
        share.clear();
        share.extend(self.samples[start..end].iter().skip(worker).step_by(workers));
    }
}

/// Shuffles whole chunks of equal size among each other.
fn shuffle_chunks(items: &mut [u32], size: usize, random: &mut Random) {
    for last in (1..items.len() / size).rev() {
        let other = random.below(last + 1);
        if other != last {
            let (head, tail) = items.split_at_mut(last * size);
            head[other * size..(other + 1) * size].swap_with_slice(&mut tail[..size]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Images, Sentences};

    fn images(n: usize) -> Samples {
        Samples::Images(Images { labels: vec![0; n], ..Images::default() })
    }

    fn sentences(n: u32) -> Samples {
        let starts = (0..=n).scan(0, |end, i| Some(std::mem::replace(end, *end + 1 + i * 7 % 20))).collect();
        Samples::Sentences(Sentences { starts, ..Sentences::default() })
    }

    #[test]
    fn every_sample_is_in_one_share_of_one_round() {
        for samples in [images(1000), images(7), sentences(997)] {
            for workers in 1..=4 {
                let round_size = workers * 8;
                let mut order = EpochOrder::default();
                order.shuffle(&samples, round_size, 1, 0);
                let mut seen = Vec::new();
                let mut share = Vec::new();
                for round in 0..EpochOrder::rounds(samples.len(), round_size) {
                    for worker in 0..workers {
                        order.share(round, worker, workers, &mut share);
                        assert!(share.len() <= 8);
                        seen.extend_from_slice(&share);
                    }
                }
                seen.sort_unstable();
                assert_eq!(seen, (0..samples.len() as u32).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn epochs_differ_and_repeat() {
        let samples = images(100);
        let order = |seed, epoch| {
            let mut order = EpochOrder::default();
            order.shuffle(&samples, 10, seed, epoch);
            order.samples
        };
        assert_eq!(order(1, 2), order(1, 2));
        assert_ne!(order(1, 2), order(1, 3));
        assert_ne!(order(1, 2), order(2, 2));
    }

    #[test]
    fn sentences_of_a_round_are_of_similar_length() {
        let samples = sentences(2000);
        let mut order = EpochOrder::default();
        order.shuffle(&samples, 10, 1, 0);
        let (mut padded, mut real, mut share) = (0, 0, Vec::new());
        for round in 0..200 {
            order.share(round, 0, 1, &mut share);
            let lengths: Vec<usize> = share.iter().map(|&i| samples.length(i as usize)).collect();
            padded += lengths.len() * lengths.iter().max().expect("a share");
            real += lengths.iter().sum::<usize>();
        }
        assert!(padded * 10 < real * 11, "{padded} places for {real} words");
    }
}

//! Which samples come when, and whose they are.
//!
//! An epoch is one seeded permutation of the samples, new every epoch, cut into rounds of one global batch. Where
//! samples differ in length, those of a round are of similar length: less padding. Both depend on the seed, the epoch
//! and the global batch alone, so every node of a run can tell them without asking.

use bonfire_learn::random::Random;
use serde::{Deserialize, Serialize};

use crate::Samples;

/// How many rounds' worth of samples are sorted by length together. More saves padding, fewer mixes better.
const WINDOW: usize = 10;

/// One of several unequal parts of some batches of an epoch, which follow each other.
///
/// As many batches as there are parts are put together and dealt out again: each part gets as much of them as its share
/// is of all shares. So whoever does which part, together they have the samples of those batches, each once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Of which batch of the epoch on, counted as workers of equal shares have them.
    pub first: u32,
    /// Which of the parts this is.
    pub place: u32,
    pub shares: Vec<u32>,
}

impl Cut {
    /// How many of so many samples each part has: its share of them, rounded such that together they have all.
    pub fn counts(&self, samples: usize) -> Vec<usize> {
        let all = self.shares.iter().map(|share| u128::from(*share)).sum::<u128>().max(1);
        let place = |sum: u128| ((2 * sum * samples as u128 + all) / (2 * all)) as usize;
        let (mut sum, mut before) = (0, 0);
        let mut count = |share: &u32| {
            sum += u128::from(*share);
            let after = place(sum);
            after - std::mem::replace(&mut before, after)
        };
        self.shares.iter().map(&mut count).collect()
    }

    /// Whether it is a part of batches of an epoch that has so many.
    pub fn fits(&self, batches_per_epoch: u64) -> bool {
        let end = u64::from(self.first) + self.shares.len() as u64;
        (self.place as usize) < self.shares.len()
            && end <= batches_per_epoch
            && self.shares.iter().any(|share| *share > 0)
    }

    /// Which of so many samples are this part's: dealt out like cards, to who has more of them more often.
    pub fn places(&self, samples: usize) -> impl Iterator<Item = usize> {
        let (counts, own) = (self.counts(samples), self.place as usize);
        // A part's card k of n would lie at (2k + 1) / 2n of the way through all.
        (0..counts[own]).map(move |card| {
            let before = |part: usize| {
                let (others, place) = (counts[part], (2 * card + 1) * counts[part]);
                // Cards of another part that lie before this one; at the same place, the first part comes first.
                let reach = if part < own { place + counts[own] } else { place + counts[own] - 1 };
                (reach / (2 * counts[own])).min(others)
            };
            card + (0..counts.len()).filter(|&part| part != own).map(before).sum::<usize>()
        })
    }
}

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

    /// The same where workers have unequal parts.
    pub fn part(&self, cut: &Cut, workers: usize, share: &mut Vec<u32>) {
        let mut places: Vec<usize> = Vec::new();
        for batch in cut.first as usize..cut.first as usize + cut.shares.len() {
            let start = batch / workers * self.round_size;
            let end = (start + self.round_size).min(self.samples.len());
            places.extend((start..end).skip(batch % workers).step_by(workers));
        }
        // As they lie in the epoch, so that every part has its part of the long ones.
        places.sort_unstable();
        share.clear();
        share.extend(cut.places(places.len()).map(|place| self.samples[places[place]]));
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
    fn every_sample_is_in_one_part() {
        for samples in [images(1000), images(61), sentences(997)] {
            let (workers, round_size) = (4, 32);
            let mut order = EpochOrder::default();
            order.shuffle(&samples, round_size, 1, 0);
            let batches = EpochOrder::rounds(samples.len(), round_size) * workers;
            // Of as many workers as there are slots, and of fewer and more of them.
            for shares in
                [vec![16, 16, 32, 64], vec![40, 8, 48], vec![8, 8, 100, 7, 37], vec![0, 64], vec![32]]
            {
                let (mut seen, mut part) = (Vec::new(), Vec::new());
                let mut first = 0;
                while first < batches {
                    let shares = shares[..shares.len().min(batches - first)].to_vec();
                    let some: Vec<u32> =
                        if shares.iter().all(|share| *share == 0) { vec![1] } else { shares };
                    for place in 0..some.len() as u32 {
                        let cut = Cut { first: first as u32, place, shares: some.clone() };
                        assert!(cut.fits(batches as u64));
                        order.part(&cut, workers, &mut part);
                        seen.extend_from_slice(&part);
                    }
                    first += some.len();
                }
                seen.sort_unstable();
                assert_eq!(seen, (0..samples.len() as u32).collect::<Vec<_>>(), "{shares:?}");
            }
        }
    }

    #[test]
    fn parts_are_as_large_as_their_shares() {
        let cut = |shares: &[u32], place| Cut { first: 0, place, shares: shares.to_vec() };
        assert_eq!(cut(&[16, 16, 32, 64], 0).counts(128), [16, 16, 32, 64]);
        assert_eq!(cut(&[16, 16, 32, 64], 0).counts(64), [8, 8, 16, 32]);
        assert_eq!(cut(&[16, 16, 32, 64], 0).counts(5), [1, 0, 2, 2]);
        assert_eq!(cut(&[0, 16], 0).counts(7), [0, 7]);
        let places: Vec<Vec<usize>> = (0..2).map(|place| cut(&[3, 9], place).places(12).collect()).collect();
        assert_eq!(places, [vec![1, 5, 9], vec![0, 2, 3, 4, 6, 7, 8, 10, 11]], "mixed like cards");
        assert!(!cut(&[3, 9], 2).fits(100) && !cut(&[3, 9], 0).fits(1) && !cut(&[0], 0).fits(9));
    }

    #[test]
    fn equal_parts_are_the_shares_of_equal_workers() {
        let samples = sentences(997);
        let mut order = EpochOrder::default();
        order.shuffle(&samples, 24, 1, 0);
        let (mut part, mut share) = (Vec::new(), Vec::new());
        for round in 0..20 {
            for worker in 0..3 {
                order.part(&Cut { first: 3 * round, place: worker, shares: vec![8; 3] }, 3, &mut part);
                order.share(round as usize, worker as usize, 3, &mut share);
                assert_eq!(part, share);
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

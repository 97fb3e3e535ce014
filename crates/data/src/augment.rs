//! What is done to the images of the training half every time they are seen, so that none is ever seen twice.

use bonfire_learn::random::Random;
use serde::{Deserialize, Serialize};

/// The value of `augment` in the `data` of a run file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Augment {
    /// An image is moved by up to so many pixels in each direction: a random crop of the padded image.
    pub pad: usize,
    /// What comes in from outside.
    pub fill: Padding,
    /// Half of the images are seen in a mirror.
    pub flip: bool,
}

/// What an image is padded with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Padding {
    /// Black.
    #[default]
    Zero,
    /// The image itself, mirrored at its edge.
    Reflect,
}

/// Everything random about the samples of an epoch follows from this and their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochSeed {
    /// Of the run.
    pub seed: u64,
    pub epoch: u64,
}

/// One crop of a padded image, perhaps mirrored: from which place of the image each place is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crop {
    down: isize,
    right: isize,
    flip: bool,
    fill: Padding,
}

impl Augment {
    /// How sample `number` is seen. It depends on the seed and the number alone, so every machine
    /// sees the same.
    pub(crate) fn crop(&self, seed: EpochSeed, number: u32) -> Crop {
        let mut random = Random::at(seed.seed, &[0xA463, seed.epoch, u64::from(number)]);
        let mut shift = || random.below(2 * self.pad + 1) as isize - self.pad as isize;
        let (down, right) = (shift(), shift());
        Crop { down, right, flip: self.flip && random.chance(0.5), fill: self.fill }
    }
}

impl Crop {
    /// The row of the image that is seen as row `y` of `height`; none outside.
    #[inline]
    pub(crate) fn row(&self, y: usize, height: usize) -> Option<usize> {
        within(y as isize + self.down, height as isize, self.fill)
    }

    /// The column of the image that is seen as column `x` of `width`; none outside.
    #[inline]
    pub(crate) fn column(&self, x: usize, width: usize) -> Option<usize> {
        let x = if self.flip { width - 1 - x } else { x };
        within(x as isize + self.right, width as isize, self.fill)
    }
}

#[inline]
fn within(at: isize, len: isize, fill: Padding) -> Option<usize> {
    match fill {
        _ if (0..len).contains(&at) => Some(at as usize),
        Padding::Zero => None,
        Padding::Reflect if at < 0 => Some(-at as usize),
        Padding::Reflect => Some((2 * (len - 1) - at) as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_outside_are_empty_or_mirrored() {
        let check = |at, zero, reflect| {
            assert_eq!(within(at, 4, Padding::Zero), zero, "{at}");
            assert_eq!(within(at, 4, Padding::Reflect), Some(reflect), "{at}");
        };
        check(-3, None, 3);
        check(-1, None, 1);
        check(0, Some(0), 0);
        check(3, Some(3), 3);
        check(4, None, 2);
        check(6, None, 0);
    }

    #[test]
    fn crops_depend_on_seed_and_number_and_take_every_place() {
        let augment = Augment { pad: 2, flip: true, fill: Padding::Zero };
        let crop = |seed, epoch, number| augment.crop(EpochSeed { seed, epoch }, number);
        assert_eq!(crop(1, 2, 3), crop(1, 2, 3));
        let crops: Vec<Crop> = (0..1000).map(|number| crop(1, 2, number)).collect();
        assert_ne!(crops, (0..1000).map(|number| crop(1, 3, number)).collect::<Vec<_>>());
        assert_ne!(crops, (0..1000).map(|number| crop(2, 2, number)).collect::<Vec<_>>());
        for shift in -2..=2 {
            let count = crops.iter().filter(|crop| crop.down == shift).count();
            assert!((150..250).contains(&count), "{count} by {shift}");
        }
        let mirrored = crops.iter().filter(|crop| crop.flip).count();
        assert!((450..550).contains(&mirrored), "{mirrored}");
    }
}

use super::decode::Picture;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The size that images get: a side, or height and width. As Pillow's `resize(…, BILINEAR)` does it: every new place
/// is a mean over the places around it, which weigh less with their distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Resize(pub [usize; 2]);

/// The longest side.
const MOST: u64 = 4096;

struct ResizeVisitor;

impl<'de> Visitor<'de> for ResizeVisitor {
    type Value = Resize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a side from 1 to {MOST}, or [height, width]")
    }

    fn visit_u64<E: Error>(self, side: u64) -> Result<Resize, E> {
        if !(1..=MOST).contains(&side) {
            return Err(E::invalid_value(serde::de::Unexpected::Unsigned(side), &self));
        }
        Ok(Resize([side as usize; 2]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Resize, A::Error> {
        let mut side = || match list.next_element::<u64>()? {
            Some(side) if (1..=MOST).contains(&side) => Ok(side as usize),
            Some(side) => Err(A::Error::invalid_value(serde::de::Unexpected::Unsigned(side), &self)),
            None => Err(A::Error::invalid_length(1, &self)),
        };
        Ok(Resize([side()?, side()?]))
    }
}

impl<'de> Deserialize<'de> for Resize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ResizeVisitor)
    }
}

impl Resize {
    pub(crate) fn apply(self, picture: &Picture) -> Picture {
        let [height, width] = self.0;
        if (picture.height, picture.width) == (height, width) {
            return picture.clone();
        }
        // Along rows first, so that less is left for the columns.
        let across = weights(picture.width, width);
        let mut narrow = vec![0.0f32; picture.height * width * 3];
        for (row, out) in
            picture.pixels.chunks_exact(picture.width * 3).zip(narrow.chunks_exact_mut(width * 3))
        {
            for ((start, weights), out) in across.iter().zip(out.chunks_exact_mut(3)) {
                for (place, weight) in row[start * 3..].chunks_exact(3).zip(weights) {
                    for (out, value) in out.iter_mut().zip(place) {
                        *out += weight * f32::from(*value);
                    }
                }
            }
        }
        let mut pixels = Vec::with_capacity(height * width * 3);
        let mut row = vec![0.0f32; width * 3];
        for (start, weights) in weights(picture.height, height) {
            row.fill(0.0);
            for (other, weight) in narrow.chunks_exact(width * 3).skip(start).zip(&weights) {
                for (sum, value) in row.iter_mut().zip(other) {
                    *sum += weight * value;
                }
            }
            pixels.extend(row.iter().map(|value| value.round().clamp(0.0, 255.0) as u8));
        }
        Picture { height, width, pixels, is_gray: picture.is_gray }
    }
}

/// For every new place of a side where its old ones begin, and how much each counts.
fn weights(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let scale = from as f64 / to as f64;
    // Enlarged, a place lies between two others; reduced, it covers several.
    let reach = scale.max(1.0);
    let of = |place: usize| {
        let center = (place as f64 + 0.5) * scale;
        let start = (center - reach + 0.5).max(0.0) as usize;
        let end = ((center + reach + 0.5) as usize).min(from);
        let weigh = |old: usize| (1.0 - ((old as f64 + 0.5 - center) / reach).abs()).max(0.0);
        let weights: Vec<f64> = (start..end).map(weigh).collect();
        let sum: f64 = weights.iter().sum();
        (start, weights.iter().map(|weight| (weight / sum) as f32).collect())
    };
    (0..to).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Pillow makes of `numpy.arange(12).reshape(3, 4) * 20` (`fixtures/images.py`).
    #[test]
    fn images_are_resized_as_pillow_does() {
        let gray = |values: &[u8]| values.iter().flat_map(|&value| [value; 3]).collect::<Vec<u8>>();
        let pixels = gray(&(0..12).map(|value| value * 20).collect::<Vec<u8>>());
        let picture = Picture { height: 3, width: 4, pixels, is_gray: true };
        let check = |[height, width]: [usize; 2], expect: &[u8]| {
            let found = Resize([height, width]).apply(&picture);
            assert_eq!((found.height, found.width), (height, width));
            for (found, expect) in found.pixels.iter().step_by(3).zip(expect) {
                assert!(found.abs_diff(*expect) <= 1, "{found}, not {expect}");
            }
        };
        check([3, 4], &[0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220]);
        check([2, 2], &[44, 76, 144, 176]);
        check([4, 3], &[6, 30, 54, 56, 80, 104, 116, 140, 164, 166, 190, 214]);
        check([1, 1], &[110]);
    }
}

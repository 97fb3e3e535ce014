//! Values around zero: less the mean, over the deviation.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The value of `normalize` in the `data` of a run file.
#[derive(Clone, Debug, PartialEq)]
pub enum Normalize {
    /// `false`: values stay as they are, bytes from 0 to 1.
    Off,
    /// `true`: by the training half's own mean and deviation of each channel or column.
    Own,
    /// By these of each channel or column, for bytes from 0 to 1.
    By(Moments),
}

/// The mean and deviation of each channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moments {
    pub mean: Vec<f32>,
    #[serde(alias = "std")]
    pub deviation: Vec<f32>,
}

impl Serialize for Normalize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::Own => serializer.serialize_bool(true),
            Self::By(moments) => moments.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Normalize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FlagOrMoments)
    }
}

/// Accepts both forms, and says what is wrong inside the mapping.
struct FlagOrMoments;

impl<'de> Visitor<'de> for FlagOrMoments {
    type Value = Normalize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, or a mapping of mean and deviation")
    }

    fn visit_bool<E>(self, on: bool) -> Result<Normalize, E> {
        Ok(if on { Normalize::Own } else { Normalize::Off })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Normalize, A::Error> {
        Moments::deserialize(MapAccessDeserializer::new(map)).map(Normalize::By)
    }
}

impl Moments {
    /// What to divide by: a channel that never changes has deviation 1.
    pub(crate) fn divisor(deviation: f64) -> f32 {
        if deviation > 1e-12 { deviation as f32 } else { 1.0 }
    }

    /// What is wrong with these for data of so many channels, if anything is.
    pub(crate) fn wrong(&self, channels: usize) -> Option<String> {
        for (name, values) in [("mean", &self.mean), ("deviation", &self.deviation)] {
            if values.len() != channels {
                return Some(format!(
                    "{name} has {} values, the data have {channels} channels",
                    values.len()
                ));
            }
        }
        if self.mean.iter().any(|mean| !mean.is_finite()) {
            return Some("mean must be finite".to_owned());
        }
        let good = |deviation: &f32| *deviation > 0.0 && deviation.is_finite();
        (!self.deviation.iter().all(good)).then(|| "deviation must be above 0".to_owned())
    }
}

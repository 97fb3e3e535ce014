//! The sweep file as it is written.

use std::fmt;

use bonfire_yaml::{Tree, YamlError};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::values::{Draw, Steps};
use super::{KeyValues, Measure, MedianStop};

/// A sweep file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SweepFile {
    pub name: String,
    /// What all runs have in common.
    pub run: Base,
    /// Every combination of these.
    pub grid: Keys<Steps>,
    /// With each of these.
    pub random: Option<RandomKeys>,
    pub seeds: Seeds,
    pub best_by: Option<Measure>,
    pub median_stop: Option<MedianStop>,
}

/// A run file: its path, or its keys.
#[derive(Debug, Default)]
pub(super) enum Base {
    #[default]
    Default,
    File(String),
    Inline(Value),
}

/// Keys with what they go through, in the order of the file.
#[derive(Debug)]
pub(super) struct Keys<T>(pub Vec<(String, T)>);

/// Values by chance.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RandomKeys {
    /// How often they are drawn.
    pub runs: u64,
    #[serde(default)]
    pub seed: u64,
    pub keys: Keys<Draw>,
}

/// A number of seeds, which then are 1, 2 and so on, or the seeds themselves.
#[derive(Debug, Default)]
pub(super) enum Seeds {
    /// That of the run file.
    #[default]
    Own,
    Count(u64),
    These(Vec<u64>),
}

/// No sweep has more values by chance.
const MOST_DRAWS: u64 = 10_000;

impl SweepFile {
    /// All that is laid over the run file, seeds left out.
    pub(super) fn settings(&self, tree: &Tree) -> Result<Vec<KeyValues>, YamlError> {
        let mut all: Vec<KeyValues> = vec![Vec::new()];
        for (key, steps) in &self.grid.0 {
            let values = steps.values().map_err(|reason| tree.wrong("grid", format!("{key}: {reason}")))?;
            let with = |before: &KeyValues| {
                let before = before.clone();
                let with = move |value: &Value| [&before[..], &[(key.clone(), value.clone())]].concat();
                values.iter().map(with).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
            if all.len() as u64 > MOST_DRAWS {
                return Err(tree.wrong("grid", format!("makes more than {MOST_DRAWS} combinations")));
            }
        }
        let Some(random) = &self.random else { return Ok(all) };
        if !(1..=MOST_DRAWS).contains(&random.runs) {
            return Err(tree.wrong("random.runs", format!("must be from 1 to {MOST_DRAWS}")));
        }
        let mut drawn = Vec::new();
        for number in 0..random.runs {
            let mut keys = Vec::new();
            for (place, (key, draw)) in random.keys.0.iter().enumerate() {
                let value = draw.value(random.seed, [number, place as u64]);
                let value = value.map_err(|reason| tree.wrong("random.keys", format!("{key}: {reason}")))?;
                keys.push((key.clone(), value));
            }
            drawn.extend(all.iter().map(|before| [&before[..], &keys[..]].concat()));
        }
        Ok(drawn)
    }
}

impl Seeds {
    pub(super) fn list(&self, tree: &Tree) -> Result<Vec<Option<u64>>, YamlError> {
        match self {
            Self::Own => Ok(vec![None]),
            Self::Count(count @ 1..=1000) => Ok((1..=*count).map(Some).collect()),
            Self::These(seeds) if !seeds.is_empty() => Ok(seeds.iter().copied().map(Some).collect()),
            _ => Err(tree.wrong("seeds", "must be a number from 1 to 1000, or a list of seeds")),
        }
    }
}

impl<T> Default for Keys<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Keys<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
            type Value = Keys<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys of a run file with their values, such as `optimizer.sgd.lr: [0.1, 0.2]`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys<T>, A::Error> {
                let mut keys = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    keys.push(entry);
                }
                Ok(Keys(keys))
            }
        }

        deserializer.deserialize_map(InOrder(std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Base {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::Default),
            Value::String(path) => Ok(Self::File(path)),
            keys @ Value::Object(_) => Ok(Self::Inline(keys)),
            _ => Err(D::Error::custom("expected the path of a run file, or its keys")),
        }
    }
}

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let wrong = || D::Error::custom("expected a number of seeds, or a list of them");
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Self::Own),
            Value::Number(count) => count.as_u64().map(Self::Count).ok_or_else(wrong),
            Value::Array(seeds) => {
                let seeds = seeds.iter().map(Value::as_u64).collect::<Option<_>>();
                seeds.map(Self::These).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }
}

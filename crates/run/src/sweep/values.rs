//! What a key goes through: one value after the other, or values by chance.

use bonfire_learn::random::Random;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

/// Values one after the other.
#[derive(Debug)]
pub(super) enum Steps {
    These(Vec<Value>),
    /// `{powers: 2, from: -7, to: -1}`
    Powers {
        base: f64,
        from: i32,
        to: i32,
    },
    /// `{from: 0.1, to: 0.5, steps: 5}`
    Even {
        from: f64,
        to: f64,
        steps: usize,
    },
}

/// A value by chance.
#[derive(Debug)]
pub(super) enum Draw {
    /// One of these.
    These(Vec<Value>),
    /// Every order of magnitude is as likely.
    Log(f64, f64),
    Uniform(f64, f64),
    /// A whole number, both ends included.
    Whole(i64, i64),
}

/// No key goes through more.
const MOST: usize = 1000;

impl Steps {
    /// All values, or what is wrong with them.
    pub(super) fn values(&self) -> Result<Vec<Value>, String> {
        let values: Vec<Value> = match self {
            Self::These(values) => values.clone(),
            Self::Powers { base, from, to } if to - from < MOST as i32 => {
                (*from..=*to).map(|power| number(base.powi(power))).collect::<Result<_, _>>()?
            }
            Self::Even { from, to, steps } if (2..=MOST).contains(steps) => {
                let value = |i: usize| from + (to - from) * i as f64 / (steps - 1) as f64;
                (0..*steps).map(|i| number(short(value(i)))).collect::<Result<_, _>>()?
            }
            Self::Powers { .. } | Self::Even { .. } => {
                return Err(format!("must be from 2 to {MOST} values"));
            }
        };
        if values.is_empty() {
            return Err("has no values".to_owned());
        }
        Ok(values)
    }
}

impl Draw {
    /// The value at a place of a sequence of draws.
    pub(super) fn value(&self, seed: u64, place: [u64; 2]) -> Result<Value, String> {
        let mut random = Random::at(seed, &[0x53EE, place[0], place[1]]);
        match self {
            Self::These(values) if values.is_empty() => Err("has no values".to_owned()),
            Self::These(values) => Ok(random.pick(values).clone()),
            Self::Log(low, high) if *low > 0.0 && high > low => {
                let part = f64::from(random.unit());
                number(short((low.ln() + part * (high.ln() - low.ln())).exp()))
            }
            Self::Log(..) => Err("log must be of two numbers above 0, the smaller first".to_owned()),
            Self::Uniform(low, high) if high > low => {
                number(short(low + f64::from(random.unit()) * (high - low)))
            }
            Self::Whole(low, high) if high >= low => {
                let count = high.abs_diff(*low).saturating_add(1).min(u64::from(u32::MAX)) as usize;
                Ok(Value::from(low + random.below(count) as i64))
            }
            Self::Uniform(..) | Self::Whole(..) => {
                Err("must be of two numbers, the smaller first".to_owned())
            }
        }
    }
}

fn number(value: f64) -> Result<Value, String> {
    // `64` is a whole number also where it came of a power.
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return Ok(Value::from(value as i64));
    }
    Number::from_f64(value).map(Value::Number).ok_or_else(|| "is beyond all numbers".to_owned())
}

/// Four digits: nobody wants to copy more out of a table.
fn short(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl<'de> Deserialize<'de> for Steps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let wrong = || {
            D::Error::custom(
                "expected a list, `{powers: 2, from: -7, to: -1}`, or `{from: 0.1, to: 0.5, steps: 5}`",
            )
        };
        let map = match Value::deserialize(deserializer)? {
            Value::Array(values) => return Ok(Self::These(values)),
            Value::Object(map) if map.len() == 3 => map,
            _ => return Err(wrong()),
        };
        let float = |key: &str| map.get(key).and_then(Value::as_f64);
        let power = |key: &str| map.get(key).and_then(Value::as_i64).and_then(|power| power.try_into().ok());
        if let (Some(base), Some(from), Some(to)) = (float("powers"), power("from"), power("to")) {
            return Ok(Self::Powers { base, from, to });
        }
        match (float("from"), float("to"), map.get("steps").and_then(Value::as_u64)) {
            (Some(from), Some(to), Some(steps)) => Ok(Self::Even { from, to, steps: steps as usize }),
            _ => Err(wrong()),
        }
    }
}

impl<'de> Deserialize<'de> for Draw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let wrong = || {
            D::Error::custom(
                "expected a list, `{log: [0.0001, 0.1]}`, `{uniform: [0, 0.5]}`, or `{whole: [1, 8]}`",
            )
        };
        let map = match Value::deserialize(deserializer)? {
            Value::Array(values) => return Ok(Self::These(values)),
            Value::Object(map) if map.len() == 1 => map,
            _ => return Err(wrong()),
        };
        let Some((kind, Value::Array(ends))) = map.iter().next() else { return Err(wrong()) };
        let [low, high] = ends.as_slice() else { return Err(wrong()) };
        match (kind.as_str(), low.as_f64(), high.as_f64(), low.as_i64(), high.as_i64()) {
            ("log", Some(low), Some(high), ..) => Ok(Self::Log(low, high)),
            ("uniform", Some(low), Some(high), ..) => Ok(Self::Uniform(low, high)),
            ("whole", _, _, Some(low), Some(high)) => Ok(Self::Whole(low, high)),
            _ => Err(wrong()),
        }
    }
}

//! How large a part of every round each worker computes.

use std::collections::BTreeMap;
use std::fmt;

use bonfire_yaml::{Tree, YamlError};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{LocalSteps, RunFile, Topology};

/// The key `shares` of a run file.
#[derive(Clone, Debug, PartialEq)]
pub enum Shares {
    Equal,
    /// By what rounds take.
    Auto,
    /// By the names of workers; those that are not named have 1.
    Named(BTreeMap<String, f64>),
}

/// The same with what `dynamic` says, and with the defaults filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ShareRule {
    #[default]
    Equal,
    /// By what rounds take, whenever that has changed.
    Auto,
    /// By what rounds take, after the first epoch.
    Once,
    /// The same after every so many epochs.
    Every(u64),
    Named(BTreeMap<String, f64>),
}

/// What the file says about shares; none if it says nothing.
pub(super) fn rule(tree: &Tree, file: &RunFile, topology: &Topology) -> Result<Option<ShareRule>, YamlError> {
    let (key, rule) = match (&file.shares, file.dynamic) {
        (Some(_), Some(_)) => {
            return Err(tree.wrong("dynamic", "cannot be given together with shares: leave one of them out"));
        }
        (None, None) => return Ok(None),
        (Some(Shares::Equal), None) => ("shares", ShareRule::Equal),
        (Some(Shares::Auto), None) => ("shares", ShareRule::Auto),
        (Some(Shares::Named(weights)), None) => ("shares", ShareRule::Named(weights.clone())),
        (None, Some(-1)) => ("dynamic", ShareRule::Equal),
        (None, Some(0)) => ("dynamic", ShareRule::Once),
        (None, Some(epochs)) => match u64::try_from(epochs) {
            Ok(epochs) => ("dynamic", ShareRule::Every(epochs)),
            Err(_) => {
                return Err(tree.wrong("dynamic", "must be -1 (off), 0 (once) or a number of epochs"));
            }
        },
    };
    if let ShareRule::Named(weights) = &rule {
        check_weights(tree, weights)?;
    }
    match refusal(file, topology, &rule) {
        Some(reason) => Err(tree.wrong(key, reason)),
        None => Ok(Some(rule)),
    }
}

fn check_weights(tree: &Tree, weights: &BTreeMap<String, f64>) -> Result<(), YamlError> {
    if weights.is_empty() {
        return Err(tree.wrong("shares", "must be equal, auto, or name workers"));
    }
    match weights.iter().find(|(_, weight)| !(**weight > 0.0 && weight.is_finite())) {
        Some((name, _)) => Err(tree.wrong(&format!("shares.{name}"), "must be above 0")),
        None => Ok(()),
    }
}

/// Why shares cannot be unequal, if they cannot.
pub(super) fn refusal(file: &RunFile, topology: &Topology, rule: &ShareRule) -> Option<&'static str> {
    if *rule == ShareRule::Equal {
        return None;
    }
    let steps_alone = file.local_steps.steps() > 1 || file.local_steps == LocalSteps::Auto;
    let moves = !matches!(rule, ShareRule::Named(_));
    topology.refuses_shares(moves).or(steps_alone
        .then_some("cannot be unequal with local_steps: members train on whole batches by themselves then"))
}

impl Serialize for Shares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Equal => EQUAL.serialize(serializer),
            Self::Auto => AUTO.serialize(serializer),
            Self::Named(weights) => weights.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Shares {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrNames)
    }
}

const EQUAL: &str = "equal";
const AUTO: &str = "auto";

/// Accepts all forms, and says what is wrong inside the mapping.
struct WordOrNames;

impl<'de> Visitor<'de> for WordOrNames {
    type Value = Shares;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("equal, auto, or a mapping of workers' names to numbers")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Shares, E> {
        match text {
            EQUAL => Ok(Shares::Equal),
            AUTO => Ok(Shares::Auto),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Shares, A::Error> {
        BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(Shares::Named)
    }
}

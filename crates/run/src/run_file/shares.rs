//! How large a part of every round each worker computes.

use std::collections::BTreeMap;
use std::fmt;

use bonfire_yaml::{Tree, YamlError};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Distribute, LocalSteps, RunFile, Topology};

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
    if file.distribute == Distribute::Own {
        return Some("cannot be unequal with `distribute: own`: who has more data has larger batches");
    }
    if file.clients_per_round.is_some() {
        return Some("cannot be unequal with clients_per_round: workers take turns");
    }
    let steps_alone = file.local_steps.steps() > 1 || file.local_steps == LocalSteps::Auto;
    if steps_alone && !matches!(topology, Topology::Allreduce { .. }) {
        return Some("cannot be unequal with local_steps under a server: use `arch: allreduce`");
    }
    topology.refuses_shares(!matches!(rule, ShareRule::Named(_)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::{Overrides, Settings};

    fn read(text: &str) -> Result<Settings, String> {
        Settings::read("run.yml", text, &Overrides::default(), 1).map_err(|error| error.to_string())
    }

    const FLAT: &str = "arch: flat, parameter_server: {num_workers: 2}";
    const GROUP: &str = "arch: allreduce, allreduce: {num_workers: 2}";

    #[test]
    fn the_file_says_how_shares_are() {
        let check = |key: &str, expect: ShareRule| {
            for arch in [FLAT, GROUP] {
                let settings = read(&format!("{{{arch}, {key}}}")).expect("a run file");
                assert_eq!(settings.shares, expect, "{key}");
                assert_eq!(settings.is_in_step(), arch == FLAT && expect == ShareRule::Equal, "{key}");
                let again = read(&settings.to_yaml().expect("yaml")).expect("the same");
                assert_eq!(again.shares, expect, "{key}");
            }
        };
        check("epochs: 3", ShareRule::Equal);
        check("shares: equal", ShareRule::Equal);
        check("shares: auto", ShareRule::Auto);
        let weights = BTreeMap::from([("desk".to_owned(), 6.0), ("pi3".to_owned(), 1.0)]);
        check("shares: {pi3: 1, desk: 6}", ShareRule::Named(weights));
        check("dynamic: -1", ShareRule::Equal);
        check("dynamic: 0", ShareRule::Once);
        check("dynamic: 3", ShareRule::Every(3));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let check = |text: &str, expect: &str| {
            let error = read(&format!("{{{text}}}")).expect_err(text);
            assert!(error.contains(expect), "{text}: {error}");
        };
        check(&format!("{FLAT}, shares: {{pi3: 0}}"), "shares.pi3: must be above 0");
        check(&format!("{FLAT}, shares: {{pi3: -2}}"), "shares.pi3: must be above 0");
        check(&format!("{FLAT}, shares: {{}}"), "shares: must be equal, auto, or name workers");
        check(&format!("{FLAT}, shares: fair"), "expected equal, auto, or a mapping of workers' names");
        check(&format!("{FLAT}, shares: 3"), "expected equal, auto, or a mapping of workers' names");
        check(&format!("{FLAT}, dynamic: -2"), "dynamic: must be -1 (off), 0 (once) or a number of epochs");
        check(&format!("{FLAT}, dynamic: 1, shares: auto"), "dynamic: cannot be given together with shares");
        let asynchronous = "arch: flat, parameter_server: {num_workers: 2, type: async}";
        check(&format!("{asynchronous}, shares: auto"), "shares: is only for `aggr_type: sync`");
        check(&format!("{asynchronous}, dynamic: 0"), "dynamic: is only for `aggr_type: sync`");
        let adasum = "arch: allreduce, allreduce: {num_workers: 2, op: adasum}";
        check(&format!("{adasum}, shares: {{a: 1, b: 2}}"), "shares: is only for `op: mean`");
        let mpi = "arch: allreduce, allreduce: {num_workers: 2, engine: mpi}";
        check(&format!("{mpi}, shares: auto"), "shares: is not for `engine: mpi`");
        let relay = |kind: &str| format!("global_server: {{local_servers: [{{num_workers: 2{kind}}}]}}");
        let tree = format!("arch: hierarchical, {}", relay(", type: async"));
        check(&format!("{tree}, shares: auto"), "shares: is only for relays of `aggr_type: sync`");
        let tree = "arch: hierarchical, global_server: {type: async, local_servers: [{num_workers: 2}]}";
        check(&format!("{tree}, shares: auto"), "shares: is only for `aggr_type: sync`");
        let turns = "local_steps: 4, clients_per_round: 1";
        check(&format!("{GROUP}, {turns}, shares: auto"), "shares: cannot be unequal with clients_per_round");
    }

    #[test]
    fn a_default_that_makes_no_sense_is_none() {
        let check = |text: &str, expect: ShareRule| {
            let mut settings = read(&format!("{{{text}}}")).expect("a run file");
            settings.share_by_speed();
            assert_eq!(settings.shares, expect, "{text}");
        };
        check(FLAT, ShareRule::Auto);
        check(GROUP, ShareRule::Auto);
        check("workers: 3", ShareRule::Auto);
        check(&format!("{GROUP}, shares: equal"), ShareRule::Equal);
        check(&format!("{GROUP}, dynamic: -1"), ShareRule::Equal);
        check(&format!("{GROUP}, dynamic: 2"), ShareRule::Every(2));
        check(&format!("{GROUP}, local_steps: 4"), ShareRule::Auto);
        check(&format!("{GROUP}, local_steps: auto"), ShareRule::Auto);
        check(&format!("{GROUP}, local_steps: 4, clients_per_round: 1"), ShareRule::Equal);
        check("arch: flat, parameter_server: {num_workers: 2, type: async}", ShareRule::Equal);
        check("arch: hierarchical, global_server: {local_servers: [{num_workers: 2}]}", ShareRule::Auto);
    }
}

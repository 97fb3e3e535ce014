//! How often workers exchange what they have learnt, and how they step together then.

use std::fmt;

use bonfire_learn::SgdOptions;
use bonfire_yaml::{Tree, YamlError};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::arch::is_default;
use super::{RunFile, Span, Topology};

/// How many batches a worker trains on by itself between two exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalSteps {
    Always(u64),
    /// One until then.
    After(LaterSteps),
    /// One at first; then as many as suit the network, by what the first rounds took.
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaterSteps {
    pub after: Span,
    pub steps: u64,
}

/// The step that all make together after an exchange: the mean of how far they went is its gradient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Outer {
    pub lr: f32,
    /// By the number of workers, unless the file says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f32>,
    pub nesterov: bool,
    /// So many batches of the next round are computed while the exchange goes on: it is applied after them.
    #[serde(skip_serializing_if = "is_default")]
    pub delay: u64,
}

/// Elastic averaging: workers are drawn to a centre, and it to them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Easgd {
    /// Which part of the way to the centre a worker goes, and it to every worker.
    pub rho: f32,
}

impl Default for LocalSteps {
    fn default() -> Self {
        Self::Always(1)
    }
}

impl Default for Outer {
    fn default() -> Self {
        Self { lr: 1.0, momentum: None, nesterov: false, delay: 0 }
    }
}

impl LocalSteps {
    /// What the file says; 1 if it leaves that to others.
    pub fn steps(self) -> u64 {
        match self {
            Self::Always(steps) | Self::After(LaterSteps { steps, .. }) => steps,
            Self::Auto => 1,
        }
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What the workers of a run do together where they step by themselves, if they do. The file gets the momentum.
pub(super) fn outer(
    tree: &Tree,
    file: &mut RunFile,
    topology: &Topology,
) -> Result<Option<SgdOptions>, YamlError> {
    let is_auto = file.local_steps == LocalSteps::Auto;
    let (key, steps) = match file.local_steps {
        LocalSteps::Always(_) | LocalSteps::Auto => ("local_steps", file.local_steps.steps()),
        LocalSteps::After(LaterSteps { steps, .. }) => ("local_steps.steps", steps),
    };
    if steps == 0 {
        return Err(tree.wrong(key, "must be at least 1"));
    }
    if steps == 1 && !is_auto {
        let given = [("outer", file.outer.is_some()), ("easgd", file.easgd.is_some())];
        return match given.iter().find(|(_, given)| *given) {
            Some((key, _)) => Err(tree.wrong(key, "is only for `local_steps` above 1")),
            None => Ok(None),
        };
    }
    let refused = topology.refuses_local_steps().or(topology.refuses_auto().filter(|_| is_auto));
    if let Some(reason) = refused {
        let steps = if is_auto { "auto" } else { "above 1" };
        return Err(tree.wrong("local_steps", format!("{steps} {reason}")));
    }
    if is_auto && file.num_server_rounds.is_some() {
        let message = "auto cannot be given together with num_server_rounds, whose rounds would be of a length that \
                       is not known beforehand: name a number, or give epochs instead";
        return Err(tree.wrong("local_steps", message));
    }
    let is_group = matches!(topology, Topology::Allreduce { .. });
    let for_groups = [
        ("easgd", file.easgd.is_some()),
        ("outer.delay", file.outer.as_ref().is_some_and(|outer| outer.delay > 0)),
    ];
    if let Some((key, _)) = for_groups.iter().find(|(_, given)| *given && !is_group) {
        let message =
            "is only for `arch: allreduce`: workers of a server wait for its answer, and go on from there";
        return Err(tree.wrong(key, message));
    }
    if let Some(easgd) = file.easgd {
        return elastic(tree, file, easgd, topology.workers()).map(Some);
    }
    let outer = file.outer.get_or_insert_default();
    if outer.delay > 0 && (is_auto || outer.delay >= steps) {
        let message = match is_auto {
            true => "is for a number of local steps: name one instead of auto".to_owned(),
            false => format!("must be below the number of local steps, which is {steps}"),
        };
        return Err(tree.wrong("outer.delay", message));
    }
    // `auto` takes none or many.
    let many = if is_auto { MANY_STEPS } else { steps };
    let momentum = *outer.momentum.get_or_insert_with(|| usual_momentum(topology.workers(), many));
    if !(outer.lr > 0.0 && outer.lr.is_finite()) {
        return Err(tree.wrong("outer.lr", "must be above 0"));
    }
    if !(0.0..1.0).contains(&momentum) {
        return Err(tree.wrong("outer.momentum", "must be from 0 to below 1"));
    }
    if outer.nesterov && momentum == 0.0 {
        return Err(tree.wrong("outer.nesterov", "must be used with a momentum above 0"));
    }
    Ok(Some(SgdOptions { lr: outer.lr, momentum, nesterov: outer.nesterov, ..SgdOptions::default() }))
}

/// The step of the centre by the mean way of all workers.
fn elastic(
    tree: &Tree,
    file: &RunFile,
    Easgd { rho }: Easgd,
    workers: usize,
) -> Result<SgdOptions, YamlError> {
    if file.outer.is_some() {
        return Err(tree.wrong("easgd", "is another step than `outer`: leave one of them out"));
    }
    let lr = rho * workers as f32;
    if !(rho > 0.0 && lr <= 1.0) {
        let most = 1.0 / workers as f64;
        let message =
            format!("must be above 0 and at most {most:.3}, one part for each of {workers} workers");
        return Err(tree.wrong("easgd.rho", message));
    }
    Ok(SgdOptions { lr, momentum: 0.0, ..SgdOptions::default() })
}

/// From so many local steps on a round is longer than the memory of the worker's own momentum, 0.9 as a rule.
const MANY_STEPS: u64 = 8;

/// The more workers, the less a mean of them has moved: Wang et al., SlowMo, 2019. After few steps the momentum of the
/// workers' own optimisers still goes the same way, and more of it would overshoot.
fn usual_momentum(workers: usize, steps: u64) -> f32 {
    match (workers, steps) {
        (..4, _) | (_, ..4) => 0.0,
        (4..8, _) | (_, ..MANY_STEPS) => 0.2,
        (8..16, _) => 0.5,
        (16.., _) => 0.6,
    }
}

impl Serialize for LocalSteps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Always(steps) => steps.serialize(serializer),
            Self::After(later) => later.serialize(serializer),
            Self::Auto => AUTO.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for LocalSteps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrLater)
    }
}

const AUTO: &str = "auto";

/// Accepts all forms, and says what is wrong inside the mapping.
struct NumberOrLater;

impl<'de> Visitor<'de> for NumberOrLater {
    type Value = LocalSteps;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of steps, auto, or a mapping of after and steps")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<LocalSteps, E> {
        match text {
            AUTO => Ok(LocalSteps::Auto),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_u64<E>(self, steps: u64) -> Result<LocalSteps, E> {
        Ok(LocalSteps::Always(steps))
    }

    fn visit_i64<E: serde::de::Error>(self, steps: i64) -> Result<LocalSteps, E> {
        u64::try_from(steps).map(LocalSteps::Always).map_err(|_| E::custom("must be at least 1"))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LocalSteps, A::Error> {
        LaterSteps::deserialize(MapAccessDeserializer::new(map)).map(LocalSteps::After)
    }
}

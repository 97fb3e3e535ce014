//! Optimisers: gradients of all workers in, parameters changed, in one pass over memory.

mod rows;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::gradient::Gradient;
use crate::kernels::update::{Adagrad, Adam, Nadam, RmsProp, Sgd};
use crate::layout::Layout;
use crate::sum::{Addends, BLOCK, Change, Summed};
pub use rows::RowRule;

/// An optimiser by name, with its options: the value of `optimizer` in a run file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerSpec {
    Sgd(SgdOptions),
    Adam(AdamOptions),
    AdamW(AdamOptions),
    RmsProp(RmsPropOptions),
    Adagrad(AdagradOptions),
    Nadam(NadamOptions),
}

impl Default for OptimizerSpec {
    fn default() -> Self {
        Self::Adam(AdamOptions::default())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SgdOptions {
    pub lr: f32,
    pub momentum: f32,
    pub nesterov: bool,
    pub weight_decay: f32,
    pub rows: RowRule,
}

impl Default for SgdOptions {
    fn default() -> Self {
        Self { lr: 0.01, momentum: 0.0, nesterov: false, weight_decay: 0.0, rows: RowRule::All }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamOptions {
    pub lr: f32,
    pub betas: [f32; 2],
    #[serde(alias = "eps")]
    pub epsilon: f32,
    pub weight_decay: f32,
    pub rows: RowRule,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self { lr: 0.001, betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.0, rows: RowRule::All }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RmsPropOptions {
    pub lr: f32,
    /// How much of the mean square stays.
    pub alpha: f32,
    #[serde(alias = "eps")]
    pub epsilon: f32,
    pub momentum: f32,
    pub weight_decay: f32,
    pub rows: RowRule,
}

impl Default for RmsPropOptions {
    fn default() -> Self {
        let rows = RowRule::All;
        Self { lr: 0.01, alpha: 0.99, epsilon: 1e-8, momentum: 0.0, weight_decay: 0.0, rows }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdagradOptions {
    pub lr: f32,
    /// How the rate falls with the number of steps.
    pub lr_decay: f32,
    /// What the sums of squares begin with.
    pub initial_accumulator_value: f32,
    #[serde(alias = "eps")]
    pub epsilon: f32,
    pub weight_decay: f32,
    pub rows: RowRule,
}

impl Default for AdagradOptions {
    fn default() -> Self {
        Self {
            lr: 0.01,
            lr_decay: 0.0,
            initial_accumulator_value: 0.0,
            epsilon: 1e-10,
            weight_decay: 0.0,
            rows: RowRule::All,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NadamOptions {
    pub lr: f32,
    pub betas: [f32; 2],
    #[serde(alias = "eps")]
    pub epsilon: f32,
    /// How fast the momentum grows to its full size.
    pub momentum_decay: f32,
    pub weight_decay: f32,
    pub rows: RowRule,
}

impl Default for NadamOptions {
    fn default() -> Self {
        Self {
            lr: 0.002,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            momentum_decay: 0.004,
            weight_decay: 0.0,
            rows: RowRule::All,
        }
    }
}

impl NadamOptions {
    /// The momentum of a step, counted from 1.
    fn momentum(&self, step: u64) -> f64 {
        f64::from(self.betas[0]) * (1.0 - 0.5 * 0.96f64.powf(step as f64 * f64::from(self.momentum_decay)))
    }
}

impl OptimizerSpec {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sgd(_) => "sgd",
            Self::Adam(_) => "adam",
            Self::AdamW(_) => "adamw",
            Self::RmsProp(_) => "rmsprop",
            Self::Adagrad(_) => "adagrad",
            Self::Nadam(_) => "nadam",
        }
    }

    /// The learning rate that schedules start from.
    pub fn lr(&self) -> f32 {
        match self {
            Self::Sgd(options) => options.lr,
            Self::Adam(options) | Self::AdamW(options) => options.lr,
            Self::RmsProp(options) => options.lr,
            Self::Adagrad(options) => options.lr,
            Self::Nadam(options) => options.lr,
        }
    }

    /// The first option that is out of its range, with the rule that it breaks.
    pub fn wrong_option(&self) -> Option<(&'static str, &'static str)> {
        let at_least_0 = |x: f32| x >= 0.0 && x.is_finite();
        let below_1 = |x: f32| (0.0..1.0).contains(&x);
        let above_0 = |x: f32| x > 0.0 && x.is_finite();
        let checks: &[(&str, bool, &str)] = match self {
            Self::Sgd(o) => &[
                ("lr", at_least_0(o.lr), "a number that is not negative"),
                ("momentum", below_1(o.momentum), "from 0 to below 1"),
                ("nesterov", !o.nesterov || o.momentum > 0.0, "used with a momentum above 0"),
                ("weight_decay", at_least_0(o.weight_decay), "a number that is not negative"),
            ],
            Self::Adam(o) | Self::AdamW(o) => &[
                ("lr", at_least_0(o.lr), "a number that is not negative"),
                ("betas", o.betas.iter().all(|&beta| below_1(beta)), "two numbers from 0 to below 1"),
                ("epsilon", above_0(o.epsilon), "above 0"),
                ("weight_decay", at_least_0(o.weight_decay), "a number that is not negative"),
            ],
            Self::RmsProp(o) => &[
                ("lr", at_least_0(o.lr), "a number that is not negative"),
                ("alpha", below_1(o.alpha), "from 0 to below 1"),
                ("epsilon", above_0(o.epsilon), "above 0"),
                ("momentum", below_1(o.momentum), "from 0 to below 1"),
                ("weight_decay", at_least_0(o.weight_decay), "a number that is not negative"),
            ],
            Self::Adagrad(o) => &[
                ("lr", at_least_0(o.lr), "a number that is not negative"),
                ("lr_decay", at_least_0(o.lr_decay), "a number that is not negative"),
                (
                    "initial_accumulator_value",
                    at_least_0(o.initial_accumulator_value),
                    "a number that is not negative",
                ),
                ("epsilon", above_0(o.epsilon), "above 0"),
                ("weight_decay", at_least_0(o.weight_decay), "a number that is not negative"),
            ],
            Self::Nadam(o) => &[
                ("lr", at_least_0(o.lr), "a number that is not negative"),
                ("betas", o.betas.iter().all(|&beta| below_1(beta)), "two numbers from 0 to below 1"),
                ("epsilon", above_0(o.epsilon), "above 0"),
                ("momentum_decay", at_least_0(o.momentum_decay), "a number that is not negative"),
                ("weight_decay", at_least_0(o.weight_decay), "a number that is not negative"),
            ],
        };
        checks.iter().find(|(_, holds, _)| !holds).map(|(option, _, rule)| (*option, *rule))
    }
}

/// An optimiser with its memory.
#[derive(Debug)]
pub struct Optimizer {
    spec: OptimizerSpec,
    layout: Layout,
    steps: u64,
    /// As many vectors of the layout's length as the rule remembers: none, the velocity, or Adam's two moments.
    moments: Vec<Vec<f32>>,
    /// The product of NAdam's momenta, and of how many steps.
    momenta: (u64, f64),
    /// Sums of squares, a block each; kept to be used again.
    squares: Vec<f64>,
}

/// The rule of one step, with its numbers worked out.
#[derive(Clone, Copy, Debug)]
enum UpdateRule {
    Sgd(Sgd),
    Adam(Adam),
    RmsProp(RmsProp),
    Adagrad(Adagrad),
    Nadam(Nadam),
}

impl Optimizer {
    pub fn new(spec: OptimizerSpec, layout: &Layout) -> Self {
        let moments = match &spec {
            OptimizerSpec::Sgd(options) if options.momentum == 0.0 => 0,
            OptimizerSpec::RmsProp(options) if options.momentum == 0.0 => 1,
            OptimizerSpec::Sgd(_) | OptimizerSpec::Adagrad(_) => 1,
            OptimizerSpec::Adam(_)
            | OptimizerSpec::AdamW(_)
            | OptimizerSpec::RmsProp(_)
            | OptimizerSpec::Nadam(_) => 2,
        };
        let first = match &spec {
            OptimizerSpec::Adagrad(options) => options.initial_accumulator_value,
            _ => 0.0,
        };
        let moments = vec![vec![first; layout.len()]; moments];
        Self { spec, layout: layout.clone(), steps: 0, moments, momenta: (0, 1.0), squares: Vec::new() }
    }

    /// One update by the mean over all samples of the gradients, which are summed in the order in which they are given.
    /// With `clip`, a mean that is longer is shortened to it. Gradients of no sample at all change nothing.
    pub fn step<G: Borrow<Gradient> + Sync>(
        &mut self,
        parameters: &mut [f32],
        gradients: &[G],
        lr: f32,
        clip: Option<f32>,
    ) {
        let len = parameters.len();
        self.step_first(len, parameters, gradients, lr, clip);
    }

    /// The same for the first `len` parameters alone, a whole number of blocks or all: the others are yet to come from
    /// elsewhere.
    pub fn step_first<G: Borrow<Gradient> + Sync>(
        &mut self,
        len: usize,
        parameters: &mut [f32],
        gradients: &[G],
        lr: f32,
        clip: Option<f32>,
    ) {
        let get = |i: usize| gradients[i].borrow();
        self.step_by(Addends { count: gradients.len(), get: &get }, len, parameters, lr, clip);
    }

    fn step_by(
        &mut self,
        addends: Addends<'_>,
        len: usize,
        parameters: &mut [f32],
        lr: f32,
        clip: Option<f32>,
    ) {
        assert!(len == parameters.len() || len.is_multiple_of(BLOCK), "an update is of whole blocks");
        let weight = addends.weight();
        if weight == 0.0 {
            return;
        }
        self.steps += 1;
        let rule = self.rule(lr);
        let summed = Summed { layout: &self.layout, addends, rows: self.spec.rows() };
        let mut scale = (1.0 / weight) as f32;
        if let Some(limit) = clip {
            let norm = summed.norm(&mut self.squares) * f64::from(scale);
            if norm > f64::from(limit) {
                scale *= (f64::from(limit) / norm) as f32;
            }
        }
        let blocks = parameters[..len].par_chunks_mut(BLOCK).enumerate();
        let apply = |i: usize, p: &mut [f32], moments: [&mut [f32]; 2]| {
            apply(&summed, i * BLOCK, (rule, scale), p, moments);
        };
        match self.moments.as_mut_slice() {
            [] => blocks.for_each(|(i, p)| apply(i, p, [&mut [], &mut []])),
            [v] => {
                let v = v[..len].par_chunks_mut(BLOCK);
                blocks.zip(v).for_each(|((i, p), v)| apply(i, p, [v, &mut []]));
            }
            [m, v, ..] => blocks
                .zip(m[..len].par_chunks_mut(BLOCK).zip(v[..len].par_chunks_mut(BLOCK)))
                .for_each(|((i, p), (m, v))| apply(i, p, [m, v])),
        }
    }

    fn nadam(&mut self, lr: f32, options: &NadamOptions) -> UpdateRule {
        // From the beginning, if it is not known: a run may have been resumed.
        if self.momenta.0 > self.steps {
            self.momenta = (0, 1.0);
        }
        while self.momenta.0 < self.steps {
            let step = self.momenta.0 + 1;
            self.momenta = (step, self.momenta.1 * options.momentum(step));
        }
        let (now, ahead) = (options.momentum(self.steps), options.momentum(self.steps + 1));
        let product = self.momenta.1;
        let rate = |share: f64, product: f64| (f64::from(lr) * share / (1.0 - product)) as f32;
        let [beta1, beta2] = options.betas;
        let correction = 1.0 - f64::from(beta2).powf(self.steps as f64);
        UpdateRule::Nadam(Nadam {
            rates: [rate(1.0 - now, product), rate(ahead, product * ahead)],
            correction: (1.0 / correction.sqrt()) as f32,
            beta1,
            beta2,
            epsilon: options.epsilon,
            weight_decay: options.weight_decay,
        })
    }

    fn rule(&mut self, lr: f32) -> UpdateRule {
        if let OptimizerSpec::Nadam(options) = &self.spec {
            let options = options.clone();
            return self.nadam(lr, &options);
        }
        let adam = |options: &AdamOptions, weight_decay: f32, decay: f32| {
            let [beta1, beta2] = options.betas;
            let steps = self.steps as f64;
            let correction = |beta: f32| 1.0 - f64::from(beta).powf(steps);
            UpdateRule::Adam(Adam {
                lr: (f64::from(lr) / correction(beta1)) as f32,
                correction: (1.0 / correction(beta2).sqrt()) as f32,
                beta1,
                beta2,
                epsilon: options.epsilon,
                weight_decay,
                decay,
            })
        };
        match &self.spec {
            OptimizerSpec::Sgd(options) => UpdateRule::Sgd(Sgd {
                lr,
                momentum: options.momentum,
                nesterov: options.nesterov,
                weight_decay: options.weight_decay,
            }),
            OptimizerSpec::Adam(options) => adam(options, options.weight_decay, 1.0),
            OptimizerSpec::AdamW(options) => adam(options, 0.0, 1.0 - lr * options.weight_decay),
            OptimizerSpec::RmsProp(options) => UpdateRule::RmsProp(RmsProp {
                lr,
                alpha: options.alpha,
                epsilon: options.epsilon,
                weight_decay: options.weight_decay,
                momentum: options.momentum,
            }),
            OptimizerSpec::Adagrad(options) => UpdateRule::Adagrad(Adagrad {
                lr: lr / (1.0 + (self.steps - 1) as f32 * options.lr_decay),
                epsilon: options.epsilon,
                weight_decay: options.weight_decay,
            }),
            OptimizerSpec::Nadam(_) => unreachable!("the first case"),
        }
    }

    /// The learning rate that it was made with.
    pub fn lr(&self) -> f32 {
        self.spec.lr()
    }

    /// How many updates there were.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// What the optimiser remembers, for a checkpoint.
    pub fn moments(&self) -> &[Vec<f32>] {
        &self.moments
    }

    /// What the optimiser remembers, to be replaced piece by piece by that of another after so many updates.
    pub fn restore_part(&mut self, steps: u64) -> &mut [Vec<f32>] {
        self.steps = steps;
        &mut self.moments
    }

    /// Goes on from a checkpoint; false if it is of another optimiser or model.
    #[must_use]
    pub fn restore(&mut self, steps: u64, moments: Vec<Vec<f32>>) -> bool {
        let sizes = |moments: &[Vec<f32>]| moments.iter().map(Vec::len).collect::<Vec<_>>();
        if sizes(&moments) != sizes(&self.moments) {
            return false;
        }
        (self.steps, self.moments) = (steps, moments);
        true
    }
}

impl UpdateRule {
    #[inline]
    fn apply(self, parameters: &mut [f32], [first, second]: [&mut [f32]; 2], gradient: &[f32], scale: f32) {
        match self {
            Self::Sgd(sgd) if first.is_empty() => sgd.plain(parameters, gradient, scale),
            Self::Sgd(sgd) => sgd.momentum(parameters, first, gradient, scale),
            Self::Adam(adam) => adam.step(parameters, first, second, gradient, scale),
            Self::RmsProp(rule) if second.is_empty() => rule.plain(parameters, first, gradient, scale),
            Self::RmsProp(rule) => rule.momentum(parameters, first, second, gradient, scale),
            Self::Adagrad(rule) => rule.step(parameters, first, gradient, scale),
            Self::Nadam(rule) => rule.step(parameters, first, second, gradient, scale),
        }
    }
}

/// Changes one block of parameters, which starts at `start` of the flat vector.
fn apply(
    summed: &Summed<'_, '_>,
    start: usize,
    (rule, scale): (UpdateRule, f32),
    parameters: &mut [f32],
    moments: [&mut [f32]; 2],
) {
    let [first, second] = moments;
    summed.for_each_chunk(start, parameters.len(), |at, change| {
        let gradient = match change {
            Change::Gradient(gradient) => gradient,
            Change::Value(value) => {
                parameters[at - start..at - start + value.len()].copy_from_slice(value);
                return;
            }
        };
        let range = at - start..at - start + gradient.len();
        let first = if first.is_empty() { &mut [][..] } else { &mut first[range.clone()] };
        let second = if second.is_empty() { &mut [][..] } else { &mut second[range.clone()] };
        rule.apply(&mut parameters[range], [first, second], gradient, scale);
    });
}

//! One pass of an optimiser over a slice: parameters, moments and gradient of the same places. The gradient comes as a
//! sum and is multiplied by a scale on the way.

use super::vectorized;

/// Stochastic gradient descent with what may come with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sgd {
    pub lr: f32,
    pub momentum: f32,
    pub nesterov: bool,
    pub weight_decay: f32,
}

impl Sgd {
    /// Without momentum: no velocity.
    pub(crate) fn plain(self, parameters: &mut [f32], gradient: &[f32], scale: f32) {
        vectorized(
            #[inline(always)]
            || {
                for (p, g) in parameters.iter_mut().zip(gradient) {
                    *p -= self.lr * (g * scale + self.weight_decay * *p);
                }
            },
        );
    }

    /// With momentum.
    pub(crate) fn momentum(self, parameters: &mut [f32], velocity: &mut [f32], gradient: &[f32], scale: f32) {
        let look_ahead = if self.nesterov { (1.0, self.momentum) } else { (0.0, 1.0) };
        vectorized(
            #[inline(always)]
            || {
                for ((p, v), g) in parameters.iter_mut().zip(velocity).zip(gradient) {
                    let g = g * scale + self.weight_decay * *p;
                    *v = self.momentum * *v + g;
                    *p -= self.lr * (look_ahead.0 * g + look_ahead.1 * *v);
                }
            },
        );
    }
}

/// Adam, or AdamW where `decay` is not 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adam {
    /// The rate with the correction of the first moment in it.
    pub lr: f32,
    /// One over the root of the correction of the second moment.
    pub correction: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    /// Added to the gradient: Adam's weight decay.
    pub weight_decay: f32,
    /// What parameters are multiplied with: AdamW's weight decay.
    pub decay: f32,
}

impl Adam {
    pub(crate) fn step(
        self,
        parameters: &mut [f32],
        first: &mut [f32],
        second: &mut [f32],
        gradient: &[f32],
        scale: f32,
    ) {
        vectorized(
            #[inline(always)]
            || {
                for (((p, m), v), g) in parameters.iter_mut().zip(first).zip(second).zip(gradient) {
                    let g = g * scale + self.weight_decay * *p;
                    *m += (1.0 - self.beta1) * (g - *m);
                    *v = self.beta2 * *v + (1.0 - self.beta2) * (g * g);
                    *p = self.decay * *p - self.lr * *m / (v.sqrt() * self.correction + self.epsilon);
                }
            },
        );
    }
}

/// RMSprop, as PyTorch has it without `centered`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RmsProp {
    pub lr: f32,
    pub alpha: f32,
    pub epsilon: f32,
    pub weight_decay: f32,
    pub momentum: f32,
}

impl RmsProp {
    /// Without momentum: no velocity.
    pub(crate) fn plain(self, parameters: &mut [f32], squares: &mut [f32], gradient: &[f32], scale: f32) {
        vectorized(
            #[inline(always)]
            || {
                for ((p, v), g) in parameters.iter_mut().zip(squares).zip(gradient) {
                    let g = g * scale + self.weight_decay * *p;
                    *v = self.alpha * *v + (1.0 - self.alpha) * (g * g);
                    *p -= self.lr * g / (v.sqrt() + self.epsilon);
                }
            },
        );
    }

    /// With momentum.
    pub(crate) fn momentum(
        self,
        parameters: &mut [f32],
        squares: &mut [f32],
        velocity: &mut [f32],
        gradient: &[f32],
        scale: f32,
    ) {
        vectorized(
            #[inline(always)]
            || {
                for (((p, v), u), g) in parameters.iter_mut().zip(squares).zip(velocity).zip(gradient) {
                    let g = g * scale + self.weight_decay * *p;
                    *v = self.alpha * *v + (1.0 - self.alpha) * (g * g);
                    *u = self.momentum * *u + g / (v.sqrt() + self.epsilon);
                    *p -= self.lr * *u;
                }
            },
        );
    }
}

/// Adagrad.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adagrad {
    /// The rate of this step.
    pub lr: f32,
    pub epsilon: f32,
    pub weight_decay: f32,
}

impl Adagrad {
    pub(crate) fn step(self, parameters: &mut [f32], squares: &mut [f32], gradient: &[f32], scale: f32) {
        vectorized(
            #[inline(always)]
            || {
                for ((p, v), g) in parameters.iter_mut().zip(squares).zip(gradient) {
                    let g = g * scale + self.weight_decay * *p;
                    *v += g * g;
                    *p -= self.lr * g / (v.sqrt() + self.epsilon);
                }
            },
        );
    }
}

/// NAdam: Adam that looks ahead as Nesterov's momentum does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nadam {
    /// The rate of the gradient, and that of the first moment, with their corrections.
    pub rates: [f32; 2],
    /// One over the root of the correction of the second moment.
    pub correction: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub epsilon: f32,
    pub weight_decay: f32,
}

impl Nadam {
    pub(crate) fn step(
        self,
        parameters: &mut [f32],
        first: &mut [f32],
        second: &mut [f32],
        gradient: &[f32],
        scale: f32,
    ) {
        let [now, ahead] = self.rates;
        vectorized(
            #[inline(always)]
            || {
                for (((p, m), v), g) in parameters.iter_mut().zip(first).zip(second).zip(gradient) {
                    let g = g * scale + self.weight_decay * *p;
                    *m += (1.0 - self.beta1) * (g - *m);
                    *v = self.beta2 * *v + (1.0 - self.beta2) * (g * g);
                    *p -= (now * g + ahead * *m) / (v.sqrt() * self.correction + self.epsilon);
                }
            },
        );
    }
}

/// The sum of some parts, in their order. One part is its own sum; `sum` holds the sum of none, or of several.
#[inline]
pub(crate) fn sum_of<'a>(mut parts: impl Iterator<Item = &'a [f32]>, sum: &'a mut [f32]) -> &'a [f32] {
    let (Some(first), second) = (parts.next(), parts.next()) else {
        sum.fill(0.0);
        return sum;
    };
    let Some(second) = second else { return first };
    vectorized(
        #[inline(always)]
        || {
            for ((sum, a), b) in sum.iter_mut().zip(first).zip(second) {
                *sum = a + b;
            }
        },
    );
    for part in parts {
        vectorized(
            #[inline(always)]
            || {
                for (sum, part) in sum.iter_mut().zip(part) {
                    *sum += part;
                }
            },
        );
    }
    sum
}

/// The sum of squares, in an order of its own that is the same on every machine.
pub(crate) fn sum_of_squares(values: &[f32]) -> f64 {
    let mut lanes = [0.0f64; 8];
    vectorized(
        #[inline(always)]
        || {
            for chunk in values.chunks(8) {
                for (lane, value) in lanes.iter_mut().zip(chunk) {
                    *lane += f64::from(*value) * f64::from(*value);
                }
            }
        },
    );
    lanes.iter().sum()
}

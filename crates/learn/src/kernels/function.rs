//! Functions of one value, as layers of their own.

use serde::{Deserialize, Serialize};

use super::pointwise::{exp, sigmoid, tanh};
use super::vectorized;

/// A function that is applied to every number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    Relu,
    Tanh,
    Sigmoid,
    Gelu,
    Silu,
    /// What is negative is scaled by this.
    LeakyRelu(f32),
    /// What is negative ends at minus this.
    Elu(f32),
}

impl Function {
    /// What it is called in a run file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::Gelu => "gelu",
            Self::Silu => "silu",
            Self::LeakyRelu(_) => "leaky_relu",
            Self::Elu(_) => "elu",
        }
    }
}

/// The error function, to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
#[inline(always)]
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let p = 1.061_405_4;
    let p = p * t - 1.453_152_1;
    let p = p * t + 1.421_413_8;
    let p = p * t - 0.284_496_72;
    let p = p * t + 0.254_829_6;
    let y = 1.0 - p * t * exp(-x * x);
    if x < 0.0 { -y } else { y }
}

/// The share of the normal distribution below x.
#[inline(always)]
fn normal(x: f32) -> f32 {
    0.5 * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// `y = f(x)`.
pub(crate) fn apply(x: &[f32], y: &mut [f32], function: Function) {
    #[inline(always)]
    fn each(x: &[f32], y: &mut [f32], f: impl Fn(f32) -> f32) {
        vectorized(
            #[inline(always)]
            || {
                for (y, x) in y.iter_mut().zip(x) {
                    *y = f(*x);
                }
            },
        );
    }
    match function {
        Function::Relu => each(
            x,
            y,
            #[inline(always)]
            |x| x.max(0.0),
        ),
        Function::Tanh => each(x, y, tanh),
        Function::Sigmoid => each(x, y, sigmoid),
        Function::Gelu => each(
            x,
            y,
            #[inline(always)]
            |x| x * normal(x),
        ),
        Function::Silu => each(
            x,
            y,
            #[inline(always)]
            |x| x * sigmoid(x),
        ),
        Function::LeakyRelu(slope) => each(
            x,
            y,
            #[inline(always)]
            |x| if x > 0.0 { x } else { x * slope },
        ),
        Function::Elu(alpha) => each(
            x,
            y,
            #[inline(always)]
            |x| if x > 0.0 { x } else { alpha * (exp(x) - 1.0) },
        ),
    }
}

/// `dy *= f'(x)`, told from `x` and from `y = f(x)`.
pub(crate) fn backward(x: &[f32], y: &[f32], dy: &mut [f32], function: Function) {
    #[inline(always)]
    fn each(x: &[f32], y: &[f32], dy: &mut [f32], slope: impl Fn(f32, f32) -> f32) {
        vectorized(
            #[inline(always)]
            || {
                for ((dy, x), y) in dy.iter_mut().zip(x).zip(y) {
                    *dy *= slope(*x, *y);
                }
            },
        );
    }
    match function {
        Function::Relu => each(
            x,
            y,
            dy,
            #[inline(always)]
            |_, y| if y > 0.0 { 1.0 } else { 0.0 },
        ),
        Function::Tanh => each(
            x,
            y,
            dy,
            #[inline(always)]
            |_, y| 1.0 - y * y,
        ),
        Function::Sigmoid => each(
            x,
            y,
            dy,
            #[inline(always)]
            |_, y| y * (1.0 - y),
        ),
        Function::Gelu => each(
            x,
            y,
            dy,
            #[inline(always)]
            |x, _| normal(x) + x * 0.398_942_3 * exp(-0.5 * x * x),
        ),
        Function::Silu => each(
            x,
            y,
            dy,
            #[inline(always)]
            |x, y| {
                let gate = sigmoid(x);
                gate + y * (1.0 - gate)
            },
        ),
        Function::LeakyRelu(slope) => each(
            x,
            y,
            dy,
            #[inline(always)]
            |x, _| if x > 0.0 { 1.0 } else { slope },
        ),
        Function::Elu(alpha) => each(
            x,
            y,
            dy,
            #[inline(always)]
            |x, y| if x > 0.0 { 1.0 } else { y + alpha },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PyTorch 2.15 gives for −3, −1, −0.1, 0, 0.1, 1 and 3.
    #[test]
    fn functions_are_pytorchs() {
        let x = [-3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0];
        let check = |function: Function, expect: [f32; 7]| {
            let mut y = [9.0; 7];
            apply(&x, &mut y, function);
            for (y, expect) in y.iter().zip(expect) {
                assert!((y - expect).abs() < 4e-7, "{function:?}: {y}, not {expect}");
            }
        };
        check(Function::Relu, [0.0, 0.0, 0.0, 0.0, 0.1, 1.0, 3.0]);
        check(
            Function::Gelu,
            [-0.004_049_694, -0.158_655_26, -0.046_017_22, 0.0, 0.053_982_78, 0.841_344_7, 2.995_950_5],
        );
        check(
            Function::Silu,
            [-0.142_277_62, -0.268_941_43, -0.047_502_08, 0.0, 0.052_497_92, 0.731_058_6, 2.857_722_3],
        );
        check(Function::LeakyRelu(0.01), [-0.03, -0.01, -0.001, 0.0, 0.1, 1.0, 3.0]);
        check(Function::Elu(1.0), [-0.950_212_94, -0.632_120_55, -0.095_162_58, 0.0, 0.1, 1.0, 3.0]);
        check(
            Function::Sigmoid,
            [0.047_425_874, 0.268_941_43, 0.475_020_83, 0.5, 0.524_979_2, 0.731_058_6, 0.952_574_1],
        );
    }
}

//! Loops over slices: everything that costs time in a step.
//!
//! A kernel is written once, as plain loops that the compiler turns into vector instructions, and runs compiled for
//! the best instruction set of the machine: [`vectorized`] chooses among AVX-512, AVX2 and the baseline (NEON on ARM).
//! No kernel allocates, and none uses a fused multiply-add by name: where the machine has none, it is a slow call.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers by number are what the compiler unrolls best"
)]

pub(crate) mod convolve;
pub mod instructions;
pub(crate) mod lanes;
pub(crate) mod loss;
pub(crate) mod matmul;
pub(crate) mod norm;
pub(crate) mod pointwise;
pub(crate) mod pool;
pub(crate) mod recur;
pub(crate) mod update;
pub(crate) mod winograd;

/// Runs a kernel compiled for the instruction set in use. The kernel must be an `#[inline(always)]` closure, and so
/// must be what it calls in its loops: what is not inlined stays compiled for the baseline.
#[inline(always)]
pub fn vectorized<R>(kernel: impl FnOnce() -> R) -> R {
    instructions::arch().dispatch(kernel)
}

/// How many floats a kernel handles at once where it says so by hand: the widest register there is.
pub const LANES: usize = 16;

/// A full register's worth of floats.
pub type Lanes = [f32; LANES];

/// The first [`LANES`] floats of a slice.
#[inline(always)]
pub fn load(slice: &[f32]) -> Lanes {
    let mut lanes = [0.0; LANES];
    lanes.copy_from_slice(&slice[..LANES]);
    lanes
}

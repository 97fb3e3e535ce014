//! Loops over slices: everything that costs time in a step.
//!
//! Most kernels are plain loops, written once, that the compiler turns into vector instructions. [`vectorized`] runs
//! them compiled for the best instruction set of the machine: AVX-512, AVX2, or the baseline (NEON on aarch64). They
//! use no fused multiply-add by name: where the machine has none, it is a slow call for every float.
//!
//! Products (`matmul`) and convolutions with the samples innermost (`lanes`) are written with registers by hand,
//! generic over `pulp::Simd`. They do use a fused multiply-add, through `instructions::mul_add`, which is a product and
//! a sum where the machine has none.
//!
//! Apart from blocks that belong to a thread, which are allocated once, no kernel allocates.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers by number are what the compiler unrolls best"
)]

pub(crate) mod convolve;
pub(crate) mod function;
pub mod instructions;
pub(crate) mod lanes;
pub(crate) mod loss;
pub mod low_rank;
pub(crate) mod matmul;
#[cfg(target_arch = "arm")]
pub(crate) mod neon32;
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
pub(crate) const LANES: usize = 16;

/// A full register's worth of floats.
pub(crate) type Lanes = [f32; LANES];

/// The first [`LANES`] floats of a slice.
#[inline(always)]
pub(crate) fn load(slice: &[f32]) -> Lanes {
    let mut lanes = [0.0; LANES];
    lanes.copy_from_slice(&slice[..LANES]);
    lanes
}

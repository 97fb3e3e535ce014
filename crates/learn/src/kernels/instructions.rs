//! Which instructions the kernels of this process use: the best of the machine, or what [`VARIABLE`] asks for.

use std::sync::OnceLock;

use pulp::{Arch, WithSimd};

/// The environment variable that asks for fewer instructions than the machine has, to measure or to test the other paths.
pub const VARIABLE: &str = "BONFIRE_INSTRUCTIONS";

static ARCH: OnceLock<Arch> = OnceLock::new();

/// The instruction set in use, the same for the life of the process.
#[inline]
pub fn arch() -> Arch {
    *ARCH.get_or_init(|| std::env::var(VARIABLE).ok().and_then(|name| named(&name)).unwrap_or_default())
}

/// The instruction set of a name, if this machine has it.
pub fn named(name: &str) -> Option<Arch> {
    match name {
        "portable" => Some(Arch::Scalar),
        #[cfg(target_arch = "x86_64")]
        "avx2" => pulp::x86::V3::try_new().map(Arch::V3),
        #[cfg(target_arch = "x86_64")]
        "avx512" => pulp::x86::V4::try_new().map(Arch::V4),
        #[cfg(target_arch = "aarch64")]
        "neon" => pulp::aarch64::Neon::try_new().map(Arch::Neon),
        _ => None,
    }
}

/// The name of the instruction set in use.
pub fn name() -> &'static str {
    match arch() {
        #[cfg(target_arch = "x86_64")]
        Arch::V3(_) => "avx2",
        #[cfg(target_arch = "x86_64")]
        Arch::V4(_) => "avx512",
        #[cfg(target_arch = "aarch64")]
        Arch::Neon(_) => "neon",
        _ => "portable",
    }
}

/// Runs an operation on the widest registers in use. Where there are none beyond the baseline's, four floats at a time are
/// left to the compiler.
#[inline]
pub fn simd<Op: WithSimd>(op: Op) -> Op::Output {
    match arch() {
        Arch::Scalar => pulp::Simd::vectorize(pulp::Scalar128b, op),
        arch => arch.dispatch(op),
    }
}

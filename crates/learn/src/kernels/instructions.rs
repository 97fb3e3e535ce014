//! Which instructions the kernels of this process use: the best of the machine, or what [`VARIABLE`] asks for.

use std::any::TypeId;
use std::ffi::OsStr;
use std::sync::OnceLock;

use pulp::{Arch, Scalar128b, Simd, WithSimd};

use crate::{Error, Result};

/// The environment variable that asks for fewer instructions than the machine has, to measure or to test the other
/// paths.
pub const VARIABLE: &str = "BONFIRE_INSTRUCTIONS";

/// All names, the best first.
const NAMES: [&str; 4] = ["avx512", "avx2", "neon", "portable"];

static ARCH: OnceLock<Arch> = OnceLock::new();

/// The instruction set in use, the same for the life of the process. A program that lets its user set [`VARIABLE`]
/// calls [`check`] first; otherwise a set that the machine lacks is ignored.
#[inline]
pub(crate) fn arch() -> Arch {
    *ARCH.get_or_init(|| asked_for(std::env::var_os(VARIABLE).as_deref()).unwrap_or_default())
}

/// Whether this machine has what [`VARIABLE`] asks for.
pub fn check() -> Result<()> {
    asked_for(std::env::var_os(VARIABLE).as_deref()).map(|_| ())
}

fn asked_for(name: Option<&OsStr>) -> Result<Arch> {
    match name {
        Some(name) if !name.is_empty() => name.to_str().and_then(named).ok_or_else(|| {
            let has: Vec<&str> = available().collect();
            Error::new(format!("{VARIABLE}={}: this machine has {}", name.to_string_lossy(), has.join(", ")))
        }),
        _ => Ok(Arch::new()),
    }
}

/// The names of the instruction sets that this machine has, the best first.
pub fn available() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| named(name).is_some())
}

/// The instruction set of a name, if this machine has it.
pub(crate) fn named(name: &str) -> Option<Arch> {
    match name {
        "portable" => Some(Arch::Scalar),
        #[cfg(target_arch = "x86_64")]
        "avx2" => pulp::x86::V3::try_new().map(Arch::V3),
        #[cfg(target_arch = "x86_64")]
        "avx512" => pulp::x86::V4::try_new().map(Arch::V4),
        #[cfg(target_arch = "aarch64")]
        "neon" => pulp::aarch64::Neon::try_new().map(Arch::Neon),
        // Known to a few kernels only, and not to pulp.
        #[cfg(target_arch = "arm")]
        "neon" => super::neon32::is_there().then_some(Arch::Scalar),
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
        #[cfg(target_arch = "arm")]
        _ if super::neon32::is_used() => "neon",
        _ => "portable",
    }
}

/// Whether [`VARIABLE`] asks for no instructions that have a name.
#[cfg(target_arch = "arm")]
pub(crate) fn is_portable_asked_for() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|name| name == "portable")
}

/// Runs an operation on the widest registers in use: without any that have a name, on four floats at a time.
#[inline]
pub(crate) fn simd<Op: WithSimd>(op: Op) -> Op::Output {
    match arch() {
        Arch::Scalar => portable(op),
        arch => arch.dispatch(op),
    }
}

/// Registers of four floats. Left to itself, the compiler often chooses the wrong four floats to put together. So on
/// x86 the registers are named, if the machine has SSE4, as all but the oldest have.
fn portable<Op: WithSimd>(op: Op) -> Op::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(sse4) = pulp::x86::V2::try_new() {
        return Simd::vectorize(sse4, op);
    }
    Simd::vectorize(Scalar128b, op)
}

/// `a · b + c`, rounded once where the machine has an instruction for it. Without one, rounding once would take a
/// function call for every float, so it is a product and a sum.
#[inline(always)]
pub(crate) fn mul_add<S: Simd>(simd: S, a: S::f32s, b: S::f32s, c: S::f32s) -> S::f32s {
    if is_portable::<S>() { simd.add_f32s(simd.mul_f32s(a, b), c) } else { simd.mul_add_f32s(a, b, c) }
}

#[inline(always)]
fn is_portable<S: Simd>() -> bool {
    #[cfg(target_arch = "x86_64")]
    if TypeId::of::<S>() == TypeId::of::<pulp::x86::V2>() {
        return true;
    }
    TypeId::of::<S>() == TypeId::of::<Scalar128b>()
}

/// The float that lies `offset` floats behind `place`, to be multiplied with registers. Left to itself, the compiler
/// loads it for ARM into all lanes, which takes a turn of what multiplies; a product with one lane takes none.
///
/// # Safety
/// The float must be there.
#[inline(always)]
pub(crate) unsafe fn factor(place: *const f32, offset: usize) -> f32 {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the float, and does nothing else.
    unsafe {
        let float: f32;
        std::arch::asm!(
            "ldr {float:s}, [{place}, {offset}, lsl #2]",
            float = lateout(vreg) float,
            place = in(reg) place,
            offset = in(reg) offset,
            options(pure, readonly, nostack, preserves_flags),
        );
        float
    }
    #[cfg(not(target_arch = "aarch64"))]
    // SAFETY: the caller says that it is there.
    unsafe {
        *place.add(offset)
    }
}

/// Asks for a cache line before it is read, where the machine can be asked. Any address may be given.
#[inline(always)]
pub(crate) fn prefetch(place: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads nothing that the program could see, and does not fail.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Far above what the tests take on a machine that is busy with something else.
    const DEADLINE: Duration = Duration::from_secs(900);

    #[test]
    fn what_is_asked_for_is_in_use() {
        let asked = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
        let best = available().next().expect("every machine has one");
        assert_eq!(name(), asked.as_deref().unwrap_or(best));
    }

    #[test]
    fn what_the_machine_lacks_is_named_with_what_it_has() {
        let check = |name: &str| {
            let error = asked_for(Some(name.as_ref())).map(|_| ()).expect_err(name).to_string();
            assert!(error.starts_with(&format!("{VARIABLE}={name}: this machine has ")), "{error}");
            assert!(error.ends_with("portable"), "{error}");
        };
        check("sse2");
        check("AVX2");
        check(if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" });
        assert!(asked_for(None).is_ok() && asked_for(Some("".as_ref())).is_ok());
        assert!(available().all(|name| asked_for(Some(name.as_ref())).is_ok()));
    }

    /// A process has one instruction set, so these very tests run again in a process for each of the others.
    #[test]
    fn every_other_set_of_the_machine_passes_the_same_tests() {
        if std::env::var_os(VARIABLE).is_some() {
            return;
        }
        for other in available().filter(|&other| other != name()) {
            let mut child = Command::new(std::env::current_exe().expect("this program"))
                .args(["--skip", "torch_file::"])
                .env(VARIABLE, other)
                .stdout(Stdio::piped())
                .spawn()
                .expect("this program again");
            let mut pipe = child.stdout.take().expect("a pipe");
            let (say, said) = mpsc::channel();
            std::thread::spawn(move || {
                let mut text = String::new();
                let read = pipe.read_to_string(&mut text);
                say.send(read.map(|_| text))
            });
            let said = said.recv_timeout(DEADLINE);
            if said.is_err() {
                child.kill().expect("its end");
            }
            let passed = child.wait().expect("its end").success();
            let said = said.expect("an end before the deadline").expect("its output");
            assert!(passed && said.contains("kernels::"), "with {other}:\n{said}");
        }
    }
}

//! Time that the threads of this process were on a core.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::plan::middle;

/// So far: of all threads together, and of those of the wire; none if the system does not tell.
fn core_s() -> Option<(f64, f64)> {
    // Of a thread that runs the system tells what it knew at the last tick; one that steps aside is brought up to date.
    thread::yield_now();
    let (mut all, mut wire) = (0, 0);
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let folder = thread.ok()?.path();
        let text = fs::read_to_string(folder.join("schedstat")).ok()?;
        let nanoseconds = text.split_whitespace().next()?.parse::<u64>().ok()?;
        all += nanoseconds;
        let is_wire = fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.starts_with("wire"));
        wire += if is_wire { nanoseconds } else { 0 };
    }
    Some((all as f64 / 1e9, wire as f64 / 1e9))
}

/// Measures wall and core time from some moment on.
#[derive(Debug)]
pub(crate) struct Watch {
    started: Instant,
    before: Option<(f64, f64)>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), before: core_s() }
    }

    pub(crate) fn wall_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Where the system does not tell, as if one core had been at work all the time.
    pub(crate) fn core_s(&self) -> f64 {
        let now = core_s();
        self.before.zip(now).map_or_else(|| self.wall_s(), |(before, now)| (now.0 - before.0).max(1e-9))
    }

    /// What the wire's threads had of it; nothing where the system does not tell.
    pub(crate) fn wire_s(&self) -> f64 {
        self.before.zip(core_s()).map_or(0.0, |(before, now)| (now.1 - before.1).max(0.0))
    }
}

const SPIN: Duration = Duration::from_millis(60);
const SPINS: usize = 5;

/// How long this thread was on a core, and how long it waited for one that others had.
fn own_times() -> Option<(f64, f64)> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut words = text.split_whitespace().map(|word| word.parse::<u64>().map(|ns| ns as f64 / 1e9));
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// So long a thread that never rests is off its core only if it is held.
const HOLD: Duration = Duration::from_millis(1);

/// Which part of one core's time a thread gets that never rests: 1 where nobody holds it back. Others who are at work
/// at the same time do not count: they may be gone when a run is there. And for how long it is held at a time.
pub(crate) fn share_of_a_core() -> (f64, f64) {
    let mut holds = Vec::new();
    let mut spin = || {
        let (started, before) = (Instant::now(), own_times());
        let (mut number, mut last) = (1_u64, started);
        while last - started < SPIN {
            for _ in 0..1000 {
                number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005) + 1);
            }
            let off = last.elapsed();
            holds.extend((off > HOLD).then_some(off.as_secs_f64()));
            last += off;
        }
        let wall_s = started.elapsed().as_secs_f64();
        let Some(((on, waited), (on_before, waited_before))) = own_times().zip(before) else { return 1.0 };
        (on - on_before) / (wall_s - (waited - waited_before)).max(1e-9)
    };
    // What is in the middle: a process that is new may not be held back yet, and pays for that later.
    let shares = (0..SPINS).map(|_| spin()).collect();
    (middle(shares).min(1.0), middle(holds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_never_rests_is_on_a_core() {
        let (before, _) = core_s().expect("the system tells");
        let (share, hold_s) = share_of_a_core();
        assert!(share > 0.0 && share <= 1.0 && hold_s >= 0.0, "{share} {hold_s}");
        assert!(core_s().expect("the system tells").0 > before);
    }
}

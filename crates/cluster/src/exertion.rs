//! How long a node is at work in a round. While it waits for others its links still take its processor: what comes is
//! decrypted, counted and handed over, and on a slow machine that is no small part of a round.

use std::time::{Duration, Instant};

/// How fast the processor is there for this process, by what computing took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exertion {
    /// Of the last rounds of computing, the newer the more: processor time, and time.
    worked_s: f64,
    passed_s: f64,
    /// When the last stretch of work ended, and what the process had used by then.
    end: Option<(Instant, Duration)>,
}

/// What an earlier round counts beside the one after it.
const FADES: f64 = 0.8;

impl Exertion {
    /// Computing took so much of the processor in so long a time.
    pub(crate) fn computed(&mut self, worked: Duration, passed: Duration) {
        self.worked_s = FADES * self.worked_s + worked.as_secs_f64();
        self.passed_s = FADES * self.passed_s + passed.as_secs_f64();
    }

    /// For how much of some time, of which the node has waited a part, the process was at work, given what it used of
    /// the processor: as long as that would take at the rate of computing.
    pub(crate) fn busy_s(&self, passed: Duration, waited: Duration, worked: Option<Duration>) -> f64 {
        let (passed, without) = (passed.as_secs_f64(), passed.saturating_sub(waited).as_secs_f64());
        match worked {
            Some(worked) if self.worked_s > 0.0 => {
                (worked.as_secs_f64() * self.passed_s / self.worked_s).clamp(without, passed)
            }
            _ => without,
        }
    }

    /// The same for a stretch of work from one time to another, together with the wait before it.
    pub(crate) fn stretch_s(&mut self, begun: Instant, ended: Instant, used: Option<Duration>) -> f64 {
        let Some(used) = used else { return (ended - begun).as_secs_f64() };
        match self.end.replace((ended, used)) {
            Some((before, used_before)) if before <= begun => {
                self.busy_s(ended - before, begun - before, Some(used.saturating_sub(used_before)))
            }
            _ => (ended - begun).as_secs_f64(),
        }
    }
}

/// What this process has used of the processor so far, all its threads together.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// A tenth of a core.
    fn slow() -> Exertion {
        let mut exertion = Exertion::default();
        (0..20).for_each(|_| exertion.computed(MS(10), MS(100)));
        exertion
    }

    #[test]
    fn what_links_take_is_no_waiting() {
        let check = |exertion: &Exertion, waited, worked: Option<u64>, expect: f64| {
            let found = exertion.busy_s(MS(200), MS(waited), worked.map(MS));
            assert!((found - expect).abs() < 1e-9, "{waited} {worked:?}: {found} instead of {expect}");
        };
        check(&slow(), 80, Some(12), 0.12);
        check(&slow(), 80, Some(17), 0.17);
        check(&slow(), 80, Some(30), 0.2);
        check(&slow(), 80, Some(3), 0.12);
        check(&slow(), 80, None, 0.12);
        check(&Exertion::default(), 80, Some(17), 0.12);
    }

    #[test]
    fn a_stretch_has_the_wait_before_it() {
        let (mut exertion, start) = (slow(), Instant::now());
        assert_eq!(exertion.stretch_s(start, start + MS(100), Some(MS(10))), 0.1, "the first");
        let found = exertion.stretch_s(start + MS(200), start + MS(300), Some(MS(25)));
        assert!((found - 0.15).abs() < 1e-9, "{found}");
        assert_eq!(exertion.stretch_s(start + MS(300), start + MS(310), None), 0.01);
    }

    #[test]
    fn the_processor_is_counted() {
        let before = processor_time();
        let mut sum = 0u64;
        while processor_time() < before + MS(2) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }
}

#![allow(clippy::print_stderr, reason = "a test tells its counts, and the seed of what failed")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Chance, Counting};

/// Many cases of one reader.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Seeds of one name are other cases than those of another.
    pub name: &'static str,
    /// How many, unless `CASES` says otherwise.
    pub cases: u64,
}

/// What a reader did with a case.
struct Case {
    is_read: bool,
    peak: usize,
    most: usize,
    took: Duration,
}

/// No case takes so long, also on a machine that is busy with something else.
const LONG: Duration = Duration::from_secs(5);

/// What does not end in this time never does.
const FOR_EVER: Duration = Duration::from_secs(60);

impl Trial {
    /// Has many inputs read. `make` gives an input and how many bytes reading it may take; `read` says whether it was
    /// read or refused. Of many cases there must be some of either kind, otherwise they are all alike and test little.
    pub fn run<I>(&self, make: impl Fn(&mut Chance) -> (I, usize), mut read: impl FnMut(I) -> bool) {
        let asked = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let replayed = asked("CASE");
        let seeds = match replayed {
            Some(seed) => seed..seed + 1,
            None => 0..asked("CASES").unwrap_or(self.cases),
        };
        let (count, mut was_read, mut peak, begun) = (seeds.end - seeds.start, 0, 0, Instant::now());
        let at = AtomicU64::new(seeds.start);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let watch = scope.spawn(|| self.watch(&at, &is_over));
            let cases = catch_unwind(AssertUnwindSafe(|| {
                for seed in seeds {
                    at.store(seed, Ordering::Relaxed);
                    let case = self.case(seed, &make, &mut read);
                    was_read += u64::from(case.is_read);
                    peak = peak.max(case.peak);
                }
            }));
            is_over.store(true, Ordering::Relaxed);
            watch.thread().unpark();
            if let Err(panic) = cases {
                let seed = at.load(Ordering::Relaxed);
                eprintln!("{}: case {seed} failed; replay it with CASE={seed}", self.name);
                std::panic::resume_unwind(panic);
            }
        });
        let seconds = begun.elapsed().as_secs_f64();
        let refused = count - was_read;
        eprintln!(
            "{}: {count} cases, {was_read} read, {refused} refused, at most {peak} bytes, {seconds:.1} s",
            self.name
        );
        if replayed.is_none() && count >= 1000 {
            assert!(was_read > 0 && refused > 0, "{}: {was_read} were read, {refused} refused", self.name);
        }
    }

    fn case<I>(
        &self,
        seed: u64,
        make: impl Fn(&mut Chance) -> (I, usize),
        read: &mut impl FnMut(I) -> bool,
    ) -> Case {
        let (input, most) = make(&mut Chance::new(self.name, seed));
        let begun = Instant::now();
        let (is_read, peak) = Counting::peak(|| read(input));
        let case = Case { is_read, peak, most, took: begun.elapsed() };
        assert!(case.peak <= case.most, "it took {} bytes where at most {} may be", case.peak, case.most);
        assert!(case.took < LONG, "it took {:?}", case.took);
        case
    }

    /// Ends the program when a case does not end: a test that hangs says nothing.
    fn watch(&self, at: &AtomicU64, is_over: &AtomicBool) {
        let (mut last, mut since) = (u64::MAX, Instant::now());
        while !is_over.load(Ordering::Relaxed) {
            let seed = at.load(Ordering::Relaxed);
            if seed != last {
                (last, since) = (seed, Instant::now());
            }
            if since.elapsed() > FOR_EVER {
                eprintln!("{}: case {seed} does not end; replay it with CASE={seed}", self.name);
                std::process::abort();
            }
            thread::park_timeout(Duration::from_secs(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: Trial = Trial { name: "a trial", cases: 2000 };

    #[test]
    fn a_good_reader_passes() {
        TRIAL.run(|chance| (chance.bytes(20), 0), |bytes| bytes[0] < 100);
    }

    #[test]
    #[should_panic(expected = "where at most 100 may be")]
    fn one_that_takes_too_much_memory_fails() {
        TRIAL
            .run(|chance| (chance.below(200), 100), |claim| std::hint::black_box(vec![0u8; claim]).len() > 3);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn one_that_panics_fails() {
        TRIAL.run(|chance| (chance.below(200), 100), |place| [1; 50][place..].len() > 3);
    }

    #[test]
    #[should_panic(expected = "2000 were read, 0 refused")]
    fn cases_that_are_all_alike_fail() {
        TRIAL.run(|chance| (chance.bits(), 0), |_| true);
    }
}

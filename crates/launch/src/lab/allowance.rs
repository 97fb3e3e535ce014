//! When a host of a lab may run, so that it uses its share of the processor and no more. Pure: time is an argument.
//!
//! A host earns credit all the time and pays for the processor time that its processes used. It is held when it has
//! none left and released when it has enough for the next stretch, so that the long run is exact whenever it is looked
//! at. The kernel counts the time of a process that goes on running at its ticks only, so what was used since is
//! guessed; a host that is held has been counted to the end.

use std::time::Duration;

/// How long a busy host runs and is held, taken together.
const PERIOD_S: f64 = 0.010;
/// How often kernels count the time of a process that goes on running.
const TICK_S: f64 = 0.004;
/// How long a busy host is watched before it is judged how busy it is.
const WINDOW_S: f64 = 0.020;
/// What was used before anybody looked is paid for by at most so long a hold.
const LONGEST_HOLD_S: f64 = 1.0;
const SOONEST: Duration = Duration::from_micros(150);
const LATEST: Duration = Duration::from_millis(2);
const LATEST_HELD: Duration = Duration::from_millis(10);

/// What is to be done with the processes of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Hold,
    Release,
}

/// What a host may use.
#[derive(Clone, Debug)]
pub(super) struct Allowance {
    /// Cores.
    share: f64,
    /// Seconds of a core that it may use now. Below zero it has used too much.
    credit_s: f64,
    looked: Duration,
    is_held: bool,
    /// How many cores it keeps busy when it is not held.
    load: f64,
    /// How long it has run, and what it used, since that was last judged.
    ran_s: f64,
    used_s: f64,
    /// How long it has run since the kernel last counted something.
    uncounted_s: f64,
}

impl Allowance {
    pub(super) fn new(share: f64, now: Duration) -> Self {
        let (ran_s, used_s, uncounted_s) = (0.0, 0.0, 0.0);
        let mut new =
            Self { share, credit_s: 0.0, looked: now, is_held: false, load: 0.0, ran_s, used_s, uncounted_s };
        new.credit_s = new.enough();
        new
    }

    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// From now on another share.
    pub(super) fn set_share(&mut self, share: f64) {
        self.share = share;
    }

    /// Takes in what was used since the last look.
    pub(super) fn look(&mut self, now: Duration, used: Duration) -> Option<Order> {
        let passed_s = now.saturating_sub(self.looked).as_secs_f64();
        let used_s = used.as_secs_f64();
        self.looked = now;
        if !self.is_held {
            self.ran_s += passed_s;
            self.uncounted_s += passed_s;
        }
        self.used_s += used_s;
        if used_s > 0.0 {
            self.uncounted_s = 0.0;
        }
        if self.ran_s > WINDOW_S {
            self.judge();
        }
        let most = self.enough() + TICK_S * self.share;
        let credit_s = self.credit_s + self.share * passed_s - used_s;
        self.credit_s = credit_s.clamp(-LONGEST_HOLD_S * self.share, most);
        if !self.is_held && self.left() <= 0.0 {
            self.is_held = true;
            return Some(Order::Hold);
        }
        if self.is_held && self.credit_s >= self.enough() {
            self.judge();
            self.is_held = false;
            self.uncounted_s = 0.0;
            return Some(Order::Release);
        }
        None
    }

    /// When to look again.
    pub(super) fn wait(&self) -> Duration {
        let (s, latest) = if self.is_held {
            ((self.enough() - self.credit_s) / self.share, LATEST_HELD)
        } else if self.load > self.share {
            (self.left() / (self.load - self.share), LATEST)
        } else {
            return LATEST;
        };
        Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(latest).clamp(SOONEST, latest)
    }

    /// The credit without what was probably used and is not counted yet. One that was not counted for longer than a
    /// tick does not run at all.
    fn left(&self) -> f64 {
        let is_idle = self.uncounted_s > 1.25 * TICK_S;
        self.credit_s - if is_idle { 0.0 } else { self.load * self.uncounted_s }
    }

    /// With so much credit a busy host runs and is held once in a period.
    fn enough(&self) -> f64 {
        let busy = self.load.max(1.0);
        PERIOD_S * self.share * (1.0 - self.share / busy).max(0.05)
    }

    fn judge(&mut self) {
        if self.ran_s > 0.0 {
            self.load = (self.load + self.used_s / self.ran_s) / 2.0;
        }
        (self.ran_s, self.used_s) = (0.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes that keep so many cores busy, on a kernel that counts at its ticks and when they are held.
    struct BusyHost {
        cores: f64,
        now_s: f64,
        is_held: bool,
        used_s: f64,
        counted_s: f64,
        told_s: f64,
        longest_hold_s: f64,
        held_since_s: f64,
    }

    impl BusyHost {
        fn new(cores: f64) -> Self {
            let (now_s, used_s, counted_s, told_s) = (0.0, 0.0, 0.0, 0.0);
            let (is_held, longest_hold_s, held_since_s) = (false, 0.0, 0.0);
            Self { cores, now_s, is_held, used_s, counted_s, told_s, longest_hold_s, held_since_s }
        }

        fn pass(&mut self, time: Duration) {
            let end_s = self.now_s + time.as_secs_f64();
            if !self.is_held {
                let tick_s = (end_s / TICK_S).floor() * TICK_S;
                if tick_s > self.now_s {
                    self.counted_s = self.used_s + self.cores * (tick_s - self.now_s);
                }
                self.used_s += self.cores * (end_s - self.now_s);
            }
            self.now_s = end_s;
        }

        /// Lets the allowance look, and does as it says.
        fn obey(&mut self, allowance: &mut Allowance) {
            let used = Duration::from_secs_f64((self.counted_s - self.told_s).max(0.0));
            self.told_s = self.counted_s;
            match allowance.look(Duration::from_secs_f64(self.now_s), used) {
                Some(Order::Hold) => {
                    (self.is_held, self.counted_s, self.held_since_s) = (true, self.used_s, self.now_s);
                }
                Some(Order::Release) => {
                    self.is_held = false;
                    self.longest_hold_s = self.longest_hold_s.max(self.now_s - self.held_since_s);
                }
                None => {}
            }
            assert_eq!(allowance.is_held(), self.is_held);
        }

        fn run(&mut self, allowance: &mut Allowance, seconds: f64, late: Duration) {
            let end_s = self.now_s + seconds;
            while self.now_s < end_s {
                self.pass(allowance.wait() + late);
                self.obey(allowance);
            }
        }
    }

    #[test]
    fn a_busy_host_uses_its_share() {
        for cores in [1.0, 2.0, 4.0] {
            for share in [0.01, 0.1, 0.25, 0.5, 0.9, 1.0, 1.5] {
                for late_us in [20, 300, 2000] {
                    let (mut host, mut allowance) =
                        (BusyHost::new(cores), Allowance::new(share, Duration::ZERO));
                    let late = Duration::from_micros(late_us);
                    // At first nobody knows how busy it is, and what it used too much is paid for.
                    host.run(&mut allowance, 3.0, late);
                    let (before_s, from_s) = (host.used_s, host.now_s);
                    host.longest_hold_s = 0.0;
                    host.run(&mut allowance, 5.0 + 1.0 / share, late);
                    let (used, expect) = ((host.used_s - before_s) / (host.now_s - from_s), share.min(cores));
                    let what = format!("{share} of {cores} cores, {late_us} us late");
                    assert!((used / expect - 1.0).abs() < 0.03, "{used}: {what}");
                    if share >= cores {
                        assert_eq!(host.longest_hold_s, 0.0, "{what}");
                    } else if late_us < 1000 && share >= 0.1 {
                        assert!(host.longest_hold_s < 0.030 * cores, "{} s: {what}", host.longest_hold_s);
                    }
                }
            }
        }
    }

    #[test]
    fn a_share_that_changes_holds_from_then_on() {
        let (mut host, mut allowance) = (BusyHost::new(1.0), Allowance::new(0.5, Duration::ZERO));
        host.run(&mut allowance, 1.0, Duration::ZERO);
        allowance.set_share(0.1);
        let before_s = host.used_s;
        host.run(&mut allowance, 2.0, Duration::ZERO);
        let share = (host.used_s - before_s) / 2.0;
        assert!((share - 0.1).abs() < 0.005, "{share}");
    }

    #[test]
    fn one_that_waited_has_saved_nothing_up() {
        let (mut host, mut allowance) = (BusyHost::new(0.0), Allowance::new(0.25, Duration::ZERO));
        host.run(&mut allowance, 1.0, Duration::ZERO);
        assert!(!allowance.is_held());
        host.cores = 1.0;
        let before_s = host.used_s;
        host.run(&mut allowance, 0.1, Duration::ZERO);
        let used_s = host.used_s - before_s;
        assert!(used_s < 0.25 * 0.1 + 0.010, "{used_s} s in 0.1 s");
    }

    #[test]
    fn what_was_used_unseen_is_not_paid_for_ever() {
        let mut allowance = Allowance::new(0.1, Duration::ZERO);
        let mut now = Duration::from_millis(1);
        assert_eq!(allowance.look(now, Duration::from_secs(60)), Some(Order::Hold));
        while allowance.look(now, Duration::ZERO).is_none() {
            now += allowance.wait();
        }
        assert!(now < Duration::from_millis(1100), "{now:?}");
    }
}

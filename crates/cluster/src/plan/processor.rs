//! Machines whose cores are shared by what runs on them.

/// What runs on a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    /// The thread of a process that has its role.
    Process(usize),
    /// A thread of a host's wire.
    Wire { host: usize, thread: usize },
}

/// Work on a machine that is not done yet.
#[derive(Clone, Copy, Debug)]
struct Job {
    runner: Runner,
    host: usize,
    /// On so many cores at a time.
    width: f64,
    /// Seconds of a core.
    left: f64,
    /// How many cores' time it gets now.
    rate: f64,
}

/// What holds a host back: it runs as fast as it can until it has used up its credit, and then it is held until it has
/// earned enough for the next stretch. So do the lab's governor and the kernel's quotas.
#[derive(Clone, Copy, Debug)]
struct Quota {
    host: usize,
    /// Cores, in the mean.
    share: f64,
    /// Seconds of a core: what it may use when it is released, and now.
    enough: f64,
    credit: f64,
    is_held: bool,
    /// How many cores it uses now.
    used: f64,
}

impl Quota {
    /// Seconds until it is held, or released, if all goes on as it is.
    fn next(&self) -> Option<f64> {
        let (left, speed) = match self.is_held {
            true => (self.enough - self.credit, self.share),
            false => (self.credit, self.used - self.share),
        };
        (speed > 0.0).then(|| (left / speed).max(0.0))
    }

    fn pass(&mut self, time: f64) {
        self.credit = (self.credit + (self.share - self.used) * time).min(self.enough);
    }

    fn turn(&mut self) {
        let near = NOTHING.max(self.enough * 1e-9);
        match self.is_held {
            true if self.credit >= self.enough - near => self.is_held = false,
            false if self.credit <= near && self.used > self.share => self.is_held = true,
            _ => {}
        }
    }
}

/// A machine: all that runs gets its part of the cores, as threads of equal rank do.
#[derive(Debug)]
pub(super) struct Machine {
    cores: f64,
    jobs: Vec<Job>,
    /// Of the hosts that are held back.
    quotas: Vec<Quota>,
    /// When what is left of the jobs was counted.
    since: f64,
    /// Counts how often the jobs have changed: an alarm of before is none.
    pub stamp: u64,
}

/// Less is none: what numbers cannot tell apart.
const NOTHING: f64 = 1e-12;

impl Machine {
    pub(super) fn new(cores: f64) -> Self {
        Self { cores, jobs: Vec::new(), quotas: Vec::new(), since: 0.0, stamp: 0 }
    }

    /// A host gets no more than so many cores in the mean, as it is held for so long at a time.
    pub(super) fn hold_back(&mut self, host: usize, share: f64, hold_s: f64) {
        let enough = share * hold_s.max(LEAST_HOLD_S);
        // Hosts are not held in step.
        let credit = enough * (1.0 - (host as f64 * GOLDEN).fract());
        self.quotas.push(Quota { host, share, enough, credit, is_held: false, used: 0.0 });
    }

    /// Begins some work. `allowances` are those of the hosts: how many cores each has at most at a time.
    pub(super) fn begin(
        &mut self,
        now: f64,
        (runner, host): (Runner, usize),
        (width, core_s): (f64, f64),
        allowances: &[f64],
    ) {
        self.pass(now);
        self.jobs.push(Job { runner, host, width: width.max(1e-3), left: core_s, rate: 0.0 });
        self.share_out(allowances);
    }

    /// What is done by now.
    pub(super) fn finish(&mut self, now: f64, allowances: &[f64]) -> Vec<Runner> {
        self.pass(now);
        let is_done = |job: &Job| job.left <= NOTHING.max(job.rate * 1e-9);
        let done: Vec<Runner> = self.jobs.iter().filter(|job| is_done(job)).map(|job| job.runner).collect();
        self.jobs.retain(|job| !is_done(job));
        self.quotas.iter_mut().for_each(Quota::turn);
        self.share_out(allowances);
        done
    }

    /// When the next of the jobs is done, or a host is held or released, if all goes on as it is. Never where nothing
    /// is to be done.
    pub(super) fn next(&self) -> Option<f64> {
        let works = |host: usize| self.jobs.iter().any(|job| job.host == host);
        let ends = self.jobs.iter().filter(|job| job.rate > 0.0).map(|job| (job.left / job.rate).max(0.0));
        let turns = self.quotas.iter().filter(|quota| works(quota.host)).filter_map(Quota::next);
        ends.chain(turns).min_by(f64::total_cmp).map(|seconds| self.since + seconds)
    }

    fn pass(&mut self, now: f64) {
        let time = now - self.since;
        self.jobs.iter_mut().for_each(|job| job.left -= job.rate * time);
        self.quotas.iter_mut().for_each(|quota| quota.pass(time));
        self.since = now;
    }

    fn share_out(&mut self, allowances: &[f64]) {
        self.stamp += 1;
        let mut all = 0.0;
        for place in 0..self.jobs.len() {
            let host = self.jobs[place].host;
            let wanted: f64 = self.jobs.iter().filter(|job| job.host == host).map(|job| job.width).sum();
            let is_held = self.quotas.iter().any(|quota| quota.host == host && quota.is_held);
            let most = if is_held { 0.0 } else { allowances[host].min(self.cores) };
            let job = &mut self.jobs[place];
            job.rate = job.width * (most / wanted).min(1.0);
            all += job.rate;
        }
        if all > self.cores {
            self.jobs.iter_mut().for_each(|job| job.rate *= self.cores / all);
        }
        for quota in &mut self.quotas {
            quota.used = self.jobs.iter().filter(|job| job.host == quota.host).map(|job| job.rate).sum();
        }
    }
}

/// A host is held for no less at a time.
const LEAST_HOLD_S: f64 = 1e-4;

/// The golden ratio: its multiples lie far from each other.
const GOLDEN: f64 = 0.618_034;

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of some jobs is done that begin at once: their hosts, widths and seconds of a core. Hosts may be held
    /// back to some shares, for so long at a time.
    fn ends(cores: f64, (shares, hold_s): (&[f64], f64), jobs: &[(usize, f64, f64)]) -> Vec<f64> {
        let (mut machine, allowances) = (Machine::new(cores), [cores; 4]);
        (0..).zip(shares).for_each(|(host, &share)| machine.hold_back(host, share, hold_s));
        for (process, &(host, width, core_s)) in jobs.iter().enumerate() {
            machine.begin(0.0, (Runner::Process(process), host), (width, core_s), &allowances);
        }
        let mut ends = vec![0.0; jobs.len()];
        while let Some(at) = machine.next() {
            for runner in machine.finish(at, &allowances) {
                let Runner::Process(process) = runner else { panic!("{runner:?}") };
                ends[process] = (at * 1e6).round() / 1e6;
            }
        }
        ends
    }

    #[test]
    fn cores_are_shared_by_all_that_run() {
        let ends = |cores: f64, jobs: &[(usize, f64, f64)]| ends(cores, (&[], 0.0), jobs);
        assert_eq!(ends(2.0, &[(0, 1.0, 1.0)]), [1.0]);
        assert_eq!(ends(2.0, &[(0, 2.0, 1.0)]), [0.5]);
        assert_eq!(ends(2.0, &[(0, 1.0, 1.0), (1, 1.0, 1.0)]), [1.0, 1.0]);
        assert_eq!(ends(2.0, &[(0, 1.0, 1.0), (1, 1.0, 1.0), (2, 1.0, 1.0), (3, 1.0, 1.0)]), [2.0; 4]);
        assert_eq!(ends(1.0, &[(0, 1.0, 1.0), (1, 1.0, 2.0)]), [2.0, 3.0]);
    }

    #[test]
    fn a_host_gets_no_more_than_its_share_in_the_mean() {
        let near = |found: &[f64], expect: &[f64]| {
            let is_near = found.iter().zip(expect).all(|(found, expect)| (found - expect).abs() < 0.02);
            assert!(is_near, "{found:?} instead of {expect:?}");
        };
        near(&ends(2.0, (&[0.25], 0.0075), &[(0, 1.0, 1.0), (1, 1.0, 1.0)]), &[4.0, 1.0]);
        near(&ends(2.0, (&[0.5], 0.0), &[(0, 1.0, 1.0), (0, 1.0, 1.0)]), &[4.0, 4.0]);
        // Both want the one core only for a part of the time.
        near(&ends(1.0, (&[0.2, 0.3], 0.001), &[(0, 1.0, 0.2), (1, 1.0, 0.3)]), &[1.0, 1.0]);
    }

    #[test]
    fn a_host_that_is_held_back_runs_at_full_speed_and_then_not_at_all() {
        // The first host has all that it may: 5 ms of a core, or 10 ms at full speed while it earns half of that.
        let after = |core_s: f64| ends(2.0, (&[0.5], 0.010), &[(0, 1.0, core_s)])[0];
        assert_eq!([0.004, 0.009, 0.010].map(after), [0.004, 0.009, 0.010]);
        assert_eq!([0.011, 0.019].map(after), [0.021, 0.029]);
    }
}

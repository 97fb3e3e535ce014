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

/// A machine: all that runs gets its part of the cores, as threads of equal rank do.
#[derive(Debug)]
pub(super) struct Machine {
    cores: f64,
    jobs: Vec<Job>,
    /// When what is left of the jobs was counted.
    since: f64,
    /// Counts how often the jobs have changed: an alarm of before is none.
    pub stamp: u64,
}

/// Less is none: what numbers cannot tell apart.
const NOTHING: f64 = 1e-12;

impl Machine {
    pub(super) fn new(cores: f64) -> Self {
        Self { cores, jobs: Vec::new(), since: 0.0, stamp: 0 }
    }

    /// Begins some work. `allowances` are those of the hosts.
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
        self.share_out(allowances);
        done
    }

    /// When the next of the jobs is done, if all goes on as it is.
    pub(super) fn next(&self) -> Option<f64> {
        let times = self.jobs.iter().map(|job| self.since + (job.left / job.rate).max(0.0));
        times.min_by(f64::total_cmp)
    }

    fn pass(&mut self, now: f64) {
        let time = now - self.since;
        self.jobs.iter_mut().for_each(|job| job.left -= job.rate * time);
        self.since = now;
    }

    fn share_out(&mut self, allowances: &[f64]) {
        self.stamp += 1;
        if let [job] = self.jobs.as_mut_slice() {
            job.rate = job.width.min(self.cores).min(allowances[job.host]);
            return;
        }
        let mut all = 0.0;
        for place in 0..self.jobs.len() {
            let host = self.jobs[place].host;
            let wanted: f64 = self.jobs.iter().filter(|job| job.host == host).map(|job| job.width).sum();
            let job = &mut self.jobs[place];
            job.rate = job.width * (allowances[host] / wanted).min(1.0);
            all += job.rate;
        }
        if all > self.cores {
            self.jobs.iter_mut().for_each(|job| job.rate *= self.cores / all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each of some jobs is done that begin at once: their hosts, widths and seconds of a core.
    fn ends(cores: f64, allowances: &[f64], jobs: &[(usize, f64, f64)]) -> Vec<f64> {
        let mut machine = Machine::new(cores);
        for (process, &(host, width, core_s)) in jobs.iter().enumerate() {
            machine.begin(0.0, (Runner::Process(process), host), (width, core_s), allowances);
        }
        let mut ends = vec![0.0; jobs.len()];
        while let Some(at) = machine.next() {
            for runner in machine.finish(at, allowances) {
                let Runner::Process(process) = runner else { panic!("{runner:?}") };
                ends[process] = (at * 1e6).round() / 1e6;
            }
        }
        ends
    }

    #[test]
    fn cores_are_shared_by_all_that_run() {
        let free = [9.0; 4];
        assert_eq!(ends(2.0, &free, &[(0, 1.0, 1.0)]), [1.0]);
        assert_eq!(ends(2.0, &free, &[(0, 2.0, 1.0)]), [0.5]);
        assert_eq!(ends(2.0, &free, &[(0, 1.0, 1.0), (1, 1.0, 1.0)]), [1.0, 1.0]);
        assert_eq!(ends(2.0, &free, &[(0, 1.0, 1.0), (1, 1.0, 1.0), (2, 1.0, 1.0), (3, 1.0, 1.0)]), [2.0; 4]);
        assert_eq!(ends(1.0, &free, &[(0, 1.0, 1.0), (1, 1.0, 2.0)]), [2.0, 3.0]);
    }

    #[test]
    fn a_host_gets_no_more_than_its_allowance() {
        assert_eq!(ends(2.0, &[0.25, 1.0], &[(0, 1.0, 1.0), (1, 1.0, 1.0)]), [4.0, 1.0]);
        assert_eq!(ends(2.0, &[0.5], &[(0, 1.0, 1.0), (0, 1.0, 1.0)]), [4.0, 4.0]);
    }
}

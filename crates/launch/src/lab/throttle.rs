//! Keeps the hosts of a lab to their shares of the processor, by stopping and continuing their processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::LabError;
use super::allowance::{Allowance, Order};
use super::population::{Inhabitant, Population};
use super::state::LabState;
use crate::process::{self, ProcessHandle};

/// How often new processes are looked for, and whether shares have changed.
const SCAN: Duration = Duration::from_millis(100);

/// Keeps the shares until it is over, or the lab is gone.
pub(super) fn throttle(name: &str, is_over: &dyn Fn() -> bool) -> Result<(), LabError> {
    process::go_first();
    let (started, mut scan) = (Instant::now(), Duration::ZERO);
    let mut throttle = Throttle::default();
    while !is_over() {
        let now = started.elapsed();
        if now >= scan {
            if !throttle.follow_state(name, now)? {
                break;
            }
            throttle.take_in();
            scan = started.elapsed() + SCAN;
        }
        let wait = throttle.look(started.elapsed());
        thread::sleep(wait.min(scan.saturating_sub(started.elapsed())));
    }
    Ok(())
}

/// Continues all processes of a lab that may have been left stopped.
pub(super) fn release(state: &LabState) {
    let found = Population::of(state, 1..=state.hosts).scan();
    for inhabitant in found.into_iter().filter(|inhabitant| !inhabitant.is_sshd) {
        if let Some(process) = ProcessHandle::open(inhabitant.pid) {
            process.release();
        }
    }
}

#[derive(Debug, Default)]
struct Throttle {
    hosts: BTreeMap<usize, ThrottledHost>,
    population: Population,
    /// Which version of the lab's state this is.
    version: Option<(u64, SystemTime)>,
}

#[derive(Debug)]
struct ThrottledHost {
    allowance: Allowance,
    /// By their numbers.
    processes: BTreeMap<u32, Metered>,
    /// What ran before it was looked at for the first time is not charged.
    is_new: bool,
}

/// A process, and what it had used when it was last looked at.
#[derive(Debug)]
struct Metered {
    process: ProcessHandle,
    used: Duration,
    /// The others pay for it.
    is_sshd: bool,
}

impl Throttle {
    /// Takes over shares that have changed. False if the lab is gone.
    fn follow_state(&mut self, name: &str, now: Duration) -> Result<bool, LabError> {
        let Ok(file) = fs::metadata(LabState::path(name)) else { return Ok(false) };
        let version = file.modified().ok().map(|time| (file.ino(), time));
        if version.is_some() && version == self.version {
            return Ok(true);
        }
        let Some(state) = LabState::find(name)? else { return Ok(false) };
        self.version = version;
        for number in 1..=state.hosts {
            let Some(share) = state.shape(number).cpu else { continue };
            let new = || ThrottledHost {
                allowance: Allowance::new(share.cores(), now),
                processes: BTreeMap::new(),
                is_new: true,
            };
            self.hosts.entry(number).or_insert_with(new).allowance.set_share(share.cores());
        }
        self.population = Population::of(&state, self.hosts.keys().copied());
        Ok(true)
    }

    /// Looks for processes that are new.
    fn take_in(&mut self) {
        for inhabitant in self.population.scan() {
            if let Some(host) = self.hosts.get_mut(&inhabitant.host) {
                host.take_in(inhabitant);
            }
        }
        for host in self.hosts.values_mut() {
            host.is_new = false;
        }
    }

    /// Looks at all hosts. How long until the next look.
    fn look(&mut self, now: Duration) -> Duration {
        let busy = self.hosts.values_mut().filter(|host| !host.processes.is_empty());
        busy.map(|host| host.look(now)).min().unwrap_or(SCAN)
    }
}

impl Drop for Throttle {
    /// However it ends, nobody stays stopped.
    fn drop(&mut self) {
        for host in self.hosts.values_mut() {
            host.obey(Order::Release);
        }
    }
}

impl ThrottledHost {
    fn take_in(&mut self, Inhabitant { pid, is_sshd, .. }: Inhabitant) {
        if let Some(metered) = self.processes.get_mut(&pid) {
            if std::mem::replace(&mut metered.is_sshd, is_sshd) && !is_sshd && self.allowance.is_held() {
                metered.process.hold();
            }
            return;
        }
        let Some(process) = ProcessHandle::open(pid) else { return };
        let Some(used) = process.processor_time() else { return };
        if self.allowance.is_held() && !is_sshd {
            process.hold();
        }
        // What is new here has not been charged for anything yet.
        let used = if self.is_new { used } else { Duration::ZERO };
        self.processes.insert(pid, Metered { process, used, is_sshd });
    }

    fn look(&mut self, now: Duration) -> Duration {
        let mut used = Duration::ZERO;
        self.processes.retain(|_, metered| match metered.process.processor_time() {
            Some(time) => {
                used += time.saturating_sub(metered.used);
                metered.used = time;
                true
            }
            None => false,
        });
        if let Some(order) = self.allowance.look(now, used) {
            self.obey(order);
        }
        self.allowance.wait()
    }

    /// A shell with job control takes what is held for stopped by hand, whichever of the two is held first.
    fn obey(&mut self, order: Order) {
        match order {
            Order::Hold => self.processes.retain(|_, metered| metered.is_sshd || metered.process.hold()),
            Order::Release => {
                for metered in self.processes.values().filter(|metered| !metered.is_sshd) {
                    metered.process.release();
                }
            }
        }
    }
}

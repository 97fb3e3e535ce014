//! What can happen to machines and links, drawn from a seed.

use std::time::Duration;

use bonfire_learn::random::Random;

use super::link::SILENCE;
use super::world::{Entry, State};

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// A process dies. Silently, when its machine goes with it: then nobody hears that the connection closed.
    Crash { machine: usize, silent: bool, back: Option<Duration> },
    /// A process stands still for a time.
    Freeze { machine: usize, time: Duration },
    /// A connection is lost, of those that stand.
    Cut { which: u64 },
    /// A machine loses all its connections, and the others hear nothing of that: they have to notice its silence.
    HalfOpen { machine: usize },
    /// Some machines, as bits, do not hear the others for a time.
    Part { machines: u64, time: Duration },
    /// Two machines do not hear each other for a time.
    Firewall { between: [usize; 2], time: Duration },
    /// What a machine sends takes longer for a time.
    Lag { machine: usize, time: Duration, lag: Duration },
}

/// What a plan may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hazards {
    pub machines: usize,
    /// Machines from this number on may be gone for good.
    pub spares_from: usize,
    /// Over how long they are spread.
    pub within: Duration,
    pub most: usize,
}

impl Hazards {
    /// Faults and when they happen.
    pub(crate) fn draw(&self, random: &mut Random) -> Vec<(Duration, Fault)> {
        let count = random.below(self.most + 1);
        (0..count).map(|_| (some(random, self.within), self.draw_one(random))).collect()
    }

    fn draw_one(&self, random: &mut Random) -> Fault {
        let machine = random.below(self.machines);
        match random.below(10) {
            0..=3 => {
                let for_good = machine >= self.spares_from && random.chance(0.4);
                let back = (!for_good).then(|| some(random, Duration::from_secs(8)));
                Fault::Crash { machine, silent: random.chance(0.4), back }
            }
            4 | 5 => Fault::Freeze { machine, time: some(random, Duration::from_secs(15)) },
            6 => Fault::Cut { which: random.bits() },
            7 => Fault::HalfOpen { machine },
            8 => Fault::Part { machines: random.bits(), time: some(random, Duration::from_secs(12)) },
            _ => Fault::Lag {
                machine,
                time: some(random, Duration::from_secs(10)),
                lag: some(random, Duration::from_secs(4)),
            },
        }
    }
}

/// Some time below a bound.
fn some(random: &mut Random, below: Duration) -> Duration {
    Duration::from_micros(random.below(below.as_micros() as usize) as u64 + 1)
}

impl State {
    /// Lets a fault happen now.
    pub(crate) fn suffer(&mut self, fault: Fault) {
        self.tell(format!("{fault:?}"));
        let now = self.now;
        match fault {
            Fault::Crash { machine, silent, back } => self.crash(machine, silent, back),
            Fault::Freeze { machine, time } => {
                let it = &mut self.machines[machine];
                it.frozen_until = it.frozen_until.max(now + time);
                self.plan(now + SILENCE, Entry::Silence { machine, since: now });
            }
            Fault::Cut { which } => {
                let open: Vec<usize> =
                    (0..self.links.len()).filter(|&link| self.links[link].is_open()).collect();
                if !open.is_empty() {
                    let link = open[(which % open.len() as u64) as usize];
                    let soon = Duration::from_millis(which % 50);
                    self.cut(link, [now + soon, now], "the connection broke");
                }
            }
            Fault::HalfOpen { machine } => self.cut_off(machine, now + SILENCE, now, "silent for 5.0 s"),
            Fault::Part { machines, time } => self.part(machines, now + time),
            Fault::Firewall { between: [a, b], time } => self.block(a, b, now + time),
            Fault::Lag { machine, time, lag } => self.machines[machine].lag = (lag, now + time),
        }
    }

    fn crash(&mut self, machine: usize, silent: bool, back: Option<Duration>) {
        if self.machines[machine].is_down {
            return;
        }
        let now = self.now;
        self.doom(machine, back);
        self.machines[machine].frozen_until = Duration::ZERO;
        if silent {
            // Also after it is back: the old connections know nothing of the new process.
            self.cut_off(machine, now + SILENCE, now, "silent for 5.0 s");
        } else {
            self.cut_off(machine, now + Duration::from_millis(1), now, "the connection closed");
        }
    }

    fn part(&mut self, machines: u64, until: Duration) {
        let is_there = |machine: usize| machines >> (machine % 64) & 1 == 1;
        for a in 0..self.machines.len() {
            for b in 0..a {
                if is_there(a) != is_there(b) {
                    self.block(a, b, until);
                }
            }
        }
    }
}

//! A world in which computing, coding and sending take the time that was measured, and nothing is computed or sent.
//!
//! Every host has a processor, which it may share with others of its machine, threads that move frames, and one link to
//! all others, which carries both directions at a time. Frames to different hosts take turns on the way out; on the way
//! in they are taken as they come. A link that has rested takes a burst at once.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use bonfire_run::run_file::Compression;

use super::figures::{Beside, HostFigures, LinkFigures};
use super::processor::{Machine, Runner};

/// Something that is said, without what it says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    /// Processes.
    pub from: usize,
    pub to: usize,
    pub word: Word,
    /// Which exchange it belongs to; they are counted over the whole run.
    pub exchange: u32,
    pub chunk: u32,
    /// With what is around it.
    pub bytes: f64,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A chunk on its way to who sums it.
    There,
    /// The sum of a chunk.
    Back,
    /// A worker has pushed all chunks.
    Pushed,
    /// A worker may go on.
    Go,
}

/// What an empty frame has: its message, and the heads of HTTP/2, TLS and gRPC.
pub(super) const FRAME_BYTES: f64 = 100.0;

/// Which part of the bytes of a payload comes on top of it: heads of TLS records and of HTTP/2's frames.
pub(super) const ON_TOP: f64 = 1.0 + (22.0 + 9.0) / 16_384.0;

#[derive(Debug)]
pub(super) struct World {
    pub now: f64,
    planned: u64,
    agenda: BinaryHeap<Planned>,
    machines: Vec<Machine>,
    hosts: Vec<SimulatedHost>,
    allowances: Vec<f64>,
    processes: Vec<Process>,
    /// Processes that have something to do.
    awake: VecDeque<usize>,
    /// Bytes that have gone over links so far, and frames.
    pub carried: f64,
    pub frames: f64,
}

#[derive(Debug)]
struct SimulatedHost {
    machine: usize,
    link: LinkFigures,
    hop_s: f64,
    /// What its wire's threads are to do, and what each does.
    errands: VecDeque<Errand>,
    wire: Vec<Option<Errand>>,
    /// What waits to leave, by the host that it is for.
    outgoing: VecDeque<(usize, VecDeque<Frame>)>,
    /// Whose turn it was last.
    served: Option<usize>,
    is_sending: bool,
    up: Lane,
    down: Lane,
    /// Seconds of a core that were used here, and by others than its wire.
    used: f64,
    worked: f64,
}

/// One direction of a link: when all that was put onto it would be through without a burst.
#[derive(Clone, Copy, Debug)]
struct Lane {
    rate: f64,
    burst: f64,
    through: f64,
}

impl Lane {
    /// When so many bytes that come at a time are through.
    fn pass(&mut self, at: f64, bytes: f64) -> f64 {
        self.through = self.through.max(at - self.burst / self.rate) + bytes / self.rate;
        self.through.max(at)
    }
}

#[derive(Clone, Copy, Debug)]
enum Errand {
    Send(Frame),
    Receive(Frame),
}

#[derive(Debug)]
struct Process {
    host: usize,
    is_busy: bool,
    inbox: VecDeque<Frame>,
}

#[derive(Debug)]
struct Planned {
    at: f64,
    number: u64,
    what: Happening,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// Something on a machine may be done, unless its jobs have changed since.
    Machine {
        machine: usize,
        stamp: u64,
    },
    /// A host's way out is free.
    Free {
        host: usize,
    },
    Arrival(Frame),
    /// Something from another process of the same host is there.
    Hop(Frame),
}

impl World {
    /// With these hosts, for every process the host that it is on, and how values travel.
    pub(super) fn new(hosts: &[HostFigures], processes: &[usize], compression: Compression) -> Self {
        let mut names: Vec<&str> = hosts.iter().map(|figures| figures.machine.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let machine = |name: &&str| {
            let cores =
                hosts.iter().find(|figures| figures.machine == *name).map_or(1, |figures| figures.cores);
            Machine::new(cores as f64)
        };
        let host = |figures: &HostFigures| {
            let Beside { carries, late_s, .. } = figures.in_rounds.of(compression);
            let lane = |rate: f64| Lane {
                rate: (rate * carries).max(1.0),
                burst: figures.link.burst,
                through: f64::MIN,
            };
            SimulatedHost {
                machine: names.binary_search(&figures.machine.as_str()).unwrap_or(0),
                link: LinkFigures { latency_s: figures.link.latency_s + late_s, ..figures.link },
                hop_s: figures.work.hop_s,
                errands: VecDeque::new(),
                // As many as a wire has threads on a machine of so many cores.
                wire: vec![None; if figures.cores > 2 { 2 } else { 1 }],
                outgoing: VecDeque::new(),
                served: None,
                is_sending: false,
                up: lane(figures.link.up),
                down: lane(figures.link.down),
                used: 0.0,
                worked: 0.0,
            }
        };
        let process = |&host: &usize| Process { host, is_busy: false, inbox: VecDeque::new() };
        let mut machines: Vec<Machine> = names.iter().map(machine).collect();
        for (host, figures) in hosts.iter().enumerate().filter(|(_, figures)| figures.hold_s > 0.0) {
            let machine = names.binary_search(&figures.machine.as_str()).unwrap_or(0);
            machines[machine].hold_back(host, figures.allowance, figures.hold_s);
        }
        Self {
            now: 0.0,
            planned: 0,
            agenda: BinaryHeap::new(),
            machines,
            hosts: hosts.iter().map(host).collect(),
            allowances: hosts.iter().map(HostFigures::at_a_time).collect(),
            processes: processes.iter().map(process).collect(),
            awake: (0..processes.len()).collect(),
            carried: 0.0,
            frames: 0.0,
        }
    }

    /// The next process that has something to do: its work is done, or something has come.
    pub(super) fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(process) = self.awake.pop_front() {
                return Some(process);
            }
            let Planned { at, what, .. } = self.agenda.pop()?;
            self.now = self.now.max(at);
            match what {
                Happening::Machine { machine, stamp } => self.finish(machine, stamp),
                Happening::Free { host } => {
                    self.hosts[host].is_sending = false;
                    self.send_next(host);
                }
                Happening::Arrival(frame) => {
                    let host = self.processes[frame.to].host;
                    self.give_errand(host, Errand::Receive(frame));
                }
                Happening::Hop(frame) => self.deliver(frame),
            }
        }
    }

    /// Lets a process work. It is awake again when that is done.
    pub(super) fn work(&mut self, process: usize, core_s: f64, width: f64) {
        self.processes[process].is_busy = true;
        let host = self.processes[process].host;
        self.hosts[host].worked += core_s;
        self.begin(host, Runner::Process(process), width, (core_s, 0.0));
    }

    pub(super) fn is_busy(&self, process: usize) -> bool {
        self.processes[process].is_busy
    }

    /// Takes what came first of what is there for a process.
    pub(super) fn take(&mut self, process: usize) -> Option<Frame> {
        self.processes[process].inbox.pop_front()
    }

    /// Sends something. Between processes of a host it is there as soon as a thread is awake.
    pub(super) fn send(&mut self, frame: Frame) {
        let (from, to) = (self.processes[frame.from].host, self.processes[frame.to].host);
        if from == to {
            let at = self.now + self.hosts[to].hop_s;
            return self.plan(at, Happening::Hop(frame));
        }
        self.carried += frame.bytes;
        self.frames += 1.0;
        self.give_errand(from, Errand::Send(frame));
    }

    /// Seconds of a core that a host has used.
    pub(super) fn used(&self, host: usize) -> f64 {
        self.hosts[host].used
    }

    /// The same without its wire.
    pub(super) fn worked(&self, host: usize) -> f64 {
        self.hosts[host].worked
    }

    fn deliver(&mut self, frame: Frame) {
        let process = &mut self.processes[frame.to];
        process.inbox.push_back(frame);
        if !process.is_busy {
            self.awake.push_back(frame.to);
        }
    }

    fn plan(&mut self, at: f64, what: Happening) {
        self.planned += 1;
        self.agenda.push(Planned { at, number: self.planned, what });
    }

    /// A core is taken for some work, and while it rests around it.
    fn begin(&mut self, host: usize, runner: Runner, width: f64, (core_s, rest_s): (f64, f64)) {
        let machine = self.hosts[host].machine;
        self.hosts[host].used += core_s;
        let taken = (width, core_s + rest_s);
        self.machines[machine].begin(self.now, (runner, host), taken, &self.allowances);
        self.set_alarm(machine);
    }

    fn set_alarm(&mut self, machine: usize) {
        if let Some(at) = self.machines[machine].next() {
            let stamp = self.machines[machine].stamp;
            self.plan(at.max(self.now), Happening::Machine { machine, stamp });
        }
    }

    fn finish(&mut self, machine: usize, stamp: u64) {
        if self.machines[machine].stamp != stamp {
            return;
        }
        let done = self.machines[machine].finish(self.now, &self.allowances);
        self.set_alarm(machine);
        for runner in done {
            match runner {
                Runner::Process(process) => {
                    self.processes[process].is_busy = false;
                    self.awake.push_back(process);
                }
                Runner::Wire { host, thread } => {
                    match self.hosts[host].wire[thread].take() {
                        Some(Errand::Send(frame)) => self.put_out(host, frame),
                        Some(Errand::Receive(frame)) => self.deliver(frame),
                        None => {}
                    }
                    self.run_errands(host, 0.0);
                }
            }
        }
    }

    /// Something to do for a host's wire. A thread that has nothing else to do sleeps.
    fn give_errand(&mut self, host: usize, errand: Errand) {
        let it = &mut self.hosts[host];
        let wake_s = if it.wire.iter().all(Option::is_none) { it.link.wake_s } else { 0.0 };
        it.errands.push_back(errand);
        self.run_errands(host, wake_s);
    }

    fn run_errands(&mut self, host: usize, mut wake_s: f64) {
        while let Some(thread) = self.hosts[host].wire.iter().position(Option::is_none)
            && let Some(errand) = self.hosts[host].errands.pop_front()
        {
            let link = &self.hosts[host].link;
            let core_s = match errand {
                Errand::Send(frame) => link.send.of(frame.bytes),
                Errand::Receive(frame) => link.receive.of(frame.bytes),
            };
            let taken = (core_s + std::mem::take(&mut wake_s), link.rest_s);
            self.hosts[host].wire[thread] = Some(errand);
            self.begin(host, Runner::Wire { host, thread }, 1.0, taken);
        }
    }

    /// Puts a frame to those that are for the same host.
    fn put_out(&mut self, host: usize, frame: Frame) {
        let to = self.processes[frame.to].host;
        let outgoing = &mut self.hosts[host].outgoing;
        match outgoing.iter_mut().find(|(other, _)| *other == to) {
            Some((_, queue)) => queue.push_back(frame),
            None => outgoing.push_back((to, VecDeque::from([frame]))),
        }
        self.send_next(host);
    }

    /// Lets the next frame onto a host's link, if that is free.
    fn send_next(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        if it.is_sending {
            return;
        }
        if it.outgoing.len() > 1 && it.outgoing.front().map(|(to, _)| *to) == it.served {
            it.outgoing.rotate_left(1);
        }
        let Some((to, mut queue)) = it.outgoing.pop_front() else { return };
        it.served = Some(to);
        let Some(frame) = queue.pop_front() else { return };
        if !queue.is_empty() {
            it.outgoing.push_back((to, queue));
        }
        it.is_sending = true;
        let (now, latency) = (self.now, it.link.latency_s.max(self.hosts[to].link.latency_s));
        let gone = self.hosts[host].up.pass(now, frame.bytes);
        // What is in between lets its beginning through before it has its end.
        let through = self.hosts[to].down.pass(now + latency, frame.bytes);
        self.plan(gone, Happening::Free { host });
        self.plan(through.max(gone + latency), Happening::Arrival(frame));
    }
}

impl Ord for Planned {
    /// The next one is the greatest; things at one time happen in the order in which they were planned.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Planned {}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    /// When frames arrive that hosts send to others at once, each with 1000 bytes, over links of 1000 bytes a second.
    fn arrivals(burst: f64, frames: &[(usize, usize)]) -> Vec<f64> {
        let figures: Vec<HostFigures> = (0..3).map(|i| sample::host(&format!("pi{i}"), 1e3, burst)).collect();
        let mut world = World::new(&figures, &[0, 1, 2], Compression::None);
        while world.awake.pop_front().is_some() {}
        for (chunk, &(from, to)) in frames.iter().enumerate() {
            let chunk = chunk as u32;
            world.send(Frame { from, to, word: Word::There, exchange: 0, chunk, bytes: 1e3 });
        }
        let mut arrivals = vec![0.0; frames.len()];
        while let Some(process) = world.next() {
            while let Some(frame) = world.take(process) {
                arrivals[frame.chunk as usize] = (world.now * 1e3).round() / 1e3;
            }
        }
        arrivals
    }

    #[test]
    fn a_link_carries_one_frame_after_the_other_each_way() {
        assert_eq!(arrivals(0.0, &[(0, 1)]), [1.0]);
        assert_eq!(arrivals(0.0, &[(0, 1), (1, 0)]), [1.0, 1.0], "both ways at a time");
        assert_eq!(arrivals(0.0, &[(0, 1), (0, 1)]), [1.0, 2.0]);
        assert_eq!(arrivals(0.0, &[(0, 2), (1, 2)]), [1.0, 2.0], "two into one");
        assert_eq!(arrivals(0.0, &[(0, 1), (0, 1), (0, 2)]), [1.0, 3.0, 2.0], "in turns");
    }

    #[test]
    fn a_link_that_has_rested_takes_a_burst() {
        assert_eq!(arrivals(1e3, &[(0, 1)]), [0.0]);
        assert_eq!(arrivals(1e3, &[(0, 1), (0, 1), (0, 1)]), [0.0, 1.0, 2.0]);
    }
}

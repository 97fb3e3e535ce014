//! A world with a time of its own. Its machines are threads of which one runs at a time; while all of them wait, time
//! jumps to the next thing on the agenda. Who runs when is decided by the seed alone, so a seed replays.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bonfire_learn::random::Random;

use super::fault::Fault;
use super::link::{Delivery, Link};
use crate::mail::{Clock, Mail, Post};

/// Machines, links and what is to happen to them.
#[derive(Debug)]
pub(crate) struct World {
    pub state: Mutex<State>,
    began: Instant,
}

#[derive(Debug)]
pub(crate) struct State {
    pub now: Duration,
    /// Things at one time happen in the order in which they were planned.
    planned: u64,
    agenda: BTreeMap<(Duration, u64), Entry>,
    pub machines: Vec<Machine>,
    pub links: Vec<Link>,
    /// Pairs of machines between which nothing passes until some time.
    pub blocked: Vec<(usize, usize, Duration)>,
    pub random: Random,
    /// Who is found at an address.
    pub listeners: HashMap<String, (usize, Post)>,
    /// The first thing that must not happen.
    pub wrong: Option<String>,
    /// Whether every frame is told of.
    pub is_told: bool,
    /// What happened, to be read when a seed fails.
    pub story: Vec<String>,
}

/// One thing that is to happen.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A machine's wait is over, if it is still that wait.
    Wake {
        machine: usize,
        wait: u64,
    },
    Deliver {
        link: usize,
        to: usize,
    },
    Fault(Fault),
    /// Those who hear nothing of a machine give it up, if it is still not to be heard.
    Silence {
        machine: usize,
        since: Duration,
    },
    /// The same for a link that nothing passes.
    Blocked {
        link: usize,
        since: Duration,
    },
}

/// A machine and the process on it.
#[derive(Debug)]
pub(crate) struct Machine {
    pub name: String,
    turn: Arc<Condvar>,
    status: Status,
    /// Counts its waits, so that an old alarm does not end a new one.
    wait: u64,
    pub frozen_until: Duration,
    /// Its process ends at its next breath.
    pub is_doomed: bool,
    /// How long until its process is started again, if ever.
    pub back: Option<Duration>,
    /// No process is there.
    pub is_down: bool,
    /// What its frames take longer than others', for a time.
    pub lag: (Duration, Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Running,
    Waiting,
    Gone,
}

/// What a process ends with that is killed.
#[derive(Debug)]
pub(crate) struct Killed;

/// No run of these sizes takes longer.
const LONGEST: Duration = Duration::from_secs(3600);

impl World {
    pub(crate) fn new(seed: u64, names: Vec<String>, is_told: bool) -> Arc<Self> {
        let machines = names.into_iter().map(Machine::new).collect();
        let state = State {
            now: Duration::ZERO,
            planned: 0,
            agenda: BTreeMap::new(),
            machines,
            links: Vec::new(),
            blocked: Vec::new(),
            random: Random::new(seed),
            listeners: HashMap::new(),
            wrong: None,
            is_told,
            story: Vec::new(),
        };
        Arc::new(Self { state: Mutex::new(state), began: Instant::now() })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Instant {
        self.began + self.lock().now
    }

    /// Lets the first machine run. Every machine must have been told to [`World::begin`].
    pub(crate) fn start(&self) {
        let mut state = self.lock();
        for machine in 0..state.machines.len() {
            let (at, wait) = (Duration::from_millis(machine as u64), state.machines[machine].wait);
            state.plan(at, Entry::Wake { machine, wait });
        }
        drop(state);
        self.go_on();
    }

    /// Waits for a machine's first turn.
    pub(crate) fn begin(&self, machine: usize) {
        drop(self.await_turn(machine));
    }

    /// Takes a machine out for good.
    pub(crate) fn leave(&self, machine: usize) {
        let mut state = self.lock();
        state.machines[machine].status = Status::Gone;
        state.listeners.retain(|_, (at, _)| *at != machine);
        drop(state);
        self.go_on();
    }

    /// Says what must not happen, and ends everything.
    pub(crate) fn blame(&self, wrong: String) {
        self.lock().blame(wrong);
    }

    pub(crate) fn sleep(&self, machine: usize, time: Duration) {
        let until = self.lock().now + time;
        loop {
            self.pause(machine, until);
            if self.lock().now >= until {
                return;
            }
        }
    }

    /// Waits until something comes for the machine, or until a time. Does not come back if its process is killed.
    fn pause(&self, machine: usize, until: Duration) {
        let mut state = self.lock();
        state.machines[machine].wait += 1;
        let wait = state.machines[machine].wait;
        state.machines[machine].status = Status::Waiting;
        state.plan(until, Entry::Wake { machine, wait });
        drop(state);
        self.go_on();
        let mut state = self.await_turn(machine);
        if std::mem::take(&mut state.machines[machine].is_doomed) {
            drop(state);
            resume_unwind(Box::new(Killed));
        }
    }

    fn await_turn(&self, machine: usize) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        let turn = Arc::clone(&state.machines[machine].turn);
        while state.machines[machine].status != Status::Running {
            state = turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Does what is next on the agenda until that lets a machine run.
    fn go_on(&self) {
        loop {
            let mut state = self.lock();
            let Some(((at, _), entry)) = state.agenda.pop_first() else { return };
            state.now = state.now.max(at);
            if state.now > LONGEST && state.wrong.is_none() {
                drop(state);
                self.blame("the run does not end".to_owned());
                continue;
            }
            let delivery = match entry {
                Entry::Wake { machine, wait } => {
                    if state.machines[machine].wait == wait && state.rouse(machine) {
                        return;
                    }
                    continue;
                }
                Entry::Deliver { link, to } => state.take_delivery(link, to),
                Entry::Fault(fault) => {
                    state.suffer(fault);
                    continue;
                }
                Entry::Silence { machine, since } => {
                    state.give_up_machine(machine, since);
                    continue;
                }
                Entry::Blocked { link, since } => {
                    state.give_up_link(link, since);
                    continue;
                }
            };
            let Some(delivery) = delivery else { continue };
            drop(state);
            if self.deliver(delivery) {
                return;
            }
        }
    }

    /// Hands a delivery over, without the lock: whoever takes it may drop a link, which comes back here. True if that
    /// lets its machine run.
    fn deliver(&self, delivery: Delivery) -> bool {
        let Delivery { link, to, mut sink, incoming, is_last } = delivery;
        sink.take(incoming);
        let mut state = self.lock();
        if !is_last {
            state.links[link].put_back(to, sink);
        }
        let machine = state.links[link].ends[to];
        state.rouse(machine)
    }
}

impl State {
    pub(crate) fn plan(&mut self, at: Duration, entry: Entry) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), entry);
    }

    pub(crate) fn tell(&mut self, what: String) {
        let line = format!("{:>9.3} {what}", self.now.as_secs_f64());
        self.story.push(line);
    }

    /// Says what must not happen, and ends everything.
    pub(crate) fn blame(&mut self, wrong: String) {
        self.wrong.get_or_insert(wrong);
        for machine in &mut self.machines {
            (machine.is_doomed, machine.back) = (true, None);
        }
    }

    /// Lets a machine run that waits, unless it is frozen.
    fn rouse(&mut self, machine: usize) -> bool {
        let now = self.now;
        let it = &mut self.machines[machine];
        if it.status != Status::Waiting {
            return false;
        }
        if it.frozen_until > now && !it.is_doomed {
            let (at, wait) = (it.frozen_until, it.wait);
            self.plan(at, Entry::Wake { machine, wait });
            return false;
        }
        it.status = Status::Running;
        it.turn.notify_one();
        true
    }

    /// Has a machine's process end as soon as it breathes, which is now.
    pub(crate) fn doom(&mut self, machine: usize, back: Option<Duration>) {
        let now = self.now;
        let it = &mut self.machines[machine];
        (it.is_doomed, it.back, it.is_down) = (true, back, true);
        let wait = it.wait;
        self.listeners.retain(|_, (at, _)| *at != machine);
        self.plan(now, Entry::Wake { machine, wait });
    }
}

impl Machine {
    fn new(name: String) -> Self {
        Self {
            name,
            turn: Arc::default(),
            status: Status::Waiting,
            wait: 0,
            frozen_until: Duration::ZERO,
            is_doomed: false,
            back: None,
            is_down: false,
            lag: Default::default(),
        }
    }
}

/// The time of a machine in a world.
#[derive(Debug)]
pub(crate) struct SimulatedTime {
    pub world: Arc<World>,
    pub machine: usize,
}

impl Clock for SimulatedTime {
    fn now(&self) -> Instant {
        self.world.now()
    }

    fn receive(&self, receiver: &Receiver<Mail>, timeout: Duration) -> Option<Mail> {
        let until = self.world.lock().now.saturating_add(timeout);
        loop {
            if let Ok(mail) = receiver.try_recv() {
                return Some(mail);
            }
            if self.world.lock().now >= until {
                return None;
            }
            self.world.pause(self.machine, until);
        }
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("link", &self.link).finish_non_exhaustive()
    }
}

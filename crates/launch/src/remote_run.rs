//! A run that was started on hosts, as whoever comes back to it finds it.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LaunchError;
use crate::fleet::{Fleet, FleetHost};
use crate::follower::Follower;
use crate::guard::{GRACE, SILENCE};
use crate::host_side::ProcessState;
use crate::inventory::Host;
use crate::run_list::{ProcessPlan, RunList, RunRecord};
use crate::run_process::EVENTS;
use crate::ssh::PATIENCE;
use crate::trouble::Trouble;

/// A run and its hosts.
#[derive(Debug)]
pub struct RemoteRun {
    pub record: RunRecord,
    /// Its hosts, in the order of the record.
    pub(crate) fleet: Fleet,
    pub(crate) list: RunList,
}

/// How long a head may take to write its checkpoint, and its nodes to end after it.
const ENDS_FOR: Duration = Duration::from_secs(25);

/// How long lines are waited for before anything else is looked at.
const LOOK: Duration = Duration::from_millis(100);

impl RemoteRun {
    /// The run of which the name begins so; without a name the newest, rather one that is not collected.
    pub fn find(list: RunList, run: Option<&str>) -> Result<Self, LaunchError> {
        let record = list.find(run).map_err(LaunchError::Unfit)?;
        Self::of(list, record)
    }

    /// The run of a record.
    pub fn of(list: RunList, record: RunRecord) -> Result<Self, LaunchError> {
        let hosts: Vec<Host> = record.hosts.iter().map(|host| host.host.clone()).collect();
        Ok(Self { fleet: Fleet::of(hosts, PATIENCE)?, record, list })
    }

    pub(crate) fn head(&self) -> &FleetHost {
        &self.fleet.hosts[self.record.processes[0].host]
    }

    /// The name of the head's host.
    pub fn head_name(&self) -> &str {
        &self.record.processes[0].name
    }

    /// Where the log of a process is when the run is collected.
    pub(crate) fn log_path(&self, process: &ProcessPlan) -> PathBuf {
        self.record.out.join("logs").join(format!("{}-{}.log", process.number, process.name))
    }

    fn head_is_lost(&self, trouble: Trouble) -> LaunchError {
        let name = self.head_name();
        LaunchError::Failed(format!("{name}, the head's host, is out of reach: {trouble}"))
    }

    /// What a host knows of the processes of the run.
    fn states(&self, host: &FleetHost) -> Result<Vec<ProcessState>, Trouble> {
        host.ask_json(&self.record.program, &["host", "seats", &self.record.id])
    }

    /// Logs into the head's host, and asks whether anything of the run is alive there.
    pub fn is_head_alive(&self) -> Result<bool, LaunchError> {
        let head = self.head();
        let states = head.remote.log_in().and_then(|()| self.states(head));
        let states = states.map_err(|trouble| self.head_is_lost(trouble))?;
        if states.is_empty() {
            let (head, id) = (self.head_name(), &self.record.id);
            let message =
                format!("{head} has nothing of run {id} any more; another machine may have fetched it");
            return Err(LaunchError::Failed(message));
        }
        Ok(states.iter().any(|process| process.is_alive))
    }

    /// Hands on the lines of the head's log until the head has ended. False if `stop` was set before.
    pub fn follow_head(&self, stop: &AtomicBool, line: &mut dyn FnMut(&str)) -> Result<bool, LaunchError> {
        let lost = |trouble| self.head_is_lost(trouble);
        let mut follower = Follower::start(self.head(), &self.record, 0, EVENTS, false).map_err(lost)?;
        while follower.read(LOOK, line).map_err(lost)? {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fetches what the hosts have of a run that is to be gone on with, when nothing of it is alive any more. If they
    /// have nothing that can be reached, the error says why.
    pub fn bring_home(&mut self, warn: &mut dyn FnMut(String)) -> Result<(), LaunchError> {
        let id = self.record.id.clone();
        let goes_on = |name: &str| {
            LaunchError::Unfit(format!(
                "run {id} still has processes on {name}: `bonfire attach {id}` shows it, `bonfire stop --run {id}` \
                 ends it"
            ))
        };
        if self.record.is_followed() {
            return Err(goes_on(self.head_name()));
        }
        let deadline = Instant::now() + SILENCE + GRACE + LOOK * 20;
        let lost = |error| match self.record.is_detached.then(|| self.alive_on()).flatten() {
            Some(name) => goes_on(name),
            None => error,
        };
        while self.is_head_alive().map_err(lost)? {
            if self.record.is_detached || Instant::now() > deadline {
                return Err(goes_on(self.head_name()));
            }
            thread::sleep(LOOK);
        }
        self.await_ends(warn);
        self.collect(false, warn)
    }

    /// A host that can be reached and on which something of the run is alive.
    fn alive_on(&self) -> Option<&str> {
        let alive = self.fleet.each(|_, host| {
            let states = host.remote.log_in().and_then(|()| self.states(host));
            states.is_ok_and(|states| states.iter().any(|process| process.is_alive))
        });
        let hosts = self.fleet.hosts.iter().zip(alive);
        hosts.filter(|(_, is_alive)| *is_alive).map(|(host, _)| host.name()).next()
    }

    /// Logs into all hosts, waits for the end of all processes there, and notes how they ended.
    pub fn await_ends(&mut self, warn: &mut dyn FnMut(String)) {
        let logins = self.fleet.each(|_, host| host.remote.log_in());
        for (host, login) in self.fleet.hosts.iter().zip(logins) {
            if let Err(trouble) = login {
                warn(format!("{}: {trouble}", host.name()));
            }
        }
        for state in self.settle() {
            self.record.processes[state.number].exit_code = state.code;
        }
    }

    /// Waits for the end of all processes, and ends those that do not come to one.
    fn settle(&self) -> Vec<ProcessState> {
        let started = Instant::now();
        let mut was_told = false;
        loop {
            let known = self.fleet.each(|_, host| self.states(host).unwrap_or_default());
            let known: Vec<ProcessState> = known.into_iter().flatten().collect();
            let is_late = started.elapsed() > ENDS_FOR;
            if known.iter().all(|process| !process.is_alive) || (was_told && started.elapsed() > 2 * ENDS_FOR)
            {
                return known;
            }
            if is_late && !was_told {
                was_told = true;
                self.end_all();
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends all processes at once. A host that does not hear it is noticed elsewhere.
    fn end_all(&self) {
        let end = ["host", "end", self.record.id.as_str(), "--now"];
        self.fleet.each(|_, host| host.ask(&self.record.program, &end).is_ok());
    }

    /// Stops the run: its head writes a checkpoint and ends, and its nodes with it; or all end `now`. Returns how many
    /// processes were alive.
    pub fn stop(&self, now: bool) -> Result<usize, LaunchError> {
        let known = self.fleet.each(|_, host| {
            host.remote.log_in()?;
            self.states(host)
        });
        let alive = known.iter().flatten().flatten().filter(|process| process.is_alive).count();
        if now {
            self.end_all();
        } else if alive > 0 {
            // The head tells its nodes.
            let end = ["host", "end", self.record.id.as_str(), "--seat", "0"];
            let told = self.head().ask(&self.record.program, &end);
            told.map_err(|trouble| LaunchError::Failed(trouble.to_string()))?;
        }
        self.settle();
        let lost = self.fleet.hosts.iter().zip(&known);
        let lost =
            lost.filter_map(|(host, known)| Some(format!("{}: {}", host.name(), known.as_ref().err()?)));
        let lost: Vec<String> = lost.collect();
        if lost.is_empty() {
            return Ok(alive);
        }
        let message = "some hosts are out of reach; what runs there ends by itself";
        Err(LaunchError::Failed(format!("{message}\n  {}", lost.join("\n  "))))
    }

    /// Hands on the lines of the logs of some processes: from the run folder if it is here, otherwise from the hosts,
    /// all at the same time. There they are followed until they end or `is_over`; or `once`, only what is there now.
    pub fn read_logs(
        &self,
        processes: &[&ProcessPlan],
        once: bool,
        is_over: &(dyn Fn() -> bool + Sync),
        line: &(dyn Fn(&ProcessPlan, &str) + Sync),
    ) -> Result<(), LaunchError> {
        if self.record.is_collected {
            return self.read_collected_logs(processes, line);
        }
        let takes_part = |host: &usize| processes.iter().any(|process| process.host == *host);
        let hosts: Vec<usize> = (0..self.fleet.hosts.len()).filter(takes_part).collect();
        let logins = self.fleet.each_of(&hosts, |_, host| host.remote.log_in());
        let read = thread::scope(|scope| {
            let follow = |&process| scope.spawn(move || self.follow_log(process, once, is_over, line));
            let threads: Vec<_> = processes.iter().map(follow).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(()))).collect::<Vec<_>>()
        });
        let in_words = |name: &str, trouble: &Trouble| format!("{name}: {trouble}");
        let lost = hosts.iter().zip(&logins);
        let mut troubles: Vec<String> = lost
            .filter_map(|(&host, login)| Some(in_words(self.fleet.hosts[host].name(), login.as_ref().err()?)))
            .collect();
        if troubles.is_empty() {
            let failed = processes.iter().zip(&read);
            troubles = failed.filter_map(|(p, read)| Some(in_words(&p.name, read.as_ref().err()?))).collect();
        }
        if troubles.is_empty() { Ok(()) } else { Err(LaunchError::Failed(troubles.join("\n  "))) }
    }

    fn follow_log(
        &self,
        process: &ProcessPlan,
        once: bool,
        is_over: &(dyn Fn() -> bool + Sync),
        line: &(dyn Fn(&ProcessPlan, &str) + Sync),
    ) -> Result<(), Trouble> {
        let host = &self.fleet.hosts[process.host];
        let mut follower = Follower::start(host, &self.record, process.number, "log", once)?;
        while !is_over() && follower.read(LOOK, &mut |text| line(process, text))? {}
        Ok(())
    }

    fn read_collected_logs(
        &self,
        processes: &[&ProcessPlan],
        line: &(dyn Fn(&ProcessPlan, &str) + Sync),
    ) -> Result<(), LaunchError> {
        for process in processes {
            let path = self.log_path(process);
            let text = fs::read(&path)
                .map_err(|error| LaunchError::Failed(format!("cannot read {}: {error}", path.display())))?;
            String::from_utf8_lossy(&text).lines().for_each(|text| line(process, text));
        }
        Ok(())
    }
}

//! A run from the start of its processes to their end, as the launcher that started it sees it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::backup::Backup;
use crate::collect::left_behind;
use crate::error::LaunchError;
use crate::follower::Follower;
use crate::guard::{GuardNews, GuardOrder, Report, Watch, Word};
use crate::remote_run::RemoteRun;
use crate::run_list::RunRecord;
use crate::run_process::{EVENTS, ProcessEnd};

/// How long a head may take to load its data.
const LOADS_FOR: Duration = Duration::from_secs(600);

/// How long a guard may take to start its process.
const STARTS_FOR: Duration = Duration::from_secs(60);

/// How long nodes may take to end after their head.
const ENDS_FOR: Duration = Duration::from_secs(8);

/// A run that was started, with a guard over each of its processes.
#[derive(Debug)]
pub struct LiveRun {
    pub run: RemoteRun,
    /// Where the nodes reach the head.
    pub head_address: String,
    /// By number. A process that was not started has none.
    watches: Vec<Option<Watch>>,
    fates: Vec<Option<ProcessFate>>,
    news: Receiver<(usize, GuardNews)>,
    sender: SyncSender<(usize, GuardNews)>,
    /// Of the head's log.
    follower: Option<Follower>,
    /// What a line of the head's log says to keep here, and who fetches it.
    wants: fn(&str) -> Option<Vec<String>>,
    backup: Option<Backup>,
    /// Whether a line of the head's log says that nodes have joined, and whether one has said so.
    begins: fn(&str) -> bool,
    has_begun: bool,
    /// Why the run is given up, if it is.
    given_up: Option<String>,
    /// The user did not wait for a checkpoint.
    pub was_ended_at_once: bool,
}

/// What there is to show of a run.
#[derive(Debug)]
pub enum RunNews<'a> {
    /// A line of the head's log.
    Line(&'a str),
    /// Something that this machine has noticed.
    Warning(String),
}

/// What became of a process that is no longer watched.
#[derive(Clone, Debug)]
enum ProcessFate {
    Ended(ProcessEnd),
    Lost,
}

fn failed<T>(message: String) -> Result<T, LaunchError> {
    Err(LaunchError::Failed(message))
}

impl LiveRun {
    /// Of which no process is started yet.
    pub(crate) fn new(
        run: RemoteRun,
        begins: fn(&str) -> bool,
        wants: fn(&str) -> Option<Vec<String>>,
    ) -> Self {
        let (sender, news) = sync_channel(256);
        let processes = run.record.processes.len();
        Self {
            run,
            head_address: String::new(),
            watches: (0..processes).map(|_| None).collect(),
            fates: vec![None; processes],
            news,
            sender,
            follower: None,
            wants,
            backup: None,
            begins,
            has_begun: false,
            given_up: None,
            was_ended_at_once: false,
        }
    }

    fn name(&self, number: usize) -> String {
        self.run.record.processes[number].name.clone()
    }

    /// From now on the head's log is read, from this offset on, and what it says to keep is fetched.
    pub(crate) fn read_log(&mut self, offset: u64) -> Result<(), LaunchError> {
        let follower = Follower::start_at(self.run.head(), &self.run.record, (0, EVENTS, offset), false);
        let lost = |trouble| LaunchError::Failed(format!("the head cannot be followed: {trouble}"));
        self.follower = Some(follower.map_err(lost)?);
        self.backup = Some(Backup::start(&self.run));
        Ok(())
    }

    /// Starts a process through its guard.
    pub(crate) fn start_process(&mut self, order: &GuardOrder) -> Result<(), LaunchError> {
        let record = &self.run.record;
        let host = &self.run.fleet.hosts[record.processes[order.number].host];
        let watch = Watch::start(&host.remote, &record.program, order, self.sender.clone());
        let lost = |trouble| LaunchError::Failed(format!("{} cannot be asked: {trouble}", host.name()));
        self.watches[order.number] = Some(watch.map_err(lost)?);
        Ok(())
    }

    /// Takes what a guard tells, if one tells something in time.
    fn next(&mut self, time: Duration) -> Option<(usize, GuardNews)> {
        let (number, news) = self.news.recv_timeout(time).ok()?;
        let plan = &mut self.run.record.processes[number];
        match &news {
            GuardNews::Report(Report::Started { process, command }) => {
                (plan.pid, plan.command) = (Some(process.pid), command.clone());
            }
            GuardNews::Report(Report::Ended { end }) => {
                plan.exit_code = end.code;
                self.fates[number] = Some(ProcessFate::Ended(end.clone()));
            }
            GuardNews::Report(Report::Awaited { .. }) => {}
            GuardNews::Report(Report::Failed { .. }) | GuardNews::Lost(_) => {
                self.fates[number] = Some(ProcessFate::Lost);
            }
        }
        Some((number, news))
    }

    /// The head's ticket, once it has loaded its data and listens.
    pub(crate) fn await_ticket(&mut self, interrupts: &AtomicUsize) -> Result<String, LaunchError> {
        let (host, deadline) = (self.name(0), Instant::now() + LOADS_FOR);
        while Instant::now() < deadline {
            refuse_interrupted(interrupts)?;
            match self.next(Duration::from_millis(100)) {
                Some((0, GuardNews::Report(Report::Awaited { content }))) => return Ok(content),
                Some((0, GuardNews::Report(Report::Ended { end }))) => {
                    return Err(LaunchError::HeadEnded { host, end: Box::new(end) });
                }
                Some((_, GuardNews::Report(Report::Failed { reason }))) => {
                    return failed(format!("{host}: the head cannot be started: {reason}"));
                }
                Some((_, GuardNews::Lost(trouble))) => return failed(format!("{host}: {trouble}")),
                _ => {}
            }
        }
        failed(format!("{host}: the head did not start within {} s", LOADS_FOR.as_secs()))
    }

    /// Waits until every process runs.
    pub(crate) fn await_starts(&mut self, interrupts: &AtomicUsize) -> Result<(), LaunchError> {
        let deadline = Instant::now() + STARTS_FOR;
        let is_missing = |run: &RemoteRun| run.record.processes.iter().position(|plan| plan.pid.is_none());
        while let Some(missing) = is_missing(&self.run) {
            refuse_interrupted(interrupts)?;
            match self.next(Duration::from_millis(100)) {
                Some((number, GuardNews::Report(Report::Failed { reason }))) => {
                    return failed(format!("{}: the node cannot be started: {reason}", self.name(number)));
                }
                Some((number, GuardNews::Lost(trouble))) => {
                    return failed(format!("{}: {trouble}", self.name(number)));
                }
                _ => {}
            }
            if Instant::now() > deadline {
                return failed(format!("{}: its node did not start in time", self.name(missing)));
            }
        }
        Ok(())
    }

    /// Tells of the run until its head has ended. The first interrupt is for the head, the second for all.
    pub fn follow(
        &mut self,
        tell: &mut dyn FnMut(RunNews<'_>),
        interrupts: &AtomicUsize,
    ) -> Result<ProcessEnd, LaunchError> {
        loop {
            self.read_lines(tell, Duration::from_millis(50));
            while let Some((number, news)) = self.next(Duration::ZERO) {
                self.hear(number, news, tell)?;
            }
            self.heed(interrupts);
            if let Some(ProcessFate::Ended(end)) = self.fates[0].clone() {
                // What the head said last may still be on its way.
                let until = Instant::now() + Duration::from_secs(10);
                while self.follower.is_some() && Instant::now() < until {
                    self.read_lines(tell, Duration::from_millis(100));
                }
                if let Some(reason) = self.given_up.take() {
                    self.settle(interrupts);
                    return failed(reason);
                }
                return Ok(end);
            }
        }
    }

    fn read_lines(&mut self, tell: &mut dyn FnMut(RunNews<'_>), time: Duration) {
        let Some(follower) = &mut self.follower else { return thread::sleep(time) };
        let (begins, has_begun) = (self.begins, &mut self.has_begun);
        let (wants, backup) = (self.wants, &self.backup);
        let read = follower.read(time, &mut |line| {
            *has_begun = *has_begun || begins(line);
            if let (Some(backup), Some(names)) = (backup, wants(line)) {
                backup.want(names);
            }
            tell(RunNews::Line(line));
        });
        if let Some(trouble) = backup.as_ref().and_then(Backup::trouble) {
            tell(RunNews::Warning(format!("the newest checkpoint is not kept here: {trouble}")));
        }
        if !matches!(read, Ok(true)) {
            self.follower = None;
        }
        if let Err(trouble) = read {
            // If the host is gone, its guard's silence says so too.
            tell(RunNews::Warning(format!("the progress of the head is no longer seen: {trouble}")));
        }
    }

    fn hear(
        &mut self,
        number: usize,
        news: GuardNews,
        tell: &mut dyn FnMut(RunNews<'_>),
    ) -> Result<(), LaunchError> {
        let name = self.name(number);
        match news {
            GuardNews::Lost(trouble) if number == 0 => {
                let RunRecord { id, out, .. } = &self.run.record;
                return failed(format!(
                    "{name}, the head's host, is out of reach: {trouble}; when it is back, `bonfire attach {id}` \
                     fetches the run folder; with it or without, `bonfire run --resume {} -i FILE` goes on from the \
                     newest checkpoint that can be reached",
                    out.display()
                ));
            }
            GuardNews::Lost(trouble) => {
                let message = format!("{name} is out of reach: {trouble}; the run goes on without it");
                tell(RunNews::Warning(message));
            }
            GuardNews::Report(Report::Ended { end })
                if number != 0
                    && end.code != Some(0)
                    && self.fates[0].is_none()
                    && !self.was_ended_at_once =>
            {
                let last = end.said.last().map_or("", String::as_str);
                let message = format!("the node on {name} ended before its head: {last}");
                if self.has_begun {
                    tell(RunNews::Warning(message));
                } else {
                    // The head would wait for it in vain.
                    self.say(0, Word::Stop);
                    self.given_up = Some(message);
                }
            }
            GuardNews::Report(_) => {}
        }
        Ok(())
    }

    fn say(&self, number: usize, word: Word) {
        if let Some(watch) = &self.watches[number] {
            watch.say(word);
        }
    }

    fn say_to_all(&self, word: Word) {
        (0..self.watches.len()).for_each(|number| self.say(number, word));
    }

    /// The first Ctrl-C is for the head, which tells its nodes; the second for all.
    fn heed(&mut self, interrupts: &AtomicUsize) {
        match interrupts.load(Ordering::Relaxed) {
            0 => {}
            1 => self.say(0, Word::Stop),
            _ => {
                self.was_ended_at_once = true;
                self.say_to_all(Word::Kill);
            }
        }
    }

    /// Waits until all processes have ended, as they do after their head; ends those that do not.
    pub fn settle(&mut self, interrupts: &AtomicUsize) {
        // All of the run folder comes soon.
        drop(self.backup.take());
        let deadline = Instant::now() + ENDS_FOR;
        while self.is_any_alive() && Instant::now() < deadline && interrupts.load(Ordering::Relaxed) < 2 {
            self.next(Duration::from_millis(50));
        }
        self.kill();
    }

    fn is_any_alive(&self) -> bool {
        self.watches.iter().zip(&self.fates).any(|(watch, fate)| watch.is_some() && fate.is_none())
    }

    fn kill(&mut self) {
        let deadline = Instant::now() + ENDS_FOR;
        self.say_to_all(Word::Kill);
        while self.is_any_alive() && Instant::now() < deadline {
            self.next(Duration::from_millis(50));
        }
    }

    /// Lets it go on without this launcher.
    pub fn detach(&mut self) {
        self.watches.iter_mut().for_each(|watch| drop(watch.take()));
    }

    /// Takes back a start that failed.
    pub(crate) fn abandon(&mut self, warn: &mut dyn FnMut(String)) {
        self.kill();
        let RemoteRun { record, fleet, list } = &self.run;
        let arguments = ["host", "remove", record.id.as_str()];
        let removed = fleet.each(|_, host| host.ask(&record.program, &arguments));
        for (host, removed) in fleet.hosts.iter().zip(&removed) {
            if let Err(trouble) = removed {
                warn(left_behind(host, &record.id, trouble));
            }
        }
        if removed.iter().all(Result::is_ok) {
            list.forget(&record.id);
        }
    }
}

fn refuse_interrupted(interrupts: &AtomicUsize) -> Result<(), LaunchError> {
    match interrupts.load(Ordering::Relaxed) {
        0 => Ok(()),
        _ => failed("interrupted before the run began".to_owned()),
    }
}

//! A run whose processes are on hosts, from their start to their end.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bonfire_launch::guard::{News, Order, Report, Watch, Word};
use bonfire_launch::seat::End;
use bonfire_launch::{Ledger, RunRecord, call};
use bonfire_wire::Ticket;

use super::super::fleet::Fleet;
use super::RunOnHostsArgs;
use super::plan::Plan;
use super::show::{HeadEnd, Show, Watching};
use crate::failure::Failed;
use crate::terminal::say;

/// How long a head may take to load its data.
const LOADS_FOR: Duration = Duration::from_secs(600);

/// How long a guard may take to start its process.
const STARTS_FOR: Duration = Duration::from_secs(60);

/// How long nodes may take to end after their head.
const ENDS_FOR: Duration = Duration::from_secs(8);

/// How long a host may take to do what it is asked.
const ASKS_FOR: Duration = Duration::from_secs(30);

/// A run that was started.
#[derive(Debug)]
pub struct Running<'a> {
    pub record: RunRecord,
    fleet: &'a Fleet,
    /// By seat. A process that was not started has none.
    watches: Vec<Option<Watch>>,
    ends: Vec<Option<Gone>>,
    news: Receiver<(usize, News)>,
    sender: SyncSender<(usize, News)>,
    watching: Option<Watching>,
    /// Why the run is given up, if it is.
    given_up: Option<String>,
    /// The user did not wait for a checkpoint.
    pub was_ended_at_once: bool,
}

/// A process that is no longer watched.
#[derive(Clone, Debug)]
enum Gone {
    Ended(End),
    Lost,
}

impl<'a> Running<'a> {
    /// Of which no process is started yet.
    pub fn new(record: RunRecord, fleet: &'a Fleet) -> Self {
        let (sender, news) = sync_channel(256);
        let seats = record.seats.len();
        Self {
            record,
            fleet,
            watches: (0..seats).map(|_| None).collect(),
            ends: vec![None; seats],
            news,
            sender,
            watching: None,
            given_up: None,
            was_ended_at_once: false,
        }
    }

    /// From now on the events are shown.
    pub fn follow_by(&mut self, watching: Watching) {
        self.watching = Some(watching);
    }

    pub fn head_name(&self) -> &str {
        &self.record.seats[0].name
    }

    /// Starts a process through its guard.
    pub fn seat(&mut self, seat: usize, order: &Order) -> Result<()> {
        let member = &self.fleet.members[self.record.seats[seat].host];
        let watch = Watch::start(&member.remote, &self.record.program, order, self.sender.clone());
        self.watches[seat] = Some(watch.context(Failed(format!("{} cannot be asked", member.host.name)))?);
        Ok(())
    }

    /// Takes what a guard tells, if one tells something in time.
    fn next(&mut self, time: Duration) -> Option<(usize, News)> {
        let (seat, news) = self.news.recv_timeout(time).ok()?;
        let plan = &mut self.record.seats[seat];
        match &news {
            News::Report(Report::Started { process, command }) => {
                (plan.pid, plan.command) = (Some(process.pid), command.clone());
            }
            News::Report(Report::Ended { end }) => {
                plan.exit_code = end.code;
                self.ends[seat] = Some(Gone::Ended(end.clone()));
            }
            News::Report(Report::Awaited { .. }) => {}
            News::Report(Report::Failed { .. }) | News::Lost(_) => self.ends[seat] = Some(Gone::Lost),
        }
        Some((seat, news))
    }

    /// The head's ticket, once it has loaded its data and listens.
    pub fn await_ticket(
        &mut self,
        plan: &Plan,
        args: &RunOnHostsArgs,
        interrupts: &AtomicUsize,
    ) -> Result<Ticket> {
        let deadline = Instant::now() + LOADS_FOR;
        while Instant::now() < deadline {
            refuse_interrupted(interrupts)?;
            let name = self.head_name().to_owned();
            match self.next(Duration::from_millis(100)) {
                Some((0, News::Report(Report::Awaited { content }))) => return Ok(content.parse()?),
                Some((0, News::Report(Report::Ended { end }))) => {
                    let end = HeadEnd { code: end.code, end };
                    let why = format!("{} on {name}", end.why());
                    if end.code == Some(2) {
                        bail!("{why}{}", plan.data_hint(args));
                    }
                    bail!(Failed(format!("the head did not start: {why}")));
                }
                Some((_, News::Report(Report::Failed { reason }))) => {
                    bail!(Failed(format!("{name}: the head cannot be started: {reason}")))
                }
                Some((_, News::Lost(trouble))) => bail!(Failed(format!("{name}: {trouble}"))),
                _ => {}
            }
        }
        bail!(Failed(format!(
            "{}: the head did not start within {} s",
            self.head_name(),
            LOADS_FOR.as_secs()
        )))
    }

    /// Waits until every process runs.
    pub fn await_starts(&mut self, interrupts: &AtomicUsize) -> Result<()> {
        let deadline = Instant::now() + STARTS_FOR;
        while let Some(missing) = self.record.seats.iter().position(|seat| seat.pid.is_none()) {
            refuse_interrupted(interrupts)?;
            let news = self.next(Duration::from_millis(100));
            let name = |seat: usize| self.record.seats[seat].name.clone();
            match news {
                Some((seat, News::Report(Report::Failed { reason }))) => {
                    bail!(Failed(format!("{}: the node cannot be started: {reason}", name(seat))))
                }
                Some((seat, News::Lost(trouble))) => bail!(Failed(format!("{}: {trouble}", name(seat)))),
                _ => {}
            }
            if Instant::now() > deadline {
                bail!(Failed(format!("{}: its node did not start in time", name(missing))));
            }
        }
        Ok(())
    }

    /// Shows the run until its head has ended.
    pub fn watch(&mut self, show: &mut Show, interrupts: &AtomicUsize) -> Result<HeadEnd> {
        loop {
            self.follow(show, Duration::from_millis(50));
            while let Some((seat, news)) = self.next(Duration::ZERO) {
                self.hear(seat, news, show)?;
            }
            self.heed(interrupts);
            if let Some(Gone::Ended(end)) = self.ends[0].clone() {
                // What the head said last may still be on its way.
                let until = Instant::now() + Duration::from_secs(10);
                while self.watching.is_some() && Instant::now() < until {
                    self.follow(show, Duration::from_millis(100));
                }
                if let Some(reason) = self.given_up.take() {
                    show.finish();
                    self.settle(interrupts);
                    bail!(Failed(reason));
                }
                return Ok(HeadEnd { code: end.code, end });
            }
        }
    }

    fn follow(&mut self, show: &mut Show, time: Duration) {
        let Some(watching) = &mut self.watching else { return std::thread::sleep(time) };
        match watching.show(show, time) {
            Ok(true) => {}
            Ok(false) => self.watching = None,
            Err(trouble) => {
                self.watching = None;
                // If the host is gone, its guard's silence says so too.
                show.warn(format!("the progress of the head is no longer seen: {trouble}"));
            }
        }
    }

    fn hear(&mut self, seat: usize, news: News, show: &mut Show) -> Result<()> {
        let name = self.record.seats[seat].name.clone();
        match news {
            News::Lost(trouble) if seat == 0 => {
                let id = &self.record.id;
                bail!(Failed(format!(
                    "{name}, the head's host, is out of reach: {trouble}; the head there stops with a checkpoint, and \
                     `bonfire attach {id}` fetches the run folder when the host is back"
                )))
            }
            News::Lost(trouble) => {
                show.warn(format!("{name} is out of reach: {trouble}; the run goes on without it"));
            }
            News::Report(Report::Ended { end })
                if seat != 0 && end.code != Some(0) && self.ends[0].is_none() && !self.was_ended_at_once =>
            {
                let last = end.said.last().map_or("", String::as_str);
                let message = format!("the node on {name} ended before its head: {last}");
                if show.has_begun {
                    show.warn(message);
                } else {
                    // The head would wait for it in vain.
                    self.say(0, Word::Stop);
                    self.given_up = Some(message);
                }
            }
            News::Report(_) => {}
        }
        Ok(())
    }

    fn say(&self, seat: usize, word: Word) {
        if let Some(watch) = &self.watches[seat] {
            watch.say(word);
        }
    }

    /// The first Ctrl-C is for the head, which tells its nodes; the second for all.
    fn heed(&mut self, interrupts: &AtomicUsize) {
        match interrupts.load(Ordering::Relaxed) {
            0 => {}
            1 => self.say(0, Word::Stop),
            _ => {
                self.was_ended_at_once = true;
                (0..self.watches.len()).for_each(|seat| self.say(seat, Word::Kill));
            }
        }
    }

    /// Waits until all processes have ended, as they do after their head; ends those that do not.
    pub fn settle(&mut self, interrupts: &AtomicUsize) {
        let deadline = Instant::now() + ENDS_FOR;
        while self.is_any_alive() && Instant::now() < deadline && interrupts.load(Ordering::Relaxed) < 2 {
            self.next(Duration::from_millis(50));
        }
        self.kill();
    }

    fn is_any_alive(&self) -> bool {
        self.watches.iter().zip(&self.ends).any(|(watch, end)| watch.is_some() && end.is_none())
    }

    fn kill(&mut self) {
        let deadline = Instant::now() + ENDS_FOR;
        for seat in 0..self.watches.len() {
            self.say(seat, Word::Kill);
        }
        while self.is_any_alive() && Instant::now() < deadline {
            self.next(Duration::from_millis(50));
        }
    }

    /// Lets it go on without this launcher.
    pub fn detach(&mut self) {
        self.watches.iter_mut().for_each(|watch| drop(watch.take()));
    }

    /// Takes back a start that failed.
    pub fn abandon(&mut self, ledger: &Ledger) {
        self.kill();
        let arguments = ["host", "remove", self.record.id.as_str()];
        let removed = self
            .fleet
            .each(|_, member| call(&member.remote, &self.record.program, &arguments, io::empty(), ASKS_FOR));
        for (member, removed) in self.fleet.members.iter().zip(&removed) {
            if let Err(trouble) = removed {
                let (name, id) = (&member.host.name, &self.record.id);
                say(&format!("warning: {name}: ~/.bonfire/runs/{id} may be left there: {trouble}"));
            }
        }
        if removed.iter().all(Result::is_ok) {
            ledger.forget(&self.record.id);
        }
    }
}

fn refuse_interrupted(interrupts: &AtomicUsize) -> Result<()> {
    if interrupts.load(Ordering::Relaxed) > 0 {
        bail!(Failed("interrupted before the run began".to_owned()));
    }
    Ok(())
}

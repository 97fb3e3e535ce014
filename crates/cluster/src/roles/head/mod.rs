//! The head: owns a run. Waits for nodes, gives them their roles, and leads them to the end.

pub(crate) mod balance;
mod choosing;
mod first_rounds;
mod gather;
mod group;
mod server;
mod stamps;
mod stats;
mod update_log;
mod warnings;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use bonfire_report::{Event, Exit};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, proto};

use super::claim::plain;
use super::evaluator;
use super::registry::{Node, Notice, Registry, Role};
use crate::mail::Mailbox;
use crate::remote::machine_id;
use balance::Balance;
use bonfire_run::run::{NodeTraffic, Run};
use bonfire_run::run_file::{Distribute, Topology};
use bonfire_run::schedule::Due;
pub use gather::Absent;
use stats::Stats;
pub(crate) use warnings::Warnings;

/// A head and what it has to do with.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    run: &'a mut Run,
    registry: Registry,
    mailbox: &'a Mailbox,
    stop: &'a AtomicBool,
    /// How long nodes may take to come.
    wait: Duration,
    started: Instant,
    stats: Stats,
    warnings: Warnings,
    balance: Balance,
    /// What the evaluator was asked to measure and has not answered.
    measuring: Vec<Question>,
    /// How long the evaluator took at most, from the question to the answer.
    slowest: Duration,
    /// Until when its last answers are waited for, once there is nothing else to do.
    answer_by: Option<Instant>,
    /// In which round nodes were lost, by their names.
    lost: BTreeMap<String, u64>,
    /// How the run is to end, once that is known.
    exit: Option<Exit>,
}

/// What the evaluator was asked.
#[derive(Clone, Debug)]
struct Question {
    round: u64,
    /// How far the run was.
    epochs: f64,
    asked: Instant,
    /// What is measured, if it is to be kept should it be the best.
    parameters: Option<Vec<f32>>,
}

/// How long an evaluator may take at least for its last answers, however quick it was before: its machine may be busy.
const LAST_ANSWERS: Duration = Duration::from_secs(30);

/// And how many times as long as it took before.
const LAST_ANSWERS_TIMES: u32 = 10;

/// How many names of nodes that were lost are remembered.
const REMEMBERED: usize = 1024;

/// How many parameters the evaluator is sent at a time.
const MEASURED_PART: usize = 1 << 18;

/// How often the head looks whether it is to stop.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// How long nodes may take to come back to a head that has nothing left to do.
const SEE_OFF: Duration = Duration::from_secs(3);

/// Leads a run with nodes that are about to join. Whatever happens, they are told in the end.
pub(crate) fn lead(
    run: &mut Run,
    registry: Registry,
    mailbox: &Mailbox,
    stop: &AtomicBool,
    wait: Duration,
) -> Result<Exit> {
    let started = mailbox.now();
    let balance = Balance::of(run);
    let mut head = Head {
        run,
        registry,
        mailbox,
        stop,
        wait,
        started,
        stats: Stats::new(started),
        warnings: Warnings::default(),
        balance,
        measuring: Vec::new(),
        slowest: Duration::ZERO,
        answer_by: None,
        lost: BTreeMap::new(),
        exit: None,
    };
    let led = head.lead();
    let reason = match &led {
        Ok(Exit::Done) => "all rounds are done".to_owned(),
        Ok(Exit::TargetReached) => "the target is reached".to_owned(),
        Ok(Exit::StoppedEarly) => "no evaluation was better for long enough".to_owned(),
        Ok(Exit::Interrupted) => "the user stopped the run".to_owned(),
        Ok(Exit::Failed) => "the run failed".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    head.tell_nodes();
    head.sum_up_warnings();
    let interrupted = matches!(led, Ok(Exit::Interrupted));
    let stop = proto::Stop { reason, failed: led.is_err(), interrupted };
    head.registry.dismiss(&stop, head.mailbox);
    let traffic = head.registry.traffic();
    head.run.traffic = Some(NodeTraffic {
        nodes: head.stats.nodes(),
        sent_bytes: traffic.sent_bytes,
        received_bytes: traffic.received_bytes,
        late: head.stats.late(),
        head_share: head.stats.head_share(head.mailbox.now()),
    });
    led
}

impl Head<'_> {
    fn lead(&mut self) -> Result<Exit> {
        if let Some(exit) = self.run.nothing_left() {
            self.see_off();
            return Ok(exit);
        }
        if let Some(exit) = self.gather()? {
            return Ok(exit);
        }
        self.check_names()?;
        self.started = self.mailbox.now();
        self.stats.restart(self.started);
        match self.run.job.settings.topology {
            Topology::Allreduce { .. } => group::lead(self),
            Topology::Flat { .. } | Topology::Hierarchical { .. } | Topology::Single { .. } => {
                server::lead(self)
            }
        }
    }

    /// Nodes that waited for a head that has nothing left to do are to hear that the run is over.
    fn see_off(&mut self) {
        let until = self.mailbox.now() + SEE_OFF;
        while self.mailbox.now() < until && !self.is_stopped() {
            // Whatever is wrong comes too late to matter.
            let _ = self.next(LOOK);
        }
    }

    fn now(&self) -> Duration {
        self.mailbox.now() - self.started
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What comes next and is for the kind of head that this is, if anything comes in time. What is the same for every
    /// kind is dealt with.
    fn next(&mut self, timeout: Duration) -> Result<Option<Notice>> {
        let Some(notice) = self.registry.next(self.mailbox, timeout.min(LOOK)) else { return Ok(None) };
        match notice {
            Notice::Joined => Ok(None),
            Notice::Refused(message) => {
                self.warn(message);
                Ok(None)
            }
            Notice::Frame(_, Frame { body: Body::Evaluated(found), .. }) => {
                self.measured(&found);
                Ok(None)
            }
            Notice::Frame(node, Frame { body: Body::Vitals(vitals), .. }) => {
                self.stats.felt(node, &vitals);
                Ok(None)
            }
            notice => {
                if let Notice::Frame(node, Frame { body: Body::Trouble(trouble), .. }) = &notice {
                    self.warn(format!("{}: {}", self.name(*node), plain(&trouble.reason)));
                    let is_own = self.run.job.settings.file.distribute == Distribute::Own;
                    trouble.sample.filter(|_| !is_own).map_or(Ok(()), |sample| self.run.look_at(sample))?;
                }
                Ok(Some(notice))
            }
        }
    }

    /// Gives a node that came during the run a role: the evaluator's if that is vacant and others work, otherwise
    /// `role`.
    fn employ(&mut self, node: u64, role: impl FnOnce(usize) -> Role) -> Role {
        let is_vacant =
            self.run.job.settings.file.evaluator && self.evaluator().is_none() && self.somebody_works();
        let role = if is_vacant { Role::Evaluator } else { role(self.registry.free_number()) };
        if let Some(node) = self.registry.get_mut(node) {
            node.role = Some(role);
        }
        self.appoint(node, role, None);
        self.tell_back(node);
        role
    }

    fn somebody_works(&self) -> bool {
        let works = |node: &Node| matches!(node.role, Some(Role::Worker { .. } | Role::GroupMember { .. }));
        self.registry.nodes().any(works)
    }

    /// When nobody is left who works, the evaluator does, or else one who sums.
    fn recruit(&mut self, role: Role) -> Option<u64> {
        if self.somebody_works() {
            return None;
        }
        let helps = |node: &&Node| matches!(node.role, Some(Role::Relay { .. } | Role::GroupServer { .. }));
        let node = self.evaluator().or_else(|| self.registry.nodes().find(helps))?.number;
        let former = self.registry.get_mut(node)?.role.replace(role);
        if former == Some(Role::Evaluator) {
            self.evaluator_lost();
        }
        self.appoint(node, role, None);
        Some(node)
    }

    fn name(&self, node: u64) -> String {
        self.registry.get(node).map_or_else(|| format!("node {node}"), |node| node.name.clone())
    }

    /// Says that a node is gone.
    fn tell_lost(&mut self, node: &Node, reason: &str, consequence: &str) {
        let event = Event::NodeLost {
            node: node.number,
            name: node.name.clone(),
            role: node.role(),
            round: self.run.progress.round,
            reason: reason.to_owned(),
            consequence: consequence.to_owned(),
        };
        self.run.tell(event);
        self.stats.forget(node.number);
        if self.lost.len() < REMEMBERED {
            self.lost.insert(node.name.clone(), self.run.progress.round);
        }
    }

    /// Says that a node is one that was lost before, if it is: the same name is the same machine.
    fn tell_back(&mut self, node: u64) {
        let (name, round) = (self.name(node), self.run.progress.round);
        if let Some(lost) = self.lost.remove(&name) {
            self.run.tell(Event::NodeBack { node, name, round, missed: round.saturating_sub(lost) });
        }
    }

    fn tell_late(&mut self, node: u64, reason: String) {
        let name = self.name(node);
        self.run.tell(Event::NodeLate { node, name, round: self.run.progress.round, reason });
    }

    /// Says what a user may want to know; what is the same again is counted, and summed up now and then.
    fn warn(&mut self, message: String) {
        if self.warnings.is_new(&message) {
            self.run.tell(Event::Warned { message });
        }
    }

    fn sum_up_warnings(&mut self) {
        for message in self.warnings.sum_up() {
            self.run.tell(Event::Warned { message });
        }
    }

    /// Says what every node did, now and then.
    fn tell_nodes(&mut self) {
        let round = self.run.progress.round;
        let samples = self.stats.samples(&self.registry, &machine_id());
        if !samples.is_empty() {
            self.run.sample(Instant::now(), samples);
        }
        let nodes = self.stats.lines(&self.registry, self.mailbox.now());
        if !nodes.is_empty() {
            self.run.tell(Event::Nodes { round, nodes });
        }
    }

    fn tell_nodes_if_due(&mut self) {
        if self.stats.is_due(self.mailbox.now()) {
            self.tell_nodes();
            if self.warnings.is_due(self.mailbox.now()) {
                self.sum_up_warnings();
            }
        }
    }

    fn evaluator(&self) -> Option<&Node> {
        self.registry.nodes().find(|node| node.role == Some(Role::Evaluator))
    }

    /// Has done what is due after an update: by the evaluator, if there is one.
    fn have_done(&mut self, due: Due) {
        let mut here = due;
        if let Some(evaluator) = self.evaluator().filter(|_| due.evaluation) {
            let round = self.run.progress.round;
            for (i, part) in self.run.job.replica.parameters.chunks(MEASURED_PART).enumerate() {
                let measure = proto::Measure { round, offset: (i * MEASURED_PART) as u64 };
                let payload = bonfire_exchange::floats_to_bytes([part]);
                // An evaluator that is gone is heard of in the mail.
                let _ = evaluator.outbox.send(Frame { body: Body::Measure(measure), payload });
            }
            let (epochs, asked) = (self.run.epochs(), self.mailbox.now());
            let parameters = self.run.job.held_out.is_some().then(|| self.run.job.replica.parameters.clone());
            self.measuring.push(Question { round, epochs, asked, parameters });
            here.evaluation = false;
        }
        self.exit = self.exit.or(self.run.carry_out(here));
    }

    /// Takes what the evaluator found.
    fn measured(&mut self, found: &proto::Evaluated) {
        let place = self.measuring.iter().position(|question| question.round == found.round);
        let Some(question) = place.map(|place| self.measuring.remove(place)) else { return };
        let Question { round, epochs, asked, parameters } = question;
        self.slowest = self.slowest.max(self.mailbox.now() - asked);
        let end = self.run.measured(round, epochs, evaluator::from_proto(found), parameters.as_deref());
        if end.is_some() && self.run.saves() {
            self.run.checkpoint();
        }
        self.exit = self.exit.or(end);
    }

    /// Whether nothing is left to measure after the last round. An evaluator that is there and does not answer is
    /// waited for, but not for ever.
    fn is_measured(&mut self) -> bool {
        if self.measuring.is_empty() {
            return true;
        }
        let (now, patience) = (self.mailbox.now(), LAST_ANSWERS.max(self.slowest * LAST_ANSWERS_TIMES));
        if now < *self.answer_by.get_or_insert(now + patience) {
            return false;
        }
        let name = self.evaluator().map_or_else(|| "the evaluator".to_owned(), |node| node.name.clone());
        let seconds = patience.as_secs_f64();
        let message = format!("{name} has not answered for {seconds:.0} s; the head measures instead");
        self.run.tell(Event::Warned { message });
        self.evaluator_lost();
        true
    }

    /// Without its evaluator the run goes on; what it was to measure last is measured here.
    fn evaluator_lost(&mut self) {
        if !std::mem::take(&mut self.measuring).is_empty() {
            let due = Due { evaluation: true, checkpoint: false };
            self.exit = self.exit.or(self.run.carry_out(due));
        }
    }
}

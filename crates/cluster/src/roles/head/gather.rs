//! Waiting for the nodes that a run asks for, and giving them their roles.

use std::time::Duration;

use anyhow::Result;
use bonfire_report::{Event, Exit};
use bonfire_wire::proto;
use bonfire_wire::proto::assignment;
use bonfire_wire::proto::frame::Body;

use super::super::registry::{Node, Notice, Role};
use super::Head;
use bonfire_run::run_file::cast::{Wanted, in_words, reduced, wanted, workers};
use bonfire_run::run_file::{Distribute, RelayPlan};
use bonfire_run::schedule::RunSchedule;

/// Not all nodes came in time, in words.
#[derive(Debug)]
pub struct Absent(String);

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Absent {}

impl Absent {
    /// Only so many of those that are wanted had come so far.
    pub(crate) fn new(there: usize, wanted: usize, waited: Duration, missing: &str) -> Self {
        let seconds = waited.as_secs();
        Self(format!("only {there} of {wanted} nodes were there after {seconds} s; missing: {missing}"))
    }
}

/// A run that is resumed has lost its head; others may be lost with it. Those who are not are back by then.
const BACK: Duration = Duration::from_secs(30);

/// Who is there, of those that a run asks for.
struct Attendance {
    joined: usize,
    /// Those of them that have loaded their data.
    ready: usize,
    wanted: usize,
    /// Who has not joined, in words.
    missing: String,
    /// Until the deadline.
    left: Duration,
}

impl Attendance {
    fn absent(&self, waited: Duration) -> Absent {
        let missing =
            if self.missing.is_empty() { "nodes that load their data" } else { self.missing.as_str() };
        Absent::new(self.ready, self.wanted, waited, missing)
    }
}

impl Head<'_> {
    /// Waits until all nodes are there. Some if the user stopped that.
    pub(super) fn gather(&mut self) -> Result<Option<Exit>> {
        let settings = &self.run.job.settings;
        let wanted = wanted(&settings.topology, settings.file.evaluator);
        let begun = self.mailbox.now();
        let mut told = usize::MAX;
        loop {
            let now = self.mailbox.now();
            let attendance = self.attendance(&wanted, (begun + self.wait).saturating_duration_since(now));
            if told != attendance.joined {
                told = attendance.joined;
                self.tell_waiting(&attendance);
            }
            if attendance.ready >= wanted.len() {
                self.assign(&wanted);
                return Ok(None);
            }
            let is_late = self.run.is_resumed && (attendance.left.is_zero() || now >= begun + BACK);
            if is_late && self.go_on_without(&wanted, &attendance) {
                return Ok(None);
            }
            if attendance.left.is_zero() {
                return Err(attendance.absent(self.wait).into());
            }
            if self.is_stopped() {
                return Ok(Some(Exit::Interrupted));
            }
            self.receive(attendance.left)?;
        }
    }

    fn attendance(&self, wanted: &[Wanted], left: Duration) -> Attendance {
        let joined = self.registry.nodes().count();
        let ready = self.registry.nodes().filter(|node| node.is_ready).count();
        let mut missing = in_words(&wanted[joined.min(wanted.len())..]);
        if !missing.is_empty() && self.registry.nodes().any(|node| node.is_resident) {
            missing.push_str(" beside the head");
        }
        Attendance { joined, ready, wanted: wanted.len(), missing, left }
    }

    fn tell_waiting(&mut self, attendance: &Attendance) {
        let Attendance { joined, wanted, left, .. } = *attendance;
        let missing = attendance.missing.clone();
        self.run.tell(Event::Waiting { joined, wanted, missing, deadline_s: left.as_secs_f64() });
    }

    /// Starts a resumed run with those who came back. False if they are too few.
    fn go_on_without(&mut self, wanted: &[Wanted], attendance: &Attendance) -> bool {
        let some = reduced(wanted, attendance.ready);
        if workers(&some) < self.run.job.settings.file.min_workers.max(1) {
            return false;
        }
        let message = format!("goes on without those who did not come back: {}", attendance.missing);
        self.run.tell(Event::Noted { message });
        self.assign(&some);
        true
    }

    /// Takes one piece of news, if any comes in time.
    fn receive(&mut self, time: Duration) -> Result<()> {
        match self.next(time)? {
            Some(Notice::Refused(message)) => self.warn(message),
            Some(Notice::Lost { node, reason }) => {
                self.warn(format!("{} left before the run began: {reason}", node.name));
            }
            _ => {}
        }
        Ok(())
    }

    fn assign(&mut self, wanted: &[Wanted]) {
        let ready = self.registry.queue();
        let (mut relay, mut relays, mut workers, mut servers) = (None, 0, 0, 0);
        let mut roles = Vec::new();
        for (&node, wanted) in ready.iter().zip(wanted) {
            let role = match wanted {
                Wanted::Relay(_) => {
                    relay = Some(node);
                    relays += 1;
                    Role::Relay { number: relays - 1 }
                }
                Wanted::Worker => {
                    workers += 1;
                    Role::Worker { number: workers - 1, relay }
                }
                Wanted::GroupMember => {
                    workers += 1;
                    Role::GroupMember { number: workers - 1 }
                }
                Wanted::GroupServer => {
                    servers += 1;
                    Role::GroupServer { number: servers - 1 }
                }
                Wanted::Evaluator => Role::Evaluator,
            };
            roles.push((node, role, *wanted));
        }
        for (node, role, _) in &roles {
            if let Some(node) = self.registry.get_mut(*node) {
                node.role = Some(*role);
            }
        }
        if self.run.job.settings.file.distribute == Distribute::Own {
            self.count_own_data();
        }
        for (node, role, wanted) in roles {
            let plan = match wanted {
                Wanted::Relay(plan) => Some(plan),
                _ => None,
            };
            self.appoint(node, role, plan);
        }
    }

    /// The length of the run follows from what those have together who train on data of their own.
    fn count_own_data(&mut self) {
        let trains = |node: &&Node| matches!(node.role, Some(Role::Worker { .. } | Role::GroupMember { .. }));
        let (mut all, mut each) = (0, Vec::new());
        for node in self.registry.nodes().filter(trains) {
            all += node.samples;
            each.push(format!("{} {}", node.name, node.samples));
        }
        let job = &mut self.run.job;
        job.schedule = RunSchedule::of(&job.settings, usize::try_from(all).unwrap_or(usize::MAX).max(1));
        let rounds = job.schedule.rounds_per_epoch;
        let each = each.join(", ");
        let message = format!("{all} samples stay where they are ({each}); {rounds} rounds an epoch");
        self.run.tell(Event::Noted { message });
    }

    /// Gives a node its role and says so.
    pub(super) fn appoint(&mut self, number: u64, role: Role, plan: Option<RelayPlan>) {
        let threads = self.threads(number);
        let role = match role {
            Role::Worker { relay, .. } => {
                let parent = relay.and_then(|relay| self.registry.get(relay)).map(|relay| relay.peer());
                assignment::Role::Worker(proto::Worker { parent })
            }
            Role::Relay { .. } => {
                let is_its = |node: &&Node| match node.role {
                    Some(Role::Worker { relay, .. }) => relay == Some(number),
                    _ => false,
                };
                let workers = self.registry.nodes().filter(is_its).count() as u32;
                let is_async = plan.is_some_and(|plan| plan.is_async);
                assignment::Role::Relay(proto::Relay { is_async, workers })
            }
            Role::GroupMember { .. } => assignment::Role::GroupMember(proto::GroupMember {}),
            Role::GroupServer { .. } => assignment::Role::GroupServer(proto::GroupServer {}),
            Role::Evaluator => assignment::Role::Evaluator(proto::Evaluator {}),
        };
        let Some(node) = self.registry.get(number) else { return };
        let samples = self.run.job.schedule.samples() as u64;
        let assignment = proto::Assignment { role: Some(role), threads: threads as u32, samples };
        // One that is gone is heard of in the mail.
        let _ = node.outbox.send(Body::Assignment(assignment));
        let event = Event::NodeJoined {
            node: number,
            name: node.name.clone(),
            role: node.role(),
            address: node.outbox.peer().to_owned(),
            cores: node.cores,
            threads: threads as u32,
        };
        self.run.tell(event);
        self.stats.welcome(number);
    }

    /// The cores of a machine are shared out among the workers that run on them.
    fn threads(&self, number: u64) -> usize {
        let Some(node) = self.registry.get(number) else { return 1 };
        let trains = |node: &&Node| matches!(node.role, Some(Role::Worker { .. } | Role::GroupMember { .. }));
        // Launchers may bind each process to cores of its own: those are not shared.
        let shares = |other: &&Node| other.machine == node.machine && other.cpus.overlap(&node.cpus);
        let workers = self.registry.nodes().filter(trains).filter(shares).count();
        self.run.job.settings.file.threads_on(node.cores as usize, workers)
    }
}

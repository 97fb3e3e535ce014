//! Waiting for the nodes that a run asks for, and giving them their roles.

use std::time::Duration;

use anyhow::Result;
use bonfire_report::{Event, Exit};
use bonfire_wire::proto;
use bonfire_wire::proto::assignment;
use bonfire_wire::proto::frame::Body;

use super::super::registry::{Node, Notice, Role};
use super::Head;
use crate::run_file::RelayPlan;
use crate::run_file::cast::{Wanted, in_words, reduced, wanted, workers};

/// Not all nodes came in time, in words.
#[derive(Debug)]
pub struct Absent(String);

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Absent {}

/// A run that is resumed has lost its head; others may be lost with it. Those who are not are back by then.
const BACK: Duration = Duration::from_secs(30);

impl Head<'_> {
    /// Waits until all nodes are there. Some if the user stopped that.
    pub(super) fn gather(&mut self) -> Result<Option<Exit>> {
        let settings = &self.run.job.settings;
        let wanted = wanted(&settings.topology, settings.file.evaluator);
        let begun = self.mailbox.now();
        let deadline = begun + self.wait;
        let enough = settings.file.min_workers.max(1);
        let mut told = usize::MAX;
        loop {
            let joined = self.registry.nodes().count();
            let ready = self.registry.nodes().filter(|node| node.is_ready).count();
            let left = deadline.saturating_duration_since(self.mailbox.now());
            let missing = in_words(&wanted[joined.min(wanted.len())..]);
            if told != joined {
                told = joined;
                let (wanted, deadline_s) = (wanted.len(), left.as_secs_f64());
                self.run.tell(Event::Waiting { joined, wanted, missing: missing.clone(), deadline_s });
            }
            if ready >= wanted.len() {
                self.assign(&wanted);
                return Ok(None);
            }
            let is_late = self.run.is_resumed && (left.is_zero() || self.mailbox.now() >= begun + BACK);
            let some = reduced(&wanted, ready);
            if is_late && workers(&some) >= enough {
                let message = format!("goes on without those who did not come back: {missing}");
                self.run.tell(Event::Noted { message });
                self.assign(&some);
                return Ok(None);
            }
            if left.is_zero() {
                let missing =
                    if missing.is_empty() { "nodes that load their data".to_owned() } else { missing };
                let (wanted, seconds) = (wanted.len(), self.wait.as_secs());
                return Err(Absent(format!(
                    "only {ready} of {wanted} nodes were there after {seconds} s; missing: {missing}"
                ))
                .into());
            }
            if self.is_stopped() {
                return Ok(Some(Exit::Interrupted));
            }
            match self.next(left) {
                Some(Notice::Refused(message)) => self.warn(message),
                Some(Notice::Lost { node, reason }) => {
                    self.warn(format!("{} left before the run began: {reason}", node.name));
                }
                _ => {}
            }
        }
    }

    fn assign(&mut self, wanted: &[Wanted]) {
        let ready = self.registry.queue();
        let (mut relay, mut relays, mut workers) = (None, 0, 0);
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
                Wanted::RingMember => {
                    workers += 1;
                    Role::RingMember { number: workers - 1 }
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
        for (node, role, wanted) in roles {
            let plan = match wanted {
                Wanted::Relay(plan) => Some(plan),
                _ => None,
            };
            self.appoint(node, role, plan);
        }
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
                let is_its = |role: Option<Role>| matches!(role, Some(Role::Worker { relay: Some(relay), .. }) if relay == number);
                let workers = self.registry.nodes().filter(|node| is_its(node.role)).map(|node| node.peer());
                let is_async = plan.is_some_and(|plan| plan.is_async);
                assignment::Role::Relay(proto::Relay { is_async, workers: workers.collect() })
            }
            Role::RingMember { .. } => assignment::Role::RingMember(proto::RingMember {}),
            Role::Evaluator => assignment::Role::Evaluator(proto::Evaluator {}),
        };
        let Some(node) = self.registry.get(number) else { return };
        let assignment = proto::Assignment { role: Some(role), threads: threads as u32 };
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
        let trains = |node: &&Node| matches!(node.role, Some(Role::Worker { .. } | Role::RingMember { .. }));
        // Launchers may bind each process to cores of its own: those are not shared.
        let shares = |other: &&Node| other.machine == node.machine && other.cpus.overlap(&node.cpus);
        let workers = self.registry.nodes().filter(trains).filter(shares).count();
        self.run.job.settings.file.threads_on(node.cores as usize, workers)
    }
}

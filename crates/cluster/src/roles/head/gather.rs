//! Waiting for the nodes that a run asks for, and giving them their roles.

use std::time::Duration;

use anyhow::Result;
use bonfire_report::{Event, Exit};
use bonfire_wire::proto;
use bonfire_wire::proto::assignment;
use bonfire_wire::proto::frame::Body;

use super::super::registry::{Node, Notice, Role};
use super::Head;
use crate::run_file::{RelayPlan, Topology};

/// What a run wants, in the order in which nodes get their roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Of the relay before it, if there is one.
    Worker,
    Relay(RelayPlan),
    RingMember,
    Evaluator,
}

/// Not all nodes came in time, in words.
#[derive(Debug)]
pub struct Absent(String);

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Absent {}

fn wanted(topology: &Topology, evaluator: bool) -> Vec<Wanted> {
    let mut wanted = match topology {
        Topology::Single { workers } => vec![Wanted::Worker; *workers],
        Topology::Flat { workers, backup, .. } => vec![Wanted::Worker; workers + backup],
        Topology::Ring { workers, .. } => vec![Wanted::RingMember; *workers],
        Topology::Hierarchical { relays, .. } => relays
            .iter()
            .flat_map(|relay| {
                std::iter::once(Wanted::Relay(*relay)).chain(vec![Wanted::Worker; relay.workers])
            })
            .collect(),
    };
    if evaluator {
        wanted.push(Wanted::Evaluator);
    }
    wanted
}

/// `2 workers, 1 evaluator`
fn in_words(missing: &[Wanted]) -> String {
    let is_worker = |wanted: &&Wanted| matches!(wanted, Wanted::Worker | Wanted::RingMember);
    let count = |what: &str, count: usize| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{count} {what}s")),
    };
    let relays = missing.iter().filter(|wanted| matches!(wanted, Wanted::Relay(_))).count();
    let evaluators = missing.iter().filter(|wanted| **wanted == Wanted::Evaluator).count();
    let parts = [
        count("relay", relays),
        count("worker", missing.iter().filter(is_worker).count()),
        count("evaluator", evaluators),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What a smaller number of nodes can be. A relay that nobody is left to work for works itself.
fn reduced(wanted: &[Wanted], nodes: usize) -> Vec<Wanted> {
    let mut some = wanted[..nodes.min(wanted.len())].to_vec();
    if let Some(last @ Wanted::Relay(_)) = some.last_mut() {
        *last = Wanted::Worker;
    }
    some
}

fn workers(wanted: &[Wanted]) -> usize {
    wanted.iter().filter(|wanted| matches!(wanted, Wanted::Worker | Wanted::RingMember)).count()
}

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
        let mut ready: Vec<&Node> = self.registry.nodes().filter(|node| node.is_ready).collect();
        // Those that a launcher counted first, as it counted them; the others as they came.
        ready.sort_by_key(|node| (node.rank.unwrap_or(u32::MAX), node.number));
        let ready: Vec<u64> = ready.into_iter().map(|node| node.number).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_given_in_the_order_of_the_run_file() {
        let rule = Topology::Single { workers: 1 }.rule();
        let plan = |workers, is_async| RelayPlan { is_async, workers };
        let relays = vec![plan(2, false), plan(1, true)];
        let hierarchical = Topology::Hierarchical { rule, relays };
        let expect = [
            Wanted::Relay(plan(2, false)),
            Wanted::Worker,
            Wanted::Worker,
            Wanted::Relay(plan(1, true)),
            Wanted::Worker,
            Wanted::Evaluator,
        ];
        assert_eq!(wanted(&hierarchical, true), expect);
        let flat = Topology::Flat { rule, workers: 2, backup: 1 };
        assert_eq!(wanted(&flat, false), [Wanted::Worker; 3]);
    }

    #[test]
    fn fewer_nodes_than_wanted_still_train() {
        let rule = Topology::Single { workers: 1 }.rule();
        let plan = RelayPlan { is_async: false, workers: 2 };
        let all = wanted(&Topology::Hierarchical { rule, relays: vec![plan; 2] }, true);
        let (relay, worker) = (Wanted::Relay(plan), Wanted::Worker);
        let check = |nodes, expect: &[Wanted]| assert_eq!(reduced(&all, nodes), expect, "{nodes} nodes");
        check(0, &[]);
        check(1, &[worker]);
        check(3, &[relay, worker, worker]);
        check(4, &[relay, worker, worker, worker]);
        check(6, &[relay, worker, worker, relay, worker, worker]);
        check(9, &all);
    }

    #[test]
    fn what_is_missing_is_said_in_words() {
        let rule = Topology::Single { workers: 1 }.rule();
        let relays = vec![RelayPlan { is_async: false, workers: 2 }; 2];
        let all = wanted(&Topology::Hierarchical { rule, relays }, true);
        let check =
            |joined: usize, expect: &str| assert_eq!(in_words(&all[joined..]), expect, "{joined} joined");
        check(0, "2 relays, 4 workers, 1 evaluator");
        check(3, "1 relay, 2 workers, 1 evaluator");
        check(6, "1 evaluator");
        check(7, "");
    }
}

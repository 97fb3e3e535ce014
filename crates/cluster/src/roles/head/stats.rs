//! What every node did since it was last said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bonfire_report::{MachineSample, NodeLine, Phases, SampleLine};
use bonfire_wire::{LinkTraffic, proto};

use super::super::claim::seconds;
use super::super::registry::Registry;
use super::super::vitals;

/// Counts by node.
#[derive(Debug)]
pub(crate) struct Stats {
    started: Instant,
    since: Instant,
    nodes: BTreeMap<u64, Count>,
    /// Everybody that ever had a role.
    seen: BTreeSet<u64>,
    late: u64,
    /// How long the head was at work while members waited.
    busy: Duration,
}

#[derive(Debug, Default)]
struct Count {
    samples: u64,
    compute_s: f64,
    staleness: u64,
    pushes: u64,
    late: u64,
    /// What was sent and received when it was last said.
    traffic: LinkTraffic,
    /// What was sent and received past the head.
    aside: (u64, u64),
    /// Where its time went, and how its machine was last.
    phases: Phases,
    machine: Option<MachineSample>,
}

/// How often it is said at first, and later at most.
const EVERY_S: (f64, f64) = (1.0, 10.0);

impl Stats {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            started: now,
            since: now,
            nodes: BTreeMap::new(),
            seen: BTreeSet::new(),
            late: 0,
            busy: Duration::ZERO,
        }
    }

    /// The training begins now.
    pub(crate) fn restart(&mut self, now: Instant) {
        (self.started, self.since) = (now, now);
    }

    pub(crate) fn welcome(&mut self, node: u64) {
        self.nodes.entry(node).or_default();
        self.seen.insert(node);
    }

    pub(crate) fn forget(&mut self, node: u64) {
        self.nodes.remove(&node);
    }

    /// A node has done its part of an update.
    pub(crate) fn pushed(&mut self, node: u64, samples: u64, compute_s: f64) {
        let count = self.nodes.entry(node).or_default();
        count.samples = count.samples.saturating_add(samples);
        count.compute_s += seconds(compute_s);
    }

    pub(crate) fn applied(&mut self, node: u64, staleness: u64) {
        let count = self.nodes.entry(node).or_default();
        count.staleness += staleness;
        count.pushes += 1;
    }

    /// A node's gradient came too late.
    pub(crate) fn dropped(&mut self, node: u64) {
        self.late += 1;
        self.nodes.entry(node).or_default().late += 1;
    }

    /// A node sent and received this past the head.
    pub(crate) fn aside(&mut self, node: u64, sent: u64, received: u64) {
        let aside = &mut self.nodes.entry(node).or_default().aside;
        *aside = (aside.0.saturating_add(sent), aside.1.saturating_add(received));
    }

    /// A node says how it is.
    pub(crate) fn felt(&mut self, node: u64, vitals: &proto::Vitals) {
        let count = self.nodes.entry(node).or_default();
        count.phases.add_all(&vitals::phases(vitals));
        count.machine = vitals::machine(vitals).or(count.machine);
    }

    /// How every node that has said so is, before its line is made.
    /// What a machine takes is said once, however many nodes it has, `here` that of the head.
    pub(crate) fn samples(&mut self, registry: &Registry, here: &str) -> Vec<SampleLine> {
        let (mut lines, mut machines) = (Vec::new(), BTreeSet::from([here]));
        for (&number, count) in &mut self.nodes {
            let Some(node) = registry.get(number) else { continue };
            let (phases, mut machine) = (count.phases.take(), count.machine.take());
            if let Some(machine) = machine.as_mut().filter(|_| !machines.insert(&node.machine)) {
                machine.watts = None;
            }
            if machine.is_some() || phases != Phases::default() {
                lines.push(SampleLine { node: Some(number), name: node.name.clone(), phases, machine });
            }
        }
        lines
    }

    /// The head was at work for so long.
    pub(crate) fn busy(&mut self, time: Duration) {
        self.busy += time;
    }

    pub(crate) fn nodes(&self) -> usize {
        self.seen.len()
    }

    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// The share of the training's time that the head was at work.
    pub(crate) fn head_share(&self, now: Instant) -> f64 {
        self.busy.as_secs_f64() / (now - self.started).as_secs_f64()
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let (least, most) = EVERY_S;
        let every = ((now - self.started).as_secs_f64() / 500.0).clamp(least, most);
        (now - self.since).as_secs_f64() >= every
    }

    /// A line for every node, of the time since the last ones.
    pub(crate) fn lines(&mut self, registry: &Registry, now: Instant) -> Vec<NodeLine> {
        let seconds = (now - self.since).as_secs_f64();
        self.since = now;
        let mut lines = Vec::new();
        for (&number, count) in &mut self.nodes {
            let Some(node) = registry.get(number) else { continue };
            let traffic = node.outbox.traffic();
            let computes = count.compute_s > 0.0;
            lines.push(NodeLine {
                node: number,
                name: node.name.clone(),
                role: node.role(),
                samples_per_s: count.samples as f64 / seconds,
                wait: computes.then(|| (1.0 - count.compute_s / seconds).clamp(0.0, 1.0)),
                staleness: (count.pushes > 0 && count.staleness > 0)
                    .then(|| count.staleness as f64 / count.pushes as f64),
                // What the head receives, the node has sent.
                sent_bytes: (traffic.received_bytes - count.traffic.received_bytes)
                    .saturating_add(count.aside.0),
                received_bytes: (traffic.sent_bytes - count.traffic.sent_bytes).saturating_add(count.aside.1),
                late: count.late,
            });
            *count = Count { traffic, ..Count::default() };
        }
        lines
    }
}

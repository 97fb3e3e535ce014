use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::Unit;

mod event;
#[cfg(test)]
mod tests;

pub use event::{Action, Event, Rule, Share};

/// The decisions of a relay: a parameter server to its workers, a member to its parent.
///
/// Nothing here depends on time. A relay answers an order as soon as nothing more can come for it; who is late or
/// gone is for the callers of [`Event::Lost`] and for the parent's rule to say.
#[derive(Clone, Debug)]
pub struct Relay {
    rule: Rule,
    /// The parent's order that is not answered yet.
    open: Option<u64>,
    version: u64,
    /// How many units a worker does for a push.
    steps: u64,
    next_order: u64,
    workers: BTreeMap<u64, Option<WorkerOrder>>,
    /// The units nobody works on, oldest first.
    stock: BTreeSet<Unit>,
    /// What is done and not pushed up. A push outlives its worker: it has arrived whole.
    shares: Vec<Share>,
    /// The lowest version that one of `shares` was computed on.
    oldest: Option<u64>,
}

#[derive(Clone, Debug)]
struct WorkerOrder {
    order: u64,
    version: u64,
    units: Vec<Unit>,
}

/// "unit 3 of epoch 0 and 7 more"
fn in_words(units: &[Unit]) -> String {
    match units {
        [] => "nothing".to_owned(),
        [unit] => unit.to_string(),
        [unit, more @ ..] => format!("{unit} and {} more", more.len()),
    }
}

impl Relay {
    /// A relay without workers and without orders.
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            open: None,
            version: 0,
            steps: 1,
            next_order: 1,
            workers: BTreeMap::new(),
            stock: BTreeSet::new(),
            shares: Vec::new(),
            oldest: None,
        }
    }

    /// What to do about `event`, in this order.
    pub fn on(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Order { order, version, units, steps } => {
                self.ordered(order, version, units, &mut actions);
                self.steps = steps.max(1);
            }
            Event::Joined { worker } => {
                self.joined(worker);
                actions.push(Action::Offer { lease: self.lease() });
            }
            Event::Lost { worker } => {
                if self.lost(worker) {
                    actions.push(Action::Offer { lease: self.lease() });
                }
            }
            Event::Pushed { worker, order, units } => self.pushed(worker, order, units, &mut actions),
        }
        self.release_idle(&mut actions);
        self.push_up(&mut actions);
        actions
    }

    /// How many units this relay can have in its hands: one for each worker, and for an async relay one more each, so
    /// that nobody idles while a push goes up and an order comes down.
    pub fn lease(&self) -> u32 {
        let each = if self.rule.is_async { 2 } else { 1 };
        u32::try_from(self.workers.len() * each).unwrap_or(u32::MAX)
    }

    fn ordered(&mut self, order: u64, version: u64, units: Vec<Unit>, actions: &mut Vec<Action>) {
        if self.open.is_some() {
            self.void("the parent gave another order before this one was answered", actions);
        }
        self.open = Some(order);
        self.version = version;
        self.stock.extend(units);
    }

    /// Forgets what was ordered: a parent that gives another order without an answer has given the units to others.
    /// Workers may have new work at once: their answers to what is void are not to any order they have.
    fn void(&mut self, reason: &str, actions: &mut Vec<Action>) {
        self.open = None;
        self.stock.clear();
        self.workers.values_mut().for_each(|task| *task = None);
        if !self.shares.is_empty() {
            actions.push(Action::Forget { reason: reason.to_owned() });
        }
        self.shares.clear();
        self.oldest = None;
    }

    fn joined(&mut self, worker: u64) {
        let before = self.workers.insert(worker, None).flatten();
        self.stock.extend(before.into_iter().flat_map(|task| task.units));
    }

    fn lost(&mut self, worker: u64) -> bool {
        let Some(task) = self.workers.remove(&worker) else { return false };
        self.stock.extend(task.into_iter().flat_map(|task| task.units));
        true
    }

    fn pushed(&mut self, worker: u64, order: u64, units: Vec<Unit>, actions: &mut Vec<Action>) {
        let mut discard = |reason| actions.push(Action::Discard { worker, order, reason });
        let Some(current) = self.workers.get_mut(&worker) else {
            return discard("is not a worker of this relay".to_owned());
        };
        let task = match current {
            Some(task) if task.order != order => {
                return discard(format!("answers order {order}; its order is {}", task.order));
            }
            _ => current.take(),
        };
        let Some(task) = task else {
            return discard(format!("answers order {order}; it has no order to answer"));
        };
        if task.units != units {
            discard(format!("names {}; its order was {}", in_words(&units), in_words(&task.units)));
            return self.stock.extend(task.units);
        }
        self.shares.push(Share { worker, order, units });
        self.oldest = Some(self.oldest.map_or(task.version, |oldest| oldest.min(task.version)));
        if self.rule.is_async {
            actions.push(Action::Accumulate { worker, order });
        }
    }

    fn release_idle(&mut self, actions: &mut Vec<Action>) {
        let mut idle: Vec<_> = self.workers.iter_mut().filter(|(_, task)| task.is_none()).collect();
        let mut dealt = vec![Vec::new(); idle.len()];
        // All have their first unit, then all their second one.
        for units in (0..self.steps).take_while(|_| !idle.is_empty()).flat_map(|_| 0..idle.len()) {
            let Some(unit) = self.stock.pop_first() else { break };
            dealt[units].push(unit);
        }
        for ((worker, task), units) in idle.iter_mut().zip(dealt).filter(|(_, units)| !units.is_empty()) {
            let (order, version) = (self.next_order, self.version);
            self.next_order += 1;
            **task = Some(WorkerOrder { order, version, units: units.clone() });
            actions.push(Action::Release { worker: **worker, order, version, units });
        }
    }

    fn push_up(&mut self, actions: &mut Vec<Action>) {
        let Some(order) = self.open else { return };
        if !self.is_complete() {
            return;
        }
        self.open = None;
        let mut shares = mem::take(&mut self.shares);
        if !self.rule.is_async {
            // By id and not by arrival: a sum of floats depends on the order.
            shares.sort_unstable();
        }
        let done = shares.iter().flat_map(|share| share.units.iter().copied()).collect();
        // With a live worker the stock of a complete order is empty, or it is the next pushes' (async).
        let unused = if self.workers.is_empty() { mem::take(&mut self.stock) } else { BTreeSet::new() };
        let unused = unused.into_iter().collect();
        let oldest = self.oldest.take().unwrap_or(self.version);
        actions.push(Action::PushUp { order, shares, done, unused, oldest });
    }

    /// Whether the open order can be answered now: no worker is left, enough is in, or nothing more can come.
    fn is_complete(&self) -> bool {
        if self.workers.is_empty() {
            return true;
        }
        let enough = self.rule.workers.clamp(1, self.workers.len());
        if self.rule.is_async && self.shares.len() >= enough {
            return true;
        }
        self.stock.is_empty() && self.workers.values().all(Option::is_none)
    }
}

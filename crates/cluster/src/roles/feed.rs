//! What brings members that are behind up to date: the newest updates, as they were sent to the others.

use std::collections::VecDeque;

use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, proto};
use bytes::Bytes;

use super::worker::to_proto;
use crate::station::pack_state;
use bonfire_run::replica::Replica;
use bonfire_strategy::Unit;

/// The newest steps from version to version.
#[derive(Debug, Default)]
pub struct Feed {
    entries: VecDeque<Entry>,
    bytes: usize,
}

/// What leads from one version to a later one.
#[derive(Clone, Debug)]
pub struct Entry {
    pub from: u64,
    pub to: u64,
    pub news: proto::News,
    pub lr: f32,
    pub weight: f64,
    pub payload: Bytes,
}

/// Where a member is to go on.
#[derive(Clone, Debug)]
pub struct Order {
    pub number: u64,
    pub version: u64,
    pub units: Vec<Unit>,
}

impl Feed {
    /// Adds the newest step. Older ones are kept while they are together no larger than a whole state.
    pub fn add(&mut self, entry: Entry, state_bytes: usize) {
        self.bytes += entry.payload.len();
        self.entries.push_back(entry);
        while self.entries.len() > 1 && self.bytes > state_bytes {
            self.bytes -= self.entries.pop_front().map_or(0, |entry| entry.payload.len());
        }
    }

    /// Lets go of the steps that nobody needs any more, given what every member has.
    pub fn forget(&mut self, have: impl Iterator<Item = u64>) {
        let Some(all_have) = have.min() else { return };
        while self.entries.front().is_some_and(|entry| entry.to <= all_have) {
            self.bytes -= self.entries.pop_front().map_or(0, |entry| entry.payload.len());
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The steps from a version to another, if all of them are here.
    fn steps(&self, has: u64, version: u64) -> Option<Vec<&Entry>> {
        let mut steps: Vec<&Entry> = Vec::new();
        let mut at = has;
        for entry in &self.entries {
            let is_whole = entry.news == proto::News::Parameters && entry.to > at;
            if is_whole {
                steps.clear();
            }
            if is_whole || entry.from == at {
                steps.push(entry);
                at = entry.to;
            }
        }
        (at == version).then_some(steps)
    }

    /// Sends a member its order, with what it needs to be up to date: it has the version `has`, if any.
    pub fn send(
        &self,
        outbox: &Outbox,
        has: Option<u64>,
        order: Order,
        replica: &Replica,
    ) -> Result<(), Closed> {
        let steps = match has.and_then(|has| self.steps(has, order.version)) {
            Some(steps) => steps,
            None => {
                let (state, payload) = pack_state(replica, order.version, true);
                outbox.send(Frame { body: Body::State(state), payload })?;
                Vec::new()
            }
        };
        let (last, before) = match steps.split_last() {
            Some((last, before)) => (Some(*last), before),
            None => (None, &[][..]),
        };
        for step in before {
            outbox.send(step.frame(proto::Go { version: step.to, ..proto::Go::default() }))?;
        }
        let units = order.units.into_iter().map(to_proto).collect();
        let go = proto::Go { order: order.number, version: order.version, units, ..proto::Go::default() };
        match last {
            Some(step) => outbox.send(step.frame(go)),
            None => outbox.send(Body::Go(go)),
        }
    }
}

impl Entry {
    /// What a parent sent.
    pub fn of(go: &proto::Go, from: u64, payload: Bytes) -> Self {
        Self { from, to: go.version, news: go.news(), lr: go.lr, weight: go.weight, payload }
    }

    fn frame(&self, go: proto::Go) -> Frame {
        let go = proto::Go { news: self.news.into(), lr: self.lr, weight: self.weight, ..go };
        Frame { body: Body::Go(go), payload: self.payload.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(to: u64) -> Entry {
        let payload = Bytes::from_static(&[0; 100]);
        Entry { from: to - 1, to, news: proto::News::Update, lr: 0.1, weight: 1.0, payload }
    }

    #[test]
    fn only_what_somebody_lacks_is_kept() {
        let mut feed = Feed::default();
        let check = |feed: &Feed, versions: &[u64]| {
            let kept: Vec<u64> = feed.entries.iter().map(|entry| entry.to).collect();
            assert_eq!((kept.as_slice(), feed.bytes), (versions, 100 * versions.len()));
        };
        (1..=4).for_each(|to| feed.add(step(to), 350));
        check(&feed, &[2, 3, 4]);
        feed.forget([].into_iter());
        check(&feed, &[2, 3, 4]);
        feed.forget([4, 2, 3].into_iter());
        check(&feed, &[3, 4]);
        assert!(feed.steps(2, 4).is_some_and(|steps| steps.len() == 2));
        feed.forget([4, 4].into_iter());
        check(&feed, &[]);
        feed.add(step(5), 350);
        assert!(feed.steps(4, 5).is_some_and(|steps| steps.len() == 1));
    }
}

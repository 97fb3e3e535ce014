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
    /// Of the parameters that it leads to, where members compare theirs with it.
    pub digest: Option<u64>,
}

/// Where a member is to go on.
#[derive(Clone, Debug)]
pub struct Order {
    pub number: u64,
    pub version: u64,
    pub units: Vec<Unit>,
    /// Of the parameters of that version, where members compare theirs with it.
    pub digest: Option<u64>,
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
            // News only: the order comes with the last of them.
            let go = proto::Go { version: step.to, digest: step.digest, ..proto::Go::default() };
            outbox.send(step.frame(go))?;
        }
        let units = order.units.into_iter().map(to_proto).collect();
        let go = proto::Go {
            order: Some(order.number),
            version: order.version,
            units,
            digest: order.digest,
            ..proto::Go::default()
        };
        match last {
            Some(step) => outbox.send(step.frame(go)),
            None => outbox.send(Body::Go(go)),
        }
    }
}

impl Entry {
    /// What a parent sent.
    pub fn of(go: &proto::Go, from: u64, payload: Bytes) -> Self {
        let proto::Go { version: to, lr, weight, digest, .. } = *go;
        Self { from, to, news: go.news(), lr, weight, payload, digest }
    }

    fn frame(&self, go: proto::Go) -> Frame {
        let go = proto::Go { news: self.news.into(), lr: self.lr, weight: self.weight, ..go };
        Frame { body: Body::Go(go), payload: self.payload.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use bonfire_learn::layout::Init;
    use bonfire_learn::{Layout, OptimizerSpec};
    use bonfire_wire::{Incoming, memory_link};

    /// What a member that has a version is sent, by version and order.
    fn sent(has: Option<u64>, version: u64) -> Vec<(u64, Option<u64>)> {
        let mut layout = Layout::default();
        layout.vector("all".into(), 3, Init::Uniform(1.0));
        let replica = Replica::new(&layout, OptimizerSpec::default(), 1);
        let mut feed = Feed::default();
        for from in 0..3 {
            let (news, payload) = (proto::News::Update, Bytes::from_static(b"sum"));
            let (to, digest) = (from + 1, None);
            feed.add(Entry { from, to, news, lr: 0.1, weight: 1.0, payload, digest }, 1000);
        }
        let (sender, inbox) = channel();
        let hear = Box::new(move |incoming| sender.send(incoming).expect("room"));
        let (here, there) = memory_link(Box::new(|_| ()), hear);
        let order = Order { number: 7, version, units: vec![Unit { epoch: 0, index: 0 }], digest: None };
        feed.send(&here, has, order, &replica).expect("a link");
        drop((here, there));
        let step = |incoming: Incoming| match incoming {
            Incoming::Frame(Frame { body: Body::Go(go), .. }) => Some((go.version, go.order)),
            Incoming::Frame(Frame { body: Body::State(state), .. }) => Some((state.round, None)),
            _ => None,
        };
        inbox.iter().filter_map(step).collect()
    }

    #[test]
    fn only_the_last_frame_is_an_order() {
        assert_eq!(sent(Some(0), 3), [(1, None), (2, None), (3, Some(7))]);
        assert_eq!(sent(Some(2), 3), [(3, Some(7))]);
        assert_eq!(sent(Some(3), 3), [(3, Some(7))], "nothing is new");
        assert_eq!(sent(None, 3), [(3, None), (3, Some(7))], "the state, then the order");
    }
}

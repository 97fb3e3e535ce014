//! What brings the members of a server up to date: the newest updates, as they were sent to the others, or a whole
//! state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bonfire_data::Cut;
use bonfire_run::replica::Replica;
use bonfire_strategy::Unit;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, proto};

use super::worker::{cuts_to_proto, to_proto};
use bonfire_exchange::codec::Parcel;
use bonfire_exchange::state::piece_of;
use bonfire_exchange::updates::{is_sum, step};

/// The members of a server, each with what it has, and the newest steps from version to version.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    entries: VecDeque<Entry>,
    bytes: usize,
    members: BTreeMap<u64, Follower>,
}

/// A member, as its server knows it.
#[derive(Debug)]
struct Follower {
    outbox: Outbox,
    /// The version that it was last brought to, if that is known.
    has: Option<u64>,
    /// It takes the state, and hears of updates meanwhile.
    takes_state: bool,
    /// What it is to do once it has the state.
    order: Option<Order>,
    /// Which chunks it was sent ahead, of the update to which version, and of which attempt at it.
    ahead: (u64, u64, BTreeSet<usize>),
    /// Its last push was not used.
    is_dropped: bool,
}

/// What leads from one version to a later one.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub from: u64,
    pub to: u64,
    pub news: proto::News,
    pub lr: f32,
    pub weight: f64,
    pub parcels: Vec<Parcel>,
    /// Which attempt at it this is.
    pub attempt: u64,
    /// Of the parameters that it leads to, where members compare theirs with it.
    pub digest: Option<u64>,
}

/// Where a member is to go on.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub number: u64,
    pub version: u64,
    pub units: Vec<Unit>,
    /// Which part each of them is, where workers have unequal shares.
    pub cuts: Vec<Option<Cut>>,
    /// How many of them a worker does by itself before it pushes.
    pub steps: u64,
    /// The push is in int8, because that was chosen.
    pub int8: bool,
    /// The push is not rounded.
    pub exact: bool,
    /// It comes with a worker's moments.
    pub moments: bool,
    /// Of the parameters of that version, where members compare theirs with it.
    pub digest: Option<u64>,
}

impl Feed {
    /// Takes a member, which has a version if that is known.
    pub(crate) fn admit(&mut self, member: u64, outbox: Outbox, has: Option<u64>) {
        let follower = Follower {
            outbox,
            has,
            takes_state: false,
            order: None,
            ahead: Default::default(),
            is_dropped: false,
        };
        self.members.insert(member, follower);
    }

    pub(crate) fn remove(&mut self, member: u64) {
        self.members.remove(&member);
    }

    /// What the members have is of no use any more.
    pub(crate) fn restart(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.members.values_mut().for_each(|member| member.has = None);
    }

    /// A member's last push was not used, and it is told with its next order.
    pub(crate) fn drop_push(&mut self, member: u64) {
        if let Some(member) = self.members.get_mut(&member) {
            member.is_dropped = true;
        }
    }

    /// Sends a chunk of the update to `version` ahead, to all who are up to date but for it.
    pub(crate) fn send_ahead(&mut self, version: u64, attempt: u64, index: usize, parcel: &Parcel) {
        for member in self.members.values_mut() {
            if !member.takes_state && member.has == version.checked_sub(1) {
                if (member.ahead.0, member.ahead.1) != (version, attempt) {
                    member.ahead = (version, attempt, BTreeSet::new());
                }
                member.ahead.2.insert(index);
                // One that is gone is heard of in the mail.
                let _ = member.outbox.send(piece(step::SUM, attempt, version, index, parcel));
            }
        }
    }

    /// Adds the newest step. Older ones are kept while they are together no larger than a whole state.
    pub(crate) fn add(&mut self, entry: Entry, state_bytes: usize) {
        for member in self.members.values_mut().filter(|member| member.takes_state) {
            let _ = entry.send(member, proto::Go { version: entry.to, ..proto::Go::default() });
        }
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        while self.entries.len() > 1 && self.bytes > state_bytes {
            self.bytes -= self.entries.pop_front().map_or(0, |entry| entry.bytes());
        }
    }

    /// Has a member take the state.
    pub(crate) fn give_state(&mut self, member: u64) {
        if let Some(member) = self.members.get_mut(&member) {
            member.takes_state = true;
            let _ = member.outbox.send(Body::TakeState(proto::TakeState {}));
        }
    }

    /// Answers a member that asks for a piece of the state.
    pub(crate) fn answer(&self, member: u64, wanted: &proto::StateWanted, replica: &Replica, version: u64) {
        if let Some(member) = self.members.get(&member).filter(|member| member.takes_state) {
            let (state, payload) = piece_of(replica, version, wanted);
            let _ = member.outbox.send(Frame { body: Body::State(state), payload });
        }
    }

    /// A member has the state. False if it has no order yet: it is new.
    pub(crate) fn state_taken(&mut self, member: u64, version: u64) -> bool {
        let Some(follower) = self.members.get_mut(&member).filter(|member| member.takes_state) else {
            return true;
        };
        (follower.takes_state, follower.has) = (false, Some(version));
        match follower.order.take() {
            Some(order) => {
                // It has gone on meanwhile with the others.
                self.order(member, Order { version, digest: None, ..order });
                true
            }
            None => false,
        }
    }

    /// Sends a member its order, with what it needs to be up to date. If that is the state, the order waits for it.
    pub(crate) fn order(&mut self, member: u64, order: Order) {
        let Some(follower) = self.members.get_mut(&member) else { return };
        if follower.takes_state {
            follower.order = Some(order);
            return;
        }
        let steps = follower.has.and_then(|has| steps(&self.entries, has, order.version));
        let Some(steps) = steps else {
            follower.order = Some(order);
            return self.give_state(member);
        };
        // One that is gone is heard of in the mail.
        let _ = send_order(follower, &steps, order);
        self.forget();
    }

    /// Lets go of the steps that nobody needs any more.
    fn forget(&mut self) {
        let Some(all_have) = self.members.values().filter_map(|member| member.has).min() else { return };
        while self.entries.front().is_some_and(|entry| entry.to <= all_have) {
            self.bytes -= self.entries.pop_front().map_or(0, |entry| entry.bytes());
        }
    }

    /// Sends a member its order with something that is new to it alone.
    pub(crate) fn order_with(&mut self, member: u64, entry: &Entry, order: Order) {
        if let Some(follower) = self.members.get_mut(&member) {
            let _ = send_order(follower, &[entry], order);
        }
    }

    /// The version that a member was last brought to.
    pub(crate) fn has(&self, member: u64) -> Option<u64> {
        self.members.get(&member).and_then(|member| member.has)
    }
}

/// The steps from a version to another, if all of them are there.
fn steps(entries: &VecDeque<Entry>, has: u64, version: u64) -> Option<Vec<&Entry>> {
    let mut steps: Vec<&Entry> = Vec::new();
    let mut at = has;
    for entry in entries {
        if entry.from == at {
            steps.push(entry);
            at = entry.to;
        }
    }
    (at == version).then_some(steps)
}

fn send_order(member: &mut Follower, steps: &[&Entry], order: Order) -> Result<(), Closed> {
    let (last, before) = match steps.split_last() {
        Some((last, before)) => (Some(*last), before),
        None => (None, &[][..]),
    };
    for entry in before {
        // News only: the order comes with the last of them.
        entry.send(member, proto::Go { version: entry.to, ..proto::Go::default() })?;
    }
    let go = proto::Go {
        order: Some(order.number),
        version: order.version,
        units: order.units.into_iter().map(to_proto).collect(),
        cuts: cuts_to_proto(order.cuts),
        digest: order.digest,
        exact: order.exact,
        steps: order.steps,
        int8: order.int8,
        moments: order.moments,
        dropped: std::mem::take(&mut member.is_dropped),
        ..proto::Go::default()
    };
    match last {
        Some(entry) => entry.send(member, go),
        None => {
            member.has = Some(order.version);
            member.outbox.send(Body::Go(go))
        }
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        self.parcels.iter().map(|parcel| parcel.payload.len()).sum()
    }

    /// Sends its chunks, but for those that were sent ahead, and what is to be done then.
    fn send(&self, member: &mut Follower, go: proto::Go) -> Result<(), Closed> {
        let (version, attempt, ahead) = std::mem::take(&mut member.ahead);
        let is_same = (version, attempt) == (self.to, self.attempt);
        let step = if is_sum(self.news) { step::SUM } else { step::PARAMETERS };
        for (index, parcel) in self.parcels.iter().enumerate() {
            if !(is_same && ahead.contains(&index)) {
                member.outbox.send(piece(step, self.attempt, self.to, index, parcel))?;
            }
        }
        member.has = Some(self.to);
        let digest = go.digest.or(self.digest);
        let go = proto::Go { news: self.news.into(), lr: self.lr, weight: self.weight, digest, ..go };
        member.outbox.send(Body::Go(go))
    }
}

/// A chunk on its way between a server and a member.
pub(crate) fn piece(step: u32, attempt: u64, round: u64, index: usize, parcel: &Parcel) -> Frame {
    let (weight, plain) = (parcel.weight, parcel.is_plain);
    let piece = proto::Piece { generation: attempt, round, step, index: index as u32, weight, plain };
    Frame { body: Body::Piece(piece), payload: parcel.payload.clone() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use bonfire_wire::{Incoming, memory_link};
    use bytes::Bytes;

    /// What a member that has a version is sent for an order on version 3: versions and orders, chunks, `state`.
    fn sent(has: Option<u64>, ahead: Option<(u64, u64)>) -> Vec<String> {
        let parcel = || Parcel { payload: Bytes::from_static(b"sums"), is_plain: true, weight: 1.0 };
        let mut feed = Feed::default();
        let (sender, inbox) = channel();
        let hear = Box::new(move |incoming| sender.send(incoming).expect("room"));
        let (here, there) = memory_link(Box::new(|_| ()), hear);
        feed.admit(5, here, has);
        for from in 0..3 {
            if let Some((version, attempt)) = ahead.filter(|(version, _)| *version == from + 1) {
                feed.send_ahead(version, attempt, 0, &parcel());
            }
            let entry = Entry {
                from,
                to: from + 1,
                news: proto::News::Update,
                lr: 0.1,
                weight: 1.0,
                parcels: vec![parcel(), parcel()],
                attempt: 9,
                digest: None,
            };
            feed.add(entry, 1000);
        }
        let units = vec![Unit { epoch: 0, index: 0 }];
        let order = Order {
            number: 7,
            version: 3,
            units,
            cuts: Vec::new(),
            steps: 1,
            int8: false,
            exact: false,
            moments: false,
            digest: None,
        };
        feed.order(5, order);
        drop((feed, there));
        let word = |incoming: Incoming| match incoming {
            Incoming::Frame(Frame { body: Body::Go(go), .. }) => match go.order {
                Some(order) => Some(format!("{} order {order}", go.version)),
                None => Some(format!("{}", go.version)),
            },
            Incoming::Frame(Frame { body: Body::Piece(piece), .. }) => {
                Some(format!("{}/{}", piece.round, piece.index))
            }
            Incoming::Frame(Frame { body: Body::TakeState(_), .. }) => Some("state".to_owned()),
            _ => None,
        };
        inbox.iter().filter_map(word).collect()
    }

    #[test]
    fn only_the_last_frame_is_an_order() {
        assert_eq!(sent(Some(1), None), ["2/0", "2/1", "2", "3/0", "3/1", "3 order 7"]);
        assert_eq!(sent(Some(2), None), ["3/0", "3/1", "3 order 7"]);
        assert_eq!(sent(Some(3), None), ["3 order 7"], "nothing is new");
        assert_eq!(sent(None, None), ["state"], "the order waits");
    }

    #[test]
    fn only_what_somebody_lacks_is_kept() {
        let mut feed = Feed::default();
        let (here, _there) = memory_link(Box::new(|_| ()), Box::new(|_| ()));
        (1..=3).for_each(|member| feed.admit(member, here.clone(), Some(0)));
        let parcel = Parcel { payload: Bytes::from_static(&[0; 100]), is_plain: true, weight: 1.0 };
        for to in 1..=4 {
            let (from, news, parcels) = (to - 1, proto::News::Update, vec![parcel.clone()]);
            feed.add(Entry { from, to, news, lr: 0.1, weight: 1.0, parcels, attempt: 0, digest: None }, 350);
        }
        let kept = |feed: &Feed| (feed.entries.iter().map(|entry| entry.to).collect::<Vec<_>>(), feed.bytes);
        assert_eq!(kept(&feed), (vec![2, 3, 4], 300), "no more than a state");
        let mut bring = |member: u64, has: u64| {
            feed.members.get_mut(&member).expect("a member").has = Some(has);
            feed.forget();
            kept(&feed)
        };
        assert_eq!(bring(1, 4), (vec![2, 3, 4], 300));
        assert_eq!(bring(2, 3), (vec![2, 3, 4], 300));
        assert_eq!(bring(3, 2), (vec![3, 4], 200));
        assert_eq!(bring(3, 4), (vec![4], 100));
    }

    #[test]
    fn what_was_sent_ahead_is_not_sent_again() {
        assert_eq!(sent(Some(2), Some((3, 9))), ["3/0", "3/1", "3 order 7"]);
        assert_eq!(sent(Some(2), Some((3, 8))), ["3/0", "3/0", "3/1", "3 order 7"], "of another attempt");
    }
}

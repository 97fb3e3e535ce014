use std::time::Duration;

use crate::Unit;
use crate::group::Pace;

/// How far the members of a parameter server may drift apart, and how long they wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How many updates may lie between the version a push was computed on and the one it is applied to. With 0
    /// everybody waits for everybody (sync); with a large bound every push is applied on arrival (async).
    pub max_staleness: u64,
    /// Sync with backup workers: so many pushes suffice, later ones of the round are dropped.
    pub take: Option<usize>,
    /// How long a push that has arrived waits for the members that still compute.
    pub straggler: Option<Duration>,
    /// With fewer members than that the server waits instead of going on.
    pub min_members: usize,
    /// The version the run ends at, if the deck does not end it before.
    pub max_updates: Option<u64>,
    /// How many units a worker does by itself for every push. More than one only where everybody waits for everybody:
    /// all pushes of an update are of as many then.
    pub pace: Pace,
}

/// What happens to a parameter server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A member is there, for the first time or again. `lease` is how many units it may have in its hands, times what a
    /// worker does by itself; with 0 it is asked for nothing. A member that joins twice has lost what it had in work:
    /// its old connection is over.
    Joined { member: u64, lease: u32 },
    /// A member may have more units or fewer from now on: workers have joined or left a relay.
    Lease { member: u64, lease: u32 },
    /// Enough members are there. Nothing is released before.
    Start,
    /// A member is gone; what it had in work goes to the others.
    Lost { member: u64 },
    /// A member answers its order. It may name any units it holds: `done` ones are in the push, `unused` ones it
    /// gives back, and what it does not name it keeps. `empty` says that the push weighs nothing.
    Pushed { member: u64, order: u64, done: Vec<Unit>, unused: Vec<Unit>, empty: bool },
    /// From the update after the next one on, at the earliest, workers do other numbers of units by themselves.
    Paced { pace: Pace },
    /// Time has passed. To be sent at [`Server::next_deadline`](super::Server::next_deadline).
    Tick,
}

/// One push of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contribution {
    pub member: u64,
    pub order: u64,
    /// How many updates there were between the push's version and this one.
    pub staleness: u64,
    /// The push weighs nothing and need not be read.
    pub empty: bool,
}

/// What the caller has to do now, in this order. What a person would ask about comes with its reason in words; that of
/// a member is the text after its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make one update of these pushes, summed in this order; the parameters then have `version`. The `open` units were
    /// dealt and are not in it: a checkpoint of this version must know them.
    Apply { pushes: Vec<Contribution>, version: u64, open: Vec<Unit> },
    /// Tell a member to go on from `version`. The units come on top of those it still holds; a relay that holds some
    /// may get none.
    Release { member: u64, order: u64, version: u64, units: Vec<Unit> },
    /// Drop a push. If it is `late`, it is one that was taken in, in this event or before. If not, it is the one that
    /// has just come, a mistake or a replay: what was taken in under the same order stays.
    Discard { member: u64, order: u64, late: bool, reason: String },
    /// The update that follows goes on without this member, which still computes; its push will be dropped.
    Late { member: u64, reason: String },
    /// Every unit of this epoch is in the parameters.
    EpochDone(u64),
    /// Too few members; said once per number that is missing.
    Waiting { reason: String },
    /// Nothing is left to do. Pushes that still come are ignored without a word.
    Finished,
}

use crate::Unit;

/// How a relay treats its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// An async relay lets its workers go on while its own push is under way; a sync one does an order at a time.
    pub is_async: bool,
    /// How many workers it is meant to have: an async relay sums up that many pushes before it pushes itself, fewer
    /// when fewer are alive.
    pub workers: usize,
}

/// What happens to a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The parent wants an answer, and the parameters are there in this version. The units come on top of those the
    /// relay still has, and a worker does `steps` of them for every push. If the order before was not answered, that
    /// one is void with all that was done for it.
    Order { order: u64, version: u64, units: Vec<Unit>, steps: u64 },
    /// A worker is there, for the first time or again.
    Joined { worker: u64 },
    /// A worker is gone; others do its units.
    Lost { worker: u64 },
    /// A worker has done its units. `order` is the relay's own, from [`Action::Release`].
    Pushed { worker: u64, order: u64, units: Vec<Unit> },
}

/// One worker's push, as part of the relay's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    pub worker: u64,
    /// The relay's order that it answered. A worker may answer several within one order of the parent.
    pub order: u64,
    pub units: Vec<Unit>,
}

/// What the caller has to do now, in this order. What a person would ask about comes with its reason in words; that of
/// a worker is the text after its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tell a worker to do `units` on `version`, the newest the relay has.
    Release { worker: u64, order: u64, version: u64, units: Vec<Unit> },
    /// Async: add this push to the sum now.
    Accumulate { worker: u64, order: u64 },
    /// Answer the parent's `order`. A sync relay now sums up the pushes of `shares` in this order; an async one has
    /// the sum and begins a new one. `oldest` is the lowest version that a share was computed on, the order's own
    /// when there is none.
    PushUp { order: u64, shares: Vec<Share>, done: Vec<Unit>, unused: Vec<Unit>, oldest: u64 },
    /// Tell the parent how many units the relay can have in its hands from now on.
    Offer { lease: u32 },
    /// Drop a worker's push.
    Discard { worker: u64, order: u64, reason: String },
    /// Drop the pushes that are held and, async, the sum so far: nobody waits for them any more.
    Forget { reason: String },
}

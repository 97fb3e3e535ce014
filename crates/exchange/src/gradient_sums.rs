//! Sums over the members of a group, by how its gradients travel.

use bonfire_learn::{Gradient, Layout};
use bonfire_run::run_file::Compression;
use bonfire_wire::Closed;
use rayon::ThreadPool;

use crate::codec::Coding;
use crate::low_rank::LowRankSums;
use crate::peers::Peers;
use crate::sharded::ShardedSums;

/// What a member needs to sum gradients with the others, from round to round.
#[derive(Debug)]
pub enum GradientSums {
    /// Value by value.
    Sharded(Box<ShardedSums>),
    /// Matrices by their factors.
    LowRank(Box<LowRankSums>),
}

impl GradientSums {
    /// For gradients of a run with this seed.
    pub fn new(layout: &Layout, compression: Compression, seed: u64) -> Self {
        match compression {
            Compression::PowerSgd(rank) => Self::LowRank(Box::new(LowRankSums::new(layout, rank, seed))),
            _ => Self::Sharded(Box::new(ShardedSums::new(layout, Coding::of(compression)))),
        }
    }

    /// Shares the sums out among members who each take such a part of them.
    pub fn share_out(&mut self, parts: &[f64]) {
        match self {
            Self::Sharded(sums) => sums.share_out(parts),
            Self::LowRank(sums) => sums.share_out(parts),
        }
    }

    /// The same where links count for nothing and every frame takes processors time.
    pub fn share_out_few(&mut self, parts: &[f64]) {
        match self {
            Self::Sharded(sums) => sums.share_out_few(parts),
            Self::LowRank(sums) => sums.share_out_few(parts),
        }
    }

    /// Forgets what was lost: what is summed from now on is of another kind.
    pub fn forget(&mut self) {
        match self {
            Self::Sharded(sums) => sums.forget(),
            Self::LowRank(sums) => sums.forget(),
        }
    }

    /// Values travel otherwise from now on. Factors stay as they are.
    pub fn set_coding(&mut self, coding: Coding) {
        if let Self::Sharded(sums) = self {
            sums.set_coding(coding);
        }
    }

    /// No piece has more bytes.
    pub fn most_bytes(&self) -> usize {
        match self {
            Self::Sharded(sums) => sums.most_bytes(),
            Self::LowRank(sums) => sums.most_bytes(),
        }
    }

    /// Begins a sum, for [`advance`](Self::advance) and [`complete`](Self::complete).
    pub fn begin<E: From<Closed>>(&mut self, peers: &Peers<'_, E>, exact: bool) {
        if let Self::Sharded(sums) = self {
            sums.begin(peers, exact);
        }
    }

    /// Sends what is settled of a gradient that is still being computed, from a place on, and takes what has come. Of
    /// factors nothing can leave before all of it is there.
    pub fn advance<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: &Gradient,
        settled_from: usize,
    ) -> Result<(), E> {
        match self {
            Self::Sharded(sums) => sums.advance(peers, gradient, settled_from),
            Self::LowRank(_) => Ok(()),
        }
    }

    /// Waits for what is missing, and replaces a member's gradient by the sum over all members, computing on a pool's
    /// threads. In an exact round nothing is lost, and what was lost in earlier rounds is made up for.
    pub fn complete<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: &mut Gradient,
        exact: bool,
        pool: &ThreadPool,
    ) -> Result<(), E> {
        match self {
            Self::Sharded(sums) => sums.complete(peers, gradient),
            Self::LowRank(sums) => sums.sum(peers, gradient, exact, pool),
        }
    }
}

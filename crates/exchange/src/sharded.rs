//! Members that have links to each other, and sums sharded over all of them.
//!
//! Every chunk has an owner. All members send it theirs; it adds them in the order of the members and sends the sum to
//! all. So a vector is summed in two hops, each member sends and receives 2 (n - 1) / n of it, and because every chunk
//! is added once, by one, in one order, all members end with the same bits: those of one process with as many workers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bonfire_learn::{Gradient, Layout};
use bonfire_wire::payload::Precision;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, proto};
use bytes::Bytes;

use crate::chunks::Chunks;
use crate::codec::{ChunkEncoder, Parcel, ReceivedChunk, replace_chunk, sum_chunk};

/// One member's place among all, in one round.
pub struct Peers<'a, E> {
    pub index: usize,
    /// To every member; none to this one.
    pub links: &'a [Option<Outbox>],
    /// The next piece, and which member sent it.
    pub receive: &'a mut dyn FnMut() -> Result<(usize, proto::Piece, Bytes), E>,
    /// What came before it was wanted: others may be one exchange ahead.
    pub early: &'a mut Early,
    pub generation: u64,
    pub round: u64,
    /// Counts the exchanges of the round.
    pub step: u32,
}

/// Pieces of exchanges to come.
pub type Early = VecDeque<(usize, proto::Piece, Bytes)>;

/// A way for members to hear each other: over links, or by MPI.
pub trait Gather<E> {
    /// What every member has, in the order of the members. All have as many bytes.
    fn gather(&mut self, own: Bytes) -> Result<Vec<Bytes>, E>;
}

/// The two ways of an exchange: to the owners of chunks, and back.
const THERE: u32 = 0;
const BACK: u32 = 1;
const WAYS: u32 = 2;

/// No member can be so far ahead that more pieces of it have to wait.
const MOST_EARLY: usize = 1 << 16;

impl<E> fmt::Debug for Peers<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers")
            .field("index", &self.index)
            .field("round", &self.round)
            .finish_non_exhaustive()
    }
}

impl<E: From<Closed>> Peers<'_, E> {
    fn members(&self) -> usize {
        self.links.len()
    }

    fn others(&self) -> impl Iterator<Item = &Outbox> {
        self.links.iter().flatten()
    }

    fn send(&self, to: &Outbox, way: u32, index: usize, parcel: Parcel) -> Result<(), E> {
        let piece = proto::Piece {
            generation: self.generation,
            round: self.round,
            step: self.step * WAYS + way,
            index: index as u32,
            weight: parcel.weight,
            plain: parcel.is_plain,
        };
        Ok(to.send(Frame { body: Body::Piece(piece), payload: parcel.payload })?)
    }

    /// The next piece of this exchange: who sent it, on which way it is, which chunk it is.
    fn piece(&mut self) -> Result<(usize, u32, usize, Parcel), E> {
        let now = (self.round, self.step);
        let time = |piece: &proto::Piece| (piece.round, piece.step / WAYS);
        let place = self.early.iter().position(|(_, piece, _)| time(piece) == now);
        let mut next = place.and_then(|place| self.early.remove(place));
        loop {
            let (from, piece, payload) = match next.take() {
                Some(next) => next,
                None => (self.receive)()?,
            };
            if piece.generation != self.generation || time(&piece) < now {
                // Left over from an exchange that broke off.
                continue;
            }
            if time(&piece) > now {
                if self.early.len() >= MOST_EARLY {
                    return Err(Closed.into());
                }
                self.early.push_back((from, piece, payload));
                continue;
            }
            let parcel = Parcel { payload, is_plain: piece.plain, weight: piece.weight };
            return Ok((from, piece.step % WAYS, piece.index as usize, parcel));
        }
    }
}

impl<E: From<Closed>> Gather<E> for Peers<'_, E> {
    fn gather(&mut self, own: Bytes) -> Result<Vec<Bytes>, E> {
        let mut all = vec![None; self.members()];
        for other in self.others() {
            let parcel = Parcel { payload: own.clone(), is_plain: false, weight: 0.0 };
            self.send(other, THERE, self.index, parcel)?;
        }
        all[self.index] = Some(own);
        while all.iter().any(Option::is_none) {
            let (from, _, _, parcel) = self.piece()?;
            all[from] = Some(parcel.payload);
        }
        self.step += 1;
        Ok(all.into_iter().flatten().collect())
    }
}

/// What a member needs to sum gradients with the others, from round to round.
#[derive(Debug)]
pub struct ShardedSums {
    chunks: Arc<Chunks>,
    /// Of every chunk.
    owners: Vec<usize>,
    own: ChunkEncoder,
    sums: ChunkEncoder,
    total: Gradient,
    /// What came of the chunks of which this member is the owner.
    there: Vec<Vec<Option<Parcel>>>,
    /// Of which chunks the sum is here.
    is_done: Vec<bool>,
}

impl ShardedSums {
    pub fn new(layout: &Layout, precision: Precision) -> Self {
        let chunks = Arc::new(Chunks::of(layout));
        Self {
            owners: Vec::new(),
            own: ChunkEncoder::new(&chunks, precision),
            sums: ChunkEncoder::new(&chunks, precision),
            total: Gradient::new(layout),
            there: Vec::new(),
            is_done: Vec::new(),
            chunks,
        }
    }

    /// Shares the chunks out among members who each take such a part of them. What was lost in the sums so far stays
    /// lost: their owners are others.
    pub fn share_out(&mut self, parts: &[f64]) {
        self.owners = owners(&self.chunks, parts);
        self.sums.reset();
    }

    /// Values travel otherwise from now on. Every piece says how, so members need not agree on when that is.
    pub fn set_precision(&mut self, precision: Precision) {
        self.own.set_precision(precision);
        self.sums.set_precision(precision);
    }

    /// Forgets what was lost: what is summed from now on is of another kind.
    pub fn forget(&mut self) {
        self.own.reset();
        self.sums.reset();
    }

    /// No piece has more bytes.
    pub fn most_bytes(&self) -> usize {
        // Where all hear all, they hear half a mebibyte at a time, or which rows were touched: a bit each.
        self.chunks.most_bytes().max(1 << 20)
    }

    /// Replaces a member's gradient by the sum over all members. In an exact round nothing is rounded, and what was
    /// lost in earlier rounds is made up for.
    pub fn sum<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: &mut Gradient,
        exact: bool,
    ) -> Result<(), E> {
        let summed = self.exchange(peers, gradient, exact);
        match summed {
            Ok(()) => {
                self.own.commit();
                self.sums.commit();
                std::mem::swap(gradient, &mut self.total);
                peers.step += 1;
            }
            Err(_) => {
                self.own.roll_back();
                self.sums.roll_back();
            }
        }
        summed
    }

    fn exchange<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: &Gradient,
        exact: bool,
    ) -> Result<(), E> {
        self.total.clear();
        self.there.clear();
        self.there.resize_with(self.chunks.count(), || vec![None; peers.members()]);
        self.is_done.clear();
        self.is_done.resize(self.chunks.count(), false);
        let mut left = self.chunks.count();
        // What the last layers have learnt is ready first.
        for index in (0..self.chunks.count()).rev() {
            let parcel = match gradient.weight > 0.0 {
                true => self.own.encode(gradient, index, exact),
                false => Parcel { payload: Bytes::new(), is_plain: false, weight: 0.0 },
            };
            match &peers.links[self.owners[index]] {
                Some(owner) => peers.send(owner, THERE, index, parcel)?,
                None => left -= self.take(peers, peers.index, index, parcel, exact)?,
            }
        }
        while left > 0 {
            let (from, way, index, parcel) = peers.piece()?;
            let owner = self.owners.get(index).copied();
            match way {
                THERE if owner == Some(peers.index) => {
                    left -= self.take(peers, from, index, parcel, exact)?
                }
                BACK if owner == Some(from) && !self.is_done[index] => {
                    let chunk = &self.chunks[index];
                    let arrived = ReceivedChunk::read(chunk, &parcel).map_err(|_| Closed)?;
                    replace_chunk(chunk, &arrived, &mut self.total);
                    self.total.weight = parcel.weight;
                    self.is_done[index] = true;
                    left -= 1;
                }
                // A member with other chunks, or that says something twice, is none.
                _ => return Err(Closed.into()),
            }
        }
        self.total.finish();
        Ok(())
    }

    /// Takes what a member has of a chunk of this one's. Once all have come, the sum goes to all: returns 1 then.
    fn take<E: From<Closed>>(
        &mut self,
        peers: &Peers<'_, E>,
        from: usize,
        index: usize,
        parcel: Parcel,
        exact: bool,
    ) -> Result<usize, E> {
        if self.is_done[index] {
            return Err(Closed.into());
        }
        self.there[index][from] = Some(parcel);
        if self.there[index].iter().any(Option::is_none) {
            return Ok(0);
        }
        self.is_done[index] = true;
        let (chunk, there) = (&self.chunks[index], std::mem::take(&mut self.there[index]));
        let heavy: Vec<&Parcel> = there.iter().flatten().filter(|parcel| parcel.weight > 0.0).collect();
        let arrived: Result<Vec<ReceivedChunk<'_>>, Closed> =
            heavy.iter().map(|parcel| ReceivedChunk::read(chunk, parcel).map_err(|_| Closed)).collect();
        sum_chunk(chunk, &arrived?, &mut self.total);
        self.total.weight = heavy.iter().map(|parcel| parcel.weight).sum();
        let sum = self.sums.encode(&self.total, index, exact);
        for other in peers.others() {
            peers.send(other, BACK, index, sum.clone())?;
        }
        if self.sums.rounds() {
            // What the others will have.
            let arrived = ReceivedChunk::read(chunk, &sum).map_err(|_| Closed)?;
            replace_chunk(chunk, &arrived, &mut self.total);
        }
        Ok(1)
    }
}

/// Who owns which chunk, if each member is to own such a part of all values.
fn owners(chunks: &Chunks, parts: &[f64]) -> Vec<usize> {
    let mut owned = vec![0.0; parts.len()];
    let mut give = |len: usize| {
        let load = |member: usize| (owned[member] + len as f64) / parts[member];
        let member = (0..parts.len()).filter(|&member| parts[member] > 0.0);
        let member = member.min_by(|&a, &b| load(a).total_cmp(&load(b))).unwrap_or(0);
        owned[member] += len as f64;
        member
    };
    chunks.iter().map(|chunk| give(chunk.range.len())).collect()
}

#[cfg(test)]
mod tests;

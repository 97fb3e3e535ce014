//! Sums sharded over all members of a group.
//!
//! Every chunk has an owner: a member, or a server, which only sums. All members send it theirs; it adds them in the
//! order of the members and sends the sum to all. So a vector is summed in two hops, each member sends and receives
//! 2 (n - 1) / n of it, and because every chunk is added once, by one, in one order, all members end with the same
//! bits: those of one process with as many workers.

use std::sync::Arc;

use bonfire_learn::{Gradient, Layout};
use bonfire_wire::Closed;
use bytes::Bytes;

use crate::chunks::{Chunk, Chunks};
use crate::codec::{ChunkEncoder, Coding, Parcel};
use crate::lent::{LentGradients, OwnGradient};
use crate::owners::{self, order, owners, window};
use crate::peers::{BACK, Peers, THERE};
use crate::received::{ReceivedChunk, replace_chunk, sum_chunk};

/// What a member needs to sum gradients with the others, from round to round.
#[derive(Debug)]
pub struct ShardedSums {
    layout: Layout,
    /// As a layout is cut, and as it is now.
    cut: Arc<Chunks>,
    chunks: Arc<Chunks>,
    /// Which part of all every member is to carry.
    parts: Vec<f64>,
    /// Of every chunk.
    owners: Vec<usize>,
    /// The bytes of every sum: of tables they are known when they are there.
    loads: Vec<usize>,
    own: ChunkEncoder,
    sums: ChunkEncoder,
    total: Gradient,
    lent: LentGradients,
    /// What came of the chunks of which this member is the owner.
    there: Vec<Vec<Option<Parcel>>>,
    /// Of which chunks the sum is here.
    is_done: Vec<bool>,
    /// The order in which this member sends its chunks, and how many it has sent.
    order: Vec<usize>,
    sent: usize,
    /// How many chunks may be on their way at a time.
    window: usize,
    /// How many sums are not here yet.
    left: usize,
    /// Whether nothing is rounded in this exchange.
    exact: bool,
}

impl ShardedSums {
    pub fn new(layout: &Layout, coding: Coding) -> Self {
        let chunks = Arc::new(Chunks::of(layout));
        Self {
            parts: Vec::new(),
            owners: Vec::new(),
            loads: Vec::new(),
            own: ChunkEncoder::new(&chunks, coding),
            sums: ChunkEncoder::new(&chunks, coding.of_sums()),
            total: Gradient::new(layout),
            lent: LentGradients::default(),
            there: Vec::new(),
            is_done: Vec::new(),
            order: Vec::new(),
            sent: 0,
            window: 0,
            left: 0,
            exact: false,
            layout: layout.clone(),
            cut: Arc::clone(&chunks),
            chunks,
        }
    }

    /// Shares the chunks out among members who each take such a part of them. What was lost in the sums so far stays
    /// lost: their owners are others.
    pub fn share_out(&mut self, parts: &[f64]) {
        let chunks = Arc::clone(&self.cut);
        self.share_out_chunks(chunks, parts);
    }

    /// The same where links count for nothing and every frame takes processors time: chunks are few and large. What
    /// rounding makes of values, and loses of them, goes by chunks: then they stay as they are.
    pub fn share_out_few(&mut self, parts: &[f64]) {
        let chunks = match self.own.rounds() {
            true => Arc::clone(&self.cut),
            false => Arc::new(Chunks::few(&self.layout, parts.len())),
        };
        self.share_out_chunks(chunks, parts);
    }

    fn share_out_chunks(&mut self, chunks: Arc<Chunks>, parts: &[f64]) {
        if !Arc::ptr_eq(&chunks, &self.chunks) {
            self.own.set_chunks(&chunks);
            self.sums.set_chunks(&chunks);
        }
        self.chunks = chunks;
        self.parts = parts.to_vec();
        self.loads = self.chunks.iter().map(Chunk::load).collect();
        self.owners = owners(&self.loads, parts);
        self.sums.reset();
    }

    /// Shares the chunks out again by the bytes of their last sums, which are the same for all members. Only where
    /// nothing was lost: what was lost of a sum is known to its owner alone.
    fn even_out(&mut self) {
        if self.exact || !self.sums.rounds() {
            self.owners = owners(&self.loads, &self.parts);
        }
    }

    /// Values travel otherwise from now on. Every piece says how, so members need not agree on when that is.
    pub fn set_coding(&mut self, coding: Coding) {
        self.own.set_coding(coding);
        self.sums.set_coding(coding.of_sums());
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
        self.begin(peers, exact);
        self.complete(peers, gradient)
    }

    /// Begins a sum, for [`advance`](Self::advance) and [`complete`](Self::complete).
    pub fn begin<E: From<Closed>>(&mut self, peers: &Peers<'_, E>, exact: bool) {
        self.total.clear();
        self.there.clear();
        self.there.resize_with(self.chunks.count(), || vec![None; peers.members()]);
        self.is_done.clear();
        self.is_done.resize(self.chunks.count(), false);
        self.order = order(&self.owners, peers.index, self.parts.len());
        self.window = window(self.chunks.count(), self.loads.iter().sum(), peers.members());
        (self.sent, self.left, self.exact) = (0, self.chunks.count(), exact);
    }

    /// Sends what is settled of a gradient that is still being computed, from a place on, and takes what has come.
    pub fn advance<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: &Gradient,
        settled_from: usize,
    ) -> Result<(), E> {
        let advanced = self.exchange(peers, OwnGradient::InWork(gradient), settled_from, false);
        if advanced.is_err() {
            self.roll_back();
        }
        advanced
    }

    /// Waits for what is missing, and replaces the gradient by the sum.
    pub fn complete<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: &mut Gradient,
    ) -> Result<(), E> {
        let own = Arc::new(std::mem::replace(gradient, Gradient::new(&Layout::default())));
        let summed = self.exchange(peers, OwnGradient::Done(&own), 0, true);
        match summed {
            Ok(()) => {
                self.own.commit();
                if self.exact {
                    // Who had nothing to send in this round could not make up for anything.
                    self.own.reset();
                }
                self.sums.commit();
                if peers.servers.is_empty() {
                    // Servers do not hear of all sums.
                    self.even_out();
                }
                self.total.finish();
                let next = self.lent.replace(own, &self.total);
                *gradient = std::mem::replace(&mut self.total, next);
                peers.step += 1;
            }
            Err(_) => {
                self.roll_back();
                *gradient = Arc::unwrap_or_clone(own);
            }
        }
        summed
    }

    /// Sums the chunks of a server for all members, in an exchange in which it has nothing of its own.
    pub fn serve<E: From<Closed>>(&mut self, peers: &mut Peers<'_, E>, exact: bool) -> Result<(), E> {
        self.begin(peers, exact);
        self.left = self.owners.iter().filter(|&&owner| owner == peers.index).count();
        let served = self.serve_chunks(peers);
        match served {
            Ok(()) => {
                self.sums.commit();
                peers.step += 1;
            }
            Err(_) => self.roll_back(),
        }
        served
    }

    fn serve_chunks<E: From<Closed>>(&mut self, peers: &mut Peers<'_, E>) -> Result<(), E> {
        let nothing = Gradient::new(&Layout::default());
        while self.left > 0 {
            let Some((from, way, index, parcel)) = peers.piece(true)? else { break };
            if way != THERE || self.owners.get(index) != Some(&peers.index) {
                return Err(Closed.into());
            }
            let parcel = parcel.unpacked(&self.chunks[index]).map_err(|_| Closed)?;
            self.take(peers, from, index, parcel, &nothing)?;
        }
        Ok(())
    }

    fn roll_back(&mut self) {
        self.own.roll_back();
        self.sums.roll_back();
    }

    /// Sends and takes chunks until all sums are here, or for as long as there is something to do without waiting.
    fn exchange<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: OwnGradient<'_>,
        settled_from: usize,
        wait: bool,
    ) -> Result<(), E> {
        while self.left > 0 {
            self.send_settled(peers, gradient, settled_from)?;
            if self.left == 0 {
                break;
            }
            let Some((from, way, index, parcel)) = peers.piece(wait)? else { break };
            let Some(&owner) = self.owners.get(index) else { return Err(Closed.into()) };
            let load = parcel.payload.len();
            let parcel = parcel.unpacked(&self.chunks[index]).map_err(|_| Closed)?;
            match way {
                THERE if owner == peers.index => self.take(peers, from, index, parcel, &gradient)?,
                BACK if owner == from && !self.is_done[index] => {
                    let chunk = &self.chunks[index];
                    let arrived = ReceivedChunk::read(chunk, &parcel).map_err(|_| Closed)?;
                    replace_chunk(chunk, &arrived, &mut self.total);
                    self.total.weight = parcel.weight;
                    self.sum_is_here(index, load);
                }
                // A member with other chunks, or that says something twice, is none.
                _ => return Err(Closed.into()),
            }
        }
        Ok(())
    }

    /// Sends the next chunks that are settled, as long as not too many are on their way. What comes back makes room for
    /// more: so both directions of a link are busy at a time, and no member's chunks lag behind the others'.
    fn send_settled<E: From<Closed>>(
        &mut self,
        peers: &mut Peers<'_, E>,
        gradient: OwnGradient<'_>,
        settled_from: usize,
    ) -> Result<(), E> {
        while self.sent < self.chunks.count() - self.left + self.window
            && let Some(&index) = self.order.get(self.sent)
            && self.chunks[index].range.start >= settled_from
        {
            self.sent += 1;
            let is_own = self.owners[index] == peers.index;
            let parcel = match gradient.weight > 0.0 {
                // It is summed from where it lies.
                true if is_own && self.own.sums_as_is(index) => {
                    Parcel { payload: Bytes::new(), is_plain: true, weight: gradient.weight }
                }
                true if is_own => self.own.encode_unpacked(&gradient, index, self.exact),
                true => self.own.lend(gradient, index, self.exact),
                false => Parcel { payload: Bytes::new(), is_plain: false, weight: 0.0 },
            };
            match peers.owner(self.owners[index]) {
                Some(owner) => peers.send(owner, THERE, index, parcel)?,
                None => self.take(peers, peers.index, index, parcel, &gradient)?,
            }
        }
        Ok(())
    }

    fn sum_is_here(&mut self, index: usize, load: usize) {
        self.is_done[index] = true;
        self.loads[index] = owners::load(load);
        self.left -= 1;
    }

    /// Takes what a member has of a chunk of this one's. Once all have come, the sum goes to all.
    fn take<E: From<Closed>>(
        &mut self,
        peers: &Peers<'_, E>,
        from: usize,
        index: usize,
        parcel: Parcel,
        gradient: &Gradient,
    ) -> Result<(), E> {
        if self.is_done[index] {
            return Err(Closed.into());
        }
        self.there[index][from] = Some(parcel);
        if self.there[index].iter().any(Option::is_none) {
            return Ok(());
        }
        let there = std::mem::take(&mut self.there[index]);
        let sum = match self.sums.sums_as_is(index) {
            true => self.sum_as_is(peers.index, index, &there, gradient)?,
            false => self.sum_parcels(index, &there)?,
        };
        for other in peers.others() {
            peers.send(other, BACK, index, sum.clone())?;
        }
        self.sum_is_here(index, sum.payload.len());
        Ok(())
    }

    /// The sum of a chunk that came as it is. This member's own part is where it was computed.
    fn sum_as_is(
        &mut self,
        own: usize,
        index: usize,
        there: &[Option<Parcel>],
        gradient: &Gradient,
    ) -> Result<Parcel, Closed> {
        let range = self.chunks[index].range.clone();
        let mut parts: Vec<&[u8]> = Vec::with_capacity(there.len());
        let mut weight = 0.0;
        for (member, parcel) in there.iter().enumerate() {
            let Some(parcel) = parcel.as_ref().filter(|parcel| parcel.weight > 0.0) else { continue };
            let part = match member == own {
                true => bytemuck::cast_slice(&gradient.values[range.clone()]),
                false => &parcel.payload[..],
            };
            if !parcel.is_plain || part.len() != range.len() * 4 {
                return Err(Closed);
            }
            parts.push(part);
            weight += parcel.weight;
        }
        self.total.weight = weight;
        Ok(self.sums.sum_as_is(index, &parts, weight, &mut self.total))
    }

    fn sum_parcels(&mut self, index: usize, there: &[Option<Parcel>]) -> Result<Parcel, Closed> {
        let chunk = &self.chunks[index];
        let heavy: Vec<&Parcel> = there.iter().flatten().filter(|parcel| parcel.weight > 0.0).collect();
        let arrived: Result<Vec<ReceivedChunk<'_>>, Closed> =
            heavy.iter().map(|parcel| ReceivedChunk::read(chunk, parcel).map_err(|_| Closed)).collect();
        sum_chunk(chunk, &arrived?, &mut self.total);
        self.total.weight = heavy.iter().map(|parcel| parcel.weight).sum();
        let sum = self.sums.encode(&self.total, index, self.exact);
        if self.sums.rounds() {
            // What the others will have.
            let arrived = ReceivedChunk::read(chunk, &sum).map_err(|_| Closed)?;
            replace_chunk(chunk, &arrived, &mut self.total);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests;

//! Members that have links to each other: what one says to another in an exchange, and hears from all.

use std::collections::VecDeque;
use std::fmt;

use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, proto};
use bytes::Bytes;

use crate::codec::Parcel;

/// One member's place among all, in one round.
pub struct Peers<'a, E> {
    pub index: usize,
    /// To every member; none to this one.
    pub links: &'a [Option<Outbox>],
    /// To every server. They are counted after the members.
    pub servers: &'a [Outbox],
    pub receive: Receive<'a, E>,
    /// What came before it was wanted: others may be one exchange ahead.
    pub early: &'a mut Early,
    pub generation: u64,
    pub round: u64,
    /// Counts the exchanges of the round.
    pub step: u32,
}

/// The next piece, and which member sent it. Told to wait, it comes back with one or fails.
pub type Receive<'a, E> = &'a mut (dyn FnMut(bool) -> Result<Option<(usize, proto::Piece, Bytes)>, E> + Send);

/// Pieces of exchanges to come.
pub type Early = VecDeque<(usize, proto::Piece, Bytes)>;

/// A way for members to hear each other: over links, or by MPI.
pub trait Gather<E> {
    /// What every member has, in the order of the members. All have as many bytes.
    fn gather(&mut self, own: Bytes) -> Result<Vec<Bytes>, E>;
}

/// The two ways of an exchange: to the owners of chunks, and back.
pub(crate) const THERE: u32 = 0;
pub(crate) const BACK: u32 = 1;
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
    pub(crate) fn members(&self) -> usize {
        self.links.len()
    }

    /// To the owner of a chunk; none if that is this one.
    pub(crate) fn owner(&self, owner: usize) -> Option<&Outbox> {
        match owner.checked_sub(self.members()) {
            Some(server) => self.servers.get(server),
            None => self.links[owner].as_ref(),
        }
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = &Outbox> {
        self.links.iter().flatten()
    }

    pub(crate) fn send(&self, to: &Outbox, way: u32, index: usize, parcel: Parcel) -> Result<(), E> {
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

    /// The next piece of this exchange: who sent it, on which way it is, which chunk it is. None only if it is not to
    /// wait for one.
    pub(crate) fn piece(&mut self, wait: bool) -> Result<Option<(usize, u32, usize, Parcel)>, E> {
        let now = (self.round, self.step);
        let time = |piece: &proto::Piece| (piece.round, piece.step / WAYS);
        let place = self.early.iter().position(|(_, piece, _)| time(piece) == now);
        let mut next = place.and_then(|place| self.early.remove(place));
        loop {
            let (from, piece, payload) = match next.take() {
                Some(next) => next,
                None => match (self.receive)(wait)? {
                    Some(next) => next,
                    None => return Ok(None),
                },
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
            return Ok(Some((from, piece.step % WAYS, piece.index as usize, parcel)));
        }
    }
}

impl<E: From<Closed>> Peers<'_, E> {
    /// Sends something to the next member, and tells when that has said that it is there. Takes what the one before
    /// sends, and says the same of it.
    pub fn pass_on(&mut self, payload: Bytes, mut tell: impl FnMut()) -> Result<(), E> {
        let parcel = |payload: Bytes| Parcel { payload, is_plain: false, weight: 0.0 };
        let next = (self.index + 1) % self.members();
        if let Some(next) = &self.links[next] {
            self.send(next, THERE, self.index, parcel(payload))?;
            let (mut is_there, mut is_taken) = (false, false);
            while !is_there || !is_taken {
                let Some((from, way, _, _)) = self.piece(true)? else { continue };
                if way == BACK {
                    tell();
                    is_there = true;
                }
                if way == THERE
                    && let Some(before) = &self.links[from]
                {
                    self.send(before, BACK, self.index, parcel(Bytes::new()))?;
                    is_taken = true;
                }
            }
        }
        self.step += 1;
        Ok(())
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
            if let Some((from, _, _, parcel)) = self.piece(true)? {
                all[from] = Some(parcel.payload);
            }
        }
        self.step += 1;
        Ok(all.into_iter().flatten().collect())
    }
}

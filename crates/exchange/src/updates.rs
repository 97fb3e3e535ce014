//! How a member of a server is kept up to date: by sums of gradients, by parameters, or by a whole state.

use anyhow::{Context, Result, ensure};
use bonfire_learn::{Gradient, Layout};
use bonfire_run::replica::{Replica, StepSize};
use bonfire_wire::proto;
use bytes::Bytes;

use crate::chunks::Chunks;
use crate::codec::Parcel;
use crate::parameters::put_parameters;
use crate::received::{ReceivedChunk, replace_chunk};
use crate::state::Intake;

/// What a piece between a server and its members is.
pub mod step {
    /// A chunk of a member's gradient.
    pub const PUSH: u32 = 0;
    /// A chunk of the sum that the members apply.
    pub const SUM: u32 = 1;
    /// Parameters, or those of a chunk that changed.
    pub const PARAMETERS: u32 = 2;
}

/// Whether what is new is a sum over all members: of their gradients, or of how far they went.
pub fn is_sum(news: proto::News) -> bool {
    matches!(news, proto::News::Update | proto::News::Together)
}

/// What is new to a member, on its way into its replica.
#[derive(Debug)]
pub struct Updates {
    chunks: Chunks,
    /// The sum that is coming in.
    sum: Gradient,
    /// The version that it makes, and which attempt at it this is.
    coming: (u64, u64),
    has: Vec<bool>,
    /// Parameters that came, by chunk; they count from the next order on.
    parameters: Vec<(usize, Parcel)>,
    /// The state that is coming in, of a member that is behind.
    state: Option<Intake>,
    clip: Option<f32>,
}

impl Updates {
    pub fn new(layout: &Layout, clip: Option<f32>) -> Self {
        let chunks = Chunks::of(layout);
        let has = vec![false; chunks.count()];
        Self {
            chunks,
            sum: Gradient::new(layout),
            coming: (0, 0),
            has,
            parameters: Vec::new(),
            state: None,
            clip,
        }
    }

    /// Takes a piece of what is new.
    pub fn piece(&mut self, piece: &proto::Piece, payload: Bytes) -> Result<()> {
        let index = piece.index as usize;
        ensure!(index < self.chunks.count(), "there is no chunk {index}");
        let chunk = &self.chunks[index];
        let parcel = Parcel { payload, is_plain: piece.plain, weight: piece.weight };
        if piece.step == step::PARAMETERS {
            ensure!(self.parameters.len() < self.chunks.count(), "a chunk of parameters came twice");
            self.parameters.push((index, parcel));
            return Ok(());
        }
        let parcel = parcel.unpacked(chunk)?;
        let attempt = (piece.round, piece.generation);
        if attempt != self.coming {
            self.sum.clear();
            self.has.fill(false);
            self.coming = attempt;
        }
        replace_chunk(chunk, &ReceivedChunk::read(chunk, &parcel)?, &mut self.sum);
        self.has[index] = true;
        Ok(())
    }

    /// How many chunks have come of the sum that makes a version.
    pub fn arrived(&self, version: u64) -> usize {
        if self.coming.0 == version { self.has.iter().filter(|has| **has).count() } else { 0 }
    }

    /// Brings the replica to the version that `go` says. Of a member that is behind, only what it has of the state.
    pub fn apply(&mut self, replica: &mut Replica, go: &proto::Go) -> Result<()> {
        for (index, parcel) in std::mem::take(&mut self.parameters) {
            put_parameters(&self.chunks[index], &parcel, &mut replica.parameters)?;
        }
        if !is_sum(go.news()) {
            return Ok(());
        }
        ensure!(self.coming.0 == go.version && self.has.iter().all(|has| *has), "the update is not whole");
        self.sum.weight = go.weight;
        self.sum.finish();
        let (sum, step) = (std::slice::from_ref(&self.sum), StepSize { lr: go.lr, clip: self.clip });
        match self.state.as_ref().map_or(replica.parameters.len(), |state| state.have) {
            // The state will come as it is after this update.
            0 => {}
            have if go.news() == proto::News::Together => replica.step_together_first(have, sum),
            have => replica.step_first(have, sum, step),
        }
        self.coming = (0, 0);
        Ok(())
    }

    /// Whether the replica has only a part of the state.
    pub fn is_behind(&self) -> bool {
        self.state.is_some()
    }

    /// Begins to take a state: what to ask for first.
    pub fn take_state(&mut self, replica: &Replica) -> Vec<proto::StateWanted> {
        self.state.insert(Intake::moving(replica)).wanted()
    }

    /// Takes a piece of a state. What to ask for next; none if the state is whole.
    pub fn state(
        &mut self,
        replica: &mut Replica,
        piece: &proto::State,
        payload: &[u8],
    ) -> Result<Option<Vec<proto::StateWanted>>> {
        let intake = self.state.as_mut().context("no state was asked for")?;
        intake.take(replica, piece, payload)?;
        if !intake.is_whole() {
            return Ok(Some(intake.wanted()));
        }
        self.state = None;
        Ok(None)
    }
}

#[cfg(test)]
mod tests;

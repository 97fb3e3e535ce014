//! What a server makes of its members' pushes: sums of chunks, each as soon as all have pushed it.
//!
//! Which pushes make an update is decided when they are whole. Where all members are waited for anyway, the sum of a
//! chunk is made ahead, and can be on its way back while other chunks come in. If it turns out that somebody is missing
//! after all, everything is summed again, as another attempt, which takes the place of the one before.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use bonfire_learn::{Gradient, Layout};
use bonfire_wire::proto;
use bytes::Bytes;

use crate::chunks::Chunks;
use crate::codec::{ChunkEncoder, Coding, Parcel};
use crate::received::{ReceivedChunk, add_chunk, replace_chunk, sum_chunk};

/// A member and the order that it answers.
pub type Answer = (u64, u64);

/// Pushes on their way in, and their sum.
#[derive(Debug)]
pub struct Collector {
    chunks: Arc<Chunks>,
    encoder: ChunkEncoder,
    /// The sum, as all will have it.
    pub total: Gradient,
    pushes: BTreeMap<Answer, Pushed>,
    /// Whose sum is made, and as which attempt.
    answers: Vec<Answer>,
    attempt: u64,
    /// The chunks of the sum that are made.
    sums: Vec<Option<Parcel>>,
}

#[derive(Debug)]
struct Pushed {
    attempt: u64,
    parcels: Vec<Option<Parcel>>,
}

/// A sum that is whole.
#[derive(Clone, Debug)]
pub struct Summed {
    pub attempt: u64,
    pub weight: f64,
    pub parcels: Vec<Parcel>,
    /// Which of them were made ahead, in this attempt.
    pub is_ahead: Vec<bool>,
}

impl Collector {
    pub fn new(layout: &Layout, coding: Coding) -> Self {
        let chunks = Arc::new(Chunks::of(layout));
        Self {
            encoder: ChunkEncoder::new(&chunks, coding.of_sums()),
            total: Gradient::new(layout),
            pushes: BTreeMap::new(),
            answers: Vec::new(),
            attempt: 0,
            sums: vec![None; chunks.count()],
            chunks,
        }
    }

    /// Sums travel otherwise from now on. What was lost so far stays lost.
    pub fn set_coding(&mut self, coding: Coding) {
        self.encoder.set_coding(coding.of_sums());
    }

    /// Forgets what was lost so far: it is of another kind of sums.
    pub fn reset(&mut self) {
        self.encoder.reset();
    }

    /// How many chunks a push has.
    pub fn chunks(&self) -> usize {
        self.chunks.count()
    }

    /// No chunk has more bytes.
    pub fn most_bytes(&self) -> usize {
        self.chunks.most_bytes()
    }

    /// Takes a chunk of a member's push.
    pub fn take(&mut self, member: u64, piece: &proto::Piece, payload: Bytes) -> Result<()> {
        let (answer, index) = ((member, piece.round), piece.index as usize);
        ensure!(index < self.chunks.count(), "it has chunk {index} of {}", self.chunks.count());
        let parcel = Parcel { payload, is_plain: piece.plain, weight: piece.weight };
        ensure!(parcel.weight.is_finite() && parcel.weight >= 0.0, "it weighs {}", parcel.weight);
        let parcel = parcel.unpacked(&self.chunks[index])?;
        if parcel.weight > 0.0 {
            let arrived = ReceivedChunk::read(&self.chunks[index], &parcel)?;
            ensure!(arrived.is_finite(), "it has values that are no numbers");
        }
        let new = || Pushed { attempt: piece.generation, parcels: vec![None; self.chunks.count()] };
        let pushed = self.pushes.entry(answer).or_insert_with(new);
        if piece.generation < pushed.attempt {
            return Ok(());
        }
        let is_other = piece.generation > pushed.attempt || pushed.parcels[index].is_some();
        if piece.generation > pushed.attempt {
            *pushed = new();
        }
        pushed.parcels[index] = Some(parcel);
        if is_other && self.answers.contains(&answer) {
            // It is not what was summed.
            self.begin(Vec::new());
        }
        Ok(())
    }

    /// Whether a push is whole: what is wrong with it, if it is not.
    pub fn check(&self, answer: Answer, weight: f64) -> Result<()> {
        let Some(pushed) = self.pushes.get(&answer) else {
            ensure!(weight == 0.0, "none of its chunks has come");
            return Ok(());
        };
        for parcel in &pushed.parcels {
            match parcel {
                Some(parcel) if parcel.weight == weight => {}
                Some(parcel) => bail!("a chunk of it weighs {} instead of {weight}", parcel.weight),
                None => bail!("a chunk of it is missing"),
            }
        }
        Ok(())
    }

    /// A push that nobody will ask for.
    pub fn discard(&mut self, answer: Answer) {
        self.pushes.remove(&answer);
    }

    /// Discards the pushes of a member, but for those that are to be kept.
    pub fn forget(&mut self, member: u64, is_kept: impl Fn(&Answer) -> bool) {
        self.pushes.retain(|answer, _| answer.0 != member || is_kept(answer));
    }

    /// The sum of a chunk over some pushes, if all of them have it and it was not made before. With it the attempt.
    pub fn sum_ahead(&mut self, answers: &[Answer], index: usize, exact: bool) -> Option<(u64, Parcel)> {
        let has = |answer| {
            self.pushes
                .get(answer)
                .is_some_and(|pushed| pushed.parcels.get(index).is_some_and(Option::is_some))
        };
        if !answers.iter().all(has) {
            return None;
        }
        if self.answers != answers {
            self.begin(answers.to_vec());
        }
        if self.sums[index].is_some() {
            return None;
        }
        self.sum(index, exact);
        self.sums[index].clone().map(|parcel| (self.attempt, parcel))
    }

    /// The whole sum of some pushes, in their order; those of members that have pushed nothing count for nothing. They
    /// are gone then.
    pub fn finish(&mut self, answers: &[Answer], exact: bool) -> Summed {
        if self.answers != answers {
            self.begin(answers.to_vec());
        }
        let is_ahead = self.sums.iter().map(Option::is_some).collect();
        for index in 0..self.chunks.count() {
            if self.sums[index].is_none() {
                self.sum(index, exact);
            }
        }
        self.total.finish();
        self.encoder.commit();
        let summed = Summed {
            attempt: self.attempt,
            weight: self.total.weight,
            parcels: self.sums.iter().flatten().cloned().collect(),
            is_ahead,
        };
        answers.iter().for_each(|&answer| self.discard(answer));
        self.begin(Vec::new());
        summed
    }

    /// Another attempt, at the sum of other pushes.
    fn begin(&mut self, answers: Vec<Answer>) {
        self.encoder.roll_back();
        self.answers = answers;
        self.attempt += 1;
        self.sums.iter_mut().for_each(|sum| *sum = None);
        if !self.answers.is_empty() {
            self.total.clear();
        }
    }

    fn sum(&mut self, index: usize, exact: bool) {
        let chunk = &self.chunks[index];
        let pushed = self.answers.iter().filter_map(|answer| self.pushes.get(answer));
        let parcels = pushed.filter_map(|pushed| pushed.parcels[index].as_ref());
        let heavy: Vec<&Parcel> = parcels.filter(|parcel| parcel.weight > 0.0).collect();
        // Read before, when they came.
        let arrived: Vec<ReceivedChunk<'_>> =
            heavy.iter().filter_map(|parcel| ReceivedChunk::read(chunk, parcel).ok()).collect();
        sum_chunk(chunk, &arrived, &mut self.total);
        self.total.weight = heavy.iter().map(|parcel| parcel.weight).sum();
        let sum = self.encoder.encode(&self.total, index, exact);
        if self.encoder.rounds()
            && let Ok(arrived) = ReceivedChunk::read(chunk, &sum)
        {
            // The server applies what its members apply.
            replace_chunk(chunk, &arrived, &mut self.total);
        }
        self.sums[index] = Some(sum);
    }

    /// Adds a push to a sum of its own, at once.
    pub fn accumulate(&mut self, answer: Answer, total: &mut Gradient) -> Result<()> {
        let Some(pushed) = self.pushes.remove(&answer) else { return Ok(()) };
        let weight = pushed.parcels.iter().flatten().map(|parcel| parcel.weight).next().unwrap_or(0.0);
        if weight == 0.0 {
            return Ok(());
        }
        for (chunk, parcel) in self.chunks.iter().zip(pushed.parcels.iter().flatten()) {
            add_chunk(chunk, &ReceivedChunk::read(chunk, parcel)?, total);
        }
        total.weight += weight;
        Ok(())
    }
}

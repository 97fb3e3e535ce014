//! The members of a group: every chunk has an owner, who sums it and sends it to all.
//!
//! The same chunks with the same owners leave in the same order and through the same window as those of
//! [`ShardedSums`](bonfire_exchange::sharded::ShardedSums), by its own functions.

use std::collections::{BTreeMap, VecDeque};

use bonfire_exchange::codec::Coding;
use bonfire_exchange::owners;

use super::figures::{CodecFigures, Work};
use super::script::Stage;
use super::traffic::{Exchange, Parcels};
use super::world::{FRAME_BYTES, Frame, Word, World};

/// What a process has done beyond this is worked off before it goes on: what takes less makes no difference.
pub(super) const AT_A_TIME: f64 = 20e-6;

/// One member of a group.
#[derive(Debug)]
pub(super) struct Member {
    process: usize,
    index: usize,
    members: usize,
    /// Which part of all chunks each of them sums, and after them each server.
    parts: Vec<f64>,
    /// Who hears that a round is done.
    head: usize,
    codecs: [CodecFigures; 2],
    /// The rounds to come: what is done, and which exchanges of all they have.
    rounds: VecDeque<(Vec<Stage>, Vec<usize>)>,
    stage: usize,
    /// Counts the exchanges so far.
    exchange: u32,
    summing: Option<Summing>,
    /// What came before it was wanted.
    early: BTreeMap<u32, VecDeque<Frame>>,
    /// Seconds of a core that are not worked off yet.
    debt: f64,
    pub books: Books,
}

/// What came of the rounds of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Books {
    /// When each was done.
    pub ends: Vec<f64>,
    /// How long it worked in each.
    pub busy_s: Vec<f64>,
    /// What all links had carried by then.
    pub carried: Vec<f64>,
    busy_so_far: f64,
    began: Option<f64>,
}

impl Books {
    /// Begins to work.
    pub(super) fn begin(&mut self, now: f64) {
        self.began.get_or_insert(now);
    }

    /// Has worked.
    pub(super) fn rest(&mut self, now: f64) {
        if let Some(began) = self.began.take() {
            self.busy_so_far += now - began;
        }
    }

    pub(super) fn end_round(&mut self, world: &World) {
        self.ends.push(world.now);
        self.busy_s.push(std::mem::take(&mut self.busy_so_far));
        self.carried.push(world.carried);
    }
}

/// What it takes to sum a chunk of so many workers, and to write the sum. Who rounds it takes what the others will
/// have.
pub(super) fn sum_s(codec: &CodecFigures, exchange: &Exchange, chunk: usize, workers: usize) -> f64 {
    let traffic = &exchange.chunks[chunk];
    let rounded = if exchange.rounds() { codec.replace_s } else { 0.0 };
    codec.add_s * traffic.there.floats * workers as f64 + (codec.encode_s + rounded) * traffic.back.floats
}

/// An exchange that goes on.
#[derive(Debug)]
struct Summing {
    owners: Vec<usize>,
    order: Vec<usize>,
    /// How many chunks may be on their way at a time.
    window: usize,
    sent: usize,
    left: usize,
    /// How many members' part of each chunk is here.
    there: Vec<usize>,
}

enum Turn {
    On,
    Waits,
    Over,
}

impl Member {
    /// `codecs` are that of the run, and that of exact rounds and factors.
    pub(super) fn new(
        (process, index): (usize, usize),
        (parts, members, head): (&[f64], usize, usize),
        codecs: [CodecFigures; 2],
        rounds: VecDeque<(Vec<Stage>, Vec<usize>)>,
    ) -> Self {
        Self {
            process,
            index,
            members,
            parts: parts.to_vec(),
            head,
            codecs,
            rounds,
            stage: 0,
            exchange: 0,
            summing: None,
            early: BTreeMap::new(),
            debt: 0.0,
            books: Books::default(),
        }
    }

    /// Goes on as far as it can.
    pub(super) fn wake(&mut self, world: &mut World, exchanges: &[Exchange]) {
        if world.is_busy(self.process) {
            return;
        }
        self.books.rest(world.now);
        while let Some((stages, of)) = self.rounds.front() {
            let Some(&stage) = stages.get(self.stage) else {
                self.end_round(world);
                continue;
            };
            let (exchange, settled_from, waits) = match stage {
                Stage::Work(work) => {
                    self.stage += 1;
                    return self.work(world, work);
                }
                Stage::Advance { exchange, settled_from } => (of[exchange], settled_from, false),
                Stage::Complete { exchange } => (of[exchange], 0, true),
            };
            if self.debt > AT_A_TIME {
                return self.work_off(world);
            }
            match self.turn(world, &exchanges[exchange], settled_from) {
                Turn::On => {}
                Turn::Waits if waits => {
                    return if self.debt > 0.0 {
                        self.work_off(world)
                    };
                }
                Turn::Over if waits => {
                    self.summing = None;
                    self.exchange += 1;
                    self.stage += 1;
                }
                Turn::Waits | Turn::Over => self.stage += 1,
            }
        }
    }

    fn work(&mut self, world: &mut World, work: Work) {
        // What is left of sending and taking is done on one core.
        let debt = std::mem::take(&mut self.debt);
        let width = if work.core_s > debt { work.width } else { 1.0 };
        self.books.begin(world.now);
        world.work(self.process, work.core_s + debt, width);
    }

    fn work_off(&mut self, world: &mut World) {
        self.work(world, Work { core_s: 0.0, width: 1.0 });
    }

    fn end_round(&mut self, world: &mut World) {
        self.rounds.pop_front();
        self.stage = 0;
        self.books.end_round(world);
        let (from, to, word) = (self.process, self.head, Word::Pushed);
        world.send(Frame { from, to, word, exchange: 0, chunk: 0, bytes: FRAME_BYTES });
    }

    /// The next thing of an exchange.
    fn turn(&mut self, world: &mut World, exchange: &Exchange, settled_from: usize) -> Turn {
        if self.summing.is_none() {
            let owners = exchange.owners(&self.parts);
            let order = owners::order(&owners, self.index, self.parts.len());
            let (count, sent) = (exchange.chunks.len(), 0);
            let window = owners::window(count, exchange.loads.iter().sum(), self.members);
            self.summing = Some(Summing { owners, order, window, sent, left: count, there: vec![0; count] });
        }
        let Some(summing) = &mut self.summing else { return Turn::Over };
        if summing.left == 0 {
            return Turn::Over;
        }
        let count = exchange.chunks.len();
        if summing.sent < count - summing.left + summing.window
            && let Some(&chunk) = summing.order.get(summing.sent)
            && exchange.chunks[chunk].start >= settled_from
        {
            summing.sent += 1;
            let owner = summing.owners[chunk];
            let (there, is_as_is) = (exchange.chunks[chunk].there, exchange.chunks[chunk].is_as_is);
            if owner != self.index || !is_as_is {
                self.debt += self.codec(exchange).encode_s * there.floats;
            }
            match owner == self.index {
                true => self.took(world, exchange, chunk),
                false => self.send(world, owner, Word::There, chunk, there),
            }
            return Turn::On;
        }
        let Some(frame) = self.next_frame(world) else { return Turn::Waits };
        self.debt += self.codecs[0].take_s;
        let chunk = frame.chunk as usize;
        match frame.word {
            Word::There => self.took(world, exchange, chunk),
            _ => {
                self.debt += self.codec(exchange).replace_s * exchange.chunks[chunk].back.floats;
                self.sum_is_here();
            }
        }
        Turn::On
    }

    fn codec(&self, exchange: &Exchange) -> &CodecFigures {
        &self.codecs[usize::from(exchange.coding == Coding::PLAIN)]
    }

    /// The next frame of this exchange.
    fn next_frame(&mut self, world: &mut World) -> Option<Frame> {
        if let Some(early) = self.early.get_mut(&self.exchange) {
            if let Some(frame) = early.pop_front() {
                return Some(frame);
            }
            self.early.remove(&self.exchange);
        }
        loop {
            let frame = world.take(self.process)?;
            if frame.exchange == self.exchange {
                return Some(frame);
            }
            self.early.entry(frame.exchange).or_default().push_back(frame);
        }
    }

    /// A member's part of a chunk of this one's is here. Once all are, the sum goes to all.
    fn took(&mut self, world: &mut World, exchange: &Exchange, chunk: usize) {
        let Some(summing) = &mut self.summing else { return };
        summing.there[chunk] += 1;
        if summing.there[chunk] < self.members {
            return;
        }
        let traffic = &exchange.chunks[chunk];
        self.debt += sum_s(self.codec(exchange), exchange, chunk, self.members);
        for other in 0..self.members {
            if other != self.index {
                self.send(world, other, Word::Back, chunk, traffic.back);
            }
        }
        self.sum_is_here();
    }

    fn sum_is_here(&mut self) {
        if let Some(summing) = &mut self.summing {
            summing.left -= 1;
        }
    }

    fn send(&self, world: &mut World, to: usize, word: Word, chunk: usize, parcels: Parcels) {
        let (from, exchange, chunk) = (self.process, self.exchange, chunk as u32);
        // Members are the first processes, in their order, and servers the next.
        world.send(Frame { from, to, word, exchange, chunk, bytes: parcels.bytes });
    }
}

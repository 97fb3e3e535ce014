//! A synchronous server and its workers: chunks are summed and sent back as soon as all have pushed them.

use std::collections::VecDeque;

use bonfire_exchange::codec::Coding;

use super::figures::{CodecFigures, Work};
use super::group::{AT_A_TIME, Books, sum_s};
use super::script::Stage;
use super::traffic::Exchange;
use super::world::{FRAME_BYTES, Frame, Word, World};
use crate::roles::worker;

/// The head, which sums and updates.
#[derive(Debug)]
pub(super) struct Server {
    process: usize,
    /// The first processes.
    workers: usize,
    codecs: [CodecFigures; 2],
    update: Work,
    /// Updates are made by the threads of a pool.
    hop_s: f64,
    /// The exchanges of the rounds to come.
    rounds: VecDeque<usize>,
    there: Vec<usize>,
    pushed: usize,
    /// The update is being made.
    updates: bool,
    debt: f64,
}

impl Server {
    pub(super) fn new(
        process: usize,
        workers: usize,
        codecs: [CodecFigures; 2],
        (update, hop_s): (Work, f64),
        rounds: VecDeque<usize>,
    ) -> Self {
        let there = Vec::new();
        Self { process, workers, codecs, update, hop_s, rounds, there, pushed: 0, updates: false, debt: 0.0 }
    }

    pub(super) fn wake(&mut self, world: &mut World, exchanges: &[Exchange]) {
        if world.is_busy(self.process) {
            return;
        }
        if std::mem::take(&mut self.updates) {
            self.rounds.pop_front();
            for worker in 0..self.workers {
                self.send(world, worker, Word::Go, 0, FRAME_BYTES);
            }
        }
        while self.debt <= AT_A_TIME {
            let Some(frame) = world.take(self.process) else { break };
            self.debt += self.codecs[0].take_s;
            let Some(exchange) = self.rounds.front().map(|&number| &exchanges[number]) else { return };
            match frame.word {
                Word::There => self.took(world, exchange, frame.chunk as usize),
                _ => self.pushed += 1,
            }
            if self.pushed == self.workers {
                (self.pushed, self.updates) = (0, true);
                self.there.clear();
                let debt = std::mem::take(&mut self.debt) + self.hop_s;
                return world.work(self.process, self.update.core_s + debt, self.update.width);
            }
        }
        if self.debt > 0.0 {
            let debt = std::mem::take(&mut self.debt);
            world.work(self.process, debt, 1.0);
        }
    }

    fn took(&mut self, world: &mut World, exchange: &Exchange, chunk: usize) {
        self.there.resize(exchange.chunks.len(), 0);
        self.there[chunk] += 1;
        let (codec, traffic) = (codec(&self.codecs, exchange), &exchange.chunks[chunk]);
        // What comes is looked through when it comes.
        self.debt += codec.add_s * traffic.there.floats;
        if self.there[chunk] < self.workers {
            return;
        }
        self.debt += sum_s(codec, exchange, chunk, self.workers);
        for worker in 0..self.workers {
            self.send(world, worker, Word::Back, chunk, traffic.back.bytes);
        }
    }

    fn send(&self, world: &mut World, to: usize, word: Word, chunk: usize, bytes: f64) {
        let (from, chunk) = (self.process, chunk as u32);
        world.send(Frame { from, to, word, exchange: 0, chunk, bytes });
    }
}

/// That of the run, or of values as they are.
fn codec<'a>(codecs: &'a [CodecFigures; 2], exchange: &Exchange) -> &'a CodecFigures {
    &codecs[usize::from(exchange.coding == Coding::PLAIN)]
}

/// A worker of the server.
#[derive(Debug)]
pub(super) struct Worker {
    process: usize,
    server: usize,
    codecs: [CodecFigures; 2],
    rounds: VecDeque<(Vec<Stage>, usize)>,
    stage: usize,
    /// How many chunks of this round have not left yet, and how many sums have come back.
    left: Option<usize>,
    back: usize,
    /// Whether shares differ; when this round began, and when its gradient was there.
    shares_differ: bool,
    begun: f64,
    computed: Option<f64>,
    /// Whether chunks leave without waiting for sums.
    at_once: bool,
    debt: f64,
    pub books: Books,
}

impl Worker {
    pub(super) fn new(
        (process, server): (usize, usize),
        codecs: [CodecFigures; 2],
        rounds: VecDeque<(Vec<Stage>, usize)>,
        shares_differ: bool,
    ) -> Self {
        Self {
            process,
            server,
            codecs,
            rounds,
            stage: 0,
            left: None,
            back: 0,
            shares_differ,
            begun: 0.0,
            computed: None,
            at_once: false,
            debt: 0.0,
            books: Books::default(),
        }
    }

    pub(super) fn wake(&mut self, world: &mut World, exchanges: &[Exchange]) {
        if world.is_busy(self.process) {
            return;
        }
        self.books.rest(world.now);
        while let Some((stages, exchange)) = self.rounds.front() {
            let exchange = &exchanges[*exchange];
            let Some(&stage) = stages.get(self.stage) else {
                self.rounds.pop_front();
                (self.stage, self.left, self.back) = (0, None, 0);
                self.books.end_round(world);
                continue;
            };
            if self.debt > AT_A_TIME {
                return self.work(world, Work { core_s: 0.0, width: 1.0 });
            }
            match stage {
                Stage::Work(work) => {
                    self.stage += 1;
                    return self.work(world, work);
                }
                Stage::Advance { settled_from, .. } => {
                    if !self.push(world, exchange, settled_from) {
                        self.stage += 1;
                    }
                }
                Stage::Complete { .. } => {
                    self.computed.get_or_insert(world.now);
                    if self.push(world, exchange, 0) {
                        continue;
                    }
                    let Some(frame) = world.take(self.process) else {
                        return if self.debt > 0.0 {
                            self.work(world, Work { core_s: 0.0, width: 1.0 })
                        };
                    };
                    self.debt += self.codecs[0].take_s;
                    match frame.word {
                        Word::Go => {
                            self.stage += 1;
                            self.take_order(world.now);
                        }
                        _ => self.take(exchange, frame.chunk as usize),
                    }
                }
            }
        }
    }

    fn work(&mut self, world: &mut World, work: Work) {
        let debt = std::mem::take(&mut self.debt);
        let width = if work.core_s > debt { work.width } else { 1.0 };
        self.books.begin(world.now);
        world.work(self.process, work.core_s + debt, width);
    }

    fn take(&mut self, exchange: &Exchange, chunk: usize) {
        self.debt += codec(&self.codecs, exchange).replace_s * exchange.chunks[chunk].back.floats;
        self.back += 1;
    }

    /// The next round begins: what this one took says whether its chunks wait for sums.
    fn take_order(&mut self, now: f64) {
        let computed = self.computed.take().unwrap_or(now);
        let (computed_s, waited_s) = (computed - self.begun, now - computed);
        self.at_once = self.shares_differ && worker::waits_little(computed_s, waited_s);
        self.begun = now;
    }

    /// Pushes the next chunk that is settled, the last ones first; false if there is none.
    fn push(&mut self, world: &mut World, exchange: &Exchange, settled_from: usize) -> bool {
        let left = *self.left.get_or_insert(exchange.chunks.len());
        let Some(chunk) = left.checked_sub(1) else { return false };
        let traffic = &exchange.chunks[chunk];
        let (count, window) = (exchange.chunks.len(), worker::window(exchange.chunks.len()));
        let waits = !self.at_once && count - left >= window + self.back;
        if traffic.start < settled_from || waits {
            return false;
        }
        self.debt += codec(&self.codecs, exchange).encode_s * traffic.there.floats;
        self.left = Some(chunk);
        self.send(world, Word::There, chunk, traffic.there.bytes);
        if chunk == 0 {
            self.send(world, Word::Pushed, 0, FRAME_BYTES);
        }
        true
    }

    fn send(&self, world: &mut World, word: Word, chunk: usize, bytes: f64) {
        let (from, to, chunk) = (self.process, self.server, chunk as u32);
        world.send(Frame { from, to, word, exchange: 0, chunk, bytes });
    }
}

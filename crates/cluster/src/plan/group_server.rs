//! A machine that only sums for the members of a group.

use std::collections::BTreeMap;

use bonfire_exchange::codec::Coding;

use super::figures::CodecFigures;
use super::group::{AT_A_TIME, sum_s};
use super::traffic::Exchange;
use super::world::{Frame, Word, World};

#[derive(Debug)]
pub(super) struct GroupServer {
    process: usize,
    /// The first processes.
    members: usize,
    codecs: [CodecFigures; 2],
    /// Which of all exchanges each one of the run is.
    exchanges: Vec<usize>,
    /// How many members' part of a chunk is here, by its exchange and number.
    there: BTreeMap<(u32, u32), usize>,
    debt: f64,
}

impl GroupServer {
    pub(super) fn new(
        process: usize,
        members: usize,
        codecs: [CodecFigures; 2],
        exchanges: Vec<usize>,
    ) -> Self {
        Self { process, members, codecs, exchanges, there: BTreeMap::new(), debt: 0.0 }
    }

    pub(super) fn wake(&mut self, world: &mut World, exchanges: &[Exchange]) {
        if world.is_busy(self.process) {
            return;
        }
        while self.debt <= AT_A_TIME
            && let Some(frame) = world.take(self.process)
        {
            let Frame { exchange, chunk, .. } = frame;
            self.debt += self.codecs[0].take_s;
            let there = self.there.entry((exchange, chunk)).or_default();
            *there += 1;
            if *there < self.members {
                continue;
            }
            self.there.remove(&(exchange, chunk));
            let Some(of) = self.exchanges.get(exchange as usize).map(|&of| &exchanges[of]) else { return };
            let codec = &self.codecs[usize::from(of.coding == Coding::PLAIN)];
            self.debt += sum_s(codec, of, chunk as usize, self.members);
            let bytes = of.chunks[chunk as usize].back.bytes;
            for to in 0..self.members {
                world.send(Frame { from: self.process, to, word: Word::Back, exchange, chunk, bytes });
            }
        }
        if self.debt > 0.0 {
            let debt = std::mem::take(&mut self.debt);
            world.work(self.process, debt, 1.0);
        }
    }
}

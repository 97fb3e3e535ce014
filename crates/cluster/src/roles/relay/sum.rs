//! What a relay makes of its workers' pushes, and how that goes up.

use std::sync::Arc;

use anyhow::Result;
use bonfire_learn::{Gradient, Layout};
use bonfire_strategy::{Unit, relay};
use bonfire_wire::proto;
use bonfire_wire::proto::frame::Body;

use super::super::feed;
use super::super::worker::to_proto;
use super::Relaying;
use bonfire_exchange::chunks::Chunks;
use bonfire_exchange::codec::{ChunkEncoder, Coding};
use bonfire_exchange::collector::{Answer, Summed};
use bonfire_exchange::updates::step;

/// What was said of a push.
pub(super) struct Pushed {
    pub(super) tally: proto::Tally,
    pub(super) weight: f64,
    pub(super) seconds: f64,
}

/// What goes up with the next push.
pub(super) struct Sum {
    /// Of an asynchronous relay, with what turns it into payloads.
    gradient: Gradient,
    pub(super) encoder: ChunkEncoder,
    tally: proto::Tally,
    seconds: f64,
}

impl Relaying {
    pub(super) fn accumulate(&mut self, worker: u64, order: u64) -> Result<()> {
        let answer = (worker, order);
        let Some(pushed) = self.pushes.remove(&answer) else { return Ok(()) };
        self.task.answers.remove(&answer);
        self.sum.count(&pushed);
        self.collector.accumulate(answer, &mut self.sum.gradient)
    }

    pub(super) fn push_up(
        &mut self,
        order: u64,
        shares: &[relay::Share],
        done: &[Unit],
        unused: &[Unit],
    ) -> Result<()> {
        let weight = match self.is_async {
            true => self.send_up(order),
            false => self.sum_up(order, shares),
        };
        let push = proto::Push {
            order,
            weight,
            tally: Some(self.sum.tally),
            units: done.iter().copied().map(to_proto).collect(),
            unused: unused.iter().copied().map(to_proto).collect(),
            compute_s: self.sum.seconds,
            parts: self
                .workers
                .iter_mut()
                .map(|(&node, member)| proto::Part { node, ..member.part() })
                .collect(),
            ..proto::Push::default()
        };
        self.sum.clear();
        if !self.is_async {
            self.task.answers.clear();
            self.task.cuts.clear();
        }
        self.task.is_open = false;
        self.task.units = self.task.units.saturating_sub(done.len() + unused.len());
        let _ = self.parent.send(Body::Push(push));
        Ok(())
    }

    /// Sends the sum of what was accumulated up, and returns its weight.
    pub(super) fn send_up(&mut self, order: u64) -> f64 {
        let Sum { gradient, encoder, .. } = &mut self.sum;
        if gradient.weight > 0.0 {
            for index in 0..encoder.chunks().count() {
                let parcel = encoder.encode(gradient, index, false);
                let _ = self.parent.send(feed::piece(step::PUSH, 0, order, index, &parcel));
            }
        }
        gradient.weight
    }

    /// Sums some pushes, sends up what was not sent ahead, and returns the weight of all.
    pub(super) fn sum_up(&mut self, order: u64, shares: &[relay::Share]) -> f64 {
        let all: Vec<Answer> = shares.iter().map(|share| (share.worker, share.order)).collect();
        let answers = self.with_weight(all.clone());
        for pushed in all.iter().filter_map(|answer| self.pushes.remove(answer)) {
            self.sum.count(&pushed);
        }
        let Summed { attempt, weight, parcels, is_ahead } = self.collector.finish(&answers, self.exact);
        if weight > 0.0 {
            for (index, parcel) in parcels.iter().enumerate().filter(|(index, _)| !is_ahead[*index]) {
                let _ = self.parent.send(feed::piece(step::PUSH, attempt, order, index, parcel));
            }
        }
        weight
    }
}

impl Sum {
    pub(super) fn new(layout: &Layout, coding: Coding) -> Self {
        let mut gradient = Gradient::new(layout);
        gradient.finish();
        let encoder = ChunkEncoder::new(&Arc::new(Chunks::of(layout)), coding);
        Self { gradient, encoder, tally: proto::Tally::default(), seconds: 0.0 }
    }

    pub(super) fn count(&mut self, pushed: &Pushed) {
        let tally = &pushed.tally;
        self.tally.loss += tally.loss;
        self.tally.weight += tally.weight;
        self.tally.answers += tally.answers;
        self.tally.correct += tally.correct;
        self.tally.samples += tally.samples;
        self.seconds = self.seconds.max(pushed.seconds);
    }

    pub(super) fn clear(&mut self) {
        self.gradient.clear();
        self.gradient.finish();
        self.tally = proto::Tally::default();
        self.seconds = 0.0;
    }
}

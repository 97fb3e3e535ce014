//! Gradients through a server, in chunks.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use bonfire_exchange::chunks::Chunks;
use bonfire_exchange::codec::{ChunkEncoder, Coding};
use bonfire_exchange::collector::{Answer, Collector};
use bonfire_exchange::updates::{Updates, step};
use bonfire_learn::Gradient;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Outbox, proto};

use super::{Party, Peer, Task, fill, layout};
use crate::roles::feed::piece;

/// The seconds of a push and the answer to it. The first worker says when it is enough.
pub(super) fn push_and_pull(party: &Party, peers: &[Peer], links: &mut Vec<Outbox>) -> Result<f64> {
    let Task { workers, bytes, seconds, compression, .. } = party.task;
    let server = party.connect(peers, workers)?;
    links.push(server.clone());
    let layout = layout(bytes);
    let mut encoder = ChunkEncoder::new(&Arc::new(Chunks::of(&layout)), Coding::of(compression));
    let mut updates = Updates::new(&layout, None);
    let mut gradient = Gradient::new(&layout);
    fill(&mut gradient);
    gradient.weight = 1.0;
    let mut turn = |order: u64| -> Result<bool> {
        for index in (0..encoder.chunks().count()).rev() {
            let parcel = encoder.encode(&gradient, index, false);
            server.send(piece(step::PUSH, 0, party.index as u64, index, &parcel))?;
        }
        encoder.commit();
        server.send(Body::Push(proto::Push { order, weight: 1.0, ..proto::Push::default() }))?;
        loop {
            let frame = party.frame(&mut Vec::new())?;
            match frame.body {
                Body::Piece(piece) => updates.piece(&piece, frame.payload)?,
                Body::Go(go) => return Ok(go.order.is_some()),
                _ => {}
            }
        }
    };
    if party.index > 0 {
        let (started, mut count) = (Instant::now(), 1);
        while turn(1)? {
            count += 1;
        }
        return Ok(started.elapsed().as_secs_f64() / f64::from(count));
    }
    let mut turns = |count: usize| -> Result<f64> {
        let started = Instant::now();
        for _ in 0..count {
            turn(1)?;
        }
        Ok(started.elapsed().as_secs_f64() / count as f64)
    };
    turns(3)?;
    let count = ((seconds / 3.0 / turns(3)?) as usize).max(3);
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        best = best.min(turns(count)?);
    }
    turn(0)?;
    Ok(best)
}

/// The server: sends the sum of every chunk back when all have pushed it, until the first worker says that it is
/// enough. The seconds of an exchange.
pub(super) fn serve(party: &Party, callers: &mut Vec<Outbox>) -> Result<f64> {
    let Task { workers, bytes, compression, .. } = party.task;
    let mut collector = Collector::new(&layout(bytes), Coding::of(compression));
    // Every worker gives its number as its order.
    let answers: Vec<Answer> = (0..workers as u64).map(|worker| (worker, worker)).collect();
    let (started, mut count) = (Instant::now(), 0);
    loop {
        count += 1;
        let (mut pushed, mut goes_on) = (0, true);
        while pushed < workers {
            let frame = party.frame(callers)?;
            match frame.body {
                Body::Piece(part) => {
                    collector.take(part.round, &part, frame.payload)?;
                    let index = part.index as usize;
                    if let Some((attempt, sum)) = collector.sum_ahead(&answers, index, false) {
                        for outbox in &*callers {
                            outbox.send(piece(step::SUM, attempt, count, index, &sum))?;
                        }
                    }
                }
                Body::Push(push) => {
                    goes_on &= push.order > 0;
                    pushed += 1;
                }
                _ => {}
            }
        }
        let weight = collector.finish(&answers, false).weight;
        for outbox in &*callers {
            let go = proto::Go { order: goes_on.then_some(1), weight, ..proto::Go::default() };
            outbox.send(Body::Go(go))?;
        }
        if !goes_on {
            return Ok(started.elapsed().as_secs_f64() / count as f64);
        }
    }
}

//! What the work of a round takes where it is done in a run: one part after the other, on a machine whose other cores
//! are at work too, and whose caches several workers share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use bonfire_data::Dataset;
use bonfire_exchange::chunks::Chunks;
use bonfire_exchange::codec::{ChunkEncoder, Coding, Parcel};
use bonfire_exchange::received::{ReceivedChunk, replace_chunk};
use bonfire_learn::Gradient;
use bonfire_run::run_file::Settings;
use bonfire_strategy::Unit;

use super::core_time::Watch;
use super::gauge::trainer;
use super::gauge_codec::floats;
use crate::plan::figures::WorkFigures;
use crate::trainer::Trainer;

/// How long rounds of so many workers are measured.
const ROUNDS_FOR: Duration = Duration::from_millis(500);

/// More workers at a time are not tried: they would only take turns.
const MOST_WORKERS: usize = 8;

/// How many times as long as its parts a round takes, by how many workers the machine has at a time: one, two, four
/// and so on up to the most.
pub(super) fn crowds(
    settings: &Settings,
    dataset: &Dataset,
    work: &WorkFigures,
    (cores, workers): (usize, &[usize]),
) -> Result<Vec<(usize, f64)>> {
    let most = workers.iter().copied().max().unwrap_or(1).min(MOST_WORKERS);
    let doubling = std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|&count| count < most);
    let mut crowds = Vec::new();
    for count in doubling.chain([most]) {
        let threads = settings.file.threads_on(cores, count);
        let (core_s, floats) = rounds(settings, dataset, (count, threads))?;
        let codec = work.codec("none");
        let parts = work.step(threads, settings.file.batch_size).core_s
            + work.update.core_s
            + (codec.encode_s + codec.replace_s) * floats;
        crowds.push((count, core_s / parts.max(1e-9)));
    }
    Ok(crowds)
}

/// Seconds of a core for a round, where so many workers go through rounds at the same time; and how many values of a
/// gradient travel.
fn rounds(settings: &Settings, dataset: &Dataset, (count, threads): (usize, usize)) -> Result<(f64, f64)> {
    let (barrier, over, done) = (Barrier::new(count + 1), AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let work = || -> Result<f64> {
            let prepared = RoundWork::new(settings, dataset, threads);
            barrier.wait();
            let mut round = prepared?;
            while !over.load(Ordering::Relaxed) {
                round.go()?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(floats(&round.trainer.gradient, round.trainer.layout()))
        };
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        barrier.wait();
        // The first rounds make room for the others.
        let wait_for = |rounds: usize| {
            while done.load(Ordering::Relaxed) < rounds && !workers.iter().any(|worker| worker.is_finished())
            {
                thread::sleep(Duration::from_millis(1));
            }
        };
        wait_for(2 * count);
        let (watch, before) = (Watch::start(), done.load(Ordering::Relaxed));
        thread::sleep(ROUNDS_FOR);
        wait_for(before + 2 * count);
        let (core_s, rounds) = (watch.core_s(), done.load(Ordering::Relaxed) - before);
        over.store(true, Ordering::Relaxed);
        let mut floats = 0.0;
        for worker in workers {
            floats = worker.join().map_err(|_| anyhow!("a worker panicked"))??;
        }
        Ok((core_s / rounds.max(1) as f64, floats))
    })
}

/// A round of a worker that exchanges with itself.
struct RoundWork {
    trainer: Trainer,
    chunks: Arc<Chunks>,
    encoder: ChunkEncoder,
    total: Gradient,
    units: u32,
    next: u32,
}

impl RoundWork {
    fn new(settings: &Settings, dataset: &Dataset, threads: usize) -> Result<Self> {
        let trainer = trainer(settings, dataset, threads)?;
        let chunks = Arc::new(Chunks::of(trainer.layout()));
        let (encoder, total) = (ChunkEncoder::new(&chunks, Coding::PLAIN), Gradient::new(trainer.layout()));
        let units = (dataset.train.len() / settings.file.batch_size).max(1) as u32;
        Ok(Self { trainer, chunks, encoder, total, units, next: 0 })
    }

    fn go(&mut self) -> Result<()> {
        self.trainer.compute(Unit { epoch: 0, index: self.next })?;
        self.next = (self.next + 1) % self.units;
        let encoded = (0..self.chunks.count()).map(|i| self.encoder.encode(&self.trainer.gradient, i, false));
        let parcels: Vec<Parcel> = encoded.collect();
        self.total.clear();
        for (index, parcel) in parcels.iter().enumerate() {
            if let Ok(arrived) = ReceivedChunk::read(&self.chunks[index], parcel) {
                replace_chunk(&self.chunks[index], &arrived, &mut self.total);
            }
        }
        self.trainer.step(0.0);
        Ok(())
    }
}

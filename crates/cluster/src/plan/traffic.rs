//! What travels in an exchange: the chunks of a gradient, each as large as its payload would be.

use std::collections::BTreeMap;
use std::sync::Arc;

use bonfire_data::{Dataset, EpochOrder, Samples};
use bonfire_exchange::chunks::Chunks;
use bonfire_exchange::codec::{ChunkEncoder, Coding};
use bonfire_exchange::low_rank::LowRankSums;
use bonfire_exchange::owners;
use bonfire_learn::layout::TensorKind;
use bonfire_learn::random::Random;
use bonfire_learn::{Batch, Gradient, Inputs, Layout, PADDING};
use bonfire_run::run_file::Compression;

use bonfire_payload::Precision;

use super::candidate::name;
use super::world::{FRAME_BYTES, ON_TOP};

/// One sum over all workers.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub chunks: Vec<ChunkTraffic>,
    pub coding: Coding,
    /// Where it is shared out: which part of all each chunk is, by the bytes of its sum.
    pub loads: Vec<usize>,
}

/// One chunk on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkTraffic {
    /// Where it begins in the gradient: it can leave when all from there on is settled.
    pub start: usize,
    pub there: Parcels,
    pub back: Parcels,
    /// Its owner sums it from where it lies.
    pub is_as_is: bool,
}

/// How much of a chunk travels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parcels {
    pub floats: f64,
    /// With what is around it.
    pub bytes: f64,
}

impl Exchange {
    /// Who sums which chunk, of members who each take such a part.
    pub(super) fn owners(&self, parts: &[f64]) -> Vec<usize> {
        owners::owners(&self.loads, parts)
    }

    /// Whether who sums takes what the others will have of it.
    pub(super) fn rounds(&self) -> bool {
        !matches!(self.coding, Coding::All(Precision::F32) | Coding::Packed)
    }
}

/// What the exchanges of a run carry.
#[derive(Debug)]
pub(super) struct Traffic<'a> {
    layout: &'a Layout,
    dataset: &'a Dataset,
    batch: usize,
    seed: u64,
    /// Whether a local step moves rows only where a batch touches them.
    moves_touched_rows_only: bool,
    known: BTreeMap<(String, usize, u64), Vec<Exchange>>,
}

/// So many rounds are looked at for the rows that they touch.
const LOOKED_AT: usize = 4;

impl<'a> Traffic<'a> {
    pub(super) fn new(
        layout: &'a Layout,
        dataset: &'a Dataset,
        (batch, seed): (usize, u64),
        moves_touched_rows_only: bool,
    ) -> Self {
        Self { layout, dataset, batch, seed, moves_touched_rows_only, known: BTreeMap::new() }
    }

    fn has_tables(&self) -> bool {
        self.layout.tensors().iter().any(|tensor| matches!(tensor.kind, TensorKind::Rows { .. }))
    }

    /// The exchanges of a round of so many workers, each of which has trained on so many batches: two of factors,
    /// otherwise one.
    pub(super) fn exchanges(
        &mut self,
        compression: Compression,
        workers: usize,
        steps: u64,
    ) -> Vec<Exchange> {
        let key = name(compression);
        let key = if self.has_tables() { (key, workers, steps) } else { (key, 0, 0) };
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let (there, back) = (self.touched(1, workers, steps), self.touched(workers, workers, steps));
        let exchange = |layout: &Layout, coding: Coding| {
            let there: Vec<Vec<Parcels>> = there.iter().map(|rows| parcels(layout, coding, rows)).collect();
            let sums = coding.of_sums();
            let back: Vec<Vec<Parcels>> = back.iter().map(|rows| parcels(layout, sums, rows)).collect();
            Exchange::new(layout, coding, &mean(&there), &mean(&back))
        };
        let exchanges = match compression {
            Compression::PowerSgd(rank) => {
                let sums = LowRankSums::new(self.layout, rank, self.seed);
                sums.layouts().map(|layout| exchange(layout, Coding::PLAIN)).into()
            }
            _ => vec![exchange(self.layout, Coding::of(compression))],
        };
        self.known.insert(key, exchanges.clone());
        exchanges
    }

    /// The rows that some of the workers touch in so many batches each, in some rounds; none where there are no tables.
    fn touched(&self, some: usize, workers: usize, steps: u64) -> Vec<Vec<u32>> {
        if !self.has_tables() {
            return vec![Vec::new()];
        }
        let samples = &self.dataset.train;
        if steps > 1 && !self.moves_touched_rows_only {
            // What has ever been touched moves on.
            let all: Vec<u32> = (0..samples.len() as u32).collect();
            return vec![rows_of(samples, [all].iter())];
        }
        let round_size = (self.batch * workers).min(samples.len());
        let mut order = EpochOrder::default();
        order.shuffle(samples, round_size, self.seed, 0);
        let rounds = EpochOrder::rounds(samples.len(), round_size);
        let looks = LOOKED_AT.min(rounds);
        let look = |look: usize| {
            let mut shares = Vec::new();
            for step in 0..steps as usize {
                let round = (look * rounds / looks + step) % rounds;
                for worker in 0..some {
                    let mut share = Vec::new();
                    order.share(round, worker, workers, &mut share);
                    shares.push(share);
                }
            }
            rows_of(samples, shares.iter())
        };
        (0..looks).map(look).collect()
    }
}

/// The words of some samples, each once.
fn rows_of<'s>(samples: &Samples, shares: impl Iterator<Item = &'s Vec<u32>>) -> Vec<u32> {
    let mut batch = Batch::default();
    let mut rows = Vec::new();
    for share in shares {
        samples.fill(&mut batch, share);
        if let Inputs::Words { numbers, .. } = &batch.inputs {
            rows.extend(numbers.iter().filter(|&&word| word != PADDING));
        }
    }
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Every chunk of a gradient that touches these rows, as the codec writes it.
fn parcels(layout: &Layout, coding: Coding, rows: &[u32]) -> Vec<Parcels> {
    let mut gradient = Gradient::new(layout);
    let mut random = Random::new(1);
    gradient.weight = 1.0;
    let mut floats_of = vec![0.0; layout.tensors().len()];
    for (i, tensor) in layout.tensors().iter().enumerate() {
        match tensor.kind {
            // What values are like makes a difference to how well they can be packed.
            TensorKind::Dense | TensorKind::Buffer => {
                gradient.write(i).iter_mut().for_each(|value| *value = random.between(-1.0, 1.0).powi(3));
            }
            TensorKind::Rows { width } => {
                let count = (tensor.range.len() / width) as u32;
                let mut touched = 0;
                for &row in rows.iter().filter(|&&row| row < count) {
                    gradient.touch(i, row).fill(1.0);
                    touched += width;
                }
                floats_of[i] = touched as f64 / tensor.range.len().max(1) as f64;
            }
        }
    }
    gradient.finish();
    let chunks = Arc::new(Chunks::of(layout));
    let mut encoder = ChunkEncoder::new(&chunks, coding);
    let parcel = |index: usize| {
        let parcel = encoder.encode(&gradient, index, false);
        let floats = chunks[index].stretches.iter().map(|stretch| match stretch.kind {
            TensorKind::Rows { .. } => stretch.range.len() as f64 * floats_of[stretch.tensor],
            _ => stretch.range.len() as f64,
        });
        Parcels { floats: floats.sum(), bytes: parcel.payload.len() as f64 * ON_TOP + FRAME_BYTES }
    };
    (0..chunks.count()).map(parcel).collect()
}

/// Chunk by chunk.
fn mean(all: &[Vec<Parcels>]) -> Vec<Parcels> {
    let count = all.len().max(1) as f64;
    let chunks = all.first().map_or(0, Vec::len);
    let sum =
        |chunk: usize, of: fn(&Parcels) -> f64| all.iter().map(|list| of(&list[chunk])).sum::<f64>() / count;
    let mean = |chunk| Parcels {
        floats: sum(chunk, |parcels| parcels.floats),
        bytes: sum(chunk, |parcels| parcels.bytes),
    };
    (0..chunks).map(mean).collect()
}

impl Exchange {
    fn new(layout: &Layout, coding: Coding, there: &[Parcels], back: &[Parcels]) -> Self {
        let chunks = Chunks::of(layout);
        let traffic = |(index, (&there, &back)): (usize, (&Parcels, &Parcels))| {
            let chunk = &chunks[index];
            let is_dense = chunk.stretches.iter().all(|stretch| stretch.kind == TensorKind::Dense);
            let is_as_is = is_dense && coding == Coding::PLAIN;
            ChunkTraffic { start: chunk.range.start, there, back, is_as_is }
        };
        let loads = back.iter().map(|back| owners::load(back.bytes as usize)).collect();
        let chunks = there.iter().zip(back).enumerate().map(traffic).collect();
        Self { chunks, coding, loads }
    }
}

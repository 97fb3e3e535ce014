//! What travels in an exchange: the chunks of a gradient, each as large as its payload would be.

use std::collections::BTreeMap;
use std::sync::Arc;

use bonfire_data::{Dataset, EpochOrder, Samples};
use bonfire_exchange::chunks::Chunks;
use bonfire_exchange::codec::ChunkEncoder;
use bonfire_exchange::low_rank::LowRankSums;
use bonfire_exchange::{precision, sharded};
use bonfire_learn::layout::TensorKind;
use bonfire_learn::{Batch, Gradient, Inputs, Layout, PADDING};
use bonfire_run::run_file::Compression;
use bonfire_wire::payload::Precision;

use super::world::{FRAME_BYTES, ON_TOP};

/// One sum over all workers.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub chunks: Vec<ChunkTraffic>,
    /// Which codec, by its bits.
    pub bits: u32,
    /// Where it is shared out: which part of all each chunk is, by the bytes of its sum.
    loads: Vec<usize>,
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
        sharded::owners(&self.loads, parts)
    }

    pub(super) fn rounds(&self) -> bool {
        self.bits < 32
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
    known: BTreeMap<(u32, usize, u64), Vec<Exchange>>,
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
        let key = match compression {
            Compression::PowerSgd(rank) => 100 + rank as u32,
            _ => bits(precision(compression)),
        };
        let key = if self.has_tables() { (key, workers, steps) } else { (key, 0, 0) };
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let (there, back) = (self.touched(1, workers, steps), self.touched(workers, workers, steps));
        let exchange = |layout: &Layout, precision| {
            let there: Vec<Vec<Parcels>> =
                there.iter().map(|rows| parcels(layout, precision, rows)).collect();
            let back: Vec<Vec<Parcels>> = back.iter().map(|rows| parcels(layout, precision, rows)).collect();
            Exchange::new(layout, precision, &mean(&there), &mean(&back))
        };
        let exchanges = match compression {
            Compression::PowerSgd(rank) => {
                let sums = LowRankSums::new(self.layout, rank, self.seed);
                sums.layouts().map(|layout| exchange(layout, Precision::F32)).into()
            }
            _ => vec![exchange(self.layout, precision(compression))],
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

fn bits(precision: Precision) -> u32 {
    match precision {
        Precision::F32 => 32,
        Precision::F16 => 16,
        Precision::Int8 => 8,
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
fn parcels(layout: &Layout, precision: Precision, rows: &[u32]) -> Vec<Parcels> {
    let mut gradient = Gradient::new(layout);
    gradient.weight = 1.0;
    let mut floats_of = vec![0.0; layout.tensors().len()];
    for (i, tensor) in layout.tensors().iter().enumerate() {
        match tensor.kind {
            TensorKind::Dense | TensorKind::Buffer => gradient.write(i).fill(1.0),
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
    let mut encoder = ChunkEncoder::new(&chunks, precision);
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
    fn new(layout: &Layout, precision: Precision, there: &[Parcels], back: &[Parcels]) -> Self {
        let chunks = Chunks::of(layout);
        let traffic = |(index, (&there, &back)): (usize, (&Parcels, &Parcels))| {
            let chunk = &chunks[index];
            let is_dense = chunk.stretches.iter().all(|stretch| stretch.kind == TensorKind::Dense);
            let is_as_is = is_dense && precision == Precision::F32;
            ChunkTraffic { start: chunk.range.start, there, back, is_as_is }
        };
        let loads = back.iter().map(|back| sharded::load(back.bytes as usize)).collect();
        let chunks = there.iter().zip(back).enumerate().map(traffic).collect();
        Self { chunks, bits: bits(precision), loads }
    }
}

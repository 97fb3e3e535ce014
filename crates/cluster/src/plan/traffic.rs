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
        self.coding.is_lossy()
    }
}

/// What the exchanges of a run carry.
#[derive(Debug)]
pub(super) struct Traffic<'a> {
    layout: &'a Layout,
    dataset: &'a Dataset,
    batch: usize,
    seed: u64,
    /// For how many local steps a row moves on after a batch has touched it; none if for ever.
    rows_move_for: Option<u32>,
    known: BTreeMap<(String, usize, u64, bool), Vec<Exchange>>,
}

/// So many rounds are looked at for the rows that they touch.
const LOOKED_AT: usize = 4;

/// After so many epochs everybody has touched what there is.
const EPOCHS: usize = 4;

impl<'a> Traffic<'a> {
    pub(super) fn new(
        layout: &'a Layout,
        dataset: &'a Dataset,
        (batch, seed): (usize, u64),
        rows_move_for: Option<u32>,
    ) -> Self {
        Self { layout, dataset, batch, seed, rows_move_for, known: BTreeMap::new() }
    }

    fn has_tables(&self) -> bool {
        self.layout.tensors().iter().any(|tensor| matches!(tensor.kind, TensorKind::Rows { .. }))
    }

    /// The exchanges of a round of so many workers, each of whom has trained on so many batches, perhaps in few chunks:
    /// two of factors, otherwise one.
    pub(super) fn exchanges(
        &mut self,
        compression: Compression,
        (workers, is_few): (usize, bool),
        steps: u64,
    ) -> Vec<Exchange> {
        let (of_workers, of_steps) = if self.has_tables() { (workers, steps) } else { (0, 0) };
        let key = (name(compression), if is_few { workers } else { of_workers }, of_steps, is_few);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let (there, back) = (self.moved(1, workers, steps), self.moved(workers, workers, steps));
        let exchange = |layout: &Layout, coding: Coding| {
            // As sums have it that are shared out in few.
            let chunks = match is_few && !coding.is_lossy() {
                true => Chunks::few(layout, workers),
                false => Chunks::of(layout),
            };
            let chunks = Arc::new(chunks);
            let all = |rows: &[Vec<u32>], coding: Coding| -> Vec<Vec<Parcels>> {
                rows.iter().map(|rows| parcels(layout, &chunks, coding, rows)).collect()
            };
            let (there, back) = (all(&there, coding), all(&back, coding.of_sums()));
            Exchange::new(&chunks, coding, &mean(&there), &mean(&back))
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

    /// The rows that some of the workers move in so many batches each, in some rounds; none where there are no tables.
    fn moved(&self, some: usize, workers: usize, steps: u64) -> Vec<Vec<u32>> {
        if !self.has_tables() {
            return vec![Vec::new()];
        }
        let samples = &self.dataset.train;
        let round_size = (self.batch * workers).min(samples.len());
        let rounds = EpochOrder::rounds(samples.len(), round_size);
        // Rows of earlier batches still move, where workers make steps by themselves.
        let before = match self.rows_move_for {
            _ if steps == 1 => 0,
            Some(steps) => (steps as usize).min(EPOCHS * rounds),
            None => EPOCHS * rounds,
        };
        // Many batches are much like many others.
        let looks = if before == 0 { LOOKED_AT.min(rounds) } else { 1 };
        let look = |look: usize| {
            let (first, mut order) = (look * rounds / looks, EpochOrder::default());
            let mut moved = MovedRows::default();
            for batch in first..first + before + steps as usize {
                if batch == first || batch.is_multiple_of(rounds) {
                    order.shuffle(samples, round_size, self.seed, (batch / rounds) as u64);
                }
                for worker in 0..some {
                    order.share(batch % rounds, worker, workers, &mut moved.share);
                    moved.add(samples);
                }
            }
            moved.rows()
        };
        (0..looks).map(look).collect()
    }
}

/// The words of some samples, each once.
#[derive(Default)]
struct MovedRows {
    /// Those to come.
    share: Vec<u32>,
    batch: Batch,
    is_there: Vec<bool>,
}

impl MovedRows {
    fn add(&mut self, samples: &Samples) {
        samples.fill(&mut self.batch, &self.share);
        let Inputs::Words { numbers, .. } = &self.batch.inputs else { return };
        for &word in numbers.iter().filter(|&&word| word != PADDING) {
            let row = word as usize;
            self.is_there.resize(self.is_there.len().max(row + 1), false);
            self.is_there[row] = true;
        }
    }

    fn rows(&self) -> Vec<u32> {
        (0..).zip(&self.is_there).filter(|(_, is_there)| **is_there).map(|(row, _)| row).collect()
    }
}

/// Every chunk of a gradient that touches these rows, as the codec writes it.
fn parcels(layout: &Layout, chunks: &Arc<Chunks>, coding: Coding, rows: &[u32]) -> Vec<Parcels> {
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
    let mut encoder = ChunkEncoder::new(chunks, coding);
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
    fn new(chunks: &Chunks, coding: Coding, there: &[Parcels], back: &[Parcels]) -> Self {
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

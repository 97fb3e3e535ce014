//! What it takes to write and read what travels.

use std::sync::Arc;

use bonfire_exchange::chunks::Chunks;
use bonfire_exchange::codec::{ChunkEncoder, Coding, Parcel};
use bonfire_exchange::low_rank::LowRankSums;
use bonfire_exchange::peers::{Early, Peers};
use bonfire_exchange::received::{ReceivedChunk, replace_chunk, sum_chunk};
use bonfire_learn::Gradient;
use bonfire_learn::layout::TensorKind;
use bonfire_run::run_file::Compression;
use bonfire_wire::Closed;

use super::gauge::timed;
use crate::plan::figures::{CodecFigures, Work};
use crate::plan::name;
use crate::trainer::Trainer;

/// So many gradients are added up.
const ADDED: usize = 3;

/// The codecs that a plan may propose and that of the run file, by the gradient that a trainer has.
pub(super) fn codecs(trainer: &Trainer, own: Compression) -> Vec<CodecFigures> {
    let mut all = vec![Compression::None, Compression::F16, Compression::Int8];
    if matches!(own, Compression::Lossless | Compression::TopK(_)) {
        all.push(own);
    }
    all.into_iter().map(|compression| codec(trainer, compression)).collect()
}

fn codec(trainer: &Trainer, compression: Compression) -> CodecFigures {
    let coding = Coding::of(compression);
    let (gradient, layout) = (&trainer.gradient, trainer.layout());
    let chunks = Arc::new(Chunks::of(layout));
    let mut encoder = ChunkEncoder::new(&chunks, coding);
    let floats = floats(gradient, layout).max(1.0);
    let per_float = |work: Work| work.core_s / floats;
    let mut parcels: Vec<Parcel> = Vec::new();
    let encode = per_float(timed(1.0, 1, || {
        parcels = (0..chunks.count()).map(|index| encoder.encode(gradient, index, false)).collect();
    }));
    let mut total = Gradient::new(layout);
    let sums = ChunkEncoder::new(&chunks, coding.of_sums());
    let sum = per_float(timed(1.0, 1, || {
        total.clear();
        for (index, parcel) in unpacked(&parcels, &chunks) {
            if sums.sums_as_is(index) {
                let parts = [&parcel.payload[..]; ADDED];
                sums.sum_as_is(index, &parts, 1.0, &mut total);
            } else if let Ok(arrived) = (0..ADDED)
                .map(|_| ReceivedChunk::read(&chunks[index], &parcel))
                .collect::<Result<Vec<_>, _>>()
            {
                sum_chunk(&chunks[index], &arrived, &mut total);
            }
        }
    }));
    let replace = per_float(timed(1.0, 1, || {
        total.clear();
        for (index, parcel) in unpacked(&parcels, &chunks) {
            if let Ok(arrived) = ReceivedChunk::read(&chunks[index], &parcel) {
                replace_chunk(&chunks[index], &arrived, &mut total);
            }
        }
    }));
    // What is summed as it is is written at the same time.
    let written = if coding == Coding::PLAIN { encode } else { 0.0 };
    CodecFigures {
        name: name(compression),
        encode_s: encode,
        add_s: ((sum - written) / ADDED as f64).max(sum * 0.1),
        replace_s: replace,
        take_s: 0.0,
    }
}

/// Parcels as they are read.
fn unpacked(parcels: &[Parcel], chunks: &Chunks) -> impl Iterator<Item = (usize, Parcel)> {
    let unpacked =
        |(index, parcel): (usize, &Parcel)| Some((index, parcel.clone().unpacked(&chunks[index]).ok()?));
    parcels.iter().enumerate().filter_map(unpacked)
}

/// How many values of a gradient travel.
pub(super) fn floats(gradient: &Gradient, layout: &bonfire_learn::Layout) -> f64 {
    let of = |(i, tensor): (usize, &bonfire_learn::layout::Tensor)| match tensor.kind {
        TensorKind::Rows { width } => gradient.rows(i).map_or(0, |rows| rows.touched.len() * width),
        TensorKind::Dense | TensorKind::Buffer => tensor.range.len(),
    };
    layout.tensors().iter().enumerate().map(of).sum::<usize>() as f64
}

/// Factors of rank 2, without anybody to exchange them with.
pub(super) fn factors(trainer: &mut Trainer, seed: u64) -> [Work; 3] {
    let layout = trainer.layout().clone();
    let mut sums = LowRankSums::new(&layout, 2, seed);
    sums.share_out(&[1.0]);
    let (links, mut early) = ([None], Early::new());
    let mut receive = |_| Err(Closed);
    let mut round = 0;
    let threads = trainer.pool.current_num_threads();
    let all = timed(1.0, threads, || {
        round += 1;
        let mut peers: Peers<'_, Closed> = Peers {
            index: 0,
            links: &links,
            servers: &[],
            receive: &mut receive,
            early: &mut early,
            generation: 0,
            round,
            step: 0,
        };
        trainer.gradient.weight = 1.0;
        // Alone it cannot fail.
        let _ = sums.sum(&mut peers, &mut trainer.gradient, false, &trainer.pool);
    });
    // Each goes over the matrices once; the last one twice.
    [0.3, 0.25, 0.45].map(|part| Work { core_s: all.core_s * part, ..all })
}

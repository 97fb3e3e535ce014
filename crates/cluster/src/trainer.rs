//! What a node that trains has at hand: the data, a worker, and a copy of the parameters.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use bonfire_data::{Dataset, Samples};
use bonfire_learn::{Gradient, Layout, Tally};
use bonfire_strategy::Unit;
use bonfire_wire::proto;
use rayon::{ThreadPool, ThreadPoolBuilder};

use bonfire_exchange::chunks::Chunks;
use bonfire_exchange::codec::{ChunkEncoder, Coding};
use bonfire_exchange::updates::Updates;
use bonfire_run::crew::round_seed;
use bonfire_run::loader::{Shares, Sharing};
use bonfire_run::replica::{Replica, StepSize};
use bonfire_run::run_file::Settings;
use bonfire_run::worker::{UnitSeed, Worker};

/// A worker and all that it needs.
#[derive(Debug)]
pub(crate) struct Trainer {
    samples: Arc<Samples>,
    worker: Worker,
    shares: Shares,
    pub replica: Replica,
    /// What is new, on its way into the replica.
    pub updates: Updates,
    pub encoder: ChunkEncoder,
    /// Of the last unit that was computed.
    pub gradient: Gradient,
    settings: Settings,
    pub pool: ThreadPool,
}

/// What computing a unit took and gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Computed {
    pub tally: proto::Tally,
    pub seconds: f64,
}

impl Computed {
    /// Counts another unit.
    pub(crate) fn add(&mut self, other: &Self) {
        let (sum, tally) = (&mut self.tally, &other.tally);
        sum.loss += tally.loss;
        sum.weight += tally.weight;
        sum.answers += tally.answers;
        sum.correct += tally.correct;
        sum.samples += tally.samples;
        self.seconds += other.seconds;
    }
}

impl Trainer {
    /// A trainer for a worker, on a run's data.
    pub(crate) fn new(settings: &Settings, dataset: &Dataset, mut worker: Worker) -> Result<Self> {
        let (copies, threads) = (worker.copies().len(), worker.threads());
        let layout = worker.layout().clone();
        let file = &settings.file;
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("copy-{i}"))
            .build()
            .context("cannot start the worker's threads")?;
        Ok(Self {
            samples: Arc::clone(&dataset.train),
            worker,
            shares: Shares::new(Sharing::of(settings, dataset.train.len(), copies)),
            replica: Replica::of(settings, &layout),
            updates: Updates::new(&layout, file.clip_norm),
            encoder: ChunkEncoder::new(&Arc::new(Chunks::of(&layout)), Coding::of(file.compression)),
            gradient: Gradient::new(&layout),
            settings: settings.clone(),
            pool,
        })
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.worker.layout()
    }

    /// Computes the gradient of a unit.
    pub(crate) fn compute(&mut self, unit: Unit) -> Computed {
        self.compute_by_layers(unit, &mut |_, _, _| ())
    }

    /// The same. Where the worker has one copy of the model, `settled` hears layer by layer from where on the gradient
    /// will not change any more, and has the encoder at hand.
    pub(crate) fn compute_by_layers(
        &mut self,
        unit: Unit,
        settled: &mut (dyn FnMut(&mut ChunkEncoder, &Gradient, usize) + Send),
    ) -> Computed {
        let started = Instant::now();
        let sharing = self.shares.sharing();
        let (within, slot) = (unit.index as usize / sharing.workers, unit.index as usize % sharing.workers);
        let round = unit.epoch * sharing.rounds_per_epoch + within as u64;
        self.shares.go_to(&self.samples, round);
        let (worker, shares, samples) = (&mut self.worker, &self.shares, &self.samples);
        let (parameters, gradient) = (&self.replica.parameters, &mut self.gradient);
        let seed = UnitSeed { seed: round_seed(self.settings.file.seed, round), slot };
        let encoder = &mut self.encoder;
        self.pool.install(|| {
            worker.load(samples, shares, slot);
            worker
                .compute(parameters, seed, gradient, &mut |gradient, from| settled(encoder, gradient, from));
        });
        let (tally, samples) = (self.worker.tally(), self.worker.samples());
        Computed { tally: to_proto(tally, samples as u64), seconds: started.elapsed().as_secs_f64() }
    }

    /// Whether gradients leave while they are computed.
    pub(crate) fn overlaps(&self) -> bool {
        self.settings.file.overlap
    }

    /// Whether the head sums a chunk, and sends the sum, as soon as all have pushed it.
    pub(crate) fn hears_sums_meanwhile(&self) -> bool {
        self.settings.topology.waits_for_all()
    }

    /// Whether there is such a unit.
    pub(crate) fn has(&self, unit: Unit) -> bool {
        let sharing = self.shares.sharing();
        let per_epoch = sharing.rounds_per_epoch.saturating_mul(sharing.workers as u64);
        u64::from(unit.index) < per_epoch && unit.epoch.checked_mul(per_epoch).is_some()
    }

    /// A round without a share: a gradient of nothing.
    pub(crate) fn idle(&mut self) -> Computed {
        self.gradient.clear();
        self.gradient.finish();
        Computed::default()
    }

    /// Back to the parameters that every run begins with.
    pub(crate) fn restart(&mut self) {
        self.replica = Replica::of(&self.settings, self.worker.layout());
    }

    /// How many samples there are to train on.
    pub(crate) fn samples(&self) -> usize {
        self.samples.len()
    }

    /// One step by a sum of gradients.
    pub(crate) fn step(&mut self, lr: f32) {
        let (replica, gradient) = (&mut self.replica, &self.gradient);
        let step = StepSize { lr, clip: self.settings.file.clip_norm };
        self.pool.install(|| replica.step(std::slice::from_ref(gradient), step));
    }

    /// One step by the sum of how far the members of a group went, each by itself.
    pub(crate) fn step_together(&mut self) {
        let (replica, gradient) = (&mut self.replica, &self.gradient);
        self.pool.install(|| replica.step_together(std::slice::from_ref(gradient)));
    }
}

/// What the head is to hear of a replica that is not what the head's was at that version: it was not computed right, or
/// is no longer what was computed. Bad memory does that to old machines.
pub(crate) fn compare(replica: &Replica, go: &proto::Go) -> Option<proto::Trouble> {
    let differs = go.digest.is_some_and(|digest| digest != replica.digest());
    let reason = || format!("has other parameters than the head at version {}", go.version);
    differs.then(|| proto::Trouble { reason: reason(), unreachable: 0 })
}

pub(crate) fn to_proto(tally: &Tally, samples: u64) -> proto::Tally {
    let &Tally { loss, weight, answers, correct, .. } = tally;
    proto::Tally { loss, weight, answers, correct, samples }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::OptimizerSpec;
    use bonfire_learn::layout::Init;

    #[test]
    fn a_replica_with_a_wrong_bit_is_told() {
        let mut layout = Layout::default();
        layout.vector("all".into(), 100, Init::Uniform(1.0));
        let mut replica = Replica::new(&layout, OptimizerSpec::default(), 1);
        let go = |digest| proto::Go { version: 300, digest, ..proto::Go::default() };
        let heads = go(Some(replica.digest()));
        assert_eq!(compare(&replica, &heads), None);
        replica.parameters[50] = f32::from_bits(replica.parameters[50].to_bits() ^ 1);
        let trouble = compare(&replica, &heads).expect("a difference");
        assert_eq!(trouble.reason, "has other parameters than the head at version 300");
        assert_eq!(compare(&replica, &go(None)), None, "nobody asked");
    }
}

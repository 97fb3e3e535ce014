//! What a node that trains has at hand: the data, a worker, and a copy of the parameters.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use bonfire_data::{Dataset, Samples};
use bonfire_learn::{Gradient, Layout, OptimizerSpec, Tally};
use bonfire_strategy::Unit;
use bonfire_wire::proto;
use bytes::Bytes;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::exchange::{Codec, Parcel, bytes_to_floats, floats_to_bytes};
use bonfire_run::crew::round_seed;
use bonfire_run::loader::{Shares, Sharing};
use bonfire_run::replica::{Replica, StepSize};
use bonfire_run::run_file::Settings;
use bonfire_run::worker::{Luck, Worker};

/// A worker and all that it needs.
#[derive(Debug)]
pub struct Station {
    samples: Arc<Samples>,
    worker: Worker,
    shares: Shares,
    pub replica: Replica,
    pub codec: Codec,
    /// Of the last unit that was computed.
    pub gradient: Gradient,
    /// The sum of an update on its way into the replica.
    update: Gradient,
    clip: Option<f32>,
    seed: u64,
    optimizer: OptimizerSpec,
    pool: ThreadPool,
}

/// What computing a unit took and gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Computed {
    pub tally: proto::Tally,
    pub seconds: f64,
}

impl Station {
    /// A station for a worker, on a run's data.
    pub fn new(settings: &Settings, dataset: &Dataset, mut worker: Worker) -> Result<Self> {
        let (hands, threads) = (worker.hands().len(), worker.threads());
        let layout = worker.layout().clone();
        let file = &settings.file;
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("hand-{i}"))
            .build()
            .context("cannot start the worker's threads")?;
        Ok(Self {
            samples: Arc::clone(&dataset.train),
            worker,
            shares: Shares::new(Sharing::of(settings, dataset.train.len(), hands)),
            replica: Replica::new(&layout, file.optimizer.clone(), file.seed),
            codec: Codec::new(&layout, file.compression),
            gradient: Gradient::new(&layout),
            update: Gradient::new(&layout),
            clip: file.clip_norm,
            seed: file.seed,
            optimizer: file.optimizer.clone(),
            pool,
        })
    }

    pub fn layout(&self) -> &Layout {
        self.worker.layout()
    }

    /// Computes the gradient of a unit.
    pub fn compute(&mut self, unit: Unit) -> Computed {
        let started = Instant::now();
        let sharing = self.shares.sharing();
        let (within, slot) = (unit.index as usize / sharing.workers, unit.index as usize % sharing.workers);
        let round = unit.epoch * sharing.rounds_per_epoch + within as u64;
        self.shares.go_to(&self.samples, round);
        let (worker, shares, samples) = (&mut self.worker, &self.shares, &self.samples);
        let (parameters, gradient) = (&self.replica.parameters, &mut self.gradient);
        let luck = Luck { seed: round_seed(self.seed, round), slot };
        self.pool.install(|| {
            worker.load(samples, shares, slot);
            worker.compute(parameters, luck, gradient);
        });
        let (tally, samples) = (self.worker.tally(), self.worker.samples());
        Computed { tally: to_proto(tally, samples as u64), seconds: started.elapsed().as_secs_f64() }
    }

    /// Whether there is such a unit.
    pub fn has(&self, unit: Unit) -> bool {
        let sharing = self.shares.sharing();
        let per_epoch = sharing.rounds_per_epoch.saturating_mul(sharing.workers as u64);
        u64::from(unit.index) < per_epoch && unit.epoch.checked_mul(per_epoch).is_some()
    }

    /// A round without a share: a gradient of nothing.
    pub fn idle(&mut self) -> Computed {
        self.gradient.clear();
        self.gradient.finish();
        Computed::default()
    }

    /// Back to the parameters that every run begins with.
    pub fn restart(&mut self) {
        self.replica = Replica::new(self.worker.layout(), self.optimizer.clone(), self.seed);
    }

    /// How many samples there are to train on.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// Brings the replica up to date.
    pub fn take(&mut self, go: &proto::Go, payload: Bytes) -> Result<()> {
        take(&mut self.replica, &mut self.codec, &mut self.update, self.clip, go, payload)
    }

    /// One step by a sum of gradients.
    pub fn step(&mut self, lr: f32) {
        let (replica, gradient) = (&mut self.replica, &self.gradient);
        let step = StepSize { lr, clip: self.clip };
        self.pool.install(|| replica.step(std::slice::from_ref(gradient), step));
    }
}

/// Applies what a parent has to tell to a replica. `update` is memory to use.
pub fn take(
    replica: &mut Replica,
    codec: &mut Codec,
    update: &mut Gradient,
    clip: Option<f32>,
    go: &proto::Go,
    payload: Bytes,
) -> Result<()> {
    match go.news() {
        proto::News::Nothing => Ok(()),
        proto::News::Update => {
            codec.sum(&[Parcel { payload, weight: go.weight }], update)?;
            replica.step(std::slice::from_ref(update), StepSize { lr: go.lr, clip });
            Ok(())
        }
        proto::News::Parameters => bytes_to_floats(&payload, &mut replica.parameters),
        proto::News::Changes => codec.unpack_changes(&payload, &mut replica.parameters),
    }
}

/// The whole of a replica as a payload, with what its frame says of it.
pub fn pack_state(replica: &Replica, round: u64, with_moments: bool) -> (proto::State, Bytes) {
    let moments: &[Vec<f32>] = if with_moments { replica.optimizer.moments() } else { &[] };
    let state = proto::State { round, steps: replica.optimizer.steps(), moments: moments.len() as u32 };
    let vectors = std::iter::once(replica.parameters.as_slice()).chain(moments.iter().map(Vec::as_slice));
    (state, floats_to_bytes(vectors))
}

/// Whether a state is one of such a replica: its parameters, and all moments of its optimiser or none.
pub fn check_state(replica: &Replica, state: &proto::State, payload: &[u8]) -> Result<()> {
    let (len, moments) = (replica.parameters.len(), replica.optimizer.moments().len());
    let claimed = state.moments as usize;
    ensure!(claimed == 0 || claimed == moments, "a state with {claimed} moments is of another optimiser");
    ensure!(payload.len() == len * 4 * (1 + claimed), "a state of {} bytes does not fit", payload.len());
    Ok(())
}

/// Makes a replica equal to one that came; one that does not fit changes nothing. Without moments only the parameters.
pub fn unpack_state(replica: &mut Replica, state: &proto::State, payload: &[u8]) -> Result<()> {
    check_state(replica, state, payload)?;
    let len = replica.parameters.len();
    let (parameters, rest) = payload.split_at(len * 4);
    if state.moments > 0 {
        let vector = |bytes: &[u8]| {
            let mut vector = vec![0.0; len];
            bytes_to_floats(bytes, &mut vector).map(|()| vector)
        };
        let vectors: Result<Vec<Vec<f32>>> = rest.chunks((len * 4).max(1)).map(vector).collect();
        if !replica.optimizer.restore(state.steps, vectors?) {
            bail!("the state is of another optimiser");
        }
    }
    bytes_to_floats(parameters, &mut replica.parameters)
}

pub fn to_proto(tally: &Tally, samples: u64) -> proto::Tally {
    let &Tally { loss, weight, answers, correct, .. } = tally;
    proto::Tally { loss, weight, answers, correct, samples }
}

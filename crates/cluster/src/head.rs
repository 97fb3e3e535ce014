//! The head of a run on one machine: the global parameters, and the workers that share its memory.
//!
//! A round is two parallel steps: every worker computes the gradient of its share, then the update reads all gradients in
//! the order of the workers. Nothing depends on which thread did what, so neither does any bit of the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bonfire_learn::data::{Batch, Samples};
use bonfire_learn::random::Random;
use bonfire_learn::{Gradient, Layout, Model, Optimizer, OptimizerSpec, Tally};
use rayon::prelude::*;

use crate::loader::{self, Loader, Plan, Shares};
use crate::worker::Worker;

/// Parameters, optimiser and workers.
#[derive(Debug)]
pub struct Head {
    pub parameters: Vec<f32>,
    pub optimizer: Optimizer,
    workers: Vec<Worker>,
    /// One a worker.
    gradients: Vec<Gradient>,
    seed: u64,
    loading: Loading,
}

/// Who fills the batches.
#[derive(Debug, Default)]
enum Loading {
    #[default]
    Unknown,
    /// Every worker its own, all at the same time.
    InPlace(Shares),
    /// A thread, for the rounds to come. With it the batches of the round before, whose memory serves again.
    Ahead(Loader, Vec<Batch>),
}

/// What a round is to do.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// From 0.
    pub number: u64,
    pub rounds_per_epoch: u64,
    /// Over all workers.
    pub round_size: usize,
    pub lr: f32,
    pub clip: Option<f32>,
}

impl Head {
    /// A head with one worker for each of some equal models.
    pub fn new(models: Vec<Box<dyn Model>>, optimizer: OptimizerSpec, seed: u64) -> Self {
        let workers: Vec<Worker> =
            models.into_iter().enumerate().map(|(i, model)| Worker::new(i, model)).collect();
        assert!(!workers.is_empty(), "a head has at least one worker");
        let layout = workers[0].model().layout();
        let (parameters, optimizer) = (layout.initial(seed), Optimizer::new(optimizer, layout));
        let gradients = vec![Gradient::new(layout); workers.len()];
        Self { parameters, optimizer, workers, gradients, seed, loading: Loading::default() }
    }

    pub fn layout(&self) -> &Layout {
        self.workers[0].model().layout()
    }

    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// One update by one batch of every worker. Returns the answers of all workers.
    pub fn round(&mut self, samples: &Arc<Samples>, round: Round) -> Tally {
        let plan = Plan {
            seed: self.seed,
            workers: self.workers.len(),
            round_size: round.round_size,
            rounds_per_epoch: round.rounds_per_epoch,
        };
        let mut loading = std::mem::take(&mut self.loading).at(samples, plan, round.number);
        let tally = match &mut loading {
            Loading::Ahead(loader, used) => {
                *used = loader.take(std::mem::take(used));
                for (worker, batch) in self.workers.iter_mut().zip(used) {
                    worker.exchange(batch);
                }
                self.update(round, |_| ())
            }
            Loading::InPlace(shares) => {
                shares.go_to(samples, round.number);
                self.update(round, |worker| worker.load(samples, shares))
            }
            Loading::Unknown => unreachable!("a loading is at a place"),
        };
        self.loading = loading;
        tally
    }

    /// Gives every worker a batch to repeat, for measuring speed.
    pub fn load(&mut self, batches: Vec<Batch>) {
        assert_eq!(batches.len(), self.workers.len(), "a batch for every worker");
        for (worker, mut batch) in self.workers.iter_mut().zip(batches) {
            worker.exchange(&mut batch);
        }
    }

    /// One update by the batches that the workers hold.
    pub fn repeat(&mut self, round: Round) -> Tally {
        self.update(round, |_| ())
    }

    fn update(&mut self, round: Round, load: impl Fn(&mut Worker) + Sync) -> Tally {
        let seed = Random::at(self.seed, &[0x5EED, round.number]).bits();
        let (parameters, workers, finished) = (&self.parameters, self.workers.len(), AtomicUsize::new(0));
        let each = self.workers.par_iter_mut().zip(&mut self.gradients);
        each.with_max_len(1).for_each(|(worker, gradient)| {
            load(worker);
            worker.compute(parameters, seed, gradient);
            await_others(&finished, workers);
        });
        self.optimizer.step(&mut self.parameters, &self.gradients, round.lr, round.clip);
        let mut tally = Tally::default();
        for worker in &self.workers {
            tally.add(worker.tally());
        }
        tally
    }

    /// Measures the parameters on samples.
    pub fn evaluate(&mut self, samples: &Samples) -> Tally {
        // Samples of similar length together: less padding, the same answers.
        let mut order: Vec<u32> = (0..samples.len() as u32).collect();
        if samples.varies_in_length() {
            order.sort_by_key(|&sample| samples.length(sample as usize));
        }
        let (parameters, workers) = (&self.parameters, self.workers.len());
        let each = self.workers.par_iter_mut().with_max_len(1);
        let tallies: Vec<Tally> =
            each.map(|worker| worker.evaluate(parameters, samples, &order, workers)).collect();
        let mut sum = Tally::with_confusion(self.workers[0].model().classes());
        tallies.iter().for_each(|tally| sum.add(tally));
        sum
    }
}

impl Loading {
    /// This loading at a round, or another that is.
    fn at(self, samples: &Arc<Samples>, plan: Plan, round: u64) -> Self {
        match self {
            Self::Ahead(loader, used) if loader.is_at(samples, plan, round) => {
                return Self::Ahead(loader, used);
            }
            Self::InPlace(shares) if shares.plan() == plan => return Self::InPlace(shares),
            _ => {}
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let loader = loader::pays(samples.effort(), plan.workers, cores)
            .then(|| Loader::start(samples, plan, round).ok())
            .flatten();
        // A thread that cannot be started costs speed, not the run.
        match loader {
            Some(loader) => Self::Ahead(loader, Vec::new()),
            None => Self::InPlace(Shares::new(plan)),
        }
    }
}

/// How long a worker that is done waits for the others before its thread may go to sleep.
const PATIENCE: Duration = Duration::from_micros(200);

/// Keeps a thread awake until the others are done too, if that is soon. Falling asleep and being woken costs more than the
/// whole update of a small model.
fn await_others(finished: &AtomicUsize, workers: usize) {
    finished.fetch_add(1, Ordering::Release);
    if workers > rayon::current_num_threads() {
        return;
    }
    let since = Instant::now();
    while finished.load(Ordering::Acquire) < workers && since.elapsed() < PATIENCE {
        std::hint::spin_loop();
    }
}

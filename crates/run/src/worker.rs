//! One worker: its share of a round, and the gradient of that share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bonfire_data::Samples;
use bonfire_learn::random::mix;
use bonfire_learn::sum::sum;
use bonfire_learn::{Batch, Gradient, Inputs, Layout, Model, Settled, Tally};
use rayon::prelude::*;

use crate::loader::Shares;

/// A worker with one copy a thread, or with one copy for all of them where the model's products are shared. Copies
/// share nothing while they compute; their gradients are added in their order, so the number of hands is part of what a
/// run computes, and who runs them is not.
#[derive(Debug)]
pub struct Worker {
    copies: Vec<ModelCopy>,
    threads: usize,
    /// The answers of the last round.
    tally: Tally,
}

/// A thread's part: a model's memory, and a batch.
pub struct ModelCopy {
    model: Box<dyn Model>,
    share: Vec<u32>,
    batch: Batch,
    /// Of a copy among several, from its first step on. One alone computes straight into the worker's.
    gradient: Option<Gradient>,
    tally: Tally,
    /// When the forward pass of its last batch was over.
    forward_done: Option<Instant>,
}

/// What chance depends on: the round's seed, and whose share it is.
#[derive(Clone, Copy, Debug)]
pub struct UnitSeed {
    pub seed: u64,
    pub slot: usize,
}

impl UnitSeed {
    fn worker_seed(self) -> u64 {
        mix(self.seed ^ mix(self.slot as u64 + 1))
    }
}

impl Worker {
    /// A worker with so many threads. `build` makes its models, which are equal.
    pub fn build<E>(threads: usize, mut build: impl FnMut() -> Result<Box<dyn Model>, E>) -> Result<Self, E> {
        assert!(threads > 0, "a worker has at least one thread");
        let mut models = vec![build()?];
        let copies = if models[0].shares_products() { 1 } else { threads };
        for _ in 1..copies {
            models.push(build()?);
        }
        let copy = |model: Box<dyn Model>| ModelCopy {
            model,
            share: Vec::new(),
            batch: Batch::default(),
            gradient: None,
            tally: Tally::default(),
            forward_done: None,
        };
        Ok(Self { copies: models.into_iter().map(copy).collect(), threads, tally: Tally::default() })
    }

    pub fn layout(&self) -> &Layout {
        self.copies[0].model.layout()
    }

    /// Whether its model is mostly weights, beside which what a batch takes is little.
    pub fn shares_products(&self) -> bool {
        self.copies[0].model.shares_products()
    }

    /// How many threads can work for it at a time.
    pub fn threads(&self) -> usize {
        self.threads
    }

    pub fn copies(&mut self) -> &mut [ModelCopy] {
        &mut self.copies
    }

    pub fn has_one_copy(&self) -> bool {
        self.copies.len() == 1
    }

    /// What was right and wrong in the last round.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// When its copies were done with their last forward passes.
    pub fn forward_done(&self) -> Option<Instant> {
        self.copies.iter().filter_map(|copy| copy.forward_done).max()
    }

    /// How many samples the loaded share has.
    pub fn samples(&self) -> usize {
        self.copies.iter().map(|copy| copy.batch.samples).sum()
    }

    /// How many words the samples of the loaded share have; as many as samples, where these have none.
    pub fn words(&self) -> u64 {
        let words = |copy: &ModelCopy| match &copy.batch.inputs {
            Inputs::Images { .. } => copy.batch.samples as u64,
            Inputs::Words { lengths, .. } => lengths.iter().map(|length| u64::from(*length)).sum(),
        };
        self.copies.iter().map(words).sum()
    }

    /// Loads the share of a slot of the round that `shares` is at.
    pub fn load(&mut self, samples: &Samples, shares: &Shares, slot: usize) {
        self.copies.par_iter_mut().with_max_len(1).enumerate().for_each(|(i, copy)| {
            shares.fill(samples, (slot, i), &mut copy.share, &mut copy.batch);
        });
    }

    /// Takes batches that were made elsewhere, one a copy, and leaves those before in their place.
    pub fn exchange(&mut self, batches: &mut [Batch]) {
        self.copies.iter_mut().zip(batches).for_each(|(copy, batch)| copy.exchange(batch));
    }

    /// Computes the gradient of the loaded share. Where there is one copy, `settled` hears layer by layer from where on
    /// the gradient will not change any more.
    pub fn compute(
        &mut self,
        parameters: &[f32],
        seed: UnitSeed,
        gradient: &mut Gradient,
        settled: &mut Settled<'_>,
    ) {
        // Helpers are the other threads of a pool that is this worker's alone.
        let has_helpers = self.threads > 1 && self.threads == rayon::current_num_threads();
        if let [copy] = self.copies.as_mut_slice() {
            let seed = seed.worker_seed();
            match rayon::current_thread_index().filter(|_| has_helpers) {
                Some(this) => with_helpers(this, || copy.compute(parameters, seed, gradient, settled)),
                None => copy.compute(parameters, seed, gradient, settled),
            }
            self.count();
        } else {
            self.compute_parts(parameters, seed);
            sum(self.layout(), &self.parts(), gradient);
        }
    }

    /// Computes the gradients of the shares of several copies.
    pub fn compute_parts(&mut self, parameters: &[f32], seed: UnitSeed) {
        let (seed, finished) = (seed.worker_seed(), Finish::of(self.copies.len()));
        self.copies.par_iter_mut().with_max_len(1).enumerate().for_each(|(i, copy)| {
            let own = copy.gradient.take();
            let mut own = own.unwrap_or_else(|| Gradient::in_factors(copy.model.layout()));
            copy.compute(parameters, mix(seed ^ ((i as u64) << 32)), &mut own, &mut |_, _| ());
            copy.gradient = Some(own);
            finished.arrive();
        });
        self.count();
    }

    /// The gradients of several copies.
    pub fn parts(&self) -> Vec<&Gradient> {
        self.copies.iter().flat_map(|copy| &copy.gradient).collect()
    }

    fn count(&mut self) {
        self.tally = Tally::default();
        for copy in &self.copies {
            self.tally.add(&copy.tally);
        }
    }
}

impl ModelCopy {
    /// Takes a batch that was made elsewhere, and leaves the one before it in its place.
    pub fn exchange(&mut self, batch: &mut Batch) {
        std::mem::swap(&mut self.batch, batch);
    }

    pub fn classes(&self) -> usize {
        self.model.classes()
    }

    fn compute(&mut self, parameters: &[f32], seed: u64, gradient: &mut Gradient, settled: &mut Settled<'_>) {
        self.tally = Tally::default();
        let (tally, forward_done) = (&mut self.tally, &mut self.forward_done);
        *forward_done = None;
        self.model.gradient_by_layers(
            parameters,
            &self.batch,
            seed,
            gradient,
            tally,
            &mut |gradient, from| match forward_done {
                None => *forward_done = Some(Instant::now()),
                Some(_) => settled(gradient, from),
            },
        );
    }

    /// Measures one of the parts of the samples.
    pub fn evaluate(
        &mut self,
        parameters: &[f32],
        samples: &Samples,
        order: &[u32],
        (part, portions): (usize, Portions),
    ) -> Tally {
        let mut tally = Tally::measuring(self.model.classes());
        for block in order.chunks(EVAL_BLOCK).skip(part).step_by(portions.parts) {
            for numbers in block.chunks(portions.batch) {
                samples.fill(&mut self.batch, numbers);
                self.model.evaluate(parameters, &self.batch, &mut tally);
            }
        }
        tally
    }
}

/// Runs `compute` on thread `this` of a pool, which is the one that calls, and keeps the pool's others awake for the
/// parts that it shares with them. To be woken for every product would cost as much as they help.
fn with_helpers(this: usize, compute: impl FnOnce() + Send) {
    let done = AtomicBool::new(false);
    let compute = Mutex::new(Some(compute));
    rayon::broadcast(|thread| {
        if thread.index() == this {
            let compute = compute.lock().ok().and_then(|mut compute| compute.take());
            compute.into_iter().for_each(|compute| compute());
            done.store(true, Ordering::Release);
        } else {
            help_until(&done);
        }
    });
}

/// Works for others, until they are done or have had nothing to do for a while.
fn help_until(done: &AtomicBool) {
    let mut since = Instant::now();
    while !done.load(Ordering::Acquire) && since.elapsed() < PATIENCE {
        match rayon::yield_now() {
            Some(rayon::Yield::Executed) => since = Instant::now(),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Where those who compute at the same time meet when they are done.
#[derive(Debug)]
pub struct Finish {
    there: AtomicUsize,
    awaited: usize,
}

/// How long one that is done waits for the others before its thread may go to sleep.
const PATIENCE: Duration = Duration::from_micros(200);

impl Finish {
    /// A finish of so many.
    pub fn of(awaited: usize) -> Self {
        Self { there: AtomicUsize::new(0), awaited }
    }

    /// Keeps a thread awake until the others are done too, if that is soon. Falling asleep and being woken costs more
    /// than the whole update of a small model.
    pub fn arrive(&self) {
        self.there.fetch_add(1, Ordering::Release);
        if self.awaited > rayon::current_num_threads() {
            return;
        }
        let since = Instant::now();
        while self.there.load(Ordering::Acquire) < self.awaited && since.elapsed() < PATIENCE {
            std::hint::spin_loop();
        }
    }
}

/// How the samples of an evaluation are portioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portions {
    /// Every so many-th block of samples makes a part. Its answers are summed up, then those sums: so the number of
    /// parts is part of what is computed, and who measures them is not.
    pub parts: usize,
    /// How many samples are measured at a time.
    pub batch: usize,
}

impl Portions {
    /// So many parts, measured by copies whose memory is for so many samples at a time.
    pub fn of(parts: usize, share: usize) -> Self {
        Self { parts, batch: share.clamp(1, EVAL_BLOCK) }
    }
}

/// How many samples a block of an evaluation has.
const EVAL_BLOCK: usize = 64;

impl std::fmt::Debug for ModelCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ModelCopy with {} parameters", self.model.layout().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Sharing;
    use crate::replica::{Replica, StepSize};
    use bonfire_data::{Cut, EpochOrder, Source};
    use bonfire_learn::{ModelSpec, OptimizerSpec};
    use serde_json::json;

    /// How far one step by the gradients of some parts of a round goes.
    fn step(spec: &ModelSpec, data: &str, workers: usize, cuts: &[Option<Cut>]) -> Vec<f32> {
        let source: Source =
            serde_json::from_value(json!({"name": data, "train": 300, "test": 10})).expect("data");
        let dataset = source.load().expect("data");
        let rounds_per_epoch = EpochOrder::rounds(300, 128) as u64;
        let mut shares =
            Shares::new(Sharing { seed: 5, workers, copies: 1, round_size: 128, rounds_per_epoch });
        let mut worker = Worker::build(1, || spec.build(&dataset.shape)).expect("a worker");
        let sgd: OptimizerSpec = serde_json::from_value(json!({"sgd": {"lr": 1.0}})).expect("an optimiser");
        let mut replica = Replica::new(worker.layout(), sgd, 1);
        let mut gradients = vec![Gradient::new(worker.layout()); cuts.len()];
        for (slot, (cut, gradient)) in cuts.iter().zip(&mut gradients).enumerate() {
            shares.go_to(&dataset.train, rounds_per_epoch - 1);
            cut.iter().for_each(|cut| shares.cut(cut.clone()));
            worker.load(&dataset.train, &shares, slot);
            worker.compute(&replica.parameters, UnitSeed { seed: 1, slot }, gradient, &mut |_, _| ());
        }
        let before = replica.parameters.clone();
        replica.step(&gradients, StepSize { lr: 1.0, clip: None });
        before.iter().zip(&replica.parameters).map(|(before, after)| before - after).collect()
    }

    /// The last round of an epoch has fewer samples than the others; it is shared out all the same.
    #[test]
    fn an_uneven_round_has_the_gradient_of_one_machine() {
        for (model, data) in
            [(json!({"lenet5": {}}), "digits"), (json!({"tagger": {"dropout": 0.0}}), "grammar")]
        {
            let spec: ModelSpec = serde_json::from_value(model).expect("a model");
            let whole = step(&spec, data, 1, &[None]);
            let largest = whole.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            for shares in [vec![32; 4], vec![16, 16, 32, 64], vec![0, 8, 100, 20]] {
                let cut = |place| Some(Cut { first: 8, place, shares: shares.clone() });
                let parts = step(&spec, data, 4, &[cut(0), cut(1), cut(2), cut(3)]);
                for (part, whole) in parts.iter().zip(&whole) {
                    assert!(
                        (part - whole).abs() <= 1e-5 * largest,
                        "{} {shares:?}: {part} {whole}",
                        spec.name()
                    );
                }
            }
        }
    }
}

//! One worker: its share of a round, and the gradient of that share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bonfire_data::Samples;
use bonfire_learn::random::mix;
use bonfire_learn::sum::sum;
use bonfire_learn::{Batch, Gradient, Layout, Model, Tally};
use rayon::prelude::*;

use crate::loader::Shares;

/// A worker with one hand a thread, or with one hand for all of them where the model's products are shared. Hands share
/// nothing while they compute; their gradients are added in their order, so the number of hands is part of what a run
/// computes, and who runs them is not.
#[derive(Debug)]
pub struct Worker {
    hands: Vec<Hand>,
    threads: usize,
    /// The answers of the last round.
    tally: Tally,
}

/// A thread's part: a model's memory, and a batch.
pub struct Hand {
    model: Box<dyn Model>,
    share: Vec<u32>,
    batch: Batch,
    /// Of a hand among several, from its first step on. One alone computes straight into the worker's.
    gradient: Option<Gradient>,
    tally: Tally,
}

/// What chance depends on: the round's seed, and whose share it is.
#[derive(Clone, Copy, Debug)]
pub struct Luck {
    pub seed: u64,
    pub slot: usize,
}

impl Luck {
    fn worker_seed(self) -> u64 {
        mix(self.seed ^ mix(self.slot as u64 + 1))
    }
}

impl Worker {
    /// A worker with so many threads. `build` makes its models, which are equal.
    pub fn build<E>(threads: usize, mut build: impl FnMut() -> Result<Box<dyn Model>, E>) -> Result<Self, E> {
        assert!(threads > 0, "a worker has at least one thread");
        let mut models = vec![build()?];
        let hands = if models[0].shares_products() { 1 } else { threads };
        for _ in 1..hands {
            models.push(build()?);
        }
        let hand = |model: Box<dyn Model>| Hand {
            model,
            share: Vec::new(),
            batch: Batch::default(),
            gradient: None,
            tally: Tally::default(),
        };
        Ok(Self { hands: models.into_iter().map(hand).collect(), threads, tally: Tally::default() })
    }

    pub fn layout(&self) -> &Layout {
        self.hands[0].model.layout()
    }

    /// Whether its model is mostly weights, beside which what a batch takes is little.
    pub fn shares_products(&self) -> bool {
        self.hands[0].model.shares_products()
    }

    /// How many threads can work for it at a time.
    pub fn threads(&self) -> usize {
        self.threads
    }

    pub fn hands(&mut self) -> &mut [Hand] {
        &mut self.hands
    }

    pub fn is_single_handed(&self) -> bool {
        self.hands.len() == 1
    }

    /// What was right and wrong in the last round.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How many samples the loaded share has.
    pub fn samples(&self) -> usize {
        self.hands.iter().map(|hand| hand.batch.samples).sum()
    }

    /// Loads the share of a slot of the round that `shares` is at.
    pub fn load(&mut self, samples: &Samples, shares: &Shares, slot: usize) {
        self.hands.par_iter_mut().with_max_len(1).enumerate().for_each(|(i, hand)| {
            shares.fill(samples, (slot, i), &mut hand.share, &mut hand.batch);
        });
    }

    /// Computes the gradient of the loaded share.
    pub fn compute(&mut self, parameters: &[f32], luck: Luck, gradient: &mut Gradient) {
        // Helpers are the other threads of a pool that is this worker's alone.
        let has_helpers = self.threads > 1 && self.threads == rayon::current_num_threads();
        if let [hand] = self.hands.as_mut_slice() {
            let seed = luck.worker_seed();
            match rayon::current_thread_index().filter(|_| has_helpers) {
                Some(this) => with_helpers(this, || hand.compute(parameters, seed, gradient)),
                None => hand.compute(parameters, seed, gradient),
            }
            self.count();
        } else {
            self.compute_parts(parameters, luck);
            sum(self.layout(), &self.parts(), gradient);
        }
    }

    /// Computes the gradients of the shares of several hands.
    pub fn compute_parts(&mut self, parameters: &[f32], luck: Luck) {
        let (seed, finished) = (luck.worker_seed(), Finish::of(self.hands.len()));
        self.hands.par_iter_mut().with_max_len(1).enumerate().for_each(|(i, hand)| {
            let own = hand.gradient.take();
            let mut own = own.unwrap_or_else(|| Gradient::in_factors(hand.model.layout()));
            hand.compute(parameters, mix(seed ^ ((i as u64) << 32)), &mut own);
            hand.gradient = Some(own);
            finished.arrive();
        });
        self.count();
    }

    /// The gradients of several hands.
    pub fn parts(&self) -> Vec<&Gradient> {
        self.hands.iter().flat_map(|hand| &hand.gradient).collect()
    }

    fn count(&mut self) {
        self.tally = Tally::default();
        for hand in &self.hands {
            self.tally.add(&hand.tally);
        }
    }
}

impl Hand {
    /// Takes a batch that was made elsewhere, and leaves the one before it in its place.
    pub fn exchange(&mut self, batch: &mut Batch) {
        std::mem::swap(&mut self.batch, batch);
    }

    pub fn classes(&self) -> usize {
        self.model.classes()
    }

    fn compute(&mut self, parameters: &[f32], seed: u64, gradient: &mut Gradient) {
        self.tally = Tally::default();
        self.model.gradient(parameters, &self.batch, seed, gradient, &mut self.tally);
    }

    /// Measures one of the parts of the samples.
    pub fn evaluate(
        &mut self,
        parameters: &[f32],
        samples: &Samples,
        order: &[u32],
        (part, portions): (usize, Portions),
    ) -> Tally {
        let mut tally = Tally::with_confusion(self.model.classes());
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
    /// So many parts, measured by hands whose memory is for so many samples at a time.
    pub fn of(parts: usize, share: usize) -> Self {
        Self { parts, batch: share.clamp(1, EVAL_BLOCK) }
    }
}

/// How many samples a block of an evaluation has.
const EVAL_BLOCK: usize = 64;

impl std::fmt::Debug for Hand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hand with {} parameters", self.model.layout().len())
    }
}

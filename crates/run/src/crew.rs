//! The workers of one process, which share its memory.
//!
//! A round is two parallel steps: every worker computes the gradient of its share, then the update reads all
//! gradients in the order of the workers. Nothing depends on which thread did what, so neither does any bit of the
//! result.

use std::sync::Arc;
use std::time::Instant;

use bonfire_data::Samples;
use bonfire_learn::random::Random;
use bonfire_learn::{Batch, Gradient, Layout, Tally};
use bonfire_report::{Phase, Phases};
use rayon::prelude::*;

use crate::loader::{self, Loader, Shares, Sharing};
use crate::replica::{Replica, StepSize};
use crate::worker::{Finish, ModelCopy, Portions, UnitSeed, Worker};

/// Workers of equal models.
#[derive(Debug)]
pub struct Crew {
    workers: Vec<Worker>,
    /// One a worker, from the first round on.
    gradients: Vec<Gradient>,
    seed: u64,
    loading: Loading,
    /// One a worker, too.
    times: Vec<WorkerTimes>,
}

/// What a worker spent its time on.
#[derive(Clone, Debug, Default)]
struct WorkerTimes {
    phases: Phases,
    /// Since when it has been waiting for the others.
    done: Option<Instant>,
}

impl WorkerTimes {
    /// Its batch was laid out, and the worker is done with it by now.
    fn computed(&mut self, begun: Instant, loaded: Instant, worker: &Worker) {
        let now = Instant::now();
        let turned = worker.forward_done().unwrap_or(loaded);
        self.phases.add(Phase::Data, loaded - begun);
        self.phases.add(Phase::Forward, turned - loaded);
        self.phases.add(Phase::Backward, now - turned);
        self.done = Some(now);
    }

    /// All have met, and the update is done by now.
    fn applied(&mut self, met: Instant, now: Instant) {
        if let Some(done) = self.done.take() {
            self.phases.add(Phase::Wait, met.saturating_duration_since(done));
        }
        self.phases.add(Phase::Apply, now - met);
    }
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
pub struct RoundPlan {
    /// From 0.
    pub number: u64,
    pub rounds_per_epoch: u64,
    /// Over all workers.
    pub round_size: usize,
    pub step: StepSize,
}

/// The seed that all chance of a round comes from.
pub fn round_seed(seed: u64, round: u64) -> u64 {
    Random::at(seed, &[0x5EED, round]).bits()
}

impl Crew {
    /// Workers who have as many copies each.
    pub fn new(workers: Vec<Worker>, seed: u64) -> Self {
        assert!(!workers.is_empty(), "a crew has workers");
        let times = vec![WorkerTimes::default(); workers.len()];
        Self { workers, gradients: Vec::new(), seed, loading: Loading::default(), times }
    }

    pub fn layout(&self) -> &Layout {
        self.workers[0].layout()
    }

    pub fn size(&self) -> usize {
        self.workers.len()
    }

    /// Takes more workers, before the first round.
    pub fn extend(&mut self, more: Vec<Worker>) {
        assert!(self.gradients.is_empty(), "a crew that has begun stays as it is");
        self.workers.extend(more);
        self.times.resize_with(self.workers.len(), WorkerTimes::default);
    }

    /// What every worker spent its time on since this was last asked.
    pub fn take_phases(&mut self) -> Vec<Phases> {
        self.times.iter_mut().map(|times| times.phases.take()).collect()
    }

    /// See [`Worker::shares_products`].
    pub fn shares_products(&self) -> bool {
        self.workers[0].shares_products()
    }

    /// One update by one batch of every worker. Returns the answers of all workers.
    pub fn round(&mut self, replica: &mut Replica, samples: &Arc<Samples>, round: RoundPlan) -> Tally {
        let sharing = Sharing {
            seed: self.seed,
            workers: self.workers.len(),
            copies: self.workers[0].copies().len(),
            round_size: round.round_size,
            rounds_per_epoch: round.rounds_per_epoch,
        };
        let mut loading = std::mem::take(&mut self.loading).at(samples, sharing, round.number);
        let tally = match &mut loading {
            Loading::Ahead(loader, used) => {
                let begun = Instant::now();
                *used = loader.take(std::mem::take(used));
                let waited = begun.elapsed();
                self.times.iter_mut().for_each(|times| times.phases.add(Phase::Data, waited));
                self.exchange(used);
                self.update(replica, round, |_, _| ())
            }
            Loading::InPlace(shares) => {
                shares.go_to(samples, round.number);
                self.update(replica, round, |worker, slot| worker.load(samples, shares, slot))
            }
            Loading::Unknown => unreachable!("a loading is at a place"),
        };
        self.loading = loading;
        tally
    }

    /// Gives every copy a batch to repeat, for measuring speed.
    pub fn load(&mut self, mut batches: Vec<Batch>) {
        self.exchange(&mut batches);
    }

    /// One update by the batches that the workers hold.
    pub fn repeat(&mut self, replica: &mut Replica, round: RoundPlan) -> Tally {
        self.update(replica, round, |_, _| ())
    }

    /// The copies of all workers.
    pub fn copies(&mut self) -> Vec<&mut ModelCopy> {
        self.workers.iter_mut().flat_map(Worker::copies).collect()
    }

    /// Swaps the batch of every copy for another.
    fn exchange(&mut self, batches: &mut [Batch]) {
        for (copy, batch) in self.workers.iter_mut().flat_map(Worker::copies).zip(batches) {
            copy.exchange(batch);
        }
    }

    fn update(
        &mut self,
        replica: &mut Replica,
        round: RoundPlan,
        load: impl Fn(&mut Worker, usize) + Sync,
    ) -> Tally {
        let seed = round_seed(self.seed, round.number);
        match self.workers.as_mut_slice() {
            // Its copies' gradients need not be added before the update adds them.
            [worker] if !worker.has_one_copy() => {
                let begun = Instant::now();
                load(worker, 0);
                let loaded = Instant::now();
                worker.compute_parts(&replica.parameters, UnitSeed { seed, slot: 0 });
                self.times[0].computed(begun, loaded, worker);
                let met = Instant::now();
                replica.step(&worker.parts(), round.step);
                self.times[0].applied(met, Instant::now());
            }
            workers => {
                if self.gradients.is_empty() {
                    // Shortening a gradient takes its length, for which products would be computed twice.
                    let new = if round.step.clip.is_none() { Gradient::in_factors } else { Gradient::new };
                    self.gradients = vec![new(workers[0].layout()); workers.len()];
                }
                let (parameters, finished) = (&replica.parameters, Finish::of(workers.len()));
                let each = workers.par_iter_mut().zip(&mut self.gradients).zip(&mut self.times).enumerate();
                each.with_max_len(1).for_each(|(slot, ((worker, gradient), times))| {
                    let begun = Instant::now();
                    load(worker, slot);
                    let loaded = Instant::now();
                    worker.compute(parameters, UnitSeed { seed, slot }, gradient, &mut |_, _| ());
                    times.computed(begun, loaded, worker);
                    if worker.has_one_copy() {
                        finished.arrive();
                    }
                });
                let met = Instant::now();
                replica.step(&self.gradients, round.step);
                let now = Instant::now();
                self.times.iter_mut().for_each(|times| times.applied(met, now));
            }
        }
        let mut tally = Tally::default();
        for worker in &self.workers {
            tally.add(worker.tally());
        }
        tally
    }

    /// Measures parameters on samples.
    pub fn evaluate(&mut self, parameters: &[f32], samples: &Samples, portions: Portions) -> Tally {
        // Samples of similar length together: less padding, the same answers.
        let mut order: Vec<u32> = (0..samples.len() as u32).collect();
        if samples.varies_in_length() {
            order.sort_by_key(|&sample| samples.length(sample as usize));
        }
        let (mut copies, mut tallies) = (self.copies(), vec![Tally::default(); portions.parts]);
        let (several, classes) = (copies.len(), copies[0].classes());
        let each = copies.par_iter_mut().with_max_len(1).enumerate().map(|(i, copy)| {
            let parts = (i..portions.parts).step_by(several);
            parts.map(|part| (part, copy.evaluate(parameters, samples, &order, (part, portions)))).collect()
        });
        for (part, tally) in each.collect::<Vec<Vec<_>>>().into_iter().flatten() {
            tallies[part] = tally;
        }
        let mut sum = Tally::measuring(classes);
        tallies.iter().for_each(|tally| sum.add(tally));
        sum
    }
}

impl Loading {
    /// This loading at a round, or another that is.
    fn at(self, samples: &Arc<Samples>, sharing: Sharing, round: u64) -> Self {
        match self {
            Self::Ahead(loader, used) if loader.is_at(samples, sharing, round) => {
                return Self::Ahead(loader, used);
            }
            Self::InPlace(shares) if shares.sharing() == sharing => return Self::InPlace(shares),
            _ => {}
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let loader = loader::pays(samples.effort(), sharing.workers * sharing.copies, cores)
            .then(|| Loader::start(samples, sharing, round).ok())
            .flatten();
        // A thread that cannot be started costs speed, not the run.
        match loader {
            Some(loader) => Self::Ahead(loader, Vec::new()),
            None => Self::InPlace(Shares::new(sharing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_data::Source;
    use bonfire_learn::ModelSpec;
    use serde_json::json;

    /// Who measures which part, and how many samples at a time, changes no bit of the sums.
    #[test]
    fn an_evaluation_depends_on_its_parts_alone() {
        let check = |model: serde_json::Value, data: &str| {
            let spec: ModelSpec = serde_json::from_value(model).expect("a model");
            let source: Source =
                serde_json::from_value(json!({"name": data, "train": 50, "test": 333})).expect("data");
            let dataset = source.load().expect("data");
            let measure = |copies: usize, batch: usize| {
                let worker = |_| Worker::build(1, || spec.build(&dataset.shape)).expect("a worker");
                let mut crew = Crew::new((0..copies).map(worker).collect(), 1);
                let parameters = crew.layout().initial(1);
                crew.evaluate(&parameters, &dataset.test, Portions::of(3, batch))
            };
            let whole = measure(3, 64);
            assert_eq!(whole.answers > 333, dataset.test.varies_in_length());
            for (copies, batch) in [(3, 8), (2, 64), (1, 1), (2, 13)] {
                let tally = measure(copies, batch);
                assert_eq!(tally, whole, "{} by {copies}, {batch} at a time", spec.name());
            }
        };
        check(json!({"lenet5": {}}), "digits");
        check(json!({"cnn": {}}), "digits");
        check(json!({"mlp": {"hidden": [40, 20]}}), "digits");
        check(json!({"resnet20": {"width": 4}}), "digits");
        check(json!({"tagger": {"embedding": 9, "hidden": 11}}), "grammar");
    }
}

//! How fast this machine is.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bonfire_learn::kernels::instructions;
use bonfire_learn::models::ModelSpec;
use bonfire_learn::optim::{AdamOptions, OptimizerSpec, SgdOptions};
use bonfire_learn::{Batch, Shape};
use bonfire_report::peak_rss_mb;
use rayon::ThreadPoolBuilder;
use serde::Serialize;

use crate::crew::{Crew, RoundPlan};
use crate::replica::{Replica, StepSize};
use crate::worker::Worker;

/// One measurement: a training step is forward, backward and update.
#[derive(Clone, Debug, Serialize)]
pub struct StepSpeed {
    pub model: &'static str,
    /// Over all threads.
    pub batch: usize,
    pub threads: usize,
    /// The vector instructions in use, by name.
    pub instructions: &'static str,
    pub params: usize,
    pub ms_per_step: f64,
    pub samples_per_s: f64,
    pub peak_rss_mb: Option<f64>,
}

/// The work of one step: a model on a fixed random batch. The sizes are those of the projects that the models come
/// from.
struct StepTask {
    model: ModelSpec,
    shape: Shape,
    batch: usize,
    /// The words of a text.
    words: usize,
    optimizer: OptimizerSpec,
}

impl StepTask {
    fn of(model: &ModelSpec) -> Self {
        let adam = OptimizerSpec::Adam(AdamOptions::default());
        let sgd = |momentum| OptimizerSpec::Sgd(SgdOptions { momentum, ..SgdOptions::default() });
        let images = |side, channels| Shape::Images { height: side, width: side, channels, classes: 10 };
        let (shape, batch, words, optimizer) = match model {
            ModelSpec::Lenet5(_) => (images(28, 1), 32, 0, adam),
            ModelSpec::Mlp(_) => (images(32, 3), 64, 0, sgd(0.0)),
            ModelSpec::Sentiment(_) => (Shape::Texts { words: 10_003, classes: 5 }, 128, 100, sgd(0.9)),
            ModelSpec::Tagger(_) => (Shape::Tagging { words: 9_000, tags: 17 }, 128, 32, adam),
            ModelSpec::Lenet(_) => (images(28, 1), 128, 0, sgd(0.9)),
            ModelSpec::Cnn(_) => (images(32, 3), 64, 0, sgd(0.9)),
            // The deep nets.
            _ => (images(32, 3), 32, 0, sgd(0.9)),
        };
        Self { model: model.clone(), shape, batch, words, optimizer }
    }
}

/// Measures the training step of a model, with its batch split over threads, for about so many seconds. The best of
/// three repeats counts: others use this machine too.
pub fn step(model: &ModelSpec, batch: Option<usize>, threads: usize, seconds: f64) -> Result<StepSpeed> {
    let task = StepTask::of(model);
    let batch = batch.unwrap_or(task.batch);
    ensure!(threads > 0, "--threads must be at least 1");
    ensure!(batch >= threads, "a batch of {batch} cannot be split over {threads} threads");
    ensure!(seconds > 0.0 && seconds.is_finite(), "--seconds must be above 0");
    let worker = Worker::build(threads, || task.model.build(&task.shape))?;
    let mut crew = Crew::new(vec![worker], 1);
    let mut replica = Replica::new(crew.layout(), task.optimizer.clone(), 1);
    let copies = crew.copies().len();
    let part = |i: usize| batch * (i + 1) / copies - batch * i / copies;
    crew.load((0..copies).map(|i| Batch::random(&task.shape, part(i), task.words, i as u64)).collect());
    let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
    let (lr, time) = (task.optimizer.lr(), Duration::from_secs_f64(seconds));
    let best = pool.install(|| best_time(&mut crew, &mut replica, lr, time));
    Ok(StepSpeed {
        model: task.model.name(),
        batch,
        threads,
        instructions: instructions::name(),
        params: crew.layout().parameters(),
        ms_per_step: best * 1e3,
        samples_per_s: batch as f64 / best,
        peak_rss_mb: peak_rss_mb(),
    })
}

/// The seconds of a step, the best of three repeats.
fn best_time(crew: &mut Crew, replica: &mut Replica, lr: f32, time: Duration) -> f64 {
    let step = StepSize { lr, clip: None };
    let round = |number| RoundPlan { number, rounds_per_epoch: u64::MAX, round_size: 1, step };
    let mut number = 0;
    let mut steps = |count: u64| {
        let started = Instant::now();
        for _ in 0..count {
            crew.repeat(replica, round(number));
            number += 1;
        }
        started.elapsed().as_secs_f64() / count as f64
    };
    steps(1);
    let one = steps(2);
    let count = ((time.as_secs_f64() / 3.0 / one) as u64).max(2);
    (0..3).map(|_| steps(count)).fold(f64::INFINITY, f64::min)
}

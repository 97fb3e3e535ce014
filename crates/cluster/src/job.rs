//! A run that is ready to start: data loaded, models built, everything checked, nothing written.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use bonfire_learn::data::order::Order;
use bonfire_learn::data::{Dataset, Shape};
use bonfire_learn::schedule::Place;
use bonfire_learn::{Error, Model};
use bonfire_report::Event;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::head::{Head, Round};
use crate::run_file::Settings;

/// Makes a model for data of a shape: one of the named ones, or the user's own.
pub type Build<'a> = &'a dyn Fn(&Shape) -> bonfire_learn::Result<Box<dyn Model>>;

/// Everything that a run on this machine needs.
#[derive(Debug)]
pub struct Job {
    pub settings: Settings,
    pub dataset: Arc<Dataset>,
    pub head: Head,
    pub model_name: String,
    pub pool: ThreadPool,
    pub rounds_per_epoch: u64,
    /// Planned in all.
    pub rounds: u64,
    /// Over all workers.
    pub round_size: usize,
}

/// With a gradient for every worker and an optimiser's moments, this many take some ten gigabytes.
const MOST_PARAMETERS: usize = 1 << 29;

impl Job {
    /// Loads and builds what the settings ask for. Whatever is wrong with them shows here.
    pub fn prepare(settings: Settings) -> Result<Self> {
        let (spec, name) = (settings.file.model.clone(), settings.file.model.name());
        Self::with_model(settings, name, &move |shape| spec.build(shape))
    }

    /// The same with a model of the caller's.
    pub fn with_model(settings: Settings, model_name: &str, build: Build<'_>) -> Result<Self> {
        let dataset = settings.file.data.load().map_err(|error| located(&settings, "data", error))?;
        let workers = settings.workers;
        if workers > dataset.train.len() {
            let samples = dataset.train.len();
            let message =
                format!("{workers} workers are more than the {samples} training samples of the data");
            return Err(settings.wrong("workers", message).into());
        }
        let models: Result<Vec<_>, _> = (0..workers).map(|_| build(&dataset.shape)).collect();
        let models = models.map_err(|error| located(&settings, "model", error))?;
        let parameters = models[0].layout().len();
        if parameters > MOST_PARAMETERS {
            let message = format!("the model has {parameters} parameters, more than {MOST_PARAMETERS}");
            return Err(settings.wrong("model", message).into());
        }
        let head = Head::new(models, settings.file.optimizer.clone(), settings.file.seed);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = ThreadPoolBuilder::new()
            .num_threads(workers.min(cores))
            .thread_name(|i| format!("worker-{i}"))
            .build()
            .context("cannot start the workers' threads")?;
        let round_size = settings.file.batch_size.saturating_mul(workers).min(dataset.train.len());
        let rounds_per_epoch = Order::rounds(dataset.train.len(), round_size) as u64;
        let rounds = settings.length.rounds(rounds_per_epoch);
        let model_name = model_name.to_owned();
        Ok(Self {
            settings,
            dataset: Arc::new(dataset),
            head,
            model_name,
            pool,
            rounds_per_epoch,
            rounds,
            round_size,
        })
    }

    /// What round `number`, from 0, is to do.
    pub fn round(&self, number: u64) -> Round {
        let file = &self.settings.file;
        let place = Place {
            round: number,
            rounds: self.rounds,
            rounds_per_epoch: self.rounds_per_epoch,
            warmup: file.warmup.map_or(0, |warmup| warmup.rounds(self.rounds_per_epoch)),
        };
        Round {
            number,
            rounds_per_epoch: self.rounds_per_epoch,
            round_size: self.round_size,
            lr: file.schedule.lr(file.optimizer.lr(), place),
            clip: file.clip_norm,
        }
    }

    /// What the first event of a run says.
    pub fn started(&self) -> Event {
        let file = &self.settings.file;
        Event::Started {
            name: file.name.clone(),
            model: self.model_name.clone(),
            parameters: self.head.layout().parameters(),
            data: self.dataset.name.clone(),
            train_samples: self.dataset.train.len(),
            test_samples: self.dataset.test.len(),
            workers: self.settings.workers,
            batch_size: file.batch_size,
            rounds_per_epoch: self.rounds_per_epoch,
            rounds: self.rounds,
            epochs: file.epochs,
            seed: file.seed,
        }
    }

    /// How many epochs so many rounds are.
    pub fn epochs(&self, rounds: u64) -> f64 {
        rounds as f64 / self.rounds_per_epoch as f64
    }
}

/// An error about what a key asks for gets the key's line, unless it names a file of its own.
fn located(settings: &Settings, key: &str, error: Error) -> anyhow::Error {
    match error {
        Error::Mismatch(message) => {
            let prefix = format!("{key}: ");
            settings.wrong(key, message.strip_prefix(&prefix).unwrap_or(&message)).into()
        }
        error => anyhow!(error),
    }
}

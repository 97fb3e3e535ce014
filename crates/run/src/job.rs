//! A run that is ready to start: data loaded, models built, everything checked, nothing written.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use bonfire_data::{Dataset, Error, Samples};
use bonfire_learn::layer_list::LayerPlan;
use bonfire_learn::models::{mlp, sentiment, tagger};
use bonfire_learn::{Layout, Model, ModelSpec, Shape, Tally};
use bonfire_report::{Event, Phases};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::crew::{Crew, RoundPlan};
use crate::replica::Replica;
use crate::run_file::{Settings, Topology};
use crate::schedule::RunSchedule;
use crate::worker::{Portions, Worker};

/// Makes a model for data of a shape: one of the named ones, or the user's own.
pub type Build<'a> = &'a dyn Fn(&Shape) -> bonfire_learn::Result<Box<dyn Model>>;

/// Where the workers of a run are. Only a job and whoever starts the run know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// All in this process, as threads.
    Threads,
    /// In other processes, here or elsewhere. This one is the head, or measures.
    Nodes,
}

/// Everything that a process needs to lead a run.
#[derive(Debug)]
pub struct Job {
    pub settings: Settings,
    pub dataset: Arc<Dataset>,
    /// The test half of a run that is judged by validation. It is measured once, at the end.
    pub held_out: Option<Arc<Samples>>,
    pub replica: Replica,
    /// Those who train, if they share memory and are in step; otherwise those who measure, of whom all but the first
    /// come with the first measurement: until then a head has no use for them.
    crew: Crew,
    /// How many of them there are then.
    crew_size: usize,
    /// So that an evaluation takes no more memory than a step of training.
    portions: Portions,
    /// Workers that are threads of this process but not in step.
    pub spare: Vec<Worker>,
    pub model_name: String,
    pub pool: ThreadPool,
    pub schedule: RunSchedule,
}

/// With a gradient for every worker and an optimiser's moments, this many take some ten gigabytes.
const MOST_PARAMETERS: usize = 1 << 29;

/// More threads than this do not measure faster.
const MOST_MEASURING: usize = 8;

impl Job {
    /// Loads and builds what the settings ask for. Whatever is wrong with them shows here.
    pub fn prepare(settings: Settings, scale: Scale) -> Result<Self> {
        let (dataset, held_out) = load(&settings)?;
        Ok(Self { held_out, ..Self::with_data(settings, dataset, scale, None)? })
    }

    /// The same with a model of the caller's.
    pub fn with_model(settings: Settings, scale: Scale, model_name: &str, build: Build<'_>) -> Result<Self> {
        let (dataset, held_out) = load(&settings)?;
        Ok(Self { held_out, ..Self::with_data(settings, dataset, scale, Some((model_name, build)))? })
    }

    /// The same with data that are loaded, and to be measured on as they are.
    pub fn on(settings: Settings, dataset: Arc<Dataset>, scale: Scale) -> Result<Self> {
        Self::with_data(settings, dataset, scale, None)
    }

    fn with_data(
        mut settings: Settings,
        dataset: Arc<Dataset>,
        scale: Scale,
        own: Option<(&str, Build<'_>)>,
    ) -> Result<Self> {
        let (spec, is_to_agree) = (settings.file.model.clone(), settings.is_to_agree());
        let named = |shape: &Shape| match spec.build(shape) {
            // It may be for classes that others have.
            Err(_) if is_to_agree => stand_in(shape).build(shape),
            built => built,
        };
        let (model_name, build) = own.unwrap_or((spec.name(), &named));
        if scale == Scale::Threads {
            // Part of what is computed, so part of what is saved.
            settings.file.threads = Some(settings.threads);
        }
        check_owners(&settings, &dataset, scale)?;
        let workers = settings.workers;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let trains = scale == Scale::Threads && settings.is_in_step();
        let measuring = cores.min(MOST_MEASURING);
        let (crew_size, threads) = match trains {
            true => (workers, settings.threads),
            // As many as one worker would train with here.
            false => (measuring.min(settings.file.most_threads()), 1),
        };
        let spare = match (&settings.topology, scale, trains) {
            (Topology::Flat { backup, .. }, Scale::Threads, false) => workers + backup,
            (_, Scale::Threads, false) => workers,
            _ => 0,
        };
        let spare = build_workers(&settings, &dataset, spare, settings.threads, build)?;
        // One that is the caller's own cannot be built later.
        let first = if trains || own.is_some() { crew_size } else { 1 };
        let workers = build_workers(&settings, &dataset, first, threads, build)?;
        let mut crew = Crew::new(workers, settings.file.seed);
        let copies = if trains { crew.copies().len() } else { crew_size };
        let (parts, sharing) = if trains { (copies, copies / settings.workers) } else { (measuring, copies) };
        let share = if crew.shares_products() { usize::MAX } else { settings.file.batch_size / sharing };
        let portions = Portions::of(parts, share);
        let replica = Replica::of(&settings, crew.layout());
        let pool = ThreadPoolBuilder::new()
            .num_threads(if trains { (crew_size * threads).min(cores) } else { measuring })
            .thread_name(|i| format!("worker-{i}"))
            .build()
            .context("cannot start the workers' threads")?;
        let schedule = RunSchedule::of(&settings, dataset.train.len());
        let (model_name, held_out) = (model_name.to_owned(), None);
        Ok(Self {
            settings,
            dataset,
            held_out,
            replica,
            crew,
            crew_size,
            portions,
            spare,
            model_name,
            pool,
            schedule,
        })
    }

    pub fn layout(&self) -> &Layout {
        self.crew.layout()
    }

    /// Measures parameters on the data that are measured on while the run goes on.
    pub fn evaluate(&mut self, parameters: &[f32]) -> Tally {
        self.evaluate_on(&Arc::clone(&self.dataset.test), parameters)
    }

    /// Measures parameters on samples.
    pub fn evaluate_on(&mut self, samples: &Samples, parameters: &[f32]) -> Tally {
        self.complete_crew();
        let (crew, portions) = (&mut self.crew, self.portions);
        self.pool.install(|| crew.evaluate(parameters, samples, portions))
    }

    /// Measures the parameters as they are.
    pub fn measure(&mut self) -> Tally {
        self.complete_crew();
        let (crew, test, portions) = (&mut self.crew, &self.dataset.test, self.portions);
        let parameters = &self.replica.parameters;
        self.pool.install(|| crew.evaluate(parameters, test, portions))
    }

    /// Builds those of the crew that are not there yet.
    fn complete_crew(&mut self) {
        let (spec, missing) = (&self.settings.file.model, self.crew_size - self.crew.size());
        if missing == 0 {
            return;
        }
        let more = build_workers(&self.settings, &self.dataset, missing, 1, &|shape| spec.build(shape));
        // Whatever is wrong with a model has shown with the first one, who can measure alone.
        self.crew.extend(more.unwrap_or_default());
    }

    /// One round of the workers of this process; `number` counts from 0.
    pub fn train_round(&mut self, number: u64) -> Tally {
        let round = self.round(number);
        let (crew, replica, train) = (&mut self.crew, &mut self.replica, &self.dataset.train);
        self.pool.install(|| crew.round(replica, train, round))
    }

    /// What every worker of this process spent its time on since this was last asked.
    pub fn take_phases(&mut self) -> Vec<Phases> {
        self.crew.take_phases()
    }

    /// What round `number`, from 0, is to do.
    pub fn round(&self, number: u64) -> RoundPlan {
        RoundPlan {
            number,
            rounds_per_epoch: self.schedule.rounds_per_epoch,
            round_size: self.schedule.round_size,
            step: self.schedule.step(number * self.settings.workers as u64),
        }
    }

    /// What the first event of a run says.
    pub fn started(&self) -> Event {
        let file = &self.settings.file;
        Event::Started {
            name: file.name.clone(),
            model: self.model_name.clone(),
            parameters: self.layout().parameters(),
            data: self.dataset.name.clone(),
            train_samples: self.dataset.train.len(),
            test_samples: self.held_out.as_ref().unwrap_or(&self.dataset.test).len(),
            validation_samples: self.held_out.as_ref().map(|_| self.dataset.test.len()),
            workers: self.settings.workers,
            batch_size: file.batch_size,
            rounds_per_epoch: self.schedule.updates_per_epoch,
            rounds: self.schedule.updates(),
            epochs: file.epochs,
            seed: file.seed,
        }
    }

    /// How many epochs so many updates are.
    pub fn epochs(&self, updates: u64) -> f64 {
        self.schedule.epochs(updates)
    }
}

/// Whether those who are to train have something to train on.
fn check_owners(settings: &Settings, dataset: &Dataset, scale: Scale) -> Result<()> {
    if scale == Scale::Threads && settings.is_to_agree() {
        let message =
            "own is for nodes on machines of their own, which `bonfire run` or `bonfire node` starts";
        return Err(settings.wrong("distribute", message).into());
    }
    let (workers, samples) = (settings.workers, dataset.train.len());
    if workers > samples {
        let message = format!("{workers} workers are more than the {samples} training samples of the data");
        return Err(settings.wrong("workers", message).into());
    }
    Ok(())
}

/// A model for data whose classes are not all known yet: it is never trained.
fn stand_in(shape: &Shape) -> ModelSpec {
    match *shape {
        Shape::Images { .. } => ModelSpec::Mlp(mlp::Options { hidden: vec![1] }),
        Shape::Tagging { .. } => ModelSpec::Tagger(tagger::Options::default()),
        Shape::Texts { classes, .. } => {
            ModelSpec::Sentiment(sentiment::Options { classes, ..sentiment::Options::default() })
        }
    }
}

/// The layers of the model that the settings ask for, with their sizes on its data.
pub fn plan(settings: &Settings) -> Result<LayerPlan> {
    let (dataset, _) = load(settings)?;
    settings.file.model.plan(&dataset.shape).map_err(|error| misfit(settings, &error))
}

/// The form of the data that the settings ask for, without its samples, and the layers of the model.
pub fn form(settings: &Settings) -> Result<(Dataset, LayerPlan)> {
    let (dataset, _) = load(settings)?;
    let plan = settings.file.model.plan(&dataset.shape).map_err(|error| misfit(settings, &error))?;
    Ok((dataset.form(), plan))
}

/// An error about a model gets the line of the layer that is meant.
fn misfit(settings: &Settings, error: &bonfire_learn::Error) -> anyhow::Error {
    let path = error.path();
    let key = if path.is_empty() { "model".to_owned() } else { format!("model.{path}") };
    settings.wrong(&key, error.message()).into()
}

/// The data that the settings ask for, and the test half if it is for the end.
pub fn load(settings: &Settings) -> Result<(Arc<Dataset>, Option<Arc<Samples>>)> {
    let source = &settings.file.data;
    let loaded = settings.form.as_ref().map_or_else(|| source.load(), |form| source.load_in_form(form));
    let mut dataset = loaded.map_err(|error| located(settings, "data", error))?;
    let held_out = settings.hold_out(&mut dataset).map_err(|error| located(settings, "validation", error))?;
    Ok((Arc::new(dataset), held_out))
}

/// Workers with so many threads each.
fn build_workers(
    settings: &Settings,
    dataset: &Dataset,
    workers: usize,
    threads: usize,
    build: Build<'_>,
) -> Result<Vec<Worker>> {
    let model = || {
        let mut model = build(&dataset.shape).map_err(|error| misfit(settings, &error))?;
        weigh_classes(settings, &mut *model)?;
        let parameters = model.layout().len();
        if parameters > MOST_PARAMETERS {
            let message = format!("the model has {parameters} parameters, more than {MOST_PARAMETERS}");
            return Err(settings.wrong("model", message).into());
        }
        Ok(model)
    };
    (0..workers).map(|_| Worker::build(threads, model)).collect()
}

/// Tells a model what the run file says of its classes.
pub fn weigh_classes(settings: &Settings, model: &mut dyn Model) -> Result<()> {
    // Until all have agreed the classes are those of one.
    let Some(weights) = settings.class_weights.as_ref().filter(|_| !settings.is_to_agree()) else {
        return Ok(());
    };
    model.weigh_classes(weights).map_err(|error| located(settings, "class_weights", error))
}

/// An error about what a key asks for gets the key's line, unless it names a file of its own.
fn located(settings: &Settings, key: &str, error: impl Into<Error>) -> anyhow::Error {
    let error = error.into();
    let Some(message) = error.misfit() else { return anyhow!(error) };
    let prefix = format!("{key}: ");
    settings.wrong(key, message.strip_prefix(&prefix).unwrap_or(message)).into()
}

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};
use bonfire_cluster::local;
use bonfire_cluster::remote::{Access, Gate, Keys};
use bonfire_learn::{self as learn, Model, Shape};
use bonfire_report::{Event, RunFolder, Summary, View};
use bonfire_run::{Job, Overrides, Ranks, Run, Scale, Settings};

use crate::device_pool::{self, PoolData};

/// A run on this machine, step by step: what to train, where to put it, how to show it.
///
/// `examples/own_model.rs` trains a model of its own this way.
#[expect(missing_debug_implementations, reason = "holds a closure")]
pub struct Training<'a> {
    origin: String,
    text: String,
    set: Vec<String>,
    workers: Option<usize>,
    ranks: Option<Ranks>,
    out: Option<PathBuf>,
    resume: Option<PathBuf>,
    views: Vec<View>,
    began: Instant,
    own: Option<OwnModel<'a>>,
}

struct OwnModel<'a> {
    name: String,
    build: Box<BuildModel<'a>>,
}

type BuildModel<'a> = dyn Fn(&Shape) -> learn::Result<Box<dyn Model>> + 'a;

impl<'a> Training<'a> {
    /// A run by the text of a run file; an empty one is all defaults.
    pub fn of(run_file: &str) -> Self {
        Self::named("run file", run_file)
    }

    /// A run by a run file.
    pub fn of_file(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the run file {}", path.display()))?;
        Ok(Self::named(&path.display().to_string(), &text))
    }

    /// Goes on with the run of a folder.
    pub fn resume(folder: &Path) -> Result<Self> {
        let run_file = RunFolder::open(folder)?.run_file();
        Ok(Self { resume: Some(folder.to_owned()), ..Self::of_file(&run_file)? })
    }

    fn named(origin: &str, text: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            text: text.to_owned(),
            set: Vec::new(),
            workers: None,
            ranks: None,
            out: None,
            resume: None,
            views: vec![View::choose(false, false, std::io::IsTerminal::is_terminal(&std::io::stderr()))],
            began: Instant::now(),
            own: None,
        }
    }

    /// Lays `key=value` over the run file.
    pub fn set(mut self, assignment: impl Into<String>) -> Self {
        self.set.push(assignment.into());
        self
    }

    /// How many workers share every round; otherwise the run file says, or there is one a core.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// The processes that a launcher started for the run: unless the run file says otherwise, all of them are workers.
    pub fn ranks(mut self, ranks: Ranks) -> Self {
        self.ranks = Some(ranks);
        self
    }

    /// The run folder itself; otherwise a new one below `runs`.
    pub fn out(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out = Some(folder.into());
        self
    }

    /// Shows the run in another way.
    pub fn view(mut self, view: View) -> Self {
        self.views = vec![view];
        self
    }

    /// Shows nothing but warnings.
    pub fn quiet(self) -> Self {
        self.view(View::Quiet)
    }

    /// Trains a model of the caller's under this name, whatever the run file says of the model.
    pub fn model(mut self, name: &str, build: impl Fn(&Shape) -> learn::Result<Box<dyn Model>> + 'a) -> Self {
        self.own = Some(OwnModel { name: name.to_owned(), build: Box::new(build) });
        self
    }

    /// Trains to the end.
    pub fn run(self) -> Result<Summary> {
        local::finish(self.start()?, &AtomicBool::new(false))
    }

    /// Checks and loads everything and makes the run folder. If that fails, the input is wrong and nothing was left
    /// behind.
    pub fn start(self) -> Result<Run> {
        let job = self.prepare(Scale::Threads)?;
        let mut run = self.begin(job)?;
        run.meter_energy(None);
        Ok(run)
    }

    /// The same for a run whose nodes are other processes, which come to the gate.
    pub fn open(self, access: &Access) -> Result<(Run, Gate)> {
        let keys = self.resume.as_deref().map(Keys::load).transpose()?;
        self.open_with(access, keys)
    }

    /// The same under other keys than a run that is resumed has had before.
    pub fn open_with(self, access: &Access, keys: Option<Keys>) -> Result<(Run, Gate)> {
        let job = self.prepare(Scale::Nodes)?;
        let gate = Gate::open(access, &job.settings, keys)?;
        let mut run = self.begin(job)?;
        run.meter_energy(None);
        if let Err(error) = gate.save(&run) {
            run.abandon();
            return Err(error);
        }
        Ok((run, gate))
    }

    fn prepare(&self, scale: Scale) -> Result<Job> {
        let mut settings = self.settings()?;
        if let Some(folder) = &self.resume {
            settings = settings.as_agreed(&RunFolder::open(folder)?)?;
        }
        match scale {
            Scale::Threads => local::check_shares(&settings)?,
            // Ranks of one launcher are on machines of one kind.
            Scale::Nodes if self.ranks.is_none_or(|ranks| ranks.head_apart) => settings.share_by_speed(),
            Scale::Nodes => {}
        }
        match &self.own {
            Some(own) => Job::with_model(settings, scale, &own.name, &*own.build),
            None => Job::prepare(settings, scale),
        }
    }

    /// What is asked for, as far as it can be told without the data.
    pub fn settings(&self) -> Result<Settings> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let set = [self.pool_data().map_or_else(Vec::new, |data| data.set), self.set.clone()].concat();
        let overrides = Overrides { set: &set, workers: self.workers, ranks: self.ranks };
        let settings = Settings::read(&self.origin, &self.text, &overrides, cores)?;
        if self.resume.is_some() {
            let as_started = Overrides { ranks: self.ranks, ..Overrides::default() };
            let saved = Settings::read(&self.origin, &self.text, &as_started, cores)?;
            if let Some(key) = saved.differs_for_good(&settings) {
                bail!("{key} cannot change when a run is resumed: its checkpoints are of the old one");
            }
        }
        bonfire_cluster::check_engine(&settings, self.ranks)?;
        Ok(settings)
    }

    /// What the run file leaves out, if it is one of the device-pool project.
    fn pool_data(&self) -> Option<PoolData> {
        device_pool::data_of(&self.text, &self.set).filter(|_| self.resume.is_none())
    }

    fn begin(self, job: Job) -> Result<Run> {
        let pool_data = self.pool_data();
        let name = job.settings.file.name.clone();
        let mut run = match self.resume {
            Some(folder) => Run::resume(job, RunFolder::open(&folder)?, self.views, self.began)?,
            None => {
                let default = || RunFolder::default_path(Path::new("runs"), &name, SystemTime::now());
                Run::create(job, &self.out.unwrap_or_else(default), self.views, self.began)?
            }
        };
        if let Some(PoolData { note, .. }) = pool_data {
            run.tell(Event::Noted { message: note });
        }
        run.describe()?;
        Ok(run)
    }
}

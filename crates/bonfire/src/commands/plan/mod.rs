mod links;
pub(crate) mod measured;
mod page;
mod pool;
mod table;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use bonfire_cluster::plan::advice::advice;
use bonfire_cluster::plan::figures::Pool;
use bonfire_cluster::plan::{Plan, Question};
use bonfire_data::Dataset;
use bonfire_learn::Layout;
use bonfire_run::{Overrides, Settings};

use crate::terminal::{print, say};
use pool::PoolArgs;

/// Say what would be fastest on some hosts, and what it would take.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every host is measured at the work of this run, a few seconds long, and so are the links between \
                  them. Then every strategy and number of hosts that makes sense is played through in a simulated \
                  world with these costs. --hosts takes figures instead of hosts, so that one can ask before one \
                  buys: a list of `name`, `count`, `cpu` (how many times as fast as this machine; or `ms_per_batch`, \
                  `samples_per_s`), `cores`, `rate`, `latency`, `memory`, and `watts: {idle, full}` or `board`.\n\n\
                  Examples:\n  bonfire plan -i hosts.ini run.yml\n  \
                  bonfire plan -i hosts.ini run.yml --save pool.yml --write best.yml\n  \
                  bonfire plan --measured pool.yml run.yml -o plan.html\n  \
                  bonfire plan --hosts pis.yml run.yml --json\n\n\
                  Exit codes: 0 done; 1 hosts cannot be used; 2 the input was wrong."
)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// The run file (YAML). Without one everything has its default: lenet5 on digits
    run_file: Option<PathBuf>,
    /// Change a key of the run file; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print a line of JSON for every candidate
    #[arg(long)]
    json: bool,
    /// Write a page with a chart
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the run file with the best candidate's keys
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Write the figures of the hosts, for --measured
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// A run file and its data, read and checked.
pub(crate) struct PlannedRun {
    pub settings: Settings,
    pub text: String,
    pub dataset: Arc<Dataset>,
    pub layout: Layout,
}

impl PlannedRun {
    /// Reads a run file and loads its data. Whatever is wrong with them shows here.
    pub(crate) fn read(run_file: Option<&PathBuf>, set: &[String]) -> Result<Self> {
        let (origin, text) = match run_file {
            Some(path) => {
                let text = fs::read_to_string(path);
                let text = text.with_context(|| format!("cannot read the run file {}", path.display()))?;
                (path.display().to_string(), text)
            }
            None => ("run file".to_owned(), String::new()),
        };
        let settings = Settings::read(&origin, &text, &Overrides { set, ..Overrides::default() }, 1)?;
        let (dataset, _) = bonfire_run::job::load(&settings)?;
        let model = settings.file.model.build(&dataset.shape);
        let layout = model.map_err(|error| settings.wrong("model", error))?.layout().clone();
        Ok(Self { settings, text, dataset, layout })
    }

    pub(crate) fn question(&self) -> Question<'_> {
        let Self { settings, text, dataset, layout } = self;
        Question { settings, text, dataset, layout }
    }

    /// The run file with everything resolved, `--set` included.
    pub(crate) fn resolved(&self) -> String {
        // It was read from YAML.
        self.settings.to_yaml().unwrap_or_else(|_| self.text.clone())
    }

    /// `lenet5 on digits`
    pub(crate) fn name(&self) -> String {
        format!("{} on {}", self.settings.file.model.name(), self.dataset.name)
    }
}

pub(crate) fn run(args: &PlanArgs) -> Result<()> {
    let run = PlannedRun::read(args.run_file.as_ref(), &args.set)?;
    let pool = args.pool.measure(&run, args.json)?;
    if let Some(path) = &args.save {
        save(path, &pool.to_yaml()?)?;
    }
    let question = run.question();
    let plan = Plan::make(&question, &pool)?;
    if let Some(path) = &args.write {
        let text = plan.best().candidate.write(&run.settings, &run.text)?;
        save(path, &text)?;
    }
    if args.json && args.out.is_none() {
        return lines(&plan, &pool);
    }
    let help = advice(&question, &pool, &plan)?;
    let sentences = table::sentences(&plan, &pool, help.as_ref());
    if let Some(path) = &args.out {
        save(path, &page::page(&run.name(), &plan, &pool, &sentences))?;
    }
    if args.json {
        return lines(&plan, &pool);
    }
    for line in table::table(&run.name(), &plan, &pool) {
        print(&line)?;
    }
    print("")?;
    sentences.iter().flat_map(|sentence| table::wrapped(sentence)).try_for_each(|line| print(&line))?;
    if let Some(path) = &args.write {
        say(&format!("the best is in {}", path.display()));
    }
    Ok(())
}

fn lines(plan: &Plan, pool: &Pool) -> Result<()> {
    for (place, forecast) in plan.forecasts.iter().enumerate() {
        let line = forecast.line(&pool.hosts, place == plan.best);
        print(&serde_json::to_string(&line)?)?;
    }
    Ok(())
}

fn save(path: &PathBuf, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

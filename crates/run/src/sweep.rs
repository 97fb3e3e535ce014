//! Many runs of one run file, each with other values of some keys, and what they come to.
//!
//! Pure: who starts the runs, and where, is the caller's. Read in this order: [`Sweep`] (which runs there are),
//! `values` (what a key goes through), [`Measure`] (what they are compared by), [`SweepTable`] (means and deviations
//! over seeds), [`MedianStop`] (which are not worth going on with).

mod file;
mod measure;
mod median;
mod table;
#[cfg(test)]
mod tests;
mod values;

use std::io;

use anyhow::{Context, Result};
use bonfire_yaml::{Tree, YamlError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run_file::{Overrides, Settings, Topology};
use file::{Base, SweepFile};
pub use measure::Measure;
pub use median::MedianStop;
pub use table::{Ended, Mean, RunEnd, SweepRow, SweepTable, end_of};

/// All runs of a sweep, checked as far as that can be done without the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub name: String,
    /// The text of the run file that all have in common.
    pub base: String,
    /// What is laid over it, without seeds: one for each row of the table.
    pub settings: Vec<KeyValues>,
    pub runs: Vec<SweptRun>,
    pub best_by: Measure,
    /// Whether what is best is chosen by the very test half that tells how good it is.
    pub is_judged_by_test: bool,
    pub median_stop: Option<MedianStop>,
    /// How many runs go on side by side.
    pub jobs: usize,
}

/// Keys of a run file with their values, in order.
pub type KeyValues = Vec<(String, Value)>;

/// A run of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweptRun {
    /// Of its folder.
    pub name: String,
    /// Which of the settings it has.
    pub row: usize,
    pub seed: Option<u64>,
    /// `key=value` over the base.
    pub set: Vec<String>,
}

/// Where the runs are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepPlace {
    /// On this machine of so many cores, so many side by side, or as many as there are cores for.
    Here { cores: usize, jobs: Option<usize> },
    /// On hosts, one after the other.
    Hosts,
}

/// More runs than anybody waits for; a slip of the finger.
const MOST_RUNS: usize = 10_000;

/// What the base is called in errors, if it stands in the sweep file itself.
const INLINE: &str = "run";

impl Sweep {
    /// Reads a sweep file's text under the name `origin`; `load` reads the run file that it names.
    pub fn read(
        origin: &str,
        text: &str,
        load: impl FnOnce(&str) -> io::Result<String>,
        place: SweepPlace,
    ) -> Result<Self> {
        let tree = Tree::parse(origin, text)?;
        let file: SweepFile = tree.read()?;
        let (base_origin, base) = match &file.run {
            Base::Default => (INLINE.to_owned(), String::new()),
            Base::Inline(keys) => (INLINE.to_owned(), keys.to_string()),
            Base::File(path) => {
                (path.clone(), load(path).with_context(|| format!("{origin}: run: cannot read {path}"))?)
            }
        };
        let settings = file.settings(&tree)?;
        let seeds = file.seeds.list(&tree)?;
        let count = settings.len().saturating_mul(seeds.len());
        if count > MOST_RUNS {
            return Err(tree
                .wrong("grid", format!("makes {count} runs, at most {MOST_RUNS} are done"))
                .into());
        }
        let reader = BaseReader { origin: &base_origin, text: &base, tree: &tree };
        let jobs = reader.jobs(&settings, place).with_context(|| origin.to_owned())?;
        let (mut runs, mut is_validated) = (Vec::new(), true);
        for (row, keys) in settings.iter().enumerate() {
            for &seed in &seeds {
                let (set, read) = reader.set(keys, seed, place, jobs).with_context(|| origin.to_owned())?;
                is_validated &= read.file.validation.is_some();
                let name = run_name(runs.len() + 1, keys, seed);
                runs.push(SweptRun { name, row, seed, set });
            }
        }
        let best_by = file.best_by.unwrap_or(Measure::usual(is_validated));
        if best_by.is_of_validation() && !is_validated {
            let message = format!("{best_by} is of runs with `validation` in their run file");
            return Err(tree.wrong("best_by", message).into());
        }
        if let (Some(_), SweepPlace::Hosts) = (&file.median_stop, place) {
            return Err(tree.wrong("median_stop", "is for runs on this machine").into());
        }
        if let Some(reason) = file.median_stop.and_then(MedianStop::wrong) {
            return Err(tree.wrong("median_stop", reason).into());
        }
        Ok(Self {
            name: file.name,
            base,
            settings,
            runs,
            best_by,
            is_judged_by_test: best_by.is_of_test() && !is_validated,
            median_stop: file.median_stop,
            jobs,
        })
    }

    /// The run file of a row of settings, with everything resolved.
    pub fn run_file(&self, row: usize) -> Result<String> {
        let set = self.runs.iter().find(|run| run.row == row).map_or(&[][..], |run| &run.set);
        let settings = Settings::read("run", &self.base, &Overrides { set, ..Overrides::default() }, 1)?;
        Ok(settings.to_yaml()?)
    }
}

/// The run file that all runs have in common.
struct BaseReader<'a> {
    origin: &'a str,
    text: &'a str,
    tree: &'a Tree,
}

impl BaseReader<'_> {
    /// How many runs go on side by side: as many as there are cores for, if it is said how many workers one has.
    fn jobs(&self, settings: &[KeyValues], place: SweepPlace) -> Result<usize, YamlError> {
        let SweepPlace::Here { cores, jobs } = place else { return Ok(1) };
        if let Some(jobs) = jobs {
            return Ok(jobs.max(1));
        }
        let mut most = 1;
        for keys in settings {
            let (_, read) = self.set(keys, None, place, 1)?;
            if !read.says("workers") && matches!(read.topology, Topology::Single { .. }) {
                return Ok(1);
            }
            most = most.max(read.topology.workers() * read.file.threads.unwrap_or(1));
        }
        Ok((cores / most).max(1))
    }

    /// What is to be laid over the base for a run, and what comes of it.
    fn set(
        &self,
        keys: &KeyValues,
        seed: Option<u64>,
        place: SweepPlace,
        jobs: usize,
    ) -> Result<(Vec<String>, Settings), YamlError> {
        let workers = keys.iter().find(|(key, _)| key == "workers").map(|(_, value)| value);
        let others = keys.iter().filter(|(key, _)| key != "workers");
        let mut set: Vec<String> = others.map(|(key, value)| format!("{key}={value}")).collect();
        set.extend(seed.map(|seed| format!("seed={seed}")));
        let cores = match place {
            SweepPlace::Here { cores, .. } => (cores / jobs).max(1),
            SweepPlace::Hosts => 1,
        };
        if let Some(workers) = workers {
            let key = self.workers_key(&set, workers, cores)?;
            set.push(format!("{key}={workers}"));
        }
        let mut read = self.read(&set, None, cores)?;
        if jobs > 1 {
            // Otherwise each would take all cores for itself.
            if !read.says("workers") && matches!(read.topology, Topology::Single { .. }) {
                set.push(format!("workers={}", read.workers));
            }
            if !read.says("threads") {
                set.push(format!("threads={}", read.threads));
            }
            read = self.read(&set, None, cores)?;
        }
        Ok((set, read))
    }

    /// What the architecture of a run calls the number of its workers.
    fn workers_key(&self, set: &[String], workers: &Value, cores: usize) -> Result<&'static str, YamlError> {
        let Some(count) = workers.as_u64() else {
            return Err(self.tree.wrong("grid", format!("workers: expected whole numbers, found {workers}")));
        };
        let read = self.read(set, Some(count as usize), cores)?;
        Ok(match read.topology {
            Topology::Flat { .. } => "parameter_server.num_workers",
            Topology::Allreduce { .. } => "allreduce.num_workers",
            Topology::Single { .. } | Topology::Hierarchical { .. } => "workers",
        })
    }

    fn read(&self, set: &[String], workers: Option<usize>, cores: usize) -> Result<Settings, YamlError> {
        let overrides = Overrides { set, workers, ..Overrides::default() };
        Settings::read(self.origin, self.text, &overrides, cores)
    }
}

/// `003-lr=0.125-seed=2`
fn run_name(number: usize, keys: &KeyValues, seed: Option<u64>) -> String {
    const MOST: usize = 80;
    let mut name = format!("{number:03}");
    for (key, value) in keys {
        let key = key.rsplit('.').next().unwrap_or(key);
        let plain = |c: char| if c.is_ascii_alphanumeric() || "=.-_".contains(c) { c } else { '_' };
        let value = value.to_string();
        name.push('-');
        name.extend(format!("{key}={}", value.trim_matches('"')).chars().map(plain));
    }
    // What is left out is in the run file.
    name.truncate(MOST);
    if let Some(seed) = seed {
        name += &format!("-seed={seed}");
    }
    name
}

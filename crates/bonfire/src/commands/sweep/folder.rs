//! The folder of a sweep: what is to be run, the runs, and what came of them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use bonfire_launch::Inventory;
use bonfire_report::{RunFolder, write_atomically, write_json};
use bonfire_run::sweep::{Ended, RunEnd, Sweep, SweepTable, end_of};
use serde::{Deserialize, Serialize};

/// What it takes to go on with a sweep.
pub(super) const RECORD: &str = "sweep.json";

/// The run file that all runs have in common.
const BASE: &str = "base.yml";

/// Hosts that were not in a file.
const HOSTS: &str = "hosts.txt";

/// The format of the record.
const FORMAT: u32 = 1;

#[derive(Debug)]
pub(super) struct SweepFolder {
    pub path: PathBuf,
    pub record: SweepRecord,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SweepRecord {
    format: u32,
    /// Where the sweep was started: paths in the run file are meant from there.
    pub started_in: PathBuf,
    pub hosts: Option<Hosts>,
    /// Who logs into hosts of which the list does not say.
    pub user: Option<String>,
    pub sweep: Sweep,
}

/// The hosts that runs are started on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Hosts {
    Inventory(PathBuf),
    /// An inventory that came over stdin.
    Text(String),
    List(String),
}

impl Hosts {
    /// What was asked for, if it can be read.
    pub(super) fn of(inventory: Option<&Path>, list: Option<&str>) -> Result<Option<Self>> {
        if let Some(list) = list {
            Inventory::from_list(list)?;
            return Ok(Some(Self::List(list.to_owned())));
        }
        let Some(path) = inventory else { return Ok(None) };
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read the hosts from stdin")?;
            Inventory::parse(Path::new("stdin"), &text, None)?;
            return Ok(Some(Self::Text(text)));
        }
        Inventory::load(path, None)?;
        let path = fs::canonicalize(path).with_context(|| format!("{}", path.display()))?;
        Ok(Some(Self::Inventory(path)))
    }
}

impl SweepFolder {
    pub(super) fn create(
        path: &Path,
        sweep: Sweep,
        (hosts, user): (Option<Hosts>, Option<String>),
        text: &str,
    ) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("{}", path.display()))?;
        let path = fs::canonicalize(path).with_context(|| format!("{}", path.display()))?;
        write_atomically(&path.join("sweep.yml"), text.as_bytes())?;
        write_atomically(&path.join(BASE), sweep.base.as_bytes())?;
        if let Some(Hosts::Text(hosts)) = &hosts {
            write_atomically(&path.join(HOSTS), hosts.as_bytes())?;
        }
        let started_in = std::env::current_dir().context("cannot tell the current folder")?;
        let record = SweepRecord { format: FORMAT, started_in, hosts, user, sweep };
        // Last: a folder with a record can be gone on with.
        write_json(&path.join(RECORD), &record)?;
        Ok(Self { path, record })
    }

    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = path.join(RECORD);
        let Ok(text) = fs::read_to_string(&file) else {
            bail!("{}: is not the folder of a sweep: it has no {RECORD}", path.display());
        };
        let record: SweepRecord =
            serde_json::from_str(&text).with_context(|| format!("{}", file.display()))?;
        ensure!(record.format == FORMAT, "{}: is of format {}", file.display(), record.format);
        let path = fs::canonicalize(path).with_context(|| format!("{}", path.display()))?;
        Ok(Self { path, record })
    }

    pub(super) fn base(&self) -> PathBuf {
        self.path.join(BASE)
    }

    pub(super) fn inventory(&self) -> PathBuf {
        self.path.join(HOSTS)
    }

    /// The folder of a run.
    pub(super) fn run(&self, name: &str) -> PathBuf {
        self.path.join("runs").join(name)
    }

    /// Where what a run says is kept.
    pub(super) fn said(&self, name: &str) -> PathBuf {
        self.path.join("said").join(format!("{name}.txt"))
    }

    /// Marks a run that was stopped because it was not worth going on with.
    pub(super) fn stopped_mark(&self, name: &str) -> PathBuf {
        self.path.join("said").join(format!("{name}.stopped"))
    }

    /// What is known of a run that has ended; none if it is to be done, or can go on.
    pub(super) fn ended(&self, name: &str) -> Option<Ended> {
        let summary = RunFolder::open(&self.run(name)).ok()?.read_summary().ok();
        if self.stopped_mark(name).exists() {
            return Some(Ended { end: RunEnd::Stopped, summary });
        }
        let end = summary.as_ref().and_then(end_of)?;
        Some(Ended { end, summary })
    }

    pub(super) fn write_tables(&self, table: &SweepTable, ended: &[Option<Ended>]) -> Result<()> {
        write_atomically(&self.path.join("table.csv"), table.csv().as_bytes())?;
        write_json(&self.path.join("table.json"), &table.json(&self.record.sweep, ended))?;
        Ok(())
    }

    /// Writes the run file of the best.
    pub(super) fn write_best(&self, row: usize) -> Result<()> {
        let text = self.record.sweep.run_file(row)?;
        Ok(write_atomically(&self.path.join("best.yml"), text.as_bytes())?)
    }
}

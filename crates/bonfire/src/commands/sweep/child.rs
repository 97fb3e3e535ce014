//! A run of a sweep while it goes on: a process of this program on a leash.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use bonfire_report::{Event, RunFolder, Stamped};
use bonfire_run::sweep::Measure;

use super::super::leash::STOP_WORD;
use super::folder::{Hosts, SweepFolder};

/// The process of a run.
#[derive(Debug)]
pub(super) struct SweepChild {
    /// Its place in the sweep.
    pub number: usize,
    process: Child,
    pub started: Instant,
    events: PathBuf,
    read_bytes: u64,
    /// What its evaluations found so far; smaller is better.
    pub costs: Vec<f64>,
    pub is_stopping: bool,
}

impl SweepChild {
    /// Starts a run, or lets it go on if it has begun.
    pub(super) fn start(folder: &SweepFolder, number: usize) -> Result<Self> {
        let run = &folder.record.sweep.runs[number];
        let (out, said) = (folder.run(&run.name), folder.said(&run.name));
        for path in [&out, &said] {
            let above = path.parent().context("a folder above")?;
            fs::create_dir_all(above).with_context(|| format!("{}", above.display()))?;
        }
        let program = std::env::current_exe().context("this program cannot find itself")?;
        let mut command = Command::new(program);
        command.arg("--leashed").current_dir(&folder.record.started_in);
        let has_begun = folder.record.hosts.is_none() && RunFolder::open(&out).is_ok();
        if !has_begun && out.exists() {
            // Of a run that was killed before its first event, or that was on hosts.
            fs::remove_dir_all(&out).with_context(|| format!("{}", out.display()))?;
        }
        match (&folder.record.hosts, has_begun) {
            (None, true) => command.arg("train").arg("--resume").arg(&out),
            (None, false) => command.arg("train").arg(folder.base()).arg("--out").arg(&out),
            (Some(hosts), _) => {
                match hosts {
                    Hosts::Inventory(path) => command.arg("run").arg("-i").arg(path),
                    Hosts::Text(_) => command.arg("run").arg("-i").arg(folder.inventory()),
                    Hosts::List(list) => command.arg("run").arg("-H").arg(list),
                };
                if let Some(user) = &folder.record.user {
                    command.arg("--user").arg(user);
                }
                command.arg(folder.base()).arg("--out").arg(&out)
            }
        };
        command.arg("--quiet");
        if !has_begun {
            command.args(run.set.iter().flat_map(|assignment| ["--set", assignment]));
        }
        let said_file = File::create(&said).with_context(|| format!("{}", said.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(said_file);
        let process = command.spawn().context("cannot start a run")?;
        let (events, started) = (out.join("events.jsonl"), Instant::now());
        Ok(Self { number, process, started, events, read_bytes: 0, costs: Vec::new(), is_stopping: false })
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.process.try_wait().context("cannot ask after a run")
    }

    /// Asks it to stop with a checkpoint.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
        if let Some(input) = &mut self.process.stdin {
            // One that is gone needs not be told.
            let _ = writeln!(input, "{STOP_WORD}");
        }
    }

    /// Ends it at once.
    pub(super) fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Reads what its evaluations found since this was last asked.
    pub(super) fn look(&mut self, by: Measure) {
        let Ok(mut file) = File::open(&self.events) else { return };
        if file.seek(SeekFrom::Start(self.read_bytes)).is_err() {
            return;
        }
        let (mut lines, mut line) = (BufReader::new(&file), Vec::new());
        while lines.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) && line.last() == Some(&b'\n') {
            self.read_bytes += line.len() as u64;
            if let Ok(Stamped { event: Event::Evaluated { loss, accuracy, .. }, .. }) =
                serde_json::from_slice(&line)
            {
                self.costs.push(by.cost_on_the_way(loss, accuracy));
            }
            line.clear();
        }
    }
}

impl Drop for SweepChild {
    fn drop(&mut self) {
        self.end();
    }
}

//! A process of a run on the host it runs on: its folder, and what is written there of it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::process::{ProcessId, Signal};

/// The folder of one process: `~/.bonfire/runs/RUN/NUMBER`.
#[derive(Clone, Debug)]
pub(crate) struct RunProcess {
    folder: PathBuf,
}

/// What is known of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessRecord {
    pub run: String,
    /// In its run: 0 is the head.
    #[serde(rename = "seat")]
    pub number: usize,
    pub role: String,
    /// Exactly as it was started. No secret is in it.
    pub command: Vec<String>,
    pub process: ProcessId,
    /// Who watches over it.
    pub guard: ProcessId,
    pub is_detached: bool,
    pub end: Option<ProcessEnd>,
}

/// How the process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// None if a signal ended it.
    pub code: Option<i32>,
    /// Why its guard ended it, if that did.
    pub reason: Option<String>,
    /// The last lines that it said.
    pub said: Vec<String>,
}

impl ProcessEnd {
    /// The last words of a head that failed.
    pub fn why(&self) -> String {
        let error = self.said.iter().rev().find_map(|line| line.strip_prefix("error: "));
        match (error, &self.reason, self.code) {
            (Some(error), ..) => error.to_owned(),
            (None, Some(reason), _) => format!("the head was ended: {reason},"),
            (None, None, Some(code)) => format!("the head ended with code {code}"),
            (None, None, None) => "the head was killed".to_owned(),
        }
    }
}

/// What a head puts into its folder: the folder of the run, the log in there, and its ticket, which nodes get under the
/// same name.
pub const RUN_FOLDER: &str = "run";
pub(crate) const EVENTS: &str = "run/events.jsonl";
pub const TICKET: &str = "ticket";

/// The file with the record of a process.
const RECORD: &str = "seat.json";

/// What whoever wants a process to end leaves in its folder for its guard.
const STOP: &str = "stop";
const KILL: &str = "kill";

/// How many of the last lines are told.
const LINES: usize = 8;

/// How often a file that grows is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Where all runs of a host are.
pub(crate) fn runs_folder() -> io::Result<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.ok_or_else(|| io::Error::other("HOME is not set"))?;
    Ok(PathBuf::from(home).join(".bonfire").join("runs"))
}

/// The folder of a run on this host.
pub(crate) fn run_folder(run: &str) -> io::Result<PathBuf> {
    let is_name = !run.is_empty()
        && !run.starts_with('.')
        && run.chars().all(|c| !c.is_control() && c != '/' && c != '\\');
    if !is_name {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{run:?} is no name of a run")));
    }
    Ok(runs_folder()?.join(run))
}

impl RunProcess {
    pub(crate) fn of(run: &str, number: usize) -> io::Result<Self> {
        Ok(Self { folder: run_folder(run)?.join(number.to_string()) })
    }

    /// Makes the folder, which must be new: no two processes have the same number.
    pub(crate) fn create(run: &str, number: usize) -> io::Result<Self> {
        let run = run_folder(run)?;
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).recursive(true).create(&run)?;
        let folder = run.join(number.to_string());
        builder.recursive(false).create(&folder)?;
        Ok(Self { folder })
    }

    /// All processes of a run on this host.
    pub(crate) fn all(run: &str) -> io::Result<Vec<Self>> {
        let mut processes = Vec::new();
        let entries = match fs::read_dir(run_folder(run)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(processes),
            entries => entries?,
        };
        for entry in entries {
            let folder = entry?.path();
            if folder.join(RECORD).is_file() {
                processes.push(Self { folder });
            }
        }
        processes.sort_by_key(|process| process.folder.clone());
        Ok(processes)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Writes a file that only its owner can read.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(self.folder.join(name))?.write_all(content)
    }

    /// Takes a file away; its content if it was there.
    pub(crate) fn take(&self, name: &str) -> Option<String> {
        let path = self.folder.join(name);
        let content = fs::read_to_string(&path).ok()?;
        fs::remove_file(&path).ok()?;
        Some(content)
    }

    pub(crate) fn record(&self) -> io::Result<ProcessRecord> {
        let path = self.folder.join(RECORD);
        let text = fs::read(&path).map_err(|error| {
            let hint = "nothing of this run is here";
            io::Error::new(error.kind(), format!("{}: {error}; {hint}", path.display()))
        })?;
        serde_json::from_slice(&text)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
    }

    pub(crate) fn save(&self, record: &ProcessRecord) -> io::Result<()> {
        let aside = format!("{RECORD}.part");
        self.write(&aside, &serde_json::to_vec_pretty(record)?)?;
        fs::rename(self.folder.join(aside), self.folder.join(RECORD))
    }

    /// Whether anybody has asked for an end, and for which.
    pub(crate) fn wish(&self) -> Option<Signal> {
        if self.folder.join(KILL).exists() {
            return Some(Signal::Kill);
        }
        self.folder.join(STOP).exists().then_some(Signal::Term)
    }

    /// Asks the guard to end the process; without a guard, does it. Only if it is the process that was recorded.
    pub(crate) fn end(&self, signal: Signal) -> io::Result<()> {
        let record = self.record()?;
        if record.guard.is_alive() {
            return self.write(if signal == Signal::Kill { KILL } else { STOP }, b"");
        }
        record.process.signal(signal).map(|_| ())
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.record().is_ok_and(|record| record.process.is_alive() || record.guard.is_alive())
    }

    /// The last lines of the log.
    pub(crate) fn tail(&self) -> Vec<String> {
        let text = fs::read(self.log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].iter().map(|line| (*line).to_owned()).collect()
    }

    /// Copies what is written to a file of its folder, from an offset on, until the process has ended or `stop` is set.
    pub(crate) fn follow(
        &self,
        file: &Path,
        from: u64,
        stop: &AtomicBool,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let path = self.folder.join(file);
        let mut at = from;
        let mut looked = Instant::now();
        let mut is_over = !self.is_alive();
        loop {
            let len = copy_from(&path, at, out)?;
            at += len;
            if len > 0 {
                out.flush()?;
            } else if is_over || stop.load(Ordering::Relaxed) {
                return Ok(());
            } else {
                std::thread::sleep(LOOK);
            }
            // After it ended, the file is read once more: what it said last is told.
            if looked.elapsed() > 4 * LOOK {
                (is_over, looked) = (!self.is_alive(), Instant::now());
            }
        }
    }
}

fn copy_from(path: &Path, at: u64, out: &mut impl Write) -> io::Result<u64> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    file.seek(SeekFrom::Start(at))?;
    io::copy(&mut file.take(1 << 20), out)
}

/// Removes all that is left of a run on this host. Refused while a process of it lives.
pub fn remove_run(run: &str) -> io::Result<()> {
    if RunProcess::all(run)?.iter().any(RunProcess::is_alive) {
        return Err(io::Error::other(format!("run {run} still has processes here")));
    }
    match fs::remove_dir_all(run_folder(run)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// How long a process of a run that is over may take to end.
const ENDS_FOR: Duration = Duration::from_secs(10);

/// Takes away what is left on this host of runs that are over, and ends what still runs of them. Returns which were
/// here.
pub fn sweep(runs: &[String]) -> io::Result<Vec<String>> {
    let mut swept = Vec::new();
    for run in runs.iter().filter(|run| run_folder(run).is_ok_and(|folder| folder.is_dir())) {
        let processes = RunProcess::all(run)?;
        let deadline = Instant::now() + ENDS_FOR;
        let is_any_alive = || processes.iter().any(RunProcess::is_alive);
        while is_any_alive() && Instant::now() < deadline {
            // Its run is over, so that nothing it could save is wanted.
            for process in processes.iter().filter(|process| process.is_alive()) {
                process.end(Signal::Kill)?;
            }
            std::thread::sleep(LOOK);
        }
        remove_run(run)?;
        swept.push(run.clone());
    }
    Ok(swept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_is_the_name_of_a_run() {
        let check = |run: &str, expect: bool| assert_eq!(run_folder(run).is_ok(), expect, "{run:?}");
        check("2026-11-15T18-02-11-fashion-ab12", true);
        check("größe 2", true);
        check("", false);
        check(".", false);
        check("..", false);
        check("a/b", false);
        check("../a", false);
        check("a\nb", false);
    }
}

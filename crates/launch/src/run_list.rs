//! What this machine remembers of the runs that it started: `~/.local/state/bonfire/runs/RUN.json`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LaunchError;
use crate::facts::Facts;
use crate::inventory::Host;
use crate::place::ProcessRole;
use crate::process::ProcessId;
use crate::shipment::Shipment;
use crate::whole_file;

/// The list of runs.
#[derive(Clone, Debug)]
pub struct RunList {
    folder: PathBuf,
}

/// A run that was started from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: String,
    /// Where its folder comes to in the end.
    pub out: PathBuf,
    /// Where the program stands on the hosts, below the home folder, and what it is.
    pub program: String,
    pub version: String,
    pub program_sha256: String,
    pub is_detached: bool,
    /// Whether the folder is here, and nothing of the run is left on the hosts that could be reached; or another run
    /// has gone on with it.
    pub is_collected: bool,
    /// Whether its folders were left on the hosts because somebody wanted that.
    #[serde(default)]
    pub is_kept: bool,
    /// The process that started it, and follows it unless it is detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) launcher: Option<ProcessId>,
    /// Data of this machine that were copied to the hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Shipment>,
    /// By whom it was launched and from where, in the words of the program.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub launched_from: serde_json::Value,
    pub hosts: Vec<HostRecord>,
    /// The head first.
    #[serde(rename = "seats")]
    pub processes: Vec<ProcessPlan>,
}

/// A host that takes part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    #[serde(flatten)]
    pub host: Host,
    pub facts: Facts,
}

/// A process that was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessPlan {
    /// In its run: 0 is the head.
    #[serde(rename = "seat")]
    pub number: usize,
    /// Among the hosts of the record.
    pub host: usize,
    pub role: ProcessRole,
    pub name: String,
    pub command: Vec<String>,
    pub pid: Option<u32>,
    pub exit_code: Option<i32>,
}

impl RunRecord {
    /// Whether the process that started it is there and follows it.
    pub(crate) fn is_followed(&self) -> bool {
        !self.is_detached && self.launcher.as_ref().is_some_and(ProcessId::is_alive)
    }
}

impl RunList {
    /// That of the user.
    pub fn open() -> io::Result<Self> {
        let folder = |key: &str| std::env::var_os(key).filter(|path| !path.is_empty()).map(PathBuf::from);
        let state = folder("XDG_STATE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| Some(folder("HOME")?.join(".local").join("state")));
        let state = state.ok_or_else(|| io::Error::other("neither HOME nor XDG_STATE_HOME is set"))?;
        Ok(Self { folder: state.join("bonfire").join("runs") })
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    pub fn save(&self, run: &RunRecord) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        whole_file::write(&self.path(&run.id), &serde_json::to_vec_pretty(run)?)
    }

    /// A run that was not started after all.
    pub fn forget(&self, id: &str) {
        let _ = fs::remove_file(self.path(id));
    }

    /// All runs, the newest last: their names begin with their time.
    pub fn all(&self) -> Vec<RunRecord> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        paths.iter().filter_map(|path| read(path).ok()).collect()
    }

    /// The run whose name begins so; without a name the newest, rather one that is not collected.
    pub fn find(&self, id: Option<&str>) -> Result<RunRecord, String> {
        choose(self.all(), id).map_err(|error| match error {
            NotFound::None => "no run was started from here; `bonfire run` starts one".to_owned(),
            NotFound::NoneSuch { id, others } => {
                format!("no run {id} was started from here; those that were: {others}")
            }
            NotFound::Several(said) => said,
        })
    }

    /// The newest run whose folder is, or comes to be, at this place.
    pub fn of_folder(&self, folder: &Path) -> Option<RunRecord> {
        let folder = std::path::absolute(folder).ok()?;
        self.all().into_iter().rev().find(|run| run.out == folder)
    }
}

/// Why no run was chosen.
#[derive(Debug)]
pub(crate) enum NotFound {
    /// There is none at all.
    None,
    /// There are others, of which the newest are named.
    NoneSuch {
        id: String,
        others: String,
    },
    Several(String),
}

impl NotFound {
    /// In words, where the heads of runs on a host were looked for.
    pub(crate) fn on_host(self, host: &str) -> LaunchError {
        LaunchError::Unfit(match self {
            Self::None => format!("{host} has no run's head that could be come back to"),
            Self::NoneSuch { id, others } => {
                format!("{host} has no head of a run {id}; those there: {others}")
            }
            Self::Several(said) => said,
        })
    }
}

/// Of some runs, the newest last, the one whose name begins so; without a name the newest, rather one that is not
/// collected.
pub(crate) fn choose(mut all: Vec<RunRecord>, id: Option<&str>) -> Result<RunRecord, NotFound> {
    let Some(id) = id else {
        let open = all.iter().rposition(|run| !run.is_collected);
        let newest = open.or(all.len().checked_sub(1));
        return newest.map(|newest| all.swap_remove(newest)).ok_or(NotFound::None);
    };
    if let Some(exact) = all.iter().position(|run| run.id == id) {
        return Ok(all.swap_remove(exact));
    }
    let names: Vec<String> = all.iter().rev().take(5).map(|run| run.id.clone()).collect();
    let mut begun: Vec<RunRecord> = all.into_iter().filter(|run| run.id.starts_with(id)).collect();
    match (begun.pop(), begun.len()) {
        (Some(run), 0) => Ok(run),
        (None, _) => {
            let others = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(NotFound::NoneSuch { id: id.to_owned(), others })
        }
        (Some(run), others) => {
            let said =
                format!("{} runs begin with {id}, the last is {}: write more of it", others + 1, run.id);
            Err(NotFound::Several(said))
        }
    }
}

fn read(path: &Path) -> io::Result<RunRecord> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
impl RunRecord {
    /// A run of a test, without hosts.
    pub(crate) fn of_test(id: &str, is_collected: bool) -> Self {
        Self {
            id: id.into(),
            out: "runs/a".into(),
            program: ".bonfire/bin/x".into(),
            version: "1".into(),
            program_sha256: "ab".into(),
            is_detached: false,
            is_collected,
            is_kept: false,
            launcher: None,
            data: None,
            launched_from: serde_json::Value::Null,
            hosts: Vec::new(),
            processes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, is_collected: bool) -> RunRecord {
        RunRecord::of_test(id, is_collected)
    }

    #[test]
    fn the_names_in_its_files_are_those_of_before() {
        let process = ProcessPlan {
            number: 0,
            host: 0,
            role: ProcessRole::Head,
            name: "pi1".into(),
            command: Vec::new(),
            pid: Some(7),
            exit_code: None,
        };
        let value = serde_json::to_value(RunRecord { processes: vec![process], ..run("a", false) });
        let value = value.expect("JSON");
        assert_eq!(value["seats"][0]["seat"], 0, "{value}");
        assert_eq!(value["seats"][0]["role"], "head", "{value}");
    }

    #[test]
    fn runs_are_found_by_the_beginning_of_their_name() {
        let temp = tempfile::tempdir().expect("a folder");
        let list = RunList { folder: temp.path().join("runs") };
        assert!(list.find(None).expect_err("none").contains("no run was started"));
        for (id, is_collected) in [("2026-a1", false), ("2026-a2", true), ("2027-b", true)] {
            list.save(&run(id, is_collected)).expect("saved");
        }
        let check = |id: Option<&str>, expect: Result<&str, &str>| match (list.find(id), expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found.id, expect),
            (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
            (found, _) => panic!("{id:?}: {found:?}"),
        };
        check(None, Ok("2026-a1"));
        check(Some("2027"), Ok("2027-b"));
        check(Some("2026-a2"), Ok("2026-a2"));
        check(Some("2026"), Err("2 runs begin with 2026, the last is 2026-a2"));
        check(Some("2028"), Err("2027-b, 2026-a2, 2026-a1"));
        list.save(&run("2026-a1", true)).expect("saved");
        check(None, Ok("2027-b"));
    }
}

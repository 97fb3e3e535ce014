//! A run that is gone on with after its head, its launcher or its hosts were lost. What can be reached of it comes here
//! first; from here it goes to a head again, on the same hosts or on others.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bonfire_launch::{Host, HostRecord, LaunchError, RemoteRun, Resumed, RunList, RunRecord, Shipment};
use bonfire_report::{Event, RunFolder, Stamped};
use bonfire_run::checkpoint;

use super::RunOnHostsArgs;
use crate::failure::Failed;
use crate::terminal::warn;

/// What there is to go on with.
#[derive(Debug)]
pub(crate) struct Comeback {
    /// The run folder on this machine.
    pub folder: PathBuf,
    /// Its run file.
    pub text: String,
    /// Those that were asked for; without a word about them those of before.
    pub hosts: Vec<Host>,
    /// Data of this machine that the hosts get again.
    pub data: Option<Shipment>,
    /// What is remembered of the run as it was launched before.
    before: Option<RunRecord>,
    list: RunList,
}

impl Comeback {
    /// Finds the run of a folder, or of a name, and fetches what its hosts still have of it.
    pub(crate) fn find(args: &RunOnHostsArgs, wanted: &Path) -> Result<Self> {
        let list = RunList::open()?;
        let named = || list.find(wanted.to_str()).ok().filter(|_| !wanted.exists());
        let mut before = list.of_folder(wanted).or_else(named);
        let folder = before.as_ref().map_or_else(|| wanted.to_owned(), |run| run.out.clone());
        let mut lost = None;
        if let Some(record) = before.take_if(|run| !run.is_collected) {
            let mut run = RemoteRun::of(list.clone(), record)?;
            lost = match run.bring_home(&mut warn) {
                Ok(()) => None,
                Err(LaunchError::Failed(message)) => Some(message),
                Err(error) => return Err(error.into()),
            };
            before = Some(run.record.clone());
        }
        require_checkpoint(&folder, lost)?;
        let text = fs::read_to_string(RunFolder::open(&folder)?.run_file());
        let text = text.with_context(|| format!("cannot read the run file of {}", folder.display()))?;
        let data = before.as_ref().and_then(|run| run.data.as_ref()).map(Shipment::again).transpose()?;
        let hosts = match args.fleet.names_hosts() {
            true => args.fleet.hosts()?,
            false => hosts_of(before.as_ref(), &folder)?,
        };
        Ok(Self { folder, text, hosts, data, before, list })
    }

    /// What the launcher has to bring to the head.
    pub(crate) fn resumed(&self) -> Result<Resumed> {
        let log = self.folder.join("events.jsonl");
        let text = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        Ok(Resumed { folder: Shipment::of(&self.folder)?, log_bytes: whole as u64 })
    }

    /// The log so far.
    pub(crate) fn lines(&self) -> String {
        fs::read_to_string(self.folder.join("events.jsonl")).unwrap_or_default()
    }

    /// From now on another run goes on with it, or after all none does. What is left on hosts of one that is gone on
    /// with is taken away when they are seen.
    pub(crate) fn give_over(&self, is_given: bool) {
        if let Some(before) = &self.before {
            let mut record = before.clone();
            record.is_collected |= is_given;
            if let Err(error) = self.list.save(&record) {
                warn(format!("the list of runs cannot be written: {error}"));
            }
        }
    }

    /// Puts the logs of the hosts of before aside: those of now may have the same names.
    pub(crate) fn keep_logs(&self) {
        let id = self.before.as_ref().map_or("before", |run| run.id.as_str());
        let logs = self.folder.join("logs");
        let files = fs::read_dir(&logs).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.is_file()).chain([self.folder.join("hosts.json")]);
        let files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
        let aside = logs.join(id);
        // Logs that are written over are no reason to let a run be.
        let _ = files.is_empty() || fs::create_dir_all(&aside).is_ok();
        for file in files {
            let _ = fs::rename(&file, aside.join(file.file_name().unwrap_or_default()));
        }
    }
}

/// Without a checkpoint there is nothing to go on from.
fn require_checkpoint(folder: &Path, lost: Option<String>) -> Result<()> {
    let newest = checkpoint::list(&folder.join("checkpoints")).unwrap_or_default().pop();
    match (newest, lost) {
        (Some(_), None) => Ok(()),
        (Some((round, _)), Some(lost)) => {
            warn(format!("{lost}; goes on from the checkpoint of round {round}, which is here"));
            Ok(())
        }
        (None, Some(lost)) => {
            let message = format!(
                "no checkpoint can be reached: {} has none, and {lost}; when that host is back, the same command goes \
                 on",
                folder.display()
            );
            Err(Failed(message).into())
        }
        (None, None) => {
            RunFolder::open(folder)?;
            bail!("{}: there is no checkpoint in it to go on from", folder.display())
        }
    }
}

/// The hosts on which a run was before.
fn hosts_of(before: Option<&RunRecord>, folder: &Path) -> Result<Vec<Host>> {
    #[derive(serde::Deserialize)]
    struct HostsFile {
        hosts: Vec<HostRecord>,
    }
    let records = match before {
        Some(run) => run.hosts.clone(),
        None => {
            let which = "which hosts? --inventory FILE or --hosts a,b,c: the run was on none before";
            let text = fs::read(folder.join("hosts.json")).context(which)?;
            serde_json::from_slice::<HostsFile>(&text).context(which)?.hosts
        }
    };
    Ok(records.into_iter().map(|record| record.host).collect())
}

/// What a line of the log says to keep on this machine: all that it takes to go on from a checkpoint, itself last.
pub(crate) fn backup(line: &str) -> Option<Vec<String>> {
    let Event::Checkpointed { file, .. } = serde_json::from_str::<Stamped>(line).ok()?.event else {
        return None;
    };
    let parameters = Path::new(&file).file_name()?.to_str()?.to_owned();
    let state = Path::new(&parameters).with_extension("state").to_str()?.to_owned();
    let files = ["run.yml", "events.jsonl", "state.json", "vocabulary.txt"].map(str::to_owned);
    let checkpoints = ["best.safetensors", "best-before.safetensors", &state, &parameters];
    let checkpoints = checkpoints.map(|name| format!("checkpoints/{name}"));
    Some(files.into_iter().chain(checkpoints).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_kept_with_all_that_it_takes() {
        let event = Event::Checkpointed {
            round: 12,
            file: "run/checkpoints/step-000012.safetensors".into(),
            bytes: 7,
            seconds: 0.5,
        };
        let line = serde_json::to_string(&Stamped { at_s: 1.0, event }).expect("JSON");
        let files = backup(&line).expect("files");
        assert_eq!(files[0], "run.yml");
        let last = ["checkpoints/step-000012.state", "checkpoints/step-000012.safetensors"];
        assert_eq!(files[files.len() - 2..], last, "the state has its name before the parameters");
        assert_eq!(backup("{\"at_s\": 1"), None);
        let other = Stamped { at_s: 1.0, event: Event::Noted { message: "checkpointed".into() } };
        assert_eq!(backup(&serde_json::to_string(&other).expect("JSON")), None);
    }
}

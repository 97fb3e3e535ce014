//! The end of a run: its folder comes here, and nothing of it stays on the hosts.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::error::LaunchError;
use crate::fleet::FleetHost;
use crate::parcel::{self, Unpacked};
use crate::program::call_and_read;
use crate::remote_run::RemoteRun;
use crate::run_list::ProcessPlan;
use crate::run_process::RUN_FOLDER;
use crate::trouble::Trouble;
use crate::whole_file;

/// How long a folder may take on its way: checkpoints of a large model over a slow line.
const FETCHES_FOR: Duration = Duration::from_secs(1800);

impl RemoteRun {
    /// Fetches the run folder from the head's host and the logs from all, writes `hosts.json`, and removes what is on
    /// the hosts unless it is to be kept. A host that is gone costs its log.
    pub fn collect(&mut self, keep: bool, warn: &mut dyn FnMut(String)) -> Result<(), LaunchError> {
        let head = self.head();
        let came = self.fetch(head, &format!("0/{RUN_FOLDER}"), &self.record.out).map_err(|trouble| {
            LaunchError::Failed(format!(
                "the run folder cannot be fetched from {}; it stays there, and `bonfire attach {}` tries again: \
                 {trouble}",
                head.name(),
                self.record.id
            ))
        })?;
        drop_old_checkpoints(&self.record.out, &came);
        if let Some(data) = &self.record.data {
            data.restore_path(&self.record.out.join("run.yml"));
        }
        self.write_hosts()
            .map_err(|error| LaunchError::Failed(format!("hosts.json cannot be written: {error}")))?;
        let left = self.fleet.each(|number, host| {
            for process in self.record.processes.iter().filter(|process| process.host == number) {
                self.fetch_log(host, process)?;
            }
            if !keep {
                host.ask(&self.record.program, &["host", "remove", &self.record.id])?;
            }
            Ok::<(), Trouble>(())
        });
        for (host, left) in self.fleet.hosts.iter().zip(left) {
            if let Err(trouble) = left {
                warn(left_behind(host, &self.record.id, &trouble));
            }
        }
        (self.record.is_collected, self.record.is_kept) = (true, keep);
        self.save()
    }

    /// Notes in the list of runs what is known of this one.
    pub(crate) fn save(&self) -> Result<(), LaunchError> {
        self.list
            .save(&self.record)
            .map_err(|error| LaunchError::Failed(format!("the list of runs cannot be written: {error}")))
    }

    /// What the run folder tells of the hosts: who they are, what ran on them, by which command, and how it ended.
    fn write_hosts(&self) -> std::io::Result<()> {
        let mut value = serde_json::to_value(&self.record)?;
        if let Some(fields) = value.as_object_mut() {
            for of_this_machine in ["out", "is_detached", "is_collected", "is_kept", "launcher", "data"] {
                fields.remove(of_this_machine);
            }
        }
        let mut text = serde_json::to_vec_pretty(&value)?;
        text.push(b'\n');
        whole_file::write(&self.record.out.join("hosts.json"), &text)
    }

    fn fetch_log(&self, host: &FleetHost, process: &ProcessPlan) -> Result<(), Trouble> {
        let target = self.log_path(process);
        let aside = target.with_file_name(format!(".{}", process.number));
        self.fetch(host, &format!("{}/log", process.number), &aside).map(drop)?;
        let moved = fs::rename(aside.join("log"), target).and_then(|()| fs::remove_dir(&aside));
        moved.map_err(|error| Trouble::Other(format!("its log cannot be kept here: {error}")))
    }

    fn fetch(&self, host: &FleetHost, path: &str, to: &Path) -> Result<Unpacked, Trouble> {
        let (remote, place) = (&host.remote, &self.record.program);
        let arguments = ["host", "send", &self.record.id, path];
        call_and_read(remote, place, &arguments, FETCHES_FOR, |parcel| parcel::unpack(parcel, to))
    }
}

/// The folder of checkpoints in a run folder.
const CHECKPOINTS: &str = "checkpoints";

/// Takes checkpoints away that were fetched while the run went on, and which its head has taken away since.
fn drop_old_checkpoints(out: &Path, came: &Unpacked) {
    for entry in fs::read_dir(out.join(CHECKPOINTS)).into_iter().flatten().flatten() {
        let name = Path::new(CHECKPOINTS).join(entry.file_name());
        let is_checkpoint = name.extension().is_some_and(|end| end == "state" || end == "safetensors");
        if is_checkpoint && !came.files.contains(&name) {
            // One that stays costs room.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A warning that files of a run are on a host, or may be.
pub(crate) fn left_behind(host: &FleetHost, run: &str, trouble: &Trouble) -> String {
    format!("{}: ~/.bonfire/runs/{run} may be left there: {trouble}", host.name())
}

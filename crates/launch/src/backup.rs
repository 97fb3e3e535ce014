//! What this machine keeps of a run while it goes on: if the head's host dies for good, its newest checkpoint does not
//! die with it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::parcel;
use crate::program::call_and_read;
use crate::remote_run::RemoteRun;
use crate::run_process::RUN_FOLDER;
use crate::shipment::Shipment;
use crate::ssh::Remote;
use crate::trouble::Trouble;

/// Fetches checkpoints on a thread of its own. Dropped, it ends after the one that is on its way.
#[derive(Debug)]
pub(crate) struct Backup {
    wanted: Option<SyncSender<Vec<String>>>,
    troubles: Receiver<Trouble>,
    thread: Option<JoinHandle<()>>,
}

/// After a fetch the line is left alone so many times as long as that took: the run needs it, too.
const REST: u32 = 9;

/// How long a fetch may take: a checkpoint of a large model over a slow line.
const FETCHES_FOR: Duration = Duration::from_secs(600);

/// Where files are until all of them are here.
const ASIDE: &str = ".incoming";

impl Backup {
    pub(crate) fn start(run: &RemoteRun) -> Self {
        let (wanted, names) = sync_channel(64);
        let (sender, troubles) = sync_channel(8);
        let mut fetcher = Fetcher {
            remote: run.head().remote.clone(),
            place: run.record.program.clone(),
            run: run.record.id.clone(),
            out: run.record.out.clone(),
            data: run.record.data.clone(),
            here: BTreeSet::new(),
        };
        let thread = std::thread::Builder::new().name("backup".to_owned());
        let thread = thread.spawn(move || fetcher.fetch_all(&names, &sender)).ok();
        Self { wanted: Some(wanted), troubles, thread }
    }

    /// These files of the run folder are wanted, in this order. Those of earlier calls are not, if they are not on
    /// their way yet.
    pub(crate) fn want(&self, names: Vec<String>) {
        // If so many wait, one of them will do.
        let _ = self.wanted.as_ref().map(|wanted| wanted.try_send(names));
    }

    /// Why the last files did not come.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.troubles.try_recv().ok()
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        drop(self.wanted.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Fetcher {
    remote: Remote,
    place: String,
    run: String,
    out: PathBuf,
    data: Option<Shipment>,
    /// What the last fetch brought.
    here: BTreeSet<PathBuf>,
}

impl Fetcher {
    fn fetch_all(&mut self, names: &Receiver<Vec<String>>, troubles: &SyncSender<Trouble>) {
        let mut has_failed = false;
        let mut next = names.recv().ok();
        while let Some(wanted) = next {
            let Ok(wanted) = newest(names, wanted) else { return };
            let started = Instant::now();
            match self.fetch(&wanted) {
                Ok(()) => has_failed = false,
                // Told once; if the head's host is gone, there is more to say than this.
                Err(trouble) if !has_failed => {
                    has_failed = true;
                    let _ = troubles.try_send(trouble);
                }
                Err(_) => {}
            }
            next = after_rest(names, Instant::now() + started.elapsed() * REST);
        }
    }

    fn fetch(&mut self, wanted: &[String]) -> Result<(), Trouble> {
        let path = format!("0/{RUN_FOLDER}");
        let mut arguments = vec!["host", "send", &self.run, &path];
        arguments.extend(wanted.iter().flat_map(|name| ["--only", name]));
        let aside = self.out.join(ASIDE);
        let came = call_and_read(&self.remote, &self.place, &arguments, FETCHES_FOR, |parcel| {
            parcel::unpack(parcel, &aside)
        });
        let kept = came.and_then(|came| {
            let kept = self.keep(&aside, came.files);
            kept.map_err(|error| Trouble::Other(format!("{}: {error}", self.out.display())))
        });
        let _ = fs::remove_dir_all(&aside);
        kept
    }

    /// Puts files into their places, and takes those away that are older.
    fn keep(&mut self, aside: &Path, files: Vec<PathBuf>) -> io::Result<()> {
        for file in &files {
            let (from, to) = (aside.join(file), self.out.join(file));
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            if let (Some(data), "run.yml") = (&self.data, file.to_str().unwrap_or_default()) {
                data.restore_path(&from);
            }
            fs::rename(from, to)?;
        }
        let files: BTreeSet<PathBuf> = files.into_iter().collect();
        for old in self.here.difference(&files) {
            let _ = fs::remove_file(self.out.join(old));
        }
        self.here = files;
        Ok(())
    }
}

/// The last of those that wait. An error if nobody wants any more.
fn newest(names: &Receiver<Vec<String>>, mut wanted: Vec<String>) -> Result<Vec<String>, TryRecvError> {
    loop {
        match names.try_recv() {
            Ok(newer) => wanted = newer,
            Err(TryRecvError::Empty) => return Ok(wanted),
            Err(gone) => return Err(gone),
        }
    }
}

/// What is wanted next, not before this time. None if nobody wants any more.
fn after_rest(names: &Receiver<Vec<String>>, until: Instant) -> Option<Vec<String>> {
    let mut wanted = None;
    loop {
        match names.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(newer) => wanted = Some(newer),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => return wanted.or_else(|| names.recv().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_of_those_that_wait_is_fetched() {
        let (sender, names) = sync_channel(8);
        let name = |name: &str| vec![name.to_owned()];
        for wanted in ["b", "c"] {
            sender.send(name(wanted)).expect("room");
        }
        assert_eq!(newest(&names, name("a")), Ok(name("c")));
        assert_eq!(newest(&names, name("d")), Ok(name("d")));
        for wanted in ["e", "f"] {
            sender.send(name(wanted)).expect("room");
        }
        assert_eq!(after_rest(&names, Instant::now() + Duration::from_millis(30)), Some(name("f")));
        sender.send(name("g")).expect("room");
        drop(sender);
        assert_eq!(after_rest(&names, Instant::now() + Duration::from_secs(60)), None, "nobody is there");
    }
}

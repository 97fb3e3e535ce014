//! Data of this machine that are copied to the hosts.

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fleet::FleetHost;
use crate::parcel;
use crate::program::{SLOWEST, call};
use crate::trouble::Trouble;

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shipment {
    path: PathBuf,
    name: String,
    pub bytes: u64,
}

impl Shipment {
    /// What is at a path.
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize().map_err(|error| {
            io::Error::new(error.kind(), format!("there is no such file or folder: {error}"))
        })?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| io::Error::other("has no name"))?;
        let bytes = size(&path)?;
        Ok(Self { path, name, bytes })
    }

    /// Where the processes of a run find it, each from its own folder.
    pub fn place(&self) -> String {
        format!("../data/{}", self.name)
    }

    /// What it was made of, looked at again.
    pub fn again(&self) -> io::Result<Self> {
        Self::of(&self.path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}, the run's data: {error}", self.path.display()))
        })
    }

    /// Copies it to where the processes of a run look for data.
    pub(crate) fn send(&self, host: &FleetHost, place: &str, run: &str) -> Result<(), Trouble> {
        let into = if self.path.is_dir() { format!("data/{}", self.name) } else { "data".to_owned() };
        self.send_into(host, place, (run, &into), &[])
    }

    /// Copies it into a folder of a run on a host, but for what `leave_out` names.
    pub(crate) fn send_into(
        &self,
        host: &FleetHost,
        place: &str,
        (run, into): (&str, &str),
        leave_out: &[&str],
    ) -> Result<(), Trouble> {
        let (reader, writer) = io::pipe().map_err(|error| Trouble::Other(error.to_string()))?;
        let time = Duration::from_secs(60 + self.bytes / SLOWEST);
        thread::scope(|scope| {
            let packing = scope.spawn(|| parcel::pack(&self.path, leave_out, &mut BufWriter::new(writer)));
            let sent = call(&host.remote, place, &["host", "receive", run, into], reader, time);
            match packing.join() {
                // The other side says better why it did not take all.
                Ok(Err(error)) if sent.is_ok() => Err(Trouble::Other(error.to_string())),
                _ => sent.map(|_| ()),
            }
        })
    }

    /// In a file that came back from the hosts, the data are named as they are named here.
    pub(crate) fn restore_path(&self, file: &Path) {
        if let Ok(text) = fs::read_to_string(file) {
            let here = text.replace(&self.place(), &self.path.display().to_string());
            // A path that stays as it was costs a --set when the run is resumed.
            let _ = fs::write(file, here);
        }
    }

    /// A text of this machine, with the data named as they are named on the hosts.
    pub fn with_place(&self, text: &str) -> String {
        text.replace(&self.path.display().to_string(), &self.place())
    }
}

fn size(path: &Path) -> io::Result<u64> {
    let facts = fs::metadata(path)?;
    if !facts.is_dir() {
        return Ok(facts.len());
    }
    fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum()
}

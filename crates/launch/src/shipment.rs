//! Data of this machine that are copied to the hosts.

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::fleet::FleetHost;
use crate::parcel;
use crate::program::{SLOWEST, call};
use crate::trouble::Trouble;

/// A file or folder.
#[derive(Clone, Debug)]
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

    /// Copies it into the folder of a run on a host.
    pub(crate) fn send(&self, host: &FleetHost, place: &str, run: &str) -> Result<(), Trouble> {
        let (reader, writer) = io::pipe().map_err(|error| Trouble::Other(error.to_string()))?;
        let into = if self.path.is_dir() { format!("data/{}", self.name) } else { "data".to_owned() };
        let time = Duration::from_secs(60 + self.bytes / SLOWEST);
        thread::scope(|scope| {
            let packing = scope.spawn(|| parcel::pack(&self.path, &[], &mut BufWriter::new(writer)));
            let sent = call(&host.remote, place, &["host", "receive", run, &into], reader, time);
            match packing.join() {
                // The other side says better why it did not take all.
                Ok(Err(error)) if sent.is_ok() => Err(Trouble::Other(error.to_string())),
                _ => sent.map(|_| ()),
            }
        })
    }

    /// In a file that came back from the hosts, the data are named as they are named here.
    pub fn restore_path(&self, file: &Path) {
        if let Ok(text) = fs::read_to_string(file) {
            let here = text.replace(&self.place(), &self.path.display().to_string());
            // A path that stays as it was costs a --set when the run is resumed.
            let _ = fs::write(file, here);
        }
    }
}

fn size(path: &Path) -> io::Result<u64> {
    let facts = fs::metadata(path)?;
    if !facts.is_dir() {
        return Ok(facts.len());
    }
    fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum()
}

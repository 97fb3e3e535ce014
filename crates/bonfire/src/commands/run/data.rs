//! Data of this machine that are copied to the hosts.

use std::fs;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_launch::{Trouble, call, parcel};

use super::super::fleet::FleetHost;

/// A file or folder.
#[derive(Debug)]
pub struct Shipment {
    path: PathBuf,
    name: String,
    pub bytes: u64,
}

/// A connection that brings less than this many bytes a second is as good as none.
const SLOWEST: u64 = 50_000;

impl Shipment {
    pub fn read(path: &Path) -> Result<Self> {
        let missing = || format!("--data {}: there is no such file or folder", path.display());
        let path = path.canonicalize().with_context(missing)?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.with_context(|| format!("--data {}: has no name", path.display()))?;
        let bytes = size(&path).with_context(|| format!("--data {}", path.display()))?;
        Ok(Self { path, name, bytes })
    }

    /// Where the processes of a run find it, each from its own folder.
    pub fn place(&self) -> String {
        format!("../data/{}", self.name)
    }

    /// Copies it into the folder of a run on a host.
    pub fn send(&self, member: &FleetHost, place: &str, run: &str) -> Result<(), Trouble> {
        let (reader, writer) = io::pipe().map_err(|error| Trouble::Other(error.to_string()))?;
        let into = if self.path.is_dir() { format!("data/{}", self.name) } else { "data".to_owned() };
        let time = Duration::from_secs(60 + self.bytes / SLOWEST);
        std::thread::scope(|scope| {
            let packing = scope.spawn(|| parcel::pack(&self.path, &[], &mut BufWriter::new(writer)));
            let sent = call(&member.remote, place, &["host", "receive", run, &into], reader, time);
            match packing.join() {
                // The other side says better why it did not take all.
                Ok(Err(error)) if sent.is_ok() => Err(Trouble::Other(error.to_string())),
                _ => sent.map(|_| ()),
            }
        })
    }

    /// In the folder that came back, the run file names the data as they are named here.
    pub fn restore_path(&self, out: &Path) {
        let file = out.join("run.yml");
        if let Ok(text) = fs::read_to_string(&file) {
            let here = text.replace(&self.place(), &self.path.display().to_string());
            // A path that stays as it was costs a --set when the run is resumed.
            let _ = fs::write(&file, here);
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

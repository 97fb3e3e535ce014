//! What is written down of a lab, so that another process can take it down.

use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::shape::{HostShape, LinkShape};
use super::{LabError, LabSpec, file_error, write};
use crate::process::ProcessId;
use crate::whole_file;

/// The folder of each lab that there is: its state, and the subnets that labs have taken.
const LABS: &str = "/var/lib/bonfire-labs";
const STATE: &str = "lab.json";
/// In the folder of a lab, which is deleted with all that is in it only if it has this file.
pub(super) const MARK: &str = ".bonfire-lab";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LabState {
    pub name: String,
    pub hosts: usize,
    /// What the links of all hosts are like where `shapes` says nothing: in labs that an older program has made.
    shape: LinkShape,
    #[serde(default)]
    pub shapes: Vec<HostShape>,
    folder: PathBuf,
    /// The first address of its /24.
    pub subnet: Option<Ipv4Addr>,
    /// Of each host that was started, the process that all others of it end with.
    pub processes: Vec<ProcessId>,
    /// Who makes the lab, or has made it.
    pub builder: Option<ProcessId>,
}

impl LabState {
    /// Takes the name, before anything else is made.
    pub(super) fn begin(spec: &LabSpec) -> Result<Self, LabError> {
        let entry = entry(&spec.name);
        let folder = spec.folder.clone().unwrap_or_else(|| entry.join("files"));
        let folder = std::path::absolute(&folder).map_err(file_error(&folder))?;
        check_folder(&folder)?;
        fs::create_dir_all(LABS).map_err(file_error(Path::new(LABS)))?;
        fs::create_dir(&entry).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let name = &spec.name;
                LabError::Unfit(format!(
                    "there is a lab `{name}` already, whole or in part; take it down with: bonfire lab down \
                     --name {name}"
                ))
            }
            _ => file_error(&entry)(error),
        })?;
        let state = Self {
            name: spec.name.clone(),
            hosts: spec.hosts.len(),
            shape: LinkShape::default(),
            shapes: spec.hosts.clone(),
            folder,
            subnet: None,
            processes: Vec::new(),
            builder: ProcessId::of(std::process::id()),
        };
        match state.save().and_then(|()| state.make_folder()) {
            Ok(()) => Ok(state),
            Err(error) => {
                // What goes wrong here has the same cause, which is the one to tell.
                let _ = state.forget();
                Err(error)
            }
        }
    }

    /// Only the folder itself: those above it would be left when the lab is gone.
    fn make_folder(&self) -> Result<(), LabError> {
        let unfit = |error| LabError::Unfit(format!("{}: {error}", self.folder.display()));
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unfit(error)),
            _ => {}
        }
        write(&self.folder.join(MARK), &self.name)
    }

    /// Written aside and renamed: whoever reads it finds it whole.
    pub(super) fn save(&self) -> Result<(), LabError> {
        let path = Self::path(&self.name);
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| LabError::Failed(format!("the state of the lab: {error}")))?;
        whole_file::write(&path, &text).map_err(file_error(&path))
    }

    /// The state of a lab. If its making was cut short before there was one, a state of nothing.
    pub(super) fn find(name: &str) -> Result<Option<Self>, LabError> {
        let (entry, path) = (entry(name), Self::path(name));
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| LabError::Failed(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(file_error(&path)(error)),
            Err(_) if entry.exists() => Ok(Some(Self::of_nothing(name))),
            Err(_) => Ok(None),
        }
    }

    fn of_nothing(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            hosts: 0,
            shape: LinkShape::default(),
            shapes: Vec::new(),
            folder: entry(name).join("files"),
            subnet: None,
            processes: Vec::new(),
            builder: None,
        }
    }

    /// The file that it is kept in.
    pub(super) fn path(name: &str) -> PathBuf {
        entry(name).join(STATE)
    }

    /// What a host is like, counted from 1.
    pub(super) fn shape(&self, number: usize) -> HostShape {
        let old = HostShape { link: self.shape, ..HostShape::default() };
        self.shapes.get(number.wrapping_sub(1)).copied().unwrap_or(old)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Deletes the lab's files and, last of all, that there was one.
    pub(super) fn forget(&self) -> Result<(), LabError> {
        let removed = if self.folder.join(MARK).exists() {
            fs::remove_dir_all(&self.folder)
        } else {
            // Only an empty folder can be ours without the mark.
            fs::remove_dir(&self.folder).or_else(|error| match error.kind() {
                ErrorKind::DirectoryNotEmpty => Ok(()),
                _ => Err(error),
            })
        };
        removed.or_else(ignore_missing).map_err(file_error(&self.folder))?;
        release_subnets(&self.name)?;
        let entry = entry(&self.name);
        fs::remove_dir_all(&entry).or_else(ignore_missing).map_err(file_error(&entry))
    }
}

fn ignore_missing(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Paths of it stand in files of ssh and of Ansible, which have quotes and signs of their own.
fn check_folder(folder: &Path) -> Result<(), LabError> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@,".contains(c);
    let plain = folder.to_str().is_some_and(|text| text.chars().all(is_plain));
    if !plain {
        let message =
            format!("{}: the folder of a lab needs a path without spaces and signs", folder.display());
        return Err(LabError::Unfit(message));
    }
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(LabError::Unfit(format!(
            "{} is not empty; a lab needs a folder of its own, which is deleted with it",
            folder.display()
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(LabError::Unfit(format!("{}: {error}", folder.display()))),
    }
}

pub(super) fn entry(name: &str) -> PathBuf {
    Path::new(LABS).join(name)
}

/// The states of all labs, by name.
pub(super) fn all() -> Result<Vec<LabState>, LabError> {
    let Ok(entries) = fs::read_dir(LABS) else { return Ok(Vec::new()) };
    // The claims of subnets are links to labs, and no labs.
    let is_lab = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let labs = entries.flatten().filter(is_lab);
    let mut names: Vec<String> = labs.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    // One that is taken down at this moment is not there any more.
    names.iter().filter_map(|name| LabState::find(name).transpose()).collect()
}

/// Takes a subnet for a lab. A link is made at once or not at all, and says whose it is.
pub(super) fn take_subnet(index: u8, name: &str) -> bool {
    std::os::unix::fs::symlink(name, subnet_claim(index)).is_ok()
}

fn release_subnets(name: &str) -> Result<(), LabError> {
    for index in 0..=u8::MAX {
        let path = subnet_claim(index);
        if fs::read_link(&path).is_ok_and(|target| target == Path::new(name)) {
            fs::remove_file(&path).map_err(file_error(&path))?;
        }
    }
    Ok(())
}

fn subnet_claim(index: u8) -> PathBuf {
    Path::new(LABS).join(format!("subnet-{index}"))
}

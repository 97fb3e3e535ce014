//! The programs of the system that make and remove a lab.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::LabError;
use crate::deadline;

/// What each of these commands takes is counted in milliseconds.
const DEADLINE: Duration = Duration::from_secs(20);

/// Every program that a lab needs, and the Debian package that has it.
const NEEDED: [(&str, &str); 7] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("sshd", "openssh-server"),
    ("ssh-keygen", "openssh-client"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
    ("sh", "dash"),
];

/// Where the programs of the system are.
#[derive(Debug)]
pub(super) struct Tools {
    paths: Vec<(&'static str, PathBuf)>,
}

impl Tools {
    /// Looks for all of them, so that nothing is begun that cannot be ended.
    pub(super) fn find() -> Result<Self, LabError> {
        if !cfg!(target_os = "linux") {
            let message = "a lab is made of network namespaces, which only Linux has";
            return Err(LabError::Unfit(message.to_owned()));
        }
        // The owner of this folder is the effective user.
        if std::fs::metadata("/proc/self").map(|metadata| metadata.uid()).ok() != Some(0) {
            let message = "a lab needs root: its hosts are network namespaces; try it with sudo";
            return Err(LabError::Unfit(message.to_owned()));
        }
        let mut paths = Vec::new();
        let mut missing = Vec::new();
        for (name, package) in NEEDED {
            match find(name) {
                Some(path) => paths.push((name, path)),
                None => missing.push((name, package)),
            }
        }
        if missing.is_empty() {
            return Ok(Self { paths });
        }
        let names: Vec<&str> = missing.iter().map(|&(name, _)| name).collect();
        let mut packages: Vec<&str> = missing.iter().map(|&(_, package)| package).collect();
        packages.dedup();
        Err(LabError::Unfit(format!(
            "a lab needs programs that are not here: {}; on Debian: apt install {}",
            names.join(", "),
            packages.join(" ")
        )))
    }

    pub(super) fn path(&self, name: &str) -> &Path {
        let path = self.paths.iter().find(|(known, _)| *known == name);
        assert!(path.is_some(), "{name} is not among the tools of a lab");
        path.map_or(Path::new(""), |(_, path)| path)
    }

    /// Runs a program to its end; it must go well. Returns what it printed.
    pub(super) fn run<S: AsRef<OsStr>>(&self, name: &str, arguments: &[S]) -> Result<String, LabError> {
        let said = |message: String| {
            let words: Vec<String> =
                arguments.iter().map(|word| word.as_ref().to_string_lossy().into_owned()).collect();
            LabError::Failed(format!("{name} {}: {message}", words.join(" ")))
        };
        let outcome = deadline::run(Command::new(self.path(name)).args(arguments), io::empty(), DEADLINE)
            .map_err(|error| said(error.to_string()))?;
        match outcome.status {
            Some(status) if status.success() => Ok(String::from_utf8_lossy(&outcome.stdout).into_owned()),
            Some(_) => Err(said(outcome.stderr.trim().lines().next_back().unwrap_or("failed").to_owned())),
            None => Err(said(format!("did not end within {} s", DEADLINE.as_secs()))),
        }
    }

    /// A line of arguments between spaces.
    pub(super) fn line(&self, name: &str, line: &str) -> Result<String, LabError> {
        self.run(name, &line.split_whitespace().collect::<Vec<_>>())
    }
}

/// The folders of administrators are not in everyone's path.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).chain(more);
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}

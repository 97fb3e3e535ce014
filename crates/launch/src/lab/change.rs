//! A host of a lab that changes while the lab is there.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::host::LabHost;
use super::shape::{self, HostShape};
use super::state::{LabState, entry};
use super::tool::Tools;
use super::{Lab, LabError, file_error, governor};

/// How long another change of the same lab is waited for.
const DEADLINE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

impl Lab {
    /// Gives a host, by its name, what is in `change`; all else stays. Returns what it is like then.
    ///
    /// # Errors
    /// When there is no such host, nothing is to be changed, or it cannot be.
    pub fn set(host: &str, change: HostShape) -> Result<HostShape, LabError> {
        if change == HostShape::default() {
            let message = "nothing is to be changed; give --cpu, --rate or --delay";
            return Err(LabError::Unfit(message.to_owned()));
        }
        let (name, number) = find(host)?;
        let tools = Tools::find()?;
        let _turn = Turn::take(&name)?;
        let gone = || LabError::Failed(format!("the lab `{name}` is gone"));
        let mut state = LabState::find(&name)?.ok_or_else(gone)?;
        let old = state.shape(number);
        let new = old.with(change);
        if new.link != old.link {
            shape::apply(&tools, &LabHost::new(&state, number), new.link)?;
        }
        state.shapes = (1..=state.hosts).map(|number| state.shape(number)).collect();
        state.shapes[number - 1] = new;
        state.save()?;
        if new.cpu.is_some() {
            governor::start(&state)?;
        }
        Ok(new)
    }
}

/// The lab of a host, and its number there.
fn find(host: &str) -> Result<(String, usize), LabError> {
    let unfit = |message: String| Err(LabError::Unfit(message));
    let Some((name, number)) = host.rsplit_once('-') else {
        return unfit(format!("expected a host such as lab-1, found `{host}`"));
    };
    let Some(lab) = Lab::find(name)? else {
        return unfit(format!("there is no lab `{name}`; bonfire lab list shows those that there are"));
    };
    let hosts = lab.state.processes.len();
    match number.parse() {
        Ok(number) if (1..=hosts).contains(&number) => Ok((name.to_owned(), number)),
        _ => unfit(format!("there is no host `{host}`; the lab has {name}-1 to {name}-{hosts}")),
    }
}

/// One changes a lab at a time. A link is made at once or not at all, and says whose turn it is.
struct Turn {
    path: PathBuf,
}

impl Turn {
    fn take(name: &str) -> Result<Self, LabError> {
        let (path, end) = (entry(name).join("change"), Instant::now() + DEADLINE);
        loop {
            match std::os::unix::fs::symlink(std::process::id().to_string(), &path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(file_error(&path)(error));
                }
                Err(_) => {}
            }
            let owner = fs::read_link(&path).unwrap_or_default();
            if !owner.as_os_str().is_empty() && !Path::new("/proc").join(&owner).exists() {
                // It was killed before it could end its turn.
                let _ = fs::remove_file(&path);
            } else if Instant::now() > end {
                let message = format!("process {} is changing the lab `{name}`", owner.display());
                return Err(LabError::Failed(message));
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Gone with the lab, perhaps.
        let _ = fs::remove_file(&self.path);
    }
}

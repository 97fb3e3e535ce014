use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::date;
use crate::error::{Error, Result};
use crate::summary::Summary;

const NAME_LIMIT: usize = 64;

/// The format of what this program writes into a run folder, checkpoints included. `state.json` and every checkpoint
/// say it; those that do not were written before there were numbers, and are of format 0. All formats up to this one
/// are read.
pub const FORMAT: u32 = 1;

/// Where a run keeps everything it leaves behind.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// The topmost folder that creating this one made, which may be a parent; `None` if nothing had to be made.
    made: Option<PathBuf>,
    opened: bool,
}

impl RunFolder {
    /// A folder for a new run. One that has something in it is refused, so that no run is written over.
    pub fn create(path: &Path) -> Result<Self> {
        match fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
            Ok(false) => return Ok(Self { path: path.to_owned(), made: None, opened: false }),
            Ok(true) => return Err(Error::unfit(path, in_use(path))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(Error::unfit(path, "is a file; choose another folder with --out"));
            }
            Err(error) => return Err(Error::io(path)(error)),
        }
        let made =
            path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).last();
        fs::create_dir_all(path).map_err(Error::io(path))?;
        Ok(Self { path: path.to_owned(), made: made.map(Path::to_owned), opened: false })
    }

    /// The folder of a run that was started before.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = Self { path: path.to_owned(), made: None, opened: true };
        if !path.is_dir() {
            return Err(Error::unfit(
                path,
                "there is no such folder; a run folder looks like runs/2026-11-15T18-02-11-fashion",
            ));
        }
        for file in [folder.run_file(), folder.events()] {
            if !file.is_file() {
                let name = file.file_name().unwrap_or_default().display();
                return Err(Error::unfit(path, format!("is not a run folder: {name} is missing")));
            }
        }
        match folder.format() {
            0..=FORMAT => Ok(folder),
            newer => Err(Error::unfit(path, format!("is {}", newer_format(newer)))),
        }
    }

    /// The format that `state.json` says. A run that was killed at once has none: then its checkpoints say theirs.
    fn format(&self) -> u32 {
        #[derive(Default, Deserialize)]
        struct Numbered {
            #[serde(default)]
            format: u32,
        }
        let state = fs::read(self.state()).unwrap_or_default();
        serde_json::from_slice(&state).unwrap_or(Numbered::default()).format
    }

    /// Where a run goes that was not told: `runs/2026-11-15T18-02-11-fashion`, in UTC, with `-2`, `-3`… after it if
    /// that is taken.
    pub fn default_path(runs_dir: &Path, name: &str, now: SystemTime) -> PathBuf {
        let stem = format!("{}-{}", date::stamp(now), file_name(name));
        let first = runs_dir.join(&stem);
        if !first.exists() {
            return first;
        }
        let mut number = 2u64;
        loop {
            let path = runs_dir.join(format!("{stem}-{number}"));
            if !path.exists() {
                return path;
            }
            number += 1;
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved configuration.
    pub fn run_file(&self) -> PathBuf {
        self.path.join("run.yml")
    }

    /// Every event of the run.
    pub fn events(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// The run in a few numbers.
    pub fn summary(&self) -> PathBuf {
        self.path.join("summary.json")
    }

    /// What the run was made from: version, git, host, data.
    pub fn state(&self) -> PathBuf {
        self.path.join("state.json")
    }

    /// The page with charts.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// The words that the run knows, if its data are text.
    pub fn vocabulary(&self) -> PathBuf {
        self.path.join("vocabulary.txt")
    }

    /// The words, classes and scales that the owners of the data have agreed on, if they are several.
    pub fn form(&self) -> PathBuf {
        self.path.join("form.pack")
    }

    /// The folder of checkpoints, which the first checkpoint makes.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    pub fn write_summary(&self, summary: &Summary) -> Result<()> {
        write_json(&self.summary(), summary)
    }

    pub fn read_summary(&self) -> Result<Summary> {
        let path = self.summary();
        let bytes = fs::read(&path).map_err(Error::io(&path))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::unfit(&path, format!("is not a summary: {error}")))
    }

    /// Takes a new folder away again if the run failed before its first event, so that a mistake in the input leaves
    /// nothing behind. A folder that was opened, or holds an event or anything unknown, stays.
    pub fn remove_if_unstarted(self) -> Result<()> {
        let started = fs::metadata(self.events()).is_ok_and(|events| events.len() > 0);
        if self.opened || started {
            return Ok(());
        }
        for file in [self.run_file(), self.vocabulary(), self.events(), self.state(), self.summary()] {
            unless(io::ErrorKind::NotFound, fs::remove_file(&file)).map_err(Error::io(&file))?;
        }
        // Checkpoints without an event would be strange, and are not thrown away.
        let _ = fs::remove_dir(self.checkpoints());
        let Some(made) = &self.made else { return Ok(()) };
        for folder in self.path.ancestors() {
            // Whatever else is in it is not ours to delete.
            match fs::remove_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(()),
                result => result.map_err(Error::io(folder))?,
            }
            if folder == made {
                break;
            }
        }
        Ok(())
    }
}

/// What to say of something whose format is newer than [`FORMAT`].
pub fn newer_format(format: u32) -> String {
    format!("of format {format}, which a newer Bonfire writes; this one knows formats up to {FORMAT}")
}

/// Writes a file so that a reader, or a crash at any moment, finds either the old content or the new.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let ((), file) = PartFile::write(path, |file| file.write_all(bytes))?;
    file.put_in_place()
}

/// A file that is whole and on the disk, but not under its name yet. Dropped, it is gone.
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
    aside: PathBuf,
}

impl PartFile {
    /// Writes the content that is to be at `path`; with it comes what `write` returned.
    pub fn write<T>(path: &Path, write: impl FnOnce(&mut fs::File) -> io::Result<T>) -> Result<(T, Self)> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let file = Self { path: path.to_owned(), aside: path.with_file_name(name) };
        let written = write_durably(&file.aside, write).map_err(Error::io(path))?;
        Ok((written, file))
    }

    /// Gives it its name. What had that name is gone.
    pub fn put_in_place(self) -> Result<()> {
        fs::rename(&self.aside, &self.path)
            .and_then(|()| sync_parent(&self.path))
            .map_err(Error::io(&self.path))
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // It is not there any more if it has its name. What went wrong otherwise was told of.
        let _ = fs::remove_file(&self.aside);
    }
}

/// Writes a value as indented JSON, atomically.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut bytes =
        serde_json::to_vec_pretty(value).map_err(|error| Error::unfit(path, error.to_string()))?;
    bytes.push(b'\n');
    write_atomically(path, &bytes)
}

fn write_durably<T>(path: &Path, write: impl FnOnce(&mut fs::File) -> io::Result<T>) -> io::Result<T> {
    let mut file = fs::File::create(path)?;
    let written = write(&mut file)?;
    file.sync_all()?;
    Ok(written)
}

/// A rename is on the disk when its folder is.
#[cfg(unix)]
fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Elsewhere folders cannot be opened as files, and the file system looks after this itself.
#[cfg(not(unix))]
fn sync_parent(_path: &Path) -> io::Result<()> {
    Ok(())
}

fn unless(kind: io::ErrorKind, result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        result => result,
    }
}

fn in_use(path: &Path) -> String {
    let path = path.display();
    format!(
        "is not empty; go on with the run in it with --resume {path}, or choose another folder with --out"
    )
}

/// A name with nothing in it that a file system or a shell could object to.
fn file_name(name: &str) -> String {
    let mut safe = String::new();
    for letter in name.chars().take(NAME_LIMIT) {
        if letter.is_ascii_alphanumeric() || "._-".contains(letter) {
            safe.push(letter);
        } else if !safe.ends_with('-') {
            safe.push('-');
        }
    }
    let safe = safe.trim_matches('-');
    if safe.is_empty() { "run".to_owned() } else { safe.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::sample;

    fn temp() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    /// The message of an error on `path`, without the path.
    fn message<T: std::fmt::Debug>(path: &Path, result: Result<T>) -> String {
        let error = result.unwrap_err();
        assert_eq!(error.path(), path);
        error.to_string().replace(&path.display().to_string(), "PATH")
    }

    #[test]
    fn names_become_file_names() {
        let check = |name: &str, expect: &str| assert_eq!(file_name(name), expect);
        check("fashion", "fashion");
        check("LeNet-5_v1.2", "LeNet-5_v1.2");
        check("my run / 2", "my-run-2");
        check("../../etc", "..-..-etc");
        check("größe", "gr-e");
        check("", "run");
        check("///", "run");
        check(&"x".repeat(300), &"x".repeat(64));
    }

    #[test]
    fn default_paths_are_free() {
        let temp = temp();
        let now = UNIX_EPOCH + Duration::from_secs(1_794_765_731);
        for expect in ["", "-2", "-3"] {
            let path = RunFolder::default_path(temp.path(), "fashion", now);
            assert_eq!(path, temp.path().join(format!("2026-11-15T18-02-11-fashion{expect}")));
            RunFolder::create(&path).unwrap();
        }
    }

    #[test]
    fn create_refuses_what_is_in_use() {
        let temp = temp();
        let path = temp.path().join("run");
        RunFolder::create(&path).unwrap();
        RunFolder::create(&path).unwrap();
        fs::write(path.join("anything"), "").unwrap();
        assert_eq!(
            message(&path, RunFolder::create(&path)),
            "PATH: is not empty; go on with the run in it with --resume PATH, or choose another folder with --out"
        );
        let file = path.join("anything");
        assert_eq!(
            message(&file, RunFolder::create(&file)),
            "PATH: is a file; choose another folder with --out"
        );
    }

    #[test]
    fn open_names_what_is_missing() {
        let temp = temp();
        let path = temp.path().join("run");
        assert!(message(&path, RunFolder::open(&path)).starts_with("PATH: there is no such folder"));
        let folder = RunFolder::create(&path).unwrap();
        assert_eq!(message(&path, RunFolder::open(&path)), "PATH: is not a run folder: run.yml is missing");
        fs::write(folder.run_file(), "").unwrap();
        assert_eq!(
            message(&path, RunFolder::open(&path)),
            "PATH: is not a run folder: events.jsonl is missing"
        );
        fs::write(folder.events(), "").unwrap();
        assert_eq!(RunFolder::open(&path).unwrap().path(), path);
    }

    #[test]
    fn open_refuses_formats_of_the_future() {
        let temp = temp();
        let path = temp.path().join("run");
        let folder = RunFolder::create(&path).unwrap();
        fs::write(folder.run_file(), "").unwrap();
        fs::write(folder.events(), "").unwrap();
        let check = |state: &str, expect: Option<&str>| {
            fs::write(folder.state(), state).unwrap();
            let refused = RunFolder::open(&path).is_err().then(|| message(&path, RunFolder::open(&path)));
            assert_eq!(refused.as_deref(), expect, "{state}");
        };
        check("", None);
        check("{}", None);
        check(&format!("{{\"format\": {FORMAT}}}"), None);
        check(
            r#"{"format": 99, "version": "9.0.0"}"#,
            Some("PATH: is of format 99, which a newer Bonfire writes; this one knows formats up to 1"),
        );
    }

    #[test]
    fn an_unstarted_run_leaves_nothing() {
        let temp = temp();
        let folder = RunFolder::create(&temp.path().join("runs/today")).unwrap();
        fs::write(folder.run_file(), "name: fashion\n").unwrap();
        fs::write(folder.events(), "").unwrap();
        folder.remove_if_unstarted().unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_what_the_run_made_is_removed() {
        let temp = temp();
        let runs = temp.path().join("runs");
        fs::create_dir(&runs).unwrap();
        RunFolder::create(&runs.join("today")).unwrap().remove_if_unstarted().unwrap();
        assert_eq!(
            fs::read_dir(&runs).unwrap().count(),
            0,
            "the folder that was there before is still there"
        );

        RunFolder::create(&runs).unwrap().remove_if_unstarted().unwrap();
        assert!(runs.is_dir(), "an empty folder that was there before is still there");

        let folder = RunFolder::create(&runs.join("today")).unwrap();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        folder.remove_if_unstarted().unwrap();
        assert!(runs.join("today/notes.txt").is_file());
    }

    #[test]
    fn a_started_run_stays() {
        let temp = temp();
        let path = temp.path().join("run");
        let folder = RunFolder::create(&path).unwrap();
        fs::write(folder.run_file(), "").unwrap();
        fs::write(folder.events(), "{}\n").unwrap();
        folder.remove_if_unstarted().unwrap();
        RunFolder::open(&path).unwrap().remove_if_unstarted().unwrap();
        assert!(RunFolder::open(&path).is_ok());
    }

    #[test]
    fn files_are_replaced_whole() {
        let temp = temp();
        let path = temp.path().join("file");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "nothing is left aside");

        let ((), aside) = PartFile::write(&path, |file| file.write_all(b"newer")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new", "nothing changes before it is put in place");
        drop(aside);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "nothing is left aside");
        let full = |_: &mut fs::File| Err::<(), _>(io::Error::other("the disk is full"));
        assert_eq!(message(&path, PartFile::write(&path, full)), "PATH: the disk is full");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "nothing is left aside");

        let nowhere = temp.path().join("missing/file");
        assert!(message(&nowhere, write_atomically(&nowhere, b"new")).starts_with("PATH: No such file"));
    }

    #[test]
    fn summaries_are_read_back() {
        let temp = temp();
        let folder = RunFolder::create(temp.path()).unwrap();
        folder.write_summary(&sample::summary()).unwrap();
        assert_eq!(folder.read_summary().unwrap(), sample::summary());
        fs::write(folder.summary(), "{}").unwrap();
        let path = folder.summary();
        assert!(message(&path, folder.read_summary()).starts_with("PATH: is not a summary: missing field"));
    }
}

//! The images of a folder as files, decoded when they are wanted.
//!
//! Before a run only the head and the end of every file are looked at. Decoded images are kept as long as a part of the
//! memory that is free lasts, so that a small folder is decoded once; those of a large one are decoded in every epoch.
//! Files travel to other machines as they are, and are decoded there.

use super::Labelled;
use super::decode::{Sight, look, read};
use super::resize::Resize;
use crate::error::{Error, Result};
use crate::parallel::in_parallel;
use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// What is kept of decoded images where nobody says how much memory is free.
const LITTLE: usize = 128 << 20;

/// Which part of the memory that is free is for decoded images: others want some, too.
const PART: usize = 4;

/// An image as it was encoded: a file here, or the bytes of one that lies elsewhere.
#[derive(Debug, PartialEq)]
pub(crate) struct Encoded {
    path: PathBuf,
    bytes: Option<Vec<u8>>,
}

impl Encoded {
    /// What was sent from elsewhere, with its [`name`](Self::name) there.
    pub(crate) fn sent(name: &str, bytes: Vec<u8>) -> Self {
        Self { path: name.into(), bytes: Some(bytes) }
    }

    /// Its class and file, which are the same wherever the folder lies.
    pub(crate) fn name(&self) -> String {
        let parts: Vec<_> = self.path.iter().map(|part| part.to_string_lossy()).collect();
        parts[parts.len().saturating_sub(2)..].join("/")
    }

    pub(crate) fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        match &self.bytes {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => Ok(Cow::Owned(std::fs::read(&self.path).map_err(Error::io(&self.path))?)),
        }
    }
}

/// How many bytes of decoded images may still be kept, by all parts of the data together.
#[derive(Clone, Debug)]
pub(crate) struct Shelf(Arc<AtomicUsize>);

impl Shelf {
    /// As large as suits this machine as it is now.
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(free_memory().map_or(LITTLE, |free| free / PART))))
    }
}

/// Images of one size in files.
#[derive(Debug)]
pub(crate) struct Album {
    files: Vec<Encoded>,
    /// Height, width and channels of each.
    size: [usize; 3],
    resize: Option<Resize>,
    kept: Vec<OnceLock<Box<[u8]>>>,
    shelf: Shelf,
    /// The first file that could not be decoded, and what is wrong with it.
    failure: OnceLock<(usize, Error)>,
}

impl Album {
    /// Those of two halves. All must be of one size, if they are not made so; they have one channel if all are gray.
    pub(super) fn open(halves: [&[Labelled]; 2], resize: Option<Resize>) -> Result<[Self; 2]> {
        let files: Vec<&PathBuf> = halves.iter().flat_map(|half| half.iter()).map(|(path, _)| path).collect();
        let sights = look_at_all(&files)?;
        let mut size = sights.first().map_or([1, 1, 1], |first| [first.height, first.width, 1]);
        match resize {
            Some(Resize([height, width])) => size = [height, width, 1],
            None => check_sizes(&files, &sights)?,
        }
        size[2] = if sights.iter().all(|sight| sight.is_gray) { 1 } else { 3 };
        let shelf = Shelf::new();
        Ok(halves.map(|half| {
            let files = half.iter().map(|(path, _)| Encoded { path: path.clone(), bytes: None });
            Self::new(files.collect(), size, resize, &shelf)
        }))
    }

    /// Files of which each is an image of this size, or becomes one.
    pub(crate) fn new(files: Vec<Encoded>, size: [usize; 3], resize: Option<Resize>, shelf: &Shelf) -> Self {
        let kept = files.iter().map(|_| OnceLock::new()).collect();
        Self { files, size, resize, kept, shelf: shelf.clone(), failure: OnceLock::new() }
    }

    pub(super) fn size(&self) -> [usize; 3] {
        self.size
    }

    pub(crate) fn files(&self) -> &[Encoded] {
        &self.files
    }

    /// Whether images get another size than they have.
    pub(crate) fn is_resized(&self) -> bool {
        self.resize.is_some()
    }

    /// A file that was wanted and could not be read, if there is one, and what is wrong with it.
    pub(crate) fn failure(&self) -> Option<&(usize, Error)> {
        self.failure.get()
    }

    pub(crate) fn is_kept(&self, number: usize) -> bool {
        self.kept[number].get().is_some()
    }

    #[cfg(test)]
    pub(super) fn keep_at_most(&self, bytes: usize) {
        self.shelf.0.store(bytes, Ordering::Relaxed);
    }

    /// The bytes of an image. One that cannot be decoded is black, and a failure.
    pub(crate) fn image(&self, number: usize) -> Cow<'_, [u8]> {
        if let Some(kept) = self.kept[number].get() {
            return Cow::Borrowed(kept);
        }
        let decoded = self.decode(number).unwrap_or_else(|error| {
            // Who was first is named.
            let _ = self.failure.set((number, error));
            vec![0; self.size.iter().product()]
        });
        let take = |room: usize| room.checked_sub(decoded.len());
        match self.shelf.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Cow::Borrowed(self.kept[number].get_or_init(|| decoded.into())),
            Err(_) => Cow::Owned(decoded),
        }
    }

    fn decode(&self, number: usize) -> Result<Vec<u8>> {
        let (file, [height, width, channels]) = (&self.files[number], self.size);
        let picture = read(&file.path, &file.bytes()?, self.resize)?;
        if (picture.height, picture.width) != (height, width) || (channels == 1 && !picture.is_gray) {
            return Err(Error::format(&file.path, "has changed since the run began"));
        }
        Ok(match channels {
            1 => picture.pixels.into_iter().step_by(3).collect(),
            _ => picture.pixels,
        })
    }
}

/// Equal are the same files in the same size.
impl PartialEq for Album {
    fn eq(&self, other: &Self) -> bool {
        (&self.files, self.size, self.resize) == (&other.files, other.size, other.resize)
    }
}

/// Looks at all files with all cores. If some are wrong, the first is named.
fn look_at_all(files: &[&PathBuf]) -> Result<Vec<Sight>> {
    let mut sights: Vec<Option<Sight>> = vec![None; files.len()];
    let worst: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    in_parallel(sights.iter_mut().zip(files).enumerate(), |(number, (sight, path))| {
        // Files are handed out in order: whatever comes before the first wrong one is looked at.
        if worst.lock().is_ok_and(|worst| worst.as_ref().is_some_and(|(other, _)| *other < number)) {
            return;
        }
        match (look(path), worst.lock()) {
            (Ok(seen), _) => *sight = Some(seen),
            (Err(error), Ok(mut worst)) if worst.as_ref().is_none_or(|(other, _)| number < *other) => {
                *worst = Some((number, error));
            }
            _ => {}
        }
    });
    match worst.into_inner().ok().flatten() {
        Some((_, error)) => Err(error),
        None => Ok(sights.into_iter().flatten().collect()),
    }
}

fn check_sizes(files: &[&PathBuf], sights: &[Sight]) -> Result<()> {
    let of = |sight: &Sight| format!("{}×{}", sight.height, sight.width);
    let Some(first) = sights.first() else { return Ok(()) };
    let differs = |sight: &Sight| (sight.height, sight.width) != (first.height, first.width);
    match sights.iter().zip(files).find(|(sight, _)| differs(sight)) {
        None => Ok(()),
        Some((sight, path)) => {
            let message = format!(
                "is {}, but {} is {}; make all alike: `data: {{name: …, resize: 64}}`",
                of(sight),
                files[0].display(),
                of(first)
            );
            Err(Error::format(path, message))
        }
    }
}

/// How many bytes of memory are free, where Linux tells.
fn free_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok()?.checked_mul(1024)
}

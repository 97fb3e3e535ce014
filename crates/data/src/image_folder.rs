//! Folders of images, one for each class: `train/CLASS/…` and `test/CLASS/…`, or `CLASS/…`, which is split here.
//! PNG and JPEG, of one size, or made so by `resize`.

mod album;
mod decode;
mod resize;

use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::source::{SamplePart, Source, image};
use crate::{Dataset, Images, Pixels};
use std::path::{Path, PathBuf};

pub(crate) use album::{Album, Encoded, Shelf};
pub(crate) use decode::decode;
#[cfg(test)]
pub(crate) use decode::read;
pub use resize::Resize;

/// What the names of images end with.
const ENDS: [&str; 3] = ["png", "jpg", "jpeg"];

/// What the folders of the halves may be called.
const TRAIN: &[&str] = &["train", "training"];
const TEST: &[&str] = &["test", "testing"];
const VALIDATION: &[&str] = &["val", "valid", "validation", "dev"];

/// A class is kept in a byte.
const CLASS_LIMIT: usize = 256;

/// Whether a folder is one of images.
pub(crate) fn is_one(folder: &Path) -> bool {
    let has_images = |folder: &Path| folders(folder).iter().any(|class| !files(class).is_empty());
    part(folder, TRAIN).is_some_and(|train| has_images(&train)) || has_images(folder)
}

/// Whether it has a part to validate on.
pub(crate) fn has_validation(folder: &Path) -> bool {
    part(folder, TRAIN).is_some() && part(folder, VALIDATION).is_some()
}

/// Reads such a folder. Of one without halves, one image in ten is measured on.
pub(crate) fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    let train = part(folder, TRAIN);
    let classes = names(train.as_deref().unwrap_or(folder))?;
    let [mut train, mut test] = match &train {
        None => Draw::split(source.seed, labelled(folder, &classes)?),
        Some(train) => {
            let need = |parts: &[&str]| {
                part(folder, parts).ok_or_else(|| {
                    Error::format(folder, format!("has `train`, but no folder `{}`", parts[0]))
                })
            };
            let other = match source.part {
                // Some have only a part to validate on.
                SamplePart::Halves => need(TEST).or_else(|error| part(folder, VALIDATION).ok_or(error))?,
                SamplePart::Validation => need(VALIDATION)?,
            };
            let first = if source.part == SamplePart::Validation { &other } else { train };
            [labelled(first, &classes)?, labelled(&other, &classes)?]
        }
    };
    train.truncate(source.train.unwrap_or(usize::MAX));
    test.truncate(source.test.unwrap_or(usize::MAX));
    let [first, second] = Album::open([&train, &test], source.resize)?;
    image::dataset_of_halves(source, folder, images(&train, first), images(&test, second), Some(classes))
}

/// A file and its class.
type Labelled = (PathBuf, u8);

/// The subfolder that has one of these names.
fn part(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().map(|name| folder.join(name)).find(|path| path.is_dir())
}

/// What is in a folder, by name; what begins with a dot is left out.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_shown =
        |path: &PathBuf| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_shown).collect();
    paths.sort();
    paths
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.is_dir()).collect()
}

/// The images right below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let is_image = |path: &PathBuf| {
        let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
        end.is_some_and(|end| ENDS.contains(&end.as_str())) && path.is_file()
    };
    entries(folder).into_iter().filter(is_image).collect()
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The classes: the folders that hold images.
fn names(folder: &Path) -> Result<Vec<String>> {
    let names: Vec<String> =
        folders(folder).iter().filter(|class| !files(class).is_empty()).map(|class| name(class)).collect();
    match names.len() {
        0 => Err(Error::format(folder, "holds no folder with images (.png, .jpg), one for each class")),
        count if count > CLASS_LIMIT => {
            Err(Error::format(folder, format!("has {count} classes, at most {CLASS_LIMIT} can be learned")))
        }
        _ => Ok(names),
    }
}

/// All images of a folder with their classes.
fn labelled(folder: &Path, classes: &[String]) -> Result<Vec<Labelled>> {
    let mut all = Vec::new();
    for path in folders(folder) {
        let files = files(&path);
        match classes.iter().position(|class| *class == name(&path)) {
            Some(class) => all.extend(files.into_iter().map(|file| (file, class as u8))),
            None if files.is_empty() => {}
            None => {
                let message =
                    format!("the training half has no class of this name; it has {}", classes.join(", "));
                return Err(Error::format(&path, message));
            }
        }
    }
    Ok(all)
}

fn images(files: &[Labelled], album: Album) -> Images {
    let labels = files.iter().map(|(_, class)| *class).collect();
    let [height, width, channels] = album.size();
    Images { height, width, channels, pixels: Pixels::of_files(album), labels, ..Images::default() }
}

#[cfg(test)]
mod tests;

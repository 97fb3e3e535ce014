//! Folders of data that came from elsewhere, recognised by what they hold.

use super::{Source, known, text};
use crate::data::{Dataset, Images, Samples, Shape, conllu, idx, reviews};
use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// The files of the formats that we read: training half, test half. Each may end in `.gz`.
const IDX: [[&str; 2]; 2] = [
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"],
    ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"],
];
const CONLLU: [&str; 2] = ["train.conllu", "test.conllu"];
const JSONL: [&str; 2] = ["train.jsonl", "test.jsonl"];

/// Reads a folder of one of these formats.
pub fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    if find(folder, IDX[0][0]).is_some() {
        let [train, test] =
            IDX.map(|[images, labels]| idx::read(&need(folder, images)?, &need(folder, labels)?));
        return images(source, folder, train?, test?);
    }
    if find(folder, CONLLU[0]).is_some() {
        let [train, test] =
            CONLLU.map(|name| half(&need(folder, name)?, |path| conllu::read(path, source.tags)));
        return text::tagging(source, limit(&train?, source.train), limit(&test?, source.test));
    }
    if find(folder, JSONL[0]).is_some() {
        let [train, test] = JSONL.map(|name| half(&need(folder, name)?, reviews::read));
        return text::texts(source, limit(&train?, source.train), limit(&test?, source.test));
    }
    Err(Error::format(
        folder,
        format!(
            "no data found; looked for {} and three more (IDX), {} and {} (CoNLL-U), or {} and {} (JSON lines), each \
             with or without .gz",
            IDX[0][0], CONLLU[0], CONLLU[1], JSONL[0], JSONL[1]
        ),
    ))
}

/// Whether a folder has the files of an IDX data set.
pub fn holds_idx(folder: &Path) -> bool {
    IDX.iter().flatten().all(|name| find(folder, name).is_some())
}

/// The file of this name, or of this name packed.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    [folder.join(name), folder.join(format!("{name}.gz"))].into_iter().find(|path| path.is_file())
}

fn need(folder: &Path, name: &str) -> Result<PathBuf> {
    find(folder, name).ok_or_else(|| Error::format(folder, format!("holds no {name} or {name}.gz")))
}

/// Reads one half, which must hold something.
fn half<T>(path: &Path, read: impl FnOnce(&Path) -> Result<Vec<T>>) -> Result<Vec<T>> {
    let samples = read(path)?;
    if samples.is_empty() {
        return Err(Error::format(path, "holds no samples"));
    }
    Ok(samples)
}

fn limit<T>(samples: &[T], count: Option<usize>) -> &[T] {
    &samples[..count.unwrap_or(usize::MAX).min(samples.len())]
}

/// The data set of two halves that were read, if they belong together.
fn images(source: &Source, folder: &Path, mut train: Images, mut test: Images) -> Result<Dataset> {
    for (half, name) in [(&train, "training"), (&test, "test")] {
        if half.labels.is_empty() {
            return Err(Error::format(folder, format!("the {name} half holds no images")));
        }
    }
    let size = |half: &Images| [half.height, half.width, half.channels];
    if size(&train) != size(&test) {
        let message = format!(
            "the images to train on are {:?} (height, width, channels), those to test on {:?}",
            size(&train),
            size(&test)
        );
        return Err(Error::format(folder, message));
    }
    // Counted before the limit is applied: the first so many images may lack a class.
    let classes = train.labels.iter().max().map_or(0, |&label| usize::from(label) + 1);
    if let Some(label) = test.labels.iter().find(|&&label| usize::from(label) >= classes) {
        let message =
            format!("the test half has the class {label}, but the training half ends at {}", classes - 1);
        return Err(Error::format(folder, message));
    }
    truncate(&mut train, source.train);
    truncate(&mut test, source.test);
    Ok(image_dataset(source, train, test, classes))
}

/// The data set of two halves of images of one size.
pub fn image_dataset(source: &Source, train: Images, test: Images, classes: usize) -> Dataset {
    Dataset {
        name: source.name.clone(),
        shape: Shape::Images { height: train.height, width: train.width, channels: train.channels, classes },
        train: Samples::Images(train),
        test: Samples::Images(test),
        vocabulary: None,
        classes: known::class_names(&source.name, classes),
    }
}

fn truncate(images: &mut Images, count: Option<usize>) {
    let count = count.unwrap_or(usize::MAX).min(images.labels.len());
    images.labels.truncate(count);
    images.pixels.truncate(count * images.height * images.width * images.channels);
}

//! From images to a data set.

use super::Source;
use crate::error::{Error, Result};
use crate::normalize::Normalize;
use crate::pixels::PixelFormat;
use crate::{Dataset, Images, Samples};
use bonfire_learn::Shape;
use std::path::Path;
use std::sync::Arc;

/// The data set of two halves that were read, if they belong together. `classes` are the names of the classes; a format
/// that does not tell has as many as the labels of the training half say.
pub(crate) fn dataset_of_halves(
    source: &Source,
    folder: &Path,
    mut train: Images,
    mut test: Images,
    classes: Option<Vec<String>>,
) -> Result<Dataset> {
    for (half, name) in [(&train, "training"), (&test, "test")] {
        if half.labels.is_empty() {
            return Err(Error::format(folder, format!("the {name} half holds no images")));
        }
    }
    if train.size() != test.size() {
        let message = format!(
            "the images to train on are {:?} (height, width, channels), those to test on {:?}",
            train.size(),
            test.size()
        );
        return Err(Error::format(folder, message));
    }
    // Counted before the limit is applied: the first so many images may lack a class.
    let counted = train.labels.iter().max().map_or(0, |&label| usize::from(label) + 1);
    let classes = classes.unwrap_or_else(|| super::known::class_names(&source.name, counted));
    if let Some(label) = test.labels.iter().find(|&&label| usize::from(label) >= classes.len()) {
        let last = classes.len() - 1;
        let message = format!("the test half has the class {label}, but the training half ends at {last}");
        return Err(Error::format(folder, message));
    }
    train.truncate(source.train.unwrap_or(usize::MAX));
    test.truncate(source.test.unwrap_or(usize::MAX));
    dataset(source, train, test, classes)
}

/// The data set of two halves of images of one size, prepared as the source says.
pub(crate) fn dataset(
    source: &Source,
    mut train: Images,
    mut test: Images,
    classes: Vec<String>,
) -> Result<Dataset> {
    normalize(source, &mut train, &mut test)?;
    train.augment = source.augment;
    check_augment(&train)?;
    let [height, width, channels] = train.size();
    Ok(Dataset {
        name: source.name.clone(),
        shape: Shape::Images { height, width, channels, classes: classes.len() },
        train: Arc::new(Samples::Images(train)),
        test: Arc::new(Samples::Images(test)),
        dev: None,
        vocabulary: None,
        classes,
    })
}

/// Both halves by the same numbers, which never come from the test half. Columns of numbers are each on a scale of
/// their own and would not train together, so they are normalised unless that is forbidden.
fn normalize(source: &Source, train: &mut Images, test: &mut Images) -> Result<()> {
    let is_table = train.pixels.format() == PixelFormat::Floats;
    let moments = match &source.normalize {
        Some(Normalize::By(moments)) => moments.clone(),
        Some(Normalize::Own) => train.moments(),
        None if is_table => train.moments(),
        Some(Normalize::Off) | None => return Ok(()),
    };
    if let Some((_, error)) = train.failure() {
        return Err(Error::mismatch(error.to_string()));
    }
    if let Some(wrong) = moments.wrong(train.channels) {
        return Err(Error::mismatch(format!("data: normalize: {wrong}")));
    }
    train.normalize(&moments);
    test.normalize(&moments);
    Ok(())
}

fn check_augment(images: &Images) -> Result<()> {
    let Some(augment) = images.augment else { return Ok(()) };
    if images.pixels.format() == PixelFormat::Floats {
        return Err(Error::mismatch("data: augment is for images, the data are rows of numbers"));
    }
    let side = images.height.min(images.width);
    if augment.pad >= side {
        let message =
            format!("data: augment: pad is {}, it must be below {side}, the side of an image", augment.pad);
        return Err(Error::mismatch(message));
    }
    Ok(())
}

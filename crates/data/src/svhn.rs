//! Street View House Numbers, cropped: images `X` of 32 x 32 in colour and labels `y` in MATLAB files. The digit 0 has
//! the label 10.

use crate::error::{Error, Result};
use crate::mat::{self, Array};
use crate::pixels::{PixelFormat, Pixels};
use crate::source::{Source, file, image};
use crate::{Dataset, Images};
use std::path::Path;

/// Reads a folder of this format. If `extra_32x32.mat` lies there too, it is the rest of the training half.
pub(crate) fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    let mut train = read(&file::need(folder, "train_32x32.mat")?)?;
    if let Some(extra) = file::find(folder, "extra_32x32.mat") {
        // It is seven times as large as the rest: not read where it would not be used.
        if source.train.is_none_or(|wanted| wanted > train.labels.len()) {
            train = join(train, &read(&extra)?, &extra)?;
        }
    }
    let test = read(&file::need(folder, "test_32x32.mat")?)?;
    let classes = (0..10).map(|digit| digit.to_string()).collect();
    image::dataset_of_halves(source, folder, train, test, Some(classes))
}

/// Reads the images and labels of one file.
pub(crate) fn read(path: &Path) -> Result<Images> {
    let [images, labels] = mat::read(path, ["X", "y"])?;
    let [height, width, channels, count] = images.sizes[..] else {
        let message =
            format!("X has {} dimensions, expected 4: height, width, channels, count", images.sizes.len());
        return Err(Error::format(path, message));
    };
    if images.sizes.contains(&0) {
        let message = format!("X has the sizes {:?}, it must hold images", images.sizes);
        return Err(Error::format(path, message));
    }
    let pixels = images.into_bytes(path)?;
    let labels = digits(path, &labels, count)?;
    let pixels = Pixels::new(pixels, 0, 0, PixelFormat::Columns);
    Ok(Images { height, width, channels, pixels, labels, ..Images::default() })
}

/// Labels as digits.
fn digits(path: &Path, labels: &Array, count: usize) -> Result<Vec<u8>> {
    let values = labels.numbers(path)?;
    if values.len() != count {
        let message = format!("y has {} labels for the {count} images of X", values.len());
        return Err(Error::format(path, message));
    }
    let digit = |(place, &value): (usize, &f64)| match value {
        10.0 => Ok(0),
        value if (0.0..10.0).contains(&value) && value.fract() == 0.0 => Ok(value as u8),
        value => Err(Error::format(path, format!("label {} of y is {value}, expected 1 to 10", place + 1))),
    };
    values.iter().enumerate().map(digit).collect()
}

fn join(mut first: Images, second: &Images, path: &Path) -> Result<Images> {
    if first.size() != second.size() {
        return Err(Error::format(path, "its images are of another size than those of train_32x32.mat"));
    }
    let bytes = [first.pixels.as_ref(), second.pixels.as_ref()].concat();
    first.pixels = Pixels::new(bytes, 0, 0, PixelFormat::Columns);
    first.labels.extend(&second.labels);
    Ok(first)
}

#[cfg(test)]
mod tests;

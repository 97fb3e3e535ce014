//! Arrays of NumPy: `.npz` with the arrays `x_train`, `y_train`, `x_test` and `y_test`, or with `x` and `y`, which are
//! split here; or a folder with the first four as `.npy`.
//!
//! Samples are `(N, F)`, rows of numbers, or images: `(N, H, W)`, `(N, H, W, C)` or `(N, C, H, W)` with one, three or
//! four channels. Bytes stay bytes; every other number becomes an `f32`. Labels are whole numbers from 0 on.

use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::pixels::{PixelFormat, Pixels};
use crate::source::{SamplePart, Source, file, image};
use crate::{Dataset, Images};
use bonfire_learn::torch_file::unpacked;
use std::path::Path;

/// No archive has more content; with 32 bits it has to fit into a part of what they see.
const LIMIT: usize = if usize::BITS < 64 { 1 << 30 } else { 4 << 30 };

const MAGIC: &[u8] = b"\x93NUMPY";

/// How many channels an image may have.
const CHANNELS: [usize; 3] = [1, 3, 4];

/// Whether a file is of this format.
pub(crate) fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "npz")
}

/// Reads an archive.
pub(crate) fn load_file(path: &Path, source: &Source) -> Result<Dataset> {
    let bytes = file::content(path, LIMIT as u64)?;
    let arrays = archive(&bytes).map_err(|message| Error::format(path, message))?;
    let find = |name: &str| arrays.iter().find(|(known, _)| known == name).map(|(_, array)| array);
    let halves = match ["x_train", "y_train", "x_test", "y_test", "x", "y"].map(find) {
        [Some(x), Some(y), Some(test_x), Some(test_y), ..] => {
            images(x, y).and_then(|train| Ok([train, images(test_x, test_y)?]))
        }
        [.., Some(x), Some(y)] => images(x, y).map(|all| {
            let numbers = (0..all.labels.len()).collect();
            Draw::split(source.seed, numbers).map(|numbers| all.some(&numbers))
        }),
        _ => {
            let names: Vec<&str> = arrays.iter().map(|(name, _)| name.as_str()).collect();
            let wants = "expected x_train, y_train, x_test and y_test, or x and y";
            Err(format!("{wants}, found {}", names.join(", ")))
        }
    };
    let [train, test] = halves.map_err(|message| Error::format(path, message))?;
    image::dataset_of_halves(source, path, train, test, None)
}

/// Reads a folder of arrays.
pub(crate) fn load_folder(folder: &Path, source: &Source) -> Result<Dataset> {
    let half = |part: &str| {
        let [x, y] = ["x", "y"].map(|name| file::need(folder, &format!("{name}_{part}.npy")));
        let (x, y) = (x?, y?);
        let read = |path: &Path| {
            let bytes = file::content(path, LIMIT as u64)?;
            Array::parse(&bytes).map_err(|message| Error::format(path, message))
        };
        images(&read(&x)?, &read(&y)?).map_err(|message| Error::format(&x, message))
    };
    let parts = match source.part {
        SamplePart::Halves => ["train", "test"],
        SamplePart::Validation => ["validation", "validation"],
    };
    image::dataset_of_halves(source, folder, half(parts[0])?, half(parts[1])?, None)
}

/// The arrays of an archive by name.
fn archive(bytes: &[u8]) -> Result<Vec<(String, Array)>, String> {
    let entries = unpacked(bytes, LIMIT)?;
    let array = |(name, content): (String, Vec<u8>)| {
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let array = Array::parse(&content).map_err(|message| format!("{name}: {message}"))?;
        Ok((name, array))
    };
    entries.into_iter().map(array).collect()
}

/// An array in the order of C.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    shape: Vec<usize>,
    values: ArrayValues,
}

#[derive(Clone, Debug, PartialEq)]
enum ArrayValues {
    Bytes(Vec<u8>),
    Whole(Vec<i64>),
    Floats(Vec<f32>),
}

impl Array {
    /// Reads the content of a `.npy` file.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let broken = || "is not a whole array of NumPy".to_owned();
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(broken)?;
        let (&major, rest) = rest.split_first().ok_or_else(broken)?;
        let rest = rest.get(1..).ok_or_else(broken)?;
        let (length, rest) = match major {
            1 => {
                let (length, rest) = rest.split_first_chunk().ok_or_else(broken)?;
                (usize::from(u16::from_le_bytes(*length)), rest)
            }
            _ => {
                let (length, rest) = rest.split_first_chunk().ok_or_else(broken)?;
                (u32::from_le_bytes(*length) as usize, rest)
            }
        };
        let header = rest.get(..length).and_then(|header| str::from_utf8(header).ok()).ok_or_else(broken)?;
        let data = &rest[length..];
        if entry(header, "fortran_order") == Some("True") {
            return Err("is in the order of Fortran; save np.ascontiguousarray of it".to_owned());
        }
        let shape = entry(header, "shape").and_then(shape).ok_or_else(broken)?;
        let count =
            shape.iter().try_fold(1usize, |count, side| count.checked_mul(*side)).ok_or_else(broken)?;
        let kind = entry(header, "descr").ok_or_else(broken)?.trim_matches(['\'', '"']);
        Ok(Self { values: values(kind, data, count)?, shape })
    }
}

/// What the header says of a key.
fn entry<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = header.split_once(&format!("'{key}':"))?;
    let rest = rest.trim_start();
    let end = if rest.starts_with('(') { rest.find(')')? + 1 } else { rest.find([',', '}'])? };
    Some(rest[..end].trim())
}

fn shape(text: &str) -> Option<Vec<usize>> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    inner.split(',').map(str::trim).filter(|side| !side.is_empty()).map(|side| side.parse().ok()).collect()
}

/// So many values of a kind.
fn values(kind: &str, data: &[u8], count: usize) -> Result<ArrayValues, String> {
    fn each<const N: usize, T>(
        data: &[u8],
        count: usize,
        of: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, String> {
        let (values, rest) = data.as_chunks::<N>();
        if values.len() != count || !rest.is_empty() {
            return Err(format!("holds {} bytes of {}", data.len(), count.saturating_mul(N)));
        }
        Ok(values.iter().map(|value| of(*value)).collect())
    }
    Ok(match kind {
        "|u1" | "|b1" => ArrayValues::Bytes(each(data, count, |[byte]| byte)?),
        "|i1" => ArrayValues::Whole(each(data, count, |[byte]| i64::from(byte as i8))?),
        "<i2" => ArrayValues::Whole(each(data, count, |bytes| i64::from(i16::from_le_bytes(bytes)))?),
        "<u2" => ArrayValues::Whole(each(data, count, |bytes| i64::from(u16::from_le_bytes(bytes)))?),
        "<i4" => ArrayValues::Whole(each(data, count, |bytes| i64::from(i32::from_le_bytes(bytes)))?),
        "<u4" => ArrayValues::Whole(each(data, count, |bytes| i64::from(u32::from_le_bytes(bytes)))?),
        "<i8" => ArrayValues::Whole(each(data, count, i64::from_le_bytes)?),
        "<f4" => ArrayValues::Floats(each(data, count, f32::from_le_bytes)?),
        "<f8" => ArrayValues::Floats(each(data, count, |bytes| f64::from_le_bytes(bytes) as f32)?),
        _ => return Err(format!("is of the type {kind}, expected bytes, whole numbers or floats")),
    })
}

/// Samples and their labels.
fn images(x: &Array, y: &Array) -> Result<Images, String> {
    let samples = x.shape.first().copied().unwrap_or(0);
    let labels = labels(y)?;
    if samples == 0 || labels.len() != samples {
        return Err(format!("there are {samples} samples and {} labels", labels.len()));
    }
    let (size, is_planes) = match x.shape[1..] {
        [features] => ([1, 1, features], false),
        [height, width] => ([height, width, 1], false),
        [height, width, channels] if CHANNELS.contains(&channels) => ([height, width, channels], false),
        [channels, height, width] if CHANNELS.contains(&channels) => ([height, width, channels], true),
        _ => return Err(format!("the samples have the shape {:?}, expected rows or images", &x.shape[1..])),
    };
    if size.contains(&0) {
        return Err("the samples have no values".to_owned());
    }
    let is_table = size[..2] == [1, 1];
    let pixels = match &x.values {
        ArrayValues::Bytes(bytes) if is_table => {
            Pixels::of_floats(&bytes.iter().map(|&byte| f32::from(byte)).collect::<Vec<_>>())
        }
        ArrayValues::Bytes(bytes) => {
            let format = if is_planes { PixelFormat::Planes } else { PixelFormat::Rows };
            Pixels::new(bytes.clone(), 0, 0, format)
        }
        ArrayValues::Whole(values) => Pixels::of_floats(&in_rows(
            &values.iter().map(|&value| value as f32).collect::<Vec<_>>(),
            size,
            is_planes,
        )),
        ArrayValues::Floats(values) if values.iter().all(|value| value.is_finite()) => {
            Pixels::of_floats(&in_rows(values, size, is_planes))
        }
        ArrayValues::Floats(_) => return Err("a sample has a value that is not a number".to_owned()),
    };
    let [height, width, channels] = size;
    Ok(Images { height, width, channels, pixels, labels, ..Images::default() })
}

/// ArrayValues of images with the channels innermost.
fn in_rows(values: &[f32], [height, width, channels]: [usize; 3], is_planes: bool) -> Vec<f32> {
    if !is_planes {
        return values.to_vec();
    }
    let mut rows = Vec::with_capacity(values.len());
    for image in values.chunks_exact(height * width * channels) {
        for place in 0..height * width {
            rows.extend((0..channels).map(|channel| image[channel * height * width + place]));
        }
    }
    rows
}

fn labels(y: &Array) -> Result<Vec<u8>, String> {
    // Some have a column of them.
    if y.shape.iter().filter(|&&side| side != 1).count() > 1 {
        return Err(format!("the labels have the shape {:?}, expected one number a sample", y.shape));
    }
    let wrong =
        |label: &dyn std::fmt::Display| format!("the label {label} is not a whole number from 0 to 255");
    match &y.values {
        ArrayValues::Bytes(labels) => Ok(labels.clone()),
        ArrayValues::Whole(labels) => {
            labels.iter().map(|label| u8::try_from(*label).map_err(|_| wrong(label))).collect()
        }
        ArrayValues::Floats(labels) => labels
            .iter()
            .map(|label| {
                let is_whole = label.fract() == 0.0 && (0.0..=255.0).contains(label);
                is_whole.then_some(*label as u8).ok_or_else(|| wrong(label))
            })
            .collect(),
    }
}

#[cfg(test)]
pub(crate) mod tests;

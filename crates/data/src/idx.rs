//! IDX, the format of MNIST and of everything that followed it.
//!
//! A header of big-endian numbers says what follows: two zero bytes, the type (0x08 is a byte), the number of
//! dimensions, then each dimension. A header can claim anything, so it is checked before memory is taken, and memory
//! then grows with the bytes that really arrive.

use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::pixels::{PixelFormat, Pixels};
use crate::source::{Source, file, image};
use crate::{Dataset, Images};
use std::io::BufRead;
use std::path::Path;

/// The files of a folder: training half, test half.
const FILES: [[&str; 2]; 2] = [
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"],
    ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"],
];

/// The only type of value that is read: unsigned bytes.
const BYTES: u8 = 0x08;

/// No file claims more bytes of content and is right.
const SIZE_LIMIT: u64 = 1 << 44;

/// Reads a folder of this format.
pub(crate) fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    let half = |[images, labels]: [&str; 2]| read(&file::need(folder, images)?, &file::need(folder, labels)?);
    let [train, test] = FILES.map(half);
    image::dataset_of_halves(source, folder, train?, test?, None)
}

/// Reads images and their labels; both files may be packed with gzip. Images have three dimensions (count, height,
/// width), or four with the channels last.
pub fn read(images: &Path, labels: &Path) -> Result<Images> {
    let (sizes, start, pixels) = read_values(images, "images", &[3, 4])?;
    let (_, labels_start, labels_found) = read_values(labels, "labels", &[1])?;
    let labels_found = labels_found[labels_start..].to_vec();
    if labels_found.len() as u64 != sizes[0] {
        let message = format!(
            "holds {} labels, but {} holds {} images; the two files do not belong together",
            labels_found.len(),
            images.display(),
            sizes[0]
        );
        return Err(Error::format(labels, message));
    }
    Ok(Images {
        height: sizes[1] as usize,
        width: sizes[2] as usize,
        channels: sizes.get(3).map_or(1, |&channels| channels as usize),
        pixels: Pixels::new(pixels, start, 0, PixelFormat::Rows),
        labels: labels_found,
        ..Images::default()
    })
}

/// Writes images and their labels, packed where the name ends in `.gz`.
pub fn write(content: &Images, images: &Path, labels: &Path) -> Result<()> {
    assert_eq!(
        content.pixels.format(),
        PixelFormat::Rows,
        "images are written in the order in which they lie"
    );
    let mut sizes = vec![content.labels.len(), content.height, content.width];
    if content.channels != 1 {
        sizes.push(content.channels);
    }
    write_values(images, &sizes, content.pixels.as_ref())?;
    write_values(labels, &[content.labels.len()], &content.labels)
}

fn write_values(path: &Path, sizes: &[usize], values: &[u8]) -> Result<()> {
    assert_eq!(
        sizes.iter().product::<usize>(),
        values.len(),
        "the dimensions of {} do not fit",
        path.display()
    );
    let mut header = vec![0, 0, BYTES, sizes.len() as u8];
    for &size in sizes {
        let size = u32::try_from(size).map_err(|_| {
            Error::format(path, format!("{size} does not fit into the header, which ends at 2^32"))
        })?;
        header.extend(size.to_be_bytes());
    }
    file::create(path, |out| {
        out.write_all(&header)?;
        out.write_all(values)
    })
}

/// Reads a whole file of bytes with as many dimensions as one of `dimensions` says; the values begin behind the header,
/// at the place that is returned with them.
pub(crate) fn read_values(path: &Path, what: &str, dimensions: &[u8]) -> Result<(Vec<u64>, usize, Bytes)> {
    let sizes = read_header(path, what, dimensions, &mut *file::open(path)?)?;
    let expected = content_size(path, &sizes)?;
    let start = 4 + 4 * sizes.len();
    let values = file::content(path, expected.saturating_add(start as u64))?;
    let found = (values.len() - start) as u64;
    let claim = sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
    if found < expected {
        let message = format!("truncated: the header says {claim} bytes, but only {found} follow");
        return Err(Error::format(path, message));
    }
    if found > expected {
        let message = format!("the header says {claim} bytes, but more follow; the file is damaged");
        return Err(Error::format(path, message));
    }
    Ok((sizes, start, values))
}

fn read_header(path: &Path, what: &str, dimensions: &[u8], reader: &mut dyn BufRead) -> Result<Vec<u64>> {
    let magic: [u8; 4] = read_number(path, reader)?;
    let [first, second, kind, count] = magic;
    if (first, second) != (0, 0) {
        let message = format!("not an IDX file: begins with {magic:02x?}, expected two zero bytes");
        return Err(Error::format(path, message));
    }
    if kind != BYTES {
        let message = format!("holds values of type 0x{kind:02x}, expected 0x{BYTES:02x} (unsigned bytes)");
        return Err(Error::format(path, message));
    }
    if !dimensions.contains(&count) {
        let expected = dimensions.iter().map(u8::to_string).collect::<Vec<_>>().join(" or ");
        let message = format!("has {count} dimensions, expected {expected} in a file of {what}");
        return Err(Error::format(path, message));
    }
    (0..count).map(|_| Ok(u64::from(u32::from_be_bytes(read_number(path, reader)?)))).collect()
}

fn read_number(path: &Path, reader: &mut dyn BufRead) -> Result<[u8; 4]> {
    let mut bytes = [0; 4];
    reader.read_exact(&mut bytes).map_err(|source| {
        Error::format(path, format!("not an IDX file: its header cannot be read: {source}"))
    })?;
    Ok(bytes)
}

/// The number of bytes that the header promises, if that can be true.
fn content_size(path: &Path, sizes: &[u64]) -> Result<u64> {
    if let Some(place) = sizes[1..].iter().position(|&size| size == 0) {
        return Err(Error::format(path, format!("dimension {} is 0; an image needs pixels", place + 2)));
    }
    // One image first: even a file of none must not claim one that no memory holds.
    let image = sizes[1..].iter().try_fold(1u64, |product, &size| product.checked_mul(size));
    let size = image.filter(|&image| image <= SIZE_LIMIT).and_then(|image| image.checked_mul(sizes[0]));
    match size {
        Some(size) if size <= SIZE_LIMIT => Ok(size),
        _ => Err(Error::format(
            path,
            format!("the header claims dimensions {sizes:?}, above the limit of {} TiB", SIZE_LIMIT >> 40),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn sample(channels: usize) -> Images {
        let pixels: Vec<u8> = (0..3 * 2 * 4 * channels).map(|i| i as u8).collect();
        let labels = vec![7, 0, 255];
        Images { height: 2, width: 4, channels, pixels: pixels.into(), labels, ..Images::default() }
    }

    fn paths(folder: &Path, end: &str) -> (PathBuf, PathBuf) {
        (folder.join(format!("images{end}")), folder.join(format!("labels{end}")))
    }

    #[test]
    fn what_is_written_is_read() {
        for (channels, end) in [(1, ""), (1, ".gz"), (3, ""), (3, ".gz")] {
            let folder = tempfile::tempdir().unwrap();
            let (images, labels) = paths(folder.path(), end);
            write(&sample(channels), &images, &labels).unwrap();
            assert_eq!(read(&images, &labels).unwrap(), sample(channels), "{channels} channels, {end:?}");
        }
    }

    #[test]
    fn a_large_file_is_mapped_and_a_packed_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let pixels: Vec<u8> = (0..1100 * 1000).map(|i: u32| (i % 251) as u8).collect();
        let images = Images {
            height: 10,
            width: 100,
            channels: 1,
            pixels: pixels.into(),
            labels: vec![3; 1100],
            ..Images::default()
        };
        for (end, mapped) in [("", true), (".gz", false)] {
            let (pixels, labels) = paths(folder.path(), end);
            write(&images, &pixels, &labels).unwrap();
            let mut read = read(&pixels, &labels).unwrap();
            assert_eq!((&read, read.pixels.is_in_files()), (&images, mapped));
            read.truncate(7);
            assert_eq!(read.pixels.as_ref(), &images.pixels.as_ref()[..7000]);
        }
    }

    /// A header with these four first bytes and dimensions, and content behind it.
    fn bytes(magic: [u8; 4], sizes: &[u32], content: &[u8]) -> Vec<u8> {
        let sizes = sizes.iter().flat_map(|size| size.to_be_bytes());
        magic.into_iter().chain(sizes).chain(content.iter().copied()).collect()
    }

    #[test]
    fn a_wrong_file_of_images_is_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (images, labels) = paths(folder.path(), "");
        write(&sample(1), &images, &labels).unwrap();
        let check = |content: Vec<u8>, expect: &str| {
            fs::write(&images, content).unwrap();
            let error = read(&images, &labels).unwrap_err().to_string();
            assert!(error.contains(expect), "{error:?} should say {expect:?}");
        };
        let three = [0, 0, 8, 3];
        check(Vec::new(), "header cannot be read");
        check(bytes(three, &[3, 2], &[]), "header cannot be read");
        check(b"<html>not here</html>".to_vec(), "begins with [3c, 68, 74, 6d], expected two zero bytes");
        check(bytes([0, 0, 0x0D, 3], &[3, 2, 4], &[0; 96]), "type 0x0d, expected 0x08");
        check(bytes([0, 0, 8, 1], &[3], &[0; 3]), "has 1 dimensions, expected 3 or 4 in a file of images");
        check(bytes(three, &[3, 0, 4], &[]), "dimension 2 is 0");
        check(bytes(three, &[u32::MAX; 3], &[0; 9]), "above the limit of 16 TiB");
        check(bytes([0, 0, 8, 4], &[u32::MAX; 4], &[0; 9]), "above the limit of 16 TiB");
        // A claim within the limit takes no memory that the file does not fill.
        check(
            bytes(three, &[1 << 16, 1 << 8, 1 << 8], &[0; 9]),
            "65536 x 256 x 256 bytes, but only 9 follow",
        );
        check(bytes(three, &[3, 2, 4], &[0; 23]), "only 23 follow");
        check(bytes(three, &[3, 2, 4], &[0; 25]), "more follow");
        check(bytes(three, &[2, 2, 4], &[0; 16]), "holds 3 labels, but ");
    }

    #[test]
    fn wrong_labels_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (images, labels) = paths(folder.path(), "");
        write(&sample(1), &images, &labels).unwrap();
        let check = |content: Vec<u8>, expect: &str| {
            fs::write(&labels, content).unwrap();
            let error = read(&images, &labels).unwrap_err().to_string();
            assert!(error.contains(expect), "{error:?} should say {expect:?}");
        };
        check(bytes([0, 0, 8, 3], &[3, 1, 1], &[0; 3]), "has 3 dimensions, expected 1 in a file of labels");
        check(bytes([0, 0, 8, 1], &[4], &[0; 4]), "the two files do not belong together");
        check(bytes([0, 0, 8, 1], &[4], &[0; 3]), "only 3 follow");
        check(bytes([0, 0, 8, 1], &[u32::MAX], &[0; 3]), "only 3 follow");
    }

    #[test]
    fn a_packed_file_that_breaks_off_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (images, labels) = paths(folder.path(), ".gz");
        write(&sample(1), &images, &labels).unwrap();
        let whole = fs::read(&images).unwrap();
        fs::write(&images, &whole[..whole.len() - 9]).unwrap();
        let error = read(&images, &labels).unwrap_err().to_string();
        assert!(error.contains("breaks off after"), "{error}");
    }
}

//! The binary files of CIFAR-10 and CIFAR-100: records of one or two label bytes and an image of 32 x 32 pixels, first
//! all its red, then its green, then its blue.

use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::pixels::{PixelFormat, Pixels};
use crate::source::{Source, file, image};
use crate::{Dataset, Images};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which of the two labels of CIFAR-100 is learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CifarLabels {
    /// One of 100 classes.
    #[default]
    Fine,
    /// One of 20 groups of them.
    Coarse,
}

/// Height, width and channels.
const SIZE: [usize; 3] = [32, 32, 3];
const VALUES: usize = SIZE[0] * SIZE[1] * SIZE[2];

/// Where the label of a record is.
#[derive(Clone, Copy, Debug)]
struct CifarRecord {
    /// The bytes before the image.
    lead: usize,
    /// Which of them is the label.
    label: usize,
    classes: usize,
    /// The file that names the classes, if it lies beside.
    names: &'static str,
}

const TEN: CifarRecord = CifarRecord { lead: 1, label: 0, classes: 10, names: "batches.meta.txt" };
const COARSE: CifarRecord = CifarRecord { lead: 2, label: 0, classes: 20, names: "coarse_label_names.txt" };
const FINE: CifarRecord = CifarRecord { lead: 2, label: 1, classes: 100, names: "fine_label_names.txt" };

/// Reads a folder of CIFAR-10. Its training half is data_batch_1.bin and so on, as many as there are.
pub(crate) fn load_ten(folder: &Path, source: &Source) -> Result<Dataset> {
    let parts = (1..).map_while(|part| file::find(folder, &format!("data_batch_{part}.bin"))).collect();
    load(folder, source, TEN, parts, "test_batch.bin")
}

/// Reads a folder of CIFAR-100.
pub(crate) fn load_hundred(folder: &Path, source: &Source) -> Result<Dataset> {
    let record = match source.labels {
        CifarLabels::Fine => FINE,
        CifarLabels::Coarse => COARSE,
    };
    load(folder, source, record, vec![file::need(folder, "train.bin")?], "test.bin")
}

fn load(
    folder: &Path,
    source: &Source,
    record: CifarRecord,
    train: Vec<PathBuf>,
    test: &str,
) -> Result<Dataset> {
    let (train, test) = (read(&train, record)?, read(&[file::need(folder, test)?], record)?);
    image::dataset_of_halves(source, folder, train, test, Some(class_names(folder, record)?))
}

/// Reads the records of some files, one behind the other. One file is mapped; several are joined in memory.
fn read(paths: &[PathBuf], record: CifarRecord) -> Result<Images> {
    let mut parts = paths.iter().map(|path| read_part(path, record)).collect::<Result<Vec<Bytes>>>()?;
    let bytes = match parts.len() {
        1 => parts.remove(0),
        _ => Bytes::Owned(parts.iter().map(|part| &**part).collect::<Vec<&[u8]>>().concat()),
    };
    let labels = bytes.chunks_exact(record.lead + VALUES).map(|bytes| bytes[record.label]).collect();
    let [height, width, channels] = SIZE;
    let pixels = Pixels::new(bytes, 0, record.lead, PixelFormat::Planes);
    Ok(Images { height, width, channels, pixels, labels, ..Images::default() })
}

fn read_part(path: &Path, record: CifarRecord) -> Result<Bytes> {
    let (bytes, size) = (file::content(path, file::UNPACKED_LIMIT)?, record.lead + VALUES);
    if bytes.is_empty() || bytes.len() % size != 0 {
        let message = format!(
            "has {} bytes, expected records of {size}: {} for labels and {VALUES} for an image of 32 x 32 in colour",
            bytes.len(),
            record.lead
        );
        return Err(Error::format(path, message));
    }
    let is_wrong = |bytes: &[u8]| usize::from(bytes[record.label]) >= record.classes;
    if let Some(number) = bytes.chunks_exact(size).position(is_wrong) {
        let label = bytes[number * size + record.label];
        let message =
            format!("record {} has the label {label}, expected 0 to {}", number + 1, record.classes - 1);
        return Err(Error::format(path, message));
    }
    Ok(bytes)
}

/// The names that lie beside the data, or numbers.
fn class_names(folder: &Path, record: CifarRecord) -> Result<Vec<String>> {
    let path = folder.join(record.names);
    let mut names = Vec::new();
    if path.is_file() {
        let mut lines = file::NumberedLines::open(&path)?;
        while let Some((_, line)) = lines.next()? {
            if !line.trim().is_empty() {
                names.push(line.trim().to_owned());
            }
        }
    }
    if names.len() != record.classes {
        names = (0..record.classes).map(|class| class.to_string()).collect();
    }
    Ok(names)
}

#[cfg(test)]
mod tests;

//! Rows of numbers with a class each, between commas, semicolons or tabs.
//!
//! The class stands in the column named `label`, or else in the last one; it may be a number or a word. Every other
//! column is a number. The first line may name the columns.

use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::pixels::Pixels;
use crate::source::{SamplePart, Source, file, image};
use crate::{Dataset, Images};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SEPARATORS: [char; 3] = ['\t', ';', ','];

/// A class is kept in a byte.
const CLASS_LIMIT: usize = 256;

/// A file that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CsvTable {
    /// Without that of the class.
    pub columns: usize,
    /// Row after row.
    pub values: Vec<f32>,
    /// The class of each row, and the line on which it stands.
    pub labels: Vec<(String, usize)>,
}

/// How the lines of a file are cut, as its first line tells.
#[derive(Clone, Debug)]
struct Cut {
    separator: char,
    columns: usize,
    /// The place of the class.
    label: usize,
    has_names: bool,
}

/// Reads a folder of this format.
pub(crate) fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    let paths = match source.part {
        SamplePart::Halves => [file::need(folder, "train.csv")?, file::need(folder, "test.csv")?],
        SamplePart::Validation => {
            [file::need(folder, "validation.csv")?, file::need(folder, "validation.csv")?]
        }
    };
    load_files(folder, paths, source)
}

/// Reads one file, of which one row in ten is measured on.
pub(crate) fn load_file(path: &Path, source: &Source) -> Result<Dataset> {
    let table = read(path, column(source))?;
    if table.labels.len() < 2 {
        return Err(Error::format(path, "holds too few rows to train on some and measure on others"));
    }
    let rows: Vec<usize> = (0..table.labels.len()).collect();
    let halves = Draw::split(source.seed, rows).map(|rows| table.rows(&rows));
    dataset(path, [path, path], halves, source)
}

/// Reads both halves.
pub(crate) fn load_files(folder: &Path, paths: [PathBuf; 2], source: &Source) -> Result<Dataset> {
    let label = column(source);
    let halves = [read(&paths[0], label)?, read(&paths[1], label)?];
    dataset(folder, [&paths[0], &paths[1]], halves, source)
}

/// The column of the class, or of the number in its place, if it is named.
fn column(source: &Source) -> Option<&str> {
    source.value.as_deref().or(source.label.as_deref())
}

fn dataset(
    folder: &Path,
    paths: [&Path; 2],
    [mut train, mut test]: [CsvTable; 2],
    source: &Source,
) -> Result<Dataset> {
    if train.columns != test.columns {
        let message = format!(
            "has {} columns besides the label, but {} has {}",
            test.columns,
            paths[0].display(),
            train.columns
        );
        return Err(Error::format(paths[1], message));
    }
    if source.value.is_some() {
        train.truncate(source.train);
        test.truncate(source.test);
        let [train, test] = [(train, paths[0]), (test, paths[1])].map(|(half, path)| half.into_rows(path));
        return image::dataset(source, train?, test?, Vec::new());
    }
    // Counted before the limit is applied: the first so many rows may lack a class.
    let classes = classes(&train.labels);
    if classes.len() > CLASS_LIMIT {
        let message = format!(
            "has {} different labels, at most {CLASS_LIMIT} can be learned; is the last column the class?",
            classes.len()
        );
        return Err(Error::format(paths[0], message));
    }
    let numbers: BTreeMap<&str, u8> =
        classes.iter().zip(0..=u8::MAX).map(|(name, number)| (name.as_str(), number)).collect();
    train.truncate(source.train);
    test.truncate(source.test);
    let train = train.into_images(paths[0], &numbers)?;
    let test = test.into_images(paths[1], &numbers)?;
    drop(numbers);
    image::dataset_of_halves(source, folder, train, test, Some(classes))
}

/// The names of all classes: numbers by size, words by the alphabet.
pub(crate) fn classes(labels: &[(String, usize)]) -> Vec<String> {
    sorted_classes(labels.iter().map(|(name, _)| name.as_str()))
}

/// Names in the order of classes, each once.
pub(crate) fn sorted_classes<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    if names.iter().all(|name| name.parse::<f64>().is_ok()) {
        let number = |name: &&str| name.parse::<f64>().unwrap_or(0.0);
        names.sort_by(|one, other| number(one).total_cmp(&number(other)));
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Where the column of a name is.
pub(crate) fn place_of(names: &[impl AsRef<str>], column: &str) -> Result<usize, String> {
    const SHOWN: usize = 20;
    let names: Vec<&str> = names.iter().map(|name| name.as_ref().trim()).collect();
    let found = names.iter().position(|name| *name == column);
    found.or_else(|| names.iter().position(|name| name.eq_ignore_ascii_case(column))).ok_or_else(|| {
        let known = names[..names.len().min(SHOWN)].join(", ");
        format!("has no column {column:?}; its columns are {known}")
    })
}

/// Reads a file, plain or packed with gzip. `label` is the name of the column of the class, if the file must have it.
pub(crate) fn read(path: &Path, label: Option<&str>) -> Result<CsvTable> {
    let mut lines = file::NumberedLines::open(path)?;
    let (mut table, mut cut) = (CsvTable::default(), None);
    while let Some((number, line)) = lines.next()? {
        // Some programs mark their UTF-8 at the beginning of the file.
        let line = if number == 1 { line.trim_start_matches('\u{FEFF}') } else { line };
        if line.trim().is_empty() {
            continue;
        }
        let read = match &cut {
            Some(cut) => table.add(line, number, cut),
            None => match Cut::of(line, label) {
                Ok(found) => {
                    let read = if found.has_names { Ok(()) } else { table.add(line, number, &found) };
                    table.columns = found.columns - 1;
                    cut = Some(found);
                    read
                }
                Err(message) => Err(message),
            },
        };
        if let Err(message) = read {
            return Err(lines.error(message));
        }
    }
    if table.labels.is_empty() {
        return Err(Error::format(path, "holds no rows"));
    }
    Ok(table)
}

/// The cells of a line, without the quotation marks and spaces around them.
fn cells(line: &str, separator: char) -> impl Iterator<Item = &str> {
    line.split(separator).map(|cell| cell.trim().trim_matches('"').trim())
}

impl Cut {
    fn of(line: &str, label: Option<&str>) -> Result<Self, String> {
        let Some(separator) = SEPARATORS.into_iter().find(|&separator| line.contains(separator)) else {
            return Err(
                "has one column, expected numbers and a class between commas, semicolons or tabs".to_owned()
            );
        };
        let cells: Vec<&str> = cells(line, separator).collect();
        let named = match label {
            Some(label) => Some(place_of(&cells, label)?),
            None => cells.iter().position(|cell| cell.eq_ignore_ascii_case("label")),
        };
        let last = cells.len() - 1;
        // Without names, only the class may be a word.
        let has_names = named.is_some() || cells[..last].iter().any(|cell| cell.parse::<f32>().is_err());
        Ok(Self { separator, columns: cells.len(), label: named.unwrap_or(last), has_names })
    }
}

impl CsvTable {
    fn add(&mut self, line: &str, number: usize, cut: &Cut) -> Result<(), String> {
        let mut count = 0;
        for (place, cell) in cells(line, cut.separator).enumerate() {
            count += 1;
            if place == cut.label {
                if cell.is_empty() {
                    return Err(format!("column {}: the class is missing", place + 1));
                }
                self.labels.push((cell.to_owned(), number));
            } else if place < cut.columns {
                match cell.parse::<f32>() {
                    Ok(value) if value.is_finite() => self.values.push(value),
                    _ => return Err(format!("column {}: {cell:?} is not a number", place + 1)),
                }
            }
        }
        if count != cut.columns {
            return Err(format!("has {count} columns, the first line has {}", cut.columns));
        }
        Ok(())
    }

    /// Some of the rows.
    fn rows(&self, rows: &[usize]) -> Self {
        let values = rows.iter().flat_map(|row| &self.values[row * self.columns..(row + 1) * self.columns]);
        let labels = rows.iter().map(|&row| self.labels[row].clone()).collect();
        Self { columns: self.columns, values: values.copied().collect(), labels }
    }

    fn truncate(&mut self, rows: Option<usize>) {
        let rows = rows.unwrap_or(usize::MAX).min(self.labels.len());
        self.labels.truncate(rows);
        self.values.truncate(rows * self.columns);
    }

    /// Every row as an image of one place with a channel for each column.
    fn into_images(self, path: &Path, classes: &BTreeMap<&str, u8>) -> Result<Images> {
        let class = |(name, line): &(String, usize)| match classes.get(name.as_str()) {
            Some(&class) => Ok(class),
            None => Err(Error::line(path, *line, format!("the class {name:?} is not in the training half"))),
        };
        let labels = self.labels.iter().map(class).collect::<Result<_>>()?;
        Ok(self.images(labels, Vec::new()))
    }

    /// The same with a number in the place of the class.
    fn into_rows(self, path: &Path) -> Result<Images> {
        let number = |(cell, line): &(String, usize)| match cell.parse::<f32>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(Error::line(path, *line, format!("the value {cell:?} is not a number"))),
        };
        let numbers = self.labels.iter().map(number).collect::<Result<Vec<f32>>>()?;
        Ok(self.images(vec![0; numbers.len()], numbers))
    }

    fn images(&self, labels: Vec<u8>, numbers: Vec<f32>) -> Images {
        let pixels = Pixels::of_floats(&self.values);
        Images { height: 1, width: 1, channels: self.columns, pixels, labels, numbers, ..Images::default() }
    }
}

#[cfg(test)]
mod tests;

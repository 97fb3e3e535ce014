//! Texts and numbers by the names of their columns, from CSV or JSON lines: one file, which is split here, or a folder
//! with both halves.

mod record;

use crate::csv;
use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::source::file::{self, NumberedLines};
use crate::source::text::{self, LabelledText};
use crate::source::{SamplePart, Source};
use crate::{Dataset, reviews};
use record::Records;
use serde_json::{Map, Value};
use std::path::Path;

/// What a label's column is called unless the source says.
const LABEL: &str = "label";

/// The parts of a folder, each with the names that its file may have.
const PARTS: [&str; 3] = ["train", "test", "validation"];

/// The kinds of files, and what their names end with.
const ENDS: [(&str, Kind); 4] =
    [("csv", Kind::Csv), ("tsv", Kind::Csv), ("jsonl", Kind::JsonLines), ("parquet", Kind::JsonLines)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Csv,
    JsonLines,
}

/// Whether a source names columns.
pub(crate) fn are_named(source: &Source) -> bool {
    source.text.is_some() || source.label.is_some() || source.value.is_some()
}

/// Whether a file is of a kind that is read here.
pub(crate) fn is_named(path: &Path) -> bool {
    kind(path).is_some()
}

fn kind(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let (_, end) = name.rsplit_once('.')?;
    ENDS.iter().find(|(known, _)| *known == end).map(|(_, kind)| *kind)
}

/// Reads a file, of which one sample in ten is measured on.
pub(crate) fn load_file(path: &Path, source: &Source) -> Result<Dataset> {
    let texts = match (kind(path), &source.text) {
        (Some(Kind::Csv), None) => return csv::load_file(path, source),
        (_, None) if source.value.is_some() => return Err(no_table(path)),
        (Some(Kind::JsonLines), None) if source.label.is_none() => {
            let halves = Draw::split(source.seed, reviews::read(path)?);
            return text::texts(source, halves.map(|half| half.into_iter().map(Ok)));
        }
        (_, Some(column)) => read(path, column, source.label.as_deref().unwrap_or(LABEL))?,
        (_, None) => return Err(no_text(path)),
    };
    let [mut train, mut test] = Draw::split(source.seed, texts);
    train.truncate(source.train.unwrap_or(usize::MAX));
    test.truncate(source.test.unwrap_or(usize::MAX));
    text::labelled(source, [path, path], [train, test])
}

/// Reads a folder that holds `train` and `test` with one of the ends.
pub(crate) fn load_folder(folder: &Path, source: &Source) -> Result<Dataset> {
    let find = |part: &str| {
        let names = ENDS.map(|(end, _)| format!("{part}.{end}"));
        names.iter().find_map(|name| file::find(folder, name)).ok_or_else(|| {
            let names = names.join(", ");
            Error::format(folder, format!("holds none of {names}, whose columns `text` and `label` name"))
        })
    };
    let paths = match source.part {
        SamplePart::Halves => [find(PARTS[0])?, find(PARTS[1])?],
        SamplePart::Validation => [find(PARTS[2])?, find(PARTS[2])?],
    };
    let Some(column) = &source.text else {
        return match kind(&paths[0]) {
            Some(Kind::Csv) => csv::load_files(folder, paths, source),
            _ if source.value.is_some() => Err(no_table(&paths[0])),
            _ => Err(no_text(&paths[0])),
        };
    };
    let label = source.label.as_deref().unwrap_or(LABEL);
    let [mut train, mut test] = [read(&paths[0], column, label)?, read(&paths[1], column, label)?];
    train.truncate(source.train.unwrap_or(usize::MAX));
    test.truncate(source.test.unwrap_or(usize::MAX));
    text::labelled(source, [&paths[0], &paths[1]], [train, test])
}

/// Whether a folder has a part to validate on.
pub(crate) fn has_validation(folder: &Path) -> bool {
    ENDS.iter().any(|(end, _)| file::find(folder, &format!("{}.{end}", PARTS[2])).is_some())
}

fn no_table(path: &Path) -> Error {
    Error::format(path, "`value` is for tables of numbers, which are CSV here")
}

fn no_text(path: &Path) -> Error {
    Error::format(path, "say which key has the text: `data: {name: …, text: review, label: stars}`")
}

/// The texts and labels of a file.
fn read(path: &Path, text: &str, label: &str) -> Result<Vec<LabelledText>> {
    let texts = match kind(path) {
        Some(Kind::JsonLines) => read_json(path, text, label),
        _ => read_csv(path, text, label),
    }?;
    if texts.len() < 2 {
        return Err(Error::format(path, "holds too few texts to train on some and measure on others"));
    }
    Ok(texts)
}

fn read_csv(path: &Path, text: &str, label: &str) -> Result<Vec<LabelledText>> {
    let mut records = Records::open(path)?;
    let Some((_, names)) = records.next()? else {
        return Err(Error::format(path, "holds no rows"));
    };
    let place = |column: &str| csv::place_of(&names, column).map_err(|message| Error::line(path, 1, message));
    let (text, label) = (place(text)?, place(label)?);
    let mut texts = Vec::new();
    while let Some((line, mut cells)) = records.next()? {
        if cells.len() != names.len() {
            let message = format!("has {} columns, the first line has {}", cells.len(), names.len());
            return Err(Error::line(path, line, message));
        }
        let label = cells[label].trim().to_owned();
        if label.is_empty() {
            return Err(Error::line(path, line, "the label is missing"));
        }
        texts.push(LabelledText { text: std::mem::take(&mut cells[text]), label, line });
    }
    Ok(texts)
}

fn read_json(path: &Path, text: &str, label: &str) -> Result<Vec<LabelledText>> {
    let mut lines = NumberedLines::open(path)?;
    let mut texts = Vec::new();
    while let Some((number, line)) = lines.next()? {
        if line.trim().is_empty() {
            continue;
        }
        match parse_json(line, text, label) {
            Ok((text, label)) => texts.push(LabelledText { text, label, line: number }),
            Err(message) => return Err(Error::line(path, number, message)),
        }
    }
    Ok(texts)
}

fn parse_json(line: &str, text: &str, label: &str) -> Result<(String, String), String> {
    let mut object: Map<String, Value> =
        serde_json::from_str(line).map_err(|error| format!("expected a JSON object, but {error}"))?;
    let mut take = |key: &str| {
        object.remove(key).filter(|value| !value.is_null()).ok_or_else(|| {
            let known: Vec<&str> = object.keys().map(String::as_str).collect();
            format!("has no key {key:?}; its other keys are {}", known.join(", "))
        })
    };
    let text = match take(text)? {
        Value::String(text) => text,
        other => return Err(format!("the text is {other}, expected a string")),
    };
    let label = match take(label)? {
        Value::String(label) => label.trim().to_owned(),
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
        }
        Value::Bool(value) => value.to_string(),
        other => return Err(format!("the label is {other}, expected a string or a number")),
    };
    if label.is_empty() {
        return Err("the label is empty".to_owned());
    }
    Ok((text, label))
}

#[cfg(test)]
mod tests;

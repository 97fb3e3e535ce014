//! What the runs of a sweep come to: a row for each of the settings, with means and deviations over seeds.

use std::collections::BTreeMap;

use bonfire_report::{Exit, Summary};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Measure, Sweep};

/// How a run of a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    Done,
    /// It was not worth going on with.
    Stopped,
    /// It could not go on.
    Failed,
}

/// A run that has ended, and what is known of it.
#[derive(Clone, Debug)]
pub struct Ended {
    pub end: RunEnd,
    pub summary: Option<Summary>,
}

/// The mean of some figures, and how far they are from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    pub mean: f64,
    /// Of a sample of all figures there could be; 0 of one.
    pub deviation: f64,
}

/// One of the settings.
#[derive(Clone, Debug, Serialize)]
pub struct SweepRow {
    /// Its place in the sweep.
    pub row: usize,
    pub keys: BTreeMap<String, Value>,
    pub done: usize,
    pub stopped: usize,
    pub failed: usize,
    pub figures: BTreeMap<Measure, Mean>,
    /// Speed against that of the fewest workers, which count as themselves.
    pub speed_up: Option<f64>,
}

/// All settings, the best first.
#[derive(Clone, Debug)]
pub struct SweepTable {
    keys: Vec<String>,
    best_by: Measure,
    pub rows: Vec<SweepRow>,
}

impl Mean {
    /// None of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        (!values.is_empty()).then_some(Self { mean, deviation })
    }
}

/// What of a run's end is known by its folder's summary.
pub fn end_of(summary: &Summary) -> Option<RunEnd> {
    match summary.exit {
        Exit::Done | Exit::TargetReached | Exit::StoppedEarly => Some(RunEnd::Done),
        Exit::Failed => Some(RunEnd::Failed),
        Exit::Interrupted => None,
    }
}

impl SweepTable {
    /// Of the runs that have ended, in the order of the sweep.
    pub fn of(sweep: &Sweep, ended: &[Option<Ended>]) -> Self {
        let mut keys: Vec<String> = Vec::new();
        for (key, _) in sweep.settings.iter().flatten() {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        let mut rows: Vec<SweepRow> =
            (0..sweep.settings.len()).map(|row| row_of(sweep, ended, row)).collect();
        speed_ups(&mut rows);
        let best_by = sweep.best_by;
        rows.sort_by(|a, b| {
            rank(a, best_by).partial_cmp(&rank(b, best_by)).unwrap_or(std::cmp::Ordering::Equal)
        });
        Self { keys, best_by, rows }
    }

    /// The settings whose runs all ended well and are best on average.
    pub fn best(&self) -> Option<&SweepRow> {
        let is_whole =
            |row: &&SweepRow| row.failed + row.stopped == 0 && row.figures.contains_key(&self.best_by);
        self.rows.first().filter(is_whole)
    }

    /// The measures that any row has.
    fn measures(&self) -> Vec<Measure> {
        let is_there = |measure: &Measure| self.rows.iter().any(|row| row.figures.contains_key(measure));
        Measure::ALL.into_iter().filter(is_there).collect()
    }

    /// For a terminal: columns that line up.
    pub fn lines(&self) -> Vec<String> {
        let measures = self.measures();
        let has_speed_up = self.rows.iter().any(|row| row.speed_up.is_some());
        let mut head: Vec<String> = self.keys.clone();
        head.push("runs".to_owned());
        head.extend(measures.iter().map(|measure| {
            format!("{}{}", measure.title(), if *measure == self.best_by { "*" } else { "" })
        }));
        head.extend(has_speed_up.then(|| "speed-up".to_owned()));
        let mut cells = vec![head];
        for row in &self.rows {
            let mut line: Vec<String> = self.keys.iter().map(|key| text(row.keys.get(key))).collect();
            line.push(runs(row));
            let figure = |measure: &Measure| match row.figures.get(measure) {
                Some(Mean { mean, deviation }) if row.done > 1 => {
                    format!("{} ± {}", measure.show(*mean), measure.show(*deviation))
                }
                Some(Mean { mean, .. }) => measure.show(*mean),
                None => "-".to_owned(),
            };
            line.extend(measures.iter().map(figure));
            let speed_up = || row.speed_up.map_or_else(|| "-".to_owned(), |times| format!("{times:.2} ×"));
            line.extend(has_speed_up.then(speed_up));
            cells.push(line);
        }
        aligned(&cells)
    }

    /// A line for each of the settings, with all digits.
    pub fn csv(&self) -> String {
        let measures = self.measures();
        let mut head: Vec<String> = self.keys.clone();
        head.extend(["done", "stopped", "failed"].map(str::to_owned));
        for measure in &measures {
            head.extend([measure.name().to_owned(), format!("{measure}_deviation")]);
        }
        head.push("speed_up".to_owned());
        let mut csv = line_of_csv(&head);
        for row in &self.rows {
            let mut cells: Vec<String> = self.keys.iter().map(|key| text(row.keys.get(key))).collect();
            cells.extend([row.done, row.stopped, row.failed].map(|count| count.to_string()));
            for measure in &measures {
                let figure = row.figures.get(measure);
                cells.extend(figure.map_or([String::new(), String::new()], |figure| {
                    [figure.mean.to_string(), figure.deviation.to_string()]
                }));
            }
            cells.push(row.speed_up.map_or_else(String::new, |times| times.to_string()));
            csv += &line_of_csv(&cells);
        }
        csv
    }

    /// The same, and every run by itself.
    pub fn json(&self, sweep: &Sweep, ended: &[Option<Ended>]) -> Value {
        let runs = sweep.runs.iter().zip(ended).map(|(run, ended)| {
            let figures: BTreeMap<Measure, Option<f64>> = match ended.as_ref().and_then(|it| it.summary.as_ref()) {
                Some(summary) => Measure::ALL.into_iter().map(|measure| (measure, measure.of(summary))).collect(),
                None => BTreeMap::new(),
            };
            let end = ended.as_ref().map(|ended| ended.end);
            json!({"name": run.name, "row": run.row, "seed": run.seed, "set": run.set, "end": end, "figures": figures})
        });
        json!({"best_by": self.best_by, "rows": self.rows, "runs": runs.collect::<Vec<_>>()})
    }
}

fn row_of(sweep: &Sweep, ended: &[Option<Ended>], row: usize) -> SweepRow {
    let runs = sweep.runs.iter().zip(ended).filter(|(run, _)| run.row == row);
    let ended: Vec<&Ended> = runs.filter_map(|(_, ended)| ended.as_ref()).collect();
    let count = |end: RunEnd| ended.iter().filter(|ended| ended.end == end).count();
    let done = ended.iter().filter(|ended| ended.end == RunEnd::Done);
    let summaries: Vec<&Summary> = done.filter_map(|ended| ended.summary.as_ref()).collect();
    let mean = |measure: Measure| {
        let values: Vec<f64> = summaries.iter().filter_map(|summary| measure.of(summary)).collect();
        Some((measure, Mean::of(&values)?))
    };
    SweepRow {
        row,
        keys: sweep.settings[row].iter().cloned().collect(),
        done: count(RunEnd::Done),
        stopped: count(RunEnd::Stopped),
        failed: count(RunEnd::Failed),
        figures: Measure::ALL.into_iter().filter_map(mean).collect(),
        speed_up: None,
    }
}

/// Compares rows that differ in the number of workers alone.
fn speed_ups(rows: &mut [SweepRow]) {
    let workers = |row: &SweepRow| {
        let is_key = |key: &str| key == "workers" || key.ends_with(".num_workers");
        row.keys
            .iter()
            .find(|(key, _)| is_key(key))
            .and_then(|(key, value)| Some((key.clone(), value.as_u64()?)))
    };
    let speed = |row: &SweepRow| row.figures.get(&Measure::SamplesPerS).map(|speed| speed.mean);
    let without = |row: &SweepRow, key: &str| {
        let mut keys = row.keys.clone();
        keys.remove(key);
        keys
    };
    let found: Vec<Option<f64>> = rows
        .iter()
        .map(|row| {
            let (key, _) = workers(row)?;
            let alike = rows.iter().filter(|other| without(other, &key) == without(row, &key));
            let of = |other: &SweepRow| Some((workers(other)?.1, speed(other)?));
            let (fewest, slowest) = alike.filter_map(of).min_by_key(|(workers, _)| *workers)?;
            Some(speed(row)? / slowest * fewest as f64)
        })
        .collect();
    // One number of workers alone has nothing to be compared with.
    let numbers: std::collections::BTreeSet<_> = rows.iter().filter_map(workers).collect();
    if numbers.len() > 1 {
        rows.iter_mut().zip(found).for_each(|(row, found)| row.speed_up = found);
    }
}

/// What sorts the best first: those with runs that did not end well come last.
fn rank(row: &SweepRow, by: Measure) -> (usize, f64) {
    let cost = row.figures.get(&by).map_or(f64::INFINITY, |figure| by.cost(figure.mean));
    (row.failed + row.stopped, cost)
}

fn runs(row: &SweepRow) -> String {
    let mut text = row.done.to_string();
    for (count, word) in [(row.stopped, "stopped"), (row.failed, "failed")] {
        if count > 0 {
            text += &format!(", {count} {word}");
        }
    }
    text
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "-".to_owned(),
    }
}

fn line_of_csv(cells: &[String]) -> String {
    let quoted = |cell: &String| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

//! Curves of runs for papers and for other programs: SVG and CSV, of every event of the log.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::event::{Event, Stamped};
use crate::folder::write_atomically;
use crate::log::read_events;
use crate::page::labels;
use crate::svg::{Curve, LineChart};
use crate::transcript::is_validated;

/// A run in numbers.
#[derive(Debug)]
struct Curves {
    label: String,
    events: Vec<Stamped>,
    workers: usize,
    samples_per_s: Option<f64>,
    /// What its evaluations measure.
    part: &'static str,
}

impl Curves {
    fn read(folder: &Path, label: String) -> Result<Self> {
        let events = read_events(&folder.join("events.jsonl"))?;
        let mut curves = Self { label, events: Vec::new(), workers: 0, samples_per_s: None, part: TEST };
        for stamped in events {
            match &stamped.event {
                Event::Started { workers, .. } => {
                    curves.workers = *workers;
                    curves.part = if is_validated(&stamped.event) { "validation" } else { TEST };
                }
                // What is done again is taken back.
                Event::Resumed { round, .. } => {
                    curves.events.retain(|seen| round_of(&seen.event) <= Some(*round))
                }
                Event::Ended { summary } => curves.samples_per_s = Some(summary.samples_per_s),
                _ => {}
            }
            curves.events.push(stamped);
        }
        Ok(curves)
    }

    fn points(&self, of: impl Fn(&Event) -> Option<(u64, f64)>) -> Vec<(f64, f64)> {
        let points = self.events.iter().filter_map(|stamped| of(&stamped.event));
        points.filter(|(_, y)| y.is_finite()).map(|(round, y)| (round as f64, y)).collect()
    }
}

fn round_of(event: &Event) -> Option<u64> {
    match event {
        Event::Progress { round, .. } | Event::Evaluated { round, .. } | Event::EpochEnded { round, .. } => {
            Some(*round)
        }
        _ => None,
    }
}

/// Writes `loss.svg`, `accuracy.svg`, `speed.svg` and, of runs with different numbers of workers, `speed-up.svg`.
/// Returns what was written.
///
/// # Errors
/// When a log cannot be read, or a file not be written.
pub fn write_svgs(folders: &[PathBuf], into: &Path) -> Result<Vec<PathBuf>> {
    let runs = read_all(folders)?;
    std::fs::create_dir_all(into).map_err(crate::error::Error::io(into))?;
    let mut charts = vec![
        ("loss", chart("loss", &runs, [(TRAINING, training_loss), (TEST, test_loss)])),
        ("accuracy", chart("accuracy, %", &runs, [(TRAINING, training_accuracy), (TEST, test_accuracy)])),
        ("speed", chart("samples/s", &runs, [("", speed)])),
    ];
    charts.extend(speed_up(&runs).map(|chart| ("speed-up", chart)));
    let mut written = Vec::new();
    for (name, chart) in charts {
        let path = into.join(format!("{name}.svg"));
        write_atomically(&path, chart.to_svg().as_bytes())?;
        written.push(path);
    }
    Ok(written)
}

fn read_all(folders: &[PathBuf]) -> Result<Vec<Curves>> {
    folders.iter().zip(labels(folders)).map(|(folder, label)| Curves::read(folder, label)).collect()
}

const TRAINING: &str = "training";
const TEST: &str = "test";

type Of = fn(&Event) -> Option<(u64, f64)>;

fn chart<const N: usize>(title: &str, runs: &[Curves], kinds: [(&str, Of); N]) -> LineChart {
    let mut curves = Vec::new();
    for run in runs {
        for (kind, of) in kinds {
            let (has_dots, kind) = (kind == TEST, if kind == TEST { run.part } else { kind });
            let label = match (runs.len(), kind) {
                (1, "") => run.label.clone(),
                (1, kind) => kind.to_owned(),
                (_, "") => run.label.clone(),
                (_, kind) => format!("{}, {kind}", run.label),
            };
            curves.push(Curve { label, points: run.points(of), has_dots });
        }
    }
    LineChart { x: "round".to_owned(), y: title.to_owned(), curves }
}

fn training_loss(event: &Event) -> Option<(u64, f64)> {
    if let Event::Progress { round, loss, .. } = event { Some((*round, *loss)) } else { None }
}

fn training_accuracy(event: &Event) -> Option<(u64, f64)> {
    if let Event::Progress { round, accuracy, .. } = event { Some((*round, *accuracy * 100.0)) } else { None }
}

fn test_loss(event: &Event) -> Option<(u64, f64)> {
    if let Event::Evaluated { round, loss, .. } = event { Some((*round, *loss)) } else { None }
}

fn test_accuracy(event: &Event) -> Option<(u64, f64)> {
    if let Event::Evaluated { round, accuracy, .. } = event {
        Some((*round, *accuracy * 100.0))
    } else {
        None
    }
}

fn speed(event: &Event) -> Option<(u64, f64)> {
    if let Event::Progress { round, samples_per_s, .. } = event {
        Some((*round, *samples_per_s))
    } else {
        None
    }
}

/// Speed against that of the fewest workers, which count as themselves; the mean of runs with as many.
fn speed_up(runs: &[Curves]) -> Option<LineChart> {
    let mut speeds = std::collections::BTreeMap::<usize, Vec<f64>>::new();
    for run in runs {
        speeds.entry(run.workers).or_default().extend(run.samples_per_s);
    }
    let mean = |all: &Vec<f64>| all.iter().sum::<f64>() / all.len() as f64;
    let rows: Vec<(f64, f64)> = speeds
        .iter()
        .filter(|(workers, all)| **workers > 0 && !all.is_empty())
        .map(|(&workers, all)| (workers as f64, mean(all)))
        .collect();
    let &(least, slowest) = rows.first().filter(|_| rows.len() > 1)?;
    let measured = rows.iter().map(|(workers, speed)| (*workers, speed / slowest * least)).collect();
    let ideal = rows.iter().map(|(workers, _)| (*workers, *workers)).collect();
    let curves = vec![
        Curve { label: "measured".to_owned(), points: measured, has_dots: true },
        Curve { label: "ideal".to_owned(), points: ideal, has_dots: false },
    ];
    Some(LineChart { x: "workers".to_owned(), y: "speed-up".to_owned(), curves })
}

/// Progress and evaluations of all runs as lines of CSV.
///
/// # Errors
/// When a log cannot be read.
pub fn csv(folders: &[PathBuf]) -> Result<String> {
    let mut text =
        "run,kind,seconds,round,epoch,loss,accuracy,macro_f1,lr,samples,samples_per_s\n".to_owned();
    let or_nothing = |number: f64| if number.is_finite() { number.to_string() } else { String::new() };
    for run in read_all(folders)? {
        let label = quoted(&run.label);
        for Stamped { at_s, event } in &run.events {
            let cells = match event {
                Event::Progress { round, epoch, loss, accuracy, lr, samples, samples_per_s } => {
                    let [loss, accuracy, speed] = [*loss, *accuracy, *samples_per_s].map(or_nothing);
                    format!("training,{at_s},{round},{epoch},{loss},{accuracy},,{lr},{samples},{speed}")
                }
                Event::Evaluated { round, epoch, loss, accuracy, macro_f1, samples, .. } => {
                    let [loss, accuracy, f1] =
                        [*loss, *accuracy, macro_f1.unwrap_or(f64::NAN)].map(or_nothing);
                    format!("{},{at_s},{round},{epoch},{loss},{accuracy},{f1},,{samples},", run.part)
                }
                Event::Tested { round, loss, accuracy, macro_f1, samples, .. } => {
                    let [loss, accuracy, f1] =
                        [*loss, *accuracy, macro_f1.unwrap_or(f64::NAN)].map(or_nothing);
                    format!("{TEST},{at_s},{round},,{loss},{accuracy},{f1},,{samples},")
                }
                _ => continue,
            };
            let _ = writeln!(text, "{label},{cells}");
        }
    }
    Ok(text)
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::folder::RunFolder;
    use crate::log::Log;
    use crate::sample;

    fn run(path: &Path, workers: usize, samples_per_s: f64) -> PathBuf {
        let folder = RunFolder::create(path).unwrap();
        let started = Instant::now();
        let mut log = Log::open(&folder, started, Vec::new()).unwrap();
        let mut first = sample::started();
        let Event::Started { workers: told, .. } = &mut first else { unreachable!() };
        *told = workers;
        log.record(started, first);
        for event in [sample::progress(1), sample::progress(402), sample::evaluated(402)] {
            log.record(started, event);
        }
        let summary = crate::Summary { samples_per_s, ..sample::summary() };
        log.record(started, Event::Ended { summary: Box::new(summary) });
        path.to_owned()
    }

    #[test]
    fn every_point_is_a_line() {
        let temp = tempfile::tempdir().unwrap();
        let text = csv(&[run(&temp.path().join("a,b"), 1, 10.0)]).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].starts_with("\"a,b\",training,0,1,"), "{text}");
        assert!(
            lines[3].starts_with("\"a,b\",test,0,402,") && lines[3].contains(",0.859375,0.8515625,,"),
            "{text}"
        );
        assert!(lines.iter().all(|line| line.replace("a,b", "").matches(',').count() == 10), "{text}");
    }

    #[test]
    fn a_family_has_a_speed_up() {
        let temp = tempfile::tempdir().unwrap();
        let folders = [(1, 100.0), (2, 180.0), (4, 300.0)];
        let folders =
            folders.map(|(workers, speed)| run(&temp.path().join(workers.to_string()), workers, speed));
        let written = write_svgs(&folders, &temp.path().join("svg")).unwrap();
        let names: Vec<_> = written.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["loss.svg", "accuracy.svg", "speed.svg", "speed-up.svg"]);
        let runs = read_all(&folders).unwrap();
        assert_eq!(speed_up(&runs).unwrap().curves[0].points, [(1.0, 1.0), (2.0, 1.8), (4.0, 3.0)]);
        assert!(speed_up(&runs[..1]).is_none());
    }
}

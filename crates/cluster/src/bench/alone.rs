//! A run of one machine as it is: a head, and the worker in its process. What they hand to each other is in the caches
//! of one core and wanted by another, which no part of a round that is measured alone tells.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Result;
use bonfire_data::Dataset;
use bonfire_report::{Event, RunFolder, View, read_events};
use bonfire_run::Overrides;
use bonfire_run::job::{Job, Scale};
use bonfire_run::run::Run;
use bonfire_run::run_file::arch::Arch;
use bonfire_run::run_file::{Every, RunFile, Settings, Span};
use bonfire_yaml::to_yaml;

use crate::local;

/// How long such a run goes on, and how many epochs it has at least and at most.
const ALONE_S: f64 = 0.8;
const EPOCHS: (f64, f64) = (4.0, 200.0);

/// Where a round takes longer than this, it is hardly anything but its step.
const LONGEST_S: f64 = 0.25;

/// Seconds of a round of a run on this machine alone, where one is about so long; none if that is long, or it fails.
pub(super) fn round_s(file: &RunFile, dataset: &Dataset, about_s: f64) -> Option<f64> {
    if about_s > LONGEST_S {
        return None;
    }
    let about_s = about_s.max(1e-6);
    let most = dataset.train.len().div_ceil(file.batch_size).max(1);
    let rounds = ((ALONE_S / EPOCHS.0 / about_s) as usize).clamp(1, most);
    let epochs = (ALONE_S / (rounds as f64 * about_s)).clamp(EPOCHS.0, EPOCHS.1) as u64;
    let some = dataset.excerpt(rounds * file.batch_size);
    let path = std::env::temp_dir().join(format!("bonfire-alone-{}", std::process::id()));
    let seconds = settings(file, epochs).and_then(|settings| {
        let job = Job::on(settings, Arc::new(some), Scale::Nodes)?;
        let run = Run::create(job, &path, vec![View::Quiet], Instant::now())?;
        run.finish_by(|run| local::train(run, &AtomicBool::new(false)))?;
        Ok(read_events(&RunFolder::open(&path)?.events())?)
    });
    // What is left of it is in a folder for what does not last.
    let _ = fs::remove_dir_all(&path);
    let seconds = seconds.ok()?.into_iter().filter_map(|stamped| match stamped.event {
        Event::EpochEnded { seconds, .. } => Some(seconds),
        _ => None,
    });
    // The first makes room for the others.
    let mut seconds: Vec<f64> = seconds.skip(1).collect();
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).map(|epoch_s| epoch_s / rounds as f64)
}

/// The same work, and nothing else.
fn settings(file: &RunFile, epochs: u64) -> Result<Settings> {
    let file = RunFile {
        model: file.model.clone(),
        data: file.data.clone(),
        optimizer: file.optimizer.clone(),
        clip_norm: file.clip_norm,
        class_weights: file.class_weights.clone(),
        batch_size: file.batch_size,
        seed: file.seed,
        threads: file.threads,
        arch: Arch::Single,
        workers: Some(1),
        epochs: Some(epochs),
        eval_every: Span::Epochs(epochs),
        checkpoint_every: Every::Never,
        report: false,
        ..RunFile::default()
    };
    Ok(Settings::read("the run file", &to_yaml(&file)?, &Overrides::default(), 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_of_one_machine_takes_its_time() {
        let text = "{model: {mlp: {hidden: [32]}}, data: {name: digits, train: 64, test: 8}, batch_size: 8}";
        let file = super::super::gauge::settings(text, None).expect("settings").file;
        let dataset = file.data.load().expect("data").excerpt(64);
        let found = round_s(&file, &dataset, 0.1).expect("a run");
        assert!(found > 0.0 && found < 1.0, "{found}");
        assert_eq!(round_s(&file, &dataset, 2.0), None);
    }
}

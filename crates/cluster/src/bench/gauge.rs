//! What the work of a run takes on this machine: the figures that a plan needs of every host.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bonfire_data::Dataset;
use bonfire_report::{EnergyLabel, Watts, peak_rss_mb};
use bonfire_run::Overrides;
use bonfire_run::replica::Replica;
use bonfire_run::run_file::Settings;
use bonfire_strategy::Unit;
use serde::{Deserialize, Serialize};

use super::alone;
use super::core_time::{Watch, share_of_a_core};
use super::gauge_codec::{codecs, factors};
use super::gauge_round::crowds;
use crate::plan::figures::{
    FrameFigures, HostFigures, InRounds, LinkFigures, Power, StepFigures, Work, WorkFigures,
};
use crate::remote::machine_id;
use crate::roles::member::apart::Apart;
use crate::roles::node::build_worker;
use crate::trainer::Trainer;

/// What is to be measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GaugeTask {
    /// The run file.
    pub text: String,
    /// On how many cores a worker would be, for every number of workers that this machine may have.
    pub workers: Vec<usize>,
    /// Whether a run of this machine alone is tried.
    pub tries_alone: bool,
}

/// How long steps of one size are measured.
const STEPS_FOR: Duration = Duration::from_millis(350);

/// At least so many steps of a size, at most so many.
const STEPS: (usize, usize) = (4, 400);

/// Below this a host is held back on purpose; above it others are at work there too, which passes.
const HELD_BACK: f64 = 0.85;

/// Measures this machine. Its link is that between two of its processes.
///
/// # Errors
/// When the run file does not fit the data.
pub fn gauge(task: &GaugeTask, dataset: &Dataset) -> Result<HostFigures> {
    let settings = settings(&task.text, None)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (share, hold_s) = share_of_a_core();
    let is_held_back = share < HELD_BACK;
    let batch = settings.file.batch_size;
    let mut threads: Vec<usize> =
        task.workers.iter().map(|&workers| settings.file.threads_on(cores, workers)).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut steps = Vec::new();
    for &threads in &threads {
        for size in [(batch / 2).max(1), batch, batch * 2] {
            // One size again is none, and a batch has no more samples than there are.
            if steps.iter().any(|step: &StepFigures| (step.threads, step.batch) == (threads, size))
                || (size > dataset.train.len() && size > batch)
            {
                continue;
            }
            steps.push(step(&task.text, dataset, (threads, size), share)?);
        }
    }
    let most = threads.last().copied().unwrap_or(1);
    let mut trainer = trainer(&settings, dataset, most)?;
    trainer.compute(Unit { epoch: 0, index: 0 })?;
    let update = timed(share, most, || trainer.step(0.0));
    let mut work = WorkFigures {
        steps,
        update,
        codecs: codecs(&trainer, settings.file.compression),
        hop_s: hop_s(&trainer),
        factors: factors(&mut trainer, settings.file.seed),
        together: together(&task.text, &mut trainer, (share, most))?,
        memory_mb: peak_rss_mb(),
        crowds: Vec::new(),
        alone_s: None,
    };
    drop(trainer);
    work.crowds = crowds(&settings, dataset, &work, (cores, &task.workers))?;
    if task.tries_alone {
        let about_s = work.step(most, batch).alone_s() / share.min(1.0);
        work.alone_s = alone::round_s(&settings.file, dataset, about_s);
    }
    let watts = Watts::of_board(std::path::Path::new("/"));
    Ok(HostFigures {
        name: String::new(),
        machine: machine_id(),
        cores,
        allowance: if is_held_back { share } else { cores as f64 },
        hold_s: if is_held_back { hold_s } else { 0.0 },
        memory_mb: None,
        power: watts.map(|watts| Power { watts, label: EnergyLabel::Modelled }),
        work,
        link: LOOPBACK,
        in_rounds: InRounds::default(),
    })
}

/// What a link carries between two processes of a machine, and takes of a processor like those of 2026; until it is
/// measured.
const LOOPBACK: LinkFigures = LinkFigures {
    up: 1e9,
    down: 1e9,
    burst: 0.0,
    latency_s: 50e-6,
    wake_s: 0.0,
    rest_s: 0.0,
    send: FrameFigures { frame_s: 10e-6, byte_s: 0.5e-9 },
    receive: FrameFigures { frame_s: 10e-6, byte_s: 0.6e-9 },
};

/// The settings of a run with one worker here, and perhaps another batch size.
pub(super) fn settings(text: &str, batch: Option<usize>) -> Result<Settings> {
    let set: Vec<String> = batch.iter().map(|batch| format!("batch_size={batch}")).collect();
    let settings = Settings::read("the run file", text, &Overrides { set: &set, ..Overrides::default() }, 1)?;
    let alone = [("arch", "single".to_owned()), ("workers", "1".to_owned())];
    let mut settings = crate::plan::edited(&settings, text, &alone)?;
    if let Some(batch) = batch {
        settings.file.batch_size = batch;
    }
    Ok(settings)
}

pub(super) fn trainer(settings: &Settings, dataset: &Dataset, threads: usize) -> Result<Trainer> {
    Trainer::new(settings, dataset, build_worker(settings, dataset, threads)?, dataset.train.len())
}

/// The gradient of a batch.
fn step(text: &str, dataset: &Dataset, (threads, batch): (usize, usize), share: f64) -> Result<StepFigures> {
    let settings = settings(text, Some(batch))?;
    let mut trainer = trainer(&settings, dataset, threads)?;
    let units = (dataset.train.len() / batch).max(1);
    ensure!(trainer.has(&Unit { epoch: 0, index: 0 }.into()), "there are no data to measure with");
    // The first two make room for the others.
    for index in [0, 1 % units] {
        trainer.compute(Unit { epoch: 0, index: index as u32 })?;
    }
    let mut times: Vec<(usize, f64)> = Vec::new();
    let mut widths = Vec::new();
    let mut profiles: Vec<Vec<(usize, f64)>> = Vec::new();
    let watch = Watch::start();
    while times.len() < STEPS.0 || (watch.wall_s() < STEPS_FOR.as_secs_f64() && times.len() < STEPS.1) {
        let index = times.len() % units;
        let (one, began) = (Watch::start(), Instant::now());
        let mut profile = Vec::new();
        trainer.compute_by_layers(Unit { epoch: 0, index: index as u32 }, &mut |_, _, from| {
            profile.push((from, began.elapsed().as_secs_f64()));
        })?;
        let whole = began.elapsed().as_secs_f64();
        profile.iter_mut().for_each(|(_, at)| *at /= whole);
        profiles.push(profile);
        times.push((index, one.core_s()));
        widths.push(times[times.len() - 1].1 / whole);
    }
    let core_s = middle(&times, units);
    // Those that were disturbed the least.
    widths.sort_by(f64::total_cmp);
    let width = (widths[widths.len() * 3 / 4] / share).clamp(0.5, threads as f64);
    Ok(StepFigures {
        threads,
        batch,
        work: Work { core_s, width },
        settled: mean_profile(&profiles),
        spread: spread(&times, units),
    })
}

/// The mean over the units, of each of which the median counts.
fn middle(times: &[(usize, f64)], units: usize) -> f64 {
    let medians: Vec<f64> = (0..units).filter_map(|unit| median(times, unit)).collect();
    medians.iter().sum::<f64>() / medians.len().max(1) as f64
}

fn median(times: &[(usize, f64)], unit: usize) -> Option<f64> {
    let mut of: Vec<f64> = times.iter().filter(|(index, _)| *index == unit).map(|(_, time)| *time).collect();
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied()
}

/// So many values tell how steps differ.
const SPREAD: usize = 16;

/// How steps of the same unit differ, as parts of their mean: batches that differ are not it, for they are as long for
/// all workers of a round.
fn spread(times: &[(usize, f64)], units: usize) -> Vec<f64> {
    let medians: Vec<Option<f64>> = (0..units).map(|unit| median(times, unit)).collect();
    let mut parts: Vec<f64> = times
        .iter()
        .filter_map(|(unit, time)| Some(time / medians[*unit]?))
        .filter(|part| part.is_finite())
        .collect();
    parts.sort_by(f64::total_cmp);
    let at = |i: usize| parts[(i * parts.len() + parts.len() / 2) / SPREAD];
    let some: Vec<f64> = (0..SPREAD.min(parts.len())).map(at).collect();
    let mean = some.iter().sum::<f64>() / some.len().max(1) as f64;
    some.into_iter().map(|part| part / mean).collect()
}

fn mean_profile(profiles: &[Vec<(usize, f64)>]) -> Vec<(usize, f64)> {
    let Some(first) = profiles.first() else { return Vec::new() };
    let alike: Vec<&Vec<(usize, f64)>> =
        profiles.iter().filter(|profile| profile.len() == first.len()).collect();
    let mean = |place: usize| alike.iter().map(|profile| profile[place].1).sum::<f64>() / alike.len() as f64;
    first.iter().enumerate().map(|(place, &(from, _))| (from, mean(place))).collect()
}

/// How long something small is measured, and in how many parts: of them the least disturbed tells on how many cores.
const TIMED_FOR: Duration = Duration::from_millis(80);
const TIMED_PARTS: u32 = 8;

/// The work of something that can be done again and again.
pub(super) fn timed(share: f64, threads: usize, mut act: impl FnMut()) -> Work {
    act();
    let (mut all_s, mut times, mut width) = (0.0, 0, 0.0_f64);
    for _ in 0..TIMED_PARTS {
        let watch = Watch::start();
        while times == 0 || watch.wall_s() < (TIMED_FOR / TIMED_PARTS).as_secs_f64() {
            act();
            times += 1;
        }
        let core_s = watch.core_s();
        all_s += core_s;
        width = width.max(core_s / watch.wall_s());
    }
    Work { core_s: all_s / f64::from(times), width: (width / share).clamp(0.5, threads as f64) }
}

/// So many hand-overs are measured.
const HOPS: usize = 200;

/// Until a thread of the worker's pool, which sleeps, has done nothing for this one: where nobody else is at work, so a
/// quick one of many.
fn hop_s(trainer: &Trainer) -> f64 {
    let hop = |_| {
        thread::sleep(Duration::from_micros(300));
        let started = Instant::now();
        trainer.pool.install(|| ());
        started.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = (0..HOPS).map(hop).collect();
    times.sort_by(f64::total_cmp);
    times[HOPS / 4]
}

/// What follows local steps: how far a member went, and the step of all.
fn together(text: &str, trainer: &mut Trainer, (share, threads): (f64, usize)) -> Result<Work> {
    let keys = [("arch", "allreduce"), ("allreduce", "{num_workers: 4}"), ("local_steps", "8")];
    let keys: Vec<_> = keys.into_iter().map(|(key, value)| (key, value.to_owned())).collect();
    let settings = crate::plan::edited(&settings(text, None)?, text, &keys);
    // A run that refuses local steps needs no figure of them.
    let Ok(settings) = settings.context("local steps") else { return Ok(Work::default()) };
    trainer.replica = Replica::of(&settings, &trainer.layout().clone());
    let mut apart = Apart::of(&settings);
    Ok(timed(share, threads, || {
        apart.begin(&mut trainer.replica);
        apart.weight = 1.0;
        apart.end(trainer);
        trainer.step_together();
    }))
}

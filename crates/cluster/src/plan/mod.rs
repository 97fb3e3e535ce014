//! What a run would take on a pool of hosts, by every strategy and number of them that makes sense.
//!
//! [`figures`] says what the hosts are: measured by [`gauge`](crate::bench::gauge), held against real rounds by
//! [`calibrate()`], or [`described()`]. A `Candidate` is
//! one way of running the run; its `Forecast` comes of a simulated `world`, in which the processes of a `group` or
//! `server` go through some rounds: what each does is its `script`, and what they send each other is the `traffic`.
//! Nothing is computed there, and frames are sizes.

pub mod advice;
mod alike;
mod calibrate;
mod candidate;
mod described;
mod edit;
pub mod figures;
mod forecast;
mod group;
mod group_server;
mod memory;
mod processor;
#[cfg(test)]
mod sample;
mod script;
mod server;
mod sharing;
#[cfg(test)]
mod tests;
mod traffic;
mod world;

use anyhow::{Result, ensure};
use bonfire_data::Dataset;
use bonfire_learn::Layout;
use bonfire_run::run_file::Settings;
use rayon::prelude::*;

pub use alike::even_out;
pub(crate) use alike::middle;
pub use calibrate::{calibrate, frame_figures, trial_parts};
pub use candidate::{Candidate, name, rank_of_factors};
pub use described::{check_described, described};
pub use forecast::{Forecast, ForecastLine};

use crate::roles::head::balance::grain;
use figures::{HostFigures, Pool};
use traffic::Traffic;

/// A run that is to be planned.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub settings: &'a Settings,
    /// The run file.
    pub text: &'a str,
    pub dataset: &'a Dataset,
    pub layout: &'a Layout,
}

/// Every candidate with its forecast.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The fastest first.
    pub forecasts: Vec<Forecast>,
    /// Which of them to take.
    pub best: usize,
    /// What was left out because memory is too short for it, in words.
    pub left_out: Vec<String>,
}

/// What changes what is learnt has to save so much of the time.
const LEAST_GAIN: f64 = 0.05;

impl Plan {
    /// Forecasts every candidate.
    ///
    /// # Errors
    /// When there are no hosts.
    pub fn make(question: &Question<'_>, pool: &Pool) -> Result<Self> {
        ensure!(!pool.hosts.is_empty(), "the pool has no hosts");
        let samples = question.dataset.train.len();
        let (fastest, mut left_out) = memory::able(fastest(question, &pool.hosts), &pool.hosts);
        ensure!(!fastest.is_empty(), "no host has the memory for this run: {}", left_out.join("; "));
        let mut candidates = candidate::candidates(question.settings, question.text, samples, &fastest);
        // Where some do not fit, more do not either.
        let misfit = |candidate: &Candidate| memory::misfit(candidate, &pool.hosts);
        left_out.extend(candidates.iter().filter_map(misfit).min().map(|(_, why)| why));
        candidates.retain(|candidate| misfit(candidate).is_none());
        Ok(Self { left_out, ..Self::among(question, &pool.hosts, &candidates)? })
    }

    /// Forecasts some candidates.
    fn among(question: &Question<'_>, hosts: &[HostFigures], candidates: &[Candidate]) -> Result<Self> {
        let forecast = |candidate: &Candidate| {
            let mut settings = candidate.settings(question.settings, question.text)?;
            settings.share_by_speed();
            let mut traffic = question.traffic();
            let (samples, grain) = (question.dataset.train.len(), grain(&question.dataset.shape));
            Ok(forecast::forecast(candidate, &settings, hosts, (&mut traffic, samples, grain)))
        };
        let mut forecasts: Vec<Forecast> = candidates.par_iter().map(forecast).collect::<Result<_>>()?;
        forecasts.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let best = best(&forecasts);
        Ok(Self { forecasts, best, left_out: Vec::new() })
    }

    pub fn best(&self) -> &Forecast {
        &self.forecasts[self.best]
    }
}

impl Question<'_> {
    fn traffic(&self) -> Traffic<'_> {
        let file = &self.settings.file;
        let rows_move_for = file.optimizer.steps_of_momentum();
        Traffic::new(self.layout, self.dataset, (file.batch_size, file.seed), rows_move_for)
    }
}

/// The settings of a run with other keys for who exchanges with whom.
pub(crate) fn edited(
    settings: &Settings,
    text: &str,
    keys: &[(&'static str, String)],
) -> Result<Settings, bonfire_yaml::YamlError> {
    let text = edit::with_keys(settings, text, keys)?;
    Settings::read("plan", &text, &bonfire_run::Overrides::default(), 1)
}

/// The fastest that changes nothing of what is learnt, unless one that does is faster by more than a little.
fn best(forecasts: &[Forecast]) -> usize {
    let exact = forecasts.iter().position(|forecast| !forecast.candidate.is_lossy()).unwrap_or(0);
    let is_much = forecasts[0].seconds < forecasts[exact].seconds * (1.0 - LEAST_GAIN);
    if is_much { 0 } else { exact }
}

/// All hosts, those first with which a round of two would be the shortest.
fn fastest(question: &Question<'_>, hosts: &[HostFigures]) -> Vec<usize> {
    let file = &question.settings.file;
    let bytes = question.layout.len() as f64 * 4.0;
    let seconds = |host: &HostFigures| {
        let step = host.work.step(file.threads_on(host.cores, 1), file.batch_size);
        let computing = step.core_s / step.width.min(host.allowance);
        computing + bytes / host.link.up.min(host.link.down)
    };
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    // Hosts that are about as fast stay in the order in which they were given.
    let rank = |host: usize| (seconds(&hosts[host]).max(1e-9).ln() / 1.1_f64.ln()).round() as i64;
    order.sort_by_key(|&host| rank(host));
    order
}

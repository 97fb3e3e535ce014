//! How large a part of every round each worker has: kept by the head, by what their rounds took.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use bonfire_learn::Shape;
use bonfire_report::{Event, ShareLine};
use bonfire_run::run::Run;
use bonfire_run::run_file::ShareRule;
use bonfire_strategy::Balancer;
use bonfire_strategy::shares::{Rule, Took, When};
use bonfire_wire::proto;

use super::super::claim::seconds;
use super::super::registry::{Node, Role};
use super::Head;
use super::group::choosing::is_one_machine;

/// The shares of the workers of a run.
#[derive(Debug)]
pub(crate) struct Balance {
    /// None where all have equal shares for good.
    balancer: Option<Balancer>,
    /// What is known of workers by their names: what the run file says, or the shares that they had.
    weights: BTreeMap<String, f64>,
    /// Whether the run file says it, of all.
    is_named: bool,
    /// Whether the run file says nothing. Workers on one machine then have equal shares, and so the same bits always.
    is_unasked: bool,
    /// Of a sample.
    mean_words: f64,
    /// For rounds of one step.
    rule: Rule,
    /// How many steps a round has for a worker, if all make as many. Shares are in samples where it is one, else in
    /// steps.
    steps: u64,
}

/// What a worker says of a round.
pub(crate) struct Told {
    pub tally: proto::Tally,
    pub busy_s: f64,
    pub compute_s: f64,
    /// 0 if it cannot tell.
    pub most_samples: u32,
}

/// Kernels of small nets have so many samples in their lanes; of texts a few are as good as many.
const IMAGES: u32 = 16;
const TEXTS: u32 = 4;

/// Shares are multiples of so many samples.
pub(crate) fn grain(shape: &Shape) -> u32 {
    if matches!(shape, Shape::Images { .. }) { IMAGES } else { TEXTS }
}

/// The rule for rounds of so many steps: a share is so many of them, or of samples where each makes but one.
pub(crate) fn rule_for(steps: u64, rule: Rule) -> Rule {
    match u32::try_from(steps).unwrap_or(u32::MAX) {
        1 => rule,
        steps => Rule { batch: steps, grain: 1, ..rule },
    }
}

impl Balance {
    pub(crate) fn of(run: &Run) -> Self {
        let (settings, dataset) = (&run.job.settings, &run.job.dataset);
        let samples = dataset.train.len();
        let words: usize = (0..samples).map(|sample| dataset.train.length(sample)).sum();
        let rule = Rule {
            batch: settings.file.batch_size.min(samples / settings.workers.max(1)).max(1) as u32,
            grain: grain(&dataset.shape),
            when: match &settings.shares {
                ShareRule::Equal | ShareRule::Named(_) => When::Never,
                ShareRule::Auto => When::Drift,
                ShareRule::Once => When::Once,
                ShareRule::Every(epochs) => When::Every(*epochs),
            },
        };
        let steps = run.job.schedule.pace.steps_in(run.progress.round + 1);
        let is_equal = settings.shares == ShareRule::Equal;
        let balancer = (!is_equal).then(|| Balancer::new(rule_for(steps, rule)));
        let (weights, is_named) = match &settings.shares {
            ShareRule::Named(weights) => (weights.clone(), true),
            _ => {
                let had = run.progress.shares.iter().filter(|(_, share)| **share > 0);
                (had.map(|(name, share)| (name.clone(), f64::from(*share))).collect(), false)
            }
        };
        let is_unasked = settings.file.shares.is_none() && settings.file.dynamic.is_none();
        let mean_words = words as f64 / samples.max(1) as f64;
        Self { balancer, weights, is_named, is_unasked, mean_words, rule, steps }
    }

    /// How many samples one of a share is, in a round of so many steps.
    fn samples_of_one(&self, steps: u64) -> u32 {
        if steps > 1 { self.rule.batch } else { 1 }
    }

    /// How large the shares of these workers are, beside each other; none if all have as much.
    pub(crate) fn shares(&self, workers: &[u64]) -> Option<Vec<u32>> {
        let balancer = self.balancer.as_ref()?;
        let shares: Vec<u32> = workers.iter().map(|&worker| balancer.share(worker)).collect();
        let differ = shares.iter().any(|share| *share != shares[0]);
        differ.then_some(shares)
    }
}

impl Head<'_> {
    /// Whoever the run file gives a share must be one of the workers.
    pub(super) fn check_names(&self) -> Result<()> {
        let ShareRule::Named(weights) = &self.run.job.settings.shares else { return Ok(()) };
        let works = |node: &&Node| matches!(node.role, Some(Role::Worker { .. } | Role::GroupMember { .. }));
        let names: BTreeSet<&str> =
            self.registry.nodes().filter(works).map(|node| node.name.as_str()).collect();
        // One that is resumed may have lost some.
        match weights.keys().find(|name| !names.contains(name.as_str()) && !self.run.is_resumed) {
            Some(name) => {
                let names: Vec<&str> = names.into_iter().collect();
                let message = format!("{name} is no worker of this run: those are {}", names.join(", "));
                Err(self.run.job.settings.wrong(&format!("shares.{name}"), message).into())
            }
            None => Ok(()),
        }
    }

    /// Shares are in another measure from the round on from which workers make several steps by themselves. All that is
    /// known of them stays in proportion.
    fn measure_shares(&mut self, round: u64) {
        let pace = self.run.job.schedule.pace;
        let (steps, balance) = (pace.steps_in(round + 1), &mut self.balance);
        let before = std::mem::replace(&mut balance.steps, steps);
        let Some(balancer) = balance.balancer.as_mut().filter(|_| steps != before) else { return };
        let scale = |share: f64| share * steps as f64 / before as f64;
        if !balance.is_named {
            balance.weights.values_mut().for_each(|weight| *weight = scale(*weight));
        }
        let progress = &mut self.run.progress.shares;
        progress.values_mut().for_each(|share| *share = scale(f64::from(*share)) as u32);
        let since = if steps > 1 { pace.after.min(round) } else { round };
        balancer.measure_anew(rule_for(steps, balance.rule), since);
        let workers: Vec<u64> = balancer.workers().collect();
        if self.balance.shares(&workers).is_some() {
            let each = if steps > 1 { format!("{steps} steps a worker") } else { "one step".to_owned() };
            self.tell_shares(&workers, round, format!("as before, in rounds of {each}"));
        }
    }

    /// These workers go on together after a round.
    pub(super) fn share_out(&mut self, workers: &[u64], round: u64) {
        self.measure_shares(round);
        let is_as_before = |balancer: &Balancer| balancer.is_of(workers);
        let nodes = workers.iter().filter_map(|&worker| self.registry.get(worker));
        if self.balance.balancer.as_ref().is_none_or(is_as_before)
            || self.balance.is_unasked && is_one_machine(nodes)
        {
            return;
        }
        let one = f64::from(self.balance.samples_of_one(self.balance.steps));
        let weight = |name: &str| match (self.balance.weights.get(name), self.balance.is_named) {
            (weight, true) => Some(weight.copied().unwrap_or(1.0)),
            (weight, false) => weight.map(|weight| weight / one),
        };
        let weights: Vec<_> = workers.iter().map(|&worker| (worker, weight(&self.name(worker)))).collect();
        let Some(balancer) = &mut self.balance.balancer else { return };
        let before: Vec<u32> = workers.iter().map(|&worker| balancer.share(worker)).collect();
        balancer.form(&weights, round);
        let after: Vec<u32> = workers.iter().map(|&worker| balancer.share(worker)).collect();
        if before != after {
            let reason = match self.balance.is_named {
                true => "as the run file says",
                false => "as before, among those who are there",
            };
            self.tell_shares(workers, round, reason.to_owned());
        }
    }

    /// A worker has done its part of a round.
    pub(super) fn took(&mut self, worker: u64, round: u64, told: &Told) {
        let steps = self.run.job.schedule.pace.steps_in(round);
        let one = f64::from(self.balance.samples_of_one(steps));
        let Some(balancer) = &mut self.balance.balancer else { return };
        let busy_s = seconds(told.busy_s);
        let samples = told.tally.words as f64 / self.balance.mean_words.max(1e-9) / one;
        let fixed_s = busy_s - seconds(told.compute_s);
        balancer.took(worker, Took { round, samples, seconds: busy_s, fixed_s });
        if told.most_samples > 0 {
            balancer.bound(worker, told.most_samples);
        }
    }

    /// All have done a round, which ended so many epochs. Whether shares are others after it; that is said.
    pub(super) fn rebalance(&mut self, round: u64, epochs: usize) -> bool {
        self.measure_shares(round);
        let Some(balancer) = &mut self.balance.balancer else { return false };
        let Some(change) = balancer.round_done(round, epochs as u64) else { return false };
        let workers: Vec<u64> = change.moves.iter().map(|it| it.worker).collect();
        let mut reason = change.reason(|worker| self.name(worker));
        let too_slow = change.too_slow().and_then(|worker| self.registry.get(worker));
        if too_slow.is_some_and(|node| node.is_resident) {
            reason.push_str(
                "; the head is there, too: `bonfire run --place fastest` has it on the quickest host",
            );
        }
        self.tell_shares(&workers, round, reason);
        true
    }

    /// Says what the shares are; they are in the checkpoints from now on.
    fn tell_shares(&mut self, workers: &[u64], round: u64, reason: String) {
        let Some(balancer) = &self.balance.balancer else { return };
        let one = self.balance.samples_of_one(self.balance.steps);
        let samples = |node| balancer.share(node).saturating_mul(one);
        let line = |&node: &u64| ShareLine { node, name: self.name(node), samples: samples(node) };
        let shares: Vec<ShareLine> = workers.iter().map(line).collect();
        let named = shares.iter().map(|line| (line.name.clone(), line.samples));
        let progress = &mut self.run.progress.shares;
        progress.extend(named);
        if !self.balance.is_named {
            let had = progress.iter().filter(|(_, share)| **share > 0);
            self.balance.weights = had.map(|(name, share)| (name.clone(), f64::from(*share))).collect();
        }
        self.run.tell(Event::Shares { round, shares, reason });
    }
}

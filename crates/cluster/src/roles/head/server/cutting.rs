//! Units as unequal as the shares of those who compute them.

use std::collections::BTreeMap;

use bonfire_data::Cut;
use bonfire_run::run_file::Distribute;
use bonfire_strategy::Unit;
use bonfire_wire::proto;

use super::super::super::registry::{Node, Role};
use super::super::balance::Told;
use super::Serving;

/// What a member is to do.
pub(super) struct Release {
    pub member: u64,
    pub order: u64,
    pub version: u64,
    pub units: Vec<Unit>,
}

impl Serving<'_, '_> {
    /// Sends members to work: after an update, which ended so many epochs, by the shares that then hold.
    pub(super) fn release_all(&mut self, releases: Vec<Release>, ended: Option<usize>) {
        let version = self.server.version();
        if let Some(epochs) = ended {
            self.head.rebalance(version, epochs);
        }
        if !releases.is_empty() {
            let works = |node: &&Node| matches!(node.role, Some(Role::Worker { .. }));
            let workers = self.head.registry.nodes().filter(works).map(|node| node.number);
            let workers: Vec<u64> = workers.filter(|node| !self.behind.contains_key(node)).collect();
            self.head.share_out(&workers, version);
            self.cut(&releases);
        }
        for Release { member, order, version, units } in releases {
            self.release(member, order, version, units);
        }
    }

    /// The units that are dealt for the first time are put together and dealt out by shares: each is then a part, and
    /// stays it until it is done, whoever does it in the end. Epochs are not mixed.
    fn cut(&mut self, releases: &[Release]) {
        let units_per_epoch = self.head.run.job.schedule.units_per_epoch() as u32;
        let mut fresh: BTreeMap<u64, Vec<(Unit, u64)>> = BTreeMap::new();
        let before = self.dealt;
        for release in releases {
            let workers = self.workers_for(release);
            for (&unit, worker) in release.units.iter().zip(workers) {
                if unit.place(units_per_epoch) < before {
                    continue;
                }
                fresh.entry(unit.epoch).or_default().push((unit, worker));
                self.dealt = self.dealt.max(unit.place(units_per_epoch) + 1);
            }
        }
        for units in fresh.into_values() {
            let workers: Vec<u64> = units.iter().map(|(_, worker)| *worker).collect();
            let Some(shares) = self.head.balance.shares(&workers) else { continue };
            let first = units[0].0.index;
            for (place, (unit, _)) in (0..).zip(units) {
                self.cuts.insert(unit, Cut { first, place, shares: shares.clone() });
            }
        }
    }

    /// Who will compute the units of a release. A relay deals them out to its workers in the order of their numbers; if
    /// it has others than the head knows of, somebody has another's part for once.
    fn workers_for(&self, release: &Release) -> Vec<u64> {
        let relay = Some(release.member);
        let is_its = |node: &&Node| matches!(node.role, Some(Role::Worker { relay: at, .. }) if at == relay);
        let mut workers: Vec<u64> =
            self.head.registry.nodes().filter(is_its).map(|node| node.number).collect();
        workers.sort_unstable();
        workers.resize(release.units.len(), release.member);
        workers
    }

    /// What the workers of a relay have done, by its own word.
    pub(super) fn took_parts(&mut self, parts: &[proto::Part]) {
        let round = self.server.version() + 1;
        for part in parts.iter().filter(|part| part.samples > 0) {
            let &proto::Part { node, samples, words, busy_s, compute_s, most_samples, .. } = part;
            let tally = proto::Tally { samples, words, ..proto::Tally::default() };
            self.head.took(node, round, &Told { tally, busy_s, compute_s, most_samples });
        }
    }

    /// How many samples a unit has.
    pub(super) fn samples_in(&self, unit: Unit) -> u64 {
        self.head.run.job.schedule.samples_in(unit.index, self.cuts.get(&unit))
    }

    /// No more samples can be in a unit, whoever computes it. How many there are in those of nodes with data of their
    /// own, only they know.
    pub(super) fn most_in(&self, unit: Unit) -> u64 {
        let settings = &self.head.run.job.settings;
        match settings.file.distribute {
            Distribute::Own => settings.most_samples() as u64,
            Distribute::Local | Distribute::Ship => self.samples_in(unit),
        }
    }

    /// How many samples of which epochs some units have.
    pub(super) fn samples_by_epoch(&self, units: &[Unit]) -> Vec<(u64, u64)> {
        let mut samples = BTreeMap::new();
        for &unit in units {
            *samples.entry(unit.epoch).or_default() += self.samples_in(unit);
        }
        samples.into_iter().collect()
    }

    /// What was dealt and is not done, for the checkpoints.
    pub(super) fn keep_open(&mut self, open: &[Unit]) {
        let progress = &mut self.head.run.progress;
        progress.open = open.iter().map(|unit| (unit.epoch, unit.index)).collect();
        let cut = |unit: &Unit| Some((unit.epoch, unit.index, self.cuts.get(unit)?.clone()));
        progress.cuts = open.iter().filter_map(cut).collect();
    }
}

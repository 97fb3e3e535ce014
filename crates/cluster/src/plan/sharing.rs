//! How the workers of a candidate share out the samples of a round: by the balancer that a head has, which is told what
//! simulated rounds took.

use bonfire_run::run_file::ShareRule;
use bonfire_strategy::Balancer;
use bonfire_strategy::shares::{FIRST_CHECKS, Rule, Took, When};

use super::forecast::{Played, Scene};
use crate::roles::head::balance::rule_for;

impl Scene<'_> {
    /// Plays rounds until shares stay as they are, and once more with these.
    pub(super) fn settle(&mut self, grain: u32) -> Played {
        let workers = self.workers();
        let when = match self.settings.shares {
            ShareRule::Equal => return self.play(),
            ShareRule::Named(_) => When::Never,
            ShareRule::Auto | ShareRule::Once | ShareRule::Every(_) => When::Drift,
        };
        let mut balancer = Balancer::new(self.rule(grain, when));
        let weights: Vec<_> = (0..workers).map(|worker| (worker as u64, self.weight(worker))).collect();
        balancer.form(&weights, 0);
        self.take_shares(&balancer);
        let mut played = self.play();
        let mut round = 0;
        for check in FIRST_CHECKS {
            while round < check {
                round += 1;
                (0..workers)
                    .for_each(|worker| balancer.took(worker as u64, self.took(worker, round, &played)));
            }
            if balancer.round_done(round, 0).is_some() {
                self.take_shares(&balancer);
                played = self.play();
            }
        }
        played
    }

    /// As heads have it: a share is of the steps of a round, where there are several.
    fn rule(&self, grain: u32, when: When) -> Rule {
        let batch = self.settings.file.batch_size as u32;
        rule_for(self.local_steps(), Rule { batch, grain, when })
    }

    /// How many samples one of a share is.
    fn samples_of_one(&self) -> usize {
        if self.local_steps() > 1 { self.settings.file.batch_size } else { 1 }
    }

    /// What the run file gives a worker, if it names shares.
    fn weight(&self, worker: usize) -> Option<f64> {
        let ShareRule::Named(weights) = &self.settings.shares else { return None };
        let name = &self.hosts[self.processes[worker]].name;
        Some(weights.get(name).copied().unwrap_or(1.0))
    }

    fn take_shares(&mut self, balancer: &Balancer) {
        let share = |worker: usize| balancer.share(worker as u64) as usize * self.samples_of_one();
        self.shares = (0..self.workers()).map(share).collect();
    }

    /// What a worker would tell of a round: what its links take of the processor while it waits is no waiting.
    fn took(&self, worker: usize, round: u64, played: &Played) -> Took {
        let (host, share) = (self.processes[worker], self.shares[worker]);
        let (batch, steps) = self.steps(worker);
        let step = self.hosts[host].work.step(self.threads(host), batch);
        let rate = step.width.min(self.hosts[host].allowance);
        let steps_s = steps.unwrap_or(1) as f64 * step.core_s / rate;
        let there = self.processes[..self.workers()].iter().filter(|&&other| other == host).count();
        let cores = self.hosts[host].cores as f64 / there as f64;
        let used_s = played.utilisation[host] * cores * played.round_s / rate;
        let busy = played.busy[worker];
        let seconds = used_s.clamp(busy, played.round_s.max(busy));
        let samples = share as f64 / self.samples_of_one() as f64;
        Took { round, samples, seconds, fixed_s: (seconds - steps_s).max(0.0) }
    }
}

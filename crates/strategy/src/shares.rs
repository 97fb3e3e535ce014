//! Which part of every round each worker computes, so that all finish together.

use std::collections::BTreeMap;

mod change;
mod cost;
mod drift;
mod split;
#[cfg(test)]
mod tests;

use crate::keyed;
pub use change::{Change, Held, Move, Why};
pub use cost::Took;
use cost::{Cost, Times};
use drift::{Promise, Window};
pub use split::whole_steps;
use split::{Bounds, by_weights, equal_finish, last_finish};

/// How shares follow the times of rounds. Where workers make several steps a round, each of the same batch, shares are
/// counted in steps instead of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Of a worker, if all have as much: the shares of n workers are together n times that, always.
    pub batch: u32,
    /// Shares are whole multiples of that, where the batch allows it: kernels that have samples in their lanes take as
    /// long for 17 of them as for 32.
    pub grain: u32,
    pub when: When,
}

impl Rule {
    /// Small batches have smaller grains, so that shares can follow.
    fn grain(&self) -> u32 {
        let most = 1 << (self.batch / 4).max(1).ilog2().min(16);
        self.grain.clamp(1, most)
    }
}

/// When shares may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Never,
    /// After rounds 5, 10 and 20, and when times drift.
    Drift,
    /// After the first epoch.
    Once,
    /// After every so many epochs.
    Every(u64),
}

/// The shares of some workers, and what their rounds took.
#[derive(Clone, Debug)]
pub struct Balancer {
    rule: Rule,
    workers: BTreeMap<u64, Sharer>,
    /// The last round before these workers began together.
    begin: u64,
    /// The last round before the shares were as they are.
    moved: u64,
    /// How often they moved since these workers began together, or times changed suddenly.
    moves: u32,
    /// How many rounds after the beginning shares were looked at last.
    checked: u64,
    /// Since the first checks only every so many-th round counts.
    stride: u64,
    /// What the last move was to gain, if it is still to be seen whether it does.
    promise: Option<Promise>,
    /// How many moves in turn have not gained what they were to gain.
    doubts: u32,
    /// How many epochs have ended.
    epochs: u64,
}

#[derive(Clone, Debug, Default)]
struct Sharer {
    /// In samples.
    share: u32,
    times: Times,
    /// How many samples its memory is for.
    most: Option<u32>,
    /// By how many samples its share changed last.
    last: i64,
    /// What its first rounds with this share took.
    usual_s: Option<f64>,
    rest: Option<Rest>,
}

/// A worker that is too slow to help.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// The round after which it is tried again.
    until: u64,
    rounds: u64,
}

/// After so many rounds shares are looked at first.
pub const FIRST_CHECKS: [u64; 3] = [5, 10, 20];

/// What is not gained by that is not worth a move.
const LEAST_GAIN: f64 = 0.05;

/// What would take back a move of so many rounds before goes half as far. At the end of epochs so many rounds tell.
const MANY: u64 = 40;

/// A worker rests only if the others gain that much by it.
const LEAST_GAIN_BY_REST: f64 = 0.15;

/// Who takes this part of the time of another is as slow.
const AS_SLOW: f64 = 0.9;

/// And a gain has to be so many times what may be wrong about it: less at first, when shares are just equal.
const FIRST_SURENESS: f64 = 2.5;
const SURENESS: f64 = 3.5;

/// A few rounds tell badly how much rounds vary: of so many, a gain must be twice as sure.
const FEW_TELL: f64 = 4.0;

/// After so many rounds of rest a worker is tried again, of short ones after more; each time after twice as many.
const REST: u64 = 200;
const LEAST_REST_S: f64 = 60.0;
const MOST_REST: f64 = 20_000.0;

/// The first round warms up.
const WARM_UP: u64 = 1;

impl Balancer {
    pub fn new(rule: Rule) -> Self {
        assert!(rule.batch > 0, "a worker has at least one sample");
        Self {
            rule,
            workers: BTreeMap::new(),
            begin: 0,
            moved: 0,
            moves: 0,
            checked: 0,
            stride: 1,
            promise: None,
            doubts: 0,
            epochs: 0,
        }
    }

    /// These workers go on together after `round`, each new one with a weight if it is known how fast it is beside the
    /// others. Whoever was there keeps its share as far as the number of workers allows.
    pub fn form(&mut self, workers: &[(u64, Option<f64>)], round: u64) {
        if self.is_of(&workers.iter().map(|(worker, _)| *worker).collect::<Vec<_>>()) {
            return;
        }
        let usual = f64::from(self.rule.batch);
        let mut formed = BTreeMap::new();
        for (worker, weight) in workers {
            let sharer = self.workers.remove(worker).unwrap_or_default();
            let weight = weight.or((sharer.share > 0).then_some(f64::from(sharer.share)));
            formed.insert(*worker, (weight.unwrap_or(usual), sharer));
        }
        let weights: Vec<f64> = formed.values().map(|(weight, _)| *weight).collect();
        let shares = by_weights(&weights, self.samples_of(formed.len()));
        let sharers = formed.into_iter().zip(shares);
        self.workers =
            keyed::map(sharers.map(|((worker, (_, sharer)), share)| {
                (worker, Sharer { share, last: 0, rest: None, ..sharer })
            }));
        self.begin_anew(round);
    }

    fn begin_anew(&mut self, round: u64) {
        (self.begin, self.moved, self.checked) = (round, round, 0);
        (self.moves, self.stride) = (0, 1);
        (self.promise, self.doubts) = (None, 0);
        self.workers.values_mut().for_each(|sharer| sharer.usual_s = None);
    }

    /// After `round`, rounds are of another length: `batch` and `grain` of the rule, and so shares, are in another
    /// measure, and what rounds took before tells nothing. Shares keep their proportions as [`whole_steps`] has them.
    pub fn measure_anew(&mut self, rule: Rule, round: u64) {
        self.rule = rule;
        let shares: Vec<u32> = self.workers.values().map(|sharer| sharer.share).collect();
        let shares = whole_steps(&shares, self.samples_of(shares.len()));
        for (sharer, share) in self.workers.values_mut().zip(shares) {
            (sharer.share, sharer.most, sharer.last) = (share, None, 0);
            sharer.times.forget_up_to(round);
        }
        self.begin_anew(round);
    }

    /// Who goes on together.
    pub fn workers(&self) -> impl Iterator<Item = u64> {
        self.workers.keys().copied()
    }

    /// Whether it is these workers that go on together.
    pub fn is_of(&self, workers: &[u64]) -> bool {
        workers.len() == self.workers.len() && workers.iter().all(|worker| self.workers.contains_key(worker))
    }

    /// How many samples of a round a worker has; as many as the others if it is not one of these.
    pub fn share(&self, worker: u64) -> u32 {
        self.workers.get(&worker).map_or(self.rule.batch, |sharer| sharer.share)
    }

    /// A worker's memory is for so many samples at a time.
    pub fn bound(&mut self, worker: u64, most: u32) {
        if let Some(sharer) = self.workers.get_mut(&worker) {
            sharer.most = Some(most);
        }
    }

    /// A worker's round took so long.
    pub fn took(&mut self, worker: u64, took: Took) {
        if let Some(sharer) = self.workers.get_mut(&worker).filter(|_| took.round.is_multiple_of(self.stride))
        {
            sharer.times.add(took);
        }
    }

    /// All have done a round, which ended so many epochs: how the shares change after it, if they do. It need not be
    /// said of every round.
    pub fn round_done(&mut self, round: u64, epochs_ended: u64) -> Option<Change> {
        let before = self.epochs;
        self.epochs += epochs_ended;
        let age = round.saturating_sub(self.begin);
        let before_age = std::mem::replace(&mut self.checked, age);
        let is_first = FIRST_CHECKS.iter().any(|check| before_age < *check && *check <= age);
        // Only rounds of the same shares can be held against each other.
        let parts = if self.moves == 0 && age >= FIRST_CHECKS[1] { 2 } else { 1 };
        let least_gain = if self.doubts > 0 { LEAST_GAIN_BY_REST } else { LEAST_GAIN };
        let window = |rounds| Window { rounds, parts, least_gain };
        match self.rule.when {
            When::Once if before == 0 && self.epochs > 0 => self.weigh(round, window(MANY), FIRST_SURENESS),
            When::Every(epochs) if before / epochs.max(1) < self.epochs / epochs.max(1) => {
                self.weigh(round, window(MANY), FIRST_SURENESS)
            }
            When::Drift if is_first => {
                let rounds = age.saturating_sub(WARM_UP);
                let sureness = FIRST_SURENESS * (1.0 + FEW_TELL / rounds.max(1) as f64);
                let change = self.weigh(round, window(rounds), sureness);
                if age >= FIRST_CHECKS[2] {
                    self.stride = self.stride_after(round.saturating_sub(rounds));
                }
                change
            }
            When::Drift if age > FIRST_CHECKS[2] => self.try_again(round).or_else(|| self.follow(round)),
            When::Never | When::Once | When::Every(_) | When::Drift => None,
        }
    }

    /// Gives a worker that has rested for long a grain again.
    fn try_again(&mut self, round: u64) -> Option<Change> {
        let is_over = |sharer: &Sharer| sharer.rest.is_some_and(|rest| rest.until <= round);
        let (&worker, sharer) =
            self.workers.iter().find(|(_, sharer)| sharer.share == 0 && is_over(sharer))?;
        let rounds = sharer.rest.map_or(0, |rest| rest.rounds);
        let (&largest, from) = self.workers.iter().max_by_key(|(_, sharer)| sharer.share)?;
        let grain = self.rule.grain().min(from.share / 2);
        let mut shares = keyed::map(self.workers.iter().map(|(&id, sharer)| (id, sharer.share)));
        *shares.entry(largest).or_default() -= grain;
        shares.insert(worker, grain);
        let seconds = keyed::map(self.workers.keys().map(|&id| (id, 0.0)));
        let change = self.move_to(&shares, &seconds, round, Why::Again { worker, rounds });
        let doubts = self.doubts;
        self.begin_anew(round);
        self.doubts = doubts;
        Some(change)
    }

    /// The best shares by the last rounds, if they are surely better.
    fn weigh(&mut self, round: u64, window: Window, sureness: f64) -> Option<Change> {
        let after = round.saturating_sub(window.rounds * self.stride);
        let mut costs = self.costs_between(after, round)?;
        let now: Vec<u32> = costs.keys().map(|id| self.workers[id].share).collect();
        let list: Vec<Cost> = costs.values().copied().collect();
        let slowest = list.iter().zip(&now).max_by(|a, b| a.0.of(*a.1).total_cmp(&b.0.of(*b.1)))?.0;
        let error = |noise: f64| slowest.error(noise.max(cost::median(list.iter().map(|cost| cost.noise))));
        let Split { shares, too_slow } = self.split(&costs, round);
        let new: Vec<u32> = costs.keys().map(|id| shares[id]).collect();
        let gain_by = |costs: &[Cost]| 1.0 - last_finish(costs, &new) / last_finish(costs, &now);
        let gain = gain_by(&list);
        // A few rounds may happen to be alike: all that are remembered tell better how much they vary.
        if gain <= window.least_gain.max(sureness * error(0.0)) || gain <= sureness * error(self.noise()) {
            return None;
        }
        let part = window.rounds * self.stride / window.parts;
        for number in (0..window.parts).filter(|_| window.parts > 1) {
            let costs = self.costs_between(after + number * part, after + (number + 1) * part)?;
            if gain_by(&costs.into_values().collect::<Vec<_>>()) <= window.least_gain / 2.0 {
                return None;
            }
        }
        let seconds = keyed::map(costs.iter().map(|(&id, cost)| (id, cost.seconds)));
        self.promise = self.longest_after(after).map(|longest_s| Promise {
            before: keyed::map(self.workers.iter().map(|(&id, sharer)| (id, sharer.share))),
            rounds: window.rounds,
            longest_s,
            gain,
        });
        let mut change = self.move_to(&shares, &seconds, round, too_slow.unwrap_or(Why::Apart));
        costs.retain(|id, _| shares[id] > 0);
        let held = last_of(&costs, &shares).filter(|(_, samples, _)| *samples <= self.rule.grain());
        change.held = held.filter(|_| costs.len() > 1).map(|(worker, samples, _)| Held {
            worker,
            samples,
            resting_s: costs[&worker].resting_s(),
        });
        Some(change)
    }

    /// What samples cost those who have some, by the rounds after one up to another; none if these tell it of somebody
    /// not.
    fn costs_between(&self, after: u64, to: u64) -> Option<BTreeMap<u64, Cost>> {
        let mut costs = BTreeMap::new();
        for (&id, sharer) in self.workers.iter().filter(|(_, sharer)| sharer.share > 0) {
            costs.insert(id, sharer.times.cost_between(after, to)?);
        }
        Some(costs)
    }

    /// How much the rounds of most workers vary.
    fn noise(&self) -> f64 {
        let costs = self.workers.values().filter_map(|sharer| sharer.times.cost_after(self.begin + WARM_UP));
        cost::median(costs.map(|cost| cost.noise))
    }

    /// The shares by which those with a cost finish together; the others have none.
    fn split(&self, costs: &BTreeMap<u64, Cost>, round: u64) -> Split {
        let mut working = costs.clone();
        let mut best = self.split_among(&working, round);
        let (mut tried, mut resting_s, mut left) = (best.clone(), 0.0f64, None);
        let mut too_slow = None;
        let noise = cost::median(costs.values().map(|cost| cost.noise));
        // Who is last with a grain alone holds up the others: perhaps they do better without it, and without the next
        // one, who may be as slow.
        while let Some((worker, samples, seconds)) = last_of(&working, &tried)
            && samples <= self.rule.grain()
            && working.len() > 1
        {
            let Some(cost) = working.remove(&worker) else { break };
            let (first, most_s, error) = *left.get_or_insert(((worker, samples), seconds, cost.error(noise)));
            tried = self.split_among(&working, round);
            resting_s = resting_s.max(cost.resting_s());
            let others_s = last_of(&working, &tried).map_or(0.0, |(_, _, seconds)| seconds).max(resting_s);
            if 1.0 - others_s / most_s > LEAST_GAIN_BY_REST.max(SURENESS * error) {
                let (worker, samples) = first;
                too_slow = too_slow.or(Some(Why::TooSlow { worker, samples, seconds: most_s, others_s }));
                (best, left) = (tried.clone(), None);
            } else if others_s < AS_SLOW * most_s {
                break;
            }
        }
        let mut shares = keyed::map(self.workers.keys().map(|&id| (id, 0)));
        shares.extend(best);
        Split { shares, too_slow }
    }

    /// All samples for those with a cost. No share is more than doubled. What would
    /// take back a move that was made not long ago goes half as far: so nothing swings.
    fn split_among(&self, costs: &BTreeMap<u64, Cost>, round: u64) -> BTreeMap<u64, u32> {
        let (samples, grain) = (self.samples_of(self.workers.len()), self.rule.grain());
        let sharers: Vec<&Sharer> = costs.keys().map(|id| &self.workers[id]).collect();
        let list: Vec<Cost> = costs.values().copied().collect();
        let bounds = |sharer: &&Sharer| {
            let most = sharer.share.saturating_mul(2).min(sharer.most.unwrap_or(u32::MAX)).max(grain);
            Bounds { least: grain, most }
        };
        let bounds: Vec<Bounds> = sharers.iter().map(bounds).collect();
        let mut shares = equal_finish(&list, &bounds, samples, grain);
        let moves = sharers.iter().zip(&shares);
        let along: i64 = moves.map(|(it, &new)| it.last * (i64::from(new) - i64::from(it.share))).sum();
        if along < 0 && round < self.moved.saturating_add(MANY) {
            let halfway = |(sharer, (new, bounds)): (&&Sharer, (&u32, &Bounds))| {
                let half = sharer.share.abs_diff(*new).div_ceil(2).next_multiple_of(grain);
                Bounds {
                    least: sharer.share.saturating_sub(half).max(grain).min(bounds.most),
                    most: sharer.share.saturating_add(half).min(bounds.most),
                }
            };
            let halfway: Vec<Bounds> = sharers.iter().zip(shares.iter().zip(&bounds)).map(halfway).collect();
            shares = equal_finish(&list, &halfway, samples, grain);
        }
        keyed::map(costs.keys().copied().zip(shares))
    }

    fn move_to(
        &mut self,
        shares: &BTreeMap<u64, u32>,
        seconds: &BTreeMap<u64, f64>,
        round: u64,
        why: Why,
    ) -> Change {
        self.moved = round;
        self.moves += 1;
        let longest_s = seconds.values().copied().fold(f64::MIN_POSITIVE, f64::max);
        let mut moves = Vec::new();
        for (&worker, sharer) in &mut self.workers {
            let (before, now) = (sharer.share, shares.get(&worker).copied().unwrap_or(0));
            let seconds = seconds.get(&worker).copied().unwrap_or(0.0);
            moves.push(Move { worker, before, now, seconds });
            sharer.share = now;
            sharer.usual_s = None;
            if before != now {
                sharer.last = i64::from(now) - i64::from(before);
            }
            if now == 0 && before > 0 {
                let least = REST.max((LEAST_REST_S / longest_s).min(MOST_REST) as u64);
                let rounds = sharer.rest.map_or(least, |rest| rest.rounds.saturating_mul(2));
                sharer.rest = Some(Rest { until: round.saturating_add(rounds), rounds });
            }
        }
        Change { moves, why, held: None }
    }

    /// How many samples a round of so many workers has.
    fn samples_of(&self, workers: usize) -> u32 {
        self.rule.batch.saturating_mul(workers as u32)
    }
}

/// Shares, and who has none because it is too slow.
struct Split {
    shares: BTreeMap<u64, u32>,
    too_slow: Option<Why>,
}

/// Who is last, with how many samples, and when.
fn last_of(costs: &BTreeMap<u64, Cost>, shares: &BTreeMap<u64, u32>) -> Option<(u64, u32, f64)> {
    let finish = costs.iter().map(|(&id, cost)| {
        let share = shares.get(&id).copied().unwrap_or(0);
        (id, share, cost.of(share))
    });
    finish.max_by(|a, b| a.2.total_cmp(&b.2))
}

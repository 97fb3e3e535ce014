//! What the first rounds took: by that it is chosen, or said, what would suit.

use std::collections::BTreeMap;
use std::time::Duration;

use bonfire_strategy::choice::{Measured, Through};

/// What the first rounds took those who exchange, until enough was measured.
#[derive(Debug)]
pub(crate) struct FirstRounds {
    /// The round before them all.
    begin: u64,
    /// When the first word of one came.
    since: Option<Duration>,
    rounds: BTreeMap<u64, Vec<RoundTook>>,
    /// The least that a member has told.
    latency_s: Option<f64>,
    is_over: bool,
}

/// What a round took one member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTook {
    pub compute_s: f64,
    /// By itself and with waiting for others.
    pub exchange_s: f64,
    /// Through the link of the member; under a server, through the busiest one.
    pub sent_bytes: u64,
    /// How many samples it computed; a relay how many for each of its workers.
    pub samples: u64,
    /// And how many of them there were in all; as many, where nobody works for it.
    pub all_samples: u64,
}

/// So many rounds are looked at, the ones that warm up included.
const ROUNDS: usize = 13;

/// And so many at most where the head waits for a state, which would be lost with a group that forms anew.
const MOST_ROUNDS: usize = 50;

/// So many of them warm up; of fewer rounds a third does.
const WARM_UP: usize = 3;

/// Fewer rounds do if they take so long.
const LONG: Duration = Duration::from_secs(5);
const FEW_ROUNDS: usize = 3;

impl FirstRounds {
    /// Those after a round.
    pub(crate) fn after(begin: u64) -> Self {
        Self { begin, since: None, rounds: BTreeMap::new(), latency_s: None, is_over: false }
    }

    /// Others exchange after a round, or the same ones anew. What others took before is no measure for it.
    pub(crate) fn begin_again(&mut self, begin: u64) {
        *self = Self { is_over: self.is_over, ..Self::after(begin) };
    }

    /// A member has measured what an exchange of nothing takes.
    pub(crate) fn latency(&mut self, latency_s: f64) {
        self.latency_s = Some(self.latency_s.map_or(latency_s, |least| least.min(latency_s)));
    }

    /// Takes what a member says of a round. Once, when all of so many members have said enough, this round included:
    /// what a round takes. While the head is busy with a state that waits a little.
    pub(crate) fn take(
        &mut self,
        round: u64,
        took: RoundTook,
        members: usize,
        (now, is_busy): (Duration, bool),
    ) -> Option<Measured> {
        if self.is_over || round <= self.begin || took.sent_bytes == 0 {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        self.rounds.entry(round).or_default().push(took);
        // What one member says may come later than what another does.
        let whole: Vec<&[RoundTook]> =
            self.rounds.values().map(Vec::as_slice).filter(|round| round.len() == members).collect();
        let enough = match now.saturating_sub(since) < LONG {
            _ if is_busy => MOST_ROUNDS,
            true => ROUNDS,
            false => FEW_ROUNDS,
        };
        let is_told_by_all = self.rounds.get(&round).is_some_and(|round| round.len() == members);
        if whole.len() < enough || !is_told_by_all {
            return None;
        }
        let measured = self.measured(&whole, members);
        self.is_over = true;
        Some(measured)
    }

    /// The medians over the rounds after those that warm up.
    fn measured(&self, rounds: &[&[RoundTook]], members: usize) -> Measured {
        let warm_up = WARM_UP.min(rounds.len() / 3);
        let over = |of: &dyn Fn(&[RoundTook]) -> f64| {
            median(rounds.iter().skip(warm_up).map(|round| of(round)).collect())
        };
        Measured {
            compute_s: over(&|round| round.iter().map(|took| took.compute_s).fold(0.0, f64::max)),
            // Others have waited for those that compute longer.
            exchange_s: over(&|round| round.iter().map(|took| took.exchange_s).fold(f64::MAX, f64::min)),
            sent_bytes: over(&|round| {
                round.iter().map(|took| took.sent_bytes as f64).sum::<f64>() / members as f64
            }),
            latency_s: self.latency_s.unwrap_or(0.0),
            alone_s: over(&alone_s),
            members,
            through: Through::Members,
            is_one_machine: false,
        }
    }
}

/// What the fastest member alone would take for a round of all.
fn alone_s(round: &[RoundTook]) -> f64 {
    let all: u64 = round.iter().map(|took| took.all_samples).sum();
    let works = round.iter().filter(|took| took.samples > 0);
    let a_sample = works.map(|took| took.compute_s / took.samples as f64);
    all as f64 * a_sample.fold(f64::MAX, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(rounds: u64, exchange_s: f64) -> Option<Measured> {
        let mut first = FirstRounds::after(100);
        for round in 101..=100 + rounds {
            for member in 0..3 {
                // The first member is slow: the others wait for it. A round now and then takes longer.
                let hiccup = if round == 107 { 5.0 } else { 0.0 };
                let waited = if member == 0 { 0.0 } else { 0.2 };
                let took = RoundTook {
                    compute_s: 0.4 - waited + hiccup,
                    exchange_s: exchange_s + waited,
                    sent_bytes: 1_000_000,
                    samples: 32,
                    all_samples: 32,
                };
                if let Some(measured) = first.take(round, took, 3, (Duration::ZERO, false)) {
                    return Some(measured);
                }
            }
        }
        None
    }

    #[test]
    fn the_wait_for_a_slow_member_is_not_the_wire() {
        assert_eq!(told(12, 0.5), None, "not yet");
        let expect = Measured {
            compute_s: 0.4,
            exchange_s: 0.5,
            latency_s: 0.0,
            alone_s: 0.2 * 3.0,
            sent_bytes: 1e6,
            members: 3,
            through: Through::Members,
            is_one_machine: false,
        };
        let found = told(13, 0.5).expect("enough rounds");
        assert!((found.alone_s - expect.alone_s).abs() < 1e-9, "{}", found.alone_s);
        assert_eq!(Measured { alone_s: expect.alone_s, ..found }, expect);
    }

    /// Rounds of so many seconds each of two members; what comes of which round.
    fn long_rounds(seconds: u64, latency_s: f64, is_busy: bool) -> Option<(u64, Measured)> {
        let mut first = FirstRounds::after(0);
        first.begin_again(20);
        for round in 21..=80 {
            for member in 0..2 {
                let warm_up = if round == 21 { 9.0 } else { 0.0 };
                let took = RoundTook {
                    compute_s: 0.5,
                    exchange_s: seconds as f64 - 0.5 + warm_up,
                    sent_bytes: 1_000_000,
                    samples: 32,
                    all_samples: 32,
                };
                if round == 23 {
                    first.latency(latency_s + f64::from(member));
                }
                let now = (Duration::from_secs((round - 20) * seconds), is_busy);
                if let Some(measured) = first.take(round, took, 2, now) {
                    assert_eq!(member, 1, "all have told");
                    assert_eq!(first.take(round, took, 2, now), None, "once");
                    return Some((round, measured));
                }
            }
        }
        None
    }

    #[test]
    fn fewer_rounds_do_if_they_are_long() {
        let check = |seconds, is_busy, expect: u64| {
            let (round, measured) = long_rounds(seconds, 0.25, is_busy).expect("enough rounds");
            assert_eq!(round, expect, "of {seconds} s");
            assert_eq!((measured.compute_s, measured.exchange_s), (0.5, seconds as f64 - 0.5));
            assert_eq!(measured.latency_s, 0.25, "of the one that waited least");
        };
        check(1, false, 26);
        check(3, false, 23);
        check(60, false, 23);
        check(3, true, 70);
    }
}

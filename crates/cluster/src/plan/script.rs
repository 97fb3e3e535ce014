//! What a worker does in a round, one thing after the other.

use bonfire_learn::random::Random;
use bonfire_run::run_file::Compression;

use super::figures::{HostFigures, Work};

/// One thing that a worker does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    Work(Work),
    /// Sends what is settled from a place on, and takes what has come, without waiting.
    Advance {
        exchange: usize,
        settled_from: usize,
    },
    /// The same until the exchange is over.
    Complete {
        exchange: usize,
    },
}

/// How a worker computes and exchanges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub threads: usize,
    /// Its share of a round; who rests has none.
    pub batch: usize,
    /// How many steps it makes by itself, where rounds are of several.
    pub steps: Option<u64>,
    /// How many steps are made while the exchange before them goes on.
    pub delay: u64,
    pub overlaps: bool,
    pub compression: Compression,
    /// Whether all travels as it is in this round.
    pub exact: bool,
}

/// The stages of a round on a host, without what a server's worker does with the sum. Single steps differ as those
/// that were measured.
pub(super) fn round(host: &HostFigures, manner: &Manner, random: &mut Random) -> Vec<Stage> {
    let work = &host.work;
    let step = match manner.batch {
        0 => Work { core_s: 0.0, width: 1.0 },
        batch => work.step(manner.threads, batch),
    };
    let like = work.like(manner.threads, manner.batch);
    let mut draw = || {
        let spread = like.map_or(&[][..], |like| like.spread.as_slice());
        let times = if spread.is_empty() { 1.0 } else { spread[random.below(spread.len())] };
        Work { core_s: step.core_s * times, ..step }
    };
    let mut stages = Vec::new();
    let factors = matches!(manner.compression, Compression::PowerSgd(_)) && !manner.exact;
    let settled = like.map_or(&[][..], |like| like.settled.as_slice());
    if let Some(steps) = manner.steps {
        let ahead = if manner.exact || factors { 0 } else { manner.delay };
        let mut steps = (0..steps).map(|_| draw());
        if ahead > 0 {
            stages.push(Stage::Advance { exchange: 0, settled_from: 0 });
        }
        for step in steps.by_ref().take(ahead as usize) {
            by_layers(&mut stages, step, settled.iter().map(|&(_, part)| (0, part)));
            stages.extend([Stage::Advance { exchange: 0, settled_from: 0 }, Stage::Work(work.update)]);
        }
        // A round begins with the exchange of the one before, where steps are made ahead.
        let rest: Vec<Stage> = steps.flat_map(|step| [Stage::Work(step), Stage::Work(work.update)]).collect();
        if ahead == 0 {
            stages.extend(rest.iter().copied());
        }
        exchange(&mut stages, host, manner);
        stages.push(Stage::Work(work.together));
        if ahead > 0 {
            stages.extend(rest);
        }
        return stages;
    }
    by_layers(&mut stages, draw(), settled.iter().copied().filter(|_| manner.overlaps && !factors));
    exchange(&mut stages, host, manner);
    stages.push(Stage::Work(work.update));
    stages
}

/// A step that looks after the exchange whenever some of its work is done: from where on a gradient may leave, and
/// after which part.
fn by_layers(stages: &mut Vec<Stage>, step: Work, settled: impl Iterator<Item = (usize, f64)>) {
    let mut done = 0.0;
    for (settled_from, part) in settled {
        stages.push(Stage::Work(Work { core_s: step.core_s * (part - done), ..step }));
        stages.push(Stage::Advance { exchange: 0, settled_from });
        done = part;
    }
    stages.push(Stage::Work(Work { core_s: step.core_s * (1.0 - done), ..step }));
}

/// The exchange itself: of factors there are two, with computing around them.
fn exchange(stages: &mut Vec<Stage>, host: &HostFigures, manner: &Manner) {
    let Compression::PowerSgd(rank) = manner.compression else {
        return stages.push(Stage::Complete { exchange: 0 });
    };
    if manner.exact {
        return stages.push(Stage::Complete { exchange: 0 });
    }
    // They were measured with two columns.
    let times = rank as f64 / 2.0;
    let [before, between, after] =
        host.work.factors.map(|work| Stage::Work(Work { core_s: work.core_s * times, ..work }));
    let [left, right] = [0, 1].map(|exchange| Stage::Complete { exchange });
    stages.extend([before, left, between, right, after]);
}

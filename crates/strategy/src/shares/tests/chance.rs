//! Rounds as they are on real machines: single ones that take far longer, spells of somebody else's work, and a pace
//! that comes and goes.

use super::*;

/// Noise, sway, the longest spell; and in how many of 24 runs equal machines may move nevertheless: in the first twenty
/// rounds, where few have to tell, and later.
const WEATHERS: [(f64, f64, u64, [usize; 2]); 6] = [
    (0.3, 0.0, 0, [0, 0]),
    (0.03, 0.03, 0, [0, 0]),
    (0.1, 0.03, 0, [0, 0]),
    (0.1, 0.05, 0, [0, 4]),
    (0.05, 0.0, 6, [8, 0]),
    (0.1, 0.03, 10, [8, 4]),
];

/// Batch and grain, and what a round takes a worker anyway and for a sample.
const WORK: [(u32, u32, (f64, f64)); 4] =
    [(32, 8, (0.004, 0.0004)), (128, 16, (0.01, 0.001)), (32, 4, (0.008, 0.000_25)), (128, 4, (0.01, 0.001))];

const SEEDS: u64 = 6;

/// So many times slower than the fastest.
const UNEQUAL: [f64; 4] = [4.0, 4.0, 2.0, 1.0];

/// Machines of some speeds in a weather, with their balancer, for every kind of work and seed.
fn all_runs(
    speeds: &[f64],
    (noise, sway, spell): (f64, f64, u64),
    mut check: impl FnMut(&str, Machines, Balancer),
) {
    for (batch, grain, (fixed_s, sample_s)) in WORK {
        for seed in 1..=SEEDS {
            let mut balancer = Balancer::new(Rule { batch, grain, when: When::Drift });
            balancer.form(&(0..speeds.len() as u64).map(|worker| (worker, None)).collect::<Vec<_>>(), 0);
            let costs: Vec<_> = speeds.iter().map(|slow| (fixed_s * slow, sample_s * slow)).collect();
            let mut machines = Machines::new(&costs, noise, seed);
            (machines.sway, machines.spell) = (sway, spell);
            let what = format!(
                "noise {noise}, sway {sway}, spell {spell}, batch {batch}, grain {grain}, seed {seed}"
            );
            check(&what, machines, balancer);
        }
    }
}

#[test]
fn equal_machines_are_left_alone_for_five_hundred_rounds() {
    for (noise, sway, spell, most) in WEATHERS {
        let mut moves = [Vec::new(), Vec::new()];
        all_runs(&[1.0; 6], (noise, sway, spell), |what, mut machines, mut balancer| {
            let moved = run(&mut machines, &mut balancer, 1..=500);
            if let Some(first) = moved.first() {
                moves[usize::from(*first > 20)].push(format!("{what}: {moved:?}"));
            }
        });
        let found = [moves[0].len(), moves[1].len()];
        assert!(found[0] <= most[0] && found[1] <= most[1], "{found:?} of 24 runs, not {most:?}: {moves:#?}");
    }
}

#[test]
fn unequal_machines_settle_and_stay() {
    for (noise, sway, spell, _) in WEATHERS {
        let mut restless = Vec::new();
        all_runs(&UNEQUAL, (noise, sway, spell), |what, mut machines, mut balancer| {
            let moved = run(&mut machines, &mut balancer, 1..=300);
            restless.extend((moved.len() > 3).then(|| format!("{what}: {moved:?}")));
        });
        // All kinds of work have the same spells: one that is too long counts four times.
        let most = if spell > 6 { 4 } else { 2 };
        assert!(restless.len() <= most, "{restless:#?}");
    }
}

#[test]
fn a_slowed_machine_is_followed_in_any_weather() {
    for (noise, sway, spell, _) in WEATHERS.into_iter().filter(|(noise, ..)| *noise <= 0.1) {
        let mut late = Vec::new();
        all_runs(&UNEQUAL, (noise, sway, spell), |what, mut machines, mut balancer| {
            run(&mut machines, &mut balancer, 1..=200);
            let before = balancer.share(3);
            machines.costs[3].0 *= 2.0;
            machines.costs[3].1 *= 2.0;
            run(&mut machines, &mut balancer, 201..=220);
            late.extend((balancer.share(3) >= before).then(|| what.to_owned()));
        });
        let most = if spell > 0 { 4 } else { 0 };
        assert!(late.len() <= most, "{} of 24 runs: {late:#?}", late.len());
    }
}

//! Flat and hierarchical runs under every rule: they end, and everything counts once.

use std::time::Duration;

use bonfire_strategy::{Deck, group, relay, server};

use crate::chance::Chance;
use crate::cluster::{Cluster, Shape};
use crate::for_each_seed;

const HISTORIES: u64 = 2000;

fn rule(chance: &mut Chance, max_staleness: u64, members: usize, is_in_step: bool) -> server::Rule {
    let take = (max_staleness == 0 && chance.percent(30)).then(|| 1 + chance.index(members));
    let straggler = chance.percent(40).then(|| chance.within(300) + Duration::from_millis(5));
    let pace = match is_in_step && chance.percent(50) {
        true => group::Pace { after: chance.below(3), steps: 1 + chance.below(4) },
        false => group::Pace::UNIT,
    };
    server::Rule {
        max_staleness,
        take,
        straggler,
        min_members: 1 + chance.index(members.min(2)),
        max_updates: None,
        pace,
    }
}

fn run(mut chance: Chance, max_staleness: u64, shape: &Shape) {
    let is_in_step = max_staleness == 0 && shape.iter().flatten().all(|relay| !relay.is_async);
    let rule = rule(&mut chance, max_staleness, shape.len(), is_in_step);
    let (units_per_epoch, epochs) = (1 + chance.below(12), 1 + chance.below(3));
    let deck = Deck::new(units_per_epoch as u32, Some(epochs));
    let faults = chance.below(15);
    Cluster::new(chance, rule, deck, shape).run(faults, units_per_epoch * epochs, epochs);
}

fn flat(seed: u64, bounds: &[u64]) {
    let mut chance = Chance::new(seed);
    let shape = vec![None; 1 + chance.index(6)];
    let bound = chance.pick(bounds);
    run(chance, bound, &shape);
}

fn hierarchy(seed: u64, bounds: &[u64], is_async: bool) {
    let mut chance = Chance::new(seed);
    let mut shape: Shape = Vec::new();
    for _ in 0..1 + chance.index(3) {
        shape.push(Some(relay::Rule { is_async, workers: 1 + chance.index(3) }));
    }
    // A worker whose relay is gone may work for the head itself.
    if chance.percent(30) {
        shape.push(None);
    }
    let bound = chance.pick(bounds);
    run(chance, bound, &shape);
}

#[test]
fn flat_sync() {
    for_each_seed(HISTORIES, |seed| flat(seed, &[0]));
}

#[test]
fn flat_async() {
    for_each_seed(HISTORIES, |seed| flat(seed, &[1, 2, 8, u64::MAX]));
}

#[test]
fn sync_relays_under_a_sync_head() {
    for_each_seed(HISTORIES, |seed| hierarchy(seed, &[0], false));
}

#[test]
fn async_relays_under_a_sync_head() {
    for_each_seed(HISTORIES, |seed| hierarchy(seed, &[0], true));
}

#[test]
fn sync_relays_under_an_async_head() {
    for_each_seed(HISTORIES, |seed| hierarchy(seed, &[1, 2, 8], false));
}

#[test]
fn async_relays_under_an_async_head() {
    for_each_seed(HISTORIES, |seed| hierarchy(seed, &[1, 2, 8], true));
}

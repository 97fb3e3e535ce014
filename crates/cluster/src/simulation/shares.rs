//! Machines of unequal speed whose shares follow it, while all goes well and while things go wrong.

use std::time::Duration;

use bonfire_report::{Event, ShareLine, read_events};

use super::fault::Fault;
use super::{Case, Kind, Outcome, Verdict, run_folder};

const FLAT: Kind =
    Kind { arch: "arch: flat\nparameter_server: {num_workers: 4}\nshares: auto", nodes: 4, samples: 1003 };

const BACKUP: Kind = Kind {
    arch: "arch: flat\nparameter_server: {num_workers: 3, backup_workers: 1}\nshares: auto",
    nodes: 4,
    samples: 1003,
};

const GROUP: Kind =
    Kind { arch: "arch: allreduce\nallreduce: {num_workers: 4}\nshares: auto", nodes: 4, samples: 1003 };

/// Two relays, each with two workers: the first has the slow ones.
const RELAYS: Kind = Kind {
    arch: "arch: hierarchical\nglobal_server: {local_servers: [{num_workers: 2}, {num_workers: 2}]}\nshares: auto",
    nodes: 6,
    samples: 1003,
};

const NAMED: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 4}\nshares: {pi1: 1, pi2: 3}",
    nodes: 4,
    samples: 203,
};

/// Members make unequally many steps by themselves.
const STEPS: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 4}\nshares: auto\nlocal_steps: 4",
    nodes: 4,
    samples: 2003,
};

/// The same from a round on; first they have unequal batches.
const LATER: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 4}\nshares: auto\nlocal_steps: {after: 15 rounds, steps: 4}",
    nodes: 4,
    samples: 2003,
};

/// The steps of the next round begin while the exchange goes on.
const AHEAD: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 4}\nshares: auto\nlocal_steps: 4\nouter: {delay: 2}",
    nodes: 4,
    samples: 2003,
};

/// One machine is slow and one fast; the head computes nothing.
fn case(kind: Kind, seed: u64, faults: Vec<(Duration, Fault)>) -> Case {
    let sample_ms = vec![0.0, 40.0, 20.0, 20.0, 10.0];
    Case { kind, evaluator: false, seed, faults, is_told: false, mute: false, sample_ms }
}

/// Plays a run, in which every sample must be used once an epoch. The changes of shares, and whether after a resume.
#[track_caller]
fn play(case: &Case) -> (Vec<(Vec<ShareLine>, String, bool)>, Outcome) {
    let outcome = case.play();
    assert_eq!(case.judge(&outcome), Ok(Verdict::Done), "{case:?}\n{}", outcome.story.join("\n"));
    let events = read_events(&run_folder(&outcome.folder).join("events.jsonl")).expect("events");
    let (mut changes, mut is_back) = (Vec::new(), false);
    for stamped in events {
        match stamped.event {
            Event::Resumed { .. } => is_back = true,
            Event::Shares { shares, reason, .. } => changes.push((shares, reason, is_back)),
            _ => {}
        }
    }
    (changes, outcome)
}

fn of(shares: &[ShareLine], name: &str) -> u32 {
    shares.iter().find(|line| line.name == name).map_or(0, |line| line.samples)
}

#[test]
fn the_slow_get_less_and_the_fast_more() {
    for kind in [FLAT, GROUP] {
        let (changes, _) = play(&case(kind, 1, Vec::new()));
        assert!((1..=3).contains(&changes.len()), "{changes:?}");
        let (shares, reason, _) = &changes[changes.len() - 1];
        let found = ["pi1", "pi2", "pi3", "pi4"].map(|name| of(shares, name));
        assert_eq!(found.iter().sum::<u32>(), 16, "the batch of all stays");
        assert!(found[0] <= 2 && found[3] >= 6, "{found:?}");
        assert!(reason.contains(" % instead of 25 %: its rounds took "), "{reason}");
    }
}

#[test]
fn workers_of_relays_have_shares_too() {
    // Whoever of them is a relay: among the workers there are slow and fast ones.
    let sample_ms = vec![0.0, 40.0, 40.0, 40.0, 10.0, 10.0, 10.0];
    let (changes, _) = play(&Case { sample_ms, ..case(RELAYS, 1, Vec::new()) });
    assert!((1..=3).contains(&changes.len()), "{changes:?}");
    let (shares, ..) = &changes[changes.len() - 1];
    assert_eq!((shares.len(), shares.iter().map(|line| line.samples).sum::<u32>()), (4, 16), "{changes:?}");
    let is_slow = |line: &&ShareLine| ["pi1", "pi2", "pi3"].contains(&line.name.as_str());
    let most_of_slow = shares.iter().filter(is_slow).map(|line| line.samples).max();
    let least_of_fast = shares.iter().filter(|line| !is_slow(line)).map(|line| line.samples).min();
    assert!(most_of_slow.map(|slow| 2 * slow) <= least_of_fast, "{shares:?}");
}

#[test]
fn with_local_steps_the_slow_make_fewer() {
    for kind in [STEPS, LATER, AHEAD] {
        let (changes, _) = play(&case(kind, 1, Vec::new()));
        let (shares, reason, _) = &changes[changes.len() - 1];
        let found = ["pi1", "pi2", "pi3", "pi4"].map(|name| of(shares, name));
        assert_eq!(found.iter().sum::<u32>(), 4 * 16, "four steps of four samples each: {changes:?}");
        assert!(found.iter().all(|samples| samples % 4 == 0), "whole steps: {found:?}");
        assert!(found[0] <= 8 && found[3] >= 24, "{found:?}: {reason}");
        let (before, later) =
            (changes.iter().position(|(_, reason, _)| reason.contains("rounds of 4")), kind.arch);
        assert_eq!(before.is_some(), later.contains("after"), "{changes:?}");
        if let Some(before) = before {
            let all: Vec<u32> =
                changes.iter().map(|(shares, ..)| shares.iter().map(|it| it.samples).sum()).collect();
            assert!(all.iter().take(before).all(|all| *all == 16) && before > 0, "{changes:?}");
        }
    }
}

#[test]
fn who_is_named_makes_as_many_steps() {
    let arch = "arch: allreduce\nallreduce: {num_workers: 4}\nshares: {pi1: 1, pi2: 3}\nlocal_steps: 3";
    let (changes, _) = play(&case(Kind { arch, ..NAMED }, 1, Vec::new()));
    let [(shares, ..)] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(["pi1", "pi2", "pi3", "pi4"].map(|name| of(shares, name)), [8, 24, 8, 8]);
}

#[test]
fn who_is_too_slow_to_help_rests() {
    for kind in [FLAT, GROUP] {
        let sample_ms = vec![0.0, 900.0, 10.0, 10.0, 10.0];
        let (changes, _) = play(&Case { sample_ms, ..case(kind, 1, Vec::new()) });
        let rest = changes.iter().find(|(_, reason, _)| reason.starts_with("pi1 rests: "));
        let (shares, reason, _) = rest.unwrap_or_else(|| panic!("{changes:?}"));
        assert_eq!(
            (of(shares, "pi1"), shares.iter().map(|line| line.samples).sum::<u32>()),
            (0, 16),
            "{reason}"
        );
    }
}

#[test]
fn unequal_shares_are_quicker() {
    let ended = |kind: Kind| {
        // Slow enough that it is computing that takes the time.
        let sample_ms = vec![0.0, 200.0, 100.0, 100.0, 50.0];
        let (_, outcome) = play(&Case { is_told: true, sample_ms, ..case(kind, 1, Vec::new()) });
        let line = outcome.story.last().expect("a story").clone();
        line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).expect("a time")
    };
    let equal = Kind { arch: "arch: flat\nparameter_server: {num_workers: 4}\nshares: equal", ..FLAT };
    let (auto, equal) = (ended(FLAT), ended(equal));
    assert!(auto * 1.3 < equal, "{auto} s instead of {equal} s");
}

#[test]
fn who_is_named_has_what_it_is_given() {
    let (changes, _) = play(&case(NAMED, 1, Vec::new()));
    let [(shares, reason, _)] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(["pi1", "pi2", "pi3", "pi4"].map(|name| of(shares, name)), [2, 8, 3, 3]);
    assert_eq!(reason, "as the run file says");
}

#[test]
fn members_may_be_lost_and_come_back() {
    for (seed, at_ms) in (0..).zip([300, 900, 1500, 2500, 4000]) {
        for kind in [FLAT, BACKUP, RELAYS, GROUP, STEPS, LATER, AHEAD] {
            let back = (seed % 2 == 0).then_some(Duration::from_millis(1300));
            let machine = 1 + seed as usize % 4;
            let crash = Fault::Crash { machine, silent: false, back };
            play(&case(kind, seed, vec![(Duration::from_millis(at_ms), crash)]));
        }
    }
}

#[test]
fn a_head_that_comes_back_goes_on_with_the_shares() {
    for kind in [FLAT, GROUP] {
        let at = Duration::from_secs(6);
        let crash = Fault::Crash { machine: 0, silent: false, back: Some(Duration::from_millis(500)) };
        let (changes, outcome) = play(&case(kind, 1, vec![(at, crash)]));
        let before = changes.iter().rev().find(|(_, _, is_back)| !is_back).expect("a change before");
        let after = changes.iter().find(|(_, _, is_back)| *is_back);
        let (shares, reason, _) = after.unwrap_or_else(|| panic!("{}", outcome.story.join("\n")));
        assert_eq!(reason, "as before, among those who are there");
        let of_all = |shares: &[ShareLine]| ["pi1", "pi2", "pi3", "pi4"].map(|name| of(shares, name));
        assert_eq!(of_all(shares), of_all(&before.0));
    }
}

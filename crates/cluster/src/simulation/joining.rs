//! Members of a group that take the state while the others go on, with states of several pieces.

use std::time::Duration;

use bonfire_report::{Event, read_events};

use super::fault::Fault;
use super::{Case, Kind, Outcome, Verdict, run_folder};

/// Every way in which what a learner hears, or steps by, differs.
const WAYS: [&str; 8] = [
    "allreduce: {num_workers: 3}",
    "allreduce: {num_workers: 3}\nclip_norm: 0.1",
    "allreduce: {num_workers: 3, servers: 1}\ncompression: int8",
    "allreduce: {num_workers: 3, op: adasum}",
    "allreduce: {num_workers: 3}\ncompression: {powersgd: 2}",
    "allreduce: {num_workers: 3}\ncompression: {top_k: 0.1}",
    "allreduce: {num_workers: 3}\nlocal_steps: {after: 4 rounds, steps: 2}\nouter: {momentum: 0.5}\ncompression: int8",
    "allreduce: {num_workers: 3}\nlocal_steps: 2\nouter: {delay: 1}",
];

fn case(way: &str, seed: u64, faults: Vec<(u64, Fault)>) -> Case {
    // Four pieces of a state.
    let arch = format!("model: {{mlp: {{hidden: [300]}}}}\narch: allreduce\n{way}").leak();
    let kind = Kind { arch, nodes: 3 + usize::from(way.contains("servers")), samples: 240 };
    let faults = faults.into_iter().map(|(ms, fault)| (Duration::from_millis(ms), fault)).collect();
    Case { kind, evaluator: false, seed, faults, is_told: false, mute: false, sample_ms: Vec::new() }
}

fn killed(machine: usize, back_ms: u64) -> Fault {
    Fault::Crash { machine, silent: false, back: Some(Duration::from_millis(back_ms)) }
}

/// After which rounds the group went on with so many members and so many that learn.
fn went_on(outcome: &Outcome, members: usize, learners: usize) -> Vec<u64> {
    let events = read_events(&run_folder(&outcome.folder).join("events.jsonl")).expect("events");
    let learn = match learners {
        0 => String::new(),
        _ => format!(", {learners} takes the state meanwhile"),
    };
    let round = |event: &Event| match event {
        Event::Noted { message } => {
            let rest = message.strip_prefix(&format!("the group goes on: {members} members after round "))?;
            rest.strip_suffix(&learn)?.parse().ok()
        }
        _ => None,
    };
    events.iter().filter_map(|stamped| round(&stamped.event)).collect()
}

#[test]
fn others_go_on_while_one_takes_the_state() {
    for way in WAYS {
        let mut longest = 0;
        for seed in 0..5 {
            let case = case(way, seed, vec![(1500, killed(3, 300))]);
            let outcome = case.play();
            assert_eq!(case.judge(&outcome), Ok(Verdict::Done), "{way}\n{}", outcome.story.join("\n"));
            let (begun, ended) = (went_on(&outcome, 2, 1), went_on(&outcome, 3, 0));
            if let (Some(begun), Some(ended)) = (begun.first(), ended.last()) {
                longest = longest.max(ended.saturating_sub(*begun));
            }
        }
        assert!(longest >= 2, "the others did only {longest} rounds meanwhile: {way}");
    }
}

#[test]
fn whoever_is_lost_meanwhile_is_done_without() {
    for way in WAYS {
        for seed in 0..5 {
            for machine in 1..=3 {
                let again = (1700 + 190 * seed, killed(machine, 100 * (seed % 4)));
                let case = case(way, seed, vec![(1500, killed(3, 50)), again]);
                let outcome = case.play();
                assert_eq!(case.judge(&outcome), Ok(Verdict::Done), "{case:?}\n{}", outcome.story.join("\n"));
            }
        }
    }
}

#[test]
fn several_learn_at_the_same_time() {
    for way in WAYS {
        for seed in 0..5 {
            let late = (1500 + 90 * seed, killed(2, 10 + 40 * seed));
            let case = case(way, seed, vec![(1400, killed(3, 250)), late]);
            let outcome = case.play();
            assert_eq!(case.judge(&outcome), Ok(Verdict::Done), "{case:?}\n{}", outcome.story.join("\n"));
        }
    }
}

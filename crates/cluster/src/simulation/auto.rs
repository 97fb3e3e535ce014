//! Groups and servers that change how they exchange while things go wrong.
//!
//! In these worlds frames take their time and computing takes next to none, so a run that is long enough always chooses
//! as many local steps as it may, with int8.

use std::time::Duration;

use bonfire_report::{Event, read_events};

use super::fault::Fault;
use super::{Case, Kind, Outcome, Verdict, run_folder};

/// Long enough for eight local steps after the first 100 rounds.
const AUTO: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 3}\ncompression: auto\nlocal_steps: auto\n\
           outer: {momentum: 0.5}",
    nodes: 3,
    samples: 6700,
};

/// The same under a server.
const SERVED: Kind = Kind {
    arch: "arch: flat\nparameter_server: {num_workers: 3}\ncompression: auto\nlocal_steps: auto\n\
           outer: {momentum: 0.5}",
    nodes: 3,
    samples: 6700,
};

/// The same under relays.
const RELAYED: Kind = Kind {
    arch: "arch: hierarchical\nglobal_server:\n  aggr_type: sync\n  local_servers:\n    \
           - {aggr_type: sync, num_workers: 2}\n    - {aggr_type: sync, num_workers: 2}\n\
           compression: auto\nlocal_steps: auto\nouter: {momentum: 0.5}",
    nodes: 6,
    samples: 9000,
};

/// Too short for local steps. Frames take as long with fewer bytes, so it is int8 or nothing, as chance has it.
const SHORT: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 3}\ncompression: auto\nlocal_steps: auto",
    nodes: 3,
    samples: 300,
};

fn case(kind: Kind, seed: u64, faults: Vec<(Duration, Fault)>) -> Case {
    Case { kind, evaluator: false, seed, faults, is_told: false, mute: false, sample_ms: Vec::new() }
}

/// Plays a run, which must end well. What was chosen, and whether after a head came back; and how many rounds there
/// were.
#[track_caller]
fn play(case: &Case) -> (Vec<(Event, bool)>, u64, Outcome) {
    let outcome = case.play();
    assert_eq!(case.judge(&outcome), Ok(Verdict::Done), "{case:?}\n{}", outcome.story.join("\n"));
    let events = read_events(&run_folder(&outcome.folder).join("events.jsonl")).expect("events");
    let (mut chosen, mut is_back) = (Vec::new(), false);
    for stamped in events {
        match stamped.event {
            Event::Resumed { .. } => is_back = true,
            Event::Chosen { .. } => chosen.push((stamped.event, is_back)),
            _ => {}
        }
    }
    let rounds = outcome.summary.as_ref().expect("a summary").rounds;
    (chosen, rounds, outcome)
}

/// When the members are told to stop because something was chosen.
fn time_of_change(seed: u64) -> Duration {
    let (_, _, outcome) = play(&Case { is_told: true, ..case(AUTO, seed, Vec::new()) });
    let line = outcome.story.iter().find(|line| line.contains("head -> ") && line.contains(": Halt("));
    let seconds = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Duration::from_secs_f64(seconds.expect("a halt"))
}

#[test]
fn a_slow_wire_has_int8_and_local_steps_chosen_once() {
    let (chosen, rounds, _) = play(&case(AUTO, 1, Vec::new()));
    let [(Event::Chosen { int8: true, local_steps: 8, after: 100, rounds: planned, reason, .. }, false)] =
        &chosen[..]
    else {
        panic!("{chosen:?}")
    };
    assert!(reason.starts_with("the wire takes") && reason.contains("int8 and 8 local steps"), "{reason}");
    // 1118 rounds of a unit each: 100 as they were, and the others eight at a time.
    assert_eq!((rounds, *planned), (100 + 128, 100 + 128));
    let (chosen, rounds, outcome) = play(&case(SHORT, 1, Vec::new()));
    assert!(matches!(chosen[..], [(Event::Chosen { local_steps: 1, rounds: 50, .. }, false)]), "{chosen:?}");
    // A member that is a round ahead when all are halted does one by itself while the others fetch what it has.
    assert!((50..=51).contains(&rounds), "{rounds}");
    assert_eq!(outcome.summary.expect("a summary").samples, 600);
}

#[test]
fn a_member_may_be_lost_while_the_group_changes() {
    for (seed, wait) in (0..).zip([0, 1, 5, 20, 40, 100, 300]) {
        let at = time_of_change(seed) + Duration::from_millis(wait);
        let machine = 1 + seed as usize % 3;
        for (silent, back) in [(false, None), (true, None), (false, Some(Duration::from_millis(800)))] {
            let crash = Fault::Crash { machine, silent, back };
            let (chosen, ..) = play(&case(AUTO, seed, vec![(at, crash)]));
            assert!(matches!(chosen[..], [(Event::Chosen { int8: true, .. }, false)]), "{chosen:?}");
        }
    }
}

#[test]
fn all_members_may_be_lost_while_the_group_changes() {
    for seed in 0..5 {
        let at = time_of_change(seed) + Duration::from_millis(10 * seed);
        let back = Some(Duration::from_millis(900));
        let crash = |machine| (at, Fault::Crash { machine, silent: false, back });
        let (chosen, ..) = play(&case(AUTO, seed, [1, 2, 3].map(crash).to_vec()));
        assert!(matches!(chosen[..], [(Event::Chosen { int8: true, .. }, false)]), "{chosen:?}");
    }
}

#[test]
fn a_head_that_comes_back_goes_on_with_what_was_chosen() {
    for (seed, wait_s) in (0..).zip([8, 15, 30]) {
        let at = time_of_change(seed) + Duration::from_secs(wait_s);
        let crash = Fault::Crash { machine: 0, silent: false, back: Some(Duration::from_millis(500)) };
        let (chosen, rounds, outcome) = play(&case(AUTO, seed, vec![(at, crash)]));
        assert!(
            matches!(chosen[..], [(Event::Chosen { int8: true, local_steps: 8, .. }, false)]),
            "once: {chosen:?}"
        );
        assert_eq!(rounds, 100 + 128, "{}", outcome.story.join("\n"));
    }
}

#[test]
fn a_head_may_die_while_the_group_changes() {
    for (seed, wait) in (0..).zip([0, 2, 10, 50, 200]) {
        let at = time_of_change(seed) + Duration::from_millis(wait);
        let crash = Fault::Crash { machine: 0, silent: false, back: Some(Duration::from_millis(500)) };
        let (chosen, ..) = play(&case(AUTO, seed, vec![(at, crash)]));
        assert!(
            chosen.iter().any(|(event, _)| matches!(event, Event::Chosen { int8: true, .. })),
            "{chosen:?}"
        );
    }
}

#[test]
fn relays_choose_by_the_busiest_link() {
    for seed in 0..5 {
        let (chosen, rounds, _) = play(&case(RELAYED, seed, Vec::new()));
        let [(Event::Chosen { local_steps: 8.., rounds: planned, reason, .. }, false)] = &chosen[..] else {
            panic!("{chosen:?}")
        };
        assert_eq!(rounds, *planned);
        assert!(reason.contains("MB through a relay's link"), "{reason}");
    }
}

#[test]
fn relays_choose_once_whoever_is_lost() {
    for (seed, machine) in (0..).zip([1, 2, 3, 4, 0]) {
        for at in [900, 1500, 2500, 6000] {
            let at = Duration::from_millis(at + 37 * seed);
            let crash =
                Fault::Crash { machine, silent: seed % 2 == 1, back: Some(Duration::from_millis(700)) };
            let (chosen, ..) = play(&case(RELAYED, seed, vec![(at, crash)]));
            assert!(chosen.len() == 1 || machine == 0, "{chosen:?}");
        }
    }
}

#[test]
fn a_server_chooses_once_whoever_is_lost() {
    let (chosen, rounds, _) = play(&case(SERVED, 1, Vec::new()));
    let [(Event::Chosen { int8: true, local_steps: 8.., after: 100, rounds: planned, reason, .. }, false)] =
        &chosen[..]
    else {
        panic!("{chosen:?}")
    };
    assert!(reason.contains("MB through the server's link"), "{reason}");
    assert_eq!(rounds, *planned);
    for (seed, machine) in (0..).zip([1, 2, 3, 0, 1]) {
        for at in [900, 1500, 2500, 6000] {
            let at = Duration::from_millis(at + 37 * seed);
            let crash =
                Fault::Crash { machine, silent: seed % 2 == 1, back: Some(Duration::from_millis(700)) };
            let (chosen, ..) = play(&case(SERVED, seed, vec![(at, crash)]));
            // A head that dies before its first checkpoint after the choice measures again.
            assert!(chosen.len() == 1 || machine == 0, "{chosen:?}");
        }
    }
}

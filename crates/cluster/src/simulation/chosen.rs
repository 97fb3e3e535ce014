//! Faults that are chosen, not drawn: what chance would seldom do.

use std::time::Duration;

use bonfire_report::{Event, read_events};

use super::cast::MUTE_FOR;
use super::fault::Fault;
use super::{Case, Kind, Verdict, run_folder};

/// Nodes join in the order of their machines, and so get their roles in it: what a machine sends takes longer the
/// higher its number is, until all are there.
fn in_order(nodes: usize) -> Vec<(Duration, Fault)> {
    let lag = |machine: usize| Fault::Lag {
        machine,
        time: Duration::from_millis(700),
        lag: Duration::from_millis(40 * machine as u64),
    };
    (1..=nodes).map(|machine| (Duration::ZERO, lag(machine))).collect()
}

/// Plays a run with these faults, which must end well, and returns its events.
fn events(kind: Kind, evaluator: bool, more: Vec<(Duration, Fault)>) -> Vec<Event> {
    let mut faults = in_order(kind.nodes + usize::from(evaluator));
    faults.extend(more);
    let case = Case { kind, evaluator, seed: 1, faults, is_told: false, mute: false, sample_ms: Vec::new() };
    let outcome = case.play();
    assert_eq!(case.judge(&outcome), Ok(Verdict::Done), "{}", outcome.story.join("\n"));
    let events = read_events(&run_folder(&outcome.folder).join("events.jsonl")).expect("events");
    events.into_iter().map(|stamped| stamped.event).collect()
}

fn has_warning(events: &[Event], words: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Warned { message } if message.contains(words)))
}

/// Its link stands, its pings are answered, and no answer of it ever comes.
#[test]
fn an_evaluator_that_is_stuck_is_not_waited_for_for_ever() {
    let kind = Kind {
        arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3}",
        nodes: 3,
        samples: 90,
    };
    let (long, longer) = (Duration::from_secs(100), Duration::from_secs(1000));
    let stuck = (Duration::from_millis(900), Fault::Lag { machine: 4, time: longer, lag: long });
    let events = events(kind, true, vec![stuck]);
    assert!(has_warning(&events, "pi4 has not answered for 30 s; the head measures instead"), "{events:?}");
    assert!(events.iter().any(|event| matches!(event, Event::Evaluated { .. })), "{events:?}");
}

/// Both reach the head, but not each other: a firewall does that.
#[test]
fn a_worker_that_cannot_reach_its_relay_gets_another_parent() {
    let relays = |count: usize| {
        let relay = "{aggr_type: sync, num_workers: 2}";
        format!(
            "arch: hierarchical\nglobal_server: {{aggr_type: sync, local_servers: [{}]}}",
            vec![relay; count].join(", ")
        )
    };
    for (count, parent) in [(2, "another relay"), (1, "the head")] {
        let arch: &'static str = relays(count).leak();
        let kind = Kind { arch, nodes: 3 * count, samples: 90 };
        let hour = Duration::from_secs(3600);
        let firewall = (Duration::ZERO, Fault::Firewall { between: [1, 2], time: hour });
        let events = events(kind, false, vec![firewall]);
        assert!(has_warning(&events, "it needs another parent"), "{events:?}");
        let joined = |event: &&Event| matches!(event, Event::NodeJoined { name, .. } if name == "pi2");
        assert_eq!(events.iter().filter(joined).count(), 2, "it went to {parent}: {events:?}");
        let last = events.iter().rev().find_map(|event| match event {
            Event::Nodes { nodes, .. } => nodes.iter().find(|node| node.name == "pi2").cloned(),
            _ => None,
        });
        assert!(last.is_some_and(|node| node.sent_bytes > 0), "it works for {parent}: {events:?}");
    }
}

#[test]
fn a_group_says_how_it_goes_on_without_a_member() {
    let kind = Kind { arch: "arch: allreduce\nallreduce: {num_workers: 3}", nodes: 3, samples: 90 };
    let killed = Fault::Crash { machine: 2, silent: false, back: None };
    let events = events(kind, false, vec![(Duration::from_millis(1000), killed)]);
    let told = |words: &str| {
        let has = |event: &&Event| matches!(event, Event::Noted { message } if message.contains(words));
        events.iter().filter(has).count()
    };
    assert_eq!(told("the group goes on: 2 members after round"), 1, "{events:?}");
    assert_eq!(told("3 members after round"), 0, "of the first group the joins tell: {events:?}");
}

/// The head waits for its last node meanwhile.
#[test]
fn a_link_that_never_asks_to_join_is_given_up() {
    let kind = Kind {
        arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3}",
        nodes: 3,
        samples: 90,
    };
    let late = Fault::Freeze { machine: 3, time: Duration::from_secs(20) };
    let faults = vec![(Duration::ZERO, late)];
    let case =
        Case { kind, evaluator: false, seed: 1, faults, is_told: false, mute: true, sample_ms: Vec::new() };
    let outcome = case.play();
    assert_eq!(case.judge(&outcome), Ok(Verdict::Done), "{}", outcome.story.join("\n"));
    let seconds = outcome.story.iter().find_map(|line| line.split_once(MUTE_FOR)?.1.parse::<f64>().ok());
    assert!(seconds.is_some_and(|seconds| (10.0..11.0).contains(&seconds)), "{seconds:?}");
    let events = read_events(&run_folder(&outcome.folder).join("events.jsonl")).expect("events");
    let events: Vec<Event> = events.into_iter().map(|stamped| stamped.event).collect();
    assert!(has_warning(&events, "it did not ask to join within 10 s"), "{events:?}");
}

#[test]
fn who_comes_takes_the_number_that_is_free() {
    let kind = Kind {
        arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3}",
        nodes: 3,
        samples: 90,
    };
    let back = Some(Duration::from_millis(300));
    let killed = Fault::Crash { machine: 1, silent: false, back };
    let events = events(kind, false, vec![(Duration::from_millis(1000), killed)]);
    let roles: Vec<(&str, &str)> = events
        .iter()
        .filter_map(|event| match event {
            Event::NodeJoined { name, role, .. } => Some((name.as_str(), role.as_str())),
            _ => None,
        })
        .collect();
    let first = [("pi1", "worker 0"), ("pi2", "worker 1"), ("pi3", "worker 2")];
    assert_eq!(roles[..3], first);
    assert_eq!(roles[3..], [("pi1", "worker 0")]);
}

/// Its connection broke, and only the node has noticed.
#[test]
fn a_node_that_is_back_before_it_is_missed_keeps_its_name() {
    let kind = Kind {
        arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3}",
        nodes: 3,
        samples: 90,
    };
    let events = events(kind, false, vec![(Duration::from_millis(1000), Fault::HalfOpen { machine: 1 })]);
    let names = events.iter().filter_map(|event| match event {
        Event::NodeJoined { name, .. } => Some(name.as_str()),
        _ => None,
    });
    assert_eq!(names.collect::<Vec<_>>(), ["pi1", "pi2", "pi3", "pi1"], "{events:?}");
    let is_back = |event: &Event| matches!(event, Event::NodeBack { name, .. } if name == "pi1");
    assert!(events.iter().any(is_back), "{events:?}");
    let lost = events.iter().find_map(|event| match event {
        Event::NodeLost { name, reason, .. } => Some((name.as_str(), reason.as_str())),
        _ => None,
    });
    assert_eq!(lost, Some(("pi1", "it came back over another link")));
}

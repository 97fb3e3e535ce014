use std::time::Duration;

use super::fault::Fault;
use super::{Case, Kind, Outcome, Verdict, run_folder};
use bonfire_run::checkpoint;

const SYNC: Kind =
    Kind { arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3}", nodes: 3, samples: 90 };

const BACKUP: Kind = Kind {
    arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3, backup_workers: 1}",
    nodes: 4,
    samples: 90,
};

const ASYNC: Kind = Kind {
    arch: "arch: flat\nparameter_server: {aggr_type: async, num_workers: 3, max_staleness: 2}",
    nodes: 3,
    samples: 90,
};

const HIERARCHY: Kind = Kind {
    arch: "arch: hierarchical\nglobal_server:\n  aggr_type: sync\n  local_servers:\n    \
           - {aggr_type: sync, num_workers: 2}\n    - {aggr_type: async, num_workers: 2}",
    nodes: 6,
    samples: 90,
};

const ASYNC_HIERARCHY: Kind = Kind {
    arch: "arch: hierarchical\nglobal_server:\n  aggr_type: async\n  local_servers:\n    \
           - {aggr_type: async, num_workers: 2}\n    - {aggr_type: sync, num_workers: 1}",
    nodes: 5,
    samples: 90,
};

const GROUP: Kind = Kind { arch: "arch: allreduce\nallreduce: {num_workers: 3}", nodes: 3, samples: 90 };

const SERVERS: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 3, servers: 2}\ncompression: int8",
    nodes: 5,
    samples: 90,
};

const ADASUM: Kind =
    Kind { arch: "arch: allreduce\nallreduce: {num_workers: 3, op: adasum}", nodes: 3, samples: 90 };

const LOCAL_STEPS: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 3}\nlocal_steps: {after: 2 rounds, steps: 3}\n\
           outer: {momentum: 0.5}\ncompression: int8",
    nodes: 3,
    samples: 90,
};

const SERVED: Kind = Kind {
    arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3}\n\
           local_steps: {after: 2 rounds, steps: 3}\nouter: {momentum: 0.5}\ncompression: int8",
    nodes: 3,
    samples: 90,
};

const SERVED_WITH_BACKUP: Kind = Kind {
    arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3, backup_workers: 1}\nlocal_steps: 3",
    nodes: 4,
    samples: 90,
};

const RELAYED: Kind = Kind {
    arch: "arch: hierarchical\nglobal_server:\n  aggr_type: sync\n  local_servers:\n    \
           - {aggr_type: sync, num_workers: 2}\n    - {aggr_type: sync, num_workers: 2}\n\
           local_steps: {after: 2 rounds, steps: 3}\nouter: {momentum: 0.5}\ncompression: int8",
    nodes: 6,
    samples: 120,
};

const DELAYED: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 3}\nlocal_steps: 3\nouter: {delay: 2}\ncompression: int8",
    nodes: 3,
    samples: 180,
};

const INT8: Kind =
    Kind { arch: "arch: allreduce\nallreduce: {num_workers: 3}\ncompression: int8", nodes: 3, samples: 90 };

const LOW_RANK: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 3}\ncompression: {powersgd: 2}",
    nodes: 3,
    samples: 90,
};

const TOP_K: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 3}\ncompression: {top_k: 0.1}",
    nodes: 3,
    samples: 90,
};

const AUTO: Kind = Kind {
    arch: "arch: allreduce\nallreduce: {num_workers: 3}\ncompression: auto\nlocal_steps: auto",
    nodes: 3,
    samples: 240,
};

const SERVED_AUTO: Kind = Kind {
    arch: "arch: flat\nparameter_server: {num_workers: 3}\ncompression: auto\nlocal_steps: auto",
    nodes: 3,
    samples: 240,
};

const RELAYED_AUTO: Kind = Kind {
    arch: "arch: hierarchical\nglobal_server:\n  aggr_type: sync\n  local_servers:\n    \
           - {aggr_type: sync, num_workers: 2}\n    - {aggr_type: sync, num_workers: 2}\n\
           compression: auto\nlocal_steps: auto",
    nodes: 6,
    samples: 240,
};

const ALL: [Kind; 19] = [
    SYNC,
    BACKUP,
    ASYNC,
    HIERARCHY,
    ASYNC_HIERARCHY,
    GROUP,
    SERVERS,
    ADASUM,
    INT8,
    LOCAL_STEPS,
    SERVED,
    SERVED_WITH_BACKUP,
    RELAYED,
    DELAYED,
    LOW_RANK,
    TOP_K,
    AUTO,
    SERVED_AUTO,
    RELAYED_AUTO,
];

/// So many seeds of every kind are simulated, unless the environment says otherwise.
const IN_CI: u64 = 500;

/// Simulates a kind of cluster under many seeds.
fn simulate(kind: Kind) {
    let asked = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    if let Some(seed) = asked("SIMULATION") {
        let case = Case { is_told: true, ..Case::draw(kind, seed) };
        let outcome = case.play();
        tell(&case, &outcome);
        case.judge(&outcome).expect("the run survives");
        return;
    }
    let count = asked("SIMULATIONS").unwrap_or(IN_CI);
    let began = (0..count).filter(|&seed| check(&Case::draw(kind, seed)) == Verdict::Done).count() as u64;
    assert!(began * 10 >= count * 8, "only {began} of {count} runs ever began");
}

/// How a case ended; it must be one of the ways that are all right.
fn check(case: &Case) -> Verdict {
    case.judge(&case.play()).unwrap_or_else(|wrong| {
        let case = case.shrunk();
        tell(&case, &case.play());
        panic!("{wrong}\n{case:#?}\nreplay it with SIMULATION={}", case.seed);
    })
}

fn tell(case: &Case, outcome: &Outcome) {
    let log = std::fs::read_to_string(run_folder(&outcome.folder).join("events.jsonl")).unwrap_or_default();
    eprintln!("{}\n{}\n{log}", case.kind.arch, outcome.story.join("\n"));
}

#[test]
fn a_synchronous_server_survives() {
    simulate(SYNC);
}

#[test]
fn a_server_with_a_backup_worker_survives() {
    simulate(BACKUP);
}

#[test]
fn an_asynchronous_server_survives() {
    simulate(ASYNC);
}

#[test]
fn a_hierarchy_survives() {
    simulate(HIERARCHY);
}

#[test]
fn an_asynchronous_hierarchy_survives() {
    simulate(ASYNC_HIERARCHY);
}

#[test]
fn a_group_survives() {
    simulate(GROUP);
}

#[test]
fn a_group_of_rounded_sums_survives() {
    simulate(INT8);
}

#[test]
fn a_group_of_low_rank_survives() {
    simulate(LOW_RANK);
}

#[test]
fn a_group_with_servers_survives() {
    simulate(SERVERS);
}

#[test]
fn a_group_of_few_values_survives() {
    simulate(TOP_K);
}

#[test]
fn a_group_with_local_steps_survives() {
    simulate(LOCAL_STEPS);
}

#[test]
fn a_server_with_local_steps_survives() {
    simulate(SERVED);
}

#[test]
fn a_server_with_local_steps_and_a_backup_worker_survives() {
    simulate(SERVED_WITH_BACKUP);
}

#[test]
fn relays_with_local_steps_survive() {
    simulate(RELAYED);
}

#[test]
fn a_group_that_computes_while_it_exchanges_survives() {
    simulate(DELAYED);
}

#[test]
fn a_group_that_chooses_survives() {
    simulate(AUTO);
}

#[test]
fn a_server_that_chooses_survives() {
    simulate(SERVED_AUTO);
}

#[test]
fn a_group_of_adasum_survives() {
    simulate(ADASUM);
}

#[test]
fn a_seed_replays() {
    for kind in ALL {
        for seed in 0..5 {
            let case = Case { is_told: true, ..Case::draw(kind, seed) };
            let (once, again) = (case.play(), case.play());
            assert!(once.story.len() > 10, "{case:?}");
            // But for how long something took in this world.
            let steady = |story: Vec<String>| {
                story
                    .into_iter()
                    .filter(|line| !line.contains("_s: ") && !line.contains("seconds: "))
                    .collect()
            };
            let (once, again): (Vec<_>, Vec<_>) = (steady(once.story), steady(again.story));
            assert_eq!(once, again, "{case:?}");
        }
    }
}

/// The parameters that a run ended with.
fn result(case: &Case) -> Vec<u8> {
    let outcome = case.play();
    assert_eq!(case.judge(&outcome), Ok(Verdict::Done));
    let folder = run_folder(&outcome.folder).join("checkpoints");
    let (_, newest) = checkpoint::list(&folder).expect("a folder").pop().expect("a checkpoint");
    std::fs::read(newest).expect("a file")
}

#[test]
fn delays_alone_do_not_change_what_is_learnt_in_step() {
    for kind in [SYNC, GROUP, SERVERS, ADASUM, INT8, LOCAL_STEPS, SERVED, DELAYED, LOW_RANK, TOP_K] {
        let case = |seed| Case {
            kind,
            evaluator: false,
            seed,
            faults: Vec::new(),
            is_told: false,
            mute: false,
            sample_ms: Vec::new(),
        };
        let expect = result(&case(0));
        for seed in 1..20 {
            assert!(result(&case(seed)) == expect, "seed {seed} of {}", kind.arch);
        }
    }
}

#[test]
fn a_server_learns_what_a_group_learns() {
    let case = |arch| Case {
        kind: Kind { arch, nodes: 3, samples: 180 },
        evaluator: false,
        seed: 3,
        faults: Vec::new(),
        is_told: false,
        mute: false,
        sample_ms: Vec::new(),
    };
    let group = "arch: allreduce\nallreduce: {num_workers: 3}\nlocal_steps: {after: 4 rounds, steps: 3}\n\
                 outer: {lr: 0.9, momentum: 0.5, nesterov: true}\nclip_norm: 1.0\nwarmup: 3 rounds\nschedule: cosine";
    let server = "arch: flat\nparameter_server: {num_workers: 3}\nlocal_steps: {after: 4 rounds, steps: 3}\n\
                 outer: {lr: 0.9, momentum: 0.5, nesterov: true}\nclip_norm: 1.0\nwarmup: 3 rounds\nschedule: cosine";
    assert!(result(&case(group)) == result(&case(server)), "the same bits");
}

/// Faults by when they happen, in milliseconds.
fn faults(faults: &[(u64, Fault)]) -> Vec<(Duration, Fault)> {
    faults.iter().map(|(ms, fault)| (Duration::from_millis(*ms), fault.clone())).collect()
}

fn killed(machine: usize, back_ms: Option<u64>) -> Fault {
    Fault::Crash { machine, silent: false, back: back_ms.map(Duration::from_millis) }
}

fn frozen(machine: usize, ms: u64) -> Fault {
    Fault::Freeze { machine, time: Duration::from_millis(ms) }
}

/// Some faults under several seeds.
fn survives(kind: Kind, evaluator: bool, list: &[(u64, Fault)]) {
    for seed in 0..20 {
        let case = Case {
            kind,
            evaluator,
            seed,
            faults: faults(list),
            is_told: false,
            mute: false,
            sample_ms: Vec::new(),
        };
        if check(&case) != Verdict::Done {
            tell(&case, &case.play());
            panic!("it never began: {case:?}");
        }
    }
}

#[test]
fn the_last_node_works_also_where_the_evaluator_is_missing() {
    let all = [
        (900, killed(4, Some(3000))),
        (1000, killed(1, None)),
        (1100, killed(2, None)),
        (1200, killed(3, None)),
    ];
    survives(SYNC, true, &all);
    survives(GROUP, true, &all);
}

#[test]
fn a_relay_whose_workers_are_all_gone_works_itself() {
    let workers = [2, 3, 5, 6].map(|machine| (900 + 50 * machine as u64, killed(machine, None)));
    survives(HIERARCHY, false, &workers);
}

#[test]
fn a_group_whose_members_are_all_gone_goes_back_to_its_checkpoint() {
    let all = [1, 2, 3].map(|machine| (1500, killed(machine, Some(1000))));
    survives(GROUP, false, &all);
    survives(LOCAL_STEPS, false, &all);
}

#[test]
fn a_group_keeps_what_a_neighbour_says_early() {
    survives(GROUP, false, &[(640, killed(2, None)), (820, killed(1, Some(1460)))]);
    survives(GROUP, false, &[(1090, frozen(2, 13_900)), (2540, Fault::Cut { which: 5 })]);
}

#[test]
fn a_resumed_run_does_each_batch_once() {
    let crash = [(700, Fault::Cut { which: 3 }), (1000, killed(0, Some(500)))];
    for kind in ALL {
        survives(kind, false, &crash);
    }
}

#[test]
fn a_resumed_run_goes_on_without_those_who_are_gone() {
    for kind in ALL {
        survives(kind, false, &[(1000, killed(0, Some(500))), (1010, killed(2, None))]);
    }
}

#[test]
fn sixty_four_workers_come_and_go() {
    let kinds = [
        "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 64}",
        "arch: flat\nparameter_server: {aggr_type: async, num_workers: 64, max_staleness: 64}",
        "arch: allreduce\nallreduce: {num_workers: 64}",
    ];
    for arch in kinds {
        let kind = Kind { arch, nodes: 64, samples: 2000 };
        let comings = (1..=64).map(|machine| {
            let back = (machine % 4 != 0).then_some(500 + 40 * machine as u64);
            (1500 + 70 * machine as u64, killed(machine, back))
        });
        let list: Vec<_> = comings.collect();
        let case = Case {
            kind,
            evaluator: false,
            seed: 1,
            faults: faults(&list),
            is_told: false,
            mute: false,
            sample_ms: Vec::new(),
        };
        assert_eq!(check(&case), Verdict::Done);
    }
}

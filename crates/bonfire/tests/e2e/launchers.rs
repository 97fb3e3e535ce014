//! Ranks that something else started: by hand, by variables as launchers set them, and by a real mpirun. All of them
//! are real processes that have to find each other.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::program::{Bonfire, Dir, Outcome, Running, names};
use crate::record::Record;

/// A run of a moment.
const DIGITS: &str = "
    data={name: digits, train: 1500, test: 200}
    epochs=2
";

/// Starts all ranks, the last first: nobody may count on rank 0 being there.
fn start(ranks: u32, rank: impl Fn(u32) -> Bonfire) -> Vec<Running> {
    let mut running: Vec<Running> = (0..ranks).rev().map(|i| rank(i).start()).collect();
    running.reverse();
    running
}

/// Waits for all, which must end well, and only rank 0 has anything to say.
#[track_caller]
fn succeed(running: Vec<Running>) {
    let outcomes: Vec<Outcome> = running.into_iter().map(Running::wait).collect();
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        let outcome = outcome.expect(0);
        assert!(
            rank == 0 || outcome.stdout.is_empty() && outcome.stderr.is_empty(),
            "rank {rank}: {outcome:?}"
        );
    }
}

#[track_caller]
fn by_threads(dir: &Dir, workers: u32, settings: &str) -> Vec<u8> {
    dir.bonfire(&format!("train --quiet --out threads --workers {workers}")).set(settings).succeed();
    Record::of(dir.path("threads")).parameters()
}

/// A port that was free a moment ago.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn slurm(rank: u32, size: u32) -> String {
    format!(
        "SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_PROCID={rank} SLURM_NTASKS={size} SLURM_STEP_NUM_TASKS={size} \
         SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE={size} SLURM_STEP_NODELIST=pi03 SLURM_LAUNCH_NODE_IPADDR=127.0.0.1"
    )
}

#[test]
fn ranks_by_hand_are_workers_bit_for_bit() {
    let dir = Dir::new();
    let expect = by_threads(&dir, 3, DIGITS);
    let check = |name: &str, how: &str| {
        let rank = |i: u32| dir.bonfire(&format!("train --out {name} -n 3 -nr {i} {how}")).set(DIGITS);
        succeed(start(3, rank));
        assert!(Record::of(dir.path(name)).parameters() == expect, "{how}");
    };
    check("file", "--master 127.0.0.1");
    check("word", &format!("--master 127.0.0.1:{} --secret glowing-embers", port()));
    check("plain", &format!("--master 127.0.0.1:{} --insecure", port()));
    assert_eq!(names(&dir.path(".cache/bonfire/meet")), [""; 0], "the ticket is gone with its run");
    assert_eq!(dir.entries(), [".cache", "file", "plain", "threads", "word"], "one folder a run");
    let events = Record::of(dir.path("file")).told("node_joined");
    let roles: Vec<&str> = events.iter().filter_map(|event| event["role"].as_str()).collect();
    assert_eq!(roles, ["worker 0", "worker 1", "worker 2"]);
    let names: Vec<&str> = events.iter().filter_map(|event| event["name"].as_str()).collect();
    assert!(names.iter().enumerate().all(|(rank, name)| name.ends_with(&format!(":{rank}"))), "{names:?}");
}

#[test]
fn variables_of_launchers_are_enough() {
    let dir = Dir::new();
    let expect = by_threads(&dir, 3, DIGITS);
    let check = |name: &str, variables: &dyn Fn(u32) -> String| {
        let rank =
            |i: u32| dir.bonfire(&format!("train --quiet --out {name}")).set(DIGITS).env(&variables(i));
        succeed(start(3, rank));
        assert!(Record::of(dir.path(name)).parameters() == expect, "{name}");
    };
    let port = port();
    let torch = |i: u32| format!("RANK={i} WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT={port}");
    check("torchrun", &torch);
    check("torchrun-and-a-word", &|i| format!("{} BONFIRE_SECRET=glowing-embers", torch(i)));
    check("srun", &|i| slurm(i, 3));
    let mpi = |i: u32| {
        format!(
            "OMPI_COMM_WORLD_RANK={i} OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_SIZE=3 PMIX_NAMESPACE=99"
        )
    };
    check("mpirun", &mpi);
}

#[test]
fn a_batch_script_and_a_single_rank_are_alone() {
    let dir = Dir::new();
    let alone = |name: &str, variables: &str| {
        let line = format!("train --quiet --out {name} --workers 2");
        dir.bonfire(&line).set(DIGITS).env(variables).succeed();
        assert_eq!(Record::of(dir.path(name)).summary()["nodes"].as_u64(), None, "no network");
    };
    alone("batch", "SLURM_JOB_ID=17 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_NODEID=0");
    alone("single", "RANK=0 WORLD_SIZE=1 MASTER_ADDR=nowhere");
}

#[test]
fn every_architecture_runs_on_ranks() {
    let dir = Dir::new();
    let check = |name: &str, size: u32, arch: &str| {
        let settings = format!("{DIGITS}\n{arch}");
        let rank = |i: u32| {
            let line = format!("train --quiet --out {name} -n {size} -nr {i} --master 127.0.0.1");
            dir.bonfire(&line).set(&settings)
        };
        succeed(start(size, rank));
        let record = Record::of(dir.path(name));
        assert_eq!(record.told("node_joined").len(), size as usize, "{arch}");
        assert!((record.number("epochs") - 2.0).abs() < 1e-9, "{arch}");
    };
    check("group", 3, "arch=allreduce\n allreduce={num_workers: 3}");
    check("tree", 3, "arch=hierarchical\n global_server={local_servers: [{num_workers: 2}]}");
    check("measured", 3, "evaluator=true");
}

#[test]
fn a_head_of_its_own_and_nodes_without_a_ticket() {
    let dir = Dir::new();
    let expect = by_threads(&dir, 2, DIGITS);
    let rank = |i: u32| match i {
        0 => dir.bonfire("head --quiet --out run").set(DIGITS).env(&slurm(0, 3)),
        _ => dir.bonfire("node --quiet").env(&slurm(i, 3)),
    };
    let outcomes: Vec<Outcome> = start(3, rank).into_iter().map(Running::wait).collect();
    for outcome in outcomes {
        let outcome = outcome.expect(0);
        assert_eq!(outcome.stdout, "", "the ticket is not for everybody who reads the job's output");
    }
    assert!(Record::of(dir.path("run")).parameters() == expect);
}

#[test]
fn too_few_or_too_many_ranks_start_nothing() {
    let dir = Dir::new();
    let check = |size: u32, settings: &str, fragment: &str| {
        for i in 0..size {
            let line = format!("train --wait 20 -n {size} -nr {i} --master 127.0.0.1");
            dir.bonfire(&line).set(settings).run().refuse(fragment);
        }
    };
    check(3, "workers=2", "2 workers: that is 2 ranks, but 3 were started");
    check(2, "arch=allreduce\n allreduce={num_workers: 4}", "4 workers: that is 4 ranks, but 2 were started");
    let tree = "arch=hierarchical\n global_server={local_servers: [{num_workers: 2}, {num_workers: 2}]}";
    check(4, tree, "2 relays, 4 workers: that is 6 ranks, but 4 were started");
    let alone =
        |line: &str, variables: &str, fragment: &str| dir.bonfire(line).env(variables).run().refuse(fragment);
    alone("train -n 3 -nr 3 --master 127.0.0.1", "", "ranks go from 0 to 2");
    alone("train --workers 2 -n 3 -nr 1 --master 127.0.0.1", "", "2 workers: that is 2 ranks");
    alone("train --master 127.0.0.1", "", "are for several ranks");
    alone("train --insecure", "", "are for several ranks");
    alone("train", "RANK=1 WORLD_SIZE=2 BONFIRE_SECRET=glowing-embers", "--secret needs --master");
    alone("train -n 2 -nr 0 --master 127.0.0.1 --secret ember", "", "fewer than 8 letters");
    alone("train", "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE is not");
    alone("node", "", "give the ticket");
    alone("head", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1", "only rank 0 can be the head");
    assert!(dir.entries().iter().all(|entry| entry == ".cache"), "{:?}", dir.entries());
}

#[test]
fn what_is_wrong_at_rank_0_is_heard_by_all() {
    let dir = Dir::new();
    dir.write("taken/file", "something");
    let rank =
        |i: u32| dir.bonfire(&format!("train --out taken -n 3 -nr {i} --master 127.0.0.1")).set(DIGITS);
    for outcome in start(3, rank).into_iter().map(Running::wait) {
        outcome.refuse("taken");
    }
}

#[test]
fn another_secret_is_no_way_in() {
    let dir = Dir::new();
    let master = format!("127.0.0.1:{}", port());
    let rank = |i: u32, word: &str| {
        let line = format!("train --wait 8 --out run -n 2 -nr {i} --master {master} --secret {word}");
        dir.bonfire(&line).set(DIGITS)
    };
    let head = rank(0, "glowing-embers").start();
    let stranger = rank(1, "glowing-ember").run().expect(1);
    assert!(stranger.stderr.contains("rank 1 of 2: rank 0 has another secret"), "{}", stranger.stderr);
    let head = head.wait().expect(1);
    assert!(head.stderr.contains("only 1 of 2 nodes were there after 8 s"), "{}", head.stderr);
}

#[test]
fn who_waits_in_vain_is_told_what_to_do() {
    let dir = Dir::new();
    let rank = |i: u32| {
        dir.bonfire(&format!("train --wait 2 --out run -n 2 -nr {i} --master 127.0.0.1")).set(DIGITS)
    };
    let alone = rank(1).run().expect(1);
    assert!(alone.stderr.contains("rank 0 left no word in"), "{}", alone.stderr);
    assert!(alone.stderr.contains("--secret PASSPHRASE"), "{}", alone.stderr);
    let alone = rank(0).run().expect(1);
    assert!(
        alone.stderr.contains("only 1 of 2 nodes were there after 2 s; missing: 1 worker"),
        "{}",
        alone.stderr
    );
    assert!(alone.stderr.contains("--secret PASSPHRASE"), "{}", alone.stderr);
    let nowhere = format!("train --wait 1 -n 2 -nr 1 --master 127.0.0.1:{} --secret glowing-embers", port());
    let alone = dir.bonfire(&nowhere).run().expect(1);
    assert!(alone.stderr.contains("cannot reach 127.0.0.1:"), "{}", alone.stderr);
}

/// Long enough to be stopped.
const LONG: &str = "
    data={name: digits, train: 6000, test: 200}
    epochs=1000
    checkpoint_every=1000 epochs
    eval_every=1000 epochs
";

#[test]
fn a_rank_that_dies_is_no_reason_to_stop() {
    let dir = Dir::new();
    let line = |i: u32| format!("train --out run -n 3 -nr {i} --master 127.0.0.1");
    let mut ranks = start(3, |i| dir.bonfire(&line(i)).set(LONG));
    let record = Record::of(dir.path("run"));
    assert!(ranks[0].until("a round", || !record.told_so_far("progress").is_empty()));
    let killed = ranks.remove(2);
    killed.signal("KILL");
    drop(killed);
    assert!(ranks[0].until("the loss", || !record.told_so_far("node_lost").is_empty()));
    let rounds = record.told_so_far("progress").len();
    assert!(ranks[0].until("more rounds", || record.told_so_far("progress").len() > rounds));
    // It may come back, under its own rank.
    ranks.push(dir.bonfire(&line(2)).set(LONG).start());
    assert!(ranks[0].until("the newcomer", || record.told_so_far("node_joined").len() == 4));
    ranks[0].signal("INT");
    for rank in ranks {
        rank.wait().expect(130);
    }
    assert!(record.newest_round() > 0, "a checkpoint");
}

#[test]
fn a_signal_to_all_stops_in_order() {
    for arch in ["", "arch=allreduce\n allreduce={num_workers: 2}"] {
        let dir = Dir::new();
        let line = |i: u32| format!("train --quiet --out run -n 2 -nr {i} --master 127.0.0.1");
        let mut ranks = start(2, |i| dir.bonfire(&line(i)).set(LONG).set(arch));
        let record = Record::of(dir.path("run"));
        assert!(ranks[0].until("a round", || !record.told_so_far("progress").is_empty()));
        ranks.iter().for_each(|rank| rank.signal("TERM"));
        for rank in ranks {
            rank.wait().expect(130);
        }
        assert!(record.newest_round() > 0, "a checkpoint");
    }
}

/// Whether there is an mpirun. BONFIRE_TEST_MPI demands it; without it tests that need one are left out, loudly.
pub(crate) fn has_mpirun() -> bool {
    let version =
        Command::new("mpirun").arg("--version").stdout(Stdio::piped()).stderr(Stdio::null()).output();
    let found = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("Open MPI"));
    assert!(
        found || std::env::var_os("BONFIRE_TEST_MPI").is_none(),
        "BONFIRE_TEST_MPI is set, but there is no mpirun"
    );
    if !found {
        eprintln!("LEFT OUT: there is no mpirun of Open MPI; .ci/run installs one");
    }
    found
}

/// As root, and with more processes than cores: only tests do that.
pub(crate) const MPIRUN: &str = "--allow-run-as-root --oversubscribe";

#[test]
fn mpirun_just_works() {
    if !has_mpirun() {
        return;
    }
    let dir = Dir::new();
    let expect = by_threads(&dir, 3, DIGITS);
    let outcome =
        dir.bonfire_under("mpirun", &format!("{MPIRUN} -n 3"), "train --out mpi").set(DIGITS).succeed();
    assert!(Record::of(dir.path("mpi")).parameters() == expect);
    assert_eq!(outcome.stderr.matches("done in").count(), 1, "only rank 0 tells:\n{}", outcome.stderr);
    let outcome =
        dir.bonfire_under("mpirun", &format!("{MPIRUN} -n 2"), "train --out no").set("workers=5").run();
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("5 workers: that is 5 ranks, but 2 were started"), "{}", outcome.stderr);
}

#[test]
fn mpirun_that_is_stopped_leaves_a_checkpoint() {
    if !has_mpirun() {
        return;
    }
    let dir = Dir::new();
    let mut run =
        dir.bonfire_under("mpirun", &format!("{MPIRUN} -n 2"), "train --quiet --out run").set(LONG).start();
    let record = Record::of(dir.path("run"));
    assert!(run.until("a round", || !record.told_so_far("progress").is_empty()));
    run.signal("TERM");
    run.wait();
    assert!(record.newest_round() > 0, "a checkpoint");
    assert_eq!(record.summary()["exit"], "interrupted");
}

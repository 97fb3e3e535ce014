//! Every architecture as processes: it learns what one process learns, and where it promises the same bits it has them.

use crate::fire::{Fire, burn};
use crate::program::Dir;
use crate::record::Record;

/// Digits enough for a few seconds on one core.
const DIGITS: &str = "
    data={name: digits, train: 6000, test: 1000}
    epochs=3
";

const GRAMMAR: &str = "
    model=tagger
    data={name: grammar, train: 3000, test: 500}
    epochs=3
";

/// A model whose products are kept in factors where one process can, and shared among threads.
const LARGE_PRODUCTS: &str = "
    model={mlp: {hidden: [400, 200]}}
    data={name: digits, train: 2000, test: 500}
    epochs=3
";

#[track_caller]
fn alone(dir: &Dir, name: &str, workers: usize, settings: &str) -> Record {
    dir.bonfire(&format!("train --quiet --out {name} --workers {workers}")).set(settings).succeed();
    Record::of(dir.path(name))
}

fn flat(workers: usize, more: &str) -> String {
    format!("arch=flat\n parameter_server={{num_workers: {workers}{more}}}")
}

fn group(workers: usize, op: &str) -> String {
    format!("arch=allreduce\n allreduce={{num_workers: {workers}, op: {op}}}")
}

fn hierarchy(head: &str, relays: [&str; 2]) -> String {
    let relay = |kind: &str| format!("{{type: {kind}, num_workers: 2}}");
    let relays = relays.map(relay).join(", ");
    format!("arch=hierarchical\n global_server={{type: {head}, local_servers: [{relays}]}}")
}

#[test]
fn flat_sync_of_processes_is_that_of_threads_bit_for_bit() {
    for (workers, settings) in [(1, DIGITS), (2, GRAMMAR), (3, DIGITS), (2, LARGE_PRODUCTS)] {
        let dir = Dir::new();
        let settings = format!("{settings}\n epochs=1");
        let threads = alone(&dir, "threads", workers, &settings).parameters();
        let processes = burn(&dir, "processes", workers, &format!("{settings}\n{}", flat(workers, "")));
        assert!(processes.parameters() == threads, "{workers} workers");
        // Staleness that is bounded by nothing at all is the same.
        let bounded = flat(workers, ", type: async, max_staleness: 0");
        let bounded = burn(&dir, "bounded", workers, &format!("{settings}\n{bounded}"));
        assert!(bounded.parameters() == threads, "{workers} workers, bounded by 0");
    }
}

#[test]
fn a_head_that_works_is_the_first_of_the_workers_bit_for_bit() {
    for (workers, settings) in [(1, DIGITS), (2, GRAMMAR), (3, DIGITS)] {
        let dir = Dir::new();
        let settings = format!("{settings}\n epochs=1");
        let threads = alone(&dir, "threads", workers, &settings).parameters();
        for (name, arch) in [("flat", flat(workers, "")), ("group", group(workers, "mean"))] {
            let settings = format!("{settings}\n head.works=true\n{arch}");
            let record = burn(&dir, name, workers - 1, &settings);
            assert!(record.parameters() == threads, "{arch}");
            assert_eq!(record.told("node_joined").len(), workers, "{arch}");
            assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
        }
    }
}

#[test]
fn gradients_that_leave_layer_by_layer_are_the_same_bit_for_bit() {
    for (settings, arch) in [(GRAMMAR, flat(2, "")), (DIGITS, group(3, "mean")), (GRAMMAR, group(2, "mean"))]
    {
        for compression in ["none", "int8"] {
            let dir = Dir::new();
            let settings = format!("{settings}\n epochs=1\n compression={compression}\n{arch}");
            let nodes = if arch.contains(": 3") { 3 } else { 2 };
            let at_once = burn(&dir, "at-once", nodes, &format!("{settings}\n overlap=false"));
            let by_layers = burn(&dir, "by-layers", nodes, &settings);
            assert!(at_once.parameters() == by_layers.parameters(), "{compression}, {arch}");
        }
    }
}

#[test]
fn a_group_with_a_large_model_is_stopped_with_a_checkpoint() {
    let dir = Dir::new();
    let settings = format!("{LARGE_PRODUCTS}\n epochs=10000\n{}", group(2, "mean"));
    let mut fire = Fire::light(&dir, "run", "", &settings).join(&dir, 2);
    let record = Record::of(dir.path("run"));
    fire.head.until("a round", || !record.told_so_far("progress").is_empty());
    fire.head.signal("INT");
    let head = fire.head.wait().expect(130);
    assert!(head.stderr.contains("interrupted at round"), "{}", head.stderr);
    assert!(record.newest_round() > 0, "its state has several pieces, and all of them came");
}

#[test]
fn a_head_can_work_in_every_architecture() {
    let dir = Dir::new();
    let check = |name: &str, nodes: usize, role: &str, arch: &str| {
        let record = burn(&dir, name, nodes - 1, &format!("{DIGITS}\n epochs=1\n head.works=true\n{arch}"));
        let joined = record.told("node_joined");
        assert_eq!(joined.len(), nodes, "{joined:?}");
        assert_eq!(joined[0]["role"], role, "{joined:?}");
        assert!((record.number("epochs") - 1.0).abs() < 1e-9, "{name}: {}", record.number("epochs"));
        let saved = std::fs::read_to_string(record.0.join("run.yml")).expect("run.yml");
        assert!(saved.contains("works: true"), "{saved}");
    };
    check("async", 2, "worker 0", &flat(2, ", type: async"));
    check("backup", 3, "worker 0", &flat(2, ", backup_workers: 1"));
    check("evaluator", 3, "worker 0", &format!("evaluator=true\n{}", flat(2, "")));
    check("tree", 6, "relay 0", &hierarchy("sync", ["sync", "async"]));
    check("plain", 2, "worker 0", "workers=2");
}

#[test]
fn a_head_that_works_comes_back_as_a_worker() {
    let dir = Dir::new();
    let settings = format!("{DIGITS}\n epochs=20\n checkpoint_every=20 rounds\n{}", flat(2, ""));
    let mut fire = Fire::light(&dir, "run", "--set head.works=true", &settings);
    fire.head.until_said("waiting for 1 worker beside the head (1 of 2 joined");
    fire = fire.join(&dir, 1);
    fire.head.until_said("epoch  3/20");
    fire.head.signal("KILL");
    let record = fire.relight(&dir).burn_down();
    assert_eq!(record.told("resumed").len(), 1);
    assert_eq!(record.told("node_joined").len(), 4, "both, and both again");
    assert!(record.number("accuracy") > 0.9, "{}", record.number("accuracy"));
}

#[test]
fn threads_that_share_products_change_no_bit() {
    let dir = Dir::new();
    let with = |threads: usize| {
        let settings = format!("{LARGE_PRODUCTS}\n epochs=1\n threads={threads}");
        alone(&dir, &format!("threads-{threads}"), 1, &settings).parameters()
    };
    let one = with(1);
    assert!(with(2) == one, "two threads");
    assert!(with(3) == one, "three threads");
}

#[test]
fn every_architecture_learns_what_one_process_learns() {
    let learns = |data: &str, workers: usize, nodes: usize, arch: &str| {
        let dir = Dir::new();
        let data = format!("{data}\n epochs=6");
        let expect = alone(&dir, "alone", workers, &data).number("accuracy");
        let fire = burn(&dir, "fire", nodes, &format!("{data}\n{arch}"));
        let found = fire.number("accuracy");
        // Better is fine: many small updates learn faster than few large ones. Small data make small runs noisy.
        assert!(found > expect - 0.03, "{arch}: {found} against {expect}");
        let epochs = fire.number("epochs");
        assert!((epochs - 6.0).abs() < 1e-9, "{arch}: every sample counts once an epoch, not {epochs}");
    };
    learns(DIGITS, 2, 3, &flat(2, ", backup_workers: 1"));
    learns(DIGITS, 3, 3, &flat(3, ", type: async, max_staleness: 2"));
    learns(GRAMMAR, 2, 2, &flat(2, ", type: async, damping: 0.5"));
    learns(DIGITS, 4, 6, &hierarchy("sync", ["sync", "sync"]));
    learns(DIGITS, 4, 6, &hierarchy("sync", ["async", "async"]));
    learns(GRAMMAR, 4, 6, &hierarchy("async", ["sync", "async"]));
    learns(GRAMMAR, 3, 3, &group(3, "mean"));
    learns(DIGITS, 2, 2, &group(2, "adasum"));
}

#[test]
fn the_files_of_the_device_pool_project_run_as_they_are_printed() {
    let common = "---\nnum_server_rounds: 5\ntarget_accuracy: 0.9\nbatch_size: 32\n\n";
    let flat = "arch: flat\nparameter_server:\n    aggr_type: sync\n    num_workers: 4\n";
    let hierarchical = "arch: hierarchical\nglobal_server:\n  aggr_type: sync\n  local_servers:\n    - type: async\n\
                        \x20     num_workers: 2\n    - type: async\n      num_workers: 2\n";
    for (text, nodes) in [(flat, 4), (hierarchical, 6)] {
        let dir = Dir::new();
        dir.write("config.yml", format!("{common}{text}"));
        let fire = Fire::light(&dir, "run", "config.yml --quiet", "").join(&dir, nodes).burn_down();
        assert_eq!(fire.number("rounds"), 5.0);
        assert_eq!(fire.told("evaluated").len(), 1, "the target is checked within five rounds");
        assert_eq!(fire.told("node_joined").len(), nodes);
    }
}

#[test]
fn an_easy_target_ends_a_run_at_its_first_evaluation() {
    let dir = Dir::new();
    let settings = format!("{DIGITS}\n target_accuracy=0.2\n eval_every=20 rounds\n{}", flat(2, ""));
    let fire = burn(&dir, "run", 2, &settings);
    assert_eq!(fire.summary()["exit"], "target_reached");
    assert!(fire.number("rounds") < 200.0, "{}", fire.number("rounds"));
}

#[test]
fn an_evaluator_measures_beside_the_others_what_they_train() {
    let dir = Dir::new();
    let settings = format!("{DIGITS}\n epochs=2\n distribute=ship\n evaluator=true\n{}", flat(2, ""));
    let fire = burn(&dir, "run", 3, &settings);
    let alone = alone(&dir, "alone", 2, &format!("{DIGITS}\n epochs=2"));
    let measured = |record: &Record| -> Vec<(u64, f64)> {
        let evaluated = record.told("evaluated").into_iter();
        evaluated
            .map(|e| (e["round"].as_u64().expect("a round"), e["accuracy"].as_f64().expect("one")))
            .collect()
    };
    assert_eq!(measured(&fire), measured(&alone));
    // What was shipped was kept.
    let cached = crate::program::names(&dir.path(".cache/bonfire/data"));
    assert_eq!(cached.len(), 1, "{cached:?}");
}

#[test]
fn updates_are_logged_in_their_order() {
    let dir = Dir::new();
    let fire =
        burn(&dir, "run", 3, &format!("{DIGITS}\n epochs=1\n{}", flat(3, ", type: async, max_staleness: 2")));
    let mut next = 1;
    for stretch in fire.told("updates") {
        assert_eq!(stretch["first"].as_u64(), Some(next), "{stretch}");
        let by = stretch["by"].as_array().expect("a list");
        let staleness = stretch["staleness"].as_array().expect("a list");
        assert_eq!(by.len(), staleness.len());
        assert!(staleness.iter().all(|staleness| staleness.as_u64() <= Some(2)), "{stretch}");
        next += by.len() as u64;
    }
    assert_eq!(next - 1, fire.number("rounds") as u64);
}

#[test]
fn half_precision_halves_what_travels() {
    let dir = Dir::new();
    let settings = format!("{GRAMMAR}\n epochs=1\n{}", flat(2, ""));
    let single = burn(&dir, "single", 2, &settings);
    let half = burn(&dir, "half", 2, &format!("{settings}\n compression=f16"));
    let ratio = half.number("received_bytes") / single.number("received_bytes");
    assert!((0.49..0.53).contains(&ratio), "{ratio}");
    assert!(half.number("accuracy") > single.number("accuracy") - 0.02);
}

#[test]
fn the_members_of_a_group_are_equal_after_every_round() {
    // With an evaluation every round the head compares the parameters of all members every round.
    for (settings, op) in [(DIGITS, "mean"), (GRAMMAR, "adasum")] {
        let dir = Dir::new();
        let settings =
            format!("{settings}\n epochs=\n num_server_rounds=30\n eval_every=1 rounds\n{}", group(3, op));
        let record = burn(&dir, "run", 3, &settings);
        assert_eq!(record.told("evaluated").len(), 30);
        assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
    }
}

#[test]
fn a_worker_that_dies_is_done_without_and_said_so() {
    let dir = Dir::new();
    let settings = format!("{DIGITS}\n epochs=20\n{}", flat(3, ""));
    let mut fire = Fire::light(&dir, "run", "", &settings).join(&dir, 3);
    fire.head.until_said("epoch  2/20");
    fire.nodes.remove(1).signal("KILL");
    let record = fire.burn_down();
    let lost = record.told("node_lost");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!((record.number("epochs") - 20.0).abs() < 1e-9, "every sample counts once an epoch");
    assert!(record.number("accuracy") > 0.9, "{}", record.number("accuracy"));
}

#[test]
fn a_group_goes_on_without_a_member_that_died() {
    let dir = Dir::new();
    let settings = format!("{DIGITS}\n epochs=20\n{}", group(3, "mean"));
    let mut fire = Fire::light(&dir, "run", "", &settings).join(&dir, 3);
    fire.head.until_said("epoch  2/20");
    fire.nodes.remove(1).signal("KILL");
    let record = fire.burn_down();
    assert_eq!(record.told("node_lost").len(), 1);
    assert!((record.number("epochs") - 20.0).abs() < 0.02, "{}", record.number("epochs"));
    assert!(record.number("accuracy") > 0.9, "{}", record.number("accuracy"));
}

#[test]
fn the_workers_of_a_relay_that_died_find_another_parent() {
    let dir = Dir::new();
    let settings = format!("{DIGITS}\n epochs=20\n{}", hierarchy("sync", ["sync", "sync"]));
    let mut fire = Fire::light(&dir, "run", "", &settings).join(&dir, 6);
    fire.head.until_said("epoch  2/20");
    let relay =
        fire.nodes.iter().position(|node| node.said().contains("relay")).expect("a node that is a relay");
    fire.nodes.remove(relay).signal("KILL");
    let record = fire.burn_down();
    assert_eq!(record.told("node_lost").len(), 1);
    assert!((record.number("epochs") - 20.0).abs() < 1e-9, "{}", record.number("epochs"));
}

#[test]
fn a_head_that_died_comes_back_and_its_nodes_with_it() {
    for arch in [flat(2, ""), group(2, "mean"), hierarchy("sync", ["sync", "async"])] {
        let nodes = if arch.contains("hierarchical") { 6 } else { 2 };
        let dir = Dir::new();
        let settings = format!("{DIGITS}\n epochs=20\n checkpoint_every=20 rounds\n{arch}");
        let mut fire = Fire::light(&dir, "run", "", &settings).join(&dir, nodes);
        fire.head.until_said("epoch  3/20");
        fire.head.signal("KILL");
        let ticket = fire.ticket.clone();
        let record = fire.relight(&dir).burn_down();
        assert_eq!(record.told("resumed").len(), 1);
        assert!(record.number("accuracy") > 0.9, "{arch}: {}", record.number("accuracy"));
        let started = record.told("started");
        assert_eq!(started.len(), 2, "{ticket}");
    }
}

#[test]
fn a_frozen_worker_is_done_without_and_comes_back() {
    for arch in [flat(2, ""), group(2, "mean")] {
        let dir = Dir::new();
        let settings = format!("{DIGITS}\n epochs=900\n silence_s=1\n{arch}");
        let mut fire = Fire::light(&dir, "run", "", &settings).join(&dir, 2);
        fire.head.until_said("epoch   2/900");
        fire.nodes[1].signal("STOP");
        fire.head.until_said("was lost in round");
        fire.head.until_said("silent for 1.0 s");
        fire.nodes[1].signal("CONT");
        let joined = || Record::of(dir.path("run")).told_so_far("node_joined").len();
        assert!(fire.head.until("the node's return", || joined() == 3));
        fire.head.until_said("n2 is back, ");
        fire.head.signal("INT");
        let head = fire.head.wait().expect(130);
        assert!(head.stderr.contains("interrupted at round"), "{}", head.stderr);
        for node in fire.nodes {
            node.wait().expect(0);
        }
    }
}

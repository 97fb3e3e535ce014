//! Members that train by themselves between two exchanges: they learn as much, stay equal, and come back.

use serde_json::Value;

use crate::fire::{Fire, burn};
use crate::program::Dir;
use crate::record::Record;

const DIGITS: &str = "
    data={name: digits, train: 6000, test: 1000}
    epochs=12
    arch=allreduce
    allreduce={num_workers: 3}
";

const APART: &str = "
    local_steps=4
    compression=int8
";

#[test]
fn rare_and_rounded_exchanges_learn_as_much() {
    let dir = Dir::new();
    let always = burn(&dir, "always", 3, DIGITS);
    // With an evaluation every few rounds the head compares the parameters of all members then.
    let apart = burn(&dir, "apart", 3, &format!("{DIGITS}{APART} eval_every=3 rounds\n"));
    assert_eq!(apart.told("warned").len(), 0, "{:?}", apart.told("warned"));
    let (always_right, apart_right) = (always.number("accuracy"), apart.number("accuracy"));
    assert!(apart_right > always_right - 0.01, "{apart_right} against {always_right}");
    assert!((apart.number("epochs") - 12.0).abs() < 1e-9, "every sample counts once an epoch");
    let (rounds, fewer) = (always.number("rounds"), apart.number("rounds"));
    assert_eq!(fewer, (rounds / 4.0).ceil(), "{rounds} rounds of one step");
    let (bytes, fewer) = (sent(&always), sent(&apart));
    assert!(fewer < bytes / 4.0, "{fewer} bytes instead of {bytes}");
}

#[test]
fn members_that_do_not_wait_or_stay_apart_learn_as_much() {
    let dir = Dir::new();
    let waiting = burn(&dir, "waiting", 3, &format!("{DIGITS}{APART}"));
    // With an evaluation every few rounds the head compares the parameters of all members then.
    for (name, rule) in [("delayed", "outer={delay: 2}"), ("elastic", "easgd={rho: 0.3}")] {
        let run = burn(&dir, name, 3, &format!("{DIGITS}{APART} {rule}\n eval_every=7 rounds\n"));
        assert_eq!(run.told("warned").len(), 0, "{name}: {:?}", run.told("warned"));
        assert!((run.number("epochs") - 12.0).abs() < 1e-9, "{name}: every sample counts once an epoch");
        assert_eq!(run.number("rounds"), waiting.number("rounds"), "{name}");
        let (right, expect) = (run.number("accuracy"), waiting.number("accuracy"));
        assert!(right > expect - 0.02, "{name}: {right} against {expect}");
        assert!(run.parameters() != waiting.parameters(), "{name} is something else");
    }
}

/// How many bytes the nodes sent, to each other and to the head.
fn sent(record: &Record) -> f64 {
    let lines = |told: &Value| told["nodes"].as_array().cloned().unwrap_or_default();
    let lines = record.told("nodes").iter().flat_map(lines).collect::<Vec<Value>>();
    lines.iter().filter_map(|line| line["sent_bytes"].as_f64()).sum()
}

#[test]
fn a_head_that_died_goes_on_with_the_velocity_of_its_checkpoint() {
    let dir = Dir::new();
    let more = "epochs=20\n checkpoint_every=5 rounds\n outer={momentum: 0.3}";
    let settings = format!("{DIGITS}{APART} {more}\n");
    let mut fire = Fire::light(&dir, "run", "", &settings).join(&dir, 3);
    fire.head.until_said("epoch  3/20");
    fire.head.signal("KILL");
    let record = fire.relight(&dir).burn_down();
    assert_eq!(record.told("resumed").len(), 1);
    let warned = record.told("warned");
    assert!(!warned.iter().any(|warned| warned.to_string().contains("other parameters")), "{warned:?}");
    assert!((record.number("epochs") - 20.0).abs() < 1e-9);
    assert!(record.number("accuracy") > 0.9, "{}", record.number("accuracy"));
}

const SERVER: &str = "
    data={name: digits, train: 6000, test: 1000}
    epochs=12
    arch=flat
    parameter_server={num_workers: 3}
";

#[test]
fn workers_of_a_server_learn_what_a_group_learns() {
    let dir = Dir::new();
    let steps =
        "epochs=4\n local_steps={after: 20 rounds, steps: 4}\n outer={momentum: 0.3}\n eval_every=7 rounds\n";
    let group = burn(&dir, "group", 3, &format!("{DIGITS} {steps}"));
    let server = burn(&dir, "server", 3, &format!("{SERVER} {steps}"));
    dir.bonfire("train --quiet --out threads").set(&format!("{SERVER} {steps}")).succeed();
    for record in [&server, &Record::of(dir.path("threads"))] {
        assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
        assert_eq!(record.number("rounds"), group.number("rounds"));
        assert!(record.parameters() == group.parameters(), "the same bits");
    }
    let relays = "arch=hierarchical\n global_server={local_servers: [{num_workers: 2}, {num_workers: 1}]}";
    let settings = SERVER.replace("arch=flat\n    parameter_server={num_workers: 3}", relays);
    let relayed = burn(&dir, "relayed", 5, &format!("{settings} {steps}"));
    assert_eq!(relayed.told("warned").len(), 0, "{:?}", relayed.told("warned"));
    assert_eq!(relayed.number("rounds"), group.number("rounds"));
    let (right, expect) = (relayed.number("accuracy"), group.number("accuracy"));
    assert!((right - expect).abs() < 0.02, "{right} against {expect}");
}

#[test]
fn rare_and_rounded_pushes_learn_as_much() {
    let dir = Dir::new();
    let always = burn(&dir, "always", 3, SERVER);
    let apart = burn(&dir, "apart", 3, &format!("{SERVER}{APART} eval_every=3 rounds\n"));
    assert_eq!(apart.told("warned").len(), 0, "{:?}", apart.told("warned"));
    let (always_right, apart_right) = (always.number("accuracy"), apart.number("accuracy"));
    assert!(apart_right > always_right - 0.01, "{apart_right} against {always_right}");
    assert!((apart.number("epochs") - 12.0).abs() < 1e-9, "every sample counts once an epoch");
    let (bytes, fewer) = (sent(&always), sent(&apart));
    assert!(fewer < bytes / 4.0, "{fewer} bytes instead of {bytes}");
}

/// Kills the head of a run in the middle, and lights it again.
fn killed_and_resumed(dir: &Dir, settings: &str, at: &str) -> Record {
    let mut fire = Fire::light(dir, "killed", "", settings).join(dir, 3);
    fire.head.until_said(at);
    fire.head.signal("KILL");
    let record = fire.relight(dir).burn_down();
    assert_eq!(record.told("resumed").len(), 1);
    let warned = record.told("warned");
    assert!(!warned.iter().any(|warned| warned.to_string().contains("other parameters")), "{warned:?}");
    record
}

/// Of an optimiser that remembers nothing, a checkpoint has everything.
#[test]
fn a_server_that_died_ends_with_the_same_bits() {
    let dir = Dir::new();
    let more = "epochs=8\n checkpoint_every=5 rounds\n outer={momentum: 0.3}\n optimizer={sgd: {lr: 0.05}}";
    let settings = format!("{SERVER}{APART} {more}\n");
    let whole = burn(&dir, "whole", 3, &settings);
    let resumed = killed_and_resumed(&dir, &settings, "epoch 2/8");
    assert!(resumed.parameters() == whole.parameters(), "the same bits");
}

#[test]
fn a_server_that_died_goes_on_with_the_moments_of_a_worker() {
    let dir = Dir::new();
    let more = "epochs=20\n checkpoint_every=5 rounds\n outer={momentum: 0.3}";
    let record = killed_and_resumed(&dir, &format!("{SERVER}{APART} {more}\n"), "epoch  3/20");
    assert!((record.number("epochs") - 20.0).abs() < 1e-9);
    assert!(record.number("accuracy") > 0.9, "{}", record.number("accuracy"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = Dir::new();
    let refuse = |settings: &str, expect: &str| dir.bonfire("train").set(settings).run().refuse(expect);
    refuse("local_steps=0", "local_steps=0: must be at least 1");
    refuse("local_steps=4", "is for several machines: on one, exchanges cost nothing");
    let server = "arch=flat\n local_steps=4\n parameter_server=";
    refuse(&format!("{server}{{aggr_type: async, num_workers: 2}}"), "above 1 is only for `aggr_type: sync`");
    let server = format!("{server}{{num_workers: 2}}\n");
    refuse(&format!("{server} easgd={{rho: 0.1}}"), "is only for `arch: allreduce`");
    refuse(&format!("{server} outer={{delay: 2}}"), "is only for `arch: allreduce`");
    refuse(&format!("{server} compression={{powersgd: 2}}"), "powersgd is only for `arch: allreduce`");
}

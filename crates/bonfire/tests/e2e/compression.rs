//! Gradients that lose something on their way: runs learn as much, members stay equal, and a killed run goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fire::burn;
use crate::program::Dir;
use crate::record::Record;

const DIGITS: &str = "
    data={name: digits, train: 2048, test: 500}
    arch=allreduce
    allreduce={num_workers: 2}
    checkpoint_every=20 rounds
";

/// Of [`DIGITS`].
const ROUNDS_PER_EPOCH: u64 = 2048 / (2 * 32);

const LOSSY: [&str; 3] = [
    "compression=int8",
    "compression={powersgd: 2}",
    "compression={top_k: 0.02}\n optimizer={sgd: {lr: 0.05, momentum: 0.9}}",
];

#[test]
fn killed_and_resumed_it_ends_like_one_that_nothing_disturbed() {
    for compression in LOSSY {
        let dir = Dir::new();
        let (run, undisturbed) = (Record::of(dir.path("killed")), Record::of(dir.path("undisturbed")));
        let train = |record: &Record, length: &str| {
            let command = dir.bonfire("train --quiet --out").arg(&record.0);
            command.set(DIGITS).set(compression).set(length)
        };
        let mut running = train(&run, "epochs=1000000").start();
        running.until("a second checkpoint", || run.newest_round() >= 40);
        running.kill_after(Duration::from_millis(30));
        let length = format!("epochs={}", run.newest_round() / ROUNDS_PER_EPOCH + 2);
        dir.bonfire("train --quiet --resume").arg(&run.0).set(&length).succeed();
        train(&undisturbed, &length).succeed();
        assert!(run.parameters() == undisturbed.parameters(), "{compression}, {length}");
    }
}

#[test]
fn packed_gradients_are_the_same_in_fewer_bytes() {
    let dir = Dir::new();
    for arch in
        ["arch=allreduce\n allreduce={num_workers: 3}", "arch=flat\n parameter_server={num_workers: 3}"]
    {
        let settings =
            format!("data={{name: digits, train: 2048, test: 50}}\n num_server_rounds=20\n {arch}");
        let name = |name: &str| format!("{name}-{}", &arch[5..8]);
        let plain = burn(&dir, &name("plain"), 3, &settings);
        let packed = burn(&dir, &name("packed"), 3, &format!("{settings}\n compression=lossless"));
        assert!(plain.parameters() == packed.parameters(), "{arch}");
        let ratio = exchanged(&packed) / exchanged(&plain);
        assert!(ratio < 0.95, "{ratio} of the bytes: {arch}");
    }
}

#[test]
fn the_largest_values_are_a_fraction_of_the_bytes_under_every_way() {
    let dir = Dir::new();
    for arch in
        ["arch=allreduce\n allreduce={num_workers: 3}", "arch=flat\n parameter_server={num_workers: 3}"]
    {
        let settings = format!(
            "data={{name: digits, train: 2048, test: 50}}\n model=lenet\n num_server_rounds=30\n \
             checkpoint_every=30 rounds\n optimizer={{sgd: {{lr: 0.05, momentum: 0.9}}}}\n eval_every=1 rounds\n {arch}"
        );
        let name = |name: &str| format!("{name}-{}", &arch[5..8]);
        let whole = burn(&dir, &name("whole"), 3, &settings);
        let few = burn(&dir, &name("few"), 3, &format!("{settings}\n compression={{top_k: 0.01}}"));
        assert_eq!(few.told("warned").len(), 0, "{:?}", few.told("warned"));
        let ratio = exchanged(&few) / exchanged(&whole);
        // The last of 30 rounds is exact; in the others one value of 100 in twice the bytes, back up to three.
        let most = (1.0 + 29.0 * 0.02 * 2.0) / 30.0;
        assert!(ratio < 1.1 * most, "{ratio} of the bytes instead of {most}: {arch}");
    }
}

#[test]
fn factors_are_a_fraction_of_the_bytes_and_members_stay_equal() {
    let dir = Dir::new();
    // With an evaluation every round the head compares the parameters of all members every round.
    let settings = "
        data={name: digits, train: 2048, test: 50}
        model={mlp: {hidden: [256]}}
        num_server_rounds=30
        eval_every=1 rounds
        checkpoint_every=30 rounds
        arch=allreduce
        allreduce={num_workers: 3}
    ";
    let whole = burn(&dir, "whole", 3, settings);
    let factors = burn(&dir, "factors", 3, &format!("{settings} compression={{powersgd: 2}}\n"));
    for record in [&whole, &factors] {
        assert_eq!(record.told("evaluated").len(), 30);
        assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
    }
    let ratio = exchanged(&factors) / exchanged(&whole);
    // 29 rounds of factors, 2 (784 + 256 + 256 + 10) values and 266 biases of 203,530; and one that is exact. So few
    // are one chunk an exchange, which the first member sums: another one sends it once, and of all else 4/3.
    let expect = (1.0 + 29.0 * 0.75 * 2878.0 / 203_530.0) / 30.0;
    assert!((expect..1.1 * expect).contains(&ratio), "{ratio} for {expect}");
}

/// How many bytes a member sent to the others. One of them sends states to the head, too: that one is not it.
fn exchanged(record: &Record) -> f64 {
    let mut sent: BTreeMap<u64, f64> = BTreeMap::new();
    for told in record.told("nodes") {
        for line in told["nodes"].as_array().into_iter().flatten() {
            let bytes = line["sent_bytes"].as_f64().expect("bytes");
            *sent.entry(line["node"].as_u64().expect("a node")).or_default() += bytes;
        }
    }
    assert_eq!(sent.len(), 3, "{sent:?}");
    sent.into_values().fold(f64::INFINITY, f64::min)
}

#[test]
fn factors_learn_as_much() {
    let dir = Dir::new();
    let accuracy = |name: &str, compression: &str| {
        let record = Record::of(dir.path(name));
        let train = dir.bonfire("train --quiet --out").arg(&record.0).set(DIGITS).set(compression);
        train.set("data.train=20000\n data.test=2000\n checkpoint_every=1 epochs").succeed();
        record.number("accuracy")
    };
    let (whole, factors) =
        (accuracy("whole", "compression=none"), accuracy("factors", "compression={powersgd: 4}"));
    assert!(factors > whole - 0.005, "{factors} against {whole}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = Dir::new();
    let check = |settings: &str, fragment: &str| dir.bonfire("train").set(settings).run().refuse(fragment);
    let group = "arch=allreduce\n allreduce={num_workers: 2}";
    check(&format!("{group}\n compression={{powersgd: 0}}"), "compression.powersgd: must be from 1 to 64");
    check("compression={powersgd: 2}", "powersgd is only for `arch: allreduce`");
    check(
        "compression={powersgd: 2}\n arch=allreduce\n allreduce={num_workers: 2, op: adasum}",
        "adasum combines gradients as they are",
    );
    check(
        &format!("{group}\n compression={{top_k: 1.5}}"),
        "compression.top_k: must be above 0 and at most 1",
    );
    check(&format!("{group}\n compression={{top_k: 0}}"), "compression.top_k: must be above 0 and at most 1");
    check(&format!("{group}\n compression={{top_k: 0.01}}"), "top_k is for `optimizer: sgd`");
    let sgd = "optimizer={sgd: {lr: 0.1}}";
    check(
        &format!("{group}\n {sgd}\n compression={{top_k: 0.01}}\n local_steps=4"),
        "top_k is for gradients: leave out `local_steps`",
    );
    assert_eq!(dir.entries(), [""; 0], "nothing was started");
}

//! Workers whose shares of a round are not equal.

use crate::fire::{Fire, burn};
use crate::program::Dir;
use crate::record::Record;

const DIGITS: &str = "
    data={name: digits, train: 3000, test: 500}
    epochs=2
";

const FLAT: &str = "arch=flat\n parameter_server={num_workers: 2}";
const GROUP: &str = "arch=allreduce\n allreduce={num_workers: 2}";

/// What was said of shares: by name how many samples, and why.
fn shares(record: &Record) -> Vec<(Vec<(String, u64)>, String)> {
    let line = |line: &serde_json::Value| {
        (line["name"].as_str().unwrap_or_default().to_owned(), line["samples"].as_u64().unwrap_or_default())
    };
    let of = |event: &serde_json::Value| {
        let mut lines: Vec<_> = event["shares"].as_array().expect("shares").iter().map(line).collect();
        lines.sort();
        (lines, event["reason"].as_str().unwrap_or_default().to_owned())
    };
    record.told("shares").iter().map(of).collect()
}

#[test]
fn who_is_named_has_its_share() {
    for arch in [FLAT, GROUP] {
        let dir = Dir::new();
        let settings = format!("{DIGITS}\n{arch}\n shares={{n1: 1, n2: 3}}");
        let record = burn(&dir, "run", 2, &settings);
        let told = shares(&record);
        let [(lines, reason)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(*lines, [("n1".to_owned(), 16), ("n2".to_owned(), 48)]);
        assert_eq!(reason, "as the run file says");
        let epochs: Vec<_> =
            record.told("epoch_ended").iter().map(|event| event["samples"].clone()).collect();
        assert_eq!(epochs, [3000, 3000], "every sample once an epoch");
        let equal = burn(&dir, "equal", 2, &format!("{DIGITS}\n{arch}"));
        assert_eq!(shares(&equal), [], "on one machine shares stay equal unless they are asked for");
        let accuracy =
            |record: &Record| record.json("summary.json")["accuracy"].as_f64().expect("an accuracy");
        assert!((accuracy(&record) - accuracy(&equal)).abs() < 0.05, "the batch of all is the same");
    }
}

#[test]
fn threads_have_shares_too() {
    let dir = Dir::new();
    for (name, arch) in [("flat", FLAT), ("group", GROUP)] {
        let settings = format!("{DIGITS}\n epochs=1\n{arch}\n shares={{thread-1: 3}}");
        dir.bonfire(&format!("train --quiet --out {name}")).set(&settings).succeed();
        let told = shares(&Record::of(dir.path(name)));
        assert_eq!(told[0].0, [("thread-1".to_owned(), 48), ("thread-2".to_owned(), 16)]);
        // Resumed, they are the same.
        dir.bonfire(&format!("train --quiet --resume {name} --set epochs=2")).succeed();
        let again = shares(&Record::of(dir.path(name)));
        assert_eq!(again.len(), 2);
        assert_eq!(again[0].0, again[1].0);
    }
    for dynamic in ["-1", "0", "1"] {
        let settings = format!("{DIGITS}\n{FLAT}\n dynamic={dynamic}");
        dir.bonfire(&format!("train --quiet --out dynamic{dynamic}")).set(&settings).succeed();
    }
}

#[test]
fn shares_that_make_no_sense_are_refused() {
    let dir = Dir::new();
    let check = |settings: &str, expect: &str| {
        dir.bonfire("train --quiet --out run").set(settings).run().refuse(expect);
    };
    check("shares=auto", "shares=auto: is for workers on several machines");
    check("dynamic=2", "dynamic=2: is for workers on several machines");
    check("shares=fast", "expected equal, auto, or a mapping");
    check(&format!("{FLAT}\n shares={{thread-1: 0}}"), "must be above 0");
    check(
        &format!("{FLAT}\n shares={{pi3: 1}}"),
        "no worker is called pi3: here they are thread-1, thread-2",
    );
    check(&format!("{FLAT}\n dynamic=-3"), "dynamic=-3: must be -1 (off), 0 (once) or a number of epochs");
    check(
        &format!("{FLAT}\n local_steps=4\n shares=auto"),
        "shares=auto: cannot be unequal with local_steps under a server",
    );
}

#[test]
fn a_share_for_somebody_who_is_not_there_is_wrong_input() {
    let dir = Dir::new();
    let fire = Fire::light(&dir, "run", "--quiet", &format!("{DIGITS}\n{FLAT}\n shares={{n1: 1, pi9: 2}}"));
    let fire = fire.join(&dir, 2);
    let head = fire.head.wait().expect(2);
    let expect = "pi9 is no worker of this run: those are n1, n2";
    assert!(head.stderr.contains(expect), "{}", head.stderr);
    for node in fire.nodes {
        node.wait().expect(1);
    }
}

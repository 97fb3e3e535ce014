//! Runs that leave open how their members exchange: what suits the network is chosen, said, and kept.

use serde_json::Value;

use crate::bed::{Bed, is_wanted};
use crate::fire::burn;
use crate::program::Dir;
use crate::record::Record;

const DIGITS: &str = "
    data={name: digits, train: 2000, test: 200}
    epochs=3
    arch=allreduce
    allreduce={num_workers: 3}
";

const OPEN: &str = "
    compression=auto
    local_steps=auto
";

const SLOW: &str = "
    data={name: digits, train: 28800, test: 200}
    model={lenet5: {}}
    batch_size=8
    epochs=1
";

/// The one choice that a run has made.
#[track_caller]
fn chosen(record: &Record) -> Value {
    let mut chosen = record.told("chosen");
    assert_eq!(chosen.len(), 1, "{chosen:?}");
    chosen.remove(0)
}

#[test]
fn on_one_machine_nothing_is_chosen_and_nothing_changes() {
    let dir = Dir::new();
    let plain = burn(&dir, "plain", 3, DIGITS);
    let open = burn(&dir, "open", 3, &format!("{DIGITS}{OPEN}"));
    dir.bonfire("train --quiet --out threads").set(&format!("{DIGITS}{OPEN}")).succeed();
    for record in [&open, &Record::of(dir.path("threads"))] {
        let chosen = chosen(record);
        assert_eq!((&chosen["int8"], &chosen["local_steps"]), (&false.into(), &1.into()), "{chosen}");
        assert_eq!(chosen["reason"], "all members are on one machine, so there is no wire to save");
        assert_eq!(record.number("rounds"), plain.number("rounds"));
        assert!(record.parameters() == plain.parameters(), "the same bits");
    }
    assert_eq!(plain.told("chosen").len(), 0);
}

#[test]
fn a_server_on_one_machine_chooses_nothing() {
    let dir = Dir::new();
    let settings = DIGITS.replace("arch=allreduce\n    allreduce", "arch=flat\n    parameter_server");
    let plain = burn(&dir, "plain", 3, &settings);
    let open = burn(&dir, "open", 3, &format!("{settings}{OPEN}"));
    dir.bonfire("train --quiet --out threads").set(&format!("{settings}{OPEN}")).succeed();
    for record in [&open, &Record::of(dir.path("threads"))] {
        let chosen = chosen(record);
        assert_eq!((&chosen["int8"], &chosen["local_steps"]), (&false.into(), &1.into()), "{chosen}");
        assert_eq!(chosen["reason"], "all members are on one machine, so there is no wire to save");
        assert!(record.parameters() == plain.parameters(), "the same bits");
    }
    assert_eq!(plain.told("chosen").len(), 0);
}

#[test]
fn a_choice_is_said_in_a_line() {
    let dir = Dir::new();
    let train = dir.bonfire("train").set(&format!("{DIGITS}{OPEN}")).succeed();
    let line = "auto changes nothing: all members are on one machine, so there is no wire to save";
    assert_eq!(train.stderr.matches(line).count(), 1, "{}", train.stderr);
}

#[test]
fn what_cannot_be_left_open_is_refused() {
    let dir = Dir::new();
    let refuse = |settings: &str, expect: &str| dir.bonfire("train").set(settings).run().refuse(expect);
    refuse("local_steps=auto", "local_steps=auto: auto is for several machines");
    refuse("compression=auto", "compression=auto: auto is for several machines");
    let group = "arch=allreduce\n allreduce={num_workers: 2}";
    refuse(&format!("{group}\n local_steps=automatic"), "a number of steps, auto, or a mapping");
    refuse(&format!("{group}\n local_steps=auto\n num_server_rounds=100"), "together with num_server_rounds");
}

/// An epoch of lenet5 on hosts with slow links: whatever the architecture, int8 and local steps are chosen, and every
/// sample counts once.
#[track_caller]
fn chosen_over_a_slow_link(bed: &Bed, architecture: &str) -> (Record, Value) {
    let settings = format!("{SLOW}{architecture}{OPEN}");
    bed.bonfire("run --quiet --out slow").set(&settings).succeed();
    let record = Record::of(bed.lab.dir.path("slow"));
    let chosen = chosen(&record);
    assert_eq!(chosen["int8"], true, "{chosen}");
    assert!(chosen["local_steps"].as_u64() > Some(1), "{chosen}");
    assert_eq!(record.number("rounds") as u64, chosen["rounds"].as_u64().expect("a number"));
    assert!((record.number("epochs") - 1.0).abs() < 1e-9, "every sample counts once an epoch");
    (record, chosen)
}

/// A gradient of lenet5 is 247 KB, of which an exchange takes 130 ms here.
#[test]
fn over_a_slow_link_int8_and_local_steps_are_chosen() {
    if !is_wanted("over_a_slow_link_int8_and_local_steps_are_chosen") {
        return;
    }
    let bed = Bed::shaped('q', 3, "--rate 20mbit");
    let settings = "
        arch=allreduce
        allreduce={num_workers: 3}
    ";
    let (record, chosen) = chosen_over_a_slow_link(&bed, settings);
    assert!(chosen["after"].as_u64() >= Some(100), "after the first hundred of 1200 rounds: {chosen}");
    let reason = chosen["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("the wire takes ") && reason.contains("Mbit/s; int8 and "), "{reason}");
    assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
    bed.end();
}

/// Three gradients of lenet5 go through the link of the head in 300 ms here.
#[test]
fn a_server_chooses_over_a_slow_link() {
    if !is_wanted("a_server_chooses_over_a_slow_link") {
        return;
    }
    let bed = Bed::shaped('v', 4, "--rate 20mbit");
    let settings = "
        arch=flat
        parameter_server={num_workers: 3}
        head={works: false}
    ";
    let (_, chosen) = chosen_over_a_slow_link(&bed, settings);
    let reason = chosen["reason"].as_str().expect("a reason");
    assert!(reason.contains(" MB through the server's link at "), "{reason}");
    let few = format!("{}{settings}", SLOW.replace("epochs=1", "num_server_rounds=20"));
    bed.bonfire("run --quiet --out told").set(&few).succeed();
    let told = Record::of(bed.lab.dir.path("told")).told("noted");
    let said =
        |told: &&Value| told["message"].as_str().is_some_and(|said| said.starts_with("the wire takes "));
    let said: Vec<&Value> = told.iter().filter(said).collect();
    assert_eq!(said.len(), 1, "{told:?}");
    assert!(said[0].to_string().contains("one machine alone: "), "{said:?}");
    bed.end();
}

/// A relay with three workers on a slow link: more goes through that than through the head's.
#[test]
fn relays_choose_over_a_slow_link() {
    if !is_wanted("relays_choose_over_a_slow_link") {
        return;
    }
    let bed = Bed::shaped('r', 5, "--rate 20mbit");
    let settings = "
        arch=hierarchical
        global_server={aggr_type: sync, local_servers: [{aggr_type: sync, num_workers: 3}]}
        head={works: false}
    ";
    let (_, chosen) = chosen_over_a_slow_link(&bed, settings);
    let reason = chosen["reason"].as_str().expect("a reason");
    assert!(reason.contains(" MB through a relay's link at "), "{reason}");
    bed.end();
}

#[test]
fn a_member_with_a_slow_link_sums_less() {
    if !is_wanted("a_member_with_a_slow_link_sums_less") {
        return;
    }
    let bed = Bed::shaped('u', 4, "--rate 100mbit,100mbit,100mbit,20mbit");
    let settings = "
        data={name: digits, train: 2048, test: 64}
        model=lenet
        num_server_rounds=8
        checkpoint_every=8 rounds
        arch=allreduce
        allreduce={num_workers: 4}
        shares=equal
    ";
    bed.bonfire("run --quiet --out uneven").set(settings).succeed();
    let record = Record::of(bed.lab.dir.path("uneven"));
    let mut sent = std::collections::BTreeMap::<String, f64>::new();
    for told in record.told("nodes") {
        for line in told["nodes"].as_array().into_iter().flatten() {
            let bytes = line["sent_bytes"].as_f64().expect("bytes");
            *sent.entry(line["name"].as_str().expect("a name").to_owned()).or_default() += bytes;
        }
    }
    let slow =
        sent.iter().find(|(name, _)| name.contains("pi4")).map(|(_, &bytes)| bytes).expect("the slow one");
    let others: f64 = sent.values().sum::<f64>() - slow;
    // All of a gradient, and no sum; the others a third of the sums each, to three others.
    assert!(slow < 0.8 * others / 3.0, "{sent:?}");
    bed.end();
}

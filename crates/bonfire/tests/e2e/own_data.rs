//! Nodes that train on data of their own, which never leave them.

use crate::fire::Fire;
use crate::program::Dir;
use crate::record::Record;

/// A machine with data of its own in the folder `mine`.
fn machine(kind: &str, train: usize, seed: u64) -> Dir {
    let dir = Dir::new();
    dir.bonfire(&format!("data make {kind} -o mine --train {train} --test 400 --seed {seed}")).succeed();
    dir
}

/// A run of a head and nodes on machines of their own.
#[track_caller]
fn burn(head: &Dir, nodes: &[Dir], settings: &str) -> Record {
    let settings = format!("data={{name: mine}}\n distribute=own\n {settings}");
    let mut fire = Fire::light(head, "run", "--quiet", &settings);
    for (i, dir) in nodes.iter().enumerate() {
        let name = format!("n{}", i + 1);
        fire.nodes.push(dir.bonfire("node --name").arg(name).arg(&fire.ticket).start());
    }
    fire.burn_down()
}

#[test]
fn every_node_goes_through_its_own_once_an_epoch() {
    // The head has few, which are trained on by nobody.
    let head = machine("digits", 50, 1);
    let nodes = [machine("digits", 3000, 2), machine("digits", 1000, 3), machine("digits", 500, 4)];
    for arch in [
        "arch=allreduce\n allreduce={num_workers: 3}\n local_steps=4",
        "arch=flat\n parameter_server={num_workers: 3}",
    ] {
        let record = burn(&head, &nodes, &format!("{arch}\n epochs=8"));
        assert_eq!(record.number("samples"), 8.0 * 4500.0, "{arch}");
        let noted: Vec<String> = record.told("noted").iter().map(|event| event.to_string()).collect();
        assert!(noted.iter().any(|note| note.contains("4500 samples stay where they are")), "{noted:?}");
        let accuracy = record.number("accuracy");
        assert!(accuracy > 0.9, "{arch}: {accuracy}");
        std::fs::remove_dir_all(&record.0).expect("the run folder");
    }
}

#[test]
fn nodes_take_turns() {
    let head = machine("digits", 50, 1);
    let nodes: Vec<Dir> = (2..6).map(|seed| machine("digits", 400 * seed as usize, seed)).collect();
    let arch = "arch=allreduce\n allreduce={num_workers: 4}\n clients_per_round=2\n local_steps=4";
    let record = burn(&head, &nodes, &format!("{arch}\n epochs=10\n eval_every=3 rounds"));
    assert_eq!(record.number("samples"), 10.0 * 5600.0);
    assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
    let accuracy = record.number("accuracy");
    assert!(accuracy > 0.9, "{accuracy}");
    let check = |settings: &str, fragment: &str| head.bonfire("train").set(settings).run().refuse(fragment);
    let group = "arch=allreduce\n allreduce={num_workers: 4}";
    check(&format!("{group}\n clients_per_round=5"), "must be from 1 to the number of workers, which is 4");
    check(&format!("{group}\n clients_per_round=0"), "must be from 1 to the number of workers");
    check(
        "arch=flat\n parameter_server={num_workers: 4}\n clients_per_round=2",
        "is only for `arch: allreduce`",
    );
}

#[test]
fn words_and_tags_are_those_of_the_head() {
    let head = machine("grammar", 400, 1);
    let nodes = [machine("grammar", 700, 2), machine("grammar", 300, 3)];
    let record = burn(&head, &nodes, "model=tagger\n arch=allreduce\n allreduce={num_workers: 2}\n epochs=6");
    let accuracy = record.number("accuracy");
    assert!(accuracy > 0.7, "{accuracy}");
}

#[test]
fn who_has_none_of_that_kind_is_told() {
    let (head, node) = (machine("digits", 50, 1), machine("reviews", 60, 2));
    let settings = "data={name: mine}\n distribute=own\n arch=flat\n parameter_server={num_workers: 1}";
    let fire = Fire::light(&head, "run", "--quiet", settings);
    let outcome = node.bonfire("node").arg(&fire.ticket).run();
    assert!(outcome.stderr.contains("the head"), "{}", outcome.stderr);
    fire.head.signal("INT");
    let dir = Dir::new();
    let check = |settings: &str, fragment: &str| dir.bonfire("train").set(settings).run().refuse(fragment);
    check("distribute=own", "own is for nodes that have data of their own");
    check(
        "distribute=own\n arch=flat\n parameter_server={num_workers: 2}\n evaluator=true",
        "the head measures, on its own data",
    );
    check(
        "distribute=own\n arch=allreduce\n allreduce={num_workers: 2}",
        "own is for nodes on machines of their own",
    );
}

//! Nodes that train on data of their own, which never leave them.

use crate::fire::Fire;
use crate::program::{Dir, Running};
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
    ignite(head, nodes, &format!("data={{name: mine}}\n distribute=own\n {settings}")).burn_down()
}

#[track_caller]
fn ignite(head: &Dir, nodes: &[Dir], settings: &str) -> Fire {
    let mut fire = Fire::light(head, "run", "--quiet", settings);
    for (i, dir) in nodes.iter().enumerate() {
        let name = format!("n{}", i + 1);
        fire.nodes.push(dir.bonfire("node --name").arg(name).arg(&fire.ticket).start());
    }
    fire
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
fn words_and_tags_are_those_of_all() {
    let head = machine("grammar", 400, 1);
    let nodes = [machine("grammar", 700, 2), machine("grammar", 300, 3)];
    let record = burn(&head, &nodes, "model=tagger\n arch=allreduce\n allreduce={num_workers: 2}\n epochs=6");
    let accuracy = record.number("accuracy");
    assert!(accuracy > 0.7, "{accuracy}");
    assert_eq!(record.told("started").len(), 1, "the run is told of once, with the model that it has");
}

/// A machine whose texts say a few words of a class each.
fn texts(lines: &[(&str, &str)]) -> Dir {
    let dir = Dir::new();
    let rows = (0..40).flat_map(|_| lines).map(|(text, label)| format!("{text},{label}\n"));
    dir.write("mine.csv", format!("text,label\n{}", rows.collect::<String>()));
    dir
}

const TEXTS: &str = "data={name: mine.csv, text: text, label: label}\n distribute=own\n \
                     model={sentiment: {classes: 3}}\n optimizer={adam: {lr: 0.01}}\n batch_size=8";

/// A head whose data have two classes, and nodes that have other words and another class.
fn owners() -> (Dir, [Dir; 2]) {
    let head = texts(&[("fine nice", "good"), ("poor broken", "bad"), ("kept here", "bad")]);
    let nodes = [
        texts(&[("fine nice lovely", "good"), ("poor broken", "bad")]),
        texts(&[("zanzibar ginger", "spicy"), ("fine nice", "good")]),
    ];
    // A word that is rare with its owner is not told.
    let path = nodes[0].path("mine.csv");
    let rows = std::fs::read_to_string(&path).expect("texts");
    std::fs::write(&path, rows.replacen("lovely", "confidential", 1)).expect("texts");
    (head, nodes)
}

#[test]
fn a_class_and_words_that_only_one_node_has_are_learnt() {
    let (head, nodes) = owners();
    for arch in
        ["arch=allreduce\n allreduce={num_workers: 2}", "arch=flat\n parameter_server={num_workers: 2}"]
    {
        let record = ignite(&head, &nodes, &format!("{TEXTS}\n {arch}\n epochs=8")).burn_down();
        let words = std::fs::read_to_string(record.0.join("vocabulary.txt")).expect("words");
        let has = |word: &str| words.lines().any(|line| line == word);
        assert!(has("zanzibar") && has("lovely") && has("broken"), "{words}");
        assert!(!has("confidential"), "a rare word stays with its owner: {words}");
        assert!(!has("kept"), "a head that does not work has nothing to train on: {words}");
        assert_eq!(
            words.lines().next(),
            Some("fine"),
            "the most frequent of all, then by the alphabet: {words}"
        );
        let noted: Vec<String> = record.told("noted").iter().map(|event| event.to_string()).collect();
        let agreed = noted.iter().find(|note| note.contains("agreed on")).expect("a note");
        assert!(
            agreed.contains("7 words (5 of one node alone) and 3 classes by what 2 nodes told"),
            "{agreed}"
        );
        let run = record.0.to_str().expect("a path");
        let said = head.bonfire("predict").arg(run).arg("zanzibar ginger").succeed().stdout;
        assert!(said.starts_with("spicy"), "{arch}: {said}");
        head.bonfire("eval").arg(run).succeed();
        std::fs::remove_dir_all(&record.0).expect("the run folder");
    }
}

#[test]
fn who_works_at_the_head_tells_too() {
    let (head, nodes) = owners();
    let settings = "arch=allreduce\n allreduce={num_workers: 2}\n head.works=true\n epochs=2";
    let record = ignite(&head, &nodes[1..], &format!("{TEXTS}\n {settings}")).burn_down();
    let words = std::fs::read_to_string(record.0.join("vocabulary.txt")).expect("words");
    assert!(words.contains("kept") && words.contains("zanzibar"), "{words}");
}

#[test]
fn what_was_agreed_on_stays_when_the_head_comes_back() {
    let (head, nodes) = owners();
    let settings = "arch=allreduce\n allreduce={num_workers: 2}\n num_server_rounds=200000\n \
                    checkpoint_every=50 rounds";
    let mut fire = ignite(&head, &nodes, &format!("{TEXTS}\n {settings}"));
    let record = Record::of(head.path("run"));
    let is_saved = || !record.checkpoints().is_empty();
    assert!(fire.head.until("a checkpoint", is_saved), "{}", fire.head.said());
    let words = std::fs::read(record.0.join("vocabulary.txt")).expect("words");
    fire.head.signal("KILL");
    fire = fire.relight(&head);
    // Late ones take what was agreed on: their words are unknown then, and a class that nobody has is an error.
    let late = texts(&[("nutmeg nutmeg", "spicy"), ("fine nice", "good")]);
    let stranger = texts(&[("nutmeg nutmeg", "sweet"), ("fine nice", "good")]);
    let outcome = stranger.bonfire("node --name stranger").arg(&fire.ticket).run();
    assert_ne!(outcome.code, Some(0));
    let expect = "the class sweet is not among those that the run learns: bad, good, spicy";
    assert!(outcome.stderr.contains(expect), "{}", outcome.stderr);
    fire.nodes.push(late.bonfire("node --name late").arg(&fire.ticket).start());
    let joined = |name: &str| record.told_so_far("node_joined").iter().any(|event| event["name"] == name);
    assert!(fire.head.until("the late one", || joined("late")), "{}", fire.head.said());
    fire.head.signal("INT");
    assert_eq!(fire.head.wait().code, Some(130));
    assert_eq!(std::fs::read(record.0.join("vocabulary.txt")).expect("words"), words);
    let agreed = record.told("noted").iter().filter(|note| note.to_string().contains("agreed on")).count();
    assert_eq!(agreed, 1, "once is enough");
}

#[test]
fn a_model_that_does_not_fit_what_all_have_is_told_to_all() {
    let (head, nodes) = owners();
    let settings = TEXTS.replace("classes: 3", "classes: 2");
    let mut fire =
        ignite(&head, &nodes, &format!("{settings}\n arch=allreduce\n allreduce={{num_workers: 2}}"));
    let expect = "model sentiment: classes must be 3, as the data have";
    let said = fire.head.wait();
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains(expect), "{}", said.stderr);
    for node in fire.nodes.drain(..).map(Running::wait) {
        assert_ne!(node.code, Some(0));
        assert!(node.stderr.contains(expect), "{}", node.stderr);
    }
}

#[test]
fn nobody_waits_for_ever_for_words() {
    let (head, nodes) = owners();
    let settings = format!("{TEXTS}\n arch=allreduce\n allreduce={{num_workers: 2}}");
    let mut fire = ignite(&head, &nodes[..1], &settings);
    let waiting = |joined: u64| {
        let told = Record::of(head.path("run")).told_so_far("waiting");
        told.iter().any(|event| event["joined"] == joined)
    };
    assert!(fire.head.until("the first node", || waiting(1)), "{}", fire.head.said());
    fire.head.signal("INT");
    assert_eq!(fire.head.wait().code, Some(130));
    let node = fire.nodes.remove(0).wait();
    assert!(node.stderr.contains("the user stopped the run"), "{}", node.stderr);
    // Killed or stopped before all had told, a run begins with that again.
    let mut again = head.bonfire("head --wait 5 --resume run").start();
    let ticket = again.first_line();
    let alone = nodes[0].bonfire("node --patience 0").arg(&ticket).start();
    let again = again.wait();
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("only 1 of 2 nodes were there after 5 s"), "{}", again.stderr);
    assert_ne!(alone.wait().code, Some(0));
}

#[test]
fn who_has_none_of_that_kind_is_told() {
    let (head, node) = (machine("digits", 50, 1), machine("reviews", 60, 2));
    let settings = "data={name: mine}\n distribute=own\n arch=flat\n parameter_server={num_workers: 1}";
    let fire = Fire::light(&head, "run", "--quiet", settings);
    let outcome = node.bonfire("node").arg(&fire.ticket).run();
    assert_ne!(outcome.code, Some(0));
    let expect = "the head turned this node away: its data are texts with classes, but those of the head are \
                  images of 28 × 28 × 1";
    assert!(outcome.stderr.contains(expect), "{}", outcome.stderr);
    let nothing = Dir::new();
    let outcome = nothing.bonfire("node").arg(&fire.ticket).run();
    assert_ne!(outcome.code, Some(0));
    assert!(outcome.stderr.contains("distribute: own"), "{}", outcome.stderr);
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

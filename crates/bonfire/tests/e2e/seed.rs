//! Same seed, same run.

use crate::SMALL;
use crate::program::Dir;
use crate::record::Record;

fn train(dir: &Dir, name: &str, settings: &str) -> Vec<u8> {
    let out = format!("train --quiet --out {name}");
    dir.bonfire(&out).set(SMALL).set("epochs=2").set(settings).succeed();
    Record::of(dir.path(name)).parameters()
}

/// Runs twice and returns the end, which must be the same.
#[track_caller]
fn train_twice(dir: &Dir, name: &str, settings: &str) -> Vec<u8> {
    let [first, again] = ["first", "again"].map(|run| train(dir, &format!("{name}-{run}"), settings));
    assert!(first == again, "two runs with {settings} differ");
    first
}

#[test]
fn a_run_is_its_seed_and_number_of_workers() {
    let dir = Dir::new();
    let settings = ["workers=1", "workers=2", "workers=3", "seed=1235"];
    let ends: Vec<_> = settings.iter().map(|settings| train_twice(&dir, settings, settings)).collect();
    for (i, end) in ends.iter().enumerate() {
        assert!(!ends[..i].contains(end), "{} ended like a run before it", settings[i]);
    }
}

#[test]
fn words_and_dropout_follow_the_seed_too() {
    let dir = Dir::new();
    let tagger = "model.tagger={embedding: 16, hidden: 16}\n data={name: grammar, train: 300, test: 50}";
    train_twice(&dir, "tagger", tagger);
    let sentiment = "model.sentiment={embedding: 16, hidden: 8}\n data={name: reviews, train: 300, test: 50}";
    train_twice(&dir, "sentiment", sentiment);
}

#[test]
fn the_command_line_sets_the_workers_of_any_file() {
    let dir = Dir::new();
    let check = |file: &str| {
        dir.write(
            "run.yml",
            format!("num_server_rounds: 1\ndata: {{name: digits, train: 200, test: 20}}\n{file}"),
        );
        let out = dir.path("run");
        dir.bonfire("train run.yml --quiet --workers 3 --out").arg(&out).succeed();
        assert_eq!(Record::of(&out).summary()["workers"], 3, "{file}");
        std::fs::remove_dir_all(&out).expect("removed");
    };
    check("");
    check("workers: 1");
    check("arch: flat");
    check("arch: flat\nparameter_server: {num_workers: 4}");
}

#[test]
fn more_workers_with_smaller_batches_learn_the_same() {
    let dir = Dir::new();
    // The last round of an epoch has 20 samples: unequal shares for three workers, which count by their samples.
    let settings = |workers: usize, batch: usize| {
        format!(
            "data={{name: digits, train: 500, test: 50}}\n threads=1\n workers={workers}\n \
             batch_size={batch}\n optimizer=sgd"
        )
    };
    let one = Record::of(dir.path("one"));
    let three = Record::of(dir.path("three"));
    dir.bonfire("train --quiet --out one").set(&settings(1, 48)).succeed();
    dir.bonfire("train --quiet --out three").set(&settings(3, 16)).succeed();
    let (one, three) = (one.floats(), three.floats());
    let furthest = one.iter().zip(&three).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(one.len() == three.len() && furthest < 1e-5, "{furthest}");
    assert!(one != three, "sums in another order are not the same to the last bit");
}

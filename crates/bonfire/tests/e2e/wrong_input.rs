//! Input that cannot be right: exit code 2, one line that says what and where, and no run folder.

use std::fs;

use crate::program::{Bonfire, Dir};
use crate::{SMALL, TINY};

/// Runs a command that must be refused and must leave nothing behind.
#[track_caller]
fn check(dir: &Dir, command: Bonfire, fragment: &str) {
    let before = dir.entries();
    command.run().refuse(fragment);
    assert_eq!(dir.entries(), before, "something was left behind");
}

#[test]
fn run_files() {
    let check = |file: &str, fragment: &str| {
        let dir = Dir::new();
        dir.write("run.yml", file);
        check(&dir, dir.bonfire("train run.yml"), fragment);
    };
    check("epoch: 5", "run.yml:1: unknown key `epoch`; did you mean `epochs`?");
    check("seed: 1\nepochs: many", "run.yml:2: epochs: expected a whole number");
    check("seed: 1\n\nbatch_size: 0", "run.yml:3: batch_size: must be at least 1");
    check(
        "epochs: 5\nnum_server_rounds: 5",
        "run.yml:2: num_server_rounds: cannot be given together with epochs",
    );
    check("eval_every: often", "run.yml:1: eval_every: expected a length such as `1 epoch` or `50 rounds`");
    check("model:\n  tagger:\n    dropout: 1.5\ndata: grammar", "dropout must be from 0 to below 1");
    check("arch: flat", "run.yml:1: arch: flat needs the key `parameter_server`");
    check("epochs: 5\nepochs: 6", "run.yml:2: ");
    check("seed: 1\nhead: {works: maybe}", "run.yml:2: head.works: expected true or false, found the text");
    check("seed: 1\nhead:\n  work: true", "run.yml:3: head: unknown key `work`; did you mean `works`?");
    check("epochs: [5", "run.yml:");
    check(
        "seed: 1\nlearning_rate: 0.1",
        "run.yml:2: learning_rate: this is written otherwise here: `optimizer: {adam: {lr: 0.001}}`",
    );
    check("num_epochs: 3", "run.yml:1: num_epochs: this is written otherwise here: `epochs: 5`");
    check("batch: 3", "run.yml:1: batch: this is written otherwise here: `batch_size: 32`");
    check("data: {name: digits, trian: 5}", "unknown key `trian`; did you mean `train`?");
}

#[test]
fn flags_of_other_programs() {
    let check = |command: &str, fragment: &str| {
        let dir = Dir::new();
        check(&dir, dir.bonfire(command), fragment);
    };
    check("train --epochs 5", "--epochs is a key of the run file here: --set epochs=VALUE");
    check("train --lr 0.1", "--lr is a key of the run file here: --set optimizer.adam.lr=0.001");
}

#[test]
fn settings() {
    let check = |settings: &str, fragment: &str| {
        let dir = Dir::new();
        check(&dir, dir.bonfire("train").set(settings), fragment);
    };
    check("epochs", "--set epochs: expected `key=value`");
    check("model=tager", "did you mean `tagger`? Known: ");
    check(
        "data=digit",
        "known are digits, grammar, reviews, fashion-mnist, mnist, cifar-10, cifar-100, svhn, \
         ud-english-ewt; did you mean digits?",
    );
    check("optimizer=adan", "did you mean `adam`? Known: sgd, adam, adamw, rmsprop, adagrad, nadam");
    check("optimizer.sgd.momentum=1.5", "--set optimizer.sgd.momentum=1.5: must be from 0 to below 1");
    check("model=tagger", "model tagger is for sentences with one tag a word");
    check("model=lenet5\n data=reviews", "model lenet5 is for images");
    check("eval_every=0 rounds", "expected a length such as `1 epoch` or `50 rounds`, found `0 rounds`");
    check("model.lenet5.kernel=20", "kernel must be small enough for images of 28×28");
    check(
        "class_weights=[1, 2]",
        "--set class_weights=[1, 2]: has 2 numbers, but the model tells 10 classes apart",
    );
    check("class_weights=[1, -2]", "must be one number a class, none of them negative and not all of them 0");
    check("target_accuracy=97", "must be above 0 and at most 1; 0.9 is 90 %");
    check(
        "data={name: digits, train: 5, test: 5}\n workers=6",
        "6 workers are more than the 5 training samples",
    );
    check("data.train=0\n data.name=digits", "train is 0, it must be from 1 to");
}

#[test]
fn commands() {
    let dir = Dir::new();
    dir.write("full/precious", "");
    dir.write("file", "");
    let check = |command: &str, fragment: &str| check(&dir, dir.bonfire(command), fragment);
    check("train nowhere.yml", "cannot read the run file nowhere.yml");
    check("train full", "cannot read the run file full");
    check(
        "train --out full",
        "full: is not empty; go on with the run in it with --resume full, or choose another",
    );
    check("train --out file", "file: is a file");
    check("train --workers 0", "--workers must be at least 1");
    check("train --resume nowhere", "nowhere: there is no such folder");
    check("train --resume full", "full: is not a run folder: run.yml is missing");
    check("bench step --model tager", "did you mean `tagger`?");
    check("head --name pi1", "--name is for a head that works: head: {works: true}");
    check("bench step --threads 0", "--threads must be at least 1");
}

#[test]
fn data_files() {
    let dir = Dir::new();
    dir.bonfire("data make digits -o digits --train 50 --test 10").succeed();
    dir.bonfire("data make grammar -o grammar --train 50 --test 10").succeed();
    dir.bonfire("data make reviews -o reviews --train 50 --test 10").succeed();
    dir.write("empty/file", "");
    let images = dir.path("digits/t10k-images-idx3-ubyte.gz");
    let packed = fs::read(&images).expect("images");
    fs::write(&images, &packed[..packed.len() / 2]).expect("written");
    break_line(&dir, "grammar/train.conllu", 3, "3\tword without columns");
    break_line(&dir, "reviews/test.jsonl", 2, "{\"overall\": 9}");
    let check = |settings: &str, fragment: &str| check(&dir, dir.bonfire("train").set(settings), fragment);
    check("data=digits/", "t10k-images-idx3-ubyte.gz: ");
    check("data=grammar/\n model=tagger", "train.conllu:3: has 2 columns, expected 10");
    check("data=reviews/\n model=sentiment", "test.jsonl:2: ");
    check("data=empty", "empty: no data found; looked for train-images-idx3-ubyte");

    // Unpacked, and with a header that promises more than there is.
    fs::remove_file(&images).expect("removed");
    let mut short = vec![0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 28, 0, 0, 0, 28];
    short.resize(500, 0);
    dir.write("digits/t10k-images-idx3-ubyte", short);
    check("data=digits/", "t10k-images-idx3-ubyte: ");
}

fn break_line(dir: &Dir, name: &str, number: usize, line: &str) {
    let text = fs::read_to_string(dir.path(name)).expect("a text");
    let mut lines: Vec<&str> = text.lines().collect();
    lines[number - 1] = line;
    dir.write(name, lines.join("\n"));
}

#[test]
fn checkpoints_of_another_model() {
    let dir = Dir::new();
    dir.bonfire("train --quiet --out run").set(SMALL).set("epochs=1").succeed();
    let check = |command: &str, fragment: &str| check(&dir, dir.bonfire(command), fragment);
    let cannot = |key: &str| format!("{key} cannot change when a run is resumed");
    check("train --resume run --set model=mlp --set epochs=2", &cannot("model"));
    check("train --resume run --set seed=5 --set epochs=2", &cannot("seed"));
    check("train --resume run --set workers=5 --set epochs=2", &cannot("the number of workers"));
    check("train --resume run --set optimizer=sgd --set epochs=2", &cannot("optimizer"));

    let run_file = dir.path("run/run.yml");
    let text = fs::read_to_string(&run_file).expect("run.yml");
    let edit = |text: String| fs::write(&run_file, text + "\nepochs: 2\n").expect("written");
    let text = text.replace("epochs: 1\n", "");
    edit(text.replace("channels: [6, 16]", "channels: [6, 8]"));
    assert!(!fs::read_to_string(&run_file).expect("run.yml").contains("16"), "{text}");
    check(
        "train --resume run",
        "step-000032.safetensors: it is of another model: conv2.weight has the shape [16, 6, 5, 5]",
    );
    check("eval run", "step-000032.safetensors: it is of another model");
    edit(
        text.replace("adam:", "sgd:").replace("  betas: [0.9, 0.999]\n", "").replace("  epsilon: 1e-8\n", ""),
    );
    check("eval nowhere", "nowhere: there is no such folder");
    fs::write(&run_file, "epochs: nonsense").expect("written");
    check("train --resume run", "run.yml:1: epochs: expected a whole number");
    check("eval run", "run.yml:1: epochs: expected a whole number");
}

#[test]
fn data_sets_to_make_and_get() {
    let dir = Dir::new();
    dir.write("full/precious", "");
    let check = |command: &str, fragment: &str| check(&dir, dir.bonfire(command), fragment);
    check("data make digits -o full", "full is not empty");
    check("data make digit -o new", "digits, grammar, reviews can be made");
    check("data make digits -o new --train 0", "--train is 0");
    check("data get fashion -o new", "did you mean fashion-mnist?");
    check("data get mnist --from nowhere -o new", "nowhere is neither a folder nor an address");
}

/// Nothing of what is refused may depend on there being no folder yet.
#[test]
fn an_empty_folder_stays_empty() {
    let dir = Dir::new();
    fs::create_dir(dir.path("empty")).expect("a folder");
    dir.bonfire("train --out empty").set(TINY).set("model=tagger").run().refuse("model tagger is for");
    assert_eq!(crate::program::names(&dir.path("empty")), [""; 0]);
    dir.bonfire("train --quiet --out empty").set(TINY).succeed();
}

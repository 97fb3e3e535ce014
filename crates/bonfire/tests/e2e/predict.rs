//! What was trained is used: predictions, and ONNX for other programs.

use std::process::Command;

use serde_json::Value;

use crate::program::Dir;

/// A trained model on some data, and inputs without labels for it.
#[track_caller]
fn train(dir: &Dir, settings: &str) {
    dir.bonfire("train --quiet --out run").set("workers=2\n seed=1").set(settings).succeed();
}

#[test]
fn images_get_classes_with_probabilities() {
    let dir = Dir::new();
    dir.bonfire("data make digits -o files --train 2000 --test 40").succeed();
    train(&dir, "model=lenet5\n data=files\n epochs=4");
    let file = "files/t10k-images-idx3-ubyte.gz";
    let file = if dir.path(file).exists() { file } else { "files/t10k-images-idx3-ubyte" };
    let found = dir.bonfire("predict run --json").arg(file).succeed().json_lines();
    assert_eq!(found.len(), 40);
    let probability = |line: &Value| line["probability"].as_f64().expect("a probability");
    assert!(found.iter().all(|line| probability(line) > 0.1 && probability(line) <= 1.0), "{found:?}");
    assert_eq!(found[0]["scores"].as_array().expect("scores").len(), 10);
    let said = dir.bonfire("predict run").arg(file).succeed().stdout;
    assert!(said.lines().count() == 40 && said.contains(" %  files/"), "{said}");
    dir.bonfire("predict run nothing.png").run().refuse("nothing.png: ");
    dir.write("text.png", "no image");
    dir.bonfire("predict run text.png").run().refuse("text.png: ");
}

#[test]
fn sentences_get_tags() {
    let dir = Dir::new();
    let data = "data={name: grammar, train: 1500, test: 100}\n epochs=4\n optimizer.adam.lr=0.01";
    train(&dir, &format!("model.tagger={{embedding: 16, hidden: 32}}\n {data}"));
    let found = dir.bonfire("predict run --json").arg("The old dog sees a cat.").succeed().json_lines();
    assert_eq!(found[0]["words"][6], ".");
    assert_eq!((&found[0]["tags"][0], &found[0]["tags"][6]), (&"DET".into(), &"PUNCT".into()), "{found:?}");
    dir.write("sentences.txt", "A dog sees.\n\nThe cat.\n");
    let said = dir.bonfire("predict run sentences.txt").succeed().stdout;
    assert_eq!(said.lines().count(), 2);
    assert!(said.starts_with("A/DET "), "{said}");
}

#[test]
fn texts_and_rows_get_classes() {
    let dir = Dir::new();
    train(&dir, "model.sentiment={hidden: 16}\n data={name: reviews, train: 600, test: 60}\n epochs=1");
    let found =
        dir.bonfire("predict run --json").arg("It is fine.").arg("Never again!").succeed().json_lines();
    assert_eq!(found.len(), 2);
    let label = found[0]["label"].as_str().expect("a label");
    assert!(["4 stars to 5 stars", "1 star to 3 stars"].contains(&label), "{label}");

    let dir = Dir::new();
    let rows: String =
        (0..200).map(|i| format!("{},{},{}\n", i % 20, 7, ["low", "high"][i % 20 / 10])).collect();
    dir.write("table.csv", format!("size,weight,kind\n{rows}"));
    train(&dir, "model.mlp={hidden: [8]}\n data={name: table.csv, label: kind}\n epochs=30\n batch_size=8");
    let said = dir.bonfire("predict run 1,7 19,7").succeed().stdout;
    let labels: Vec<&str> = said.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(labels, ["low", "high"], "{said}");
    dir.bonfire("predict run 1,2,3").run().refuse("a row has 3 numbers, the data have 2");
    dir.bonfire("predict run 1,x").run().refuse("\"x\" is not a number");
}

/// `BONFIRE_TEST_ONNX` names a Python with onnxruntime: its scores must be ours.
#[test]
fn onnxruntime_finds_the_same_scores() {
    let Ok(python) = std::env::var("BONFIRE_TEST_ONNX") else {
        eprintln!("SKIPPED: BONFIRE_TEST_ONNX names no Python with onnxruntime, so no model was run there");
        return;
    };
    compare_scores(&python, "run_onnx.py", |dir| {
        dir.bonfire("export run --onnx --round 3 -o model.onnx").succeed();
    });
}

/// `BONFIRE_TEST_PYTHON` names a Python with torch: the module that is printed for it must find our scores with the
/// weights that are written for it.
#[test]
fn pytorch_finds_the_same_scores() {
    let Ok(python) = std::env::var("BONFIRE_TEST_PYTHON") else {
        eprintln!("SKIPPED: BONFIRE_TEST_PYTHON names no Python with torch, so no module was run there");
        return;
    };
    compare_scores(&python, "run_pytorch.py", |dir| {
        let module = dir.bonfire("model run/run.yml --pytorch").succeed().stdout;
        dir.write("module.py", module);
        dir.bonfire("export run --round 3 -o weights.safetensors").succeed();
    });
}

const LAYERS: &str = "layers: [{conv2d: {out: 6, kernel: 3, padding: 1}}, batch_norm, gelu, \
                      {max_pool2d: {kernel: 3, stride: 2, padding: 1}}, \
                      {residual: [{conv2d: {out: 6, kernel: 3, padding: 1}}, silu]}, {adaptive_avg_pool2d: [4, 3]}, \
                      flatten, {linear: 20}, elu, {linear: classes}]";

/// Every model, and data for it.
const MODELS: [(&str, &str); 15] = [
    ("lenet5", "digits"),
    ("lenet", "digits"),
    ("cnn", "digits"),
    ("mlp", "digits"),
    ("resnet18: {width: 4}", "digits"),
    ("resnet20", "digits"),
    ("resnet50: {width: 4}", "digits"),
    ("vgg11: {width: 4, hidden: 16}", "squares"),
    ("vgg16: {width: 4, hidden: 16, batch_norm: false, pool: 2}", "squares"),
    (LAYERS, "digits"),
    ("tagger: {hidden: 16}", "grammar"),
    ("tagger: {hidden: 8, cell: lstm, bidirectional: true}", "grammar"),
    ("sentiment", "reviews"),
    ("sentiment: {cell: gru, classes: 5, read: last_step}", "reviews"),
    ("mlp: {hidden: [8]}", "numbers"),
];

/// Images of 32×32 of any bytes, of two classes: digits are too small for some.
fn write_squares(dir: &Dir) {
    for (half, count) in [("train", 80u8), ("t10k", 20)] {
        let mut images = [[0, 0, 8, 3], [0, 0, 0, count], [0, 0, 0, 32], [0, 0, 0, 32]].concat();
        images.extend((0..u32::from(count) * 1024).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8));
        dir.write(&format!("files/{half}-images-idx3-ubyte"), images);
        let labels = [&[0, 0, 8, 1, 0, 0, 0, count][..], &[0, 1].repeat(usize::from(count / 2))].concat();
        dir.write(&format!("files/{half}-labels-idx1-ubyte"), labels);
    }
}

/// Trains every model a little, and has a script compare what another program makes of it with what `predict` says.
fn compare_scores(python: &str, script: &str, export: impl Fn(&Dir)) {
    for (model, data) in MODELS {
        let dir = Dir::new();
        let source = if data == "numbers" {
            let row =
                |i: u32| format!("{},{},{}\n", i % 7, i % 11, f64::from(i % 7) - 0.5 * f64::from(i % 11));
            dir.write("table.csv", format!("a,b,c\n{}", (0..100).map(row).collect::<String>()));
            "{name: table.csv, value: c, normalize: false}"
        } else if data == "squares" {
            write_squares(&dir);
            "files"
        } else {
            dir.bonfire("data make -o files --train 80 --test 20").arg(data).succeed();
            "files"
        };
        let settings = format!("model={{{model}}}\n data={source}\n num_server_rounds=3");
        train(&dir, &settings.replace("={lenet5}", "=lenet5"));
        export(&dir);
        let words = "The old dog sees a cat .\nA cat\nIt is a very good cable and I like it\n";
        dir.write("inputs.txt", if data == "numbers" { "1,2\n3,4.5\n-1,0\n" } else { words });
        let images = ["files/t10k-images-idx3-ubyte", "files/t10k-images-idx3-ubyte.gz"];
        let images = images.into_iter().find(|name| dir.path(name).exists());
        let found =
            dir.bonfire("predict run --json --round 3").arg(images.unwrap_or("inputs.txt")).succeed().stdout;
        dir.write("found.jsonl", found);
        let script = format!("{}/tests/e2e/{script}", env!("CARGO_MANIFEST_DIR"));
        let output = Command::new(python).arg(script).arg(dir.path(".")).output().expect("a Python");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{model}:\n{stdout}\n{stderr}");
        eprint!("{model}: {stdout}");
    }
}

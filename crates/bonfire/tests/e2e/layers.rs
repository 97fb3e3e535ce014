//! Models that a run file lists layer by layer.

use std::process::Command;

use crate::fire::Fire;
use crate::program::Dir;
use crate::record::Record;

/// The layers of lenet5 under its own names.
const LENET5: &str = "
model:
  layers:
    - {conv2d: {out: 6, kernel: 5}, name: conv1}
    - tanh
    - avg_pool2d: 2
    - {conv2d: {out: 16, kernel: 5}, name: conv2}
    - tanh
    - avg_pool2d: 2
    - flatten
    - {linear: 120, name: fc1}
    - tanh
    - {linear: 84, name: fc2}
    - relu
    - {linear: classes, name: fc3}
";

/// Something of everything that images can go through.
const MIXED: &str = "
model:
  layers:
    - conv2d: {out: 8, kernel: 3, padding: 1}
    - batch_norm
    - relu
    - max_pool2d: 2
    - residual: [{conv2d: {out: 8, kernel: 3, padding: 1}}, gelu]
    - repeat:
        times: 2
        layers:
          - conv2d: {out: 8, kernel: 3, padding: same, bias: false}
          - batch_norm
          - relu
    - adaptive_avg_pool2d: [4, 4]
    - flatten
    - dropout: 0.1
    - sequential: [{linear: 32}, silu, {linear: classes}]
      name: head
";

const DATA: &str =
    "data: {name: digits, train: 500, test: 100}\nworkers: 2\nthreads: 1\nepochs: 2\nseed: 7\n";

#[test]
fn a_list_trains_to_the_same_bytes_as_its_twin() {
    let check = |more: &str| {
        let dir = Dir::new();
        dir.write("named.yml", format!("model: lenet5\n{DATA}{more}"));
        dir.write("listed.yml", format!("{LENET5}{DATA}{more}"));
        for name in ["named", "listed"] {
            dir.bonfire(&format!("train --quiet {name}.yml --out {name}")).succeed();
        }
        let [named, listed] = ["named", "listed"].map(|name| Record::of(dir.path(name)).floats());
        assert!(named == listed, "with {more:?}");
    };
    check("");
    check("optimizer: {sgd: {lr: 0.05, momentum: 0.9}}\nclip_norm: 1.0\n");
}

#[test]
fn a_list_trains_in_every_architecture() {
    let single = |text: &str| {
        let dir = Dir::new();
        dir.write("run.yml", text);
        dir.bonfire("train --quiet run.yml --out run").succeed();
        Record::of(dir.path("run")).floats()
    };
    let expect = single(&format!("{MIXED}{DATA}"));
    let data = DATA.replace("workers: 2\n", "");
    let flat = "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 2}\n";
    let group = "arch: allreduce\nallreduce: {num_workers: 2}\n";
    for arch in [flat, group] {
        let dir = Dir::new();
        dir.write("run.yml", format!("{MIXED}{data}{arch}"));
        let run = Fire::light(&dir, "run", "--quiet run.yml", "").join(&dir, 2).burn_down();
        assert!(run.floats() == expect, "{arch}");
    }
}

#[test]
fn a_list_is_resumed_exported_and_imported() {
    let dir = Dir::new();
    dir.write("run.yml", format!("{MIXED}{DATA}"));
    dir.bonfire("train --quiet run.yml --out whole --set epochs=3").succeed();
    dir.bonfire("train --quiet run.yml --out halved").succeed();
    dir.bonfire("train --quiet --resume halved --set epochs=3").succeed();
    let [whole, halved] = ["whole", "halved"].map(|name| Record::of(dir.path(name)).parameters());
    assert!(whole == halved, "resumed");
    dir.bonfire("export whole -o weights.safetensors").succeed();
    dir.bonfire("import weights.safetensors run.yml --out back").succeed();
    assert!(Record::of(dir.path("back")).parameters() == whole, "imported");
}

#[test]
fn what_does_not_fit_is_named_with_its_line() {
    let check = |layers: &str, expect: &str| {
        let dir = Dir::new();
        dir.write(
            "run.yml",
            format!("data: {{name: digits, train: 50, test: 10}}\nmodel:\n  layers:\n{layers}"),
        );
        let before = dir.entries();
        dir.bonfire("train run.yml").run().refuse(expect);
        dir.bonfire("model run.yml").run().refuse(expect);
        assert_eq!(dir.entries(), before, "something was left behind");
    };
    check(
        "    - linear: 10\n",
        "run.yml:4: model.layers[0]: linear takes rows of features, but its input is (1, 28, 28)",
    );
    check(
        "    - residual:\n        - conv2d: {out: 4, kernel: 3}\n        - conv2d: {out: 4, kernel: 50}\n",
        "run.yml:6: model.layers[0].residual[1]: conv2d takes images of at least 50×50, but its input is (4, 26, 26)",
    );
    check(
        "    - flatten\n    - lineer: 3\n",
        "run.yml:5: model.layers[1]: unknown key `lineer`; did you mean `linear`?",
    );
    check(
        "    - flatten\n    - rellu\n",
        "run.yml:5: model.layers[1]: unknown key `rellu`; did you mean `relu`?",
    );
    check(
        "    - conv2d: {out: 4, kernal: 3}\n",
        "run.yml:4: model.layers[0].conv2d: unknown key `kernal`; did you mean `kernel`?",
    );
    check("    - conv2d: {out: 4}\n", "run.yml:4: model.layers[0].conv2d: the key `kernel` is missing");
    check("    - dropout: 2\n", "run.yml:4: model.layers[0]: dropout must be from 0 to below 1");
    check(
        "    - flatten\n    - linear: 84\n",
        "run.yml:5: model.layers[1]: the layers end with (84), but the data need (10): end with `linear: classes`",
    );
    check("    - linear: 3\n      relu:\n", "run.yml:4: model.layers[0]: two layers side by side");
}

#[test]
fn the_table_shows_what_the_layers_make() {
    let dir = Dir::new();
    let table = dir.bonfire("model").succeed().stdout;
    for line in [
        "lenet5-digits\n",
        "conv1  conv2d 5×5      (6, 24, 24)",
        "fc1    linear",
        "       total           (10)             44,426",
    ] {
        assert!(table.contains(line), "{line:?} in\n{table}");
    }
    dir.write("run.yml", format!("{MIXED}{DATA}"));
    let table = dir.bonfire("model run.yml").succeed().stdout;
    assert!(table.contains("head.0") && table.contains("4.0"), "{table}");
}

/// `BONFIRE_TEST_PYTHON` names a Python with safetensors and torch: its module must take the weights and find the same
/// scores.
#[test]
fn pytorch_takes_the_weights() {
    let Ok(python) = std::env::var("BONFIRE_TEST_PYTHON") else {
        eprintln!("SKIPPED: BONFIRE_TEST_PYTHON names no Python with torch, so no module was loaded there");
        return;
    };
    let small = "train: 64, test: 20";
    let mixed = MIXED.trim_start_matches("\nmodel:").replace('\n', "\n ");
    let models = [
        ("lenet5", "digits"),
        ("resnet20", "digits"),
        ("resnet50: {width: 4}", "digits"),
        ("tagger", "grammar"),
        ("tagger: {bidirectional: true, cell: lstm}", "grammar"),
        ("sentiment", "reviews"),
        ("sentiment: {classes: 5, read: last_step, cell: gru}", "reviews"),
        (&mixed, "digits"),
    ];
    for (model, data) in models {
        let dir = Dir::new();
        let model = if model.contains(':') { format!("\n  {model}") } else { format!(" {model}") };
        let length = "num_server_rounds: 2\nworkers: 2\n";
        dir.write("run.yml", format!("model:{model}\ndata: {{name: {data}, {small}}}\n{length}"));
        dir.bonfire("train --quiet run.yml --out run").succeed();
        dir.bonfire("export run -o weights.safetensors").succeed();
        let module = dir.bonfire("model run.yml --pytorch").succeed().stdout;
        dir.write("module.py", module);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/module.py");
        let output =
            Command::new(&python).arg(script).arg(dir.path(".")).output().expect("BONFIRE_TEST_PYTHON");
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{model}:\n{stdout}\n{stderr}");
        eprint!("{stdout}");
    }
}

//! Parameters go to PyTorch and come back.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::Dir;
use crate::record::Record;
use crate::{SMALL, TINY};

const LENET5: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../learn/fixtures/state_dict/lenet5.pt");
const MLP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../learn/fixtures/state_dict/mlp.pt");

/// The model whose weights state_dict.py saves.
const SMALL_LENET5: &str = "model={lenet5: {channels: [2, 4], hidden: [16, 12]}}";

/// Loss and accuracy of the newest checkpoint of a run.
#[track_caller]
fn measured(dir: &Dir, run: &str) -> [Value; 2] {
    let found = dir.bonfire("eval --json").arg(run).succeed().json_lines().pop().expect("a checkpoint");
    assert_eq!(found["event"], "measured");
    ["loss", "accuracy"].map(|key| found[key].clone())
}

/// Every tensor of a safetensors file, read as its format says.
fn tensors(path: &Path) -> Vec<(String, Vec<f32>)> {
    let bytes = fs::read(path).expect("a file");
    let (len, rest) = bytes.split_first_chunk().expect("a length");
    let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let header: serde_json::Map<String, Value> = serde_json::from_slice(header).expect("a header");
    let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__").map(|(name, facts)| {
        let [start, end] = [0, 1].map(|i| facts["data_offsets"][i].as_u64().expect("an offset") as usize);
        let floats = data[start..end]
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        (name, floats.collect())
    });
    tensors.collect()
}

#[test]
fn a_run_goes_out_and_comes_back() {
    let check = |settings: &str| {
        let dir = Dir::new();
        dir.bonfire("train --quiet --out run").set(SMALL).set("epochs=2").set(settings).succeed();
        let said = dir.bonfire("export run").succeed().stdout;
        assert!(said.starts_with("run.safetensors: "), "{said}");
        let import = "import run.safetensors run/run.yml --out elsewhere/back";
        dir.bonfire(import).succeed();
        assert_eq!(measured(&dir, "elsewhere/back"), measured(&dir, "run"), "{settings}");
        let (run, back) = (Record::of(dir.path("run")), Record::of(dir.path("elsewhere/back")));
        assert_eq!(run.parameters(), back.parameters(), "{settings}");
        dir.bonfire("train --quiet --resume elsewhere/back").succeed();
        assert!(back.number("train_loss") < run.number("train_loss"), "it learns on: {settings}");
    };
    check("");
    check("model.tagger={embedding: 16, hidden: 16}\n data={name: grammar, train: 400, test: 150}");
}

#[test]
fn a_file_of_pytorch_is_imported() {
    let dir = Dir::new();
    let data = "data={name: digits, train: 200, test: 300}";
    dir.bonfire("import --out run").arg(LENET5).set(SMALL_LENET5).set(data).succeed();
    let [loss, accuracy] = measured(&dir, "run").map(|number| number.as_f64().expect("a number"));
    assert!(loss > 1.0 && loss < 10.0 && accuracy < 0.5, "weights without sense: {loss}, {accuracy}");

    dir.bonfire("export run -o out.safetensors").succeed();
    let names = ["conv1", "conv2", "fc1", "fc2", "fc3"];
    let names: Vec<String> =
        names.iter().flat_map(|name| ["weight", "bias"].map(|kind| format!("{name}.{kind}"))).collect();
    let tensors = tensors(&dir.path("out.safetensors"));
    assert_eq!(tensors.len(), names.len());
    for (name, values) in tensors {
        let phase = names.iter().position(|other| *other == name).expect("a name of lenet5");
        let expect = (0..values.len()).map(|i| (((i * 37 + phase * 11) % 101) as f32 - 50.0) / 64.0);
        assert_eq!(values, expect.collect::<Vec<f32>>(), "{name}, as state_dict.py has it");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let dir = Dir::new();
    dir.write("text.pt", "no weights");
    dir.write("old.pt", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.");
    dir.write("full/precious", "");
    let before = dir.entries();
    let check = |weights: &str, settings: &str, fragment: &str| {
        dir.bonfire("import").arg(weights).set(TINY).set(settings).run().refuse(fragment);
        assert_eq!(dir.entries(), before, "something was left behind");
    };
    check("nowhere.pt", "", "nowhere.pt: ");
    check("text.pt", "", "text.pt: is neither of torch.save nor a whole safetensors file");
    check("old.pt", "", "old.pt: is in the format of PyTorch before 1.6");
    check(LENET5, "", "lenet5.pt: conv1.weight has the shape [2, 1, 5, 5]; lenet5 expects [6, 1, 5, 5]");
    check(MLP, SMALL_LENET5, "mlp.pt: fc1.weight has the shape [4, 6]; lenet5 expects [16, 64]");
    check(MLP, "model=tagger\n data=grammar", "mlp.pt: has no tensor embedding.weight [");
    check(LENET5, "model=tagger", "model tagger is for sentences");
    let import = dir.bonfire("import --out full").arg(LENET5).set(TINY).set(SMALL_LENET5);
    import.run().refuse("full: is not empty");
}

#[test]
fn only_a_whole_checkpoint_is_exported_and_nothing_written_over() {
    let dir = Dir::new();
    dir.bonfire("train --quiet --out run").set(TINY).set("checkpoint_every=1 round").succeed();
    let before = dir.entries();
    let check = |command: &str, fragment: &str| {
        dir.bonfire(command).run().refuse(fragment);
        assert_eq!(dir.entries(), before, "something was left behind");
    };
    check("export nowhere", "nowhere: there is no such folder");
    check("export run --round 7", "run: there is no checkpoint of round 7; those there are: 1, 2");
    check("export run -o run.pt", "run.pt: what is written is safetensors");
    check("export run -o run/run.yml", "run/run.yml: is there already");

    let newest = Record::of(dir.path("run")).newest();
    fs::write(&newest, &fs::read(&newest).expect("a checkpoint")[..1000]).expect("written");
    check("export run --round 2", "step-000002.safetensors: its checksum is not the one in its .state");
    let outcome = dir.bonfire("export run").succeed();
    assert!(outcome.stdout.contains("10 tensors, 44,426 parameters of round 1"), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("passed over run/checkpoints/step-000002"), "{}", outcome.stderr);
    let copy = fs::read(dir.path("run.safetensors")).expect("a file");
    assert!(copy == fs::read(dir.path("run/checkpoints/step-000001.safetensors")).expect("a checkpoint"));
}

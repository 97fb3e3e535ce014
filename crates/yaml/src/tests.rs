//! One table: a file and its `--set`s in, either what differs from the defaults or the error out.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod dialects;
mod limits;
mod sample;

use serde_json::Value;

use crate::{Tree, YamlError};
use sample::SampleConfig;

const CHOICES: &[&str] = &["model", "optimizer", "compression"];

fn tree(yaml: &str, sets: &[&str]) -> Result<Tree, YamlError> {
    let mut tree = Tree::parse("run.yml", yaml)?;
    sets.iter().try_for_each(|set| tree.set(set, CHOICES))?;
    Ok(tree)
}

/// What the configuration has other than the defaults, as JSON.
fn differences(config: &SampleConfig) -> String {
    let defaults = serde_json::to_string(&SampleConfig::default()).unwrap();
    let defaults: Value = serde_json::from_str(&defaults).unwrap();
    let mut value: Value = serde_json::from_str(&serde_json::to_string(config).unwrap()).unwrap();
    value.as_object_mut().unwrap().retain(|key, value| defaults[key] != *value);
    value.to_string()
}

#[track_caller]
fn check(yaml: &str, sets: &[&str], expect: &str) {
    let outcome = match tree(yaml, sets).and_then(|tree| tree.read::<SampleConfig>()) {
        Ok(config) => differences(&config),
        Err(wrong) => wrong.to_string(),
    };
    assert_eq!(outcome, expect, "for the file\n{yaml}\nand --set {sets:?}");
}

#[test]
fn values() {
    check("", &[], "{}");
    check("---\n", &[], "{}");
    check("--- \n...\n", &[], "{}");
    check("# nothing but a comment\n", &[], "{}");
    check("\u{feff}epochs: 5\n", &[], r#"{"epochs":5}"#);
    check("---\r\nepochs: 5\r\nseed: 7 # why not\r\n...\r\n", &[], r#"{"epochs":5,"seed":7}"#);
    check("{epochs: 5, seed: 0x10}", &[], r#"{"epochs":5,"seed":16}"#);
    check(r#"{"epochs":5,"data":"a\tb"}"#, &[], r#"{"data":"a\tb","epochs":5}"#);
    check("epochs:\nname: ~", &[], "{}");
    check("seed: 18446744073709551615", &[], r#"{"seed":18446744073709551615}"#);
    check("dynamic: -3", &[], r#"{"dynamic":-3}"#);
    check("target_accuracy: 0", &[], r#"{"target_accuracy":0.0}"#);
    check("target_accuracy: 9e-1", &[], r#"{"target_accuracy":0.9}"#);
    check("shuffle: False", &[], r#"{"shuffle":false}"#);
    check("name: 2026\ndata: 1.0", &[], r#"{"data":"1.0","name":"2026"}"#);
    check("name: 'it''s'\ndata: \"a: b # c\"", &[], r#"{"data":"a: b # c","name":"it's"}"#);
    check("name: !!str 5", &[], r#"{"name":"5"}"#);
    check("name: |\n  two\n  lines\n", &[], r#"{"name":"two\nlines\n"}"#);
    check("eval_every: 50 rounds", &[], r#"{"eval_every":"50 rounds"}"#);
    check("image: [32, 24]", &[], r#"{"image":[32,24]}"#);
    check("image:\n- 32\n- 24", &[], r#"{"image":[32,24]}"#);
    check("parameter_server:\nglobal_server: ", &[], "{}");
    check("notes: {a: 1, \"2\": 2.5}", &[], r#"{"notes":{"2":2.5,"a":1.0}}"#);
    check("notes: {a: &x 4, b: *x}", &[], r#"{"notes":{"a":4.0,"b":4.0}}"#);
    check(
        "parameter_server: {type: async}",
        &[],
        r#"{"parameter_server":{"aggr_type":"async","num_workers":0}}"#,
    );
}

#[test]
fn choices() {
    const TAGGER: &str = r#"{"model":{"tagger":{"cell":null,"hidden":0}}}"#;
    check("model: tagger", &[], TAGGER);
    check("model: {tagger: }", &[], TAGGER);
    check("model:\n  tagger:\n", &[], TAGGER);
    check("model: {tagger: {}}", &[], TAGGER);
    check("model: {lenet5: }", &[], "{}");
    check("model: {lenet5: {}}", &[], "{}");
    check("model: {mlp: {hidden: [64, 32]}}", &[], r#"{"model":{"mlp":{"hidden":[64,32]}}}"#);
    check("compression: {top_k: 0.01}", &[], r#"{"compression":{"top_k":0.01}}"#);
    check("model: mlp", &[], "run.yml:1: model.mlp: the key `hidden` is missing");
    check("compression: top_k", &[], "run.yml:1: compression.top_k: expected a number, found nothing");
    check("model: {lenet5: {x: 1}}", &[], "run.yml:1: model.lenet5: this choice takes no options");
    check(
        "epochs: 1\nmodel: lenet6",
        &[],
        "run.yml:2: model: unknown choice `lenet6`; did you mean `lenet5`? Known: lenet5, mlp, sentiment, tagger",
    );
    check("arch: star", &[], "run.yml:1: arch: unknown choice `star`; known: single, flat, hierarchical");
    check("arch: 5", &[], "run.yml:1: arch: unknown choice `5`; known: single, flat, hierarchical");
    check("arch:", &[], "run.yml:1: arch: expected one of single, flat, hierarchical, found nothing");
    check("arch: [flat]", &[], "run.yml:1: arch: expected one of single, flat, hierarchical, found a list");
    check("optimizer: {}", &[], "run.yml:1: optimizer: expected one of adam, sgd, found an empty mapping");
    check(
        "optimizer:\n  adam:\n  lr: 0.1",
        &[],
        "run.yml:1: optimizer: expected one of adam, sgd, found the keys `adam` and `lr` side by side; \
         options of a choice are indented below it",
    );
}

#[test]
fn wrong_keys() {
    check("name: a\n\nepoch: 5", &[], "run.yml:3: unknown key `epoch`; did you mean `epochs`?");
    check("batch-size: 5", &[], "run.yml:1: unknown key `batch-size`; did you mean `batch_size`?");
    check("batch: 5", &[], "run.yml:1: unknown key `batch`; did you mean `batch_size`?");
    check("sede: 5", &[], "run.yml:1: unknown key `sede`; did you mean `seed`?");
    check(
        "optimizer:\n  adam:\n    foo: 1",
        &[],
        "run.yml:3: optimizer.adam: unknown key `foo`; known: lr, eps",
    );
    check(
        "parameter_server: {typ: sync}",
        &[],
        "run.yml:1: parameter_server: unknown key `typ`; did you mean `type`?",
    );
    check(
        "global_server:\n  local_servers:\n    - {type: sync}\n    - num_worker: 2",
        &[],
        "run.yml:4: global_server.local_servers[1]: unknown key `num_worker`; did you mean `num_workers`?",
    );
    check(
        "seed: 1\nparameter_server:\n  type: sync\n  aggr_type: sync",
        &[],
        "run.yml:2: parameter_server: `aggr_type` is given twice, once by another of its names",
    );
    check(
        "seed: 1\noptimizer:\n  sgd:\n    momentum: 0.9",
        &[],
        "run.yml:3: optimizer.sgd: the key `lr` is missing",
    );
    check("epochs: 1\nseed: 2\nepochs: 3", &[], "run.yml:3: epochs: the key is given twice, first on line 1");
    check(
        "optimizer:\n  adam:\n    lr: 1\n    'lr': 2",
        &[],
        "run.yml:4: optimizer.adam.lr: the key is given twice, first on line 3",
    );
    check("5: x", &[], "run.yml:1: a key must be text; to make `5` text, put it in quotes");
    check(
        "notes:\n  true: 1",
        &[],
        "run.yml:2: notes: a key must be text; to make `true` text, put it in quotes",
    );
    check("? [a, b]\n: c", &[], "run.yml:1: a key must be text, not a list or mapping");
    check("a: &x [1]\n*x : c", &[], "run.yml:1: a key must be text, not a list or mapping");
}

#[test]
fn wrong_values() {
    check(
        "optimizer:\n  adam:\n    lr: fast",
        &[],
        r#"run.yml:3: optimizer.adam.lr: expected a number, found the text "fast""#,
    );
    check(
        "target_accuracy: \"0.9\"",
        &[],
        r#"run.yml:1: target_accuracy: expected a number, found the text "0.9""#,
    );
    check(
        "target_accuracy: 1e39",
        &[],
        "run.yml:1: target_accuracy: expected a number of at most 3.4028235e38, found 1e39",
    );
    check(
        "target_accuracy: 1e999",
        &[],
        r#"run.yml:1: target_accuracy: expected a number, found the text "1e999""#,
    );
    check(
        "batch_size: -1",
        &[],
        "run.yml:1: batch_size: expected a whole number from 0 to 4294967295, found -1",
    );
    check(
        "batch_size: 32.0",
        &[],
        "run.yml:1: batch_size: expected a whole number from 0 to 4294967295, found 32.0",
    );
    check(
        "batch_size:",
        &[],
        "run.yml:1: batch_size: expected a whole number from 0 to 4294967295, found nothing",
    );
    check("threads: 0", &[], "run.yml:1: threads: expected a whole number from 1 to 255, found 0");
    check("threads: 256", &[], "run.yml:1: threads: expected a whole number from 1 to 255, found 256");
    check("dynamic: 200", &[], "run.yml:1: dynamic: expected a whole number from -128 to 127, found 200");
    check("seed: -1", &[], "run.yml:1: seed: expected a whole number, 0 or more, found -1");
    check(
        "seed: 1_000",
        &[],
        r#"run.yml:1: seed: expected a whole number, 0 or more, found the text "1_000""#,
    );
}

#[test]
fn values_of_a_wrong_kind() {
    check("shuffle: yes", &[], r#"run.yml:1: shuffle: expected true or false, found the text "yes""#);
    check("data: [a]", &[], "run.yml:1: data: expected text, found a list");
    check("data:", &[], "run.yml:1: data: expected text, found nothing");
    check("parameter_server: 4", &[], "run.yml:1: parameter_server: expected a mapping, found 4");
    check(
        "parameter_server: [sync, 4]",
        &[],
        "run.yml:1: parameter_server: expected a mapping, found a list",
    );
    check("image: [1, 2, 3]", &[], "run.yml:1: image: expected a list of 2 values, found 3");
    check("image: [1]", &[], "run.yml:1: image: expected a list of 2 values, found 1");
    check(
        "image:\n  - 1\n  - -2",
        &[],
        "run.yml:3: image[1]: expected a whole number from 0 to 65535, found -2",
    );
    check(
        "global_server:\n  local_servers:\n    - num_workers: 2\n    - type: sync\n      num_workers: many",
        &[],
        "run.yml:5: global_server.local_servers[1].num_workers: expected a whole number, 0 or more, found the \
         text \"many\"",
    );
    check(
        "global_server: {local_servers: {num_workers: 2}}",
        &[],
        "run.yml:1: global_server.local_servers: expected a list, found a mapping",
    );
    check(
        "\neval_every: 50",
        &[],
        "run.yml:2: eval_every: expected a span such as `50 rounds` or `1 epoch`, found `50`",
    );
}

#[test]
fn wrong_files() {
    check("- a\n- b", &[], "run.yml:1: expected keys with values, such as `epochs: 5`, found a list");
    check(
        "epochs 5",
        &[],
        "run.yml:1: expected keys with values, such as `epochs: 5`, found the text \"epochs 5\"",
    );
    check("seed: 1\nepochs 5", &[], "run.yml:2: a key must be followed by `: ` and its value");
    check(
        "seed: 1\nepochs 5\n\n# so\nname: a",
        &[],
        "run.yml:2: a key must be followed by `: ` and its value",
    );
    check("a: 1\n---\nb: 2", &[], "run.yml:2: a second document starts here; a run file holds only one");
    check("parameter_server:\n\tnum_workers: 2", &[], "run.yml:2: a tab cannot indent a line; use spaces");
    check("image: [1, 2", &[], "run.yml:1: a list that opens with `[` lacks its `,` or `]`");
    check(
        "image: [1, 2\nseed: 1",
        &[],
        "run.yml:2: `:` cannot stand here; a `[` or `{` above may lack its end",
    );
    check("notes: {a: 1 b: 2}", &[], "run.yml:1: a mapping that opens with `{` lacks its `,` or `}`");
    let indentation = "run.yml:3: expected a key, indented like the keys around it";
    check("parameter_server:\n  type: sync\n num_workers: 2", &[], indentation);
    check("image:\n - 1\n- 2", &[], indentation);
    let colon =
        "run.yml:2: `: ` cannot stand here; look at the indentation, the space after each `:` and the quotes";
    check("seed: 1\n  epochs: 2", &[], colon);
    check("epochs:5\nseed: 1", &[], colon);
    check("seed: 1\nname: a: b", &[], colon);
    check("name: @home", &[], "run.yml:1: text that starts with a special character must stand in quotes");
    check("name: 'a' b", &[], "run.yml:1: nothing may follow the closing quote");
    check("seed: 1\n\tepochs: 2", &[], "run.yml:2: a tab cannot indent a line; use spaces");
    check("seed: 1\nname: \"a", &[], "run.yml:2: a text in quotes lacks its closing quote");
    check(
        "seed: 1\nname: *.csv",
        &[],
        "run.yml:2: no anchor of this name; put text that starts with `*` in quotes",
    );
    check("seed: !!int 5", &[], "run.yml:1: seed: the tag `!!int` has no meaning here; leave it out");
    check("seed: !big {}", &[], "run.yml:1: seed: the tag `!big` has no meaning here; leave it out");
    check("a: &a [*a]", &[], "run.yml:1: a[0]: an anchor cannot be used inside itself");
}

#[test]
fn overrides() {
    check("", &["epochs=5"], r#"{"epochs":5}"#);
    check("epochs: 5", &["epochs=6", "epochs = 7"], r#"{"epochs":7}"#);
    check("epochs: 5", &["epochs="], "{}");
    check("", &["name=a=b"], r#"{"name":"a=b"}"#);
    check("name: a", &["name=\"\""], r#"{"name":""}"#);
    check("", &["image=[1, 2]", "image[1]=5"], r#"{"image":[1,5]}"#);
    check("model: tagger", &["model=lenet5"], "{}");
    check("model: tagger", &["model.tagger.hidden=64"], r#"{"model":{"tagger":{"cell":null,"hidden":64}}}"#);
    check(
        "model: {tagger: {hidden: 9}}",
        &["model.tagger.cell=gru"],
        r#"{"model":{"tagger":{"cell":"gru","hidden":9}}}"#,
    );
    check(
        "model: {tagger: }",
        &["model.tagger.hidden=8"],
        r#"{"model":{"tagger":{"cell":null,"hidden":8}}}"#,
    );
    check("model: lenet5", &["model.mlp.hidden=[64,32]"], r#"{"model":{"mlp":{"hidden":[64,32]}}}"#);
    check("", &["optimizer.sgd={lr: 0.5}"], r#"{"optimizer":{"sgd":{"lr":0.5,"momentum":0.0}}}"#);
    check(
        "optimizer: {adam: {lr: 1}}",
        &["optimizer.sgd.lr=0.1"],
        r#"{"optimizer":{"sgd":{"lr":0.1,"momentum":0.0}}}"#,
    );
    check(
        "optimizer: {adam: {lr: 1}}",
        &["optimizer.adam.eps=2"],
        r#"{"optimizer":{"adam":{"eps":2.0,"lr":1.0}}}"#,
    );
    check("notes: {a: 1}", &["notes.b=2"], r#"{"notes":{"a":1.0,"b":2.0}}"#);
    check(
        "global_server: {local_servers: [{num_workers: 1}]}",
        &["global_server.local_servers[0].aggr_type=async"],
        r#"{"global_server":{"aggr_type":"sync","local_servers":[{"aggr_type":"async","num_workers":1}]}}"#,
    );
}

#[test]
fn wrong_overrides() {
    check("", &["epochs"], "--set epochs: expected `key=value`, such as `epochs=5`");
    check("", &["=5"], "--set =5: `` is no key path; write it like `optimizer.adam.lr`");
    check("", &["a..b=5"], "--set a..b=5: `a..b` is no key path; write it like `optimizer.adam.lr`");
    check(
        "",
        &["image[x]=5"],
        "--set image[x]=5: `image[x]` is no list item; write it like `local_servers[0]`",
    );
    check("", &["epoch=5"], "--set epoch=5: unknown key `epoch`; did you mean `epochs`?");
    check(
        "",
        &["optimizer.adam.lr=x"],
        r#"--set optimizer.adam.lr=x: expected a number, found the text "x""#,
    );
    check(
        "optimizer: {adam: {lr: 1}}",
        &["optimizer.adam.esp=1"],
        "--set optimizer.adam.esp=1: optimizer.adam: unknown key `esp`; did you mean `eps`?",
    );
    check(
        "optimizer: {adam: {lr: x}}",
        &["optimizer.adam.eps=1"],
        r#"run.yml:1: optimizer.adam.lr: expected a number, found the text "x""#,
    );
    check("", &["optimizer.sgd="], "--set optimizer.sgd=: the key `lr` is missing");
    check("", &["optimizer=sgd"], "--set optimizer=sgd: optimizer.sgd: the key `lr` is missing");
    check(
        "epochs: 5",
        &["epochs.x=1"],
        "--set epochs.x=1: epochs: expected a whole number from 0 to 4294967295, found a mapping",
    );
    check("image: [1, 2]", &["image[2]=5"], "--set image[2]=5: `image` has only the items [0] to [1]");
    check(
        "image: [1, 2]",
        &["image.x=5"],
        "--set image.x=5: `image` is a list; name one of its items, such as `image[0]`",
    );
    check("", &["image[0]=5"], "--set image[0]=5: `image` is no list, so it has no item [0]");
    check("", &["image=[1"], "--set image=[1: a list that opens with `[` lacks its `,` or `]`");
    check("", &["notes={a: 1, a: 2}"], "--set notes={a: 1, a: 2}: a: the key is given twice");
    check("", &["data="], "--set data=: expected text, found nothing");
}

#[test]
fn wrong_after_reading() {
    let yaml = "arch: flat\ndynamic: 1\noptimizer:\n  adam:\n    lr: 1\nglobal_server:\n  local_servers:\n  - \
                {}\n  - {}\nepochs:\n";
    let tree = tree(yaml, &["seed=5", "optimizer.adam.eps=1", "dynamic=3"]).unwrap();
    let check = |path: &str, has: bool, expect: &str| {
        assert_eq!(tree.has(path), has, "{path}");
        assert_eq!(tree.wrong(path, "no").to_string(), expect);
    };
    check("arch", true, "run.yml:1: arch: no");
    check("optimizer", true, "run.yml:3: optimizer: no");
    check("optimizer.adam.lr", true, "run.yml:5: optimizer.adam.lr: no");
    check("optimizer.adam.betas", false, "run.yml:4: optimizer.adam.betas: no");
    check("optimizer.adam.eps", true, "--set optimizer.adam.eps=1: no");
    check("global_server.local_servers[1]", true, "run.yml:9: global_server.local_servers[1]: no");
    check("global_server.local_servers[2]", false, "run.yml:7: global_server.local_servers[2]: no");
    check("arch.flat", false, "run.yml:1: arch.flat: no");
    check("epochs", false, "run.yml:10: epochs: no");
    check("seed", true, "--set seed=5: no");
    check("dynamic", true, "--set dynamic=3: no");
    check("model", false, "run.yml: model: no");
    assert_eq!(Tree::empty("").wrong("model", "no").to_string(), "model: no");
}

#[test]
fn device_pool_files() {
    let flat = "---\nnum_server_rounds: 5\ntarget_accuracy: 0.9\nbatch_size: 32\n\narch: flat\nparameter_server:\n    \
                aggr_type: sync\n    num_workers: 4\n";
    check(
        flat,
        &[],
        concat!(
            r#"{"arch":"flat","num_server_rounds":5,"parameter_server":{"aggr_type":"sync","#,
            r#""num_workers":4},"target_accuracy":0.9}"#,
        ),
    );
    let hierarchical = "---\nnum_server_rounds: 5\ntarget_accuracy: 0.9\nbatch_size: 32\n\narch: hierarchical\n\
                        global_server:\n  aggr_type: sync\n  local_servers:\n    - type: async\n      \
                        num_workers: 2\n    \
                        - type: async\n      num_workers: 2\n";
    check(
        hierarchical,
        &[],
        concat!(
            r#"{"arch":"hierarchical","global_server":{"aggr_type":"sync","#,
            r#""local_servers":[{"aggr_type":"async","num_workers":2},{"aggr_type":"async","#,
            r#""num_workers":2}]},"num_server_rounds":5,"target_accuracy":0.9}"#,
        ),
    );
}

//! Lists of layers as a user writes them against the models that have a name: the same parameters, loss and gradient,
//! bit for bit.

use super::{images, list};
use crate::layer_list::LayerPlan;
use crate::{Batch, Gradient, Model, ModelSpec, Shape, Tally};

/// Parameters, loss and gradient of the first step.
fn first_step(mut model: Box<dyn Model>, batch: &Batch) -> (Vec<String>, Vec<f32>, f64, Vec<f32>, bool) {
    let names = model.layout().tensors().iter().map(|tensor| tensor.name.clone()).collect();
    let parameters = model.layout().initial(1234);
    let (mut gradient, mut tally) = (Gradient::new(model.layout()), Tally::default());
    model.gradient(&parameters, batch, 7, &mut gradient, &mut tally);
    (names, parameters, tally.loss, gradient.values.clone(), model.shares_products())
}

fn check(name: &str, options: &str, layers: &str, shape: &Shape, samples: usize) {
    let spec: ModelSpec = serde_json::from_str(&format!(r#"{{"{name}": {options}}}"#)).expect("a spec");
    let batch = Batch::random(shape, samples, 12, 3);
    let expect = first_step(spec.build(shape).expect("a model"), &batch);
    let plan = LayerPlan::of(&list(layers), shape).expect("a plan");
    let model = plan.build();
    assert_eq!(plan.parameters(), model.layout().parameters(), "{name}");
    let found = first_step(model, &batch);
    assert_eq!(found.0, expect.0, "{name}: names");
    assert!(found.1 == expect.1, "{name}: parameters");
    assert_eq!(found.2, expect.2, "{name}: loss");
    assert!(found.3 == expect.3, "{name}: gradient");
    assert_eq!(found.4, expect.4, "{name}: how its threads share the work");
}

#[test]
fn lenet5() {
    let layers = r#"[
        {"conv2d": {"out": 6, "kernel": 5}, "name": "conv1"}, "tanh", {"avg_pool2d": 2},
        {"conv2d": {"out": 16, "kernel": 5}, "name": "conv2"}, "tanh", {"avg_pool2d": 2},
        "flatten", {"linear": 120, "name": "fc1"}, "tanh", {"linear": 84, "name": "fc2"}, "relu",
        {"linear": "classes", "name": "fc3"}]"#;
    check("lenet5", "{}", layers, &images(28, 28, 1), 17);
}

#[test]
fn lenet() {
    let layers = r#"[
        {"conv2d": {"out": 20, "kernel": 5}, "name": "conv1"}, "relu", {"max_pool2d": 2},
        {"conv2d": {"out_channels": 50, "kernel_size": 5}, "name": "conv2"}, "relu", {"max_pool2d": {"kernel": 2}},
        "flatten", {"linear": 500, "name": "fc1"}, {"linear": {"out": 10}, "name": "fc2"}, "softmax"]"#;
    check("lenet", "{}", layers, &images(28, 28, 1), 16);
}

#[test]
fn mlp() {
    let layers = r#"[
        "flatten", {"linear": 512, "name": "fc1"}, "relu", {"linear": 64, "name": "fc2"}, "relu",
        {"linear": "classes", "name": "fc3"}]"#;
    check("mlp", r#"{"hidden": [512, 64]}"#, layers, &images(28, 28, 1), 9);
    check("mlp", r#"{"hidden": [512, 64]}"#, layers, &images(1, 1, 13), 9);
}

#[test]
fn resnet20() {
    let block = |out: usize, more: &str| {
        let first = if more.is_empty() { 1 } else { 2 };
        format!(
            r#"{{"residual": {{"layers": [
                {{"conv2d": {{"out": {out}, "kernel": 3, "stride": {first}, "padding": 1, "bias": false}},
                  "name": "conv1"}},
                {{"batch_norm": null, "name": "bn1"}}, "relu",
                {{"conv2d": {{"out": {out}, "kernel": 3, "padding": "same", "bias": false}}, "name": "conv2"}},
                {{"batch_norm": {{}}, "name": "bn2"}}], {more} "activation": "relu"}}}}"#
        )
    };
    let stage = |number: usize, out: usize, more: &str| {
        let same = block(out, "");
        let (first, times) =
            if more.is_empty() { (String::new(), 3) } else { (format!("{},", block(out, more)), 2) };
        format!(
            r#"{{"sequential": [{first} {{"repeat": {{"times": {times}, "layers": [{same}]}}}}],
                "name": "layer{number}"}}"#
        )
    };
    let subsample = r#""downsample": "subsample","#;
    let layers = format!(
        r#"[{{"conv2d": {{"out": 16, "kernel": 3, "padding": 1, "bias": false}}, "name": "conv1"}},
            {{"batch_norm": {{}}, "name": "bn1"}}, "relu", {}, {}, {}, "global_avg_pool",
            {{"linear": "classes", "name": "linear"}}]"#,
        stage(1, 16, ""),
        stage(2, 32, subsample),
        stage(3, 64, subsample)
    );
    check("resnet20", "{}", &layers, &images(32, 32, 3), 5);
    let pytorchs = layers.replace(r#""global_avg_pool""#, r#"{"adaptive_avg_pool2d": 1}, "flatten""#);
    check("resnet20", "{}", &pytorchs, &images(32, 32, 3), 5);
}

/// A residual net whose shortcuts are projected.
#[test]
fn resnet50_of_one_stage() {
    let block = |width: usize, stride: usize, downsample: &str| {
        let conv = |number: usize, out: usize, kernel: usize, stride: usize| {
            let padding = kernel / 2;
            format!(
                r#"{{"conv2d": {{"out": {out}, "kernel": {kernel}, "stride": {stride}, "padding": {padding},
                     "bias": false}}, "name": "conv{number}"}}, {{"batch_norm": {{}}, "name": "bn{number}"}}"#
            )
        };
        format!(
            r#"{{"residual": {{"layers": [{}, "relu", {}, "relu", {}], {downsample} "activation": "relu"}}}}"#,
            conv(1, width, 1, 1),
            conv(2, width, 3, stride),
            conv(3, 4 * width, 1, 1)
        )
    };
    let stage = |number: usize, width: usize, blocks: usize, stride: usize| {
        let downsample = format!(
            r#""downsample": [{{"conv2d": {{"out": {}, "kernel": 1, "stride": {stride}, "bias": false}}}},
                "batch_norm"],"#,
            4 * width
        );
        let rest =
            format!(r#"{{"repeat": {{"times": {}, "layers": [{}]}}}}"#, blocks - 1, block(width, 1, ""));
        format!(
            r#"{{"sequential": [{}, {rest}], "name": "layer{number}"}}"#,
            block(width, stride, &downsample)
        )
    };
    let layers = format!(
        r#"[{{"conv2d": {{"out": 4, "kernel": 3, "padding": 1, "bias": false}}, "name": "conv1"}},
            {{"batch_norm": {{}}, "name": "bn1"}}, "relu", {}, {}, {}, {}, "global_avg_pool",
            {{"linear": "classes", "name": "fc"}}]"#,
        stage(1, 4, 3, 1),
        stage(2, 8, 4, 2),
        stage(3, 16, 6, 2),
        stage(4, 32, 3, 2)
    );
    check("resnet50", r#"{"width": 4}"#, &layers, &images(16, 16, 3), 4);
}

#[test]
fn vgg11() {
    let stage = |out: usize, count: usize| {
        let conv =
            format!(r#"{{"conv2d": {{"out": {out}, "kernel": 3, "padding": 1}}}}, "batch_norm", "relu","#);
        format!(r#"{} {{"max_pool2d": 2}}"#, conv.repeat(count))
    };
    let layers = format!(
        r#"[{{"sequential": [{}, {}, {}, {}, {}], "name": "features"}}, "flatten",
            {{"sequential": [{{"dropout": 0.5}}, {{"linear": 32}}, "relu", "dropout", {{"linear": 32}}, "relu",
              {{"linear": "classes"}}], "name": "classifier"}}]"#,
        stage(8, 1),
        stage(16, 1),
        stage(32, 2),
        stage(64, 2),
        stage(64, 2)
    );
    check("vgg11", r#"{"width": 8, "hidden": 32}"#, &layers, &images(32, 64, 3), 4);
}

#[test]
fn tagger() {
    let shape = Shape::Tagging { words: 60, tags: 7 };
    let layers = r#"[
        {"embedding": 100, "name": "embedding", "init": {"normal": 0.1}}, {"dropout": 0.25},
        {"gru": {"hidden": 128, "layers": 2, "dropout": 0.25}, "name": "rnn", "init": {"normal": 0.1}},
        {"dropout": 0.25}, {"linear": "classes", "name": "fc", "init": {"normal": 0.1}}]"#;
    check("tagger", "{}", layers, &shape, 9);
    let layers =
        layers.replace("gru", "lstm").replace(r#""hidden": 128"#, r#""hidden": 20, "bidirectional": true"#);
    check("tagger", r#"{"cell": "lstm", "hidden": 20, "bidirectional": true}"#, &layers, &shape, 9);
}

#[test]
fn sentiment() {
    let shape = Shape::Texts { words: 60, classes: 5 };
    let layers = r#"[
        {"embedding": {"dim": 100}, "name": "embedding"},
        {"lstm": {"hidden": 32, "num_layers": 2, "dropout": 0.5}, "name": "rnn"}, "last_word",
        {"linear": 32, "name": "fc1"}, "relu", {"linear": 1, "name": "fc2"}, "binary"]"#;
    check("sentiment", "{}", layers, &shape, 9);
    let five = layers
        .replace(r#"{"linear": 1, "name": "fc2"}, "binary""#, r#"{"linear": "classes", "name": "fc2"}"#);
    check("sentiment", r#"{"classes": 5}"#, &five, &shape, 9);
}

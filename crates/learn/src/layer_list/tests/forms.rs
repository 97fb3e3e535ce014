//! The forms in which layers are written, and what names their weights get.

use super::{images, list};
use crate::layer_list::LayerPlan;
use crate::{Batch, Gradient, Shape, Tally};

#[test]
fn what_is_written_is_read_again_as_the_same() {
    let check = |json: &str| {
        let read = list(json);
        let written = serde_json::to_string(&read).expect("JSON");
        assert_eq!(list(&written), read, "{written}");
    };
    check(r#"["relu", "batch_norm", {"batch_norm": {"eps": 0.001, "momentum": 0.2}}, {"relu": null}]"#);
    check(r#"[{"conv2d": {"out": "classes", "kernel": 3, "padding": "same", "stride": 2, "bias": false}}]"#);
    check(r#"[{"linear": 3}, {"linear": "classes"}, {"linear": {"out": 3, "bias": false}, "name": "a"}]"#);
    check(
        r#"[{"leaky_relu": 0.2}, "leaky_relu", "elu", {"dropout": 0.1}, "dropout", "gelu", "silu", "sigmoid"]"#,
    );
    check(r#"[{"max_pool2d": {"kernel": 3, "stride": 2, "padding": 1}}, {"avg_pool2d": 2}]"#);
    check(r#"[{"adaptive_avg_pool2d": [2, 3]}, {"adaptive_max_pool2d": 4}, "global_avg_pool", "flatten"]"#);
    check(
        r#"[{"embedding": 5, "init": {"uniform": 0.1}}, {"gru": 4}, {"lstm": {"hidden": 4, "layers": 2}}]"#,
    );
    check(r#"[{"residual": ["relu"]}, {"residual": {"layers": ["relu"], "downsample": "subsample"}}]"#);
    check(r#"[{"residual": {"layers": ["relu"], "downsample": ["relu"], "activation": {"elu": 1.0}}}]"#);
    check(r#"[{"repeat": {"times": 3, "layers": ["relu"]}}, {"sequential": ["relu"], "name": "part"}]"#);
    check(r#"["last_word", "last_step", "softmax", {"binary": {"positive_from": 2}}, "binary"]"#);
}

/// What `nn.Sequential` calls them: every layer counts, also one without weights.
#[test]
fn weights_have_the_names_of_nn_sequential() {
    let layers = r#"[
        {"conv2d": {"out": 4, "kernel": 3, "padding": 1}}, "batch_norm", "relu",
        {"residual": [{"conv2d": {"out": 4, "kernel": 3, "padding": 1}}, "relu"]},
        {"repeat": {"times": 2, "layers": ["dropout", {"conv2d": {"out": 4, "kernel": 1, "bias": false}}]}},
        {"sequential": [{"max_pool2d": 2}, "flatten"]}, {"linear": "classes"}]"#;
    let model = LayerPlan::of(&list(layers), &images(8, 8, 1)).expect("a plan").build();
    let names: Vec<&str> = model.layout().tensors().iter().map(|tensor| &*tensor.name).collect();
    let expect = [
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
        "3.0.weight",
        "3.0.bias",
        "5.weight",
        "7.weight",
        "9.weight",
        "9.bias",
    ];
    assert_eq!(names, expect);
}

/// Every kind of layer in one place takes a step and lowers the loss.
#[test]
fn every_layer_learns() {
    let check = |layers: &str, shape: &Shape| {
        let mut model = LayerPlan::of(&list(layers), shape).expect("a plan").build();
        let batch = Batch::random(shape, 8, 6, 1);
        let mut parameters = model.layout().initial(1);
        let mut gradient = Gradient::new(model.layout());
        let mut losses = Vec::new();
        for _ in 0..30 {
            let mut tally = Tally::default();
            model.gradient(&parameters, &batch, 1, &mut gradient, &mut tally);
            losses.push(tally.mean_loss());
            let optimizer = crate::OptimizerSpec::default();
            crate::Optimizer::new(optimizer, model.layout()).step(
                &mut parameters,
                std::slice::from_ref(&gradient),
                0.01,
                None,
            );
        }
        assert!(losses[29] < 0.8 * losses[0], "{layers}: {losses:?}");
    };
    let image = images(12, 10, 2);
    check(
        r#"[{"conv2d": {"out": 8, "kernel": 3}}, "gelu", {"max_pool2d": {"kernel": 3, "stride": 2}}, "flatten",
            "batch_norm", {"linear": 16}, "silu", {"linear": "classes"}]"#,
        &image,
    );
    check(
        r#"[{"conv2d": {"out": 8, "kernel": 3, "padding": "same"}}, "batch_norm", "elu",
            {"avg_pool2d": {"kernel": 3, "stride": 2, "padding": 1}},
            {"residual": [{"conv2d": {"out": 8, "kernel": 3, "padding": 1}}, "leaky_relu"]},
            {"adaptive_max_pool2d": [3, 2]}, "flatten", {"linear": {"out": 10, "bias": false}}]"#,
        &image,
    );
    check(
        r#"[{"conv2d": {"out": "classes", "kernel": 3, "stride": 2}}, {"adaptive_avg_pool2d": 1}, "flatten"]"#,
        &image,
    );
    check(
        r#"[{"linear": 20}, "sigmoid", {"residual": [{"linear": 20}, "tanh"]}, {"linear": "classes"}]"#,
        &images(1, 1, 6),
    );
    let texts = Shape::Texts { words: 30, classes: 5 };
    check(
        r#"[{"embedding": 8}, {"gru": {"hidden": 6, "bidirectional": true}}, "last_word", {"linear": 5}]"#,
        &texts,
    );
    check(r#"[{"embedding": 8}, {"lstm": 9}, "last_step", "relu", {"linear": 1}, "binary"]"#, &texts);
    let tagging = Shape::Tagging { words: 30, tags: 4 };
    check(r#"[{"embedding": 8}, {"residual": [{"gru": 8}]}, {"linear": "classes"}]"#, &tagging);
}

//! Layers that do not fit are named with both shapes, before anything is built.

use super::{images, list};
use crate::Shape;
use crate::layer_list::{LayerList, LayerPlan};

fn check(layers: &str, shape: &Shape, expect: &str) {
    let error = LayerPlan::of(&list(layers), shape).expect_err("a misfit").to_string();
    assert_eq!(error, expect, "{layers}");
}

#[test]
fn layers_that_do_not_fit_their_input() {
    let image = &images(28, 28, 1);
    check(
        r#"[{"linear": 10}]"#,
        image,
        "layers[0]: linear takes rows of features, but its input is (1, 28, 28): put `flatten` before it",
    );
    check(
        r#"["flatten", {"conv2d": {"out": 3, "kernel": 3}}]"#,
        image,
        "layers[1]: conv2d takes images (channels, height, width), but its input is (784)",
    );
    check(
        r#"[{"conv2d": {"out": 3, "kernel": 5}}, {"repeat": {"times": 3, "layers": [{"max_pool2d": 3}]}}]"#,
        image,
        "layers[1].repeat.layers[0]: max_pool2d takes images of at least 3×3, but its input is (3, 2, 2) (channels, \
         height, width)",
    );
    check(
        r#"[{"residual": [{"conv2d": {"out": 8, "kernel": 3, "padding": 1}}, "relu"]}]"#,
        image,
        "layers[0].residual: the layers give (8, 28, 28), but the input gives (1, 28, 28); `downsample` can change it \
         on its way around them",
    );
    check(
        r#"[{"sequential": ["relu", {"residual": {"layers": [{"conv2d": {"out": 8, "kernel": 40}}],
            "downsample": "subsample"}}]}]"#,
        image,
        "layers[0].sequential[1].residual.layers[0]: conv2d takes images of at least 40×40, but its input is \
         (1, 28, 28) (channels, height, width)",
    );
    check(r#"[{"embedding": 3}]"#, image, "layers[0]: embedding takes words, but its input is (1, 28, 28)");
    let texts = &Shape::Texts { words: 9, classes: 5 };
    check(
        r#"[{"gru": 3}]"#,
        texts,
        "layers[0]: gru takes features for every word, but its input is (words): put `embedding` before it",
    );
    check(
        r#"[{"embedding": 3}, {"gru": 4}, "last_word", {"gru": 4}]"#,
        texts,
        "layers[3]: gru takes features for every word, but its input is (4)",
    );
}

#[test]
fn scores_that_do_not_fit_the_data() {
    check(
        r#"["flatten", {"linear": 84}]"#,
        &images(28, 28, 1),
        "layers[1]: the layers end with (84), but the data need (10): end with `linear: classes`",
    );
    check(
        r#"["relu"]"#,
        &images(28, 28, 1),
        "layers[0]: the layers end with (1, 28, 28), but the data need (10): end with `flatten` and `linear: classes`",
    );
    let texts = &Shape::Texts { words: 9, classes: 5 };
    check(
        r#"[{"embedding": 3}, {"linear": "classes"}]"#,
        texts,
        "layers[1]: the layers end with (words, 5), but the data need (5): put `last_word` before the last `linear`",
    );
    check(
        r#"[{"embedding": 3}, "last_word", {"linear": 4}]"#,
        &Shape::Tagging { words: 9, tags: 4 },
        "layers[2]: the layers end with (4), but the data need (words, 4): every word needs its own scores: leave out \
         `last_word`",
    );
    check(
        r#"[{"embedding": 3}, "last_word", {"linear": 1}, {"binary": {"positive_from": 5}}]"#,
        texts,
        "layers[3].binary: positive_from must be from 1 to 4",
    );
    check("[]", texts, "layers: the list has no layer: `linear: classes` is the least");
    check(
        r#"["flatten", "softmax", {"linear": 10}]"#,
        &images(28, 28, 1),
        "layers[1]: softmax can only be the last of all layers",
    );
}

#[test]
fn sizes_out_of_range() {
    let image = &images(28, 28, 1);
    check(r#"["flatten", {"linear": 0}]"#, image, "layers[1]: out must be from 1 to 65536");
    check(r#"[{"dropout": 1}]"#, image, "layers[0]: dropout must be from 0 to below 1");
    check(
        r#"[{"conv2d": {"out": 1, "kernel": 3, "padding": 3}}]"#,
        image,
        "layers[0]: padding must be from 0 to 2",
    );
    check(
        r#"[{"conv2d": {"out": 1, "kernel": 2, "padding": "same"}}]"#,
        image,
        "layers[0]: padding: same needs an odd kernel and a stride of 1",
    );
    check(
        r#"[{"repeat": {"times": 100000, "layers": ["relu"]}}]"#,
        image,
        "layers[0].repeat.layers[0]: the model has more than 10000 layers",
    );
    check(
        r#"[{"conv2d": {"out": 65536, "kernel": 3, "padding": 1}}, {"adaptive_avg_pool2d": 1000}]"#,
        image,
        "layers[1]: adaptive_avg_pool2d gives (65536, 1000, 1000), more than 268435456 numbers",
    );
    // With 32 bits sums stop at the largest number that there is.
    let parameters = 3_367_255_736_330.min(usize::MAX as u64);
    check(
        r#"[{"conv2d": {"out": 65536, "kernel": 3, "padding": 1}}, "flatten", {"linear": 65536}, {"linear": 10}]"#,
        image,
        &format!("layers: the model has {parameters} parameters, more than 536870912"),
    );
    check(
        r#"[{"relu": null, "name": "a.b"}]"#,
        image,
        "layers[0]: the name `a.b` must be letters, digits and `_` only",
    );
    check(
        r#"[{"relu": null, "name": "a"}, {"relu": null, "name": "a"}]"#,
        image,
        "layers[1]: another layer is named `a` as well",
    );
    check(
        r#"[{"relu": null, "init": {"normal": 1.0}}]"#,
        image,
        "layers[0]: relu has no weights to begin with",
    );
}

#[test]
fn what_cannot_be_read() {
    let check = |json: &str, expect: &str| {
        let error = serde_json::from_str::<LayerList>(json).expect_err("nonsense").to_string();
        assert!(error.starts_with(expect), "{json}: {error}");
    };
    check(r#"["rleu"]"#, "unknown field `rleu`, expected one of `conv2d`");
    check(r#"["conv2d"]"#, "invalid type: null, expected options such as {out: 32, kernel: 3}");
    check(r#"[{"conv2d": {"kernel": 3}}]"#, "missing field `out`");
    check(r#"[{"linear": -3}]"#, "invalid type: integer `-3`, expected the number of outputs, `classes`");
    check(r#"[{"linear": 3, "relu": null}]"#, "two layers side by side");
    check(r#"[{"name": "a"}]"#, "expected a layer beside `name`");
    check(r#"[{"residual": 3}]"#, "invalid type: integer `3`, expected a list of layers");
    check(r#"[{"residual": {"layers": [], "downsample": "half"}}]"#, "invalid value: string \"half\"");
    check(r#"[{"flatten": 1}]"#, "invalid type: integer `1`, expected no options");
}

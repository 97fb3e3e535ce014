use bonfire_spoil::Counting;

use super::*;
use crate::kernels::matmul::{Matrix, matmul};
use crate::{Batch, Gradient, Tally};

fn images(height: usize, width: usize, channels: usize) -> Shape {
    Shape::Images { height, width, channels, classes: 10 }
}

fn spec(name: &str) -> ModelSpec {
    serde_json::from_str(&format!("{{\"{name}\": {{}}}}")).expect("a name")
}

#[test]
fn models_have_as_many_parameters_as_published() {
    let check = |name: &str, shape: Shape, expect: usize| {
        let model = spec(name).build(&shape).expect("a model");
        assert_eq!(model.layout().parameters(), expect, "{name}");
    };
    check("lenet5", images(28, 28, 1), 44_426);
    check("lenet", images(28, 28, 1), 431_080);
    check("cnn", images(32, 32, 3), 29_186);
    check("resnet18", images(32, 32, 3), 11_173_962);
    check("resnet34", images(32, 32, 3), 21_282_122);
    check("resnet50", images(32, 32, 3), 23_520_842);
    check("resnet101", images(32, 32, 3), 42_512_970);
    check("resnet152", images(32, 32, 3), 58_156_618);
    check("resnet20", images(32, 32, 3), 269_722);
    check("resnet32", images(32, 32, 3), 464_154);
    check("resnet44", images(32, 32, 3), 658_586);
    check("resnet56", images(32, 32, 3), 853_018);
    check("resnet110", images(32, 32, 3), 1_727_962);
    check("vgg11", images(32, 32, 3), 9_756_426);
    check("vgg13", images(32, 32, 3), 9_941_322);
    check("vgg16", images(32, 32, 3), 15_253_578);
    check("vgg19", images(32, 32, 3), 20_565_834);
}

/// PyTorch's own, for a thousand classes of photographs.
#[test]
fn large_vggs_have_as_many_parameters_as_published() {
    let check = |name: &str, batch_norm: bool, expect: usize| {
        let options = format!(r#"{{"batch_norm": {batch_norm}, "hidden": 4096, "pool": 7}}"#);
        let spec: ModelSpec = serde_json::from_str(&format!(r#"{{"{name}": {options}}}"#)).expect("a spec");
        for side in [224, 299] {
            let shape = Shape::Images { height: side, width: 224, channels: 3, classes: 1000 };
            let model = spec.build(&shape).expect("a model");
            assert_eq!(model.layout().parameters(), expect, "{name} with batch norm: {batch_norm}");
        }
    };
    check("vgg11", false, 132_863_336);
    check("vgg11", true, 132_868_840);
    check("vgg16", false, 138_357_544);
    check("vgg16", true, 138_365_992);
    check("vgg19", false, 143_667_240);
}

#[test]
fn names_are_those_of_the_run_file() {
    for name in ModelSpec::NAMES {
        assert_eq!(spec(name).name(), *name);
    }
}

#[test]
fn misfits_say_what_would_be_right() {
    let check = |spec: &str, shape: Shape, expect: &str| {
        let spec: ModelSpec = serde_json::from_str(spec).expect("a spec");
        let error = spec.build(&shape).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(expect));
    };
    let texts = Shape::Texts { words: 10, classes: 5 };
    check(
        r#"{"resnet18": {}}"#,
        texts,
        "model resnet18 is for images (digits, fashion-mnist, …), but the data are texts with one label each",
    );
    check(
        r#"{"resnet20": {}}"#,
        images(0, 32, 3),
        "model resnet20 is for images that have pixels, but the data have 0×32",
    );
    check(
        r#"{"vgg11": {}}"#,
        images(28, 28, 1),
        "model vgg11 is for images of at least 32×32, but the data have 28×28",
    );
    check(r#"{"vgg11": {"pool": 0}}"#, images(32, 32, 1), "model vgg11: pool must be from 1 to 64");
    check(
        r#"{"vgg11": {"dropout": 1}}"#,
        images(32, 32, 1),
        "model vgg11: dropout must be from 0 to below 1",
    );
    check(
        r#"{"resnet50": {"width": 0}}"#,
        images(32, 32, 1),
        "model resnet50: width must be from 1 to 65536",
    );
    check(
        r#"{"lenet": {"kernel": 9}}"#,
        images(16, 16, 1),
        "model lenet: kernel must be small enough for images of 16×16",
    );
}

/// Every model in a size that is quick to run, and a batch for it.
fn small(name: &str) -> (ModelSpec, Shape, Batch) {
    let (options, shape, samples) = match name {
        "tagger" => (r#"{"hidden": 32}"#, Shape::Tagging { words: 50, tags: 5 }, 64),
        "sentiment" => ("{}", Shape::Texts { words: 50, classes: 5 }, 64),
        _ if name.starts_with("resnet") => (r#"{"width": 8}"#, images(16, 16, 3), 16),
        _ if name.starts_with("vgg") => (r#"{"width": 8, "hidden": 32}"#, images(32, 32, 3), 16),
        _ => ("{}", images(28, 28, 1), 16),
    };
    let spec = serde_json::from_str(&format!(r#"{{"{name}": {options}}}"#)).expect("a spec");
    let batch = Batch::random(&shape, samples, 40, 1);
    (spec, shape, batch)
}

/// The most bytes that a new model allocates for a few evaluations of a batch, and for as many gradients of it.
fn peaks(name: &str) -> [usize; 2] {
    let (spec, shape, batch) = small(name);
    let layout = spec.build(&shape).expect("a model").layout().clone();
    let (parameters, mut gradient) = (layout.initial(1), Gradient::new(&layout));
    let mut peak = |differentiates: bool| {
        let mut model = spec.build(&shape).expect("a model");
        let mut step = || match differentiates {
            true => model.gradient(&parameters, &batch, 1, &mut gradient, &mut Tally::default()),
            false => model.evaluate(&parameters, &batch, &mut Tally::default()),
        };
        Counting::peak(|| (0..2).for_each(|_| step())).1
    };
    // The first product of a thread also allocates what belongs to the thread.
    matmul(&mut [0.0], 1, Matrix::new(&[1.0], 1, 1), Matrix::new(&[1.0], 1, 1), false);
    [peak(false), peak(true)]
}

#[test]
fn an_evaluation_needs_less_memory_than_a_gradient() {
    for name in ModelSpec::NAMES {
        let [evaluation, gradient] = peaks(name);
        let told = format!("{name}: {evaluation} bytes for an evaluation, {gradient} for a gradient");
        assert!(3 * evaluation <= 2 * gradient, "{told}");
    }
}

#[test]
fn the_memory_of_an_evaluation_does_not_grow_with_depth() {
    assert_eq!(peaks("resnet20")[0], peaks("resnet110")[0]);
    assert_eq!(peaks("resnet18")[0], peaks("resnet34")[0]);
    assert_eq!(peaks("vgg16")[0], peaks("vgg19")[0]);
}

/// The right answers are those whose score is largest, or of one score those on the right side of 0.
#[test]
fn scores_are_what_answers_are_told_from() {
    for name in ModelSpec::NAMES {
        let (spec, shape, batch) = small(name);
        let mut model = spec.build(&shape).expect("a model");
        let parameters = model.layout().initial(1);
        let (mut tally, mut scores) = (Tally::default(), vec![7.0]);
        model.evaluate(&parameters, &batch, &mut tally);
        model.scores(&parameters, &batch, &mut scores);
        let width = scores.len() / batch.targets.len();
        let largest =
            |row: &[f32]| (0..width).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("a score");
        let is_right = |(row, &target): (&[f32], &u32)| match width {
            1 => (row[0] >= 0.0) == (target >= 3),
            _ => largest(row) == target as usize,
        };
        let right = scores.chunks_exact(width).zip(&batch.targets).filter(|pair| is_right(*pair)).count();
        assert_eq!((right as u64, batch.targets.len() as u64), (tally.correct, tally.answers), "{name}");
    }
}

#[test]
fn what_is_settled_does_not_change() {
    for name in ModelSpec::NAMES {
        let (spec, shape, batch) = small(name);
        let mut model = spec.build(&shape).expect("a model");
        let (parameters, mut gradient) = (model.layout().initial(1), Gradient::new(model.layout()));
        let mut told: Vec<(usize, f64, Vec<f32>)> = Vec::new();
        let mut settled = |gradient: &Gradient, from: usize| {
            told.push((from, gradient.weight, gradient.values[from..].to_vec()));
        };
        let tally = &mut Tally::default();
        model.gradient_by_layers(&parameters, &batch, 1, &mut gradient, tally, &mut settled);
        for (from, weight, values) in &told {
            assert_eq!(
                (*weight, &values[..]),
                (gradient.weight, &gradient.values[*from..]),
                "{name}: {from}"
            );
        }
        let places: Vec<usize> = told.iter().map(|(from, ..)| *from).collect();
        assert!(places.len() > 1 && places.is_sorted_by(|a, b| a > b), "{name}: {places:?}");
        assert_eq!(places.last(), Some(&0), "{name}");
    }
}

/// Texts of more steps than an evaluation keeps the gates of.
#[test]
fn evaluating_long_texts_gives_what_training_gives() {
    let (shape, batch) = (Shape::Tagging { words: 50, tags: 5 }, small("tagger").2);
    for cell in ["gru", "lstm"] {
        let options = format!(r#"{{"tagger": {{"cell": "{cell}", "bidirectional": true, "dropout": 0}}}}"#);
        let spec: ModelSpec = serde_json::from_str(&options).expect("a spec");
        let mut model = spec.build(&shape).expect("a model");
        let (parameters, mut gradient) = (model.layout().initial(1), Gradient::new(model.layout()));
        let (mut trained, mut evaluated) = (Tally::default(), Tally::default());
        model.gradient(&parameters, &batch, 1, &mut gradient, &mut trained);
        model.evaluate(&parameters, &batch, &mut evaluated);
        assert_eq!(trained, evaluated, "{cell}");
    }
}

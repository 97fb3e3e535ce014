//! Numbers that PyTorch recorded (`fixtures/oracle.py`) against ours: first loss, every gradient and running statistic,
//! ten steps, an evaluation.

mod layers;

use std::collections::BTreeMap;

use serde::Deserialize;

use self::layers::Layers;
use crate::batch::{Batch, IGNORED, Inputs, Shape};
use crate::layout::TensorKind;
use crate::{ClassWeights, Gradient, Layout, Model, ModelSpec, Optimizer, OptimizerSpec, Tally};

#[derive(Deserialize)]
struct OracleCase {
    name: String,
    #[serde(flatten)]
    subject: Subject,
    class_weights: Option<Vec<f32>>,
    shape: OracleShape,
    loss: f64,
    /// How far single precision is off in PyTorch, as a share of a tensor's norm.
    rounding: f64,
    /// Gradients, and what running statistics become.
    tensors: BTreeMap<String, ExpectedTensor>,
    steps: Vec<Steps>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Subject {
    Model(ModelSpec),
    Layers(Layers),
}

/// All values of a tensor, or its dot products with two noises and its norm.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ExpectedTensor {
    All(Vec<f64>),
    Digest([f64; 3]),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OracleShape {
    Images { samples: usize, height: usize, width: usize, channels: usize, classes: usize },
    Tagging { words: usize, tags: usize },
    Texts { words: usize, classes: usize },
}

#[derive(Deserialize)]
struct Steps {
    name: String,
    optimizer: OptimizerSpec,
    clip: Option<f32>,
    losses: Vec<f64>,
    /// The loss behind the last step, by the running statistics.
    evaluation: f64,
    /// How far PyTorch's losses in single precision are off.
    rounding: f64,
}

/// Pseudo-random numbers in ±height, the same on any machine.
fn noise(count: usize, phase: usize, height: f64) -> Vec<f32> {
    let number = |i: usize| {
        let x = (i as u32).wrapping_mul(2_654_435_761).wrapping_add((phase as u32 + 1) * 974_711);
        let x = (x ^ (x >> 15)).wrapping_mul(2_246_822_519);
        let x = (x ^ (x >> 13)).wrapping_mul(3_266_489_917);
        (height * (f64::from(x ^ (x >> 16)) / f64::from(1u32 << 31) - 1.0)) as f32
    };
    (0..count).map(number).collect()
}

/// Parameters by the formula, which runs in PyTorch's order.
fn parameters(layout: &Layout) -> Vec<f32> {
    let mut flat = vec![0.0; layout.len()];
    for (i, tensor) in layout.tensors().iter().enumerate() {
        let fan_in = tensor.range.len() / tensor.shape[0];
        let mut values = noise(tensor.range.len(), i, (2.0 / (fan_in as f64).sqrt()).min(0.3));
        // Values of residual nets lie mostly above zero: a value near it would make its rounding visible.
        let name = &tensor.name;
        let middle = match name.rsplit('.').next() {
            Some("weight") if tensor.shape.len() == 1 => 0.5,
            Some("bias") if name.contains(".bn") => 0.5,
            Some("running_var") => 1.0,
            _ => 0.0,
        };
        values.iter_mut().for_each(|value| *value += middle);
        if tensor.name == "embedding.weight" {
            values[..tensor.shape[1]].fill(0.0);
        }
        tensor.set_from_torch(&values, &mut flat);
    }
    flat
}

const LENGTHS: [u32; 4] = [5, 2, 1, 4];

fn words(vocabulary: usize) -> Inputs {
    let (steps, batch) = (5, LENGTHS.len());
    let mut numbers = vec![0; steps * batch];
    for (b, &length) in LENGTHS.iter().enumerate() {
        for t in 0..length as usize {
            numbers[t * batch + b] = (1 + (3 * t + 5 * b) % (vocabulary - 1)) as u32;
        }
    }
    Inputs::Words { steps, numbers, lengths: LENGTHS.to_vec() }
}

fn shape_and_batch(shape: &OracleShape) -> (Shape, Batch) {
    let samples = LENGTHS.len();
    match *shape {
        OracleShape::Images { samples, height, width, channels, classes } => {
            let pixels = noise(samples * height * width * channels, 3, 0.5).iter().map(|x| x + 0.5).collect();
            let inputs = Inputs::Images { size: [height, width, channels], pixels };
            let targets = match classes {
                0 => noise(samples, 4, 1.0).iter().map(|number| number.to_bits()).collect(),
                _ => (0..samples as u32).map(|i| i % 3).collect(),
            };
            (Shape::Images { height, width, channels, classes }, Batch { samples, inputs, targets })
        }
        OracleShape::Tagging { words: vocabulary, tags } => {
            let mut targets = vec![IGNORED; 5 * samples];
            for (b, &length) in LENGTHS.iter().enumerate() {
                for t in 0..length as usize {
                    targets[t * samples + b] = ((t + 2 * b) % 4) as u32;
                }
            }
            (
                Shape::Tagging { words: vocabulary, tags },
                Batch { samples, inputs: words(vocabulary), targets },
            )
        }
        OracleShape::Texts { words: vocabulary, classes } => {
            let targets = (0..samples as u32).map(|b| (2 * b + 1) % 5).collect();
            (
                Shape::Texts { words: vocabulary, classes },
                Batch { samples, inputs: words(vocabulary), targets },
            )
        }
    }
}

fn check_gradients(case: &OracleCase, model: &mut dyn Model, batch: &Batch) {
    let layout = model.layout().clone();
    let mut gradient = Gradient::new(&layout);
    // Remains of an earlier step must not show.
    gradient.values.fill(7.0);
    let mut tally = Tally::default();
    model.gradient(&parameters(&layout), batch, 0, &mut gradient, &mut tally);
    assert!((tally.mean_loss() - case.loss).abs() < 1e-5, "{}: loss {}", case.name, tally.mean_loss());
    assert_eq!(gradient.weight, tally.weight);
    assert_eq!(layout.tensors().len(), case.tensors.len(), "{}: tensors", case.name);
    for (number, tensor) in layout.tensors().iter().enumerate() {
        let scale = if tensor.kind == TensorKind::Buffer { 1.0 } else { gradient.weight };
        let is_touched =
            |i: usize| gradient.rows(number).is_none_or(|rows| rows.is_touched((i / rows.width) as u32));
        let values = tensor.to_torch(&gradient.values).into_iter().enumerate();
        let values = values.map(|(i, value)| if is_touched(i) { f64::from(value) / scale } else { 0.0 });
        check_tensor(
            &format!("{}: {}", case.name, tensor.name),
            &values.collect::<Vec<_>>(),
            &case.tensors[&tensor.name],
            case.rounding,
        );
    }
}

fn check_tensor(name: &str, values: &[f64], expect: &ExpectedTensor, rounding: f64) {
    let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    // A bias before a batch norm has no gradient but what rounding makes of it.
    let least = if rounding > 0.0 { 2e-6 } else { 1e-7 };
    let limit = least + norm * (8.0 * rounding).max(2e-5);
    let check = |what: &str, got: f64, expect: f64| {
        let off = (got - expect).abs();
        assert!(off < limit, "{name}{what} is {got}, not {expect}; the norm is {norm}");
    };
    match expect {
        ExpectedTensor::All(expect) => {
            assert_eq!(values.len(), expect.len(), "{name}");
            for (i, (&got, &expect)) in values.iter().zip(expect).enumerate() {
                check(&format!("[{i}]"), got, expect);
            }
        }
        ExpectedTensor::Digest([first, second, length]) => {
            for (phase, expect) in [(5, first), (6, second)] {
                let noise = noise(values.len(), phase, 1.0);
                let product = values.iter().zip(noise).map(|(value, noise)| value * f64::from(noise)).sum();
                check(" · noise", product, *expect);
            }
            check("'s norm", norm, *length);
        }
    }
}

fn check_steps(case: &OracleCase, steps: &Steps, model: &mut dyn Model, batch: &Batch) {
    let mut parameters = parameters(model.layout());
    let mut gradient = Gradient::new(model.layout());
    let mut optimizer = Optimizer::new(steps.optimizer.clone(), model.layout());
    // Ten steps of a deep net with batch norm make a rounding visible that turns one ReLU on or off.
    let limit = if steps.rounding > 0.0 { (4.0 * steps.rounding).max(2e-4) } else { 2e-5 };
    let check = |what: &str, tally: &Tally, expect: f64| {
        let off = (tally.mean_loss() - expect).abs();
        assert!(off < limit, "{} with {}: {what} is off by {off}", case.name, steps.name);
    };
    for (i, expect) in steps.losses.iter().enumerate() {
        let mut tally = Tally::default();
        model.gradient(&parameters, batch, 0, &mut gradient, &mut tally);
        check(&format!("loss {i}"), &tally, *expect);
        optimizer.step(&mut parameters, std::slice::from_ref(&gradient), steps.optimizer.lr(), steps.clip);
    }
    let mut tally = Tally::default();
    model.evaluate(&parameters, batch, &mut tally);
    check("the evaluation", &tally, steps.evaluation);
}

#[test]
fn models_and_optimisers_compute_what_pytorch_computes() {
    let cases: Vec<OracleCase> =
        serde_json::from_str(include_str!("../fixtures/oracle.json")).expect("the fixture");
    let has = |name: &&str| {
        cases.iter().any(|case| matches!(&case.subject, Subject::Model(spec) if spec.name() == *name))
    };
    assert!(ModelSpec::NAMES.iter().all(has), "every model is compared");
    check_cases(&cases);
}

/// Nets that a run file lists, and more optimisers (`fixtures/lists.py`).
#[test]
fn lists_of_layers_compute_what_pytorch_computes() {
    let cases: Vec<OracleCase> =
        serde_json::from_str(include_str!("../fixtures/lists.json")).expect("the fixture");
    assert!(cases.len() > 10, "more than ten nets");
    check_cases(&cases);
}

fn check_cases(cases: &[OracleCase]) {
    for case in cases {
        let (shape, batch) = shape_and_batch(&case.shape);
        let mut model = match &case.subject {
            Subject::Model(spec) => spec.build(&shape).expect("a model"),
            Subject::Layers(layers) => layers.build(),
        };
        if let Some(weights) = &case.class_weights {
            model.weigh_classes(&ClassWeights::new(weights).expect("weights")).expect("one a class");
        }
        check_gradients(case, &mut *model, &batch);
        for steps in &case.steps {
            check_steps(case, steps, &mut *model, &batch);
        }
    }
}

/// Three workers with a part of the samples each are one worker with all of them, whatever their classes weigh.
#[test]
fn gradients_of_parts_sum_to_that_of_the_whole() {
    let shape = Shape::Tagging { words: 50, tags: 5 };
    let spec = ModelSpec::Tagger(crate::models::tagger::Options { dropout: 0.0, ..Default::default() });
    let mut model = spec.build(&shape).expect("a model");
    let weights = ClassWeights::new(&[0.5, 3.0, 1.0, 0.0, 0.25]).expect("weights");
    model.weigh_classes(&weights).expect("one a class");
    let whole = Batch::random(&shape, 6, 4, 1);
    let Inputs::Words { steps, numbers, .. } = &whole.inputs else { unreachable!("words") };
    let part = |from: usize, count: usize| {
        let take = |all: &[u32]| -> Vec<u32> {
            all.chunks(6).flat_map(|row| row[from..from + count].to_vec()).collect()
        };
        let inputs = Inputs::Words { steps: *steps, numbers: take(numbers), lengths: vec![4; count] };
        Batch { samples: count, inputs, targets: take(&whole.targets) }
    };
    let start = model.layout().initial(1);
    let mut step = |batches: &[Batch]| {
        let mut parameters = start.clone();
        let gradients: Vec<Gradient> = batches
            .iter()
            .map(|batch| {
                let mut gradient = Gradient::new(model.layout());
                model.gradient(&parameters, batch, 0, &mut gradient, &mut Tally::default());
                gradient
            })
            .collect();
        let mut optimizer = Optimizer::new(OptimizerSpec::Sgd(Default::default()), model.layout());
        optimizer.step(&mut parameters, &gradients, 1.0, None);
        parameters
    };
    let one = step(std::slice::from_ref(&whole));
    for (a, b) in one.iter().zip(step(&[part(0, 2), part(2, 4), part(6, 0)])) {
        assert!((a - b).abs() < 1e-6, "{a} and {b}");
    }
    assert_ne!(one, start);
}

//! Numbers that PyTorch recorded (`fixtures/oracle.py`) against ours: first loss, every gradient, ten steps.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::data::{Batch, IGNORED, Inputs, Shape};
use crate::{Gradient, Layout, Model, ModelSpec, Optimizer, OptimizerSpec, Tally};

#[derive(Deserialize)]
struct Case {
    name: String,
    model: ModelSpec,
    shape: CaseShape,
    loss: f64,
    gradients: BTreeMap<String, Vec<f32>>,
    steps: Vec<Steps>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum CaseShape {
    Images { height: usize, width: usize, channels: usize, classes: usize },
    Tagging { words: usize, tags: usize },
    Texts { words: usize, classes: usize },
}

#[derive(Deserialize)]
struct Steps {
    name: String,
    optimizer: OptimizerSpec,
    clip: Option<f32>,
    losses: Vec<f64>,
}

fn wave(count: usize, phase: usize, height: f64) -> Vec<f32> {
    (0..count).map(|i| (height * (0.9 * i as f64 + 1.7 * phase as f64 + 0.1).sin()) as f32).collect()
}

/// Parameters by the formula, which runs in PyTorch's order.
fn parameters(layout: &Layout) -> Vec<f32> {
    let mut flat = vec![0.0; layout.len()];
    for (i, tensor) in layout.tensors().iter().enumerate() {
        let mut values = wave(tensor.range.len(), i, 0.3);
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

fn shape_and_batch(shape: &CaseShape) -> (Shape, Batch) {
    let samples = 4;
    match *shape {
        CaseShape::Images { height, width, channels, classes } => {
            let pixels = wave(samples * height * width * channels, 3, 0.5).iter().map(|x| x + 0.5).collect();
            let inputs = Inputs::Images { size: [height, width, channels], pixels };
            let targets = (0..samples as u32).map(|i| i % 3).collect();
            (Shape::Images { height, width, channels, classes }, Batch { samples, inputs, targets })
        }
        CaseShape::Tagging { words: vocabulary, tags } => {
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
        CaseShape::Texts { words: vocabulary, classes } => {
            let targets = (0..samples as u32).map(|b| (2 * b + 1) % 5).collect();
            (
                Shape::Texts { words: vocabulary, classes },
                Batch { samples, inputs: words(vocabulary), targets },
            )
        }
    }
}

fn check_gradients(case: &Case, model: &mut dyn Model, batch: &Batch) {
    let layout = model.layout().clone();
    let mut gradient = Gradient::new(&layout);
    // Remains of an earlier step must not show.
    gradient.values.fill(7.0);
    let mut tally = Tally::default();
    model.gradient(&parameters(&layout), batch, 0, &mut gradient, &mut tally);
    assert!((tally.mean_loss() - case.loss).abs() < 1e-5, "{}: loss {}", case.name, tally.mean_loss());
    assert_eq!(gradient.weight, tally.answers as f64);
    assert_eq!(layout.tensors().len(), case.gradients.len(), "{}: tensors", case.name);
    for (number, tensor) in layout.tensors().iter().enumerate() {
        let expect = &case.gradients[&tensor.name];
        let got = tensor.to_torch(&gradient.values);
        for (i, (got, expect)) in got.iter().zip(expect).enumerate() {
            let row_counts = |rows: &crate::gradient::Rows| rows.is_touched((i / rows.width) as u32);
            let counts = gradient.rows(number).is_none_or(row_counts);
            let got = if counts { f64::from(*got) / gradient.weight } else { 0.0 };
            let difference = (got - f64::from(*expect)).abs();
            assert!(difference < 2e-6, "{}: {}[{i}] is {got}, not {expect}", case.name, tensor.name);
        }
    }
}

fn check_steps(case: &Case, steps: &Steps, model: &mut dyn Model, batch: &Batch) {
    let mut parameters = parameters(model.layout());
    let mut gradient = Gradient::new(model.layout());
    let mut optimizer = Optimizer::new(steps.optimizer.clone(), model.layout());
    for (i, expect) in steps.losses.iter().enumerate() {
        let mut tally = Tally::default();
        model.gradient(&parameters, batch, 0, &mut gradient, &mut tally);
        let difference = (tally.mean_loss() - expect).abs();
        assert!(difference < 2e-5, "{} with {}: loss {i} is off by {difference}", case.name, steps.name);
        optimizer.step(&mut parameters, std::slice::from_ref(&gradient), steps.optimizer.lr(), steps.clip);
    }
}

#[test]
fn models_and_optimisers_compute_what_pytorch_computes() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../fixtures/oracle.json")).expect("the fixture");
    assert!(cases.len() >= 7);
    for case in &cases {
        let (shape, batch) = shape_and_batch(&case.shape);
        let mut model = case.model.build(&shape).expect("a model");
        check_gradients(case, &mut *model, &batch);
        for steps in &case.steps {
            check_steps(case, steps, &mut *model, &batch);
        }
    }
}

/// Two workers with half the samples each are one worker with all of them.
#[test]
fn gradients_of_parts_sum_to_that_of_the_whole() {
    let shape = Shape::Tagging { words: 50, tags: 5 };
    let spec = ModelSpec::Tagger(crate::models::tagger::Options { dropout: 0.0, ..Default::default() });
    let mut model = spec.build(&shape).expect("a model");
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

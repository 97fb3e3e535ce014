//! Every layer's backward pass against differences of its forward pass.

use super::*;
use crate::batch::{Batch, IGNORED, Inputs, PADDING, Shape};
use crate::layout::Layout;
use crate::random::Random;
use crate::{ClassWeights, Gradient, Model, Net, Network, Tally, Var};

/// A network made in a test: layers with a loss at the end.
struct Probe(Box<dyn Fn(&mut Tape<'_>) + Send>);

impl Network for Probe {
    fn forward(&self, tape: &mut Tape<'_>) {
        (self.0)(tape);
    }

    fn classes(&self) -> usize {
        3
    }
}

/// How far a parameter is moved to both sides. Less drowns in rounding, more runs into the kinks of ReLU.
const STEP: f32 = 2e-3;

const SEED: u64 = 5;

/// Checks that the gradient of a network is what its loss does when a parameter moves.
fn check<F>(name: &str, batch: &Batch, make: impl FnOnce(&mut Layout) -> F)
where
    F: Fn(&mut Tape<'_>) + Send + 'static,
{
    check_weighed(name, batch, &ClassWeights::default(), make);
}

/// The same with classes that weigh differently.
fn check_weighed<F>(name: &str, batch: &Batch, weights: &ClassWeights, make: impl FnOnce(&mut Layout) -> F)
where
    F: Fn(&mut Tape<'_>) + Send + 'static,
{
    let mut model = Net::new(|layout| Probe(Box::new(make(layout))));
    if *weights != ClassWeights::default() {
        model.weigh_classes(weights).expect("one a class");
    }
    let layout = model.layout().clone();
    let mut gradient = Gradient::new(&layout);
    let mut random = Random::new(SEED);
    // Norms begin alike in every channel: a little noise makes each its own.
    let mut parameters: Vec<f32> =
        layout.initial(SEED).iter().map(|value| value + random.between(-0.2, 0.2)).collect();
    let mut loss = |parameters: &[f32], gradient: &mut Gradient| {
        let mut tally = Tally::default();
        model.gradient(parameters, batch, SEED, gradient, &mut tally);
        tally.loss
    };
    gradient.values.fill(9.0);
    loss(&parameters, &mut gradient);
    let found = gradient.clone();
    for (number, tensor) in layout.tensors().iter().enumerate() {
        if tensor.kind == crate::layout::TensorKind::Buffer {
            continue;
        }
        for i in tensor.range.clone() {
            let before = parameters[i];
            let mut moved = |by: f32| {
                parameters[i] = before + by;
                (f64::from(parameters[i]), loss(&parameters, &mut gradient))
            };
            let ((low, below), (high, above)) = (moved(-STEP), moved(STEP));
            parameters[i] = before;
            let expect = (above - below) / (high - low);
            let is_touched = |rows: &crate::gradient::Rows| {
                rows.is_touched(((i - tensor.range.start) / rows.width) as u32)
            };
            let counts = found.rows(number).is_none_or(is_touched);
            let got = if counts { f64::from(found.values[i]) } else { 0.0 };
            let off = (got - expect).abs();
            let at = i - tensor.range.start;
            assert!(off < 0.01 * (1.0 + expect.abs()), "{name}: {}[{at}]: {got}, not {expect}", tensor.name);
        }
    }
}

fn images(samples: usize, [height, width, channels]: [usize; 3]) -> Batch {
    Batch::random(&Shape::Images { height, width, channels, classes: 3 }, samples, 0, SEED)
}

/// Four texts of five, two, one and four words out of seven. What lies behind a text's end is a word too: nothing is
/// padding.
fn texts() -> Batch {
    let mut batch = Batch::random(&Shape::Texts { words: 7, classes: 3 }, 4, 5, SEED);
    let Inputs::Words { lengths, .. } = &mut batch.inputs else { unreachable!("texts are words") };
    *lengths = vec![5, 2, 1, 4];
    batch
}

/// Behind the layer in question: all of the image to three scores.
fn scores(layout: &mut Layout, size: [usize; 3]) -> impl Fn(&mut Tape<'_>, Var) + Send + use<> {
    let linear = Linear::of_image(layout, "scores", size, 3);
    move |tape, x| {
        let scores = linear.forward(tape, x, Activation::None);
        tape.cross_entropy(scores);
    }
}

#[test]
fn linear_layers_and_losses() {
    check("linear", &images(3, [2, 3, 2]), |layout| {
        let first = Linear::of_image(layout, "first", [2, 3, 2], 4);
        let second = Linear::new(layout, "second", 4, 3);
        move |tape| {
            let x = tape.images();
            let x = first.forward(tape, x, Activation::Tanh);
            let scores = second.forward(tape, x, Activation::Relu);
            tape.cross_entropy(scores);
        }
    });
    check("one score", &images(5, [2, 3, 2]), |layout| {
        let linear = Linear::of_image(layout, "linear", [2, 3, 2], 1);
        move |tape| {
            let x = tape.images();
            let scores = linear.forward(tape, x, Activation::None);
            tape.binary_cross_entropy(scores, 2, 0.3);
        }
    });
    check("dropout", &images(3, [2, 3, 2]), |layout| {
        let linear = Linear::of_image(layout, "linear", [2, 3, 2], 8);
        let scores = scores(layout, [1, 1, 8]);
        move |tape| {
            let x = tape.images();
            let x = linear.forward(tape, x, Activation::Tanh);
            let x = tape.dropout(x, 0.4);
            scores(tape, x);
        }
    });
}

#[test]
fn losses_with_masks_and_weights() {
    let mut batch = images(7, [2, 3, 2]);
    batch.targets = vec![0, IGNORED, 2, 1, 1, IGNORED, 0];
    let weights = ClassWeights::new(&[0.5, 3.0, 0.0]).expect("weights");
    for weights in [&ClassWeights::default(), &weights] {
        check_weighed("masked", &batch, weights, |layout| {
            let scores = scores(layout, [2, 3, 2]);
            move |tape| {
                let x = tape.images();
                scores(tape, x);
            }
        });
        check_weighed("masked, one score", &batch, weights, |layout| {
            let linear = Linear::of_image(layout, "linear", [2, 3, 2], 1);
            move |tape| {
                let x = tape.images();
                let scores = linear.forward(tape, x, Activation::None);
                tape.binary_cross_entropy(scores, 1, 0.3);
            }
        });
    }
}

#[test]
fn convolutions() {
    // Kernel, stride, padding; samples in the lanes have neither stride nor padding.
    let check_conv = |name: &str, samples: usize, [kernel, stride, padding]: [usize; 3], lanes: bool| {
        let side = |side: usize| (side + 2 * padding - kernel) / stride + 1;
        let rest = [side(6), side(5), 4];
        check(name, &images(samples, [6, 5, 2]), |layout| {
            let first = Conv2d::new(layout, "first", 2, 3, 1);
            let second = Conv2d::new(layout, "second", 3, 4, kernel).stride(stride).padding(padding);
            let scores = scores(layout, rest);
            move |tape| {
                let x = if lanes { tape.images_in_lanes() } else { tape.images() };
                let x = first.forward(tape, x, Activation::Tanh);
                let x = second.forward(tape, x, Activation::Tanh);
                scores(tape, x);
            }
        });
    };
    check_conv("padded", 3, [3, 1, 1], false);
    check_conv("strided", 3, [3, 2, 1], false);
    check_conv("strided 1×1", 3, [1, 2, 0], false);
    check_conv("plain", 3, [2, 1, 0], false);
    check_conv("lanes of 1", 1, [3, 1, 0], true);
    check_conv("lanes of 17", 17, [3, 1, 0], true);
    check("full registers", &images(2, [4, 4, 2]), |layout| {
        let first = Conv2d::without_bias(layout, "first", 2, 16, 1);
        let second = Conv2d::without_bias(layout, "second", 16, 16, 3).padding(1);
        let scores = scores(layout, [4, 4, 16]);
        move |tape| {
            let x = tape.images();
            let x = first.forward(tape, x, Activation::None);
            let x = second.forward(tape, x, Activation::Tanh);
            scores(tape, x);
        }
    });
}

#[test]
fn pools_and_shortcuts() {
    // What is done to images of 6×7 places with three channels, and how large the result is.
    let check_pool = |name: &str, lanes: bool, rest: [usize; 3], pool: fn(&mut Tape<'_>, Var) -> Var| {
        check(name, &images(3, [6, 7, 1]), |layout| {
            let conv = Conv2d::new(layout, "conv", 1, 3, 1);
            let scores = scores(layout, rest);
            move |tape| {
                let x = if lanes { tape.images_in_lanes() } else { tape.images() };
                let x = conv.forward(tape, x, Activation::Tanh);
                let x = pool(tape, x);
                scores(tape, x);
            }
        });
    };
    for lanes in [false, true] {
        check_pool("average", lanes, [3, 3, 3], |tape, x| tape.average_pool(x, 2));
        check_pool("average of 3", lanes, [2, 2, 3], |tape, x| tape.average_pool(x, 3));
        check_pool("max", lanes, [3, 3, 3], |tape, x| tape.max_pool(x, 2));
        check_pool("max of 3", lanes, [2, 2, 3], |tape, x| tape.max_pool(x, 3));
        check_pool("dropout", lanes, [6, 7, 3], |tape, x| tape.dropout(x, 0.4));
        check_pool("average of all", lanes, [1, 1, 3], |tape, x| tape.global_average(x));
        check_pool("average to 4×3", lanes, [4, 3, 3], |tape, x| tape.adaptive_average_pool(x, [4, 3]));
        check_pool("average to 8×2", lanes, [8, 2, 3], |tape, x| tape.adaptive_average_pool(x, [8, 2]));
        check_pool("max to 4×3", lanes, [4, 3, 3], |tape, x| tape.adaptive_max_pool(x, [4, 3]));
        check_pool("strided average", lanes, [3, 4, 3], |tape, x| {
            tape.average_pool_by(x, PoolWindow { kernel: 3, stride: 2, padding: 1 })
        });
        check_pool("strided max", lanes, [2, 3, 3], |tape, x| {
            tape.max_pool_by(x, PoolWindow { kernel: 3, stride: 2, padding: 0 })
        });
        check_pool("sum", lanes, [6, 7, 3], |tape, x| {
            let y = tape.function(x.clone(), Function::Tanh);
            tape.sum(x, y)
        });
        check_pool("max to 2×9", lanes, [2, 9, 3], |tape, x| tape.adaptive_max_pool(x, [2, 9]));
    }
    check_pool("subsampled", false, [3, 4, 7], |tape, x| tape.subsample(x, 7));
}

#[test]
fn functions() {
    let functions = [
        Function::Relu,
        Function::Tanh,
        Function::Sigmoid,
        Function::Gelu,
        Function::Silu,
        Function::LeakyRelu(0.1),
        Function::Elu(0.7),
    ];
    for function in functions {
        check(function.name(), &images(3, [2, 3, 2]), |layout| {
            let linear = Linear::without_bias(layout, "linear", 12, Some([2, 3, 2]), 6);
            let scores = scores(layout, [1, 1, 6]);
            move |tape| {
                let x = tape.images();
                let x = linear.forward(tape, x, Activation::None);
                let x = tape.function(x, function);
                scores(tape, x);
            }
        });
    }
}

#[test]
fn batch_norms() {
    let check_norm = |name: &str, has_residual: bool, activation: Activation| {
        check(name, &images(3, [3, 2, 2]), |layout| {
            let conv = Conv2d::without_bias(layout, "conv", 2, 4, 1);
            let side = Conv2d::new(layout, "side", 2, 4, 1);
            let norm = BatchNorm::new(layout, "norm", 4);
            let scores = scores(layout, [3, 2, 4]);
            move |tape| {
                let images = tape.images();
                let x = conv.forward(tape, images.clone(), Activation::None);
                let residual = has_residual.then(|| side.forward(tape, images, Activation::None));
                let x = norm.forward(tape, x, residual, activation);
                scores(tape, x);
            }
        });
    };
    check_norm("plain", false, Activation::None);
    check_norm("relu", false, Activation::Relu);
    check_norm("residual", true, Activation::None);
    check_norm("residual and relu", true, Activation::Relu);
    check("used twice, and its own residual", &images(2, [2, 2, 2]), |layout| {
        let conv = Conv2d::without_bias(layout, "conv", 2, 2, 1);
        let norm = BatchNorm::new(layout, "norm", 2);
        let scores = scores(layout, [2, 2, 2]);
        move |tape| {
            let x = tape.images();
            let x = conv.forward(tape, x, Activation::None);
            let y = norm.forward(tape, x.clone(), Some(x.clone()), Activation::None);
            let y = norm.forward(tape, y, Some(x), Activation::None);
            scores(tape, y);
        }
    });
}

#[test]
fn recurrent_layers() {
    let check_stack = |cell: Cell, bidirectional: bool, dropout: f32| {
        let stack = Stack { cell, hidden: 5, layers: 2, bidirectional, dropout };
        check(&format!("{stack:?}"), &texts(), |layout| {
            let embedding = Embedding::new(layout, "embedding", 7, 3);
            let rnn = Recurrent::new(layout, "rnn", 3, &stack);
            let scores = scores(layout, [1, 1, stack.outputs()]);
            move |tape| {
                let x = embedding.forward(tape);
                let x = rnn.forward(tape, x);
                let x = tape.last_word(x);
                scores(tape, x);
            }
        });
    };
    for cell in [Cell::Gru, Cell::Lstm] {
        check_stack(cell, false, 0.0);
        check_stack(cell, false, 0.3);
        check_stack(cell, true, 0.0);
        check_stack(cell, true, 0.3);
    }
}

/// A score for every word: what lies behind a text's end is padding, which has no target, and no gradient
/// either.
#[test]
fn recurrent_layers_with_padding_and_masks() {
    let mut batch = texts();
    let Inputs::Words { steps, numbers, lengths } = &mut batch.inputs else {
        unreachable!("texts are words")
    };
    batch.targets = (0..*steps as u32 * 4).map(|i| i * 7 % 3).collect();
    for (i, (number, target)) in numbers.iter_mut().zip(&mut batch.targets).enumerate() {
        if (i / 4) as u32 >= lengths[i % 4] {
            (*number, *target) = (PADDING, IGNORED);
        }
    }
    let weights = ClassWeights::new(&[1.0, 0.5, 2.0]).expect("weights");
    for cell in [Cell::Gru, Cell::Lstm] {
        for bidirectional in [false, true] {
            let stack = Stack { cell, hidden: 4, layers: 1, bidirectional, dropout: 0.0 };
            check_weighed(&format!("{stack:?}"), &batch, &weights, |layout| {
                let embedding = Embedding::new(layout, "embedding", 7, 3);
                let rnn = Recurrent::new(layout, "rnn", 3, &stack);
                let scores = scores(layout, [1, 1, stack.outputs()]);
                move |tape| {
                    let x = embedding.forward(tape);
                    let x = rnn.forward(tape, x);
                    scores(tape, x);
                }
            });
        }
    }
}

#[test]
fn states_behind_the_last_step() {
    for cell in [Cell::Gru, Cell::Lstm] {
        let stack = Stack { cell, hidden: 4, layers: 1, bidirectional: false, dropout: 0.0 };
        check(&format!("{stack:?}"), &texts(), |layout| {
            let embedding = Embedding::new(layout, "embedding", 7, 3);
            let rnn = Recurrent::new(layout, "rnn", 3, &stack);
            let scores = scores(layout, [1, 1, 4]);
            move |tape| {
                let x = embedding.forward(tape);
                let x = rnn.forward(tape, x);
                let x = tape.last_step(x);
                scores(tape, x);
            }
        });
    }
}

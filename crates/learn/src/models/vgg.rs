use serde::{Deserialize, Serialize};

use super::{check_dropout, check_sizes, wrong_image, wrong_option};
use crate::error::Result;
use crate::layers::{Activation, BatchNorm, Conv2d, Linear};
use crate::layout::Layout;
use crate::model::{Model, Net, Network};
use crate::tape::{Tape, Var};

/// Five stages of 3×3 convolutions, each of which ends by halving the image, and three linear layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pub batch_norm: bool,
    /// The channels of the first stage; the next three have twice as many each.
    pub width: usize,
    /// The outputs of the hidden linear layers.
    pub hidden: usize,
    /// The rate of dropout before the hidden linear layers.
    pub dropout: f32,
    /// The side to which the result of the convolutions is averaged, whatever the size of the images: 7 in torchvision.
    /// Without it, the linear layers see the whole result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { batch_norm: true, width: 64, hidden: 512, dropout: 0.5, pool: None }
    }
}

/// How many times an image is halved; a rest at the edge is left out.
const STAGES: usize = 5;

/// The largest side of the averaged result: a typing error must not fill the memory.
const MOST_POOLED: usize = 64;

impl Options {
    /// `name` is one of vgg11, vgg13, vgg16 and vgg19.
    pub fn build(&self, name: &str, image: [usize; 3], classes: usize) -> Result<Box<dyn Model>> {
        check_sizes(name, &[("width", &[self.width]), ("hidden", &[self.hidden])])?;
        if self.pool.is_some_and(|side| !(1..=MOST_POOLED).contains(&side)) {
            return Err(wrong_option(name, "pool", &format!("from 1 to {MOST_POOLED}")));
        }
        check_dropout(name, self.dropout)?;
        let side = 1 << STAGES;
        if image[..2].iter().any(|&length| length < side) {
            return Err(wrong_image(name, image, &format!("images of at least {side}×{side}")));
        }
        Ok(Box::new(Net::new(|layout| Vgg::new(layout, stages(name), self, image, classes))))
    }
}

/// How many convolutions each stage has.
fn stages(name: &str) -> [usize; STAGES] {
    match name {
        "vgg11" => [1, 1, 2, 2, 2],
        "vgg13" => [2, 2, 2, 2, 2],
        "vgg16" => [2, 2, 3, 3, 3],
        "vgg19" => [2, 2, 4, 4, 4],
        _ => unreachable!("no VGG is named {name}"),
    }
}

#[derive(Debug)]
struct Vgg {
    stages: Vec<Vec<NormedConv>>,
    classifier: [Linear; 3],
    dropout: f32,
    pool: Option<usize>,
    classes: usize,
}

/// A convolution with its norm, if the net has them.
#[derive(Debug)]
struct NormedConv {
    conv: Conv2d,
    norm: Option<BatchNorm>,
}

impl Vgg {
    fn new(
        layout: &mut Layout,
        convolutions: [usize; STAGES],
        options: &Options,
        [height, width, mut channels]: [usize; 3],
        classes: usize,
    ) -> Self {
        // PyTorch counts what has no parameters as well: ReLU, the halving, dropout.
        let (mut stages, mut number) = (Vec::new(), 0);
        for (stage, count) in convolutions.into_iter().enumerate() {
            let outputs = options.width << stage.min(3);
            let mut convs = Vec::new();
            for _ in 0..count {
                convs.push(NormedConv::new(layout, number, channels, outputs, options.batch_norm));
                number += if options.batch_norm { 3 } else { 2 };
                channels = outputs;
            }
            number += 1;
            stages.push(convs);
        }
        let rest = options.pool.map_or([height >> STAGES, width >> STAGES], |side| [side; 2]);
        let rest = [rest[0], rest[1], channels];
        let classifier = [
            Linear::of_image(layout, "classifier.1", rest, options.hidden),
            Linear::new(layout, "classifier.4", options.hidden, options.hidden),
            Linear::new(layout, "classifier.6", options.hidden, classes),
        ];
        // In torchvision dropout follows a hidden layer, so the layer's number is one less.
        layout.alias("classifier.1", "classifier.0");
        layout.alias("classifier.4", "classifier.3");
        Self { stages, classifier, dropout: options.dropout, pool: options.pool, classes }
    }
}

impl NormedConv {
    fn new(layout: &mut Layout, number: usize, inputs: usize, outputs: usize, batch_norm: bool) -> Self {
        let conv = Conv2d::new(layout, &format!("features.{number}"), inputs, outputs, 3).padding(1);
        let norm = batch_norm.then(|| BatchNorm::new(layout, &format!("features.{}", number + 1), outputs));
        Self { conv, norm }
    }

    fn forward(&self, tape: &mut Tape<'_>, x: Var) -> Var {
        match &self.norm {
            None => self.conv.forward(tape, x, Activation::Relu),
            Some(norm) => {
                let x = self.conv.forward(tape, x, Activation::None);
                norm.forward(tape, x, None, Activation::Relu)
            }
        }
    }
}

impl Network for Vgg {
    fn forward(&self, tape: &mut Tape<'_>) {
        let mut x = tape.images();
        for convs in &self.stages {
            for conv in convs {
                x = conv.forward(tape, x);
            }
            x = tape.max_pool(x, 2);
        }
        if let Some(side) = self.pool {
            x = tape.adaptive_average_pool(x, [side; 2]);
        }
        let [first, second, last] = &self.classifier;
        x = tape.dropout(x, self.dropout);
        x = first.forward(tape, x, Activation::Relu);
        x = tape.dropout(x, self.dropout);
        x = second.forward(tape, x, Activation::Relu);
        let scores = last.forward(tape, x, Activation::None);
        tape.cross_entropy(scores);
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

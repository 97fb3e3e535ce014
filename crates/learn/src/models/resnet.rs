use serde::{Deserialize, Serialize};

use super::{check_sizes, wrong_image};
use crate::error::Result;
use crate::layers::{Activation, BatchNorm, Conv2d, Linear};
use crate::layout::Layout;
use crate::model::{Model, Net, Network};
use crate::tape::{Tape, Var};

/// Residual nets for images of about 32×32, square or not. Depths 18 to 152 have four stages and project their
/// shortcuts where the size changes; depths 20 to 110 have three narrow stages and shortcuts without parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The channels of the first stage; each further one has twice as many.
    pub width: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { width: 64 }
    }
}

/// The same for the depths 20 to 110.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CifarOptions {
    /// The channels of the first stage; each further one has twice as many.
    pub width: usize,
}

impl Default for CifarOptions {
    fn default() -> Self {
        Self { width: 16 }
    }
}

impl Options {
    /// `name` is one of resnet18, resnet34, resnet50, resnet101 and resnet152.
    pub fn build(&self, name: &str, image: [usize; 3], classes: usize) -> Result<Box<dyn Model>> {
        build(name, self.width, image, classes)
    }
}

impl CifarOptions {
    /// `name` is one of resnet20, resnet32, resnet44, resnet56 and resnet110.
    pub fn build(&self, name: &str, image: [usize; 3], classes: usize) -> Result<Box<dyn Model>> {
        build(name, self.width, image, classes)
    }
}

fn build(name: &str, width: usize, image: [usize; 3], classes: usize) -> Result<Box<dyn Model>> {
    check_sizes(name, &[("width", &[width])])?;
    if image[..2].contains(&0) {
        return Err(wrong_image(name, image, "images that have pixels"));
    }
    let variant = ResnetVariant::of(name);
    Ok(Box::new(Net::new(|layout| Resnet::new(layout, variant, width, image[2], classes))))
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
struct ResnetVariant {
    /// How many blocks each stage has.
    stages: &'static [usize],
    kind: BlockKind,
    /// What PyTorch's users call the last layer.
    head: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    /// Two 3×3 convolutions; where the size changes, the shortcut is projected.
    Basic,
    /// The same, but the shortcut is subsampled, as in the nets for CIFAR.
    Cifar,
    /// 1×1, 3×3 and 1×1 to four times the channels; the shortcut is projected.
    Bottleneck,
}

impl ResnetVariant {
    fn of(name: &str) -> Self {
        let basic = |stages| Self { stages, kind: BlockKind::Basic, head: "fc" };
        let bottleneck = |stages| Self { stages, kind: BlockKind::Bottleneck, head: "fc" };
        let cifar = |stages| Self { stages, kind: BlockKind::Cifar, head: "linear" };
        match name {
            "resnet18" => basic(&[2, 2, 2, 2]),
            "resnet34" => basic(&[3, 4, 6, 3]),
            "resnet50" => bottleneck(&[3, 4, 6, 3]),
            "resnet101" => bottleneck(&[3, 4, 23, 3]),
            "resnet152" => bottleneck(&[3, 8, 36, 3]),
            "resnet20" => cifar(&[3, 3, 3]),
            "resnet32" => cifar(&[5, 5, 5]),
            "resnet44" => cifar(&[7, 7, 7]),
            "resnet56" => cifar(&[9, 9, 9]),
            "resnet110" => cifar(&[18, 18, 18]),
            _ => unreachable!("no residual net is named {name}"),
        }
    }
}

#[derive(Debug)]
struct Resnet {
    conv1: Conv2d,
    bn1: BatchNorm,
    blocks: Vec<ResidualBlock>,
    head: Linear,
    classes: usize,
}

impl Resnet {
    fn new(layout: &mut Layout, variant: ResnetVariant, width: usize, inputs: usize, classes: usize) -> Self {
        let conv1 = Conv2d::without_bias(layout, "conv1", inputs, width, 3).padding(1);
        let bn1 = BatchNorm::new(layout, "bn1", width);
        let (mut blocks, mut channels) = (Vec::new(), width);
        for (stage, &count) in variant.stages.iter().enumerate() {
            for i in 0..count {
                let stride = if stage > 0 && i == 0 { 2 } else { 1 };
                let name = format!("layer{}.{i}", stage + 1);
                let block = ResidualBlock::new(layout, &name, variant.kind, channels, width << stage, stride);
                channels = block.channels;
                blocks.push(block);
            }
        }
        Self { conv1, bn1, blocks, head: Linear::new(layout, variant.head, channels, classes), classes }
    }
}

impl Network for Resnet {
    fn forward(&self, tape: &mut Tape<'_>) {
        let x = tape.images();
        let x = self.conv1.forward(tape, x, Activation::None);
        let mut x = self.bn1.forward(tape, x, None, Activation::Relu);
        for block in &self.blocks {
            x = block.forward(tape, x);
        }
        let x = tape.global_average(x);
        let scores = self.head.forward(tape, x, Activation::None);
        tape.cross_entropy(scores);
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

/// Convolutions whose result is added to what they began with.
#[derive(Debug)]
struct ResidualBlock {
    steps: Vec<(Conv2d, BatchNorm)>,
    shortcut: Shortcut,
    channels: usize,
}

#[derive(Debug)]
enum Shortcut {
    Same,
    Subsampled,
    Projected(Conv2d, BatchNorm),
}

impl ResidualBlock {
    fn new(
        layout: &mut Layout,
        name: &str,
        kind: BlockKind,
        inputs: usize,
        width: usize,
        stride: usize,
    ) -> Self {
        // Kernel, outputs and stride of every convolution.
        let sizes: &[_] = match kind {
            BlockKind::Basic | BlockKind::Cifar => &[(3, width, stride), (3, width, 1)],
            BlockKind::Bottleneck => &[(1, width, 1), (3, width, stride), (1, 4 * width, 1)],
        };
        let (mut steps, mut channels) = (Vec::new(), inputs);
        for (i, &(kernel, outputs, stride)) in sizes.iter().enumerate() {
            let conv = format!("{name}.conv{}", i + 1);
            let conv = Conv2d::without_bias(layout, &conv, channels, outputs, kernel);
            let norm = BatchNorm::new(layout, &format!("{name}.bn{}", i + 1), outputs);
            steps.push((conv.stride(stride).padding(kernel / 2), norm));
            channels = outputs;
        }
        let shortcut = if stride == 1 && channels == inputs {
            Shortcut::Same
        } else if kind == BlockKind::Cifar {
            Shortcut::Subsampled
        } else {
            let conv = Conv2d::without_bias(layout, &format!("{name}.downsample.0"), inputs, channels, 1);
            let norm = BatchNorm::new(layout, &format!("{name}.downsample.1"), channels);
            Shortcut::Projected(conv.stride(stride), norm)
        };
        Self { steps, shortcut, channels }
    }

    fn forward(&self, tape: &mut Tape<'_>, x: Var) -> Var {
        let mut shortcut = Some(match &self.shortcut {
            Shortcut::Same => x.clone(),
            Shortcut::Subsampled => tape.subsample(x.clone(), self.channels),
            Shortcut::Projected(conv, norm) => {
                let x = conv.forward(tape, x.clone(), Activation::None);
                norm.forward(tape, x, None, Activation::None)
            }
        });
        let mut y = x;
        for (i, (conv, norm)) in self.steps.iter().enumerate() {
            let residual = if i + 1 == self.steps.len() { shortcut.take() } else { None };
            y = conv.forward(tape, y, Activation::None);
            y = norm.forward(tape, y, residual, Activation::Relu);
        }
        y
    }
}

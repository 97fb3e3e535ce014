use serde::{Deserialize, Serialize};

use super::{check_sizes, conv2d, linear, wrong_image};
use crate::error::Result;
use crate::layer_list::{
    ConvOptions, LayerItem, LayerList, LayerSpec, LinearOptions, NormOptions, ResidualOptions, Shortcut,
    SpatialPadding,
};
use crate::layers::Function;

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
    pub(super) fn layers(&self, name: &str, image: [usize; 3]) -> Result<LayerList> {
        layers(name, self.width, image)
    }
}

impl CifarOptions {
    /// `name` is one of resnet20, resnet32, resnet44, resnet56 and resnet110.
    pub(super) fn layers(&self, name: &str, image: [usize; 3]) -> Result<LayerList> {
        layers(name, self.width, image)
    }
}

fn layers(name: &str, width: usize, image: [usize; 3]) -> Result<LayerList> {
    check_sizes(name, &[("width", &[width])])?;
    if image[..2].contains(&0) {
        return Err(wrong_image(name, image, "images that have pixels"));
    }
    let variant = ResnetVariant::of(name);
    let mut layers = normed_conv(1, ConvOptions { padding: SpatialPadding::Number(1), ..conv(width, 3) });
    layers.push(Function::Relu.into());
    let mut channels = width;
    for (stage, &count) in variant.stages.iter().enumerate() {
        let mut blocks = Vec::new();
        for i in 0..count {
            let stride = if stage > 0 && i == 0 { 2 } else { 1 };
            blocks.push(block(variant.kind, &mut channels, width << stage, stride));
        }
        let stage = format!("layer{}", stage + 1);
        layers.push(LayerItem::named(stage, LayerSpec::Sequential(LayerList(blocks))));
    }
    layers.push(LayerSpec::GlobalAvgPool.into());
    layers.push(linear(variant.head, LinearOptions::classes()));
    Ok(LayerList(layers))
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

/// A convolution without a bias.
fn conv(outputs: usize, kernel: usize) -> ConvOptions {
    ConvOptions { bias: false, ..ConvOptions::new(outputs, kernel) }
}

/// A convolution and its norm.
fn normed_conv(number: usize, options: ConvOptions) -> Vec<LayerItem> {
    vec![
        conv2d(&format!("conv{number}"), options),
        LayerItem::named(format!("bn{number}"), LayerSpec::BatchNorm(NormOptions::default())),
    ]
}

/// Convolutions whose result is added to what they began with.
fn block(kind: BlockKind, channels: &mut usize, width: usize, stride: usize) -> LayerItem {
    // Kernel, outputs and stride of every convolution.
    let sizes: &[_] = match kind {
        BlockKind::Basic | BlockKind::Cifar => &[(3, width, stride), (3, width, 1)],
        BlockKind::Bottleneck => &[(1, width, 1), (3, width, stride), (1, 4 * width, 1)],
    };
    let inputs = *channels;
    let mut layers = Vec::new();
    for (i, &(kernel, outputs, stride)) in sizes.iter().enumerate() {
        if i > 0 {
            layers.push(Function::Relu.into());
        }
        let padding = SpatialPadding::Number(kernel / 2);
        layers.extend(normed_conv(i + 1, ConvOptions { stride, padding, ..conv(outputs, kernel) }));
        *channels = outputs;
    }
    let downsample = if stride == 1 && *channels == inputs {
        None
    } else if kind == BlockKind::Cifar {
        Some(Shortcut::Subsample)
    } else {
        Some(Shortcut::Layers(LayerList::new([
            LayerSpec::Conv2d(ConvOptions { stride, ..conv(*channels, 1) }).into(),
            LayerSpec::BatchNorm(NormOptions::default()).into(),
        ])))
    };
    let activation = Some(Function::Relu);
    LayerSpec::Residual(ResidualOptions { layers: LayerList(layers), downsample, activation }).into()
}

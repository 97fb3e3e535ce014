use serde::{Deserialize, Serialize};

use super::{check_dropout, check_sizes, wrong_image, wrong_option};
use crate::error::Result;
use crate::layer_list::{
    ConvOptions, LayerItem, LayerList, LayerSpec, LinearOptions, NormOptions, PoolOptions, Sides,
    SpatialPadding,
};
use crate::layers::Function;

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
    pub(super) fn layers(&self, name: &str, image: [usize; 3]) -> Result<LayerList> {
        check_sizes(name, &[("width", &[self.width]), ("hidden", &[self.hidden])])?;
        if self.pool.is_some_and(|side| !(1..=MOST_POOLED).contains(&side)) {
            return Err(wrong_option(name, "pool", &format!("from 1 to {MOST_POOLED}")));
        }
        check_dropout(name, self.dropout)?;
        let side = 1 << STAGES;
        if image[..2].iter().any(|&length| length < side) {
            return Err(wrong_image(name, image, &format!("images of at least {side}×{side}")));
        }
        let features = LayerSpec::Sequential(self.features(stages(name)));
        let pool = self.pool.map(|side| LayerItem::from(LayerSpec::AdaptiveAvgPool2d(Sides([side; 2]))));
        let rest = [
            LayerSpec::Flatten.into(),
            LayerItem::named("classifier", LayerSpec::Sequential(self.classifier())),
        ];
        Ok(LayerList::new([LayerItem::named("features", features)].into_iter().chain(pool).chain(rest)))
    }

    fn features(&self, convolutions: [usize; STAGES]) -> LayerList {
        let mut layers = Vec::new();
        for (stage, count) in convolutions.into_iter().enumerate() {
            let conv = ConvOptions::new(self.width << stage.min(3), 3);
            let conv = ConvOptions { padding: SpatialPadding::Number(1), ..conv };
            for _ in 0..count {
                layers.push(LayerSpec::Conv2d(conv).into());
                if self.batch_norm {
                    layers.push(LayerSpec::BatchNorm(NormOptions::default()).into());
                }
                layers.push(Function::Relu.into());
            }
            layers.push(LayerSpec::MaxPool2d(PoolOptions::new(2)).into());
        }
        LayerList(layers)
    }

    fn classifier(&self) -> LayerList {
        let hidden = LayerSpec::Linear(LinearOptions::new(self.hidden));
        LayerList::new([
            LayerSpec::Dropout(self.dropout).into(),
            // In torchvision dropout follows a hidden layer, so the layer's number is one less.
            LayerItem { alias: Some("0".to_owned()), ..hidden.clone().into() },
            Function::Relu.into(),
            LayerSpec::Dropout(self.dropout).into(),
            LayerItem { alias: Some("3".to_owned()), ..hidden.into() },
            Function::Relu.into(),
            LayerSpec::Linear(LinearOptions::classes()).into(),
        ])
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

//! The models that have a name. Each file holds one, or a family of depths: its options, and its list of layers.
//!
//! To add one: write the file, and add it to the list below.

pub mod lenet;
pub mod lenet5;
pub mod mlp;
pub mod resnet;
pub mod sentiment;
pub mod tagger;
pub mod vgg;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::batch::Shape;
use crate::error::{Error, Result};
use crate::layer_list::{ConvOptions, LayerItem, LayerList, LayerPlan, LayerSpec, LinearOptions};
use crate::model::Model;

/// Makes [`ModelSpec`] of the models' names and options, by the kind of data that they are for.
macro_rules! models {
    (
        images: { $($image:ident($image_options:ty) = $image_name:literal,)* }
        tagging: { $($tagger:ident($tagger_options:ty) = $tagger_name:literal,)* }
        texts: { $($text:ident($text_options:ty) = $text_name:literal,)* }
    ) => {
        /// A model by name, with its options: the value of `model` in a run file.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum ModelSpec {
            $($image($image_options),)*
            $($tagger($tagger_options),)*
            $($text($text_options),)*
            /// Layers that a run file lists.
            Layers(LayerList),
        }

        impl ModelSpec {
            /// The names of all models that have one.
            pub const NAMES: &'static [&'static str] =
                &[$($image_name,)* $($tagger_name,)* $($text_name,)*];

            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$image(_) => $image_name,)*
                    $(Self::$tagger(_) => $tagger_name,)*
                    $(Self::$text(_) => $text_name,)*
                    Self::Layers(_) => "layers",
                }
            }

            /// The layers of the model for data of a shape, or why the two do not fit.
            pub fn plan(&self, shape: &Shape) -> Result<LayerPlan> {
                let list = match (self, shape) {
                    // What does not fit is named with its place in the list.
                    (Self::Layers(list), shape) => return LayerPlan::of(list, shape),
                    $((Self::$image(options), &Shape::Images { height, width, channels, .. }) => {
                        options.layers($image_name, [height, width, channels])
                    })*
                    $((Self::$tagger(options), Shape::Tagging { .. }) => options.layers(),)*
                    $((Self::$text(options), &Shape::Texts { classes, .. }) => options.layers(classes),)*
                    $((Self::$image(_), _) => {
                        Err(wrong_data($image_name, "images (digits, fashion-mnist, …)", shape))
                    })*
                    $((Self::$tagger(_), _) => {
                        Err(wrong_data($tagger_name, "sentences with one tag a word (grammar, …)", shape))
                    })*
                    $((Self::$text(_), _) => {
                        Err(wrong_data($text_name, "texts with one label each (reviews, …)", shape))
                    })*
                }?;
                let unnamed = |error: Error| Error::new(format!("model {}: {}", self.name(), error.message()));
                LayerPlan::of(&list, shape).map_err(unnamed)
            }

            /// Builds the model for data of a shape, or says why the two do not fit.
            pub fn build(&self, shape: &Shape) -> Result<Box<dyn Model>> {
                Ok(self.plan(shape)?.build())
            }
        }
    };
}

models! {
    images: {
        Cnn(lenet::CnnOptions) = "cnn",
        Lenet(lenet::Options) = "lenet",
        Lenet5(lenet5::Options) = "lenet5",
        Mlp(mlp::Options) = "mlp",
        Resnet18(resnet::Options) = "resnet18",
        Resnet20(resnet::CifarOptions) = "resnet20",
        Resnet32(resnet::CifarOptions) = "resnet32",
        Resnet34(resnet::Options) = "resnet34",
        Resnet44(resnet::CifarOptions) = "resnet44",
        Resnet50(resnet::Options) = "resnet50",
        Resnet56(resnet::CifarOptions) = "resnet56",
        Resnet101(resnet::Options) = "resnet101",
        Resnet110(resnet::CifarOptions) = "resnet110",
        Resnet152(resnet::Options) = "resnet152",
        Vgg11(vgg::Options) = "vgg11",
        Vgg13(vgg::Options) = "vgg13",
        Vgg16(vgg::Options) = "vgg16",
        Vgg19(vgg::Options) = "vgg19",
    }
    tagging: {
        Tagger(tagger::Options) = "tagger",
    }
    texts: {
        Sentiment(sentiment::Options) = "sentiment",
    }
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self::Lenet5(lenet5::Options::default())
    }
}

/// Data of another kind than the model is for.
fn wrong_data(model: &str, wants: &str, shape: &Shape) -> Error {
    let has = match shape {
        Shape::Images { .. } => "images",
        Shape::Tagging { .. } => "sentences with one tag a word",
        Shape::Texts { .. } => "texts with one label each",
    };
    Error::new(format!("model {model} is for {wants}, but the data are {has}"))
}

/// Images of a size that the model cannot take.
fn wrong_image(model: &str, [height, width, _]: [usize; 3], wants: &str) -> Error {
    Error::new(format!("model {model} is for {wants}, but the data have {height}×{width}"))
}

/// An option that is out of its range.
fn wrong_option(model: &str, option: &str, rule: &str) -> Error {
    Error::new(format!("model {model}: {option} must be {rule}"))
}

/// A rate of dropout.
fn check_dropout(model: &str, rate: f32) -> Result<()> {
    if (0.0..1.0).contains(&rate) { Ok(()) } else { Err(wrong_option(model, "dropout", "from 0 to below 1")) }
}

/// The largest size of a layer: a typing error must not fill the memory.
const MOST: usize = 65_536;

/// Sizes that must not be 0, and not absurd.
fn check_sizes(model: &str, sizes: &[(&str, &[usize])]) -> Result<()> {
    match sizes.iter().find(|(_, sizes)| !sizes.iter().all(|size| (1..=MOST).contains(size))) {
        Some((option, _)) => Err(wrong_option(model, option, &format!("from 1 to {MOST}"))),
        None => Ok(()),
    }
}

/// How many layers lie on top of each other.
fn check_layers(model: &str, layers: usize) -> Result<()> {
    if (1..=100).contains(&layers) { Ok(()) } else { Err(wrong_option(model, "layers", "from 1 to 100")) }
}

/// Whether two convolutions without padding, each with a halving behind, leave something of an image.
fn check_kernel(model: &str, image: [usize; 3], kernel: usize) -> Result<()> {
    let shrink = |side: usize| (side + 1).checked_sub(kernel).map(|side| side / 2);
    let is_left = |side: usize| shrink(side).and_then(shrink).is_some_and(|side| side > 0);
    if is_left(image[0]) && is_left(image[1]) {
        return Ok(());
    }
    let rule = format!("small enough for images of {}×{}", image[0], image[1]);
    Err(wrong_option(model, "kernel", &rule))
}

fn conv2d(name: &str, options: ConvOptions) -> LayerItem {
    LayerItem::named(name, LayerSpec::Conv2d(options))
}

fn linear(name: &str, options: LinearOptions) -> LayerItem {
    LayerItem::named(name, LayerSpec::Linear(options))
}

//! From what is written to what is planned: names, numbers, and the flow through the list.

use super::fit::Fit;
use super::flow::Flow;
use super::item::{LayerItem, LayerSpec};
use super::options::{ResidualOptions, Shortcut};
use super::plan::{Head, LayerKind, PlannedLayer, PlannedShortcut};
use crate::batch::Shape;
use crate::error::{Error, Result};

/// The most layers of a list: a typing error must not fill the memory.
const MOST_LAYERS: usize = 10_000;

/// The layers of a model, and what comes out of the last.
pub(super) fn layers(items: &[LayerItem], shape: &Shape, head: Head) -> Result<(Vec<PlannedLayer>, Flow)> {
    let mut planner = Planner { fit: Fit { shape, head }, count: 0 };
    let mut part = ListPart::new("", Flow::of(shape));
    planner.items(items, "layers", &mut part)?;
    Ok((part.layers, part.flow))
}

struct Planner<'s> {
    fit: Fit<'s>,
    /// How many layers there are so far.
    count: usize,
}

/// A part of a model that counts its layers from 0.
struct ListPart {
    /// What its layers' names begin with.
    prefix: String,
    number: usize,
    flow: Flow,
    layers: Vec<PlannedLayer>,
}

impl ListPart {
    fn new(name: &str, flow: Flow) -> Self {
        let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
        Self { prefix, number: 0, flow, layers: Vec::new() }
    }

    /// The name of its next layer.
    fn name(&mut self, item: &LayerItem, path: &str) -> Result<String> {
        let number = self.number.to_string();
        self.number += 1;
        let name = item.name.as_deref().unwrap_or(&number);
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(Error::at(path, format!("the name `{name}` must be letters, digits and `_` only")));
        }
        let name = format!("{}{name}", self.prefix);
        if self.layers.iter().any(|layer| layer.name == name) {
            return Err(Error::at(path, format!("another layer is named `{name}` as well")));
        }
        Ok(name)
    }
}

impl Planner<'_> {
    fn items(&mut self, items: &[LayerItem], path: &str, part: &mut ListPart) -> Result<()> {
        for (i, item) in items.iter().enumerate() {
            let path = format!("{path}[{i}]");
            self.count += 1;
            if self.count > MOST_LAYERS {
                return Err(Error::at(path, format!("the model has more than {MOST_LAYERS} layers")));
            }
            if let LayerSpec::Repeat(repeat) = &item.layer {
                if item.name.is_some() || item.init.is_some() {
                    let message = "a repeat has no name and no init of its own: its layers follow each other as if \
                                   they were written out";
                    return Err(Error::at(path, message));
                }
                for _ in 0..repeat.times {
                    self.items(&repeat.layers.0, &format!("{path}.repeat.layers"), part)?;
                }
                continue;
            }
            let layer = self.item(item, &path, part)?;
            part.flow = layer.output;
            part.layers.push(layer);
        }
        Ok(())
    }

    fn item(&mut self, item: &LayerItem, path: &str, part: &mut ListPart) -> Result<PlannedLayer> {
        let (name, input) = (part.name(item, path)?, part.flow);
        let (kind, output) = match &item.layer {
            LayerSpec::Sequential(list) => {
                let (layers, output) = self.part(&list.0, &format!("{path}.sequential"), &name, input)?;
                (LayerKind::Sequential(layers), output)
            }
            LayerSpec::Residual(options) => self.residual(options, path, &name, input)?,
            layer => self.fit.layer(layer, input).map_err(|message| Error::at(path, message))?,
        };
        if item.init.is_some() && !has_weights(&kind) {
            return Err(Error::at(path, format!("{} has no weights to begin with", item.layer.key())));
        }
        let alias = item.alias.as_ref().map(|alias| format!("{}{alias}", part.prefix));
        Ok(PlannedLayer { name, key: item.layer.key(), kind, input, output, init: item.init, alias })
    }

    fn part(
        &mut self,
        items: &[LayerItem],
        path: &str,
        name: &str,
        input: Flow,
    ) -> Result<(Vec<PlannedLayer>, Flow)> {
        if items.is_empty() {
            return Err(Error::at(path, "the list has no layer"));
        }
        let mut part = ListPart::new(name, input);
        self.items(items, path, &mut part)?;
        Ok((part.layers, part.flow))
    }

    fn residual(
        &mut self,
        options: &ResidualOptions,
        path: &str,
        name: &str,
        input: Flow,
    ) -> Result<(LayerKind, Flow)> {
        let ResidualOptions { layers, downsample, activation } = options;
        let path = format!("{path}.residual");
        // Without options the list stands right below the name.
        let is_short = downsample.is_none() && activation.is_none();
        let list = if is_short { path.clone() } else { format!("{path}.layers") };
        let (layers, output) = self.part(&layers.0, &list, name, input)?;
        let (shortcut, around) = match downsample {
            None => (PlannedShortcut::Same, input),
            Some(Shortcut::Subsample) => subsampled(&path, input, output)?,
            Some(Shortcut::Layers(list)) => {
                let path = format!("{path}.downsample");
                let (layers, around) = self.part(&list.0, &path, &format!("{name}.downsample"), input)?;
                (PlannedShortcut::Layers(layers), around)
            }
        };
        if !around.fits(output) {
            let hint = match downsample {
                None => "; `downsample` can change it on its way around them",
                Some(_) => "",
            };
            let what = if downsample.is_none() { "the input" } else { "the way around them" };
            let message = format!("the layers give {output}, but {what} gives {around}{hint}");
            return Err(Error::at(path, message));
        }
        Ok((LayerKind::Residual { layers, shortcut, activation: *activation }, output))
    }
}

/// Half the places of an image, with as many channels as the layers around which it goes.
fn subsampled(path: &str, input: Flow, output: Flow) -> Result<(PlannedShortcut, Flow)> {
    let (Some([height, width, inputs]), Some([.., channels])) = (input.image(), output.image()) else {
        return Err(Error::at(path, format!("subsample takes images, but its input is {input}")));
    };
    if channels < inputs {
        let message = format!("subsample adds channels: {input} cannot become {output}");
        return Err(Error::at(path, message));
    }
    let around = Flow::Images([height.div_ceil(2), width.div_ceil(2), channels]);
    Ok((PlannedShortcut::Subsample(channels), around))
}

fn has_weights(kind: &LayerKind) -> bool {
    matches!(
        kind,
        LayerKind::Conv2d { .. }
            | LayerKind::BatchNorm { .. }
            | LayerKind::Linear { .. }
            | LayerKind::Embedding { .. }
            | LayerKind::Recurrent { .. }
    )
}

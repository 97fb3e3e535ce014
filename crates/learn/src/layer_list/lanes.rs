//! Which nets compute with the samples innermost: see [`lanes`](crate::kernels::lanes).

use super::plan::{LayerKind, PlannedLayer};

/// With more channels than this, a place has enough floats to fill registers by itself.
const MOST_CHANNELS: usize = 64;

/// Whether a net is faster with the samples innermost: one of small convolutions without padding and steps, up to the
/// first linear layer.
pub(super) fn suit(layers: &[PlannedLayer]) -> bool {
    let mut convolves = false;
    for layer in flat(layers) {
        match layer.kind {
            LayerKind::Conv2d { outputs, stride: 1, padding: 0, .. } if outputs <= MOST_CHANNELS => {
                convolves = true;
            }
            LayerKind::MaxPool2d(_)
            | LayerKind::AvgPool2d(_)
            | LayerKind::AdaptiveAvgPool2d(_)
            | LayerKind::AdaptiveMaxPool2d(_)
            | LayerKind::GlobalAvgPool
            | LayerKind::Function(_)
            | LayerKind::Flatten
            | LayerKind::Dropout(_) => {}
            LayerKind::Linear { .. } => return convolves,
            _ => return false,
        }
    }
    // Scores are read row by row: only a linear layer makes rows of lanes.
    false
}

/// Layers with those of their sequential parts in their place.
fn flat(layers: &[PlannedLayer]) -> Box<dyn Iterator<Item = &PlannedLayer> + '_> {
    Box::new(layers.iter().flat_map(|layer| match &layer.kind {
        LayerKind::Sequential(layers) => flat(layers),
        _ => Box::new(std::iter::once(layer)),
    }))
}

mod forms;
mod misfits;
mod twins;

use super::*;
use crate::batch::Shape;

/// A list as JSON, which serde reads as it reads a run file.
fn list(json: &str) -> LayerList {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn images(height: usize, width: usize, channels: usize) -> Shape {
    Shape::Images { height, width, channels, classes: 10 }
}

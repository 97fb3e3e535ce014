//! Where the samples enter.

use crate::data::Inputs;
use crate::tape::{Tape, Var};

impl Tape<'_> {
    /// The images of the batch, `(N, H, W, C)`.
    pub fn images(&mut self) -> Var {
        let batch = self.batch;
        let Inputs::Images { size: [height, width, channels], pixels } = &batch.inputs else {
            unreachable!("a model of images is made for data of images");
        };
        let mut data = self.pool().take(pixels.len());
        data.copy_from_slice(pixels);
        self.push(data, [batch.samples, *height, *width, *channels], false)
    }
}

//! Where the samples enter.

use crate::batch::Inputs;
use crate::kernels::lanes::lanes;
use crate::kernels::pointwise::transpose;
use crate::tape::{MemoryFormat, Tape, Var, len_in_format};

impl Tape<'_> {
    /// The images of the batch, `(N, H, W, C)`.
    pub fn images(&mut self) -> Var {
        let batch = self.batch;
        let Inputs::Images { size: [height, width, channels], .. } = &batch.inputs else {
            unreachable!("a model of images is made for data of images");
        };
        self.push_pixels([batch.samples, *height, *width, *channels])
    }

    /// The images of the batch with the samples innermost, for nets of few channels.
    pub fn images_in_lanes(&mut self) -> Var {
        let batch = self.batch;
        let Inputs::Images { size: [height, width, channels], pixels } = &batch.inputs else {
            unreachable!("a model of images is made for data of images");
        };
        let dims = [batch.samples, *height, *width, *channels];
        let mut data = self.pool().take(len_in_format(dims, MemoryFormat::Lanes));
        transpose(pixels, height * width * channels, &mut data, lanes(batch.samples));
        self.push_in_format(data, dims, MemoryFormat::Lanes, false)
    }
}

use super::LayerRecord;
use crate::tape::{MemoryFormat, Tape, Var};

impl Tape<'_> {
    /// Every second place of every second row, with channels of zeros on both sides: the shortcut without parameters of
    /// the residual nets for small images.
    pub fn subsample(&mut self, x: Var, channels: usize) -> Var {
        assert_eq!(self.format(&x), MemoryFormat::Rows, "samples in the lanes are not subsampled");
        let [images, height, width, inputs] = self.dims(&x);
        let dims = [images, height.div_ceil(2), width.div_ceil(2), channels];
        let mut data = self.pool().zeros(dims.iter().product());
        let before = (channels - inputs) / 2;
        for (place, y) in data.chunks_exact_mut(channels).enumerate() {
            let from = source(place, height, width) * inputs;
            y[before..before + inputs].copy_from_slice(&self.value(&x)[from..from + inputs]);
        }
        let requires_grad = self.requires_grad(&x);
        let y = self.push(data, dims, requires_grad);
        self.record(LayerRecord::Shortcut(Subsampled { x, y: y.clone() }));
        y
    }
}

/// The place of the input that a place of the result is taken from.
fn source(place: usize, height: usize, width: usize) -> usize {
    let (rows, columns) = (height.div_ceil(2), width.div_ceil(2));
    let (column, row, image) = (place % columns, place / columns % rows, place / columns / rows);
    (image * height + 2 * row) * width + 2 * column
}

#[derive(Debug)]
pub(crate) struct Subsampled {
    x: Var,
    y: Var,
}

impl Subsampled {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_upstream(&self.y) else { return };
        if tape.requires_grad(&self.x) {
            let ([_, height, width, inputs], [.., channels]) = (tape.dims(&self.x), tape.dims(&self.y));
            let (len, before) = (tape.value(&self.x).len(), (channels - inputs) / 2);
            let mut dx = tape.pool().zeros(len);
            for (place, dy) in dy.chunks_exact(channels).enumerate() {
                let to = source(place, height, width) * inputs;
                dx[to..to + inputs].copy_from_slice(&dy[before..before + inputs]);
            }
            tape.add_upstream(&self.x, dx);
        }
        tape.pool().give(dy);
    }
}

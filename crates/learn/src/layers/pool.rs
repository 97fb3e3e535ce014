use super::Record;
use crate::kernels::convolve::{average_pool, average_pool_slope};
use crate::tape::{Tape, Var};

impl Tape<'_> {
    /// The means of squares of `size`×`size` places of an image.
    pub fn average_pool(&mut self, x: Var, size: usize) -> Var {
        let [images, height, width, channels] = self.dims(x);
        let dims = [images, height / size, width / size, channels];
        let mut data = self.pool().take(dims.iter().product());
        average_pool(self.value(x), &mut data, [height, width, channels], size);
        let wants_slope = self.wants_slope(x);
        let y = self.push(data, dims, wants_slope);
        self.record(Record::AveragePool(Averaged { x, y, size }));
        y
    }
}

#[derive(Debug)]
pub(crate) struct Averaged {
    x: Var,
    y: Var,
    size: usize,
}

impl Averaged {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_slope(self.y) else { return };
        if tape.wants_slope(self.x) {
            let [images, height, width, channels] = tape.dims(self.x);
            let mut dx = tape.pool().take(images * height * width * channels);
            average_pool_slope(&dy, &mut dx, [height, width, channels], self.size);
            tape.add_slope(self.x, dx);
        }
        tape.pool().give(dy);
    }
}

use super::LayerRecord;
use crate::kernels::pointwise::dropout;
use crate::tape::{Tape, Var};

impl Tape<'_> {
    /// Drops values by chance while training, and does nothing otherwise. `rate` is from 0 to below 1.
    pub fn dropout(&mut self, x: Var, rate: f32) -> Var {
        if rate == 0.0 || !self.is_training() {
            return x;
        }
        let seed = self.layer_seed();
        let len = self.value(&x).len();
        let mut data = self.pool().take(len);
        dropout(self.value(&x), &mut data, rate, seed);
        let (dims, format, requires_grad) = (self.dims(&x), self.format(&x), self.requires_grad(&x));
        let y = self.push_in_format(data, dims, format, requires_grad);
        self.record(LayerRecord::Dropout(Dropped { x, y: y.clone(), rate, seed }));
        y
    }
}

#[derive(Debug)]
pub(crate) struct Dropped {
    x: Var,
    y: Var,
    rate: f32,
    seed: u64,
}

impl Dropped {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_upstream(&self.y) else { return };
        if tape.requires_grad(&self.x) {
            let mut dx = tape.pool().take(dy.len());
            dropout(&dy, &mut dx, self.rate, self.seed);
            tape.add_upstream(&self.x, dx);
        }
        tape.pool().give(dy);
    }
}

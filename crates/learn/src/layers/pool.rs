use super::Record;
use crate::kernels::pool;
use crate::tape::{Dims, Form, Tape, Var, formed_len};

/// What becomes of a square of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pooling {
    Average,
    Max,
}

impl Tape<'_> {
    /// The means of squares of `size`×`size` places of an image; a rest at the edge is left out.
    pub fn average_pool(&mut self, x: Var, size: usize) -> Var {
        self.pooled(x, size, Pooling::Average)
    }

    /// The largest values of squares of `size`×`size` places of an image; a rest at the edge is left out.
    pub fn max_pool(&mut self, x: Var, size: usize) -> Var {
        self.pooled(x, size, Pooling::Max)
    }

    /// The mean of every channel over the whole image, `(N, 1, 1, C)`.
    pub fn global_average(&mut self, x: Var) -> Var {
        let [_, height, width, _] = self.dims(x);
        assert_eq!(height, width, "only square images are averaged as a whole");
        self.average_pool(x, height)
    }

    fn pooled(&mut self, x: Var, size: usize, pooling: Pooling) -> Var {
        let [images, height, width, channels] = self.dims(x);
        let dims = [images, height / size, width / size, channels];
        let form = self.form(x);
        let mut data = self.pool().take(formed_len(dims, form));
        let sizes = sizes(self.dims(x), form, self.value(x).len());
        match pooling {
            Pooling::Average => pool::average(self.value(x), &mut data, sizes, size),
            Pooling::Max => pool::max(self.value(x), &mut data, sizes, size),
        }
        let wants_slope = self.wants_slope(x);
        let y = self.push_formed(data, dims, form, wants_slope);
        self.record(Record::Pool(Pooled { x, y, size, pooling }));
        y
    }
}

/// Height, width and floats a place. With samples in the lanes all of them are one image with more floats a place.
fn sizes([_, height, width, channels]: Dims, form: Form, len: usize) -> [usize; 3] {
    [height, width, if form == Form::Lanes { len / (height * width) } else { channels }]
}

#[derive(Debug)]
pub(crate) struct Pooled {
    x: Var,
    y: Var,
    size: usize,
    pooling: Pooling,
}

impl Pooled {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_slope(self.y) else { return };
        if tape.wants_slope(self.x) {
            let len = tape.value(self.x).len();
            let sizes = sizes(tape.dims(self.x), tape.form(self.x), len);
            let mut dx = tape.pool().take(len);
            match self.pooling {
                Pooling::Average => pool::average_slope(&dy, &mut dx, sizes, self.size),
                Pooling::Max => {
                    pool::max_slope(tape.value(self.x), tape.value(self.y), &dy, &mut dx, sizes, self.size);
                }
            }
            tape.add_slope(self.x, dx);
        }
        tape.pool().give(dy);
    }
}

use super::LayerRecord;
use crate::kernels::pool::{self, PoolWindow, adaptive};
use crate::tape::{Dims, MemoryFormat, Tape, Var, len_in_format};

/// What becomes of the places that a result sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pooling {
    Average,
    Max,
}

/// Which places of the image each result sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Windows {
    /// Squares of a side, beside each other.
    Squares(usize),
    /// Others, which may overlap.
    Others(adaptive::PoolWindows),
}

impl Windows {
    fn moving(square: PoolWindow, [height, width]: [usize; 2]) -> Self {
        if square.stride == square.kernel && square.padding == 0 {
            return Self::Squares(square.kernel);
        }
        let results = [height, width].map(|side| square.results(side).unwrap_or(0));
        Self::Others(adaptive::PoolWindows { results, square: Some(square) })
    }

    fn even(results: [usize; 2]) -> Self {
        Self::Others(adaptive::PoolWindows { results, square: None })
    }
}

impl Tape<'_> {
    /// The means of squares of `size`×`size` places of an image; a rest at the edge is left out.
    pub fn average_pool(&mut self, x: Var, size: usize) -> Var {
        self.pooled(x, Windows::Squares(size), Pooling::Average)
    }

    /// The largest values of squares of `size`×`size` places of an image; a rest at the edge is left out.
    pub fn max_pool(&mut self, x: Var, size: usize) -> Var {
        self.pooled(x, Windows::Squares(size), Pooling::Max)
    }

    /// The means of a square that moves over an image.
    pub fn average_pool_by(&mut self, x: Var, square: PoolWindow) -> Var {
        let [_, height, width, _] = self.dims(&x);
        self.pooled(x, Windows::moving(square, [height, width]), Pooling::Average)
    }

    /// The largest values of a square that moves over an image.
    pub fn max_pool_by(&mut self, x: Var, square: PoolWindow) -> Var {
        let [_, height, width, _] = self.dims(&x);
        self.pooled(x, Windows::moving(square, [height, width]), Pooling::Max)
    }

    /// The means of as many windows as the result shall have rows and columns, whatever the size of the image:
    /// PyTorch's `AdaptiveAvgPool2d`.
    pub fn adaptive_average_pool(&mut self, x: Var, results: [usize; 2]) -> Var {
        self.pooled(x, Windows::even(results), Pooling::Average)
    }

    /// The largest values of as many windows as the result shall have rows and columns, whatever the size of the image:
    /// PyTorch's `AdaptiveMaxPool2d`.
    pub fn adaptive_max_pool(&mut self, x: Var, results: [usize; 2]) -> Var {
        self.pooled(x, Windows::even(results), Pooling::Max)
    }

    /// The mean of every channel over the whole image, `(N, 1, 1, C)`.
    pub fn global_average(&mut self, x: Var) -> Var {
        self.adaptive_average_pool(x, [1, 1])
    }

    fn pooled(&mut self, x: Var, windows: Windows, pooling: Pooling) -> Var {
        let [images, height, width, channels] = self.dims(&x);
        let [rows, columns] = match windows {
            Windows::Squares(size) => [height / size, width / size],
            Windows::Others(windows) => windows.results,
        };
        assert!(rows > 0 && columns > 0, "nothing is left of {height}×{width} places");
        let (dims, format) = ([images, rows, columns, channels], self.format(&x));
        let mut data = self.pool().take(len_in_format(dims, format));
        let from = self.value(&x);
        let image = image(self.dims(&x), format, from.len());
        match (pooling, windows) {
            (Pooling::Average, Windows::Squares(size)) => pool::average(from, &mut data, image, size),
            (Pooling::Max, Windows::Squares(size)) => pool::max(from, &mut data, image, size),
            (Pooling::Average, Windows::Others(to)) => adaptive::average(from, &mut data, image, to),
            (Pooling::Max, Windows::Others(to)) => adaptive::max(from, &mut data, image, to),
        }
        let requires_grad = self.requires_grad(&x);
        let y = self.push_in_format(data, dims, format, requires_grad);
        self.record(LayerRecord::Pool(Pooled { x, y: y.clone(), windows, pooling }));
        y
    }
}

/// Height, width and floats a place. With samples in the lanes all of them are one image with more floats a place.
fn image([_, height, width, channels]: Dims, format: MemoryFormat, len: usize) -> [usize; 3] {
    [height, width, if format == MemoryFormat::Lanes { len / (height * width) } else { channels }]
}

#[derive(Debug)]
pub(crate) struct Pooled {
    x: Var,
    y: Var,
    windows: Windows,
    pooling: Pooling,
}

impl Pooled {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(mut dy) = tape.take_upstream(&self.y) else { return };
        if tape.requires_grad(&self.x) {
            let len = tape.value(&self.x).len();
            let mut dx = tape.pool().take(len);
            let image = image(tape.dims(&self.x), tape.format(&self.x), len);
            let (x, y) = (tape.value(&self.x), tape.value(&self.y));
            match (self.pooling, self.windows) {
                (Pooling::Average, Windows::Squares(size)) => {
                    pool::average_backward(&dy, &mut dx, image, size)
                }
                (Pooling::Max, Windows::Squares(size)) => pool::max_backward(x, y, &dy, &mut dx, image, size),
                (Pooling::Average, Windows::Others(from)) => {
                    adaptive::average_backward(&dy, &mut dx, image, from);
                }
                (Pooling::Max, Windows::Others(from)) => {
                    adaptive::max_backward(x, y, &mut dy, &mut dx, image, from);
                }
            }
            tape.add_upstream(&self.x, dx);
        }
        tape.pool().give(dy);
    }
}

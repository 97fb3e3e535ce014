//! A model of your own, from the layers of Bonfire, trained on the built-in digits.
//!
//!     cargo run --release --example own_model

use bonfire::learn::layers::{Activation, Conv2d, Linear};
use bonfire::learn::{Layout, Net, Network, Shape, Tape};
use bonfire::{Result, Training};

/// One convolution, one hidden layer.
struct Small {
    conv: Conv2d,
    hidden: Linear,
    out: Linear,
    classes: usize,
}

impl Small {
    fn new(layout: &mut Layout, side: usize, classes: usize) -> Self {
        let rest = (side - 4) / 2;
        Self {
            conv: Conv2d::new(layout, "conv", 1, 8, 5),
            hidden: Linear::of_image(layout, "hidden", [rest, rest, 8], 64),
            out: Linear::new(layout, "out", 64, classes),
            classes,
        }
    }
}

impl Network for Small {
    fn forward(&self, tape: &mut Tape<'_>) {
        let x = tape.images();
        let x = self.conv.forward(tape, x, Activation::Relu);
        let x = tape.average_pool(x, 2);
        let x = self.hidden.forward(tape, x, Activation::Relu);
        let scores = self.out.forward(tape, x, Activation::None);
        tape.cross_entropy(scores);
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

fn main() -> Result<()> {
    let training = Training::of("{name: own-model, data: digits, epochs: 2}");
    training
        .model("small", |shape| match *shape {
            Shape::Images { height, classes, .. } => {
                Ok(Box::new(Net::new(|l| Small::new(l, height, classes))))
            }
            _ => unreachable!("digits are images"),
        })
        .run()?;
    Ok(())
}

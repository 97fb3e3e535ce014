//! The layers that models are made of. Each file holds a layer's parameters, its forward pass and its backward pass.
//!
//! A layer is made with the [`Layout`](crate::Layout) of its model, to which it adds its tensors under PyTorch's names,
//! and is used with a [`Tape`], on which it leaves a record for the backward pass.

mod conv;
mod dropout;
mod embedding;
mod input;
mod linear;
mod loss;
mod norm;
mod pool;
mod recurrent;
mod shortcut;
mod words;

#[cfg(test)]
mod tests;

pub use conv::Conv2d;
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::BatchNorm;
pub use recurrent::{Cell, Recurrent, Stack};

pub use crate::kernels::pointwise::Activation;

use crate::buffer::FloatPool;
use crate::tape::Tape;

/// What the backward pass needs to know of one layer's forward pass.
#[derive(Debug)]
pub(crate) enum LayerRecord {
    Conv(conv::Convolved),
    Dropout(dropout::Dropped),
    Embedding(embedding::Embedded),
    Concatenated(words::Concatenated),
    Linear(linear::Multiplied),
    Norm(norm::Normed),
    Pool(pool::Pooled),
    OneWord(words::OneWord),
    Shortcut(shortcut::Subsampled),
    Reversed(words::Reversed),
    Recurrent(recurrent::Recurred),
}

impl LayerRecord {
    pub(crate) fn backward(&mut self, tape: &mut Tape<'_>) {
        match self {
            Self::Conv(record) => record.backward(tape),
            Self::Dropout(record) => record.backward(tape),
            Self::Embedding(record) => record.backward(tape),
            Self::Concatenated(record) => record.backward(tape),
            Self::Linear(record) => record.backward(tape),
            Self::Norm(record) => record.backward(tape),
            Self::Pool(record) => record.backward(tape),
            Self::OneWord(record) => record.backward(tape),
            Self::Shortcut(record) => record.backward(tape),
            Self::Reversed(record) => record.backward(tape),
            Self::Recurrent(record) => record.backward(tape),
        }
    }

    /// Gives the record's memory back.
    pub(crate) fn recycle(self, pool: &mut FloatPool) {
        match self {
            Self::Norm(record) => record.recycle(pool),
            Self::Recurrent(record) => record.recycle(pool),
            _ => {}
        }
    }
}

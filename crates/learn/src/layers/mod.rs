//! The layers that models are made of. Each file holds a layer's parameters, its forward pass and its backward pass.
//!
//! A layer is made with the [`Layout`](crate::Layout) of its model, to which it adds its tensors under PyTorch's names,
//! and is used with a [`Tape`], on which it leaves a record for the backward pass.

mod conv;
mod dropout;
mod embedding;
mod function;
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

pub use crate::kernels::function::Function;
pub use crate::kernels::pointwise::Activation;
pub use crate::kernels::pool::PoolWindow;

use crate::buffer::FloatPool;
use crate::layout::Slot;
use crate::tape::Tape;

/// What the backward pass needs to know of one layer's forward pass.
#[derive(Debug)]
pub(crate) enum LayerRecord {
    Conv(conv::Convolved),
    Dropout(dropout::Dropped),
    Embedding(embedding::Embedded),
    Function(function::Mapped),
    Added(function::Added),
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
            Self::Function(record) => record.backward(tape),
            Self::Added(record) => record.backward(tape),
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

    /// Where the last tensor ends that its layer has in the flat vector; 0 if it has none.
    pub(crate) fn end_of_tensors(&self) -> usize {
        let ends = |slots: &[&Slot]| slots.iter().map(|slot| slot.range.end).max().unwrap_or(0);
        match self {
            Self::Conv(record) => ends(&record.slots()),
            Self::Embedding(record) => ends(&record.slots()),
            Self::Linear(record) => ends(&record.slots()),
            Self::Norm(record) => ends(&record.slots()),
            Self::Recurrent(record) => ends(&record.slots()),
            Self::Dropout(_)
            | Self::Function(_)
            | Self::Added(_)
            | Self::Concatenated(_)
            | Self::Pool(_)
            | Self::OneWord(_)
            | Self::Shortcut(_)
            | Self::Reversed(_) => 0,
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

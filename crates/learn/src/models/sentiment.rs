use serde::{Deserialize, Serialize};

use super::{check_dropout, check_layers, check_sizes, wrong_option};
use crate::error::Result;
use crate::layers::{Activation, Cell, Embedding, Linear, Recurrent, Stack};
use crate::layout::Layout;
use crate::model::{Model, Net, Network};
use crate::tape::Tape;

/// Reads a text from the first word to the last and judges it by the state at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How many numbers stand for a word.
    pub embedding: usize,
    /// The size of the state.
    pub hidden: usize,
    pub layers: usize,
    pub cell: Cell,
    /// Between the layers.
    pub dropout: f32,
    /// Where the state is read: at a text's last real word, or behind the padding of its batch.
    pub read: Read,
    /// 2: up to three stars against four and five. 5: the stars.
    pub classes: usize,
    /// With two classes: how much the loss of a text of the better class counts, of which there are usually more.
    pub positive_weight: f32,
}

/// Where a text's state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Read {
    LastWord,
    /// Learns little more than the majority class from padded texts; for comparison.
    LastStep,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            embedding: 100,
            hidden: 32,
            layers: 2,
            cell: Cell::Lstm,
            dropout: 0.5,
            read: Read::LastWord,
            classes: 2,
            positive_weight: 1.0,
        }
    }
}

/// The label of four stars, the first of the better class.
const FOUR_STARS: u32 = 3;

impl Options {
    pub fn build(&self, words: usize, stars: usize) -> Result<Box<dyn Model>> {
        check_sizes("sentiment", &[("embedding", &[self.embedding]), ("hidden", &[self.hidden])])?;
        check_layers("sentiment", self.layers)?;
        check_dropout("sentiment", self.dropout)?;
        if self.classes != 2 && self.classes != stars {
            return Err(wrong_option("sentiment", "classes", &format!("2 or {stars}")));
        }
        if self.positive_weight <= 0.0 || !self.positive_weight.is_finite() {
            return Err(wrong_option("sentiment", "positive_weight", "above 0"));
        }
        Ok(Box::new(Net::new(|layout| Sentiment::new(layout, self, words))))
    }
}

#[derive(Debug)]
struct Sentiment {
    embedding: Embedding,
    rnn: Recurrent,
    fc1: Linear,
    fc2: Linear,
    read: Read,
    classes: usize,
    positive_weight: f32,
}

impl Sentiment {
    fn new(layout: &mut Layout, options: &Options, words: usize) -> Self {
        let &Options { embedding, hidden, layers, cell, dropout, read, classes, positive_weight } = options;
        let stack = Stack { cell, hidden, layers, bidirectional: false, dropout };
        let scores = if classes == 2 { 1 } else { classes };
        Self {
            embedding: Embedding::new(layout, "embedding", words, embedding),
            rnn: Recurrent::new(layout, "rnn", embedding, &stack),
            fc1: Linear::new(layout, "fc1", hidden, hidden),
            fc2: Linear::new(layout, "fc2", hidden, scores),
            read,
            classes,
            positive_weight,
        }
    }
}

impl Network for Sentiment {
    fn forward(&self, tape: &mut Tape<'_>) {
        let x = self.embedding.forward(tape);
        let x = self.rnn.forward(tape, x);
        let x = match self.read {
            Read::LastWord => tape.last_word(x),
            Read::LastStep => tape.last_step(x),
        };
        let x = self.fc1.forward(tape, x, Activation::Relu);
        let scores = self.fc2.forward(tape, x, Activation::None);
        if self.classes == 2 {
            tape.binary_cross_entropy(scores, FOUR_STARS, self.positive_weight);
        } else {
            tape.cross_entropy(scores);
        }
    }

    fn classes(&self) -> usize {
        self.classes
    }
}

use serde::{Deserialize, Serialize};

use super::{check_dropout, check_layers, check_sizes};
use crate::error::Result;
use crate::layer_list::InitSpec;
use crate::layers::{Activation, Cell, Embedding, Linear, Recurrent, Stack};
use crate::layout::Layout;
use crate::model::{Model, Net, Network};
use crate::tape::Tape;

/// Reads a sentence from the first word to the last and gives every word a tag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// How many numbers stand for a word.
    pub embedding: usize,
    /// The size of the state.
    pub hidden: usize,
    pub layers: usize,
    pub cell: Cell,
    /// Whether each layer also reads from the last word to the first.
    pub bidirectional: bool,
    /// Behind the embedding, between the layers and behind the last.
    pub dropout: f32,
}

impl Default for Options {
    fn default() -> Self {
        Self { embedding: 100, hidden: 128, layers: 2, cell: Cell::Gru, bidirectional: false, dropout: 0.25 }
    }
}

impl Options {
    pub fn build(&self, words: usize, tags: usize) -> Result<Box<dyn Model>> {
        check_sizes("tagger", &[("embedding", &[self.embedding]), ("hidden", &[self.hidden])])?;
        check_layers("tagger", self.layers)?;
        check_dropout("tagger", self.dropout)?;
        Ok(Box::new(Net::new(|layout| Tagger::new(layout, self, words, tags))))
    }
}

#[derive(Debug)]
struct Tagger {
    embedding: Embedding,
    rnn: Recurrent,
    fc: Linear,
    dropout: f32,
    tags: usize,
}

impl Tagger {
    fn new(layout: &mut Layout, options: &Options, words: usize, tags: usize) -> Self {
        let &Options { embedding, hidden, layers, cell, bidirectional, dropout } = options;
        let stack = Stack { cell, hidden, layers, bidirectional, dropout };
        let tagger = Self {
            embedding: Embedding::new(layout, "embedding", words, embedding),
            rnn: Recurrent::new(layout, "rnn", embedding, &stack),
            fc: Linear::new(layout, "fc", stack.outputs(), tags),
            dropout,
            tags,
        };
        layout.init_from(0, InitSpec::Normal(0.1));
        tagger
    }
}

impl Network for Tagger {
    fn forward(&self, tape: &mut Tape<'_>) {
        let x = self.embedding.forward(tape);
        let x = tape.dropout(x, self.dropout);
        let x = self.rnn.forward(tape, x);
        let x = tape.dropout(x, self.dropout);
        let scores = self.fc.forward(tape, x, Activation::None);
        tape.cross_entropy(scores);
    }

    fn classes(&self) -> usize {
        self.tags
    }
}

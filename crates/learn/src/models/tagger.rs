use serde::{Deserialize, Serialize};

use super::{check_dropout, check_layers, check_sizes};
use crate::error::Result;
use crate::layer_list::{
    EmbeddingOptions, InitSpec, LayerItem, LayerList, LayerSpec, LinearOptions, RecurrentOptions,
};
use crate::layers::Cell;

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

/// The deviation of all weights in the beginning.
const DEVIATION: f32 = 0.1;

impl Options {
    pub(super) fn layers(&self) -> Result<LayerList> {
        let &Self { embedding, hidden, layers, cell, bidirectional, dropout } = self;
        check_sizes("tagger", &[("embedding", &[embedding]), ("hidden", &[hidden])])?;
        check_layers("tagger", layers)?;
        check_dropout("tagger", dropout)?;
        let named = |name: &str, layer| LayerItem {
            init: Some(InitSpec::Normal(DEVIATION)),
            ..LayerItem::named(name, layer)
        };
        let recurrent = RecurrentOptions { hidden, layers, bidirectional, dropout };
        Ok(LayerList::new([
            named("embedding", LayerSpec::Embedding(EmbeddingOptions { dim: embedding })),
            LayerSpec::Dropout(dropout).into(),
            named("rnn", LayerSpec::recurrent(cell, recurrent)),
            LayerSpec::Dropout(dropout).into(),
            named("fc", LayerSpec::Linear(LinearOptions::classes())),
        ]))
    }
}

use serde::{Deserialize, Serialize};

use super::{check_dropout, check_layers, check_sizes, linear, wrong_option};
use crate::error::Result;
use crate::layer_list::{
    BinaryOptions, EmbeddingOptions, LayerItem, LayerList, LayerSpec, LinearOptions, RecurrentOptions,
};
use crate::layers::{Cell, Function};

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
    /// 2: up to three stars against four and five. 5: the stars. Of data with other labels: as many as those.
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

/// How many labels reviews have.
const STARS: usize = 5;

/// The label of four stars, the first of the better class.
const FOUR_STARS: u32 = 3;

impl Options {
    /// `labels` is how many the data have: five stars, unless they are others.
    pub(super) fn layers(&self, labels: usize) -> Result<LayerList> {
        let &Self { embedding, hidden, layers, cell, dropout, read, classes, positive_weight } = self;
        check_sizes("sentiment", &[("embedding", &[embedding]), ("hidden", &[hidden])])?;
        check_layers("sentiment", layers)?;
        check_dropout("sentiment", dropout)?;
        match labels {
            STARS if classes != 2 && classes != STARS => {
                return Err(wrong_option("sentiment", "classes", &format!("2 or {STARS}")));
            }
            labels if labels != STARS && classes != labels => {
                return Err(wrong_option("sentiment", "classes", &format!("{labels}, as the data have")));
            }
            _ => {}
        }
        if positive_weight <= 0.0 || !positive_weight.is_finite() {
            return Err(wrong_option("sentiment", "positive_weight", "above 0"));
        }
        let recurrent = RecurrentOptions { hidden, layers, bidirectional: false, dropout };
        let head = match classes {
            2 => LayerSpec::Binary(BinaryOptions {
                positive_from: Some(if labels == STARS { FOUR_STARS } else { 1 }),
                positive_weight,
            }),
            _ => LayerSpec::Softmax,
        };
        Ok(LayerList::new([
            LayerItem::named("embedding", LayerSpec::Embedding(EmbeddingOptions { dim: embedding })),
            LayerItem::named("rnn", LayerSpec::recurrent(cell, recurrent)),
            match read {
                Read::LastWord => LayerSpec::LastWord.into(),
                Read::LastStep => LayerSpec::LastStep.into(),
            },
            linear("fc1", LinearOptions::new(hidden)),
            Function::Relu.into(),
            linear("fc2", LinearOptions::classes()),
            head.into(),
        ]))
    }
}

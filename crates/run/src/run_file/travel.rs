//! How data and gradients travel between machines.

use serde::{Deserialize, Serialize};

/// Where a node takes the data from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribute {
    /// Every node has them, or makes them, under the same name or path.
    #[default]
    Local,
    /// From the head.
    Ship,
    /// Every node has its own, which stay there: they are other ones, and not as many.
    Own,
}

/// How gradients travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// As they are, packed.
    Lossless,
    /// In half the bytes, rounded to 11 bits.
    F16,
    /// In a quarter of the bytes, rounded to 127 steps of the largest value of a block.
    Int8,
    /// Matrices as two factors of this rank.
    PowerSgd(usize),
    /// This part of the values, the largest; the others are added to the next ones.
    #[serde(rename = "top_k")]
    TopK(f32),
    /// As they are at first; then what suits the network, by what the first rounds took.
    Auto,
}

use std::fmt;

use serde::{Deserialize, Serialize};

/// A length of training: `1 epoch`, `50 rounds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Span {
    Epochs(u64),
    Rounds(u64),
}

impl Span {
    /// How many rounds that is.
    pub fn rounds(self, rounds_per_epoch: u64) -> u64 {
        match self {
            Self::Epochs(epochs) => epochs.saturating_mul(rounds_per_epoch),
            Self::Rounds(rounds) => rounds,
        }
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let (count, unit, rest) = (words.next(), words.next(), words.next());
        let count = count.and_then(|count| count.parse::<u64>().ok()).filter(|&count| count > 0);
        match (count, unit, rest) {
            (Some(count), Some("epoch" | "epochs"), None) => Ok(Self::Epochs(count)),
            (Some(count), Some("round" | "rounds"), None) => Ok(Self::Rounds(count)),
            _ => Err(format!("expected a length such as `1 epoch` or `50 rounds`, found `{text}`")),
        }
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = match self {
            Self::Epochs(count) => (count, "epoch"),
            Self::Rounds(count) => (count, "round"),
        };
        write!(f, "{count} {unit}{}", if *count == 1 { "" } else { "s" })
    }
}

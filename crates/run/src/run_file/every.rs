use std::fmt;

use serde::{Deserialize, Serialize};

use super::Span;

/// How often something is done: `1 epoch`, `50 rounds`, `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Every {
    /// And after the last round.
    Span(Span),
    /// Not after the last round either.
    Never,
}

const NEVER: &str = "never";

impl TryFrom<String> for Every {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.trim() {
            NEVER => Ok(Self::Never),
            _ => Span::try_from(text).map(Self::Span).map_err(|wrong| format!("{wrong}; or `{NEVER}`")),
        }
    }
}

impl From<Every> for String {
    fn from(every: Every) -> Self {
        every.to_string()
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => span.fmt(f),
            Self::Never => f.write_str(NEVER),
        }
    }
}

//! Numbers that may be NaN or infinite, as a diverged loss is, in JSON that has no word for them.
//!
//! They are written as `null`, which every JSON reader understands, and read back as NaN: that a loss is no longer a
//! number is what matters, not in which direction it left. In an event a number that was never measured is absent
//! instead; in a summary, which has every key, it is `null` too.

use serde::{Deserialize, Deserializer};

/// Reads a number, or NaN from `null`.
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Reads a number that is there, or NaN from `null`. With `#[serde(default)]` an absent one is `None`, which keeps
/// "not measured" and "not a number" apart.
pub(crate) fn measured<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    number(from).map(Some)
}

//! How much of the processor a host of a lab has.

use std::fmt;
use std::str::FromStr;
use std::thread;

use serde::{Deserialize, Serialize};

/// Below it a login takes longer than people and deadlines wait.
const LEAST: f64 = 0.01;

/// A share of one core: 0.25 is a quarter of one, 2 are two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuShare {
    cores: f64,
}

impl CpuShare {
    pub(super) fn cores(self) -> f64 {
        self.cores
    }
}

impl FromStr for CpuShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let most = thread::available_parallelism().map_or(1, usize::from);
        share_of(text, most).map(|cores| Self { cores }).ok_or_else(|| {
            format!("expected a share of one core from {LEAST} to {most}, the cores of this machine")
        })
    }
}

fn share_of(text: &str, most: usize) -> Option<f64> {
    let cores: f64 = text.trim().parse().ok()?;
    (LEAST..=most as f64).contains(&cores).then_some(cores)
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cores)
    }
}

#[cfg(test)]
mod tests {
    use super::share_of;

    #[test]
    fn shares() {
        let check = |text: &str, expect: Option<f64>| assert_eq!(share_of(text, 2), expect, "{text}");
        check("1", Some(1.0));
        check(" 0.25", Some(0.25));
        check("2", Some(2.0));
        check("0.01", Some(0.01));
        for wrong in ["", "0", "-1", "0.001", "2.1", "nan", "inf", "50%", "half"] {
            check(wrong, None);
        }
    }
}

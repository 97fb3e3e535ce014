//! Warnings that are not repeated for ever.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How many different warnings are told apart; beyond that all are counted as one.
const MAX_KINDS: usize = 256;

/// How often those that came again are summed up.
const EVERY: Duration = Duration::from_secs(10);

/// What was warned of, and how often since it was last said.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    again: BTreeMap<String, u64>,
    others: u64,
    summed_up: Option<Instant>,
}

impl Warnings {
    /// Whether a warning is to be told now: it is the first of its kind.
    pub(crate) fn is_new(&mut self, message: &str) -> bool {
        if let Some(again) = self.again.get_mut(message) {
            *again += 1;
            return false;
        }
        if self.again.len() >= MAX_KINDS {
            self.others += 1;
            return false;
        }
        self.again.insert(message.to_owned(), 0);
        true
    }

    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.summed_up.is_none_or(|last| now >= last + EVERY);
        if is_due {
            self.summed_up = Some(now);
        }
        is_due
    }

    /// What came again since the last time, in words.
    pub(crate) fn sum_up(&mut self) -> Vec<String> {
        let again = self.again.iter_mut().filter(|(_, count)| **count > 0);
        let mut told: Vec<String> =
            again.map(|(message, count)| format!("{message} (and {} more)", std::mem::take(count))).collect();
        if self.others > 0 {
            told.push(format!("{} more warnings of other kinds", std::mem::take(&mut self.others)));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_again_is_counted() {
        let mut warnings = Warnings::default();
        let told = (0..313).filter(|_| warnings.is_new("n1: no number")).count();
        assert_eq!(told, 1);
        assert!(warnings.is_new("n2: no number"));
        assert_eq!(warnings.sum_up(), ["n1: no number (and 312 more)"]);
        assert_eq!(warnings.sum_up(), [""; 0]);
        assert!(!warnings.is_new("n1: no number"), "it is known still");
    }

    #[test]
    fn kinds_without_end_are_one() {
        let mut warnings = Warnings::default();
        let told = (0..1000).filter(|i| warnings.is_new(&format!("kind {i}"))).count();
        assert_eq!(told, MAX_KINDS);
        assert_eq!(warnings.sum_up(), ["744 more warnings of other kinds"]);
    }

    #[test]
    fn sums_have_time() {
        let (mut warnings, now) = (Warnings::default(), Instant::now());
        assert!(warnings.is_due(now));
        assert!(!warnings.is_due(now + EVERY / 2));
        assert!(warnings.is_due(now + EVERY));
    }
}

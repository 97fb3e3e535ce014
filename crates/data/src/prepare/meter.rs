//! How far a preparation is, for whoever watches it from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What part of the whole time each stage takes, about: mapping, reducing, encoding.
const STAGES: [f64; 3] = [0.65, 0.25, 0.1];

/// Counts what has passed of a stage.
#[derive(Debug, Default)]
pub struct Meter {
    stage: AtomicUsize,
    total: AtomicU64,
    pub(crate) passed: Arc<AtomicU64>,
}

impl Meter {
    pub(crate) fn begin_stage(&self, stage: usize, total: u64) {
        self.passed.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.stage.store(stage, Ordering::Relaxed);
    }

    pub(crate) fn pass(&self, bytes: u64) {
        self.passed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What is being done.
    pub fn stage(&self) -> &'static str {
        ["reading", "merging", "writing"][self.stage.load(Ordering::Relaxed).min(2)]
    }

    /// How many bytes of the input have been read; all of them after the first stage.
    pub fn input_bytes(&self) -> Option<u64> {
        (self.stage.load(Ordering::Relaxed) == 0).then(|| self.passed.load(Ordering::Relaxed))
    }

    /// What part of all is done, from 0 to 1.
    pub fn share(&self) -> f64 {
        let stage = self.stage.load(Ordering::Relaxed).min(STAGES.len() - 1);
        let total = self.total.load(Ordering::Relaxed).max(1);
        let of_stage = (self.passed.load(Ordering::Relaxed) as f64 / total as f64).min(1.0);
        STAGES[..stage].iter().sum::<f64>() + STAGES[stage] * of_stage
    }
}

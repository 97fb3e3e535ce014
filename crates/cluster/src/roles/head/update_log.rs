//! The order of updates, of which only the log knows once they are made.

use bonfire_report::Event;
use bonfire_strategy::server::Contribution;

use super::Head;

/// The order of asynchronous updates, told in stretches.
#[derive(Debug, Default)]
pub(crate) struct UpdateLog {
    first: u64,
    by: Vec<Vec<u64>>,
    staleness: Vec<u64>,
}

impl UpdateLog {
    pub(crate) fn add(&mut self, version: u64, pushes: &[Contribution]) {
        if self.by.is_empty() {
            self.first = version;
        }
        self.by.push(pushes.iter().map(|push| push.member).collect());
        self.staleness.push(pushes.iter().map(|push| push.staleness).max().unwrap_or(0));
    }

    /// Says what was added since this was last called.
    pub(crate) fn flush(&mut self, head: &mut Head<'_>) {
        if !self.by.is_empty() {
            let Self { first, by, staleness } = std::mem::take(self);
            head.run.tell(Event::Updates { first, by, staleness });
        }
    }
}

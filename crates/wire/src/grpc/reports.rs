use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// How many kinds of strangers are told apart before it is enough.
const MAX_KINDS: usize = 1024;

/// How soon it is said that there were more of a kind; then after twice as long, and so on up to the last.
const SUM_UP: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3600));

/// Who was turned away: of each address and kind the first is told, the others are counted and summed up now and then.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    kinds: HashMap<(IpAddr, &'static str), StrangerCount>,
    /// Those at more addresses than are told apart.
    others: Option<StrangerCount>,
}

#[derive(Debug)]
struct StrangerCount {
    /// The last of them.
    address: SocketAddr,
    more: u64,
    /// When they are summed up, and how long that took.
    due: Instant,
    gap: Duration,
}

impl StrangerCount {
    fn new(address: SocketAddr, now: Instant) -> Self {
        Self { address, more: 0, due: now + SUM_UP.0, gap: SUM_UP.0 }
    }

    /// How many more there were, if that is to be told.
    fn sum_up(&mut self, now: Instant) -> Option<u64> {
        if self.more == 0 || now < self.due {
            return None;
        }
        self.gap = (self.gap * 2).min(SUM_UP.1);
        self.due = now + self.gap;
        Some(std::mem::take(&mut self.more))
    }
}

impl Reports {
    /// Whether a stranger is the first of its kind.
    pub(crate) fn is_first(&mut self, address: SocketAddr, what: &'static str, now: Instant) -> bool {
        let is_full = self.kinds.len() >= MAX_KINDS;
        let known = match self.kinds.get_mut(&(address.ip(), what)) {
            Some(known) => known,
            None if is_full => self.others.get_or_insert(StrangerCount::new(address, now)),
            None => {
                self.kinds.insert((address.ip(), what), StrangerCount::new(address, now));
                return true;
            }
        };
        known.more += 1;
        known.address = address;
        false
    }

    /// What is to be told of those that were not told one by one.
    pub(crate) fn sum_up(&mut self, now: Instant) -> Vec<(SocketAddr, String)> {
        let mut told = Vec::new();
        for ((_, what), kind) in &mut self.kinds {
            if let Some(more) = kind.sum_up(now) {
                told.push((kind.address, format!("{what}, and {more} more from there")));
            }
        }
        if let Some(kind) = &mut self.others
            && let Some(more) = kind.sum_up(now)
        {
            let what = format!("is one of {more} at more addresses than can be named");
            told.push((kind.address, what));
        }
        told.sort();
        told
    }

    /// The same at the end, when nobody can wait.
    pub(crate) fn close(&mut self) -> Vec<(SocketAddr, String)> {
        let last = self.kinds.values().chain(&self.others).map(|kind| kind.due).max();
        last.map_or_else(Vec::new, |last| self.sum_up(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], port))
    }

    #[test]
    fn of_a_kind_the_first_is_told_and_the_others_are_counted() {
        let (mut reports, start) = (Reports::default(), Instant::now());
        assert!(reports.is_first(address(1, 1), "showed no secret", start));
        for port in 2..=313 {
            assert!(!reports.is_first(address(1, port), "showed no secret", start));
        }
        assert!(reports.is_first(address(1, 400), "did not call", start), "another kind");
        assert!(reports.is_first(address(2, 500), "showed no secret", start), "another address");
        assert_eq!(reports.sum_up(start), []);
        let told = reports.sum_up(start + SUM_UP.0);
        assert_eq!(told, [(address(1, 313), "showed no secret, and 312 more from there".to_owned())]);
        assert_eq!(reports.sum_up(start + 100 * SUM_UP.0), [], "nobody came since");
    }

    #[test]
    fn a_day_of_strangers_is_told_in_a_few_lines() {
        let (mut reports, start) = (Reports::default(), Instant::now());
        let mut lines = 0;
        for second in 0..24 * 3600 {
            let now = start + Duration::from_secs(second);
            lines += usize::from(reports.is_first(address(1, 1), "showed no secret", now));
            lines += reports.sum_up(now).len();
        }
        assert!((10..40).contains(&lines), "{lines} lines");
        assert_eq!(reports.close().len(), 1, "the rest is told at the end");
        assert_eq!(reports.close(), []);
    }

    #[test]
    fn memory_does_not_grow_with_addresses() {
        let (mut reports, start) = (Reports::default(), Instant::now());
        let mut first = 0;
        for i in 0..5000u16 {
            let address = SocketAddr::from(([10, 0, (i >> 8) as u8, i as u8], 1));
            first += usize::from(reports.is_first(address, "did not call", start));
        }
        assert_eq!((first, reports.kinds.len()), (MAX_KINDS, MAX_KINDS));
        let told = reports.close();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].1, "is one of 3976 at more addresses than can be named");
    }
}

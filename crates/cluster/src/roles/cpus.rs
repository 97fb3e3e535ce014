use std::fs;
use std::ops::RangeInclusive;

/// The processors that a process may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus(Vec<RangeInclusive<u32>>);

/// More ranges than this are nonsense: they come from a peer.
const MOST_RANGES: usize = 4096;

impl Cpus {
    /// Those of this process, as in `0-3,8`; empty if the system does not tell.
    pub(crate) fn own() -> String {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.unwrap_or_default().trim().to_owned()
    }

    /// Reads `0-3,8`. What cannot be read counts as not said.
    pub(crate) fn parse(list: &str) -> Self {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        let ranges: Option<Vec<_>> = list.split(',').take(MOST_RANGES).map(range).collect();
        Self(ranges.unwrap_or_default())
    }

    /// Whether two processes of a machine may run on the same processor. Those that did not say may.
    pub(crate) fn overlap(&self, other: &Self) -> bool {
        let meet =
            |a: &RangeInclusive<u32>, b: &RangeInclusive<u32>| a.start() <= b.end() && b.start() <= a.end();
        self.0.is_empty() || other.0.is_empty() || self.0.iter().any(|a| other.0.iter().any(|b| meet(a, b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_processors() {
        let check = |a: &str, b: &str, expect: bool| {
            let (first, second) = (Cpus::parse(a), Cpus::parse(b));
            assert_eq!(first.overlap(&second), expect, "{a} and {b}");
            assert_eq!(second.overlap(&first), expect, "{b} and {a}");
        };
        check("0-3", "0-3", true);
        check("0", "1", false);
        check("0-1,4-5", "2-3,6-7", false);
        check("0-1,4-5", "2-3,5", true);
        check("", "1", true);
        check("some", "1", true);
        check("0-1,x", "7", true);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_runs_somewhere() {
        assert_ne!(Cpus::parse(&Cpus::own()), Cpus::default());
    }
}

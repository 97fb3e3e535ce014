//! How many samples at a time the memory of this machine is for.

use std::fs;

use bonfire_report::peak_rss_mb;

/// What a worker's batches take of the memory.
#[derive(Debug)]
pub(crate) struct Room {
    /// What the process had taken before the first batch.
    before_mb: Option<f64>,
    batches: u64,
    /// 0 as long as that is not known.
    most_samples: u32,
}

/// So often it is looked how much is free: others use the machine, too.
const EVERY: u64 = 64;

/// This much of what is free may be used.
const USABLE: f64 = 0.75;

impl Room {
    pub(crate) fn new() -> Self {
        Self { before_mb: peak_rss_mb(), batches: 0, most_samples: 0 }
    }

    /// A batch of so many samples was computed. How many could be at a time, if that is known; 0 if not.
    pub(crate) fn after(&mut self, samples: u64) -> u32 {
        self.batches += 1;
        // The first ones touch memory that is then used again.
        if self.batches == 2 || self.batches.is_multiple_of(EVERY) {
            let free_mb = fs::read_to_string("/proc/meminfo").ok().and_then(|text| free_mb(&text));
            if let (Some(before), Some(now), Some(free)) = (self.before_mb, peak_rss_mb(), free_mb) {
                self.most_samples = most_samples(samples, now - before, free);
            }
        }
        self.most_samples
    }
}

/// How many samples fit where so many took some megabytes and others are free. What does not grow with them is taken
/// for what does: so it is rather too few.
fn most_samples(samples: u64, taken_mb: f64, free_mb: f64) -> u32 {
    if samples == 0 {
        return 0;
    }
    let each_mb = taken_mb.max(0.001) / samples as f64;
    (samples as f64 + USABLE * free_mb / each_mb) as u32
}

/// What `/proc/meminfo` says that a program may still use.
fn free_mb(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kb: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kb / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_fit_as_there_is_memory_for() {
        assert_eq!(most_samples(32, 64.0, 512.0), 32 + 192);
        assert_eq!(most_samples(32, 64.0, 0.0), 32, "what it has, it has");
        assert_eq!(most_samples(0, 64.0, 512.0), 0, "nothing is known");
        let text = "MemTotal:       16316412 kB\nMemFree:  1 kB\nMemAvailable:    1048576 kB\n";
        assert_eq!(free_mb(text), Some(1024.0));
        assert_eq!(free_mb("MemTotal: 5 kB"), None);
    }
}

//! The meters that processors of Intel and AMD have: one for each package, and one for its memory.

use std::fs;
use std::path::{Path, PathBuf};

const ZONES: &str = "sys/class/powercap";
/// The same meters are there under other names, too.
const PREFIX: &str = "intel-rapl:";

#[derive(Debug)]
pub(super) struct Rapl {
    zones: Vec<Zone>,
}

/// A meter that counts millionths of a joule and begins again at its range.
#[derive(Debug)]
struct Zone {
    energy: PathBuf,
    range_uj: u64,
    seen_uj: u64,
    counted_uj: u64,
}

impl Rapl {
    /// All that can be read; none if there is none.
    pub(super) fn start(root: &Path) -> Option<Self> {
        let entries = fs::read_dir(root.join(ZONES)).ok()?.flatten();
        let is_zone = |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX))
        };
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_zone).collect();
        folders.sort();
        let zones: Vec<Zone> = folders.iter().filter_map(|folder| Zone::start(folder)).collect();
        (!zones.is_empty()).then_some(Self { zones })
    }

    pub(super) fn look(&mut self) {
        self.zones.iter_mut().for_each(Zone::look);
    }

    /// Those that were counted at the last look.
    pub(super) fn joules(&self) -> f64 {
        self.zones.iter().map(|zone| zone.counted_uj).sum::<u64>() as f64 / 1e6
    }
}

impl Zone {
    /// Packages contain their cores, and the whole platform (psys) contains the packages: neither is counted twice.
    fn start(folder: &Path) -> Option<Self> {
        let name = fs::read_to_string(folder.join("name")).ok()?;
        if !name.starts_with("package") && name.trim() != "dram" {
            return None;
        }
        let energy = folder.join("energy_uj");
        let range_uj = number(&folder.join("max_energy_range_uj")).filter(|&range| range > 0)?;
        Some(Self { seen_uj: number(&energy)?, energy, range_uj, counted_uj: 0 })
    }

    fn look(&mut self) {
        let Some(now_uj) = number(&self.energy) else { return };
        let more_uj = match now_uj.checked_sub(self.seen_uj) {
            Some(more_uj) => more_uj,
            None => self.range_uj.saturating_sub(self.seen_uj) + now_uj,
        };
        (self.seen_uj, self.counted_uj) = (now_uj, self.counted_uj.saturating_add(more_uj));
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

//! How much energy this machine used while a run went on: from meters in the processor, or from a model.
//!
//! In this order: the watts that the user has given for the machine, the meters of its processor (RAPL, which only root
//! may read) or of a Raspberry Pi 5, the known watts of a board. Without any of them there is no figure.

mod book;
mod pmic;
mod rapl;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use book::{EnergyBook, HostEnergy};
use pmic::Pmic;
use rapl::Rapl;

/// More than any machine that trains on its processors takes.
const MOST_WATTS: f64 = 100_000.0;

/// Meters wrap around after some minutes at the soonest.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What a machine takes when it has nothing to do, and when all its cores have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watts {
    pub idle: f64,
    pub full: f64,
}

impl Watts {
    /// Boards whose watts are known, by the beginning of what they call themselves; at the board, without a screen.
    const BOARDS: [(&str, Self); 2] = [
        ("Raspberry Pi 4", Self { idle: 2.7, full: 6.4 }),
        ("Raspberry Pi 5", Self { idle: 2.4, full: 5.8 }),
    ];

    /// What cannot be right about them: the key, and what it must be.
    ///
    /// # Errors
    /// When they are negative, or less when busy than when idle.
    pub fn check(self) -> Result<(), (&'static str, String)> {
        if !(0.0..=MOST_WATTS).contains(&self.idle) {
            return Err(("idle", format!("must be from 0 to {MOST_WATTS}")));
        }
        if !(self.idle..=MOST_WATTS).contains(&self.full) {
            return Err(("full", format!("must be from {}, as when it is idle, to {MOST_WATTS}", self.idle)));
        }
        Ok(())
    }

    /// Those of the board of a machine whose system's folders are below `root`, if they are known.
    #[must_use]
    pub fn of_board(root: &Path) -> Option<Self> {
        Self::of_model(&fs::read_to_string(root.join("proc/device-tree/model")).ok()?)
    }

    /// Those of a board that calls itself so, if they are known.
    #[must_use]
    pub fn of_model(model: &str) -> Option<Self> {
        Self::BOARDS.iter().find(|(name, _)| model.starts_with(name)).map(|&(_, watts)| watts)
    }

    /// The boards whose watts are known.
    #[must_use]
    pub fn boards() -> Vec<&'static str> {
        Self::BOARDS.iter().map(|&(name, _)| name).collect()
    }

    fn joules(self, time: Duration, utilisation: f64) -> f64 {
        (self.idle + (self.full - self.idle) * utilisation) * time.as_secs_f64()
    }
}

/// Two numbers, as in `2.7,6.4`.
impl FromStr for Watts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once(',').and_then(|(idle, full)| {
            Some(Self { idle: idle.trim().parse().ok()?, full: full.trim().parse().ok()? })
        });
        let watts = numbers.ok_or("expected watts when idle and when busy, such as `2.7,6.4`")?;
        watts.check().map_err(|(key, rule)| format!("{key}: {rule}"))?;
        Ok(watts)
    }
}

impl fmt::Display for Watts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.idle, self.full)
    }
}

/// Where a figure of energy comes from, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnergyLabel {
    /// From meters of the machine.
    Measured,
    /// From the watts that the user gave, and how busy the machine was.
    Given,
    /// From the known watts of such a machine, and how busy it was.
    Modelled,
}

impl EnergyLabel {
    pub const ALL: [Self; 3] = [Self::Measured, Self::Given, Self::Modelled];

    /// As people read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Measured => "measured",
            Self::Modelled => "modelled",
        }
    }
}

/// Counts the energy of this machine.
#[derive(Debug)]
pub struct EnergyMeter {
    source: EnergySource,
    root: PathBuf,
    looked: Instant,
}

#[derive(Debug)]
enum EnergySource {
    Rapl(Rapl),
    Pmic(Pmic),
    Model { watts: Watts, label: EnergyLabel, started: Instant, busy: BusyTime },
}

impl EnergyMeter {
    /// Begins to count, if there is anything to count by. The system's folders are looked for below `root`.
    #[must_use]
    pub fn start(root: &Path, given: Option<Watts>, now: Instant) -> Option<Self> {
        let model = |watts, label| {
            let busy = BusyTime::read(root)?;
            Some(EnergySource::Model { watts, label, started: now, busy })
        };
        let source = match given {
            Some(watts) => model(watts, EnergyLabel::Given),
            None => Rapl::start(root)
                .map(EnergySource::Rapl)
                .or_else(|| Pmic::start(root, now).map(EnergySource::Pmic))
                .or_else(|| Watts::of_board(root).and_then(|watts| model(watts, EnergyLabel::Modelled))),
        };
        Some(Self { source: source?, root: root.to_owned(), looked: now })
    }

    /// To be called often enough that no meter wraps around twice in between; costs nothing when it is called oftener.
    pub fn look(&mut self, now: Instant) {
        if now.saturating_duration_since(self.looked) >= LOOK_EVERY {
            self.looked = now;
            if let EnergySource::Rapl(rapl) = &mut self.source {
                rapl.look();
            }
        }
    }

    /// Joules since the start, and where that comes from.
    pub fn joules(&mut self, now: Instant) -> Option<(f64, EnergyLabel)> {
        match &mut self.source {
            EnergySource::Rapl(rapl) => {
                rapl.look();
                Some((rapl.joules(), EnergyLabel::Measured))
            }
            EnergySource::Pmic(pmic) => Some((pmic.joules(now), EnergyLabel::Measured)),
            EnergySource::Model { watts, label, started, busy } => {
                let utilisation = BusyTime::read(&self.root)?.share_since(*busy);
                Some((watts.joules(now.saturating_duration_since(*started), utilisation), *label))
            }
        }
    }
}

/// How long the cores of a machine have been at work, of how long in all; in the kernel's ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BusyTime {
    busy: u64,
    all: u64,
}

impl BusyTime {
    pub(crate) fn read(root: &Path) -> Option<Self> {
        let text = fs::read_to_string(root.join("proc/stat")).ok()?;
        let ticks = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        // User, nice, system, idle, waiting for disks, two kinds of interrupts, others on the same hardware. What
        // follows is part of the first two.
        let ticks: Vec<u64> = ticks.take(8).map_while(|ticks| ticks.parse().ok()).collect();
        let [_, _, _, idle, waiting, ..] = ticks[..] else { return None };
        let all = ticks.iter().sum();
        Some(Self { busy: all - idle - waiting, all })
    }

    /// From 0 to 1.
    pub(crate) fn share_since(self, start: Self) -> f64 {
        let (busy, all) = (self.busy.saturating_sub(start.busy), self.all.saturating_sub(start.all));
        if all == 0 { 0.0 } else { (busy as f64 / all as f64).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like that of a system.
    struct System(tempfile::TempDir);

    impl System {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, path: &str, content: &str) -> &Self {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
            self
        }

        fn zone(&self, zone: &str, name: &str, energy_uj: u64, range_uj: u64) -> &Self {
            let folder = format!("sys/class/powercap/{zone}");
            self.write(&format!("{folder}/name"), &format!("{name}\n"))
                .write(&format!("{folder}/max_energy_range_uj"), &format!("{range_uj}\n"))
                .count(zone, energy_uj)
        }

        fn count(&self, zone: &str, energy_uj: u64) -> &Self {
            self.write(&format!("sys/class/powercap/{zone}/energy_uj"), &format!("{energy_uj}\n"))
        }

        fn start(&self, given: Option<Watts>, now: Instant) -> Option<EnergyMeter> {
            EnergyMeter::start(self.0.path(), given, now)
        }
    }

    #[test]
    fn meters_of_packages_and_memory_are_summed_and_wrap_around() {
        let system = System::new();
        system.zone("intel-rapl:0", "package-0", 990_000_000, 1_000_000_000);
        system.zone("intel-rapl:0:0", "core", 5, 1_000_000_000).zone(
            "intel-rapl:0:2",
            "dram",
            100,
            65_000_000,
        );
        system.zone("intel-rapl:1", "package-1", 0, 1_000_000_000).zone(
            "intel-rapl:2",
            "psys",
            7,
            1_000_000_000,
        );
        system.zone("intel-rapl-mmio:0", "package-0", 7, 1_000_000_000);
        let start = Instant::now();
        let mut meter = system.start(None, start).unwrap();
        assert_eq!(meter.joules(start), Some((0.0, EnergyLabel::Measured)));
        // 30 J of the first package, over the end of its range; 2 J of memory; 5 J of the second package.
        system.count("intel-rapl:0", 20_000_000).count("intel-rapl:0:2", 2_000_100);
        system
            .count("intel-rapl:1", 5_000_000)
            .count("intel-rapl:0:0", 900_000)
            .count("intel-rapl:2", 90_000_000);
        assert_eq!(meter.joules(start), Some((37.0, EnergyLabel::Measured)));
        // Twice around, seen once on the way: 995 J and 50 J more.
        system.count("intel-rapl:0", 15_000_000);
        meter.look(start + LOOK_EVERY);
        system.count("intel-rapl:0", 65_000_000);
        assert_eq!(meter.joules(start), Some((37.0 + 995.0 + 50.0, EnergyLabel::Measured)));
        // A meter that cannot be read any more keeps what it has.
        fs::remove_file(system.0.path().join("sys/class/powercap/intel-rapl:1/energy_uj")).unwrap();
        assert_eq!(meter.joules(start), Some((1082.0, EnergyLabel::Measured)));
    }

    #[test]
    fn a_model_knows_how_busy_the_machine_was() {
        let system = System::new();
        let stat = |busy: u64, idle: u64| {
            system.write("proc/stat", &format!("cpu  {busy} 0 0 {idle} 0 0 0 0 3 0\ncpu0 1 2 3 4\n"));
        };
        stat(1000, 5000);
        let start = Instant::now();
        let check = |given, board: Option<&str>, expect| {
            stat(1000, 5000);
            system.write("proc/device-tree/model", &format!("{}\0", board.unwrap_or("Some board")));
            let joules = system.start(given, start).and_then(|mut meter| {
                // A quarter of all ticks.
                stat(1100, 5300);
                meter.joules(start + Duration::from_secs(100))
            });
            assert_eq!(joules.map(|(joules, label)| (joules.round(), label)), expect, "{given:?} {board:?}");
        };
        let given = Watts { idle: 10.0, full: 50.0 };
        check(Some(given), None, Some((2000.0, EnergyLabel::Given)));
        check(Some(given), Some("Raspberry Pi 4 Model B Rev 1.4"), Some((2000.0, EnergyLabel::Given)));
        // 2.7 W and a quarter of 3.7 W.
        check(None, Some("Raspberry Pi 4 Model B Rev 1.4"), Some((363.0, EnergyLabel::Modelled)));
        check(None, Some("Raspberry Pi 5 Model B Rev 1.0"), Some((325.0, EnergyLabel::Modelled)));
        check(None, Some("Raspberry Pi 3 Model B"), None);
        check(None, None, None);
    }

    #[test]
    fn what_is_given_counts_more_than_meters() {
        let system = System::new();
        system.zone("intel-rapl:0", "package-0", 1, 1000).write("proc/stat", "cpu  1 0 0 1 0 0 0 0\n");
        let (now, watts) = (Instant::now(), Watts { idle: 1.0, full: 1.0 });
        let label =
            system.start(Some(watts), now).and_then(|mut meter| meter.joules(now)).map(|(_, label)| label);
        assert_eq!(label, Some(EnergyLabel::Given));
    }

    #[test]
    fn without_any_source_there_is_no_figure() {
        let system = System::new();
        assert!(system.start(None, Instant::now()).is_none());
        // One that only root may read, as an empty file cannot be.
        system
            .zone("intel-rapl:0", "package-0", 1, 1000)
            .write("sys/class/powercap/intel-rapl:0/energy_uj", "");
        assert!(system.start(None, Instant::now()).is_none());
        for cut in ["", "cpu", "cpu  1 2 3\n", "intr 1 2 3 4 5\n"] {
            system.write("proc/stat", cut);
            assert!(system.start(Some(Watts { idle: 1.0, full: 2.0 }), Instant::now()).is_none(), "{cut}");
        }
    }

    #[test]
    fn watts_that_cannot_be() {
        let check = |idle, full, expect: Option<&str>| {
            let wrong = Watts { idle, full }.check().err().map(|(key, message)| format!("{key} {message}"));
            assert_eq!(wrong.as_deref(), expect);
        };
        check(2.7, 6.4, None);
        check(0.0, 0.0, None);
        check(-1.0, 6.4, Some("idle must be from 0 to 100000"));
        check(f64::NAN, 6.4, Some("idle must be from 0 to 100000"));
        check(3.0, 2.0, Some("full must be from 3, as when it is idle, to 100000"));
        check(3.0, f64::INFINITY, Some("full must be from 3, as when it is idle, to 100000"));
    }
}

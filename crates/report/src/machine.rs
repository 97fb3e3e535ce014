//! What a machine and this process on it do: what `sar` and `psrecord` would show, read from `/proc` and `/sys`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::energy::{BusyTime, EnergyLabel, EnergyMeter};

/// What a machine did since it was last looked at, as far as it tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineSample {
    /// How many cores this process kept busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// The share of all cores that anything kept busy, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Resident memory of this process, in millions of bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_mb: Option<f64>,
    /// Over all networks of the machine but loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_bytes_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bytes_per_s: Option<f64>,
    /// Of its hottest part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
    /// Whether its processor runs slower than it could because it is hot, or has too little power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    /// Where the watts come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyLabel>,
}

/// Looks at this machine now and then.
#[derive(Debug)]
pub struct MachineWatch {
    root: PathBuf,
    looked: Instant,
    process: Option<Duration>,
    busy: Option<BusyTime>,
    network: Option<(u64, u64)>,
    joules: Option<f64>,
    throttles: Option<u64>,
}

/// The kernel's ticks are hundredths of a second on every system that Linux runs on today.
const TICKS_A_SECOND: f64 = 100.0;

impl MachineWatch {
    /// Begins to look, when a meter of energy begins to count. The system's folders are looked for below `root`.
    #[must_use]
    pub fn start(root: &Path, now: Instant) -> Self {
        Self {
            root: root.to_owned(),
            looked: now,
            process: process_time(root),
            busy: BusyTime::read(root),
            network: network(root),
            joules: Some(0.0),
            throttles: throttles(root),
        }
    }

    /// What happened since the last look.
    pub fn look(&mut self, now: Instant, energy: Option<&mut EnergyMeter>) -> MachineSample {
        let seconds = now.saturating_duration_since(self.looked).as_secs_f64().max(1e-3);
        let root = &self.root;
        let (process, busy, network) = (process_time(root), BusyTime::read(root), network(root));
        let (joules, energy) = energy.and_then(|meter| meter.joules(now)).unzip();
        let throttles = throttles(root);
        let cores = process.zip(self.process).map(|(now, before)| now.saturating_sub(before).as_secs_f64());
        let bytes = network.zip(self.network);
        let per_s = |now: u64, before: u64| (now.saturating_sub(before) as f64 / seconds).round();
        let sample = MachineSample {
            cores: cores.map(|time| rounded(time / seconds)),
            busy: busy.zip(self.busy).map(|(now, before)| rounded(now.share_since(before))),
            rss_mb: resident_mb(root).map(|mb| (mb * 10.0).round() / 10.0),
            received_bytes_per_s: bytes.map(|(now, before)| per_s(now.0, before.0)),
            sent_bytes_per_s: bytes.map(|(now, before)| per_s(now.1, before.1)),
            celsius: celsius(root),
            throttled: throttles.zip(self.throttles).map(|(now, before)| now > before),
            watts: joules.zip(self.joules).map(|(now, before)| rounded(((now - before) / seconds).max(0.0))),
            energy,
        };
        let root = self.root.clone();
        *self = Self { root, looked: now, process, busy, network, joules, throttles };
        sample
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Processor time of this process, its threads included.
fn process_time(root: &Path) -> Option<Duration> {
    let text = fs::read_to_string(root.join("proc/self/stat")).ok()?;
    // The name before it may contain anything.
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(Duration::from_secs_f64((ticks(11)? + ticks(12)?) as f64 / TICKS_A_SECOND))
}

fn resident_mb(root: &Path) -> Option<f64> {
    let text = fs::read_to_string(root.join("proc/self/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// Bytes received and sent so far.
fn network(root: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(root.join("proc/net/dev")).ok()?;
    let mut sum = (0, 0);
    for line in text.lines() {
        let Some((name, counts)) = line.split_once(':') else { continue };
        if name.trim() == "lo" {
            continue;
        }
        let counts: Vec<u64> = counts.split_whitespace().filter_map(|count| count.parse().ok()).collect();
        if let [received, _, _, _, _, _, _, _, sent, ..] = counts[..] {
            sum = (sum.0 + received, sum.1 + sent);
        }
    }
    Some(sum)
}

fn celsius(root: &Path) -> Option<f64> {
    let zones = (0..16).map(|zone| root.join(format!("sys/class/thermal/thermal_zone{zone}/temp")));
    let degrees = zones.map_while(|path| fs::read_to_string(path).ok());
    let degrees =
        degrees.filter_map(|text| text.trim().parse::<f64>().ok()).map(|thousandths| thousandths / 1000.0);
    degrees.filter(|celsius| (-40.0..200.0).contains(celsius)).reduce(f64::max)
}

/// How often the processor was slowed down because it was hot (Intel), or whether a Pi says so now.
fn throttles(root: &Path) -> Option<u64> {
    let count = "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count";
    let pi = "sys/devices/platform/soc/soc:firmware/get_throttled";
    let number = |path: &str, radix| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        u64::from_str_radix(text.trim().trim_start_matches("0x"), radix).ok()
    };
    // The upper half of a Pi's word says what has happened since it was switched on.
    number(count, 10).or_else(|| number(pi, 16).map(|bits| bits & 0xF))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::Watts;

    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = temp.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        temp
    }

    fn files<'a>(stat: &'a str, own: &'a str, net: &'a str) -> [(&'a str, &'a str); 5] {
        [
            ("proc/stat", stat),
            ("proc/self/stat", own),
            ("proc/net/dev", net),
            ("proc/self/status", "Name:\tbonfire\nVmRSS:\t  100000 kB\n"),
            ("sys/class/thermal/thermal_zone0/temp", "61500\n"),
        ]
    }

    #[test]
    fn tells_what_happened_between_two_looks() {
        let own = |ticks: u64| format!("7 (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 50 0 0 20 0 4 0 9 9 9\n");
        let net = |bytes: u64| {
            format!(
                "Inter-|\n face |\n    lo: 9 1 0 0 0 0 0 0 9 1\n  eth0: {bytes} 1 0 0 0 0 0 0 {} 1\n",
                bytes * 2
            )
        };
        let temp = system(&files("cpu  100 0 0 100 0 0 0 0\n", &own(100), &net(1000)));
        let now = Instant::now();
        let mut watch = MachineWatch::start(temp.path(), now);
        for (path, text) in files("cpu  250 0 0 150 0 0 0 0\n", &own(400), &net(5000)) {
            fs::write(temp.path().join(path), text).unwrap();
        }
        let sample = watch.look(now + Duration::from_secs(2), None);
        let expect = MachineSample {
            cores: Some(1.5),
            busy: Some(0.75),
            rss_mb: Some(102.4),
            received_bytes_per_s: Some(2000.0),
            sent_bytes_per_s: Some(4000.0),
            celsius: Some(61.5),
            throttled: None,
            watts: None,
            energy: None,
        };
        assert_eq!(sample, expect);
        assert_eq!(serde_json::from_str::<MachineSample>("{}").unwrap(), MachineSample::default());
    }

    #[test]
    fn the_first_look_knows_the_watts() {
        let temp = system(&[("proc/stat", "cpu  100 0 0 100 0 0 0 0\n")]);
        let (now, watts) = (Instant::now(), Watts { idle: 2.0, full: 6.0 });
        let mut watch = MachineWatch::start(temp.path(), now);
        let mut meter = EnergyMeter::start(temp.path(), Some(watts), now).expect("a meter");
        fs::write(temp.path().join("proc/stat"), "cpu  150 0 0 150 0 0 0 0\n").unwrap();
        let sample = watch.look(now + Duration::from_millis(500), Some(&mut meter));
        assert_eq!((sample.watts, sample.energy), (Some(4.0), Some(EnergyLabel::Given)));
        // And the next one only those since then.
        fs::write(temp.path().join("proc/stat"), "cpu  150 0 0 450 0 0 0 0\n").unwrap();
        let sample = watch.look(now + Duration::from_secs(1), Some(&mut meter));
        assert_eq!(sample.watts, Some(1.0), "an eighth of all ticks since the start, less what was before");
    }

    #[test]
    fn a_system_that_tells_nothing_is_no_trouble() {
        let temp = system(&[
            ("proc/stat", "cpu"),
            ("proc/self/stat", "7 no bracket"),
            ("proc/self/status", "VmRSS: x"),
        ]);
        let mut watch = MachineWatch::start(temp.path(), Instant::now());
        assert_eq!(watch.look(Instant::now(), None), MachineSample::default());
    }

    #[test]
    fn a_slowed_processor_is_told_of() {
        let path = "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count";
        let temp = system(&[(path, "3\n")]);
        let mut watch = MachineWatch::start(temp.path(), Instant::now());
        assert_eq!(watch.look(Instant::now(), None).throttled, Some(false));
        fs::write(temp.path().join(path), "4\n").unwrap();
        assert_eq!(watch.look(Instant::now(), None).throttled, Some(true));
    }
}

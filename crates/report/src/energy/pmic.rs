//! The meter of a Raspberry Pi 5: its power chip tells volts and amperes of every line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "usr/bin/vcgencmd";

/// The lines are not all: what the board takes is so many times their sum, and so much more.
const FACTOR: f64 = 1.1451;
const REST_W: f64 = 0.5879;

/// Asking takes some milliseconds.
const ASK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pmic {
    program: PathBuf,
    asked: Instant,
    watts: f64,
    joules: f64,
}

impl Pmic {
    /// None where there is no such chip.
    pub(super) fn start(root: &Path, now: Instant) -> Option<Self> {
        let program = root.join(PROGRAM);
        let watts = ask(&program)?;
        Some(Self { program, asked: now, watts, joules: 0.0 })
    }

    /// Joules since the start: what was taken at the last look is taken until the next one.
    pub(super) fn joules(&mut self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.asked);
        if passed >= ASK_EVERY {
            let before = self.watts;
            self.watts = ask(&self.program).unwrap_or(before);
            self.joules += f64::midpoint(before, self.watts) * passed.as_secs_f64();
            self.asked = now;
            return self.joules;
        }
        self.joules + self.watts * passed.as_secs_f64()
    }
}

fn ask(program: &Path) -> Option<f64> {
    let output = Command::new(program).arg("pmic_read_adc").stdin(Stdio::null()).output().ok()?;
    watts(&String::from_utf8_lossy(&output.stdout))
}

/// Of lines such as `VDD_CORE_A current(7)=1.45A` and `VDD_CORE_V volt(15)=0.72V`; none if no line has both.
fn watts(told: &str) -> Option<f64> {
    let (mut amperes, mut volts) = (BTreeMap::new(), BTreeMap::new());
    for line in told.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(reading)) = (words.next(), words.next()) else { continue };
        let Some((_, value)) = reading.split_once('=') else { continue };
        let value = value.trim_end_matches(['A', 'V']).parse::<f64>().ok().filter(|value| value.is_finite());
        match (name.strip_suffix("_A"), name.strip_suffix("_V"), value) {
            (Some(name), _, Some(value)) => drop(amperes.insert(name, value)),
            (_, Some(name), Some(value)) => drop(volts.insert(name, value)),
            _ => {}
        }
    }
    let lines: Vec<f64> =
        amperes.iter().filter_map(|(name, amperes)| Some(amperes * volts.get(name)?)).collect();
    (!lines.is_empty()).then(|| lines.iter().sum::<f64>() * FACTOR + REST_W)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volts_and_amperes_of_a_line_belong_together() {
        let told = "   3V7_WL_SW_A current(0)=0.10000000A\n   VDD_CORE_A current(7)=2.00000000A\n     \
                    3V7_WL_SW_V volt(8)=3.70000000V\n    VDD_CORE_V volt(15)=0.75000000V\n     EXT5V_V volt(24)=5V\n";
        let watts = watts(told).expect("watts");
        assert!((watts - ((0.37 + 1.5) * 1.1451 + 0.5879)).abs() < 1e-9, "{watts}");
        for nothing in
            ["", "vcgencmd: unknown command", "VDD_CORE_A current(7)=2A", "A B", "X_A c=xA\nX_V v=1V"]
        {
            assert_eq!(super::watts(nothing), None, "{nothing}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn joules_are_watts_by_time() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join(PROGRAM);
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        assert!(Pmic::start(root.path(), Instant::now()).is_none(), "no program");
        std::fs::write(&program, "#!/bin/sh\necho 'X_A current(1)=2A'; echo 'X_V volt(2)=3V'\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let now = Instant::now();
        let mut pmic = Pmic::start(root.path(), now).expect("a meter");
        let watts = 6.0 * FACTOR + REST_W;
        assert!((pmic.joules(now + Duration::from_millis(500)) - watts / 2.0).abs() < 1e-9);
        assert!((pmic.joules(now + Duration::from_secs(10)) - 10.0 * watts).abs() < 1e-9);
        std::fs::remove_file(&program).unwrap();
        assert!((pmic.joules(now + Duration::from_secs(20)) - 20.0 * watts).abs() < 1e-9, "as before");
    }
}

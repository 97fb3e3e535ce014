//! What the hosts of a lab are like: how much of the processor they have, how fast and how far away they are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::cpu::CpuShare;
use super::emulation::HostArch;
use super::host::LabHost;
use super::tool::Tools;
use super::{LabError, MAX_HOSTS};

/// How many bits a second a link carries, each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    bits_per_s: u64,
}

/// How long everything that a host sends is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    us: u64,
}

/// What the links of a lab are like; by default, as the kernel has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkShape {
    pub rate: Option<Rate>,
    pub delay: Option<Delay>,
}

/// What one host is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostShape {
    /// Without one it has all cores, and shares them with the others as the kernel sees fit.
    pub cpu: Option<CpuShare>,
    /// Without one it is what the machine is. It stays as it is while the lab is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<HostArch>,
    #[serde(flatten)]
    pub link: LinkShape,
}

impl HostShape {
    /// So many hosts, from lists of what each has: nothing, one value for all, or one for each.
    ///
    /// # Errors
    /// When a list has another number of values, or there cannot be so many hosts.
    pub fn spread(
        hosts: usize,
        cpu: &[CpuShare],
        rate: &[Rate],
        delay: &[Delay],
        arch: &[HostArch],
    ) -> Result<Vec<Self>, LabError> {
        check_count(hosts)?;
        let lists =
            [("--cpu", cpu.len()), ("--rate", rate.len()), ("--delay", delay.len()), ("--arch", arch.len())];
        for (option, found) in lists {
            if found > 1 && found != hosts {
                let message =
                    format!("{option}: expected one value, or one for each of {hosts} hosts, found {found}");
                return Err(LabError::Unfit(message));
            }
        }
        let shape = |i: usize| Self {
            cpu: of_host(cpu, i),
            arch: of_host(arch, i),
            link: LinkShape { rate: of_host(rate, i), delay: of_host(delay, i) },
        };
        Ok((0..hosts).map(shape).collect())
    }

    /// The same with what is given here in the place of what it had.
    #[must_use]
    pub fn with(self, change: Self) -> Self {
        let link = LinkShape {
            rate: change.link.rate.or(self.link.rate),
            delay: change.link.delay.or(self.link.delay),
        };
        Self { cpu: change.cpu.or(self.cpu), arch: self.arch, link }
    }
}

fn of_host<T: Copy>(values: &[T], i: usize) -> Option<T> {
    values.get(i).or(values.first().filter(|_| values.len() == 1)).copied()
}

pub(super) fn check_count(hosts: usize) -> Result<(), LabError> {
    if (1..=MAX_HOSTS).contains(&hosts) {
        return Ok(());
    }
    Err(LabError::Unfit(format!("expected 1 to {MAX_HOSTS} hosts, found {hosts}")))
}

const RATES: [(&str, u64); 3] = [("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];
const SLOWEST: u64 = 64_000;
const FASTEST: u64 = 100_000_000_000;
const DELAYS: [(&str, u64); 3] = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];
const LONGEST_US: u64 = 10_000_000;

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match amount(text, &RATES) {
            Some(bits_per_s @ SLOWEST..=FASTEST) => Ok(Self { bits_per_s }),
            _ => Err("expected a rate from 64kbit to 100gbit, such as 100mbit".to_owned()),
        }
    }
}

impl FromStr for Delay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match amount(text, &DELAYS) {
            Some(us @ 1..=LONGEST_US) => Ok(Self { us }),
            _ => Err("expected a delay of up to 10s, such as 5ms or 500us".to_owned()),
        }
    }
}

/// A number with its unit. The shortest unit is the end of another, so the longest that fits counts.
fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let fits = |(unit, scale): &(&str, u64)| Some((text.strip_suffix(unit)?.to_owned(), *scale));
    let (number, scale) = units.iter().filter_map(fits).min_by_key(|(number, _)| number.len())?;
    let number: f64 = number.trim().parse().ok()?;
    Some((number * scale as f64).round() as u64)
}

fn show(f: &mut fmt::Formatter<'_>, amount: u64, units: &[(&str, u64)]) -> fmt::Result {
    let fits = units.iter().rev().find(|(_, scale)| amount >= *scale);
    let (unit, scale) = fits.copied().unwrap_or(units[0]);
    write!(f, "{}{unit}", amount as f64 / scale as f64)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.bits_per_s, &RATES)
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.us, &DELAYS)
    }
}

/// Shapes both ends of a host's link: what it sends, and what it is sent. What is shaped already changes while packets
/// are under way.
pub(super) fn apply(tools: &Tools, host: &LabHost, shape: LinkShape) -> Result<(), LabError> {
    let link = &host.link;
    let mut place = "root";
    if let Some(rate) = shape.rate {
        let bucket = bucket(rate);
        for end in [format!("-n {link} qdisc replace dev eth0"), format!("qdisc replace dev {link}")] {
            shaped(tools, "tbf", "--rate", &format!("{end} root handle 1: tbf {bucket}"))?;
        }
        place = "parent 1:1";
    }
    let Some(delay) = shape.delay else { return Ok(()) };
    // Once on the way is enough, and both directions of a connection are somebody's way out.
    let delay = format!(
        "-n {link} qdisc replace dev eth0 {place} netem delay {}us limit {DELAYED_PACKETS}",
        delay.us
    );
    shaped(tools, "netem", "--delay", &delay)
}

/// Enough for ten seconds of a slow link and a tenth of a second of a fast one.
const DELAYED_PACKETS: u32 = 100_000;

/// A kernel that was built without a qdisc can be told from any other failure only by its words.
fn shaped(tools: &Tools, qdisc: &str, option: &str, line: &str) -> Result<(), LabError> {
    match tools.line("tc", line) {
        Ok(_) => Ok(()),
        Err(error) if error.to_string().contains("qdisc kind is unknown") => Err(LabError::Unfit(format!(
            "this kernel has no `{qdisc}` (module sch_{qdisc}), without which {option} cannot be done; leave \
             {option} out, or load the module"
        ))),
        Err(error) => Err(error),
    }
}

/// A bucket as large as what flows in a hundredth of a second, so that a kernel with slow ticks keeps up; a queue of a
/// tenth.
fn bucket(rate: Rate) -> String {
    const LEAST_BURST: u64 = 16 << 10;
    const LEAST_QUEUE: u64 = 128 << 10;
    let bytes_per_s = rate.bits_per_s / 8;
    let burst = (bytes_per_s / 100).max(LEAST_BURST);
    let queue = burst + (bytes_per_s / 10).max(LEAST_QUEUE);
    format!("rate {}bit burst {burst} limit {queue}", rate.bits_per_s)
}

#[cfg(test)]
mod tests {
    use super::{Delay, HostShape, Rate};

    #[test]
    fn a_value_for_all_or_one_for_each() {
        let rates = |texts: &[&str]| -> Vec<Rate> {
            texts.iter().map(|text| text.parse().expect("a rate")).collect()
        };
        let check = |hosts, given: &[&str], expect: Result<&[&str], &str>| {
            let spread = HostShape::spread(hosts, &[], &rates(given), &[], &[]);
            let shown = spread.map(|shapes| {
                let rate =
                    |shape: &HostShape| shape.link.rate.map_or("-".to_owned(), |rate| rate.to_string());
                shapes.iter().map(rate).collect::<Vec<_>>()
            });
            let expect = expect.map(|rates| rates.iter().map(|&rate| rate.to_owned()).collect::<Vec<_>>());
            assert_eq!(shown.map_err(|error| error.to_string()), expect.map_err(str::to_owned));
        };
        check(3, &[], Ok(&["-", "-", "-"]));
        check(3, &["1mbit"], Ok(&["1mbit", "1mbit", "1mbit"]));
        check(2, &["1mbit", "2gbit"], Ok(&["1mbit", "2gbit"]));
        check(1, &["1mbit"], Ok(&["1mbit"]));
        let wrong = "--rate: expected one value, or one for each of 3 hosts, found 2";
        check(3, &["1mbit", "2gbit"], Err(wrong));
        check(0, &[], Err("expected 1 to 200 hosts, found 0"));
    }

    #[test]
    fn rates_and_delays() {
        let rate = |text: &str, expect: Option<&str>| {
            assert_eq!(text.parse::<Rate>().ok().map(|rate| rate.to_string()).as_deref(), expect, "{text}");
        };
        rate("100mbit", Some("100mbit"));
        rate("1Gbit", Some("1gbit"));
        rate("0.5gbit", Some("500mbit"));
        rate("2500 kbit", Some("2.5mbit"));
        rate("100gbit", Some("100gbit"));
        for wrong in ["", "100", "mbit", "-1mbit", "1kbit", "200gbit", "nanmbit", "100mb", "infgbit"] {
            rate(wrong, None);
        }
        let delay = |text: &str, expect: Option<&str>| {
            assert_eq!(
                text.parse::<Delay>().ok().map(|delay| delay.to_string()).as_deref(),
                expect,
                "{text}"
            );
        };
        delay("5ms", Some("5ms"));
        delay("500us", Some("500us"));
        delay("1.5s", Some("1.5s"));
        delay("1500us", Some("1.5ms"));
        for wrong in ["", "5", "0ms", "-5ms", "11s", "5m", "ms"] {
            delay(wrong, None);
        }
    }
}

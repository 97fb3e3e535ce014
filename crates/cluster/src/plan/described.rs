//! Hosts that are described in a file instead of measured: so one can ask before one buys.
//!
//! ```yaml
//! - {name: pi, count: 8, cpu: 0.25, cores: 4, rate: 100mbit, latency: 0.3ms, watts: {idle: 2.7, full: 6.4}}
//! - {name: desk, rate: 1gbit}
//! ```

use bonfire_report::{EnergyLabel, Watts};
use bonfire_yaml::{Tree, YamlError};
use serde::Deserialize;

use super::figures::{FrameFigures, HostFigures, InRounds, LinkFigures, Pool, Power, Work, WorkFigures};

/// A file of described hosts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedHosts {
    hosts: Vec<DescribedHost>,
}

/// One host, or several that are alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedHost {
    name: String,
    #[serde(default = "one")]
    count: usize,
    /// How many times as fast as this machine.
    cpu: Option<f64>,
    /// Instead of `cpu`: what a batch of the run takes there, or how many samples a second that is.
    ms_per_batch: Option<f64>,
    samples_per_s: Option<f64>,
    cores: Option<usize>,
    rate: Option<String>,
    latency: Option<String>,
    memory: Option<String>,
    watts: Option<Watts>,
    /// Instead of `watts`: a board whose watts are known.
    board: Option<String>,
}

fn one() -> usize {
    1
}

/// No pool that a person describes has more.
const MOST_HOSTS: usize = 1024;

/// A gigabit switch, and what it takes to get through it.
const RATE: f64 = 1e9;
const LATENCY_S: f64 = 200e-6;

/// Of the bits of a link, so many are of frames' payloads: the rest is heads and acknowledgements.
const PAYLOAD: f64 = 0.93;

/// Reads described hosts. `own` is this machine, measured; `batch` is the batch size of the run.
///
/// # Errors
/// When the file has no hosts, or something in it cannot be.
pub fn described(origin: &str, text: &str, own: &HostFigures, batch: usize) -> Result<Pool, YamlError> {
    let is_list = text.lines().find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    let is_list = is_list.is_some_and(|line| line.starts_with(['-', '[']));
    let tree = if is_list { Tree::parse_list(origin, text, "hosts")? } else { Tree::parse(origin, text)? };
    let file: DescribedHosts = tree.read()?;
    let mut hosts = Vec::new();
    for (place, host) in file.hosts.iter().enumerate() {
        let wrong = |key: &str, message: String| tree.wrong(&format!("hosts[{place}].{key}"), message);
        if host.count == 0 || host.count + hosts.len() > MOST_HOSTS {
            return Err(wrong("count", format!("must be at least 1, and all hosts at most {MOST_HOSTS}")));
        }
        let figures = host.figures(own, batch, &wrong)?;
        for number in 1..=host.count {
            let name = if host.count == 1 { host.name.clone() } else { format!("{}{number}", host.name) };
            hosts.push(HostFigures { machine: name.clone(), name, ..figures.clone() });
        }
    }
    if hosts.is_empty() {
        return Err(tree.wrong("hosts", "has no hosts"));
    }
    let mut names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(tree.wrong("hosts", format!("two hosts are called {}", pair[0])));
    }
    Ok(Pool { hosts, ..Pool::default() })
}

/// Whether a file of described hosts can be read, before anything is measured for it.
///
/// # Errors
/// When it has no hosts, or something in it cannot be.
pub fn check_described(origin: &str, text: &str) -> Result<(), YamlError> {
    let (none, free) = (Work { core_s: 1.0, width: 1.0 }, FrameFigures { frame_s: 0.0, byte_s: 0.0 });
    let anybody = HostFigures {
        name: String::new(),
        machine: String::new(),
        cores: 1,
        allowance: 1.0,
        hold_s: 0.0,
        memory_mb: None,
        power: None,
        work: WorkFigures {
            steps: Vec::new(),
            update: none,
            together: none,
            codecs: Vec::new(),
            memory_mb: None,
            crowds: Vec::new(),
            hop_s: 0.0,
            factors: [none; 3],
            alone_s: None,
        },
        link: LinkFigures {
            up: 1.0,
            down: 1.0,
            burst: 0.0,
            latency_s: 0.0,
            wake_s: 0.0,
            rest_s: 0.0,
            send: free,
            receive: free,
        },
        in_rounds: InRounds::default(),
    };
    described(origin, text, &anybody, 1).map(drop)
}

impl DescribedHost {
    fn figures(
        &self,
        own: &HostFigures,
        batch: usize,
        wrong: &dyn Fn(&str, String) -> YamlError,
    ) -> Result<HostFigures, YamlError> {
        let positive = |key: &str, value: Option<f64>| match value {
            Some(value) if !(value > 0.0 && value.is_finite()) => {
                Err(wrong(key, "must be above 0".to_owned()))
            }
            value => Ok(value),
        };
        let (cpu, ms) = (positive("cpu", self.cpu)?, positive("ms_per_batch", self.ms_per_batch)?);
        let samples_per_s = positive("samples_per_s", self.samples_per_s)?;
        if [cpu, ms, samples_per_s].iter().flatten().count() > 1 {
            let message = "give one of cpu, ms_per_batch and samples_per_s".to_owned();
            let key = if cpu.is_some() { "cpu" } else { "ms_per_batch" };
            return Err(wrong(key, message));
        }
        if self.cores == Some(0) {
            return Err(wrong("cores", "must be at least 1".to_owned()));
        }
        let cores = self.cores.unwrap_or(own.cores);
        let threads = own.work.steps.iter().map(|step| step.threads).max().unwrap_or(1);
        let here_s = own.work.step(threads, batch).alone_s();
        let given_s = ms.map(|ms| ms / 1e3).or(samples_per_s.map(|speed| batch as f64 / speed));
        let speed = cpu.or(given_s.map(|there_s| here_s / there_s)).unwrap_or(1.0);
        if let Some((key, rule)) = self.watts.and_then(|watts| watts.check().err()) {
            return Err(wrong(&format!("watts.{key}"), rule));
        }
        let read = |key: &str, text: &Option<String>, units: &[(&str, f64)]| {
            let read = |text: &String| {
                let must = || wrong(key, format!("must be a number with {}", in_words(units)));
                quantity(text, units).ok_or_else(must)
            };
            text.as_ref().map(read).transpose()
        };
        let rate = read("rate", &self.rate, &RATES)?.unwrap_or(RATE);
        let latency_s = read("latency", &self.latency, &TIMES)?.unwrap_or(LATENCY_S);
        let memory = read("memory", &self.memory, &SIZES)?;
        let bytes_per_s = rate / 8.0 * PAYLOAD;
        let given = self.watts.map(|watts| Power { watts, label: EnergyLabel::Given });
        let board = self.board(wrong)?.map(|watts| Power { watts, label: EnergyLabel::Modelled });
        Ok(HostFigures {
            name: String::new(),
            machine: String::new(),
            cores,
            allowance: cores as f64,
            hold_s: 0.0,
            memory_mb: memory.map(|bytes| (bytes / 1e6) as u64),
            power: given.or(board),
            work: own.work.at(speed),
            link: LinkFigures {
                up: bytes_per_s,
                down: bytes_per_s,
                burst: 0.0,
                latency_s,
                wake_s: own.link.wake_s / speed,
                rest_s: own.link.rest_s / speed,
                send: own.link.send.at(speed),
                receive: own.link.receive.at(speed),
            },
            in_rounds: InRounds::default(),
        })
    }

    fn board(&self, wrong: &dyn Fn(&str, String) -> YamlError) -> Result<Option<Watts>, YamlError> {
        let Some(name) = &self.board else { return Ok(None) };
        let known = || wrong("board", format!("must be one of {}", Watts::boards().join(", ")));
        Watts::of_model(name).map(Some).ok_or_else(known)
    }
}

const RATES: [(&str, f64); 4] = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
const TIMES: [(&str, f64); 3] = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0)];
const SIZES: [(&str, f64); 5] = [("GB", 1e9), ("MB", 1e6), ("GiB", 1.074e9), ("MiB", 1.049e6), ("G", 1e9)];

/// `gbit, mbit, kbit or bit`
fn in_words(units: &[(&str, f64)]) -> String {
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => names.join(""),
    }
}

/// `100mbit`, `0.3 ms`: none if it is no number above 0 with one of the units.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let number: f64 = number.trim().parse().ok()?;
    (number > 0.0 && number.is_finite()).then_some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn read(text: &str) -> Result<Pool, String> {
        described("hosts.yml", text, &sample::host("here", 1e9, 0.0), 32).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_are_read() {
        let text = "- {name: pi, count: 2, cpu: 0.25, cores: 4, rate: 100mbit, latency: 0.3ms, memory: 4GB,\n   \
                    watts: {idle: 2.7, full: 6.4}}\n- name: desk\n  ms_per_batch: 500\n";
        let pool = read(text).expect("hosts");
        let names: Vec<&str> = pool.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["pi1", "pi2", "desk"]);
        let (pi, desk) = (&pool.hosts[0], &pool.hosts[2]);
        assert_eq!((pi.work.step(1, 32).core_s, desk.work.step(1, 32).core_s), (4.0, 0.5));
        assert_eq!((pi.cores, pi.memory_mb), (4, Some(4000)));
        assert!((pi.link.up - 11.625e6).abs() < 1.0, "{}", pi.link.up);
        assert_eq!(read("hosts: [{name: a}, {name: b, samples_per_s: 16}]").expect("hosts").hosts.len(), 2);
    }

    #[test]
    fn what_cannot_be_is_told_with_its_line() {
        let check = |text: &str, expect: &str| assert_eq!(read(text), Err(expect.to_owned()), "{text}");
        check("[]", "hosts.yml:1: hosts: has no hosts");
        check(
            "- name: a\n  watts: {idle: -1, full: 3}\n",
            "hosts.yml:2: hosts[0].watts.idle: must be from 0 to 100000",
        );
        check(
            "- name: a\n  rate: fast\n",
            "hosts.yml:2: hosts[0].rate: must be a number with gbit, mbit, kbit or bit",
        );
        check("- name: a\n  cpu: 0\n", "hosts.yml:2: hosts[0].cpu: must be above 0");
        check("- name: a\n- name: a\n", "hosts.yml:1: hosts: two hosts are called a");
        let unknown = read("- name: a\n  cpus: 3\n").expect_err("an unknown key");
        assert!(unknown.starts_with("hosts.yml:2: ") && unknown.contains("cpus"), "{unknown}");
    }
}

//! What the machine and this process are, as far as the system tells. Read from `/proc`; elsewhere mostly `None`.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine that a run ran on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    pub hostname: Option<String>,
    /// For instance `linux`.
    pub os: String,
    /// For instance `x86_64`.
    pub arch: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    pub cpu: Option<String>,
    /// The number of threads that can run at the same time.
    pub cores: Option<usize>,
    pub memory_mb: Option<u64>,
    /// The vector instructions in use, as the caller names them.
    pub simd: Option<String>,
}

impl HostFacts {
    /// The facts of this machine. Which vector instructions are in use, only the code that uses them knows.
    pub fn collect(simd: Option<String>) -> Self {
        Self {
            hostname: read_line("/proc/sys/kernel/hostname"),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            kernel: read_line("/proc/sys/kernel/osrelease"),
            cpu: cpu(),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            memory_mb: read("/proc/meminfo")
                .and_then(|text| kilobytes(&text, "MemTotal"))
                .map(|kb| kb / 1000),
            simd,
        }
    }
}

/// The most memory this process has had so far, in millions of bytes.
pub fn peak_rss_mb() -> Option<f64> {
    let kilobytes = kilobytes(&read("/proc/self/status")?, "VmHWM")?;
    Some(kilobytes as f64 / 1000.0)
}

/// ARM boards have no name of their processor there, but one of the whole board.
fn cpu() -> Option<String> {
    let named = read("/proc/cpuinfo").and_then(|text| field(&text, "model name").map(str::to_owned));
    named.or_else(|| read_line("/proc/device-tree/model"))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn read_line(path: &str) -> Option<String> {
    let text = read(path)?;
    let line = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
    (!line.is_empty()).then(|| line.to_owned())
}

/// The value in a line `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The value in a line `name: 123 kB`, in thousands of bytes. The kernel's kB are 1024 bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let kib: u64 = field(text, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024 / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "Name:\tbonfire\nVmHWM:\t  218624 kB\nmodel name\t: Some CPU @ 2.0GHz: fast\nbroken\nVmRSS:\t12\n";
        assert_eq!(kilobytes(text, "VmHWM"), Some(223_870));
        assert_eq!(kilobytes(text, "VmRSS"), None);
        assert_eq!(kilobytes(text, "VmSwap"), None);
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2.0GHz: fast"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_has_facts() {
        let facts = HostFacts::collect(Some("avx2".into()));
        assert_eq!(facts.os, "linux");
        assert!(facts.kernel.is_some() && facts.cores >= Some(1) && facts.memory_mb > Some(64), "{facts:?}");
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<HostFacts>(&json).unwrap(), facts);
        assert!(peak_rss_mb().is_some_and(|mb| (0.5..10_000.0).contains(&mb)));
    }
}

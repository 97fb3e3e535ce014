//! What a host is, told by its own shell: nothing of Bonfire has to be there yet.

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::ssh::Remote;
use crate::trouble::Trouble;

/// What a host said of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// As `uname -m` names it.
    pub arch: String,
    pub system: String,
    pub kernel: String,
    pub cores: Option<usize>,
    pub memory_mb: Option<u64>,
    /// Where Bonfire's folder is, and how much room is there.
    pub home: String,
    pub free_mb: Option<u64>,
    /// How far its clock is ahead of this machine's, in seconds.
    pub clock_offset_s: Option<f64>,
    /// The address at which its sshd was reached.
    pub reached_at: Option<IpAddr>,
    /// The same for all hosts of a machine: emulated ones, or containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The runs of which something is there.
    #[serde(skip)]
    pub runs: Vec<String>,
    /// Of Bonfire's program there, if it is there.
    pub program_sha256: Option<String>,
}

/// Only what POSIX has, and what `coreutils` or `busybox` add. `$1` is the path of the program below the home folder.
const SCRIPT: &str = r#"
echo facts-begin
case $(uname -m)/$(getconf LONG_BIT 2>/dev/null) in
aarch64/32) echo arch armv7l;; # a kernel of 64 bits under programs of 32, as many cards of a Pi have it
*) echo arch $(uname -m);;
esac
echo system $(uname -s); echo kernel $(uname -r)
echo cores $(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null)
while read key value unit; do case $key in MemTotal:) echo memory_kb $value;; esac; done < /proc/meminfo 2>/dev/null
echo home $HOME
echo reached $SSH_CONNECTION
echo runs $(ls "$HOME/.bonfire/runs" 2>/dev/null)
echo machine $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
if test -w "$HOME"; then echo writable yes; fi
if test -f "$HOME/$1"; then echo sha256 $(sha256sum < "$HOME/$1"); fi
df -Pk "$HOME"
echo facts-end
"#;

/// How long the questions may take once the login stands.
const TIME: Duration = Duration::from_secs(20);

impl Facts {
    /// Asks a host that was logged into.
    pub fn ask(remote: &Remote, program: &str) -> Result<Self, Trouble> {
        let said = remote.ask(SCRIPT, &[program], TIME)?;
        let mut facts = Self::parse(&said)?;
        let (asked, clock) = (Instant::now(), SystemTime::now());
        let there = remote.ask("date +%s.%N", &[], TIME)?;
        // The answer was given at some time in between; the middle is off by half of it at most.
        let middle = clock + asked.elapsed() / 2;
        let now_s = middle.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        facts.clock_offset_s = time(there.trim()).map(|there_s| there_s - now_s);
        Ok(facts)
    }

    /// Reads the answer. Lines of a login shell's greeting before it are passed over.
    fn parse(said: &str) -> Result<Self, Trouble> {
        let (_, said) = said.split_once("facts-begin\n").ok_or_else(|| no_answer(said))?;
        let (said, _) = said.split_once("facts-end").ok_or_else(|| no_answer(said))?;
        let mut facts = Self::default();
        let mut is_writable = false;
        for line in said.lines() {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.trim();
            match key {
                "arch" => value.clone_into(&mut facts.arch),
                "system" => value.clone_into(&mut facts.system),
                "kernel" => value.clone_into(&mut facts.kernel),
                "cores" => facts.cores = value.parse().ok(),
                "memory_kb" => facts.memory_mb = value.parse::<u64>().ok().map(|kb| kb * 1024 / 1_000_000),
                "home" => value.clone_into(&mut facts.home),
                "reached" => facts.reached_at = value.split(' ').nth(2).and_then(|ip| ip.parse().ok()),
                "machine" => facts.machine = Some(value.to_owned()).filter(|machine| !machine.is_empty()),
                "runs" => facts.runs = value.split_whitespace().map(str::to_owned).collect(),
                "writable" => is_writable = true,
                "sha256" => facts.program_sha256 = value.split(' ').next().map(str::to_owned),
                _ => facts.free_mb = free_mb(line).or(facts.free_mb),
            }
        }
        if !is_writable {
            return Err(Trouble::Other(format!("its home folder {:?} cannot be written to", facts.home)));
        }
        Ok(facts)
    }

    /// Whether a program of this machine's system, for this architecture, runs there.
    pub(crate) fn takes(&self, program_arch: &str) -> bool {
        (arch(&self.arch), self.system.to_lowercase().as_str()) == (program_arch, std::env::consts::OS)
    }
}

/// As the compiler names it.
pub(crate) fn arch(uname: &str) -> &str {
    match uname {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        "i386" | "i486" | "i586" | "i686" => "x86",
        arm if arm.starts_with("armv") => "arm",
        other => other,
    }
}

/// Without the fraction where `date` has none: that of busybox prints `%N` as it is.
fn time(value: &str) -> Option<f64> {
    value.parse().ok().or_else(|| value.split('.').next()?.parse().ok())
}

/// The fourth column of `df -P`. The first and the last may have spaces, so it is found from the percentage behind it.
fn free_mb(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let percent = words.iter().position(|word| {
        word.strip_suffix('%').is_some_and(|number| number.parse::<u8>().is_ok()) || *word == "-"
    })?;
    words.get(percent.checked_sub(1)?)?.parse::<u64>().ok().map(|kb| kb * 1024 / 1_000_000)
}

fn no_answer(said: &str) -> Trouble {
    let line = crate::trouble::last_line(said);
    Trouble::Other(format!("its shell did not run a script; it said: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "Welcome to pi1!\nfacts-begin\narch aarch64\nsystem Linux\nkernel 6.1.0-rpi7\ncores 4\n\
        memory_kb 3884324\nhome /home/pi\nreached 192.168.2.7 51234 192.168.2.101 22\nmachine 7a-1\nruns a-1 b-2\n\
        writable yes\nsha256 ab12cd  -\nFilesystem     1024-blocks    Used Available Capacity Mounted on\n\
        /dev/root         29602752 8019784  20354472      29% /\nfacts-end\n";

    #[test]
    fn an_answer_is_read() {
        let facts = Facts::parse(SAID).expect("facts");
        let expect = Facts {
            arch: "aarch64".into(),
            system: "Linux".into(),
            kernel: "6.1.0-rpi7".into(),
            cores: Some(4),
            memory_mb: Some(3977),
            home: "/home/pi".into(),
            free_mb: Some(20842),
            clock_offset_s: None,
            reached_at: Some("192.168.2.101".parse().expect("an address")),
            machine: Some("7a-1".into()),
            runs: vec!["a-1".into(), "b-2".into()],
            program_sha256: Some("ab12cd".into()),
        };
        assert_eq!(facts, expect);
    }

    #[test]
    fn an_answer_with_holes_is_read() {
        let check = |from: &str, to: &str, expect: fn(&Facts) -> bool| {
            let said = SAID.replace(from, to);
            assert_ne!(said, SAID, "{from}");
            let facts = Facts::parse(&said).expect("facts");
            assert!(expect(&facts), "{to:?}: {facts:?}");
        };
        check("cores 4", "cores ", |facts| facts.cores.is_none());
        check("sha256 ab12cd  -\n", "", |facts| facts.program_sha256.is_none());
        check("reached 192.168.2.7 51234 192.168.2.101 22", "reached ", |facts| facts.reached_at.is_none());
        check("/dev/root  ", "//nas/my share", |facts| facts.free_mb == Some(20842));
        check("29% /", "29% /mnt/100% mine", |facts| facts.free_mb == Some(20842));
        check("29602752 8019784  20354472      29%", "1000 1000 0 100%", |facts| facts.free_mb == Some(0));
        check("memory_kb 3884324\n", "", |facts| facts.memory_mb.is_none());
    }

    #[test]
    fn no_answer_is_trouble() {
        let check = |said: &str, expect: &str| {
            let trouble = Facts::parse(said).expect_err("trouble").to_string();
            assert!(trouble.contains(expect), "{trouble}");
        };
        check("", "did not say why");
        check("This account is currently not available.\n", "This account is currently not available.");
        check("facts-begin\narch x86_64\n", "arch x86_64");
        check(&SAID.replace("writable yes\n", ""), "\"/home/pi\" cannot be written to");
    }

    #[test]
    fn the_script_is_one_that_a_shell_runs() {
        let output =
            std::process::Command::new("sh").args(["-c", SCRIPT, "sh", "none"]).output().expect("sh");
        let facts = Facts::parse(&String::from_utf8_lossy(&output.stdout)).expect("facts");
        assert!(
            facts.takes(std::env::consts::ARCH) && facts.cores >= Some(1) && facts.free_mb.is_some(),
            "{facts:?}"
        );
    }

    #[test]
    fn the_time_may_lack_its_fraction() {
        let check = |said: &str, expect: Option<f64>| assert_eq!(time(said), expect, "{said}");
        check("1000.500000000", Some(1000.5));
        check("1000.%N", Some(1000.0));
        check("1000", Some(1000.0));
        check("", None);
        check("date: not found", None);
    }

    #[test]
    fn names_of_architectures_are_the_compilers() {
        let check = |uname: &str, expect: &str| assert_eq!(arch(uname), expect);
        check("x86_64", "x86_64");
        check("aarch64", "aarch64");
        check("arm64", "aarch64");
        check("armv7l", "arm");
        check("i686", "x86");
        check("riscv64", "riscv64");
    }
}

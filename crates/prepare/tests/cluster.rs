//! A scheduler, executors and one that submits, as processes of this machine.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use bonfire_data::prepare::{Format, Meter, Preparation, PrepareReport, Rules};

const PROGRAM: &str = env!("CARGO_BIN_EXE_bonfire-prepare");

/// No step takes longer.
const DEADLINE: Duration = Duration::from_secs(240);

/// With 64 MB to sort in, an executor takes no more: what it passes on, what it reads, and the program itself.
const MEMORY_OF_EXECUTOR: u64 = 450_000_000;

/// A process that ends with the test.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start(arguments: &[&str]) -> Self {
        Self::under(&[], arguments)
    }

    /// Starts it by a command, and waits for the line that says where it is.
    fn under(command: &[&str], arguments: &[&str]) -> Self {
        let line = [command, &[PROGRAM], arguments].concat();
        let mut child = Command::new(line[0]).args(&line[1..]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(address.contains(':'), "{arguments:?} said {line:?}");
        Self { child, address }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The arguments of an executor.
fn executor<'a>(scheduler: &'a str, work: &'a str) -> [&'a str; 9] {
    let [memory, work_dir] = ["--memory-pool-size", "--work-dir"];
    ["executor", "--scheduler", scheduler, "--cores", "1", memory, "64MB", work_dir, work]
}

/// A scheduler with executors, and a folder for everything.
struct Cluster {
    folder: tempfile::TempDir,
    scheduler: Process,
    executors: Vec<Process>,
}

impl Cluster {
    fn of(executors: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scheduler = Process::start(&["scheduler", "--port", "0", "--patience", "3"]);
        let executors = (0..executors).map(|number| {
            let work = folder.path().join(format!("work-{number}"));
            Process::start(&executor(&scheduler.address, work.to_str().unwrap()))
        });
        let executors = executors.collect();
        Self { folder, scheduler, executors }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn submit(&self, input: &Path, out: &Path, more: &[&str]) -> Child {
        let mut command = Command::new(PROGRAM);
        command.arg("submit").arg(input).arg("-o").arg(out).args(["--scheduler", &self.scheduler.address]);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits until an executor has written something that it passes on.
    fn await_work_of(&self, executor: usize) {
        let work = self.path(&format!("work-{executor}"));
        let deadline = Instant::now() + DEADLINE;
        while Instant::now() < deadline {
            if bytes_in(&work) > 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("executor {executor} did nothing");
    }
}

fn bytes_in(folder: &Path) -> u64 {
    let size = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_in(&entry.path()),
        _ => entry.metadata().map_or(0, |facts| facts.len()),
    };
    fs::read_dir(folder).into_iter().flatten().flatten().map(size).sum()
}

/// What a process said, if it ends in time.
fn ended(mut child: Child) -> (Output, String) {
    let deadline = Instant::now() + DEADLINE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            panic!("it does not end: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

/// So many reviews, a seventh of which have the text of another; some are bad or empty.
fn reviews(count: u64) -> String {
    reviews_of(count, 20)
}

/// The same with about so many words at most.
fn reviews_of(count: u64, words_at_most: u64) -> String {
    let words =
        ["good", "Bad", "the", "it's", "café", "case", "phone", "broke", "after", "two", "weeks", "love"];
    let mut text = String::new();
    for number in 0..count {
        let (row, mut chance) = (number - number % 7 / 6, String::new());
        let mut state = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        for _ in 0..3 + row % words_at_most {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let word = words[(state >> 33) as usize % words.len()];
            let _ = write!(chance, "{word}{} ", if state >> 60 == 0 { "x" } else { "" });
        }
        let _ = match number % 997 {
            5 => writeln!(text, "{{\"reviewText\": \"{chance}\", \"overall\": 9}}"),
            6 => writeln!(text, "{{\"reviewText\": \"!!\", \"overall\": 3}}"),
            _ => writeln!(text, "{{\"reviewText\": \"{chance}\", \"overall\": {}.0}}", 1 + number % 5),
        };
    }
    text
}

/// What one machine makes of it.
fn here(input: &Path, out: &Path, rules: Rules, format: Format) -> PrepareReport {
    let inputs = vec![input.to_owned()];
    let out = out.to_owned();
    let preparation =
        Preparation { inputs, out, rules, format, threads: 2, memory: 64_000_000, is_strict: false };
    preparation.run(&Meter::default(), |_| {}).unwrap()
}

/// Whether two results are the same: all bytes, and all counts.
fn assert_same(one: &Path, other: &Path) {
    let names = |folder: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(one), names(other));
    for name in names(one) {
        let (left, right) = (fs::read(one.join(&name)).unwrap(), fs::read(other.join(&name)).unwrap());
        if name == "prepare.json" {
            let read = |text: &[u8]| {
                let report: PrepareReport = serde_json::from_slice(text).unwrap();
                PrepareReport { seconds: 0.0, mb_per_s: 0.0, ..report }
            };
            let (left, right) = (read(&left), read(&right));
            assert!(left == right, "{:?}\n{:?}", left.duplicates, right.duplicates);
        } else {
            assert!(left == right, "{} differs", name.display());
        }
    }
}

#[test]
fn three_executors_give_the_bytes_of_one_machine() {
    let cluster = Cluster::of(3);
    let raw = cluster.path("raw");
    fs::create_dir(&raw).unwrap();
    fs::write(raw.join("a.json"), reviews(30_000)).unwrap();
    fs::write(raw.join("b.jsonl"), reviews(900)).unwrap();
    fs::write(raw.join("c.csv"), "stars,text\n5,\"good, very\n good\"\n9,bad\n").unwrap();
    let usual = Rules::default();
    let others = Rules { words: 5, length: 7, classes: Some(2), seed: 9, ..Rules::default() };
    let given = r#"{"words": 5, "length": 7, "classes": 2, "seed": 9}"#;
    for (number, (rules, given, format)) in
        [(usual, "{}", Format::Native), (others, given, Format::Jsonl)].into_iter().enumerate()
    {
        let (here_out, there_out) =
            (cluster.path(&format!("here-{number}")), cluster.path(&format!("there-{number}")));
        let report = here(&raw, &here_out, rules, format);
        assert!(report.bad > 20 && report.empty > 20 && report.duplicates > 3000, "{report:?}");
        let child = cluster.submit(&raw, &there_out, &["--rules", given, "--format", format.name()]);
        let (output, said) = ended(child);
        assert!(output.status.success(), "{said}");
        assert_same(&here_out, &there_out);
    }
    assert!(!cluster.path("there-0.partial").exists());
}

/// What a process has had in memory at most.
fn peak_of_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// How much of what was sorted lies on the disk of an executor, which keeps it in a folder of its own.
fn spilled(work: &Path) -> u64 {
    let is_spill = |path: &Path| path.to_string_lossy().contains("datafusion-");
    let size = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => spilled(&entry.path()),
        _ if is_spill(&entry.path()) => entry.metadata().map_or(0, |facts| facts.len()),
        _ => 0,
    };
    fs::read_dir(work).into_iter().flatten().flatten().map(size).sum()
}

/// All texts are sorted in one piece, by one executor, for which there is not memory enough.
#[test]
fn what_does_not_fit_into_an_executor_goes_to_its_disk() {
    let cluster = Cluster::of(2);
    let (raw, out) = (cluster.path("raw.json"), cluster.path("there"));
    // Few and long: rows take longer than letters in a program that is not optimised.
    fs::write(&raw, reviews_of(90_000, 300)).unwrap();
    here(&raw, &cluster.path("here"), Rules::default(), Format::Native);
    let mut child = cluster.submit(&raw, &out, &["--pieces", "1"]);
    let (mut most, deadline) = (0, Instant::now() + DEADLINE);
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        most = (0..2).map(|number| spilled(&cluster.path(&format!("work-{number}")))).fold(most, u64::max);
        std::thread::sleep(Duration::from_millis(20));
    }
    let (output, said) = ended(child);
    assert!(output.status.success(), "{said}");
    assert_same(&cluster.path("here"), &out);
    let peaks: Vec<u64> = cluster.executors.iter().map(|it| peak_of_memory(it.child.id())).collect();
    eprintln!("{most} bytes were on a disk at most; peaks of memory: {peaks:?}");
    assert!(most > 20_000_000, "{most} bytes were on a disk");
    assert!(peaks.iter().all(|&peak| peak < MEMORY_OF_EXECUTOR), "{peaks:?}");
}

#[test]
fn executors_that_die_cost_time_but_no_text() {
    let mut cluster = Cluster::of(3);
    let (raw, out) = (cluster.path("raw.json"), cluster.path("there"));
    fs::write(&raw, reviews(150_000)).unwrap();
    let report = here(&raw, &cluster.path("here"), Rules::default(), Format::Native);
    let child = cluster.submit(&raw, &out, &[]);
    cluster.await_work_of(0);
    cluster.executors[0].kill();
    let (output, said) = ended(child);
    assert!(output.status.success(), "{said}");
    assert!(report.texts > 100_000);
    assert_same(&cluster.path("here"), &out);
    // With nobody left it ends, and nothing looks whole.
    let out = cluster.path("nobody");
    let child = cluster.submit(&raw, &out, &[]);
    cluster.executors.iter_mut().for_each(Process::kill);
    let (output, said) = ended(child);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!out.exists(), "{said}");
}

#[test]
fn a_full_disk_of_an_executor_is_said_and_nothing_looks_whole() {
    let may = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !may {
        eprintln!("SKIPPED: a disk of its own takes root");
        return;
    }
    let mut cluster = Cluster::of(0);
    let (raw, out, disk) = (cluster.path("raw.json"), cluster.path("there"), cluster.path("disk"));
    fs::write(&raw, reviews(100_000)).unwrap();
    fs::create_dir(&disk).unwrap();
    let disk = disk.to_str().unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none {disk} && exec \"$@\"");
    let command = ["unshare", "-m", "sh", "-c", &mount, "sh"];
    let mut full = Process::under(&command, &executor(&cluster.scheduler.address, disk));
    let (output, said) = ended(cluster.submit(&raw, &out, &[]));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(!out.exists(), "{said}");
    // One that has room does it.
    full.kill();
    let work = cluster.path("work-0");
    let other = Process::start(&executor(&cluster.scheduler.address, work.to_str().unwrap()));
    cluster.executors.push(other);
    let (output, said) = ended(cluster.submit(&raw, &out, &[]));
    assert!(output.status.success(), "{said}");
    here(&raw, &cluster.path("here"), Rules::default(), Format::Native);
    assert_same(&cluster.path("here"), &out);
}

#[test]
fn what_is_wrong_is_said() {
    let cluster = Cluster::of(1);
    let out = cluster.path("out");
    let check = |child: Child, code: i32, expect: &str| {
        let (output, said) = ended(child);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(expect), "{said:?} should say {expect:?}");
        assert!(!out.exists(), "{said}");
    };
    check(cluster.submit(&cluster.path("missing.json"), &out, &[]), 2, "missing.json");
    let raw = cluster.path("raw.json");
    fs::write(&raw, "{\"text\": \"good\", \"stars\": 5}\n{\"text\": \"good\", \"stars\": 7}\n").unwrap();
    check(cluster.submit(&raw, &out, &["--strict"]), 2, "raw.json:2: ");
    check(cluster.submit(&raw, &out, &["--rules", "{\"word\": 5}"]), 2, "unknown field `word`");
    check(cluster.submit(&raw, &out, &["--rules", "{\"words\": 0}"]), 2, "words is 0");
    check(cluster.submit(&raw, &out, &["--memory", "1MB"]), 2, "memory is less than");
    let none = Cluster::of(0);
    check(none.submit(&raw, &out, &["--patience", "1"]), 1, "has no executor");
    // Input that was there when it was begun, and is not when it is read.
    let cluster = Cluster::of(1);
    fs::write(&raw, reviews(100_000)).unwrap();
    let child = cluster.submit(&raw, &out, &[]);
    cluster.await_work_of(0);
    fs::remove_file(&raw).unwrap();
    check(child, 1, "raw.json: No such file");
}

//! Faults of real processes: killed and frozen at random moments, every role of every architecture.
//!
//! Moments are drawn from a seed, which is printed; `FAULT=seed` has the same again. `FAULTS=20` runs that many
//! moments of every kind, with the silence that is the default, and prints a table in Markdown; `FAULT_KIND=Kill`
//! only those of that name:
//! `FAULTS=20 cargo test --release -p bonfire --test e2e faults -- --nocapture --test-threads 1 | grep '^|'`

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::fire::Fire;
use crate::program::Dir;
use crate::record::Record;
use crate::stall::Watch;

/// A cluster.
#[derive(Clone, Copy, Debug)]
struct Arch {
    name: &'static str,
    settings: &'static str,
    nodes: usize,
}

const SYNC: Arch =
    Arch { name: "flat, sync", settings: "arch=flat\n parameter_server={num_workers: 3}", nodes: 3 };

const ASYNC: Arch = Arch {
    name: "flat, async",
    settings: "arch=flat\n parameter_server={type: async, num_workers: 3, max_staleness: 2}",
    nodes: 3,
};

const HIERARCHY: Arch = Arch {
    name: "hierarchical, 2×2",
    settings: "arch=hierarchical\n global_server={type: sync, local_servers: [{type: sync, num_workers: 2}, \
               {type: sync, num_workers: 2}]}",
    nodes: 6,
};

const GROUP: Arch =
    Arch { name: "group of 3", settings: "arch=allreduce\n allreduce={num_workers: 3}", nodes: 3 };

/// Whom it hits, by what the nodes say of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Worker,
    Relay,
    Member,
    Evaluator,
    Head,
}

/// What hits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    /// `SIGKILL`. A head is started again.
    Kill,
    /// `SIGSTOP` for longer than the others take for silence, then `SIGCONT`.
    Freeze,
    /// The same, but shorter.
    Blink,
}

use Blow::{Blink, Freeze, Kill};

/// So many samples are gone through so many times: some seconds of training.
const SAMPLES: u64 = 4000;

/// How long the whole thing takes, and how patient its nodes are.
#[derive(Clone, Copy, Debug)]
struct Scale {
    epochs: u64,
    silence: Duration,
    runs: u64,
    seed: u64,
    /// Once of the first kinds, on a machine that may be busy with other tests.
    in_ci: bool,
}

impl Scale {
    fn of_environment() -> Self {
        let asked = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
        let seed = asked("FAULT").unwrap_or(clock % 1_000_000);
        eprintln!("to have the same moments again: FAULT={seed}");
        match asked("FAULTS") {
            None => Self { epochs: 20, silence: Duration::from_secs(1), runs: 1, seed, in_ci: true },
            Some(runs) => Self { epochs: 30, silence: Duration::from_secs(5), runs, seed, in_ci: false },
        }
    }

    fn settings(&self, arch: Arch, victim: Option<Victim>) -> String {
        let (epochs, silence) = (self.epochs, self.silence.as_secs_f64());
        let evaluator = victim == Some(Victim::Evaluator);
        format!(
            "data={{name: digits, train: {SAMPLES}, test: 1000}}\n epochs={epochs}\n schedule=cosine\n \
             silence_s={silence}\n eval_every={} epochs\n evaluator={evaluator}\n threads=1\n{}",
            if evaluator { 2 } else { epochs },
            arch.settings
        )
    }

    /// Where in a run something happens, from a tenth to six tenths of it.
    fn moment(&self, salt: u64) -> f64 {
        let mut state = self.seed.wrapping_mul(1_000_003).wrapping_add(salt) | 1;
        for _ in 0..4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        }
        0.1 + 0.5 * (state >> 40) as f64 / f64::from(1 << 24)
    }
}

/// What a run without a fault is like.
#[derive(Clone, Copy, Debug)]
struct Peace {
    rounds: f64,
    accuracy: f64,
    /// The longest time in which nothing happened, which is the machine's own doing.
    stall_s: f64,
}

fn in_peace(arch: Arch, scale: Scale) -> Peace {
    let dir = Dir::new();
    let fire = Fire::light(&dir, "run", "--quiet", &scale.settings(arch, None)).join(&dir, arch.nodes);
    let record = fire.burn_down();
    let mut watch = Watch::of(&record);
    watch.look();
    let (rounds, accuracy) = (record.number("rounds"), record.number("accuracy"));
    Peace { rounds, accuracy, stall_s: watch.stall(0.0) }
}

/// What came of a fault.
#[derive(Clone, Debug)]
struct Aftermath {
    stall_s: f64,
    accuracy: f64,
    /// What the head said of it.
    said: String,
}

/// A run that is hit once.
fn suffer(arch: Arch, victim: Victim, blow: Blow, scale: Scale, at_round: u64) -> Aftermath {
    let dir = Dir::new();
    let nodes = arch.nodes + usize::from(victim == Victim::Evaluator);
    let settings = scale.settings(arch, Some(victim));
    let mut fire = Fire::light(&dir, "run", "", &settings).join(&dir, nodes);
    let record = Record::of(dir.path("run"));
    let mut watch = Watch::of(&record);
    let reached = fire.head.until("the round", || watch.look() >= at_round);
    assert!(reached, "the run was over before round {at_round}:\n{}", fire.head.said());
    let mut hit = watch.now_s();
    let harmed = (victim != Victim::Head).then(|| fire.index_of(role(victim)));
    let frozen = scale.silence.mul_f64(if blow == Freeze { 1.3 } else { 0.4 }) + Duration::from_millis(100);
    let mut before = String::new();
    let mut stall_s = None;
    match (blow, harmed) {
        (Kill, Some(harmed)) => drop(fire.nodes.remove(harmed)),
        (Kill, None) => {
            fire.head.signal("KILL");
            before = fire.head.said();
            let started = Instant::now();
            fire = fire.relight(&dir);
            assert!(
                fire.head.until("training that goes on", || watch.look_again() > 0),
                "{}",
                fire.head.said()
            );
            stall_s = Some(started.elapsed().as_secs_f64());
        }
        (_, Some(harmed)) => {
            fire.nodes[harmed].signal("STOP");
            let end = Instant::now() + frozen;
            fire.head.until("the end of the frost", || Instant::now() >= end);
            fire.nodes[harmed].signal("CONT");
        }
        (_, None) => {
            fire.head.signal("STOP");
            let end = Instant::now() + frozen;
            fire.head.until("the end of the frost", || Instant::now() >= end);
            fire.head.signal("CONT");
            // A head that stood still stalls all for as long; what counts is how long after that.
            watch.look();
            hit = watch.now_s();
        }
    }
    let head = fire.end(harmed.filter(|_| blow != Kill));
    watch.look();
    let stall_s = stall_s.unwrap_or_else(|| watch.stall(hit));
    assert_eq!(
        record.number("samples") as u64,
        scale.epochs * SAMPLES,
        "every sample once an epoch:\n{head}"
    );
    check_words(&record, victim, blow, &head);
    let said = worth_telling(&format!("{before}{head}"));
    Aftermath { stall_s, accuracy: record.number("accuracy"), said }
}

fn role(victim: Victim) -> &'static str {
    match victim {
        Victim::Worker => "a worker",
        Victim::Relay => "a relay",
        Victim::Member => "a member of the group",
        Victim::Evaluator => "the evaluator",
        Victim::Head => "the head",
    }
}

/// What was decided must be in the log, with its reason.
fn check_words(record: &Record, victim: Victim, blow: Blow, head: &str) {
    let lost = record.told("node_lost");
    match (victim, blow) {
        (Victim::Head, Kill) => assert_eq!(record.told("resumed").len(), 1, "{head}"),
        (Victim::Head, _) => {}
        (_, Kill) => assert_eq!(lost.len(), 1, "{head}"),
        (_, Freeze) => {
            assert!(lost.iter().any(|lost| lost["reason"].to_string().contains("silent for")), "{head}");
        }
        (_, Blink) => assert_eq!(lost.len(), 0, "{head}"),
    }
}

/// The first line that tells of a loss or a return, without the path of this test.
fn worth_telling(said: &str) -> String {
    let tells = |line: &&str| ["was lost", "is back", "resumed from"].iter().any(|word| line.contains(word));
    let line = said.lines().find(tells).unwrap_or("-");
    match line.split_once("resumed from ").and_then(|(_, file)| file.split_once("checkpoints/")) {
        Some((_, file)) => format!("resumed from {file}"),
        None => line.to_owned(),
    }
}

/// How long the others may stand still.
fn bound(victim: Victim, blow: Blow, scale: Scale) -> Duration {
    let second = Duration::from_secs(1);
    match (victim, blow) {
        (Victim::Evaluator, _) | (Victim::Worker | Victim::Relay | Victim::Member, Kill) => second,
        (Victim::Head, Kill) => 5 * second,
        (Victim::Head, _) | (_, Freeze) => scale.silence + second,
        (_, Blink) => scale.silence.mul_f64(0.4) + second,
    }
}

/// Lets a kind of fault happen at some moments, and prints a line of the table.
fn check(arch: Arch, peace: Peace, victim: Victim, blow: Blow, scale: Scale) -> Result<(), String> {
    let bound_s = bound(victim, blow, scale).as_secs_f64();
    let (mut ended, mut stall_s, mut difference, mut said) = (0, 0.0_f64, 0.0_f64, String::new());
    let mut wrong = Vec::new();
    for run in 0..scale.runs {
        let at_round = (peace.rounds * scale.moment(run * 100 + victim as u64 * 10 + blow as u64)) as u64 + 1;
        match catch_unwind(AssertUnwindSafe(|| suffer(arch, victim, blow, scale, at_round))) {
            Ok(aftermath) => {
                ended += 1;
                stall_s = stall_s.max(aftermath.stall_s);
                difference = difference.max((peace.accuracy - aftermath.accuracy) * 100.0);
                said = aftermath.said;
            }
            Err(panic) => {
                let words = panic.downcast_ref::<String>().map_or("it panicked", String::as_str);
                wrong.push(format!("{victim:?}, {blow:?}, round {at_round}: {words}"));
            }
        }
    }
    print_row(&format!(
        "| {blow:?} {victim:?} | {} | {} | {ended} | {stall_s:.2} s | {bound_s:.1} s | {difference:.1} | {said} |",
        arch.name, scale.runs
    ));
    let busy_s = if scale.in_ci { 10.0 } else { 0.0 };
    if stall_s > bound_s + peace.stall_s + busy_s {
        wrong.push(format!("{blow:?} {victim:?}: a stall of {stall_s:.2} s, {bound_s:.1} s are allowed"));
    }
    if difference > 1.0 {
        wrong.push(format!("{blow:?} {victim:?}: {difference:.1} points worse than undisturbed"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[expect(clippy::print_stdout, reason = "the table is what this is run for")]
fn print_row(row: &str) {
    println!("{row}");
}

/// All kinds of faults of an architecture; without `FAULTS` only so many of the first.
#[track_caller]
fn survives(arch: Arch, in_ci: usize, kinds: &[(Victim, Blow)]) {
    let scale = Scale::of_environment();
    let peace = in_peace(arch, scale);
    let kinds = if scale.in_ci { &kinds[..in_ci] } else { kinds };
    let asked = std::env::var("FAULT_KIND").unwrap_or_default();
    let is_asked = |(victim, blow): &&(Victim, Blow)| format!("{blow:?} {victim:?}").contains(&asked);
    let checks = kinds.iter().filter(is_asked).map(|&(victim, blow)| check(arch, peace, victim, blow, scale));
    let wrong: Vec<String> = checks.filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}; FAULT={}; {peace:?}\n{}", arch.name, scale.seed, wrong.join("\n"));
}

#[test]
fn a_synchronous_server_survives() {
    use Victim::{Evaluator, Head, Worker};
    survives(
        SYNC,
        4,
        &[
            (Worker, Kill),
            (Worker, Freeze),
            (Head, Kill),
            (Evaluator, Kill),
            (Head, Freeze),
            (Worker, Blink),
            (Head, Blink),
            (Evaluator, Freeze),
            (Evaluator, Blink),
        ],
    );
}

#[test]
fn an_asynchronous_server_survives() {
    use Victim::{Head, Worker};
    survives(
        ASYNC,
        1,
        &[(Worker, Kill), (Worker, Freeze), (Worker, Blink), (Head, Kill), (Head, Freeze), (Head, Blink)],
    );
}

#[test]
fn a_hierarchy_survives() {
    use Victim::{Evaluator, Head, Relay, Worker};
    survives(
        HIERARCHY,
        2,
        &[
            (Relay, Kill),
            (Relay, Freeze),
            (Worker, Kill),
            (Worker, Freeze),
            (Relay, Blink),
            (Worker, Blink),
            (Head, Kill),
            (Head, Freeze),
            (Head, Blink),
            (Evaluator, Kill),
        ],
    );
}

#[test]
fn a_group_survives() {
    use Victim::{Evaluator, Head, Member};
    survives(
        GROUP,
        3,
        &[
            (Member, Kill),
            (Member, Freeze),
            (Head, Kill),
            (Member, Blink),
            (Head, Freeze),
            (Head, Blink),
            (Evaluator, Kill),
        ],
    );
}

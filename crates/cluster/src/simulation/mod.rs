//! Whole runs in a simulated world: the very roles of head, relays, ring and workers, over links that delay, break and are
//! blocked, on machines that crash, freeze and come back, in a time of their own. All of it is drawn from a seed.
//!
//! A failure names its seed, and `SIMULATION=seed` in front of the test command replays that one alone and tells its story;
//! `SIMULATIONS=count` runs more of them.

mod cast;
mod chosen;
mod fault;
mod link;
pub mod witness;
mod world;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use bonfire_learn::data::Dataset;
use bonfire_learn::random::Random;
use bonfire_report::{Event, Exit, Summary, read_events};

use crate::run_file::{Overrides, Settings};
use cast::Play;
use fault::{Fault, Hazards};
use world::{Entry, World};

/// A run file for as small a run as has everything.
const SMALL: &str = "
model: {mlp: {hidden: [4]}}
data: {name: digits, train: 90, test: 10}
optimizer: {adam: {lr: 0.01}}
batch_size: 4
epochs: 2
eval_every: 1 epoch
checkpoint_every: 5 rounds
keep_checkpoints: 2
threads: 1
seed: 7
";

/// A kind of cluster.
#[derive(Clone, Copy, Debug)]
struct Kind {
    arch: &'static str,
    /// Without the head.
    nodes: usize,
    /// Machines from this number on are not missed if they do not come back.
    spares_from: usize,
}

impl Kind {
    fn settings(&self, evaluator: bool) -> Settings {
        let text = format!("{SMALL}{}\nevaluator: {evaluator}\n", self.arch);
        Settings::read("simulated.yml", &text, &Overrides::default(), 1).expect("a run file")
    }
}

/// All runs are on the same data, which are made once.
fn dataset(settings: &Settings) -> Arc<Dataset> {
    static DATASET: OnceLock<Arc<Dataset>> = OnceLock::new();
    Arc::clone(DATASET.get_or_init(|| Arc::new(settings.file.data.load().expect("digits"))))
}

/// What came of a run.
struct Outcome {
    summary: Option<Summary>,
    wrong: Option<String>,
    story: Vec<String>,
}

/// No simulation takes longer, in the time of this world.
const DEADLINE: Duration = Duration::from_secs(120);

/// Plays a run to its end.
fn play(kind: Kind, evaluator: bool, seed: u64, faults: Vec<(Duration, Fault)>, folder: &Path) -> Outcome {
    let settings = kind.settings(evaluator);
    let nodes = kind.nodes + usize::from(evaluator);
    let names = (0..=nodes).map(|i| if i == 0 { "head".to_owned() } else { format!("pi{i}") });
    let world = World::new(seed, names.collect());
    for (at, fault) in faults {
        world.lock().plan(at, Entry::Fault(fault));
    }
    let dataset = dataset(&settings);
    let play = Play::new(Arc::clone(&world), settings, dataset, folder.to_owned()).expect("a play");
    let play = Arc::new(play);
    let (sender, ended) = channel();
    for machine in 0..=nodes {
        let (play, sender) = (Arc::clone(&play), sender.clone());
        thread::spawn(move || {
            witness::enter(&play.world);
            let summary = match machine {
                0 => play.stage(0, |life| play.head(life)),
                _ => play.stage(machine, |_| play.node(machine)).and(None),
            };
            let _ = sender.send(summary);
        });
    }
    world.start();
    let mut summary = None;
    for _ in 0..=nodes {
        let ended = ended.recv_timeout(DEADLINE);
        summary = ended.unwrap_or_else(|_| panic!("seed {seed}: it hangs")).or(summary);
    }
    let mut state = world.lock();
    Outcome { summary, wrong: state.wrong.take(), story: std::mem::take(&mut state.story) }
}

/// What must hold at the end of every run, whatever happened.
fn judge(outcome: &Outcome, folder: &Path) -> Result<(), String> {
    match &outcome.wrong {
        // A run whose nodes are not all there never begins.
        Some(wrong) if wrong.contains("nodes were there after") => return Ok(()),
        Some(wrong) => return Err(wrong.clone()),
        None => {}
    }
    let summary = outcome.summary.as_ref().ok_or("the head did not end")?;
    if summary.exit != Exit::Done {
        return Err(format!("the run ended with {:?}", summary.exit));
    }
    if summary.samples != 180 {
        return Err(format!("{} samples were counted instead of 180", summary.samples));
    }
    let events = read_events(&folder.join("events.jsonl")).map_err(|error| error.to_string())?;
    // An epoch that was done again after the head came back counts as it was done last. A round may be of two epochs.
    let mut epochs = BTreeMap::new();
    for stamped in &events {
        match &stamped.event {
            Event::EpochEnded { epoch, samples, .. } => drop(epochs.insert(*epoch, *samples)),
            Event::Warned { message } if message.contains("other parameters") => return Err(message.clone()),
            _ => {}
        }
    }
    match epochs.values().sum::<u64>() {
        180 => Ok(()),
        samples => Err(format!("{samples} samples were counted in epochs {epochs:?}")),
    }
}

/// So many seeds of every kind are simulated, unless the environment says otherwise.
const IN_CI: u64 = 1000;

/// Simulates a kind of cluster under many seeds.
fn simulate(kind: Kind) {
    let asked = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let replayed = asked("SIMULATION");
    let seeds = replayed.map_or(0..asked("SIMULATIONS").unwrap_or(IN_CI), |seed| seed..seed + 1);
    let shared = Path::new("/dev/shm");
    let place = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    for seed in seeds {
        let folder = tempfile::tempdir_in(&place).expect("a folder");
        let mut random = Random::at(seed, &[1]);
        let evaluator = random.chance(0.25);
        let hazards = Hazards {
            machines: 1 + kind.nodes + usize::from(evaluator),
            spares_from: kind.spares_from,
            within: Duration::from_secs(4),
            most: 5,
        };
        let faults = hazards.draw(&mut random);
        let path = folder.path().join("run");
        let outcome = play(kind, evaluator, seed, faults, &path);
        let verdict = judge(&outcome, &path);
        if replayed.is_some() || verdict.is_err() {
            let log = std::fs::read_to_string(path.join("events.jsonl")).unwrap_or_default();
            tell(&outcome.story, &log);
        }
        if let Err(wrong) = verdict {
            panic!("{}\nseed {seed}: {wrong}; replay it with SIMULATION={seed}", kind.arch);
        }
    }
}

#[allow(clippy::print_stderr, reason = "the story of a seed that failed is for whoever ran the test")]
fn tell(story: &[String], log: &str) {
    eprintln!("{}\n{log}", story.join("\n"));
}

#[test]
fn a_synchronous_server_survives() {
    simulate(Kind {
        arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3}",
        nodes: 3,
        spares_from: 2,
    });
}

#[test]
fn a_server_with_a_backup_worker_survives() {
    simulate(Kind {
        arch: "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 3, backup_workers: 1}",
        nodes: 4,
        spares_from: 2,
    });
}

#[test]
fn an_asynchronous_server_survives() {
    simulate(Kind {
        arch: "arch: flat\nparameter_server: {aggr_type: async, num_workers: 3, max_staleness: 2}",
        nodes: 3,
        spares_from: 2,
    });
}

#[test]
fn a_hierarchy_survives() {
    simulate(Kind {
        arch: "arch: hierarchical\nglobal_server: {aggr_type: sync, local_servers: [{aggr_type: sync, num_workers: 2}, {aggr_type: async, num_workers: 2}]}",
        nodes: 6,
        spares_from: 2,
    });
}

#[test]
fn an_asynchronous_hierarchy_survives() {
    simulate(Kind {
        arch: "arch: hierarchical\nglobal_server: {aggr_type: async, local_servers: [{aggr_type: async, num_workers: 2}, {aggr_type: sync, num_workers: 1}]}",
        nodes: 5,
        spares_from: 2,
    });
}

#[test]
fn a_ring_survives() {
    simulate(Kind { arch: "arch: allreduce\nallreduce: {num_workers: 3}", nodes: 3, spares_from: 2 });
}

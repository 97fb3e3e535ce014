//! Whole runs in a simulated world: the very roles of head, relays, group and workers, over links that delay, break and
//! are blocked, on machines that crash, freeze and come back, in a time of their own. All of it is drawn from a seed.
//!
//! A failure names its seed and the faults that it takes, of which none can be left out. `SIMULATION=seed` in front of
//! the test command replays that one alone and tells every frame of it; `SIMULATIONS=count` runs more of them.

#[cfg(test)]
mod auto;
mod cast;
#[cfg(test)]
mod chosen;
mod fault;
#[cfg(test)]
mod joining;
mod link;
#[cfg(test)]
mod shares;
#[cfg(test)]
mod tests;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use bonfire_data::Dataset;
use bonfire_learn::random::Random;
use bonfire_report::{Event, Exit, Summary, read_events};

use bonfire_run::run_file::{Overrides, Settings};
use cast::Play;
pub(crate) use cast::toil;
use fault::{Fault, Hazards};
use world::{Entry, World};

/// A kind of cluster, and a run on it.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Lines of a run file.
    arch: &'static str,
    /// Without the head.
    nodes: usize,
    /// To train on.
    samples: u64,
}

/// Two epochs of as small a run as has everything, several chunks of a gradient included.
const SMALL: &str = "
batch_size: 4
epochs: 2
eval_every: 1 epoch
checkpoint_every: 5 rounds
keep_checkpoints: 2
threads: 1
seed: 7
";

impl Kind {
    fn settings(&self, evaluator: bool) -> Settings {
        let data = format!("data: {{name: digits, train: {}, test: 10}}", self.samples);
        let optimizer = if self.arch.contains("top_k") { "sgd: {lr: 0.05}" } else { "adam: {lr: 0.01}" };
        let keys = format!("{data}\noptimizer: {{{optimizer}}}\n{}", self.arch);
        let model = if self.arch.contains("model:") { "" } else { "model: {mlp: {hidden: [12]}}" };
        let text = format!("{model}{SMALL}{keys}\nevaluator: {evaluator}\n");
        Settings::read("simulated.yml", &text, &Overrides::default(), 1).expect("a run file")
    }

    /// All runs of a size are on the same data, which are made once.
    fn dataset(&self, settings: &Settings) -> Arc<Dataset> {
        static DATASETS: OnceLock<Mutex<BTreeMap<u64, Arc<Dataset>>>> = OnceLock::new();
        let datasets = DATASETS.get_or_init(Mutex::default);
        let mut datasets = datasets.lock().unwrap_or_else(PoisonError::into_inner);
        let load = || Arc::new(settings.file.data.load().expect("digits"));
        Arc::clone(datasets.entry(self.samples).or_insert_with(load))
    }
}

/// One run and what is to happen to it.
#[derive(Clone, Debug)]
struct Case {
    kind: Kind,
    evaluator: bool,
    /// Of the delays.
    seed: u64,
    faults: Vec<(Duration, Fault)>,
    /// Whether the story tells of every frame.
    is_told: bool,
    /// Whether somebody who has the ticket connects to the head and says nothing.
    mute: bool,
    /// What a sample takes each machine, the head's first; next to nothing if none is said.
    sample_ms: Vec<f64>,
}

/// What came of a run.
#[derive(Debug)]
struct Outcome {
    summary: Option<Summary>,
    wrong: Option<String>,
    story: Vec<String>,
    /// Of the world, and of its own time.
    folder: tempfile::TempDir,
}

/// No simulation takes longer, in the time of this world.
const DEADLINE: Duration = Duration::from_secs(120);

impl Case {
    /// What a seed has in store for a kind of cluster.
    fn draw(kind: Kind, seed: u64) -> Self {
        let mut random = Random::at(seed, &[1]);
        let evaluator = random.chance(0.25);
        let machines = 1 + kind.nodes + usize::from(evaluator);
        // Whoever else is gone for good, one node is left.
        let hazards = Hazards { machines, spares_from: 2, within: Duration::from_secs(4), most: 5 };
        let faults = hazards.draw(&mut random);
        Self { kind, evaluator, seed, faults, is_told: false, mute: false, sample_ms: Vec::new() }
    }

    /// Plays the run to its end.
    fn play(&self) -> Outcome {
        let settings = self.kind.settings(self.evaluator);
        let nodes = self.kind.nodes + usize::from(self.evaluator);
        let names = (0..=nodes).map(|i| if i == 0 { "head".to_owned() } else { format!("pi{i}") });
        let names = names.chain(self.mute.then(|| "mute".to_owned()));
        let world = World::new(self.seed, names.collect(), self.is_told);
        for (at, fault) in &self.faults {
            world.lock().plan(*at, Entry::Fault(fault.clone()));
        }
        let folder = tempfile::tempdir_in(shelf()).expect("a folder");
        let dataset = self.kind.dataset(&settings);
        let place = (run_folder(&folder), self.sample_ms.clone());
        let play = Play::new(Arc::clone(&world), settings, dataset, place).expect("a play");
        let summary = self.perform(&Arc::new(play), nodes);
        let mut state = world.lock();
        Outcome { summary, wrong: state.wrong.take(), story: std::mem::take(&mut state.story), folder }
    }

    fn perform(&self, play: &Arc<Play>, nodes: usize) -> Option<Summary> {
        let (sender, ended) = channel();
        let last = nodes + usize::from(self.mute);
        for machine in 0..=last {
            let (play, sender) = (Arc::clone(play), sender.clone());
            thread::spawn(move || {
                let summary = match machine {
                    0 => play.stage(0, |life| play.head(life)),
                    _ if machine > nodes => play.stage(machine, |_| play.mute(machine)).and(None),
                    _ => play.stage(machine, |_| play.node(machine)).and(None),
                };
                let _ = sender.send(summary);
            });
        }
        play.world.start();
        let mut summary = None;
        for _ in 0..=last {
            let ended = ended.recv_timeout(DEADLINE);
            summary = ended.unwrap_or_else(|_| panic!("it hangs: {self:?}")).or(summary);
        }
        summary
    }

    /// What is wrong with the run, if anything is.
    fn judge(&self, outcome: &Outcome) -> Result<Verdict, String> {
        match &outcome.wrong {
            Some(wrong) if wrong.contains("nodes were there after") => return Ok(Verdict::NeverBegan),
            Some(wrong) => return Err(wrong.clone()),
            None => {}
        }
        let summary = outcome.summary.as_ref().ok_or("the head did not end")?;
        if summary.exit != Exit::Done {
            return Err(format!("the run ended with {:?}", summary.exit));
        }
        let planned = 2 * self.kind.samples;
        if summary.samples != planned {
            return Err(format!("{} samples were counted instead of {planned}", summary.samples));
        }
        let log = run_folder(&outcome.folder).join("events.jsonl");
        let events = read_events(&log).map_err(|error| error.to_string())?;
        if let Some(wrong) = shared_role(events.iter().map(|stamped| &stamped.event)) {
            return Err(wrong);
        }
        let mut epochs = BTreeSet::new();
        for stamped in &events {
            match &stamped.event {
                Event::EpochEnded { epoch, samples, .. } if *samples == self.kind.samples => {
                    epochs.insert(*epoch);
                }
                Event::EpochEnded { epoch, samples, .. } => {
                    return Err(format!("epoch {epoch} had {samples} samples"));
                }
                Event::Warned { message } if message.contains("other parameters") => {
                    return Err(message.clone());
                }
                _ => {}
            }
        }
        if epochs == BTreeSet::from([1, 2]) {
            Ok(Verdict::Done)
        } else {
            Err(format!("it ended the epochs {epochs:?}"))
        }
    }

    /// The same case without the faults that it does not take to go wrong.
    fn shrunk(&self) -> Self {
        let mut case = self.clone();
        let mut place = 0;
        while place < case.faults.len() {
            let mut smaller = case.clone();
            smaller.faults.remove(place);
            if smaller.judge(&smaller.play()).is_err() {
                case = smaller;
            } else {
                place += 1;
            }
        }
        case
    }
}

/// Two nodes that were told apart by nothing, in words.
fn shared_role<'a>(events: impl Iterator<Item = &'a Event>) -> Option<String> {
    let mut roles: BTreeMap<u64, &str> = BTreeMap::new();
    for event in events {
        match event {
            // A head that comes back counts its nodes anew.
            Event::Started { .. } => roles.clear(),
            Event::NodeLost { node, .. } => drop(roles.remove(node)),
            Event::NodeJoined { node, role, .. } => {
                if roles.iter().any(|(other, taken)| other != node && taken == role) {
                    return Some(format!("node {node} is {role}, as another is"));
                }
                roles.insert(*node, role);
            }
            _ => {}
        }
    }
    None
}

/// How a run that is all right can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    /// One of the nodes that it asks for was gone for good before all were there: it says so and ends.
    NeverBegan,
}

/// Where run folders are quick to write.
fn shelf() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

fn run_folder(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("run")
}

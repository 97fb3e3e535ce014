//! The run as TensorBoard reads it: one file of events in the folder `tensorboard` for every process of the run.

mod graph;
mod histogram;
mod proto;
mod record;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;

use crate::event::{Event, NodeLine, SampleLine, Stamped};
use crate::summary::Exit;
use crate::transcript::is_validated;
pub use graph::GraphLayer;
use proto::{
    AnyKind, AnyValue, Experiment, FileEvent, HparamInfo, HparamsContent, Metadata, MetricInfo, MetricName,
    Plugin, SessionEnd, SessionLog, SessionStart, SessionStatus, SummaryValues, Value, What,
};

/// What TensorBoard is told beside the events.
#[derive(Clone, Debug, Default)]
pub struct TensorBoardFacts {
    /// Keys of the run file by their paths, as in `optimizer.adam.lr`.
    pub hyperparameters: Vec<(String, serde_json::Value)>,
    pub layers: Vec<GraphLayer>,
    pub host: Option<String>,
}

/// Writes TensorBoard's file. What cannot be written costs the file, not the run.
#[derive(Debug)]
pub struct TensorBoard {
    pub(crate) facts: TensorBoardFacts,
    started: SystemTime,
    /// None before the first event that TensorBoard shows, and after one that could not be written.
    file: Option<File>,
    given_up: bool,
    /// Purges what an earlier process wrote of later rounds, with the first event.
    resumed: Option<u64>,
    /// The last round that progress was told of.
    round: u64,
    /// Whether evaluations measure validation.
    is_validated: bool,
    records: Vec<u8>,
}

const FOLDER: &str = "tensorboard";

impl TensorBoard {
    /// Of a process that started at this time.
    #[must_use]
    pub fn new(facts: TensorBoardFacts, started: SystemTime) -> Self {
        let (file, given_up, resumed, round, is_validated, records) = Default::default();
        Self { facts, started, file, given_up, resumed, round, is_validated, records }
    }

    /// Takes an event of the run in `folder`.
    pub(crate) fn show(&mut self, folder: &Path, stamped: &Stamped) {
        let at = self.wall_time() + stamped.at_s;
        match &stamped.event {
            Event::Started { .. } => self.is_validated = is_validated(&stamped.event),
            Event::Resumed { round, .. } => (self.resumed, self.round) = (Some(*round), *round),
            Event::Progress { round, .. } if *round < self.round => {
                // Newer parameters were lost, and rounds are done again.
                self.push(at, *round, session_start());
                self.round = *round;
            }
            Event::Progress { round, .. } => self.round = *round,
            _ => {}
        }
        let (round, values) = scalars(&stamped.event, self.round, self.is_validated);
        if !values.is_empty() {
            self.push(at, round, summary(values));
        }
        if let Event::Ended { summary: run } = &stamped.event {
            let status = if run.exit == Exit::Failed { 2 } else { 1 };
            let end = Some(SessionEnd { status, end_time_s: at });
            self.push(at, 0, hparams("session_end_info", HparamsContent { session_end: end, ..none() }));
        }
        self.write(folder, at);
    }

    /// The values of tensors after a round.
    pub(crate) fn histograms(
        &mut self,
        folder: &Path,
        at_s: f64,
        round: u64,
        tensors: &[(String, Vec<f32>)],
    ) {
        let at = self.wall_time() + at_s;
        let value = |(name, values): &(String, Vec<f32>)| Value {
            tag: format!("weights/{}", name.replace('.', "/")),
            histogram: Some(histogram::histogram(values)),
            ..Value::default()
        };
        self.push(at, round, summary(tensors.iter().map(value).collect()));
        self.write(folder, at);
    }

    fn wall_time(&self) -> f64 {
        self.started.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
    }

    fn push(&mut self, wall_time: f64, round: u64, what: What) {
        let event = FileEvent { wall_time, step: round.cast_signed(), what: Some(what) };
        record::frame(&event.encode_to_vec(), &mut self.records);
    }

    fn write(&mut self, folder: &Path, at: f64) {
        if self.records.is_empty() || self.given_up {
            self.records.clear();
            return;
        }
        if let Err(_error) = self.try_write(folder, at) {
            // A full disk is told of by the log, which is written more often.
            self.given_up = true;
        }
        self.records.clear();
    }

    fn try_write(&mut self, folder: &Path, at: f64) -> io::Result<()> {
        if self.file.is_none() {
            let folder = folder.join(FOLDER);
            fs::create_dir_all(&folder)?;
            if fs::read_dir(&folder)?.next().is_some() {
                // An earlier process has drawn it.
                self.facts.layers.clear();
            }
            let mut file = self.create(&folder)?;
            let records = std::mem::take(&mut self.records);
            self.introduce(at);
            file.write_all(&self.records)?;
            (self.file, self.records) = (Some(file), records);
        }
        match &mut self.file {
            Some(file) => file.write_all(&self.records),
            None => Ok(()),
        }
    }

    /// A name that sorts after those of earlier processes of the run.
    fn create(&self, folder: &Path) -> io::Result<File> {
        let seconds = self.wall_time() as u64;
        let host = self.facts.host.as_deref().unwrap_or("localhost");
        let name = format!("events.out.tfevents.{seconds:010}.{host}.{}.0", std::process::id());
        File::options().append(true).create(true).open(folder.join(name))
    }

    /// What a file begins with: its version, from where on it counts, hyperparameters, graph.
    fn introduce(&mut self, at: f64) {
        self.push(at, 0, What::FileVersion("brain.Event:2".to_owned()));
        if let Some(round) = self.resumed.take() {
            // What has at least this step is purged.
            self.push(at, round + 1, session_start());
        }
        let facts = std::mem::take(&mut self.facts);
        let start = self.wall_time();
        self.push(at, 0, hparams("experiment", experiment(&facts, start)));
        let hyperparameters = facts.hyperparameters.iter();
        let given = hyperparameters.map(|(name, value)| (name.clone(), any(value))).collect();
        let session_start = Some(SessionStart { hparams: given, start_time_s: start });
        self.push(at, 0, hparams("session_start_info", HparamsContent { session_start, ..none() }));
        if !facts.layers.is_empty() {
            self.push(at, 0, What::Graph(graph::graph(&facts.layers).encode_to_vec()));
        }
        self.facts = facts;
    }
}

fn none() -> HparamsContent {
    HparamsContent::default()
}

fn session_start() -> What {
    What::SessionLog(SessionLog { status: SessionStatus::Start as i32 })
}

fn summary(values: Vec<Value>) -> What {
    What::Summary(SummaryValues { values })
}

fn hparams(kind: &str, content: HparamsContent) -> What {
    let plugin = Plugin { name: "hparams".to_owned(), content: content.encode_to_vec() };
    let metadata = Some(Metadata { plugin: Some(plugin) });
    summary(vec![Value { tag: format!("_hparams_/{kind}"), metadata, ..Value::default() }])
}

/// The columns of the table of hyperparameters.
fn experiment(facts: &TensorBoardFacts, time_created_s: f64) -> HparamsContent {
    let kind = |value: &serde_json::Value| match any(value).kind {
        Some(AnyKind::Truth(_)) => 2,
        Some(AnyKind::Number(_)) => 3,
        _ => 1,
    };
    let hyperparameters = facts.hyperparameters.iter();
    let hparams =
        hyperparameters.map(|(name, value)| HparamInfo { name: name.clone(), kind: kind(value) }).collect();
    let metrics = ["accuracy/test", "loss/test", "accuracy/training", "loss/training", "samples_per_s"];
    let metric = |tag: &str| MetricInfo { name: Some(MetricName { tag: tag.to_owned() }) };
    let metrics = metrics.into_iter().map(metric).collect();
    HparamsContent { experiment: Some(Experiment { time_created_s, hparams, metrics }), ..none() }
}

fn any(value: &serde_json::Value) -> AnyValue {
    let kind = match value {
        serde_json::Value::Bool(truth) => AnyKind::Truth(*truth),
        serde_json::Value::Number(number) => AnyKind::Number(number.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => AnyKind::Text(text.clone()),
        other => AnyKind::Text(other.to_string()),
    };
    AnyValue { kind: Some(kind) }
}

/// What an event says in numbers, and of which round.
fn scalars(event: &Event, now: u64, is_validated: bool) -> (u64, Vec<Value>) {
    let mut values = Vec::new();
    let mut scalar = |tag: &str, number: f64| {
        let simple_value = Some(number as f32);
        values.push(Value { tag: tag.to_owned(), simple_value, ..Value::default() });
    };
    let round = match event {
        Event::Progress { round, epoch, loss, accuracy, lr, samples_per_s, .. } => {
            scalar("loss/training", *loss);
            scalar("accuracy/training", *accuracy);
            scalar("lr", *lr);
            scalar("samples_per_s", *samples_per_s);
            scalar("epoch", *epoch);
            *round
        }
        Event::EpochEnded { round, loss, accuracy, seconds, .. } => {
            scalar("loss/epoch", *loss);
            scalar("accuracy/epoch", *accuracy);
            scalar("seconds/epoch", *seconds);
            *round
        }
        Event::Evaluated { round, loss, accuracy, macro_f1, seconds, .. } => {
            let part = if is_validated { "validation" } else { "test" };
            scalar(&format!("loss/{part}"), *loss);
            scalar(&format!("accuracy/{part}"), *accuracy);
            if let Some(macro_f1) = macro_f1 {
                scalar(&format!("macro_f1/{part}"), *macro_f1);
            }
            scalar(&format!("seconds/{part}"), *seconds);
            *round
        }
        Event::Tested { round, loss, accuracy, .. } => {
            scalar("loss/test", *loss);
            scalar("accuracy/test", *accuracy);
            *round
        }
        Event::Checkpointed { round, seconds, .. } => {
            scalar("seconds/checkpoint", *seconds);
            *round
        }
        Event::Nodes { round, nodes } => {
            nodes.iter().for_each(|node| of_node(node, &mut scalar));
            *round
        }
        Event::Sampled { round, seconds, lines } => {
            lines.iter().for_each(|line| of_sample(line, *seconds, &mut scalar));
            *round
        }
        _ => now,
    };
    (round, values)
}

fn of_node(node: &NodeLine, scalar: &mut impl FnMut(&str, f64)) {
    let mut scalar = |what: &str, number: f64| scalar(&format!("nodes/{}/{what}", node.name), number);
    scalar("samples_per_s", node.samples_per_s);
    if let Some(wait) = node.wait {
        scalar("wait", wait);
    }
    if let Some(staleness) = node.staleness {
        scalar("staleness", staleness);
    }
    scalar("sent_bytes", node.sent_bytes as f64);
    scalar("received_bytes", node.received_bytes as f64);
    scalar("late", node.late as f64);
}

fn of_sample(line: &SampleLine, seconds: f64, scalar: &mut impl FnMut(&str, f64)) {
    for (phase, time) in line.phases.iter().filter(|_| seconds > 0.0) {
        scalar(&format!("phases/{}/{}", line.name, phase.name()), time / seconds);
    }
    let Some(machine) = &line.machine else { return };
    let figures = [
        ("cores", machine.cores),
        ("busy", machine.busy),
        ("rss_mb", machine.rss_mb),
        ("received_bytes_per_s", machine.received_bytes_per_s),
        ("sent_bytes_per_s", machine.sent_bytes_per_s),
        ("celsius", machine.celsius),
        ("watts", machine.watts),
    ];
    for (what, number) in figures {
        if let Some(number) = number {
            scalar(&format!("machines/{}/{what}", line.name), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// The records of a file, without looking at checksums, which others do.
    fn read(folder: &Path) -> Vec<FileEvent> {
        let mut files: Vec<_> =
            fs::read_dir(folder.join(FOLDER)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let mut events = Vec::new();
        for file in files {
            let mut bytes = &fs::read(file).unwrap()[..];
            while let Some((length, rest)) = bytes.split_first_chunk::<8>() {
                let length = u64::from_le_bytes(*length) as usize;
                events.push(FileEvent::decode(&rest[4..4 + length]).unwrap());
                bytes = &rest[4 + length + 4..];
            }
        }
        events
    }

    fn board(started_s: u64) -> TensorBoard {
        let tensors = vec![("weight".to_owned(), vec![6, 1, 5, 5])];
        let (name, kind, output) = ("conv1".to_owned(), "Conv2d".to_owned(), vec![None, Some(6)]);
        let facts = TensorBoardFacts {
            hyperparameters: vec![("batch_size".to_owned(), 32.into()), ("arch".to_owned(), "single".into())],
            layers: vec![GraphLayer { name, kind, tensors, output }],
            host: None,
        };
        TensorBoard::new(facts, UNIX_EPOCH + std::time::Duration::from_secs(started_s))
    }

    #[test]
    fn every_number_of_an_event_is_a_scalar_of_its_round() {
        let temp = tempfile::tempdir().unwrap();
        let mut board = board(1000);
        board.show(temp.path(), &Stamped { at_s: 0.5, event: sample::started() });
        assert!(!temp.path().join(FOLDER).exists(), "nothing to show yet");
        board.show(temp.path(), &Stamped { at_s: 1.5, event: sample::progress(402) });
        board.show(temp.path(), &Stamped { at_s: 2.5, event: sample::sampled(402) });
        let events = read(temp.path());
        assert_eq!(events[0].what, Some(What::FileVersion("brain.Event:2".to_owned())));
        let graphs = events.iter().filter(|event| matches!(event.what, Some(What::Graph(_))));
        assert_eq!(graphs.count(), 1);
        let scalars = events.iter().filter_map(|event| match &event.what {
            Some(What::Summary(summary)) => Some(
                summary
                    .values
                    .iter()
                    .map(|value| (event.wall_time, event.step, value.tag.clone(), value.simple_value)),
            ),
            _ => None,
        });
        let scalars: Vec<_> = scalars.flatten().filter(|(.., value)| value.is_some()).collect();
        for expect in [
            (1001.5, 402, "loss/training".to_owned(), Some(0.5)),
            (1001.5, 402, "accuracy/training".to_owned(), Some(0.8125)),
            (1002.5, 402, "phases/pi1/backward".to_owned(), Some(0.625)),
            (1002.5, 402, "machines/pi1/cores".to_owned(), Some(3.5)),
        ] {
            assert!(scalars.contains(&expect), "{expect:?} in {scalars:#?}");
        }
    }

    #[test]
    fn a_resumed_run_takes_back_what_is_done_again() {
        let temp = tempfile::tempdir().unwrap();
        board(1000).show(temp.path(), &Stamped { at_s: 1.0, event: sample::progress(500) });
        let mut resumed = board(2000);
        let event = Event::Resumed { round: 400, epoch: 1.0, checkpoint: String::new() };
        resumed.show(temp.path(), &Stamped { at_s: 0.0, event });
        resumed.show(temp.path(), &Stamped { at_s: 1.0, event: sample::progress(450) });
        // A group that lost all its members goes back on its own.
        resumed.show(temp.path(), &Stamped { at_s: 2.0, event: sample::progress(420) });
        let starts: Vec<i64> = read(temp.path())
            .iter()
            .filter(|event| matches!(event.what, Some(What::SessionLog(_))))
            .map(|event| event.step)
            .collect();
        assert_eq!(starts, [401, 420]);
        let graphs =
            read(temp.path()).iter().filter(|event| matches!(event.what, Some(What::Graph(_)))).count();
        assert_eq!(graphs, 1, "drawn once");
    }
}

//! What Prometheus asks for: the newest figures of a run, as text. A few lines by hand instead of a crate: the format
//! is a line a figure, and all figures are gauges or counters that are read from the log.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::event::{Event, Stamped};
use crate::phases::{Phase, Phases};
use crate::transcript::is_validated;

/// The newest figures of a log, read as far as it goes.
#[derive(Debug)]
pub(crate) struct Metrics {
    path: PathBuf,
    read_bytes: u64,
    run: String,
    /// Whether evaluations measure validation.
    is_validated: bool,
    figures: BTreeMap<&'static str, f64>,
    nodes: BTreeMap<String, NodeFigures>,
}

#[derive(Debug, Default)]
struct NodeFigures {
    figures: BTreeMap<&'static str, f64>,
    phases: Phases,
}

/// Name, kind, what it says.
const RUN: [(&str, &str, &str); 13] = [
    ("bonfire_round", "gauge", "Updates of the parameters so far."),
    ("bonfire_rounds_planned", "gauge", "Updates of the parameters in all."),
    ("bonfire_epoch", "gauge", "Passes over the training data so far."),
    ("bonfire_samples_total", "counter", "Training samples seen."),
    ("bonfire_samples_per_second", "gauge", "Training samples a second, at last."),
    ("bonfire_training_loss", "gauge", "Mean loss on training data, at last."),
    ("bonfire_training_accuracy_ratio", "gauge", "Accuracy on training data, at last."),
    ("bonfire_validation_loss", "gauge", "Mean loss on validation data, at last."),
    ("bonfire_validation_accuracy_ratio", "gauge", "Accuracy on validation data, at last."),
    ("bonfire_test_loss", "gauge", "Mean loss on test data, at last."),
    ("bonfire_test_accuracy_ratio", "gauge", "Accuracy on test data, at last."),
    ("bonfire_learning_rate", "gauge", "The learning rate."),
    ("bonfire_running", "gauge", "1 until the run has ended."),
];

const NODE: [(&str, &str, &str); 10] = [
    ("bonfire_node_up", "gauge", "1 as long as the node takes part."),
    ("bonfire_node_samples_per_second", "gauge", "Training samples a second of a node."),
    ("bonfire_node_wait_ratio", "gauge", "The share of its time that a node waits for others."),
    ("bonfire_node_sent_bytes_total", "counter", "What a node has sent."),
    ("bonfire_node_received_bytes_total", "counter", "What a node has received."),
    ("bonfire_node_cpu_cores", "gauge", "Cores that the process keeps busy."),
    ("bonfire_node_cpu_ratio", "gauge", "The share of all cores of the machine that is busy."),
    ("bonfire_node_resident_memory_bytes", "gauge", "Resident memory of the process."),
    ("bonfire_node_temperature_celsius", "gauge", "The hottest part of the machine."),
    ("bonfire_node_power_watts", "gauge", "What the machine takes."),
];

impl Metrics {
    pub(crate) fn of(path: PathBuf) -> Self {
        let (read_bytes, run, is_validated, figures, nodes) = Default::default();
        Self { path, read_bytes, run, is_validated, figures, nodes }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what is new, and says all.
    pub(crate) fn text(&mut self) -> String {
        // A log that cannot be read has no figures.
        let _ = self.read();
        self.render()
    }

    fn read(&mut self) -> std::io::Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let (mut lines, mut line) = (BufReader::new(file), Vec::new());
        while lines.read_until(b'\n', &mut line)? > 0 && line.last() == Some(&b'\n') {
            self.read_bytes += line.len() as u64;
            if let Ok(stamped) = serde_json::from_slice::<Stamped>(&line) {
                self.take(&stamped.event);
            }
            line.clear();
        }
        Ok(())
    }

    fn take(&mut self, event: &Event) {
        let mut set = |name: &'static str, number: f64| self.figures.insert(name, number);
        match event {
            Event::Started { name, rounds, .. } => {
                self.run.clone_from(name);
                self.is_validated = is_validated(event);
                set("bonfire_rounds_planned", *rounds as f64);
                set("bonfire_running", 1.0);
            }
            Event::Progress { round, epoch, loss, accuracy, lr, samples, samples_per_s } => {
                set("bonfire_round", *round as f64);
                set("bonfire_epoch", *epoch);
                set("bonfire_training_loss", *loss);
                set("bonfire_training_accuracy_ratio", *accuracy);
                set("bonfire_learning_rate", *lr);
                set("bonfire_samples_total", *samples as f64);
                set("bonfire_samples_per_second", *samples_per_s);
            }
            Event::Evaluated { loss, accuracy, .. } if self.is_validated => {
                set("bonfire_validation_loss", *loss);
                set("bonfire_validation_accuracy_ratio", *accuracy);
            }
            Event::Evaluated { loss, accuracy, .. } | Event::Tested { loss, accuracy, .. } => {
                set("bonfire_test_loss", *loss);
                set("bonfire_test_accuracy_ratio", *accuracy);
            }
            Event::Ended { summary } => {
                set("bonfire_running", 0.0);
                set("bonfire_round", summary.rounds as f64);
                set("bonfire_samples_total", summary.samples as f64);
            }
            Event::NodeJoined { name, .. } | Event::NodeBack { name, .. } => self.up(name, 1.0),
            Event::NodeLost { name, .. } => self.up(name, 0.0),
            Event::Nodes { nodes, .. } => {
                for line in nodes {
                    let node = &mut self.nodes.entry(line.name.clone()).or_default().figures;
                    node.insert("bonfire_node_up", 1.0);
                    node.insert("bonfire_node_samples_per_second", line.samples_per_s);
                    node.extend(line.wait.map(|wait| ("bonfire_node_wait_ratio", wait)));
                    *node.entry("bonfire_node_sent_bytes_total").or_default() += line.sent_bytes as f64;
                    *node.entry("bonfire_node_received_bytes_total").or_default() +=
                        line.received_bytes as f64;
                }
            }
            Event::Sampled { lines, .. } => {
                for line in lines {
                    let node = self.nodes.entry(line.name.clone()).or_default();
                    node.phases.add_all(&line.phases);
                    let machine = line.machine.unwrap_or_default();
                    let figures = [
                        ("bonfire_node_cpu_cores", machine.cores),
                        ("bonfire_node_cpu_ratio", machine.busy),
                        ("bonfire_node_resident_memory_bytes", machine.rss_mb.map(|mb| mb * 1e6)),
                        ("bonfire_node_temperature_celsius", machine.celsius),
                        ("bonfire_node_power_watts", machine.watts),
                    ];
                    node.figures
                        .extend(figures.into_iter().filter_map(|(name, number)| Some((name, number?))));
                }
            }
            _ => {}
        }
    }

    fn up(&mut self, name: &str, up: f64) {
        self.nodes.entry(name.to_owned()).or_default().figures.insert("bonfire_node_up", up);
    }

    fn render(&self) -> String {
        let mut text = String::new();
        let run = label(&self.run);
        for (name, kind, help) in RUN {
            let Some(number) = self.figures.get(name) else { continue };
            let _ = writeln!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{{run=\"{run}\"}} {number}"
            );
        }
        for (name, kind, help) in NODE {
            let has = |(_, node): &(&String, &NodeFigures)| node.figures.contains_key(name);
            if self.nodes.iter().any(|node| has(&node)) {
                let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            }
            for (node, figures) in &self.nodes {
                if let Some(number) = figures.figures.get(name) {
                    let _ = writeln!(text, "{name}{{run=\"{run}\",node=\"{}\"}} {number}", label(node));
                }
            }
        }
        let name = "bonfire_phase_seconds_total";
        if !self.nodes.is_empty() {
            let _ = writeln!(text, "# HELP {name} Time by what it went to.\n# TYPE {name} counter");
        }
        for (node, figures) in &self.nodes {
            for phase in Phase::ALL {
                let (node, phase, seconds) = (label(node), phase.name(), figures.phases.get(phase));
                let _ = writeln!(text, "{name}{{run=\"{run}\",node=\"{node}\",phase=\"{phase}\"}} {seconds}");
            }
        }
        text
    }
}

/// A text as the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::sample;

    #[test]
    fn has_the_newest_figures_and_reads_on() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("events.jsonl");
        let mut file = File::create(&path).unwrap();
        let mut write = |event| {
            let line = serde_json::to_string(&Stamped { at_s: 1.0, event }).unwrap();
            writeln!(file, "{line}").unwrap();
        };
        let mut metrics = Metrics::of(path);
        assert_eq!(metrics.text(), "");
        for event in [sample::started(), sample::progress(402), sample::sampled(402), sample::sampled(402)] {
            write(event);
        }
        let nodes = vec![sample::node_line(1)];
        write(Event::Nodes { round: 402, nodes });
        let text = metrics.text();
        for line in [
            "bonfire_round{run=\"fashion\"} 402",
            "# TYPE bonfire_samples_total counter",
            "bonfire_running{run=\"fashion\"} 1",
            "bonfire_node_cpu_cores{run=\"fashion\",node=\"pi1\"} 3.5",
            "bonfire_node_sent_bytes_total{run=\"fashion\",node=\"pi1\"} 12300000",
            "bonfire_phase_seconds_total{run=\"fashion\",node=\"pi1\",phase=\"backward\"} 2.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        write(sample::node_lost(1));
        write(Event::Ended { summary: Box::new(sample::summary()) });
        let text = metrics.text();
        assert!(text.contains("bonfire_running{run=\"fashion\"} 0\n"), "{text}");
        assert!(text.contains("bonfire_node_up{run=\"fashion\",node=\"pi1\"} 0\n"), "{text}");
    }

    #[test]
    fn a_name_cannot_end_its_label() {
        assert_eq!(label("a\"} 1\n\\"), "a\\\"} 1\\n\\\\");
    }
}

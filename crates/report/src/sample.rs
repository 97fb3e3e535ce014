//! One of everything, for the tests of this crate.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crate::energy::EnergyLabel;
use crate::event::{Event, NodeLine, SampleLine, ShareLine};
use crate::machine::MachineSample;
use crate::phases::{Phase, Phases};
use crate::summary::{ClassLine, Exit, Summary};

/// A summary with nothing in it that need not be measured.
pub(crate) fn bare_summary() -> Summary {
    Summary {
        name: "fashion".into(),
        model: "lenet5".into(),
        data: "fashion-mnist".into(),
        workers: 4,
        exit: Exit::Done,
        rounds: 2345,
        epochs: 5.0,
        samples: 300_000,
        seconds: 83.25,
        samples_per_s: 3603.5,
        train_loss: 0.25,
        eval_loss: None,
        accuracy: None,
        best_accuracy: None,
        macro_f1: None,
        rmse: None,
        mae: None,
        r2: None,
        top5_accuracy: None,
        validation_loss: None,
        validation_accuracy: None,
        best_round: None,
        classes: None,
        confusion: None,
        target_reached_round: None,
        peak_rss_mb: None,
        first_step_s: None,
        nodes: None,
        sent_bytes: None,
        received_bytes: None,
        late: None,
        head_share: None,
        wh: None,
        waiting_wh: None,
        hosts_wh: None,
        wh_per_1000_samples: None,
        energy: None,
        time: None,
    }
}

pub(crate) fn summary() -> Summary {
    Summary {
        eval_loss: Some(0.3125),
        accuracy: Some(0.8875),
        best_accuracy: Some(0.8906),
        macro_f1: Some(0.875),
        peak_rss_mb: Some(213.5),
        first_step_s: Some(0.3125),
        nodes: Some(5),
        sent_bytes: Some(1_234_567_890),
        received_bytes: Some(1_234_000_000),
        late: Some(3),
        head_share: Some(0.125),
        wh: Some(1.5),
        waiting_wh: Some(0.001),
        wh_per_1000_samples: Some(0.005),
        energy: Some(EnergyLabel::Measured),
        time: Some("62 % computing, 38 % wire".into()),
        ..bare_summary()
    }
}

/// The same of a run that was judged by validation, whose classes were told apart.
pub(crate) fn validated() -> Summary {
    let line = |name: &str, count, precision, recall, f1| ClassLine {
        name: name.into(),
        count,
        precision: Some(precision),
        recall: Some(recall),
        f1: Some(f1),
    };
    Summary {
        exit: Exit::StoppedEarly,
        top5_accuracy: Some(0.9875),
        validation_loss: Some(0.25),
        validation_accuracy: Some(0.8906),
        best_round: Some(1876),
        classes: Some(vec![
            line("Coat", 100, 0.8125, 0.9, 0.875),
            line("Shirt", 80, 0.875, 0.75, 0.8),
            line("Bag", 0, 0.0, 0.0, 0.0),
        ]),
        confusion: Some(vec![vec![90, 10, 0], vec![20, 60, 0], vec![0, 0, 0]]),
        ..summary()
    }
}

pub(crate) fn started() -> Event {
    Event::Started {
        name: "fashion".into(),
        model: "lenet5".into(),
        parameters: 61_706,
        data: "fashion-mnist".into(),
        train_samples: 60_000,
        test_samples: 10_000,
        validation_samples: None,
        workers: 4,
        batch_size: 32,
        rounds_per_epoch: 469,
        rounds: 2345,
        epochs: Some(5),
        seed: 1234,
    }
}

pub(crate) fn progress(round: u64) -> Event {
    Event::Progress {
        round,
        epoch: round as f64 / 469.0,
        loss: 0.5,
        accuracy: 0.8125,
        lr: 0.001,
        samples: round * 128,
        samples_per_s: 12_345.0,
    }
}

pub(crate) fn epoch_ended(epoch: u64) -> Event {
    Event::EpochEnded {
        epoch,
        round: epoch * 469,
        loss: 0.4375,
        accuracy: 0.84375,
        samples: 60_000,
        seconds: 4.0,
    }
}

pub(crate) fn evaluated(round: u64) -> Event {
    Event::Evaluated {
        round,
        epoch: round as f64 / 469.0,
        loss: 0.40625,
        accuracy: 0.859375,
        macro_f1: Some(0.8515625),
        samples: 10_000,
        seconds: 0.5,
    }
}

pub(crate) fn tested(round: u64) -> Event {
    Event::Tested {
        round,
        loss: 0.4375,
        accuracy: 0.84375,
        macro_f1: Some(0.8359375),
        samples: 10_000,
        seconds: 0.5,
    }
}

pub(crate) fn checkpointed(round: u64) -> Event {
    Event::Checkpointed {
        round,
        file: format!("step-{round:06}.safetensors"),
        bytes: 247_512,
        seconds: 0.0625,
    }
}

pub(crate) fn waiting(joined: usize, missing: &str) -> Event {
    Event::Waiting { joined, wanted: 5, missing: missing.into(), deadline_s: 540.0 }
}

pub(crate) fn node_joined(node: u64) -> Event {
    Event::NodeJoined {
        node,
        name: format!("pi{node}"),
        role: format!("worker {node}"),
        address: format!("10.0.0.{node}:41000"),
        cores: 4,
        threads: 3,
    }
}

pub(crate) fn node_lost(node: u64) -> Event {
    Event::NodeLost {
        node,
        name: format!("pi{node}"),
        role: format!("worker {node}"),
        round: 118,
        reason: "silent for 5.0 s".into(),
        consequence: "round 119 goes on without it".into(),
    }
}

pub(crate) fn node_late(node: u64, round: u64) -> Event {
    Event::NodeLate {
        node,
        name: format!("pi{node}"),
        round,
        reason: "its gradient came after 4 others and was dropped".into(),
    }
}

pub(crate) fn chosen() -> Event {
    let reason = "the wire takes 641 ms of 680 ms: 7.9 MB at 99 Mbit/s; int8 and 8 local steps: 20 ms".into();
    Event::Chosen { round: 402, int8: true, local_steps: 8, after: 405, rounds: 648, reason }
}

pub(crate) fn shares() -> Event {
    let line = |node, samples| ShareLine { node, name: format!("pi{node}"), samples };
    let reason = "pi3 takes 18 % instead of 25 %: its rounds took 310 ms, the others' 205".into();
    Event::Shares { round: 405, shares: vec![line(1, 35), line(2, 35), line(3, 23), line(4, 35)], reason }
}

/// A worker that waits, as synchronous ones do.
pub(crate) fn node_line(node: u64) -> NodeLine {
    NodeLine {
        node,
        name: format!("pi{node}"),
        role: format!("worker {node}"),
        samples_per_s: 1234.5,
        wait: Some(0.12),
        staleness: None,
        sent_bytes: 12_300_000,
        received_bytes: 4_500_000,
        late: 0,
    }
}

/// What a worker did in two seconds.
pub(crate) fn sampled(round: u64) -> Event {
    let mut phases = Phases::default();
    phases.add_s(Phase::Backward, 1.25);
    phases.add_s(Phase::Wait, 0.75);
    let machine =
        MachineSample { cores: Some(3.5), busy: Some(0.9), rss_mb: Some(120.5), ..MachineSample::default() };
    let line = SampleLine { node: Some(1), name: "pi1".into(), phases, machine: Some(machine) };
    Event::Sampled { round, seconds: 2.0, lines: vec![line] }
}

/// Every kind of event, in an order in which a run could have them.
pub(crate) fn events() -> Vec<Event> {
    vec![
        waiting(3, "2 workers"),
        node_joined(4),
        started(),
        Event::Resumed { round: 400, epoch: 0.75, checkpoint: "step-000400.safetensors".into() },
        Event::Noted { message: "training on 4 of 4 cores".into() },
        chosen(),
        progress(402),
        shares(),
        Event::Nodes {
            round: 402,
            nodes: vec![node_line(1), NodeLine { wait: None, staleness: Some(1.5), late: 2, ..node_line(2) }],
        },
        sampled(402),
        Event::Updates { first: 403, by: vec![vec![1], vec![2, 4]], staleness: vec![0, 2] },
        node_late(2, 403),
        node_lost(4),
        Event::NodeBack { node: 7, name: "pi4".into(), round: 120, missed: 2 },
        epoch_ended(1),
        checkpointed(469),
        evaluated(469),
        Event::Warned { message: "the disk is almost full".into() },
        Event::TargetReached { round: 469, accuracy: 0.859375, target: 0.84375 },
        Event::StoppedEarly { round: 470, best_round: 469, evaluations: 3 },
        Event::Interrupted { round: 470 },
        tested(469),
        Event::Ended { summary: Box::new(summary()) },
    ]
}

/// A screen that remembers what was written to it.
#[derive(Clone, Default)]
pub(crate) struct Screen(Arc<Mutex<Vec<u8>>>);

impl Screen {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

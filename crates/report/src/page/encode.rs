//! Events as the page takes them: short arrays, with as many digits as a chart can show. `page/fold.js` reads them.

use serde_json::{Value, json};

use crate::event::{Event, NodeLine, SampleLine, Stamped};
use crate::number;
use crate::phases::Phase;
use crate::roster::{self, Roster};
use crate::summary::Summary;
use crate::transcript;

/// An event for the page, if it shows such events.
pub(crate) fn encode(stamped: &Stamped) -> Option<Value> {
    let at = seconds(stamped.at_s);
    Some(match &stamped.event {
        Event::Started { .. } => json!(["s", at, serde_json::to_value(&stamped.event).ok()?]),
        Event::Resumed { round, .. } => json!(["r", at, round]),
        Event::Progress { round, epoch, loss, accuracy, lr, samples, samples_per_s } => {
            let figures = [*epoch, *loss, *accuracy, *lr].map(short);
            let [epoch, loss, accuracy, lr] = figures;
            json!(["p", at, round, epoch, loss, accuracy, lr, samples, short(*samples_per_s)])
        }
        Event::Evaluated { round, epoch, loss, accuracy, macro_f1, .. } => {
            let f1 = macro_f1.map_or(Value::Null, short);
            json!(["t", at, round, short(*epoch), short(*loss), short(*accuracy), f1])
        }
        Event::Nodes { round, nodes } => json!(["n", at, round, nodes.iter().map(node).collect::<Vec<_>>()]),
        Event::Sampled { round, seconds: time, lines } => {
            json!(["m", at, round, seconds(*time), lines.iter().map(sample).collect::<Vec<_>>()])
        }
        Event::Shares { round, shares, .. } => {
            let shares: Vec<Value> = shares.iter().map(|line| json!([line.name, line.samples])).collect();
            json!(["h", at, round, shares])
        }
        Event::Updates { .. } => return None,
        Event::Ended { summary } => {
            // Of very many classes these would be most of the page.
            let summary = Summary { classes: None, confusion: None, ..(**summary).clone() };
            json!(["z", at, serde_json::to_value(summary).ok()?])
        }
        _ => return told(stamped),
    })
}

/// A second array of an event that is shown in two ways.
pub(crate) fn encode_text(stamped: &Stamped) -> Option<Value> {
    match &stamped.event {
        Event::Resumed { .. } | Event::Shares { .. } | Event::Ended { .. } => told(stamped),
        _ => None,
    }
}

/// What is worth a mark on a timeline: its kind and text.
pub(crate) fn encode_mark(stamped: &Stamped) -> Option<(String, String)> {
    let told = told(stamped)?;
    let word = |place: usize| told[place].as_str().unwrap_or_default().to_owned();
    let kind = word(3);
    (!matches!(kind.as_str(), "epoch" | "checkpoint")).then(|| (kind, word(4)))
}

/// Five digits: more than a chart can show. What is no number is null.
pub(crate) fn short(number: f64) -> Value {
    if number == 0.0 || !number.is_finite() {
        return if number == 0.0 { json!(0) } else { Value::Null };
    }
    let scale = 10_f64.powi(4 - number.abs().log10().floor() as i32);
    let rounded = if scale.is_finite() { (number * scale).round() / scale } else { number };
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { json!(rounded as i64) } else { json!(rounded) }
}

/// To the millisecond.
fn seconds(time: f64) -> Value {
    json!((time * 1000.0).round() / 1000.0)
}

fn node(line: &NodeLine) -> Value {
    let optional = |figure: Option<f64>| figure.map_or(Value::Null, short);
    json!([
        line.node,
        line.name,
        line.role,
        short(line.samples_per_s),
        optional(line.wait),
        optional(line.staleness),
        line.sent_bytes,
        line.received_bytes,
        line.late
    ])
}

fn sample(line: &SampleLine) -> Value {
    let phases: Vec<Value> = match line.phases.iter().next() {
        Some(_) => Phase::ALL.iter().map(|&phase| short(line.phases.get(phase))).collect(),
        None => Vec::new(),
    };
    let machine = line.machine.map(|machine| {
        let optional = |figure: Option<f64>| figure.map_or(Value::Null, short);
        json!([
            optional(machine.cores),
            optional(machine.busy),
            optional(machine.rss_mb),
            optional(machine.received_bytes_per_s),
            optional(machine.sent_bytes_per_s),
            optional(machine.celsius),
            machine.throttled,
            optional(machine.watts)
        ])
    });
    json!([line.name, phases, machine])
}

/// What is worth a line in the list of events: its round, kind and text, and whom or what it is about.
fn told(stamped: &Stamped) -> Option<Value> {
    let sentence = || Roster::default().sentence(stamped).unwrap_or_default();
    let (round, kind, text, about) = match &stamped.event {
        Event::Resumed { round, checkpoint, .. } => {
            (Some(*round), "resumed", format!("goes on from {checkpoint}"), None)
        }
        Event::EpochEnded { epoch, round, loss, accuracy, seconds, .. } => {
            let (loss, accuracy) = (number::decimal(*loss), number::percent(*accuracy));
            let text = format!("epoch {epoch}: loss {loss}, {accuracy} in {}", number::seconds(*seconds));
            (Some(*round), "epoch", text, None)
        }
        Event::Checkpointed { round, file, bytes, seconds } => {
            let text = format!("{file}, {} in {}", number::bytes(*bytes), number::seconds(*seconds));
            (Some(*round), "checkpoint", text, None)
        }
        Event::TargetReached { round, accuracy, target } => {
            let (accuracy, level) = (number::percent(*accuracy), number::percent(*target));
            (
                Some(*round),
                "target",
                format!("{accuracy} reach the target of {level}"),
                Some(target.to_string()),
            )
        }
        Event::StoppedEarly { round, .. } => {
            let text = transcript::stopped_early(&stamped.event).unwrap_or_default();
            (Some(*round), "stopped", text, None)
        }
        Event::Tested { round, loss, accuracy, .. } => {
            let (loss, accuracy) = (number::decimal(*loss), number::percent(*accuracy));
            let text = format!("the best by validation: {accuracy} right on test data, loss {loss}");
            (Some(*round), "tested", text, None)
        }
        Event::Waiting { deadline_s, .. } => {
            let text =
                roster::waiting(&stamped.event).map(|text| roster::with_deadline(&text, *deadline_s))?;
            (None, "waiting", text, None)
        }
        Event::NodeJoined { name, .. } => (None, "joined", sentence(), Some(name.clone())),
        Event::NodeBack { name, round, .. } => (Some(*round), "back", sentence(), Some(name.clone())),
        Event::NodeLost { name, round, .. } => (Some(*round), "lost", sentence(), Some(name.clone())),
        Event::NodeLate { name, round, reason, .. } => {
            (Some(*round), "late", format!("{name}: {reason}"), Some(name.clone()))
        }
        Event::Chosen { round, .. } => {
            (Some(*round), "chosen", transcript::chosen(&stamped.event).unwrap_or_default(), None)
        }
        Event::Shares { round, shares, reason } => {
            (Some(*round), "shares", transcript::shared(shares, reason), None)
        }
        Event::Noted { message } => (None, "note", message.clone(), None),
        Event::Warned { message } => (None, "warning", message.clone(), None),
        Event::Interrupted { round } => (Some(*round), "stopped", "by the user".to_owned(), None),
        Event::Ended { summary } => {
            let text = format!("{} after {}", summary.exit.name(), number::seconds(summary.seconds));
            (Some(summary.rounds), "ended", text, None)
        }
        _ => return None,
    };
    Some(json!(["x", seconds(stamped.at_s), round, kind, text, about]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn numbers_are_short() {
        let check = |number: f64, expect: &str| assert_eq!(short(number).to_string(), expect);
        check(0.123_456_789, "0.12346");
        check(12_345.678, "12346");
        check(1_234_567.0, "1234600");
        check(1e-7 / 3.0, "3.3333e-8");
        check(0.0, "0");
        check(-2.0, "-2");
        check(f64::NAN, "null");
        check(f64::INFINITY, "null");
    }

    #[test]
    fn every_event_has_a_short_form() {
        for event in sample::events() {
            let stamped = Stamped { at_s: 1.23456, event };
            let Some(short) = encode(&stamped) else {
                assert!(matches!(stamped.event, Event::Updates { .. }), "{stamped:?}");
                continue;
            };
            assert!(short[0].is_string() && short[1] == 1.235, "{short}");
        }
    }

    #[test]
    fn progress_takes_few_bytes() {
        let short = encode(&Stamped { at_s: 1234.567, event: sample::progress(12_345) });
        let text = short.map(|short| short.to_string()).unwrap_or_default();
        assert!(text.len() < 80, "{text}");
    }
}

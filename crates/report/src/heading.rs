//! The blocks of text above and below a run.

use std::path::Path;

use crate::event::Event;
use crate::number;
use crate::summary::{Exit, Summary};

/// What is about to be trained, on what, and by how many.
pub(crate) fn above(started: &Event) -> Vec<String> {
    let Event::Started { name, model, parameters, data, .. } = started else { return Vec::new() };
    vec![
        name.clone(),
        row("model", &format!("{model}, {}", number::of(*parameters as u64, "parameter"))),
        row("data", &format!("{data}, {}", samples(started))),
        row("batch", &batch(started)),
        row("plan", &plan(started)),
        String::new(),
    ]
}

fn samples(started: &Event) -> String {
    let Event::Started { train_samples, test_samples, validation_samples, .. } = started else {
        return String::new();
    };
    let [train, test] = [*train_samples, *test_samples].map(|samples| number::count(samples as u64));
    match validation_samples {
        Some(validation) => {
            let validation = number::count(*validation as u64);
            format!("{train} training, {validation} validation and {test} test samples")
        }
        None => format!("{train} training and {test} test samples"),
    }
}

fn batch(started: &Event) -> String {
    let Event::Started { workers, batch_size, .. } = started else { return String::new() };
    let (workers, batch_size) = (*workers as u64, *batch_size as u64);
    let round = number::of(workers * batch_size, "sample");
    let workers = number::of(workers, "worker");
    format!("{workers} × {} = {round} a round", number::count(batch_size))
}

fn plan(started: &Event) -> String {
    let Event::Started { rounds_per_epoch, rounds, epochs, seed, .. } = started else { return String::new() };
    let rounds = number::of(*rounds, "round");
    let an_epoch = number::count(*rounds_per_epoch);
    match epochs {
        Some(epochs) => format!("{} × {an_epoch} = {rounds}, seed {seed}", number::of(*epochs, "epoch")),
        None => format!("{rounds}, {an_epoch} an epoch, seed {seed}"),
    }
}

/// How a run went. The folder comes last, where it is easy to find and to copy.
pub(crate) fn below(summary: &Summary, checkpoint: Option<&str>, folder: &Path) -> Vec<String> {
    let how = match summary.exit {
        Exit::Done => "done in",
        Exit::TargetReached => "target reached in",
        Exit::StoppedEarly => "stopped early after",
        Exit::Interrupted => "interrupted after",
        Exit::Failed => "failed after",
    };
    let mut lines = vec![String::new(), format!("{how} {}", number::seconds(summary.seconds))];
    lines.push(row("work", &work(summary)));
    lines.push(row("speed", &speed(summary)));
    lines.push(row("training", &format!("loss {}", number::decimal(summary.train_loss))));
    lines.extend(validation(summary).map(|validation| row("valid", &validation)));
    lines.extend(test(summary).map(|test| row("test", &test)));
    lines.extend(weakest_class(summary).map(|class| row("classes", &class)));
    if let Some(round) = summary.target_reached_round {
        lines.push(row("target", &format!("reached at round {}", number::count(round))));
    }
    lines.extend(nodes(summary).map(|nodes| row("nodes", &nodes)));
    lines.extend(summary.time.as_deref().map(|time| row("time", time)));
    if let Some(peak) = summary.peak_rss_mb {
        lines.push(row("memory", &format!("{} MB at its peak", number::rate(peak))));
    }
    lines.extend(energy(summary).map(|energy| row("energy", &energy)));
    lines.extend(checkpoint.map(|checkpoint| row("saved", checkpoint)));
    lines.push(row("folder", &folder.display().to_string()));
    lines
}

fn work(summary: &Summary) -> String {
    let rounds = number::of(summary.rounds, "round");
    let samples = number::of(summary.samples, "sample");
    let plural = if summary.epochs == 1.0 { "" } else { "s" };
    format!("{rounds}, {} epoch{plural}, {samples}", number::epochs(summary.epochs))
}

fn speed(summary: &Summary) -> String {
    let rate = number::rate(summary.samples_per_s);
    let workers = number::of(summary.workers as u64, "worker");
    let first =
        summary.first_step_s.map_or(String::new(), |s| format!(", first round after {}", number::seconds(s)));
    format!("{rate} samples/s with {workers}{first}")
}

/// What the best parameters were chosen by.
fn validation(summary: &Summary) -> Option<String> {
    let loss = number::decimal(summary.validation_loss?);
    let accuracy =
        summary.validation_accuracy.map(|accuracy| format!("accuracy {}, ", number::percent(accuracy)));
    let round = number::count(summary.best_round?);
    Some(format!("{}loss {loss} at its best, in round {round}", accuracy.unwrap_or_default()))
}

/// The class that is told from the others worst, and what it is taken for.
fn weakest_class(summary: &Summary) -> Option<String> {
    let (classes, confusion) = (summary.classes.as_ref()?, summary.confusion.as_ref()?);
    let there = classes.iter().enumerate().filter(|(_, class)| class.count > 0);
    let (place, class) = there.min_by(|(_, a), (_, b)| {
        let f1 = |f1: Option<f64>| f1.unwrap_or(0.0);
        f1(a.f1).total_cmp(&f1(b.f1))
    })?;
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), number::percent);
    let (precision, recall) = (percent(class.precision), percent(class.recall));
    let others = confusion.get(place)?.iter().enumerate().filter(|(other, _)| *other != place);
    let other = others.max_by_key(|(other, count)| (**count, std::cmp::Reverse(*other)));
    let taken = other.filter(|(_, count)| **count > 0).and_then(|(other, count)| {
        let share = number::percent(*count as f64 / class.count as f64);
        Some(format!(", {share} taken for {}", classes.get(other)?.name))
    });
    Some(format!(
        "weakest is {}: precision {precision}, recall {recall}{}",
        class.name,
        taken.unwrap_or_default()
    ))
}

fn test(summary: &Summary) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(accuracy) = summary.accuracy {
        // The best of a run that is judged by validation is another figure.
        let best = summary.best_accuracy.filter(|_| summary.best_round.is_none());
        let best = best.map_or(String::new(), |best| format!(" (best {})", number::percent(best)));
        parts.push(format!("accuracy {}{best}", number::percent(accuracy)));
    }
    parts.extend(summary.eval_loss.map(|loss| format!("loss {}", number::decimal(loss))));
    parts.extend(summary.rmse.map(|rmse| format!("RMSE {}", number::decimal(rmse))));
    parts.extend(summary.mae.map(|mae| format!("MAE {}", number::decimal(mae))));
    parts.extend(summary.r2.map(|r2| format!("R² {r2:.3}")));
    parts.extend(summary.macro_f1.map(|f1| format!("macro-F1 {f1:.3}")));
    parts.extend(summary.top5_accuracy.map(|top5| format!("top-5 {}", number::percent(top5))));
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn nodes(summary: &Summary) -> Option<String> {
    let mut parts = Vec::new();
    parts.extend(summary.nodes.map(|nodes| number::count(nodes as u64)));
    parts.extend(summary.sent_bytes.map(|bytes| format!("{} sent", number::bytes(bytes))));
    parts.extend(summary.received_bytes.map(|bytes| format!("{} received", number::bytes(bytes))));
    let late = summary.late.filter(|late| *late > 0);
    parts.extend(late.map(|late| format!("{} dropped as too late", number::of(late, "gradient"))));
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn energy(summary: &Summary) -> Option<String> {
    let (wh, label) = (summary.wh?, summary.energy?);
    let each = summary
        .wh_per_1000_samples
        .map_or(String::new(), |wh| format!(", {} per 1,000 samples", number::watt_hours(wh)));
    let waiting = summary.waiting_wh.filter(|waiting| *waiting >= wh * 0.01);
    let waiting = waiting.map_or(String::new(), |wh| format!(", {} of it waiting", number::watt_hours(wh)));
    Some(format!("{}{waiting}{each}, {}", number::watt_hours(wh), label.name()))
}

fn row(label: &str, text: &str) -> String {
    format!("  {label:<10}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn says_what_waiting_took() {
        let summary = Summary { waiting_wh: Some(0.125), ..sample::summary() };
        let expect = "1.50 Wh, 0.12 Wh of it waiting, 5.00 mWh per 1,000 samples, measured";
        assert_eq!(energy(&summary).as_deref(), Some(expect));
    }

    #[test]
    fn says_what_is_trained() {
        let expect = [
            "fashion",
            "  model     lenet5, 61,706 parameters",
            "  data      fashion-mnist, 60,000 training and 10,000 test samples",
            "  batch     4 workers × 32 = 128 samples a round",
            "  plan      5 epochs × 469 = 2,345 rounds, seed 1234",
            "",
        ];
        assert_eq!(above(&sample::started()), expect);
    }

    #[test]
    fn a_plan_may_be_in_rounds() {
        let mut started = sample::started();
        let Event::Started { rounds, epochs, .. } = &mut started else { unreachable!() };
        (*rounds, *epochs) = (500, None);
        assert_eq!(plan(&started), "500 rounds, 469 an epoch, seed 1234");
    }

    fn check(summary: Summary, checkpoint: Option<&str>, expect: &[&str]) {
        assert_eq!(below(&summary, checkpoint, Path::new("runs/today-fashion")), expect);
    }

    #[test]
    fn says_how_it_went() {
        let expect = [
            "",
            "done in 1m 23s",
            "  work      2,345 rounds, 5 epochs, 300,000 samples",
            "  speed     3,604 samples/s with 4 workers, first round after 0.31s",
            "  training  loss 0.2500",
            "  test      accuracy 88.75 % (best 89.06 %), loss 0.3125, macro-F1 0.875",
            "  nodes     5, 1.2 GB sent, 1.2 GB received, 3 gradients dropped as too late",
            "  time      62 % computing, 38 % wire",
            "  memory    214 MB at its peak",
            "  energy    1.50 Wh, 5.00 mWh per 1,000 samples, measured",
            "  saved     step-002345.safetensors",
            "  folder    runs/today-fashion",
        ];
        check(sample::summary(), Some("step-002345.safetensors"), &expect);
    }

    #[test]
    fn says_what_was_chosen_by_validation() {
        let expect = [
            "  training  loss 0.2500",
            "  valid     accuracy 89.06 %, loss 0.2500 at its best, in round 1,876",
            "  test      accuracy 88.75 %, loss 0.3125, macro-F1 0.875, top-5 98.75 %",
            "  classes   weakest is Shirt: precision 87.50 %, recall 75.00 %, 25.00 % taken for Coat",
        ];
        let lines = below(&sample::validated(), None, Path::new("runs/today-fashion"));
        assert_eq!(lines[1], "stopped early after 1m 23s");
        assert_eq!(&lines[4..8], expect);
        let mut started = sample::started();
        let Event::Started { validation_samples, .. } = &mut started else { unreachable!() };
        *validation_samples = Some(6000);
        assert_eq!(samples(&started), "60,000 training, 6,000 validation and 10,000 test samples");
    }

    #[test]
    fn leaves_out_what_was_not_measured() {
        let summary = Summary {
            workers: 1,
            exit: Exit::TargetReached,
            rounds: 1,
            epochs: 1.0,
            samples: 1,
            train_loss: f64::NAN,
            target_reached_round: Some(1876),
            ..sample::bare_summary()
        };
        let expect = [
            "",
            "target reached in 1m 23s",
            "  work      1 round, 1 epoch, 1 sample",
            "  speed     3,604 samples/s with 1 worker",
            "  training  loss NaN",
            "  target    reached at round 1,876",
            "  folder    runs/today-fashion",
        ];
        check(summary, None, &expect);
    }
}

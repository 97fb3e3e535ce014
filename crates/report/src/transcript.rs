use std::path::Path;

use crate::event::{Event, ShareLine, Stamped};
use crate::roster::{self, Roster};
use crate::{heading, number};

/// Turns the events of a run into lines of text. Pure: where the lines go, and which are left out, is up to a view.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    plan: PlannedLength,
    /// The line of a finished epoch, held back because the evaluation of the same round belongs on it.
    epoch: Option<EpochLine>,
    checkpoint: Option<String>,
    /// Whether evaluations measure validation.
    is_validated: bool,
    roster: Roster,
}

#[derive(Debug, Default)]
struct PlannedLength {
    rounds: u64,
    epochs: u64,
    /// Where this process began, which after a resume is not round 0.
    first_round: u64,
    first_at_s: f64,
}

#[derive(Debug)]
struct EpochLine {
    round: u64,
    text: String,
}

/// How far a run is, in pieces that a bar or a line puts together.
#[derive(Debug, PartialEq)]
pub(crate) struct Position {
    pub round: u64,
    /// `epoch 3/5`
    pub epoch: String,
    /// For a line: lines up with those of finished epochs.
    pub line: String,
    /// For the end of a bar. A narrow terminal cuts it off, so the most important comes first, and names before
    /// their numbers.
    pub message: String,
}

impl Transcript {
    /// The lines that this event adds to what stays on the screen.
    pub(crate) fn lines(&mut self, folder: &Path, stamped: &Stamped) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(epoch) = self.epoch.take_if(|epoch| !waits(epoch, &stamped.event)) {
            lines.push(epoch.text);
        }
        match &stamped.event {
            Event::Started { .. } => {
                self.plan = PlannedLength::of(stamped);
                self.is_validated = is_validated(&stamped.event);
                lines.extend(heading::above(&stamped.event));
            }
            Event::Resumed { round, epoch, checkpoint } => {
                (self.plan.first_round, self.plan.first_at_s) = (*round, stamped.at_s);
                let (round, epoch) = (number::count(*round), number::epochs(*epoch));
                lines.push(format!("resumed from {checkpoint} at round {round}, epoch {epoch}"));
            }
            Event::Progress { .. } | Event::Waiting { .. } | Event::Updates { .. } | Event::Nodes { .. } => {}
            Event::Sampled { .. } => {}
            Event::NodeJoined { .. } | Event::NodeBack { .. } => {}
            Event::NodeLost { .. } | Event::NodeLate { .. } => {}
            Event::EpochEnded { epoch, round, loss, accuracy, samples, seconds } => {
                let label = self.plan.epoch_label(*epoch);
                let text = self.plan.line(&label, &training(*loss, *accuracy, *samples as f64 / seconds));
                self.epoch = Some(EpochLine { round: *round, text });
            }
            Event::Evaluated { round, loss, accuracy, macro_f1, .. } => {
                let left = match self.epoch.take() {
                    Some(epoch) => epoch.text,
                    None => self.plan.line(&self.plan.round_label(*round), ""),
                };
                let part = if self.is_validated { "valid" } else { "test" };
                lines.push(format!("{left} | {}", measured(part, *loss, *accuracy, *macro_f1)));
            }
            Event::Tested { round, loss, accuracy, macro_f1, .. } => {
                let left = self.plan.line(&self.plan.round_label(*round), "the best by validation");
                lines.push(format!("{left} | {}", measured("test", *loss, *accuracy, *macro_f1)));
            }
            Event::Checkpointed { file, .. } => self.checkpoint = Some(file.clone()),
            Event::TargetReached { round, accuracy, target } => {
                let (round, accuracy) = (number::count(*round), number::percent(*accuracy));
                let target = number::percent(*target);
                lines.push(format!("target {target} reached at round {round} with {accuracy}"));
            }
            Event::StoppedEarly { .. } => lines.extend(stopped_early(&stamped.event)),
            Event::Chosen { round, rounds, .. } => {
                let (first_round, first_at_s) = (*round, stamped.at_s);
                self.plan = PlannedLength { rounds: *rounds, first_round, first_at_s, ..self.plan };
                lines.extend(chosen(&stamped.event));
            }
            Event::Shares { shares, reason, .. } => lines.push(shared(shares, reason)),
            Event::Noted { message } => lines.push(format!("note: {message}")),
            Event::Warned { message } => lines.push(format!("warning: {message}")),
            Event::Interrupted { round } => {
                lines.push(format!("interrupted at round {}", number::count(*round)))
            }
            Event::Ended { summary } => {
                lines.extend(heading::below(summary, self.checkpoint.as_deref(), folder))
            }
        }
        lines.extend(self.roster.sentence(stamped));
        lines
    }

    /// The line that says what the head waits for, if the event does.
    pub(crate) fn waiting(&self, stamped: &Stamped) -> Option<String> {
        let Event::Waiting { deadline_s, .. } = &stamped.event else { return None };
        roster::waiting(&stamped.event).map(|waiting| roster::with_deadline(&waiting, *deadline_s))
    }

    /// A line per node.
    pub(crate) fn nodes(&self) -> Vec<String> {
        self.roster.table()
    }

    /// How far the run is, if the event says so.
    pub(crate) fn position(&self, stamped: &Stamped) -> Option<Position> {
        let Event::Progress { round, epoch, loss, accuracy, samples_per_s, .. } = &stamped.event else {
            return None;
        };
        let plan = &self.plan;
        let left = number::seconds(plan.seconds_left(*round, stamped.at_s));
        let line = plan.line(&plan.round_label(*round), &training(*loss, *accuracy, *samples_per_s));
        let rounds = format!("{}/{}", plan.round_number(*round), number::count(plan.rounds));
        let (loss, right) = (number::decimal(*loss), how_right(*loss, *accuracy));
        let speed = number::speed(*samples_per_s);
        Some(Position {
            round: *round,
            epoch: self.epoch(*epoch),
            line: format!("{line} | epoch {epoch:.2} of {}, {left} left", plan.epochs),
            message: format!("{rounds}  {left:>6} left  loss {loss:>6}  {right}  {speed}"),
        })
    }

    /// `epoch 3/5` for the one that the run is in after so many passes.
    pub(crate) fn epoch(&self, passes: f64) -> String {
        self.plan.epoch_label((passes.ceil() as u64).clamp(1, self.plan.epochs.max(1)))
    }

    /// The number of rounds planned; 0 before the run has started.
    pub(crate) fn rounds(&self) -> u64 {
        self.plan.rounds
    }
}

/// Whether the evaluations of a run that starts so measure validation.
pub(crate) fn is_validated(started: &Event) -> bool {
    matches!(started, Event::Started { validation_samples: Some(_), .. })
}

/// Why a run ends before its time.
pub(crate) fn stopped_early(event: &Event) -> Option<String> {
    let Event::StoppedEarly { round, best_round, evaluations } = event else { return None };
    let (round, best) = (number::count(*round), number::count(*best_round));
    let evaluations = number::of(*evaluations, "evaluation");
    Some(format!("stopped early at round {round}: {evaluations} since round {best}, and none was better"))
}

/// What was chosen, and why.
pub(crate) fn chosen(event: &Event) -> Option<String> {
    let Event::Chosen { int8, local_steps, after, rounds, reason, .. } = event else { return None };
    Some(match (int8, local_steps) {
        (false, 0..=1) => format!("auto changes nothing: {reason}"),
        (true, 0..=1) => format!("auto: {reason}"),
        _ => {
            let (after, rounds) = (number::count(*after), number::of(*rounds, "round"));
            format!("auto: {reason} (local steps after round {after}, {rounds} in all)")
        }
    })
}

/// `shares: pi3 takes 18 % instead of 25 %: … (samples a round: pi1 35, pi2 35, pi3 23)`. Of very many only the reason.
pub(crate) fn shared(shares: &[ShareLine], reason: &str) -> String {
    if shares.len() > MOST_SHARES {
        return format!("shares: {reason}");
    }
    let each: Vec<String> = shares.iter().map(|line| format!("{} {}", line.name, line.samples)).collect();
    format!("shares: {reason} (samples a round: {})", each.join(", "))
}

/// So many workers' shares are shown.
const MOST_SHARES: usize = 16;

/// Whether a finished epoch's line still waits for its evaluation when this event comes.
fn waits(epoch: &EpochLine, event: &Event) -> bool {
    match event {
        Event::Evaluated { round, .. } => *round == epoch.round,
        Event::Checkpointed { .. } | Event::Nodes { .. } | Event::Updates { .. } => true,
        _ => false,
    }
}

impl PlannedLength {
    fn of(started: &Stamped) -> Self {
        let Event::Started { rounds, rounds_per_epoch, epochs, .. } = &started.event else {
            return Self::default();
        };
        let epochs = epochs.unwrap_or(rounds.div_ceil((*rounds_per_epoch).max(1)));
        Self { rounds: *rounds, epochs, first_round: 0, first_at_s: started.at_s }
    }

    fn epoch_label(&self, epoch: u64) -> String {
        let (epoch, epochs) = (number::count(epoch), number::count(self.epochs));
        format!("epoch {epoch:>0$}/{epochs}", epochs.len())
    }

    fn round_label(&self, round: u64) -> String {
        format!("round {}", self.round_number(round))
    }

    /// As wide as the last round's.
    fn round_number(&self, round: u64) -> String {
        format!("{:>1$}", number::count(round), number::count(self.rounds).len())
    }

    /// A label and what belongs to it, each in its column. An empty column is blank, so that what follows lines up.
    fn line(&self, label: &str, training: &str) -> String {
        let label_width = self.epoch_label(self.epochs).len().max(self.round_label(self.rounds).len());
        format!("{label:<label_width$}  {training:<TRAINING_WIDTH$}")
    }

    /// From the speed of this process so far, with its evaluations and checkpoints; NaN before its first round.
    fn seconds_left(&self, round: u64, at_s: f64) -> f64 {
        let done = round.saturating_sub(self.first_round);
        let ahead = self.rounds.saturating_sub(round);
        if done == 0 { f64::NAN } else { (at_s - self.first_at_s) / done as f64 * ahead as f64 }
    }
}

/// The length of what [`training`] makes. With a label of up to 13 characters, as `round 999,999`, and the result of an
/// evaluation, a line fits a terminal of 80 columns.
const TRAINING_WIDTH: usize = 34;

fn training(loss: f64, accuracy: f64, samples_per_s: f64) -> String {
    let right = how_right(loss, accuracy);
    format!("loss {:>6}  {right}  {:>8}", number::decimal(loss), number::speed(samples_per_s))
}

/// How many answers are right; of numbers, how far they are off.
fn how_right(loss: f64, accuracy: f64) -> String {
    match accuracy.is_nan() && loss.is_finite() {
        true => format!("rmse {:>6}", number::decimal(loss.max(0.0).sqrt())),
        false => format!("acc {:>7}", number::short_percent(accuracy)),
    }
}

fn measured(part: &str, loss: f64, accuracy: f64, macro_f1: Option<f64>) -> String {
    if accuracy.is_nan() && loss.is_finite() {
        return format!("{part} {:>6}  {}", number::decimal(loss), how_right(loss, accuracy));
    }
    let (loss, accuracy) = (number::decimal(loss), number::short_percent(accuracy));
    let macro_f1 = macro_f1.map_or(String::new(), |f1| format!(" F1 {f1:.3}"));
    format!("{part} {loss:>6} {accuracy:>7}{macro_f1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// What stays on the screen after these events, the header left out.
    fn check(events: &[Event], expect: &[&str]) {
        let mut transcript = Transcript::default();
        let folder = Path::new("runs/today-fashion");
        transcript.lines(folder, &Stamped { at_s: 0.0, event: sample::started() });
        let lines = events
            .iter()
            .flat_map(|event| transcript.lines(folder, &Stamped { at_s: 60.0, event: event.clone() }));
        assert_eq!(lines.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn an_epoch_and_its_evaluation_share_a_line() {
        let expect = ["epoch 1/5    loss 0.4375  acc 84.38 %  15,000/s | test 0.4062 85.94 % F1 0.852"];
        check(&[sample::epoch_ended(1), sample::evaluated(469)], &expect);
        check(&[sample::epoch_ended(1), sample::checkpointed(469), sample::evaluated(469)], &expect);
        let nodes = Event::Nodes { round: 469, nodes: vec![sample::node_line(1)] };
        let updates = Event::Updates { first: 469, by: vec![vec![1]], staleness: vec![0] };
        check(&[sample::epoch_ended(1), nodes, updates, sample::evaluated(469)], &expect);
    }

    #[test]
    fn they_line_up_when_apart() {
        let epoch = "epoch 1/5    loss 0.4375  acc 84.38 %  15,000/s";
        let test = format!("{:37}| test 0.4062 85.94 % F1 0.852", "");
        check(&[sample::epoch_ended(1)], &[]);
        check(&[sample::epoch_ended(1), sample::progress(470)], &[epoch]);
        check(&[sample::epoch_ended(1), sample::evaluated(450)], &[epoch, &format!("round   450{test}")]);
        check(&[sample::evaluated(2000)], &[&format!("round 2,000{test}")]);
    }

    #[test]
    fn other_events_are_sentences() {
        check(
            &[
                Event::Resumed { round: 1200, epoch: 2.5586, checkpoint: "step-001200.safetensors".into() },
                Event::Noted { message: "training on 4 of 4 cores".into() },
                sample::chosen(),
                Event::Warned { message: "the disk is almost full".into() },
                Event::TargetReached { round: 1876, accuracy: 0.9012, target: 0.9 },
                Event::Interrupted { round: 1877 },
            ],
            &[
                "resumed from step-001200.safetensors at round 1,200, epoch 2.56",
                "note: training on 4 of 4 cores",
                "auto: the wire takes 641 ms of 680 ms: 7.9 MB at 99 Mbit/s; int8 and 8 local steps: 20 ms \
                 (local steps after round 405, 648 rounds in all)",
                "warning: the disk is almost full",
                "target 90.00 % reached at round 1,876 with 90.12 %",
                "interrupted at round 1,877",
            ],
        );
    }

    #[test]
    fn what_is_chosen_is_said() {
        let chosen = |int8, reason: &str| {
            let (round, rounds, reason) = (13, 2345, reason.to_owned());
            Event::Chosen { round, int8, local_steps: 1, after: 0, rounds, reason }
        };
        let little = chosen(false, "fewer bytes would gain less than a tenth");
        check(&[little], &["auto changes nothing: fewer bytes would gain less than a tenth"]);
        check(&[chosen(true, "the wire takes 300 ms")], &["auto: the wire takes 300 ms"]);
    }

    #[test]
    fn fewer_rounds_are_left_when_they_are_longer() {
        let mut transcript = Transcript::default();
        let folder = Path::new("runs/today-fashion");
        for (at_s, event) in [(0.0, sample::started()), (60.0, sample::chosen())] {
            transcript.lines(folder, &Stamped { at_s, event });
        }
        assert_eq!(transcript.rounds(), 648);
        let position = transcript.position(&Stamped { at_s: 70.0, event: sample::progress(412) });
        // Ten rounds took ten seconds since then.
        assert!(position.unwrap().message.starts_with("412/648  3m 56s left"), "236 rounds are left");
    }

    #[test]
    fn a_summary_ends_it() {
        let mut transcript = Transcript::default();
        let mut lines = Vec::new();
        for event in [
            sample::epoch_ended(5),
            sample::checkpointed(2345),
            Event::Ended { summary: Box::new(sample::summary()) },
        ] {
            lines = transcript.lines(Path::new("runs/today-fashion"), &Stamped { at_s: 83.0, event });
        }
        assert!(lines[0].starts_with("epoch 5/"), "a held line is not lost");
        assert_eq!(lines[lines.len() - 2], "  saved     step-002345.safetensors");
        assert_eq!(lines[lines.len() - 1], "  folder    runs/today-fashion");
    }

    #[test]
    fn positions_forecast_the_end() {
        let mut transcript = Transcript::default();
        transcript.lines(Path::new(""), &Stamped { at_s: 1.0, event: sample::started() });
        let position = transcript.position(&Stamped { at_s: 11.0, event: sample::progress(469) }).unwrap();
        let expect = Position {
            round: 469,
            epoch: "epoch 1/5".into(),
            line: "round   469  loss 0.5000  acc 81.25 %  12,345/s | epoch 1.00 of 5, 40s left".into(),
            message: "  469/2,345     40s left  loss 0.5000  acc 81.25 %  12,345/s".into(),
        };
        assert_eq!(position, expect);

        let resumed = Event::Resumed { round: 1876, epoch: 4.0, checkpoint: "step".into() };
        transcript.lines(Path::new(""), &Stamped { at_s: 2.0, event: resumed });
        let position = transcript.position(&Stamped { at_s: 12.0, event: sample::progress(1976) }).unwrap();
        assert_eq!(position.epoch, "epoch 5/5");
        assert!(position.line.ends_with("epoch 4.21 of 5, 37s left"), "{position:?}");
        assert_eq!(transcript.position(&Stamped { at_s: 12.0, event: sample::evaluated(1) }), None);
    }

    #[test]
    fn a_line_fits_80_columns() {
        let mut plan = PlannedLength { rounds: 999_999, epochs: 999, ..PlannedLength::default() };
        let test = measured("test", 1e9, 1.0, Some(1.0));
        for epochs in [5, 999] {
            plan.epochs = epochs;
            let line = plan.line(&plan.epoch_label(epochs), &training(12.5, 1.0, 9e6));
            assert!(format!("{line} | {test}").len() <= 80, "{line} | {test}");
        }
    }

    #[test]
    fn the_training_column_is_as_wide_as_promised() {
        for (loss, accuracy, rate) in [(0.5, 1.0, 123_456.0), (f64::NAN, f64::NAN, f64::NAN), (1e9, 0.0, 0.1)]
        {
            assert_eq!(training(loss, accuracy, rate).len(), TRAINING_WIDTH);
        }
    }
}

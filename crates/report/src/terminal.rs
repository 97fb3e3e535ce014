use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::bars::Bars;
use crate::event::{Event, Stamped};
use crate::roster::Roster;
use crate::tensorboard::TensorBoard;
use crate::transcript::Transcript;

/// A log file or a pipe gets a line of progress this often at most.
const PROGRESS_EVERY_S: f64 = 10.0;

/// And the lines of its nodes this often.
const NODES_EVERY_S: f64 = 30.0;

/// How a run is shown while it goes on.
#[derive(Debug)]
pub enum View {
    /// A bar at the bottom of the terminal with a line per node below it, and lines that stay above it. On stderr.
    /// What moves is cleared when the run ends or the view is dropped, so a message of the program's own is printed
    /// after that.
    Bars(Bars),
    /// Only lines, for log files and pipes. On stderr.
    Lines(PlainLines),
    /// Every event as a line of JSON, for other programs. On stdout.
    Json(Json),
    /// Nothing but warnings, and which nodes are lost and back, on stderr.
    Quiet,
    /// Files for TensorBoard in the run folder.
    TensorBoard(Box<TensorBoard>),
}

impl View {
    /// The view that fits what was asked for, and whether stderr is a terminal. JSON is output, not talk: it is
    /// written even when all else is to be quiet.
    pub fn choose(quiet: bool, json: bool, is_terminal: bool) -> Self {
        match (quiet, json, is_terminal) {
            (_, true, _) => Self::json(io::stdout()),
            (true, ..) => Self::Quiet,
            (_, _, true) => Bars::on_stderr().map_or_else(|| Self::lines(io::stderr()), Self::Bars),
            _ => Self::lines(io::stderr()),
        }
    }

    /// Lines on something else than stderr.
    pub fn lines(out: impl Write + Send + 'static) -> Self {
        Self::Lines(PlainLines {
            out: Printer::new(out),
            transcript: Transcript::default(),
            shown_at_s: 0.0,
            nodes_at_s: 0.0,
        })
    }

    /// JSON on something else than stdout.
    pub fn json(out: impl Write + Send + 'static) -> Self {
        Self::Json(Json { out: Printer::new(out) })
    }

    /// Shows an event of the run in `folder`.
    pub fn show(&mut self, folder: &Path, stamped: &Stamped) {
        match self {
            Self::Bars(bars) => bars.show(folder, stamped),
            Self::Lines(lines) => lines.show(folder, stamped),
            Self::Json(json) => json.show(stamped),
            Self::TensorBoard(board) => board.show(folder, stamped),
            Self::Quiet => {
                if let Some(line) = alarm(stamped) {
                    Printer::new(io::stderr()).line(&line);
                }
            }
        }
    }
}

/// What also those want to know who want quiet: a run that has lost a node may take longer than it was given.
fn alarm(stamped: &Stamped) -> Option<String> {
    match &stamped.event {
        Event::Warned { message } => Some(format!("warning: {message}")),
        Event::NodeLost { .. } | Event::NodeBack { .. } => Roster::default().sentence(stamped),
        _ => None,
    }
}

/// See [`View::Lines`].
#[derive(Debug)]
pub struct PlainLines {
    out: Printer,
    transcript: Transcript,
    shown_at_s: f64,
    nodes_at_s: f64,
}

impl PlainLines {
    fn show(&mut self, folder: &Path, stamped: &Stamped) {
        let mut lines = self.transcript.lines(folder, stamped);
        if stamped.at_s - self.shown_at_s >= PROGRESS_EVERY_S {
            lines.extend(self.transcript.position(stamped).map(|position| position.line));
        }
        lines.extend(self.transcript.waiting(stamped));
        for line in &lines {
            self.out.line(line);
            self.shown_at_s = stamped.at_s;
        }
        if matches!(stamped.event, Event::Nodes { .. }) && stamped.at_s - self.nodes_at_s >= NODES_EVERY_S {
            self.nodes_at_s = stamped.at_s;
            self.transcript.nodes().iter().for_each(|line| self.out.line(line));
        }
    }
}

/// See [`View::Json`].
#[derive(Debug)]
pub struct Json {
    out: Printer,
}

impl Json {
    fn show(&mut self, stamped: &Stamped) {
        if let Ok(line) = serde_json::to_string(stamped) {
            self.out.line(&line);
        }
    }
}

/// Where lines are written.
pub(crate) struct Printer(Box<dyn Write + Send>);

impl Printer {
    pub(crate) fn new(out: impl Write + Send + 'static) -> Self {
        Self(Box::new(out))
    }

    /// A reader that went away, as `head` does, is no reason to end the run; so errors are let go.
    pub(crate) fn line(&mut self, text: &str) {
        let line = format!("{text}\n");
        let _ = self.0.write_all(line.as_bytes()).and_then(|()| self.0.flush());
    }
}

impl fmt::Debug for Printer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Printer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, Screen};

    fn show(view: &mut View, events: impl IntoIterator<Item = (f64, Event)>) {
        for (at_s, event) in events {
            view.show(Path::new("runs/today-fashion"), &Stamped { at_s, event });
        }
    }

    #[test]
    fn chooses_by_what_was_asked() {
        let check = |quiet, json, is_terminal, expect: fn(&View) -> bool| {
            assert!(expect(&View::choose(quiet, json, is_terminal)), "{quiet} {json} {is_terminal}");
        };
        check(false, false, false, |view| matches!(view, View::Lines(_)));
        check(false, true, false, |view| matches!(view, View::Json(_)));
        check(false, true, true, |view| matches!(view, View::Json(_)));
        check(true, false, true, |view| matches!(view, View::Quiet));
        check(true, true, true, |view| matches!(view, View::Json(_)));
    }

    #[test]
    fn quiet_is_not_silent() {
        let alarms = sample::events().into_iter().filter_map(|event| alarm(&Stamped { at_s: 1.0, event }));
        let alarms: Vec<_> = alarms.collect();
        let expect = [
            "pi4 (worker 4) was lost in round 118: silent for 5.0 s; round 119 goes on without it",
            "pi4 is back, 2 rounds behind",
        ];
        for expect in expect {
            assert!(alarms.iter().any(|alarm| alarm == expect), "{expect:?} in {alarms:#?}");
        }
        assert!(alarms.len() < sample::events().len() / 2, "{alarms:#?}");
    }

    #[test]
    fn lines_show_progress_now_and_then() {
        let check = |times: &[f64], expect: &[&str]| {
            let screen = Screen::default();
            let mut view = View::lines(screen.clone());
            show(&mut view, times.iter().map(|&at_s| (at_s, sample::progress(at_s as u64))));
            let text = screen.text();
            assert_eq!(text.lines().map(|line| &line[..10]).collect::<Vec<_>>(), expect);
        };
        check(&[1.0, 5.0, 9.9], &[]);
        check(&[1.0, 10.0, 11.0, 19.0, 20.0, 20.5, 45.0], &["round 10  ", "round 20  ", "round 45  "]);
    }

    #[test]
    fn lines_show_nodes_rarely() {
        let screen = Screen::default();
        let mut view = View::lines(screen.clone());
        let nodes = Event::Nodes { round: 1, nodes: vec![sample::node_line(1)] };
        show(&mut view, (1..=70).map(|at_s| (at_s as f64, nodes.clone())));
        assert_eq!(screen.text().matches("  pi1  worker 1 ").count(), 2, "{}", screen.text());
    }

    #[test]
    fn lines_say_what_is_waited_for() {
        let screen = Screen::default();
        let events = [sample::waiting(3, "2 workers"), sample::node_joined(4), sample::waiting(5, "")];
        show(&mut View::lines(screen.clone()), events.map(|event| (1.0, event)));
        let text = screen.text();
        let starts: Vec<_> = text.lines().map(|line| &line[..13]).collect();
        assert_eq!(starts, ["waiting for 2", "pi4 joined as"]);
    }

    #[test]
    fn lines_have_neither_colours_nor_trailing_blanks() {
        let screen = Screen::default();
        show(&mut View::lines(screen.clone()), (0..).map(|at| at as f64 * 11.0).zip(sample::events()));
        let text = screen.text();
        let below = text.split_once("threads)\n").map(|(_, below)| below);
        assert!(below.unwrap().starts_with("fashion\n  model     lenet5, 61,706 parameters\n"), "{text}");
        assert!(text.ends_with("\n  folder    runs/today-fashion\n"), "{text}");
        assert!(!text.contains('\x1b') && !text.contains(" \n"), "{text}");
    }

    #[test]
    fn json_is_the_log() {
        let screen = Screen::default();
        show(&mut View::json(screen.clone()), sample::events().into_iter().map(|event| (1.5, event)));
        let text = screen.text();
        let events = text.lines().map(|line| serde_json::from_str::<Stamped>(line).unwrap().event);
        assert_eq!(events.collect::<Vec<_>>(), sample::events());
    }
}

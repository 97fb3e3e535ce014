use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::event::{Event, Stamped};
use crate::roster;
use crate::terminal::Printer;
use crate::transcript::Transcript;

/// How often the sign that turns while the head waits is drawn.
const TURN_EVERY: Duration = Duration::from_millis(200);

/// See [`View::Bars`](crate::View::Bars).
#[derive(Debug)]
pub struct Bars {
    screen: MultiProgress,
    run: ProgressBar,
    /// A line per node. One bar with a text of many lines, so that all of them change at once.
    nodes: ProgressBar,
    /// While the head waits for nodes.
    waiting: Option<ProgressBar>,
    out: Printer,
    transcript: Transcript,
}

impl Bars {
    /// `None` on a terminal that cannot move its cursor back.
    pub(crate) fn on_stderr() -> Option<Self> {
        Self::on(ProgressDrawTarget::stderr(), Printer::new(io::stderr()))
    }

    /// What is written to `out` must show on the same terminal.
    fn on(target: ProgressDrawTarget, out: Printer) -> Option<Self> {
        let screen = MultiProgress::with_draw_target(target);
        let run = screen.add(ProgressBar::no_length());
        let style = ProgressStyle::with_template("{prefix} {bar:8.cyan/dim} {wide_msg}").ok()?;
        run.set_style(style.progress_chars("━━─"));
        let nodes = screen.add(ProgressBar::no_length());
        nodes.set_style(ProgressStyle::with_template("{msg}").ok()?);
        let bars = Self { screen, run, nodes, waiting: None, out, transcript: Transcript::default() };
        (!bars.screen.is_hidden()).then_some(bars)
    }

    pub(crate) fn show(&mut self, folder: &Path, stamped: &Stamped) {
        let lines = self.transcript.lines(folder, stamped);
        match &stamped.event {
            Event::Waiting { deadline_s, .. } => self.wait(&stamped.event, *deadline_s),
            Event::Started { .. } => self.begin(0, 0.0),
            Event::Resumed { round, epoch, .. } => self.begin(*round, *epoch),
            Event::Progress { .. } | Event::Interrupted { .. } => self.wait_no_more(),
            Event::Chosen { rounds, .. } => self.run.set_length(*rounds),
            Event::Nodes { .. } | Event::NodeLost { .. } => {
                self.nodes.set_message(self.transcript.nodes().join("\n"));
            }
            Event::Ended { .. } => self.clear(),
            _ => {}
        }
        if !lines.is_empty() {
            let (out, text) = (&mut self.out, lines.join("\n"));
            self.screen.suspend(|| out.line(&text));
        }
        if let Some(position) = self.transcript.position(stamped) {
            self.run.set_prefix(position.epoch);
            self.run.set_message(position.message);
            self.run.set_position(position.round);
        }
    }

    /// The bar before the first round, which may take a while to come.
    fn begin(&mut self, round: u64, epoch: f64) {
        self.wait_no_more();
        self.run.set_length(self.transcript.rounds());
        self.run.set_prefix(self.transcript.epoch(epoch));
        self.run.set_message("the first round is on its way");
        self.run.set_position(round);
    }

    fn wait(&mut self, event: &Event, deadline_s: f64) {
        self.wait_no_more();
        let Some(text) = roster::waiting(event) else { return };
        let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {waiting}") else { return };
        let countdown = move |state: &ProgressState, line: &mut dyn fmt::Write| {
            let left = (deadline_s - state.elapsed().as_secs_f64()).max(0.0);
            let _ = line.write_str(&roster::with_deadline(&text, left));
        };
        let waiting = self.screen.add(ProgressBar::new_spinner());
        waiting.set_style(style.with_key("waiting", countdown));
        waiting.tick();
        waiting.enable_steady_tick(TURN_EVERY);
        self.waiting = Some(waiting);
    }

    fn wait_no_more(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.finish_and_clear();
            self.screen.remove(&waiting);
        }
    }

    fn clear(&mut self) {
        self.wait_no_more();
        self.nodes.finish_and_clear();
        self.run.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pane::Pane;
    use crate::sample;

    fn scene() -> (Pane, Bars) {
        let pane = Pane::default();
        let target = ProgressDrawTarget::term_like(Box::new(pane.clone()));
        let bars = Bars::on(target, Printer::new(pane.clone())).unwrap();
        (pane, bars)
    }

    fn show(bars: &mut Bars, events: impl IntoIterator<Item = Event>) {
        for event in events {
            bars.show(Path::new("runs/today-fashion"), &Stamped { at_s: 1.0, event });
        }
    }

    fn nodes(count: u64) -> Event {
        Event::Nodes { round: 118, nodes: (1..=count).map(sample::node_line).collect() }
    }

    #[test]
    fn says_what_it_waits_for_until_the_run_starts() {
        let (pane, mut bars) = scene();
        show(&mut bars, [sample::waiting(2, "3 workers"), sample::node_joined(3)]);
        show(&mut bars, [sample::waiting(3, "2 workers")]);
        let lines = pane.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("pi3 joined as worker 3"), "{lines:?}");
        assert!(lines[1].contains(" waiting for 2 workers (3 of 5 joined, "), "{lines:?}");

        show(&mut bars, [sample::started()]);
        let lines = pane.lines();
        assert_eq!(lines[1], "fashion");
        assert_eq!(lines[lines.len() - 1], "epoch 1/5 ──────── the first round is on its way");
    }

    #[test]
    fn waits_in_the_middle_of_a_run() {
        let (pane, mut bars) = scene();
        show(&mut bars, [sample::started(), sample::progress(118), nodes(2), sample::waiting(4, "1 worker")]);
        assert!(pane.lines().last().unwrap().contains(" waiting for 1 worker (4 of 5"), "{:?}", pane.lines());
        show(&mut bars, [sample::waiting(5, "")]);
        assert!(pane.lines().last().unwrap().starts_with("  pi2 "), "{:?}", pane.lines());
    }

    #[test]
    fn nodes_stand_below_the_bar() {
        let (pane, mut bars) = scene();
        show(&mut bars, [sample::started(), sample::progress(118), nodes(3), nodes(3), sample::node_lost(2)]);
        let lines = pane.lines();
        let below: Vec<_> = lines[lines.len() - 3..].iter().map(|line| &line[..5]).collect();
        assert_eq!(below, ["epoch", "  pi1", "  pi3"]);
        show(&mut bars, [nodes(64)]);
        let lines = pane.lines();
        assert_eq!(lines.last().unwrap(), "  … and 48 more");
        assert!(lines[lines.len() - 18].starts_with("epoch 1/5 "), "{lines:?}");
    }

    #[test]
    fn the_bar_fits() {
        let (pane, mut bars) = scene();
        show(&mut bars, [sample::started(), sample::progress(2345)]);
        let expect = "epoch 5/5 ━━━━━━━━ 2,345/2,345   0.00s left  loss 0.5000  acc 81.25 %  12,345/s";
        assert_eq!(pane.lines().last().unwrap(), expect);
    }

    #[test]
    fn nothing_that_moves_is_left() {
        let last = |pane: &Pane| pane.lines().pop().unwrap();
        let (pane, mut bars) = scene();
        show(
            &mut bars,
            [sample::started(), sample::progress(118), nodes(20), sample::waiting(4, "1 worker")],
        );
        show(&mut bars, [Event::Ended { summary: Box::new(sample::summary()) }]);
        assert_eq!(last(&pane), "  folder    runs/today-fashion");
        assert!(!pane.lines().iter().any(|line| line.contains("pi1") || line.contains("waiting")));

        let (pane, mut bars) = scene();
        show(&mut bars, [sample::started(), nodes(20), sample::waiting(4, "1 worker")]);
        drop(bars);
        assert_eq!(last(&pane), "  plan      5 epochs × 469 = 2,345 rounds, seed 1234");
    }
}

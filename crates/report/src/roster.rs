use std::collections::BTreeMap;

use crate::event::{Event, NodeLine, Stamped};
use crate::number;

/// More lines than this push everything else off a terminal.
const LINES_AT_MOST: usize = 16;

/// What a line of a node has on a terminal of 80 columns.
const WIDTH: usize = 79;

/// What is left of a long name when the rest of the line needs the place.
const NAME_AT_LEAST: usize = 6;

/// The first few late gradients of a node are worth a line each; after that only every doubling is.
const LATE_LINES: u64 = 3;

/// The nodes of a run, and what is said about them. Pure, as the transcript that it belongs to.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// As the last event described them, without those lost since.
    nodes: Vec<NodeLine>,
    /// When that was, and how long a time it describes.
    at_s: f64,
    seconds: f64,
    /// By node, so far in all: the gradients dropped, and the events that said so.
    dropped: BTreeMap<u64, u64>,
    late: BTreeMap<u64, u64>,
}

impl Roster {
    /// Takes in an event and says in a sentence what happened to a node, where that is worth a line.
    pub(crate) fn sentence(&mut self, stamped: &Stamped) -> Option<String> {
        self.told(stamped).map(|sentence| plain(&sentence))
    }

    fn told(&mut self, stamped: &Stamped) -> Option<String> {
        match &stamped.event {
            Event::Started { .. } | Event::Resumed { .. } => self.at_s = stamped.at_s,
            Event::Nodes { nodes, .. } => self.replace(nodes, stamped.at_s),
            Event::NodeJoined { name, role, address, cores, threads, .. } => {
                let (cores, threads) =
                    (number::of((*cores).into(), "core"), number::of((*threads).into(), "thread"));
                return Some(format!("{name} joined as {role} from {address} ({cores}, {threads})"));
            }
            Event::NodeBack { name, missed, .. } => {
                return Some(format!("{name} is back, {} behind", number::of(*missed, "round")));
            }
            Event::NodeLost { node, name, role, round, reason, consequence } => {
                self.nodes.retain(|line| line.node != *node);
                let when = if *round == 0 {
                    "before the first round".into()
                } else {
                    format!("in round {}", number::count(*round))
                };
                return Some(format!("{name} ({role}) was lost {when}: {reason}; {consequence}"));
            }
            Event::NodeLate { node, name, round, reason } => {
                let times = self.late.entry(*node).or_default();
                *times += 1;
                return late(*times, name, *round, reason);
            }
            _ => {}
        }
        None
    }

    fn replace(&mut self, nodes: &[NodeLine], at_s: f64) {
        for node in nodes {
            *self.dropped.entry(node.node).or_default() += node.late;
        }
        self.seconds = at_s - self.at_s;
        self.at_s = at_s;
        self.nodes = nodes.to_vec();
    }

    /// A line per node, in columns.
    pub(crate) fn table(&self) -> Vec<String> {
        let shown = &self.nodes[..self.nodes.len().min(LINES_AT_MOST)];
        let mut lines = self.columns(shown, in_full, usize::MAX);
        let widest = |lines: &[String]| lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        if widest(&lines) > WIDTH {
            lines = self.columns(shown, number::speed, usize::MAX);
        }
        let excess = widest(&lines).saturating_sub(WIDTH);
        if excess > 0 {
            let names = shown.iter().map(|node| plain(&node.name).chars().count()).max().unwrap_or(0);
            lines = self.columns(shown, number::speed, names.saturating_sub(excess).max(NAME_AT_LEAST));
        }
        let more = self.nodes.len() - shown.len();
        if more > 0 {
            lines.push(format!("  … and {} more", number::count(more as u64)));
        }
        lines
    }

    fn columns(&self, nodes: &[NodeLine], speed: fn(f64) -> String, name_width: usize) -> Vec<String> {
        let rows: Vec<_> = nodes.iter().map(|node| self.cells(node, speed, name_width)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; CELLS] = std::array::from_fn(width);
        rows.iter().map(|row| aligned(row, &widths)).collect()
    }

    fn cells(&self, node: &NodeLine, speed: fn(f64) -> String, name_width: usize) -> [String; CELLS] {
        let waits = match (node.staleness, node.wait) {
            (Some(staleness), _) => format!("staleness {staleness:.1}"),
            (None, Some(wait)) => format!("waits {:>2.0} %", wait * 100.0),
            (None, None) => String::new(),
        };
        let dropped = self.dropped.get(&node.node).copied().unwrap_or(0);
        [
            cut(&plain(&node.name), name_width),
            plain(&node.role),
            speed(node.samples_per_s),
            waits,
            format!("↑ {}", self.per_second(node.sent_bytes)),
            format!("↓ {}", self.per_second(node.received_bytes)),
            if dropped > 0 { format!("{} late", number::count(dropped)) } else { String::new() },
        ]
    }

    /// As wide for `1.0 MB/s` as for `999 kB/s`, so that the arrows stand below one another.
    fn per_second(&self, bytes: u64) -> String {
        let text =
            if self.seconds > 0.0 { number::bytes((bytes as f64 / self.seconds) as u64) } else { "-".into() };
        format!("{text:>6}/s")
    }
}

fn in_full(samples_per_s: f64) -> String {
    format!("{} samples/s", number::rate(samples_per_s))
}

/// How many cells a line has: name, role, speed, waiting, sent, received, dropped.
const CELLS: usize = 7;

/// The one that is a number at its front, and so ends where the one above it ends.
const SPEED: usize = 2;

/// The cells in their columns; a column in which no line has anything takes no place.
fn aligned(cells: &[String; CELLS], widths: &[usize; CELLS]) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate().filter(|(_, (_, width))| **width > 0)
    {
        line.push_str("  ");
        line.push_str(&if column == SPEED { format!("{cell:>width$}") } else { format!("{cell:<width$}") });
    }
    line.truncate(line.trim_end().len());
    line
}

fn late(times: u64, name: &str, round: u64, reason: &str) -> Option<String> {
    let so_far =
        if times > LATE_LINES { format!(" ({} times)", number::count(times)) } else { String::new() };
    (times <= LATE_LINES || times.is_power_of_two())
        .then(|| format!("{name} is late in round {}{so_far}: {reason}", number::count(round)))
}

/// What the head waits for; `None` when nothing is missing any more. The time left is not part of it, because a
/// terminal counts it down.
pub(crate) fn waiting(event: &Event) -> Option<String> {
    let Event::Waiting { joined, wanted, missing, .. } = event else { return None };
    (!missing.is_empty()).then(|| format!("waiting for {missing} ({joined} of {wanted} joined"))
}

/// The same with the time that is left, which closes the bracket.
pub(crate) fn with_deadline(waiting: &str, seconds_left: f64) -> String {
    format!("{waiting}, {} left)", number::seconds(seconds_left))
}

/// Names and reasons come from other machines: nothing in them may move the cursor of this one.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// A name that fits: without its domain, and if that is not enough without its middle, because the machines of a lab
/// often differ at the end only.
fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let host: Vec<char> = name.split('.').next().unwrap_or(name).chars().collect();
    if host.len() <= width {
        return host.into_iter().collect();
    }
    let end = width.saturating_sub(1) / 2;
    let start = width.saturating_sub(1) - end;
    host[..start].iter().chain(&['…']).chain(&host[host.len() - end..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn sentences(events: impl IntoIterator<Item = Event>) -> Vec<String> {
        let mut roster = Roster::default();
        let told = events.into_iter().filter_map(|event| roster.sentence(&Stamped { at_s: 1.0, event }));
        told.collect()
    }

    /// The table two seconds after the start.
    fn table(nodes: Vec<NodeLine>) -> Vec<String> {
        let mut roster = Roster::default();
        roster.sentence(&Stamped { at_s: 8.0, event: sample::started() });
        roster.sentence(&Stamped { at_s: 10.0, event: Event::Nodes { round: 1, nodes } });
        roster.table()
    }

    #[test]
    fn what_happens_to_a_node_is_a_sentence() {
        let check = |event, expect: &str| assert_eq!(sentences([event]), [expect]);
        check(sample::node_joined(4), "pi4 joined as worker 4 from 10.0.0.4:41000 (4 cores, 3 threads)");
        check(
            sample::node_lost(4),
            "pi4 (worker 4) was lost in round 118: silent for 5.0 s; round 119 goes on without it",
        );
        check(
            sample::node_late(2, 1403),
            "pi2 is late in round 1,403: its gradient came after 4 others and was dropped",
        );
        let mut early = sample::node_lost(4);
        let Event::NodeLost { name, round, .. } = &mut early else { unreachable!() };
        (*name, *round) = ("pi\x1b[2J".into(), 0);
        check(
            early,
            "pi?[2J (worker 4) was lost before the first round: silent for 5.0 s; round 119 goes on without it",
        );
    }

    #[test]
    fn a_node_that_is_often_late_is_told_of_less_and_less() {
        let rounds = |node, times| (1..=times).map(move |round| sample::node_late(node, round));
        let told = sentences(rounds(1, 40).chain(rounds(2, 1)));
        let starts: Vec<_> = told.iter().filter_map(|line| line.split(':').next()).collect();
        let expect = [
            "pi1 is late in round 1",
            "pi1 is late in round 2",
            "pi1 is late in round 3",
            "pi1 is late in round 4 (4 times)",
            "pi1 is late in round 8 (8 times)",
            "pi1 is late in round 16 (16 times)",
            "pi1 is late in round 32 (32 times)",
            "pi2 is late in round 1",
        ];
        assert_eq!(starts, expect);
    }

    #[test]
    fn nodes_stand_in_columns() {
        let evaluator = NodeLine {
            role: "evaluator".into(),
            samples_per_s: f64::NAN,
            wait: None,
            sent_bytes: 120,
            received_bytes: 0,
            ..sample::node_line(10)
        };
        let expect = [
            "  pi1   worker 1   1,235 samples/s  waits 12 %  ↑ 6.2 MB/s  ↓ 2.2 MB/s",
            "  pi10  evaluator      - samples/s              ↑   60 B/s  ↓    0 B/s",
        ];
        assert_eq!(table(vec![sample::node_line(1), evaluator]), expect);
        let stale = NodeLine { wait: None, staleness: Some(1.5), late: 2, ..sample::node_line(1) };
        let expect = ["  pi1  worker 1  1,235 samples/s  staleness 1.5  ↑ 6.2 MB/s  ↓ 2.2 MB/s  2 late"];
        assert_eq!(table(vec![stale.clone()]), expect);
        let expect = ["  pi10  worker 1  1,235/s  staleness 1.5  ↑ 6.2 MB/s  ↓ 2.2 MB/s  2 late"];
        assert_eq!(table(vec![NodeLine { name: "pi10".into(), ..stale }]), expect);
    }

    #[test]
    fn a_line_fits_80_columns() {
        let check = |name: &str, role: &str, expect: &str| {
            let node = NodeLine {
                name: name.into(),
                role: role.into(),
                samples_per_s: 123_456.0,
                wait: None,
                staleness: Some(12.5),
                late: 12,
                ..sample::node_line(1)
            };
            let line = table(vec![node]).remove(0);
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert!(line.starts_with(expect), "{line}");
        };
        check("pi1", "worker 1", "  pi1  worker 1  123.5k/s  ");
        check("raspberry-1", "worker 12", "  ras…y-1  worker 12  123.5k/s  ");
        check("lab-12.example.org", "worker 1", "  lab-12  worker 1  ");
        check("raspberry-1.lab.example.org", "relay 1", "  rasp…ry-1  relay 1  123.5k/s  ");
    }

    #[test]
    fn only_so_many_are_shown() {
        let check = |count: u64, lines: usize, last: &str| {
            let table = table((1..=count).map(sample::node_line).collect());
            assert_eq!(table.len(), lines);
            assert!(table[lines - 1].starts_with(last), "{table:?}");
        };
        check(1, 1, "  pi1 ");
        check(16, 16, "  pi16 ");
        check(17, 17, "  … and 1 more");
        check(1064, 17, "  … and 1,048 more");
        assert_eq!(table(Vec::new()), [""; 0]);
    }

    #[test]
    fn dropped_gradients_add_up_and_the_lost_are_left_out() {
        let mut roster = Roster::default();
        let nodes = vec![NodeLine { late: 2, ..sample::node_line(1) }, sample::node_line(4)];
        for at_s in [1.0, 2.0] {
            roster.sentence(&Stamped { at_s, event: Event::Nodes { round: 1, nodes: nodes.clone() } });
        }
        assert!(roster.table()[0].ends_with("4 late"), "{:?}", roster.table());
        roster.sentence(&Stamped { at_s: 3.0, event: sample::node_lost(4) });
        assert_eq!(roster.table().len(), 1);
    }

    #[test]
    fn says_what_is_missing() {
        let check = |joined, missing, expect: Option<&str>| {
            let text = waiting(&sample::waiting(joined, missing)).map(|text| with_deadline(&text, 540.0));
            assert_eq!(text.as_deref(), expect);
        };
        check(3, "2 workers", Some("waiting for 2 workers (3 of 5 joined, 9m 00s left)"));
        check(5, "", None);
    }
}

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use bonfire_data::prepare::Meter;

use crate::terminal::{say, write};

/// How often a terminal is told, and how often a file.
const REDRAW: Duration = Duration::from_millis(200);
const RETELL: Duration = Duration::from_secs(30);

/// How wide the bar itself is.
const WIDTH: usize = 24;

/// Shows how far a preparation is, until it is told that all is done.
pub(crate) struct Bar<'a> {
    meter: &'a Meter,
    is_quiet: bool,
    over: Mutex<Option<Sender<()>>>,
    waits: Mutex<Option<Receiver<()>>>,
}

impl<'a> Bar<'a> {
    pub(crate) fn new(meter: &'a Meter, is_quiet: bool) -> Self {
        let (over, waits) = channel();
        Self { meter, is_quiet, over: Mutex::new(Some(over)), waits: Mutex::new(Some(waits)) }
    }

    /// Shows it, on a thread of its own.
    pub(crate) fn run(&self) {
        let waits = self.waits.lock().ok().and_then(|mut waits| waits.take());
        let (Some(waits), false) = (waits, self.is_quiet) else { return };
        let is_terminal = io::stderr().is_terminal();
        let start = Instant::now();
        while let Err(RecvTimeoutError::Timeout) =
            waits.recv_timeout(if is_terminal { REDRAW } else { RETELL })
        {
            let line = line(self.meter, start.elapsed());
            if is_terminal { write(&format!("\r{line}\x1b[K")) } else { say(&line) }
        }
        if is_terminal {
            write("\r\x1b[K");
        }
    }

    /// All is done.
    pub(crate) fn end(&self) {
        drop(self.over.lock().ok().and_then(|mut over| over.take()));
    }
}

fn line(meter: &Meter, elapsed: Duration) -> String {
    let share = meter.share();
    let filled = ((share * WIDTH as f64) as usize).min(WIDTH);
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(WIDTH - filled));
    let seconds = elapsed.as_secs_f64();
    let speed = match meter.input_bytes() {
        Some(bytes) => format!("  {:.0} MB/s", bytes as f64 / 1e6 / seconds.max(1e-3)),
        None => String::new(),
    };
    let left = match share {
        share if share > 0.01 => format!("  {} left", clock(seconds / share * (1.0 - share))),
        _ => String::new(),
    };
    format!("{} {bar} {:3.0} %{speed}{left}", meter.stage(), 100.0 * share)
}

/// Seconds as on a clock.
fn clock(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let line = line(&Meter::default(), Duration::from_secs(2));
        assert_eq!(line, format!("reading {}   0 %  0 MB/s", "░".repeat(WIDTH)));
        assert_eq!([0.2, 61.0, 3725.0].map(clock), ["0:01", "1:01", "1:02:05"]);
    }
}

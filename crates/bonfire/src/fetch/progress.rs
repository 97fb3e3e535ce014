use crate::terminal::{say, write};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How wide the bar itself is.
const WIDTH: usize = 24;

/// How often it is drawn.
const REDRAW: Duration = Duration::from_millis(100);

/// One line on the terminal that says how far a download is.
pub(super) struct DownloadBar {
    name: String,
    /// How much there is, if the server says.
    size: Option<u64>,
    /// How much was there before, and when the rest began.
    begun: (u64, Instant),
    drawn: Option<Instant>,
    is_visible: bool,
}

impl DownloadBar {
    pub(super) fn new(name: &str, had: u64, size: Option<u64>) -> Self {
        let is_visible = std::io::stderr().is_terminal();
        Self { name: name.to_owned(), size, begun: (had, Instant::now()), drawn: None, is_visible }
    }

    pub(super) fn show(&mut self, done: u64) {
        let is_due = self.drawn.is_none_or(|drawn| drawn.elapsed() > REDRAW) || Some(done) == self.size;
        if self.is_visible && is_due {
            self.drawn = Some(Instant::now());
            let (had, since) = self.begun;
            let line = line(&self.name, done, self.size, done.saturating_sub(had), since.elapsed());
            write(&format!("\r{line}\x1b[K"));
        }
    }
}

impl Drop for DownloadBar {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            say("");
        }
    }
}

fn line(name: &str, done: u64, size: Option<u64>, came: u64, elapsed: Duration) -> String {
    let speed = came as f64 / elapsed.as_secs_f64().max(1e-3) / 1e6;
    let done_mb = done as f64 / 1e6;
    match size.filter(|size| *size > 0) {
        None => format!("{name:<24} {done_mb:.1} MB  {speed:.1} MB/s"),
        Some(size) => {
            let share = (done as f64 / size as f64).min(1.0);
            let filled = (share * WIDTH as f64) as usize;
            let bar = format!("{}{}", "█".repeat(filled), "░".repeat(WIDTH - filled));
            let size_mb = size as f64 / 1e6;
            format!(
                "{name:<24} {bar} {:3.0} %  {done_mb:.1} of {size_mb:.1} MB  {speed:.1} MB/s",
                100.0 * share
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let found = line("a.gz", 3_000_000, Some(6_000_000), 1_000_000, Duration::from_secs(2));
        let bar = format!("{}{}", "█".repeat(12), "░".repeat(12));
        assert_eq!(found, format!("a.gz                     {bar}  50 %  3.0 of 6.0 MB  0.5 MB/s"));
        assert!(line("a.gz", 3_000_000, None, 0, Duration::ZERO).contains("3.0 MB"));
    }
}

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When something last came from the peer. Who does not listen, because its sink is busy, hears nothing; that is no
/// silence.
#[derive(Debug)]
pub(super) struct Hearing {
    start: Instant,
    heard_us: AtomicU64,
    listens: AtomicBool,
}

impl Hearing {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), heard_us: AtomicU64::new(0), listens: AtomicBool::new(false) }
    }

    /// Waits for the socket, again if a signal came between.
    pub(super) fn listen(&self, mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        self.beat(Instant::now());
        self.listens.store(true, Ordering::Release);
        let came = loop {
            match read() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                came => break came,
            }
        };
        self.listens.store(false, Ordering::Release);
        came
    }

    pub(super) fn beat(&self, now: Instant) {
        let us = now.saturating_duration_since(self.start).as_micros() as u64;
        self.heard_us.store(us, Ordering::Release);
    }

    /// Since when it has listened and heard nothing.
    pub(super) fn silent_since(&self) -> Option<Instant> {
        let heard = self.start + Duration::from_micros(self.heard_us.load(Ordering::Acquire));
        self.listens.load(Ordering::Acquire).then_some(heard)
    }
}

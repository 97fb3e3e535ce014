use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::frame::{Frame, FrameError};
use crate::link::{Closed, FrameCounter, Incoming, LinkTraffic, MAX_PAYLOAD_BYTES, Outbox, Sink};

/// Two ends in one process. Sending calls the other side's sink, in the sender's thread; a sink that sends on its own
/// link in turn must therefore not wait for its own answer.
pub fn memory_link(a: Sink, b: Sink) -> (Outbox, Outbox) {
    let to_a = Arc::new(Direction::new(a));
    let to_b = Arc::new(Direction::new(b));
    let end_a = MemoryEnd { out: Arc::clone(&to_b), back: Arc::clone(&to_a) };
    let end_b = MemoryEnd { out: to_a, back: to_b };
    (Outbox::memory(end_a), Outbox::memory(end_b))
}

/// One side of a memory link.
pub(crate) struct MemoryEnd {
    out: Arc<Direction>,
    back: Arc<Direction>,
}

/// One direction of a memory link.
struct Direction {
    /// None once it has heard that the link is closed.
    sink: Mutex<Option<Sink>>,
    /// Why nothing may come any more.
    over: OnceLock<String>,
    count: FrameCounter,
    payload_limit: AtomicUsize,
}

impl MemoryEnd {
    pub(crate) fn send(&self, frame: Frame) -> Result<(), Closed> {
        let limit = self.out.payload_limit.load(Ordering::Relaxed);
        if frame.payload.len() > limit {
            let malformed = FrameError::TooLarge { bytes: frame.payload.len() as u64, limit };
            self.end(
                &format!("the other side refused {malformed}"),
                &format!("the other side sent {malformed}"),
            );
            return Err(Closed);
        }
        let sent = self.out.send(frame);
        self.out.finish();
        sent
    }

    pub(crate) fn close(&self) {
        self.end("closed here", "the other side closed the link");
    }

    pub(crate) fn abort(&self, why: &str) {
        self.end(why, "the connection closed");
    }

    pub(crate) fn traffic(&self) -> LinkTraffic {
        LinkTraffic::of(&self.out.count, &self.back.count)
    }

    pub(crate) fn accept_payloads_up_to(&self, bytes: usize) {
        self.back.payload_limit.store(bytes, Ordering::Relaxed);
    }

    fn end(&self, here: &str, there: &str) {
        // Whoever ends the link first says why; both directions end together.
        if self.out.over.set(there.to_owned()).is_ok() {
            let _ = self.back.over.set(here.to_owned());
        }
        self.out.finish();
        self.back.finish();
    }
}

impl Direction {
    fn new(sink: Sink) -> Self {
        Self {
            sink: Mutex::new(Some(sink)),
            over: OnceLock::new(),
            count: FrameCounter::default(),
            payload_limit: AtomicUsize::new(MAX_PAYLOAD_BYTES),
        }
    }

    fn send(&self, frame: Frame) -> Result<(), Closed> {
        let Ok(mut place) = self.sink.lock() else { return Err(Closed) };
        let Some(sink) = place.as_mut().filter(|_| self.over.get().is_none()) else { return Err(Closed) };
        self.count.add(frame.wire_len());
        sink.take(Incoming::Frame(frame));
        Ok(())
    }

    /// Tells the sink that the link is over, if it is and the sink does not know. A sink that is busy is told by the
    /// sender that keeps it busy, which may be this very thread, further up.
    fn finish(&self) {
        let Some(why) = self.over.get() else { return };
        let sink = self.sink.try_lock().ok().and_then(|mut place| place.take());
        if let Some(mut sink) = sink {
            sink.take(Incoming::Closed(why.clone()));
        }
    }
}

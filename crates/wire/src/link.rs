use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::frame::Frame;
use crate::grpc::GrpcEnd;
use crate::memory::MemoryEnd;

/// What comes over a link.
#[derive(Debug)]
pub enum Incoming {
    /// The other side said something.
    Frame(Frame),
    /// The link is over, and why, in words. The last that comes.
    Closed(String),
}

/// Where a link's incoming frames go: called in order, by one thread at a time. Any closure that takes them is one.
pub trait Inlet: Send {
    /// Takes what came. It may block. What the other side sends then waits there; no other link is the slower for it.
    /// [`Incoming::Closed`] comes exactly once, and last.
    fn take(&mut self, incoming: Incoming);

    /// Takes a frame if it need not block for that, or gives it back. Then it comes again by [`take`](Self::take). What
    /// is taken here saves the link a hand-over to another thread.
    fn offer(&mut self, frame: Frame) -> Option<Frame> {
        Some(frame)
    }
}

impl<F: FnMut(Incoming) + Send> Inlet for F {
    fn take(&mut self, incoming: Incoming) {
        self(incoming);
    }
}

/// An inlet of one's own.
pub type Sink = Box<dyn Inlet>;

/// The link is gone: nothing can be sent any more. Its sink hears why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the link is closed")
    }
}

impl std::error::Error for Closed {}

/// What went over a link so far, as bytes of frames on the wire: headers and payloads, without HTTP/2 and TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTraffic {
    /// Bytes given to the link.
    pub sent_bytes: u64,
    /// Bytes of frames that came whole.
    pub received_bytes: u64,
    /// Frames given to the link.
    pub sent_frames: u64,
    /// Frames that came.
    pub received_frames: u64,
}

/// How long one side of a link waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection is up: reached, encrypted, and let in.
    pub handshake: Duration,
    /// Until a peer from which nothing comes, not even the answer to a ping, counts as lost.
    pub silence: Duration,
    /// Until a peer that takes none of the frames that wait for it counts as lost.
    pub patience: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            silence: Duration::from_secs(5),
            patience: Duration::from_secs(300),
        }
    }
}

/// The sending end of a link. When the last clone is dropped, the link closes as by [`Outbox::close`].
#[derive(Clone)]
pub struct Outbox {
    end: Arc<LinkEnd>,
}

enum LinkEnd {
    Memory(MemoryEnd),
    Grpc(Arc<GrpcEnd>),
}

impl Outbox {
    pub(crate) fn memory(end: MemoryEnd) -> Self {
        Self { end: Arc::new(LinkEnd::Memory(end)) }
    }

    pub(crate) fn grpc(end: Arc<GrpcEnd>) -> Self {
        Self { end: Arc::new(LinkEnd::Grpc(end)) }
    }

    /// Sends a frame, after those that were sent before. Between processes this never waits for the other side: what
    /// it does not take yet waits in the link, and shares its payload with the sender. The link is lost when the other
    /// side takes none of what waits for the link's patience, or when more waits than [`MAX_WAITING_BYTES`] or
    /// [`MAX_WAITING_FRAMES`]. So nothing slows a sender down: one with much to send lets the other side ask for it.
    /// Within a process, the other side's sink is called.
    pub fn send(&self, frame: impl Into<Frame>) -> Result<(), Closed> {
        match &*self.end {
            LinkEnd::Memory(end) => end.send(frame.into()),
            LinkEnd::Grpc(end) => end.send(frame.into()),
        }
    }

    /// Closes the link after what was sent: the other side gets all of it, and then [`Incoming::Closed`]. What it had
    /// sent until then still comes. Does not wait for any of this; the own sink's `Closed` says that it has happened.
    pub fn close(&self) {
        match &*self.end {
            LinkEnd::Memory(end) => end.close(),
            LinkEnd::Grpc(end) => end.close(),
        }
    }

    /// Ends the link at once, whatever is on its way. The own sink hears this reason.
    pub fn abort(&self, why: &str) {
        match &*self.end {
            LinkEnd::Memory(end) => end.abort(why),
            LinkEnd::Grpc(end) => end.abort(why),
        }
    }

    /// What went over the link so far.
    pub fn traffic(&self) -> LinkTraffic {
        match &*self.end {
            LinkEnd::Memory(end) => end.traffic(),
            LinkEnd::Grpc(end) => end.traffic(),
        }
    }

    /// The other side's address; `memory` when it is in this process.
    pub fn peer(&self) -> &str {
        match &*self.end {
            LinkEnd::Memory(_) => "memory",
            LinkEnd::Grpc(end) => end.peer(),
        }
    }

    /// From now on, payloads up to this size may come; a larger one ends the link. A peer that came to a listener
    /// starts with 64 KiB, until its owner knows who it is; others with 1 GiB, the largest of all.
    pub fn accept_payloads_up_to(&self, bytes: usize) {
        let bytes = bytes.min(MAX_PAYLOAD_BYTES);
        match &*self.end {
            LinkEnd::Memory(end) => end.accept_payloads_up_to(bytes),
            LinkEnd::Grpc(end) => end.accept_payloads_up_to(bytes),
        }
    }
}

/// The largest payload that is taken from a peer that has just come.
pub(crate) const FIRST_PAYLOAD_BYTES: usize = 64 << 10;

/// The largest payload of all.
pub(crate) const MAX_PAYLOAD_BYTES: usize = 1 << 30;

/// How many bytes of frames may wait for the other side of a link.
pub const MAX_WAITING_BYTES: u64 = 8 << 30;

/// How many frames may wait for the other side of a link.
pub const MAX_WAITING_FRAMES: usize = 1 << 20;

impl Drop for LinkEnd {
    fn drop(&mut self) {
        match self {
            Self::Memory(end) => end.close(),
            Self::Grpc(end) => end.close(),
        }
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("peer", &self.peer()).field("traffic", &self.traffic()).finish()
    }
}

/// One direction of a [`LinkTraffic`], counted by whoever moves the frames.
#[derive(Debug, Default)]
pub(crate) struct FrameCounter {
    bytes: AtomicU64,
    frames: AtomicU64,
}

impl FrameCounter {
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.frames.fetch_add(1, Ordering::Relaxed);
    }
}

impl LinkTraffic {
    pub(crate) fn of(sent: &FrameCounter, received: &FrameCounter) -> Self {
        Self {
            sent_bytes: sent.bytes.load(Ordering::Relaxed),
            received_bytes: received.bytes.load(Ordering::Relaxed),
            sent_frames: sent.frames.load(Ordering::Relaxed),
            received_frames: received.frames.load(Ordering::Relaxed),
        }
    }
}

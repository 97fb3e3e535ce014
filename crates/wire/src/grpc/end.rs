use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use h2::{PingPong, SendStream};
use http::{HeaderMap, HeaderValue};
use tokio::sync::Notify;

use super::outgoing::{FrameBytes, Outgoing, Side, Unsent};
use super::pulse::Pulse;
use super::status::GrpcStatus;
use crate::frame::{Frame, FrameError};
use crate::link::{Closed, FrameCounter, LinkTraffic, Timeouts};

/// One side of a link over gRPC, shared by those who send on it, those who read it, and the task that moves its bytes.
/// Each frame has one hand-over, to or from the tasks that have the socket and the HTTP/2 stream: nobody else touches
/// these.
#[derive(Debug)]
pub(crate) struct GrpcEnd {
    peer: String,
    patience: Duration,
    sent: FrameCounter,
    received: FrameCounter,
    payload_limit: AtomicUsize,
    outgoing: Outgoing,
    fate: Arc<Fate>,
}

/// How a link ends.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// Why it was broken off, if it was.
    why: OnceLock<String>,
    cut: Notify,
    /// All has come that will come.
    done: Notify,
}

impl Fate {
    /// Breaks the link off. The first reason stands.
    pub(crate) fn cut(&self, why: String) {
        let _ = self.why.set(why);
        self.cut.notify_one();
    }
}

impl GrpcEnd {
    pub(crate) fn new(
        peer: String,
        side: Side,
        timeouts: Timeouts,
        payload_limit: usize,
        stream: SendStream<FrameBytes>,
        fate: Arc<Fate>,
    ) -> Self {
        Self {
            peer,
            patience: timeouts.patience,
            sent: FrameCounter::default(),
            received: FrameCounter::default(),
            payload_limit: AtomicUsize::new(payload_limit),
            outgoing: Outgoing::new(side, stream),
            fate,
        }
    }

    pub(crate) fn send(&self, frame: Frame) -> Result<(), Closed> {
        if self.is_cut() {
            return Err(Closed);
        }
        let head = frame.encode_head();
        let len = head.len() + frame.payload.len();
        match self.outgoing.send(head.chain(frame.payload)) {
            Ok(()) => {
                self.sent.add(len);
                Ok(())
            }
            Err(Unsent::Closed) => Err(Closed),
            Err(Unsent::Full { frames, bytes }) => {
                let mib = bytes >> 20;
                self.fate.cut(format!("fell too far behind: {frames} frames of {mib} MiB wait for it"));
                Err(Closed)
            }
        }
    }

    pub(crate) fn close(&self) {
        self.outgoing.finish(GrpcStatus::Ok, "");
    }

    pub(crate) fn abort(&self, why: &str) {
        self.fate.cut(why.to_owned());
    }

    pub(crate) fn traffic(&self) -> LinkTraffic {
        LinkTraffic::of(&self.sent, &self.received)
    }

    pub(crate) fn peer(&self) -> &str {
        &self.peer
    }

    pub(crate) fn accept_payloads_up_to(&self, bytes: usize) {
        self.payload_limit.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn payload_limit(&self) -> usize {
        self.payload_limit.load(Ordering::Relaxed)
    }

    /// Whether it was broken off.
    pub(super) fn is_cut(&self) -> bool {
        self.fate.why.get().is_some()
    }

    pub(super) fn has_received(&self, bytes: usize) {
        self.received.add(bytes);
    }

    /// All has come that will come.
    pub(super) fn is_read(&self) {
        self.fate.done.notify_one();
    }

    /// Tells the peer that it has sent no frame. Returns words for it.
    pub(super) fn refuse(&self, malformed: &FrameError) -> String {
        self.outgoing.finish(GrpcStatus::of(malformed), &malformed.to_string());
        format!("the other side sent {malformed}")
    }
}

impl GrpcEnd {
    pub(super) fn broken_off(&self, error: Option<&h2::Error>) -> String {
        match self.fate.why.get() {
            Some(why) => why.clone(),
            None if error.is_some_and(h2::Error::is_reset) => "the other side broke the link off".to_owned(),
            None => "the connection closed".to_owned(),
        }
    }

    /// The other side's half has ended in order.
    pub(super) fn over(&self, trailers: Option<&HeaderMap>) -> String {
        if let Some(why) = self.fate.why.get() {
            return why.clone();
        }
        match trailers {
            Some(trailers) if GrpcStatus::is_failure(trailers) => {
                format!("the other side refused {}", GrpcStatus::message(trailers))
            }
            _ if self.outgoing.is_closed() => "closed here".to_owned(),
            _ => "the other side closed the link".to_owned(),
        }
    }
}

/// Moves a connection's bytes until the link is over, the peer is silent or takes nothing, or someone has had enough of
/// it.
pub(crate) async fn drive(
    advance: impl FnMut(&mut Context<'_>) -> Poll<()>,
    pulse: Pulse,
    pings: PingPong,
    end: Arc<GrpcEnd>,
    silence: Duration,
) {
    let GrpcEnd { outgoing, fate, patience, .. } = &*end;
    let _until_dropped = Driven(outgoing);
    tokio::select! {
        biased;
        // What waits is moved first, and written by the connection right away.
        why = outgoing.move_waiting(*patience) => fate.cut(why),
        () = poll_fn(advance) => {}
        () = fate.cut.notified() => {}
        why = pulse.watch(pings, silence) => fate.cut(why),
        // The caller closes the connection when it has heard all; it need not be waited for without end.
        () = async {
            fate.done.notified().await;
            outgoing.is_drained().await;
            tokio::time::sleep(silence).await;
        } => {}
    }
}

/// An outgoing half whose frames are moved as long as this lives.
struct Driven<'a>(&'a Outgoing);

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        self.0.discard();
    }
}

/// The value of a header, if it is text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(HeaderValue::to_str)?.ok()
}

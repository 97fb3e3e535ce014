use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, thread};

use bytes::{Buf, Bytes};
use h2::{PingPong, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue};
use tokio::sync::Notify;

use super::arrivals::{Arrival, Arrivals};
use super::outgoing::{FrameBytes, Outgoing, Side, Unsent};
use super::pulse::Pulse;
use super::status::GrpcStatus;
use crate::frame::{Decoder, Frame, FrameError};
use crate::link::{Closed, FrameCounter, Incoming, LinkTraffic, Sink, Timeouts};
use crate::pool::PayloadPool;

/// One side of a link over gRPC, shared by those who send on it, the thread that reads it, and the task that moves its
/// bytes. Each frame has one hand-over, to or from the tasks that have the socket and the HTTP/2 stream: nobody else
/// touches these.
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
        if self.fate.why.get().is_some() {
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
}

/// Starts the thread that reads a link. It has its own because a sink may block; the sink is made in it, too. To be
/// called where tasks can be spawned.
pub(crate) fn start_reader(
    end: Arc<GrpcEnd>,
    stream: RecvStream,
    pool: PayloadPool,
    sink: impl FnOnce() -> Sink + Send + 'static,
) -> io::Result<()> {
    let arrivals = Arrivals::of(stream);
    let reader = move || {
        let mut sink = sink();
        let why = read(&end, arrivals, pool, &mut sink);
        end.close();
        end.fate.done.notify_one();
        sink(Incoming::Closed(why));
    };
    thread::Builder::new().name("wire reader".to_owned()).spawn(reader).map(drop)
}

/// Gives the sink every frame that comes. Returns why no more come.
fn read(end: &GrpcEnd, arrivals: Arrivals, pool: PayloadPool, sink: &mut Sink) -> String {
    let mut decoder = Decoder::new(pool);
    loop {
        match arrivals.next() {
            Some(Arrival::Bytes(mut bytes)) => {
                let len = bytes.len();
                if let Err(malformed) = deliver(end, &mut decoder, &mut bytes, sink) {
                    end.outgoing.finish(GrpcStatus::of(&malformed), &malformed.to_string());
                    return format!("the other side sent {malformed}");
                }
                // Only now may the peer send more, so a sink that blocks makes it wait.
                arrivals.release(len);
            }
            Some(Arrival::End(Err(error))) => return end.broken_off(Some(&error)),
            Some(Arrival::End(Ok(_))) if !decoder.is_between_frames() => {
                return "the link ended within a frame".to_owned();
            }
            Some(Arrival::End(Ok(trailers))) => return end.over(trailers.as_ref()),
            None => return end.broken_off(None),
        }
    }
}

fn deliver(
    end: &GrpcEnd,
    decoder: &mut Decoder,
    bytes: &mut Bytes,
    sink: &mut Sink,
) -> Result<(), FrameError> {
    while let Some((frame, len)) = decoder.next(bytes, end.payload_limit.load(Ordering::Relaxed))? {
        if end.fate.why.get().is_some() {
            // Who aborts a link wants no more of it.
            bytes.clear();
            return Ok(());
        }
        end.received.add(len);
        sink(Incoming::Frame(frame));
    }
    Ok(())
}

impl GrpcEnd {
    fn broken_off(&self, error: Option<&h2::Error>) -> String {
        match self.fate.why.get() {
            Some(why) => why.clone(),
            None if error.is_some_and(h2::Error::is_reset) => "the other side broke the link off".to_owned(),
            None => "the connection closed".to_owned(),
        }
    }

    /// The other side's half has ended in order.
    fn over(&self, trailers: Option<&HeaderMap>) -> String {
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

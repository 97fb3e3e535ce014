use std::net::{Shutdown, TcpStream};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Buf;
use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until};

use super::handshake::Channel;
use super::hearing::Hearing;
use super::incoming::Source;
use super::outgoing::Outgoing;
use super::sign::{End, Signs};
use crate::frame::{Decoder, Frame, FrameError};
use crate::identity::has_aes;
use crate::link::{Closed, FrameCounter, Incoming, LinkTraffic, Sink, Timeouts, Unsent};
use crate::pool::PayloadPool;

/// One side of a direct link, shared by those who send on it, the two threads that read and write it, and the task that
/// watches it. Frames go from the sender's thread straight into the socket while it takes them, and from the socket
/// straight into the memory in which the sink gets them.
#[derive(Debug)]
pub(crate) struct DirectEnd {
    peer: String,
    timeouts: Timeouts,
    sent: FrameCounter,
    received: FrameCounter,
    payload_limit: AtomicUsize,
    socket: Arc<TcpStream>,
    hearing: Arc<Hearing>,
    outgoing: Outgoing,
    /// Why the link was broken off, if it was.
    why: OnceLock<String>,
    /// The link is over, one way or the other.
    over: Notify,
}

/// How long a write may take before it is looked whether it shall go on.
const WRITE_TURN: Duration = Duration::from_millis(100);

/// How long a link that has ended keeps its socket.
const LINGER: Duration = Duration::from_secs(1);

impl DirectEnd {
    /// Makes a link of a connection, and starts its threads. The sink is made in the reader's.
    pub(crate) fn start(
        peer: String,
        channel: Channel<TcpStream>,
        timeouts: Timeouts,
        payload_limit: usize,
        pool: PayloadPool,
        sink: impl FnOnce(Arc<Self>) -> Sink + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let Channel { io: socket, keys, came, .. } = channel;
        socket.set_nonblocking(false)?;
        socket.set_write_timeout(Some(WRITE_TURN))?;
        let (socket, hearing) = (Arc::new(socket), Arc::new(Hearing::new()));
        let (sealer, opener) = keys.unzip();
        // Where sealing takes long, and there are cores to spare, it is not for the thread that computes.
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let seals_apart = sealer.is_some() && !has_aes() && cores > 1;
        let end = Arc::new(Self {
            peer,
            timeouts,
            sent: FrameCounter::default(),
            received: FrameCounter::default(),
            payload_limit: AtomicUsize::new(payload_limit),
            outgoing: Outgoing::new(Arc::clone(&socket), sealer, seals_apart),
            socket: Arc::clone(&socket),
            hearing: Arc::clone(&hearing),
            why: OnceLock::new(),
            over: Notify::new(),
        });
        let source = Source::new(socket, hearing, opener, &came);
        let writer = Arc::clone(&end);
        let write = move || writer.outgoing.move_waiting();
        thread::Builder::new().name("wire writer".to_owned()).spawn(write)?;
        let reader = Arc::clone(&end);
        let read = move || {
            let sink = sink(Arc::clone(&reader));
            reader.read(source, pool, sink);
        };
        let started = thread::Builder::new().name("wire reader".to_owned()).spawn(read);
        started.inspect_err(|error| end.cut(error.to_string()))?;
        Ok(end)
    }

    pub(crate) fn send(&self, frame: Frame) -> Result<(), Closed> {
        if self.why.get().is_some() {
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
            Err(full) => {
                self.cut(full.to_string());
                Err(Closed)
            }
        }
    }

    pub(crate) fn close(&self) {
        self.outgoing.finish(None);
    }

    pub(crate) fn abort(&self, why: &str) {
        self.cut(why.to_owned());
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

    /// Breaks the link off. The first reason stands.
    fn cut(&self, why: String) {
        let _ = self.why.set(why);
        self.shut();
    }

    fn shut(&self) {
        // An error means that it is shut already.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.outgoing.discard();
        self.over.notify_one();
    }
}

/// Why no more frames come.
enum Ending {
    End(End),
    /// In the middle, without a word.
    Gone,
    Malformed(FrameError),
}

impl From<io::Error> for Ending {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<FrameError> for Ending {
    fn from(error: FrameError) -> Self {
        Self::Malformed(error)
    }
}

impl DirectEnd {
    /// Gives the sink every frame that comes, and at the end why no more do.
    fn read(&self, mut source: Source, pool: PayloadPool, mut sink: Sink) {
        let ending = self.deliver(&mut source, pool, &mut sink);
        let was_closed = self.outgoing.is_closed();
        let why = match &ending {
            _ if self.why.get().is_some() => self.why.get().cloned().unwrap_or_default(),
            Ending::End(End::InOrder) if was_closed => "closed here".to_owned(),
            Ending::End(End::InOrder) => "the other side closed the link".to_owned(),
            Ending::End(End::Refused(what)) => format!("the other side refused {what}"),
            Ending::End(End::Garbled) => "the other side sent a malformed frame: no such sign".to_owned(),
            Ending::Malformed(malformed) => format!("the other side sent {malformed}"),
            Ending::Gone => "the connection closed".to_owned(),
        };
        match &ending {
            Ending::Gone => self.shut(),
            Ending::Malformed(malformed) => self.outgoing.finish(Some(&malformed.to_string())),
            Ending::End(_) => self.outgoing.finish(None),
        }
        sink(Incoming::Closed(why));
        drop(sink);
        self.over.notify_one();
        if matches!(ending, Ending::Malformed(_)) {
            // What is not read when a socket closes takes what was said back with it.
            while matches!(source.ahead(), Ok([_, ..])) {
                let len = source.ahead().map_or(0, <[u8]>::len);
                source.take(len);
            }
        }
    }

    fn deliver(&self, source: &mut Source, pool: PayloadPool, sink: &mut Sink) -> Ending {
        let (mut decoder, mut signs) = (Decoder::new(pool), Signs::default());
        loop {
            if let Err(ending) = self.hear(source, &mut decoder, &mut signs, sink) {
                return ending;
            }
        }
    }

    /// Reads once, and delivers what came of it.
    fn hear(
        &self,
        source: &mut Source,
        decoder: &mut Decoder,
        signs: &mut Signs,
        sink: &mut Sink,
    ) -> Result<(), Ending> {
        let mut used = 0;
        if source.is_open()
            && let Some(place) = decoder.place()
        {
            let n = source.read_into(place)?.ok_or(Ending::Gone)?;
            decoder.placed(n);
            self.next(decoder, &mut &[][..], sink)?;
        } else {
            let ahead = source.ahead()?;
            if ahead.is_empty() {
                return Err(Ending::Gone);
            }
            let mut rest = ahead;
            if decoder.is_between_frames()
                && let ControlFlow::Break(end) = signs.take(&mut rest)
            {
                return Err(Ending::End(end));
            }
            // One frame at a time: a sign may follow it.
            self.next(decoder, &mut rest, sink)?;
            used = ahead.len() - rest.len();
        }
        source.take(used);
        Ok(())
    }

    /// Delivers a frame if it is whole.
    fn next(&self, decoder: &mut Decoder, bytes: &mut &[u8], sink: &mut Sink) -> Result<(), Ending> {
        let limit = self.payload_limit.load(Ordering::Relaxed);
        if let Some((frame, len)) = decoder.next(bytes, limit)? {
            if self.why.get().is_some() {
                // Who aborts a link wants no more of it.
                return Err(Ending::Gone);
            }
            self.received.add(len);
            sink(Incoming::Frame(frame));
        }
        Ok(())
    }

    /// Sees that both sides hear each other, and that the other one takes what waits for it, until the link is over.
    pub(crate) async fn watch(self: Arc<Self>) {
        let _until_dropped = Watched(&self);
        let Timeouts { silence, patience, .. } = self.timeouts;
        let interval = silence.min(patience) / 5;
        let (mut looked, mut has_ended) = (Instant::now(), false);
        loop {
            let next = looked + interval;
            tokio::select! {
                () = sleep_until(next.into()) => {}
                () = self.over.notified() => has_ended = true,
            }
            if self.why.get().is_some() {
                return;
            }
            if has_ended && self.outgoing.is_over() {
                // The other side may have to hear something yet, and hangs up by itself.
                return sleep(silence.min(LINGER)).await;
            }
            let now = Instant::now();
            if now > next + interval {
                // It was this process that stood still: what the peer sent meanwhile is yet to be read.
                self.hearing.beat(now);
            }
            if self.hearing.silent_since().is_some_and(|since| now >= since + silence) {
                return self.cut(format!("silent for {:.1} s", silence.as_secs_f64()));
            }
            if self.outgoing.stuck_since().is_some_and(|since| now >= since + patience) {
                return self.cut(format!("took no frame for {:.1} s", patience.as_secs_f64()));
            }
            self.outgoing.show_life();
            looked = now;
        }
    }
}

/// A link that is shut when nobody watches it any more.
struct Watched<'a>(&'a DirectEnd);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.shut();
    }
}
